// The other Xbyak, as oneDNN compiles it: same namespace as everyone's, errors in a variable.
#include <xbyak/xbyak.h>

#ifndef XBYAK_NO_EXCEPTION
#error "this object stands for an Xbyak without exceptions"
#endif

int plain_error();

int plain_error() {
  unsigned char buffer[128] = {};
  Xbyak::ClearError();
  Xbyak::CodeGenerator generator(8, buffer);
  for (int i = 0; i < 64; ++i) generator.nop();
  const int error = Xbyak::GetError();
  Xbyak::ClearError();
  return error;
}
