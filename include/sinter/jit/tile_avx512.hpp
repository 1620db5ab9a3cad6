// One step of the K loop in AVX-512: the panel's vectors in registers, elements of rows as embedded broadcasts.
//
// A single row has one use for each vector of the panel, so there the element is the register and the panel the memory
// operand. Read jit/tile.hpp for the loop around it. VDPBF16PS adds the product of the odd elements first.
#pragma once

#include "tile.hpp"

namespace sinter::inline SINTER_ABI::jit {

class tile_avx512 {
 public:
  static constexpr int b0 = 16, element = 20;  ///< registers beyond the accumulators

  tile_avx512(assembler& a, tile const& t, tile_registers const& r)
      : a_(a), t_(t), r_(r), loop_(a, t, r) {}

  std::int32_t emit() {
    return loop_.emit([&](int a, int b, int split) { step(a, b, split); },
                      [&](int a, int b, int split) { lone(a, b, split); });
  }

 private:
  xb::Zmm sum(int i, int j, int split) const { return xb::Zmm(loop_.sum(i, j, split)); }

  void step(int a, int b, int split) {
    if (t_.kind == product::bf16_widened) return widened(a, b, split);
    if (t_.rows == 1 && t_.kind != product::f16_weight) return single_row(a, b, split);
    for (int j = 0; j < t_.vectors; ++j) {
      xb::Zmm const v(b0 + j);
      if (t_.kind == product::f16_weight)
        a_.vcvtph2ps(v, a_.ptr[loop_.panel(j, b)]);
      else
        a_.vmovups(v, a_.ptr[loop_.panel(j, b)]);
    }
    multiply_rows(a, split);
  }
  void multiply_rows(int a, int split) {
    for (int i = 0; i < t_.rows; ++i)
      for (int j = 0; j < t_.vectors; ++j) {
        if (t_.kind == product::bf16_pairs)
          a_.vdpbf16ps(sum(i, j, split), xb::Zmm(b0 + j), a_.ptr_b[loop_.row(i, a)]);
        else
          a_.vfmadd231ps(sum(i, j, split), xb::Zmm(b0 + j), a_.ptr_b[loop_.row(i, a)]);
      }
  }
  void single_row(int a, int b, int split) {
    xb::Zmm const e(element);
    a_.vbroadcastss(e, a_.dword[loop_.row(0, a)]);
    for (int j = 0; j < t_.vectors; ++j) {
      if (t_.kind == product::bf16_pairs)
        a_.vdpbf16ps(sum(0, j, split), e, a_.ptr[loop_.panel(j, b)]);
      else
        a_.vfmadd231ps(sum(0, j, split), e, a_.ptr[loop_.panel(j, b)]);
    }
  }
  void widened(int a, int b, int split) {
    for (int j = 0; j < t_.vectors; ++j) {
      a_.vmovdqu32(xb::Zmm(b0 + j), a_.ptr[loop_.panel(j, b)]);
      a_.vpandd(xb::Zmm(b0 + j), xb::Zmm(b0 + j), a_.constant_bits(0xffff0000U));
    }
    multiply_rows(a + 4, split);
    for (int j = 0; j < t_.vectors; ++j) a_.vpslld(xb::Zmm(b0 + j), a_.ptr[loop_.panel(j, b)], 16);
    multiply_rows(a, split);
  }
  // The last element of an odd k: its pair's other half is zero, here and in the panel.
  void lone(int a, int b, int split) {
    for (int j = 0; j < t_.vectors; ++j) a_.vmovups(xb::Zmm(b0 + j), a_.ptr[loop_.panel(j, b)]);
    for (int i = 0; i < t_.rows; ++i) {
      a_.movzx(xb::Reg32(r_.scratch), a_.word[loop_.row(i, a)]);
      a_.vpbroadcastd(xb::Zmm(element), xb::Reg32(r_.scratch));
      for (int j = 0; j < t_.vectors; ++j)
        a_.vdpbf16ps(sum(i, j, split), xb::Zmm(b0 + j), xb::Zmm(element));
    }
  }

  assembler& a_;
  tile t_;
  tile_registers r_;
  tile_loop loop_;
};

}  // namespace sinter::inline SINTER_ABI::jit
