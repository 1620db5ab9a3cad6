// The assembler: every error is found when code is taken, constants are where code expects them,
// and another Xbyak in the same program (jit_plain_xbyak.cpp) stays its own.
#include <doctest/doctest.h>

#include <cstring>
#include <sinter/isa/detect.hpp>
#include <sinter/jit/assembler.hpp>
#include <sinter/jit/code_memory.hpp>

#include "support/skip.hpp"

using namespace sinter;
using namespace sinter::jit;

int plain_xbyak_sum(int a, int b);
int plain_xbyak_error();

TEST_CASE("code that is too long is an error, and nothing is written beyond the buffer") {
  assembler a(isa::avx2);
  xb::Label end;
  for (std::size_t i = 0; i < assembler::max_code_bytes / 6; ++i) a.jz(end, assembler::T_NEAR);
  for (int i = 0; i < 100; ++i) a.jz(end, assembler::T_NEAR);
  a.L(end);
  auto const code = a.finish();
  REQUIRE(!code);
  CHECK(code.error().what == code::unsupported);
  CHECK(code.error().message == "sinter: generating a kernel failed: code is too big");
}

TEST_CASE(
    "a label without a place and an encoding that does not exist are errors; the next assembler is "
    "clean") {
  {
    assembler a(isa::avx2);
    xb::Label nowhere;
    a.jmp(nowhere);
    auto const code = a.finish();
    REQUIRE(!code);
    CHECK(code.error().message == "sinter: generating a kernel failed: a label has no place");
  }
  {
    assembler a(isa::avx2);
    a.vaddps(xb::Xmm(1), xb::Ymm(2), xb::Zmm(3));
    a.ret();
    CHECK(!a.finish());
  }
  assembler a(isa::avx2);
  a.ret();
  auto const code = a.finish();
  REQUIRE(code);
  CHECK(code->size() == 1);
}

TEST_CASE("constants: one place for equal ones, aligned, broadcast to all lanes") {
  auto const here = current_isa();
  if (!here || !runs(*here, isa::avx2)) SINTER_SKIP("this CPU has no AVX2");
  for (isa level : {isa::avx2, isa::avx512}) {
    if (!runs(*here, level)) continue;
    assembler a(level);
    a.vxorps(a.vec(0), a.vec(0), a.vec(0));
    a.vaddps(a.vec(0), a.vec(0), a.constant(1.5F));
    a.vaddps(a.vec(0), a.vec(0), a.constant(1.5F));
    a.vaddps(a.vec(0), a.vec(0), a.constant(0.25F));
    a.vmovups(a.ptr[a.rdi], a.vec(0));
    a.vzeroupper();
    a.ret();
    auto const code = a.finish();
    REQUIRE(code);
    auto const kernel = code_memory::process().publish(*code);
    REQUIRE(kernel);
    float out[16] = {};
    (*kernel)->entry<void (*)(float*)>()(out);
    for (int i = 0; i < lanes_of(level); ++i) CHECK(out[i] == 3.25F);
    // 1.5 stands once (in each of its lanes).
    int found = 0;
    for (std::size_t i = 0; i + 4 <= code->size(); ++i) {
      float v = 0;
      std::memcpy(&v, code->data() + i, 4);
      found += v == 1.5F ? 1 : 0;
    }
    CHECK(found == (level == isa::avx2 ? 8 : 1));
  }
}

TEST_CASE("a plain Xbyak with its own macros lives in the same program") {
  CHECK(plain_xbyak_sum(40, 2) == 42);
  // An error there is not an error here, nor the other way round.
  assembler a(isa::avx2);
  CHECK(plain_xbyak_error() != 0);
  a.ret();
  CHECK(a.finish());
}
