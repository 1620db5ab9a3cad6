// Somebody else's use of Xbyak, in the same program: plain namespace, exceptions as the user likes
// (here: none).
#define XBYAK_NO_EXCEPTION
#if defined(__GNUC__)
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wsign-conversion"
#pragma GCC diagnostic ignored "-Wshadow"
#pragma GCC diagnostic ignored "-Wold-style-cast"
#pragma GCC diagnostic ignored "-Wpedantic"
#endif
#include <xbyak/xbyak.h>

int plain_xbyak_sum(int a, int b);
int plain_xbyak_error();

int plain_xbyak_sum(int a, int b) {
  Xbyak::CodeGenerator g(4096, Xbyak::DontSetProtectRWE);
  g.lea(g.eax, g.ptr[g.rdi + g.rsi]);
  g.ret();
  g.setProtectModeRE();
  int const sum = g.getCode<int (*)(int, int)>()(a, b);
  g.setProtectModeRW();
  return sum;
}

int plain_xbyak_error() {
  Xbyak::ClearError();
  Xbyak::CodeGenerator g(16, Xbyak::DontSetProtectRWE);
  for (int i = 0; i < 100; ++i) g.nop();
  int const error = Xbyak::GetError();
  Xbyak::ClearError();
  return error;
}
