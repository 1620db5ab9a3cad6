// One step of the K loop in AVX2 + FMA: the panel's vectors in two registers, one broadcast per
// row.
//
// 16 registers: 12 accumulators, two vectors of the panel, two broadcasts in turn. Read
// jit/tile.hpp for the loop.
#pragma once

#include "tile.hpp"

namespace sinter::inline SINTER_ABI::jit {

class tile_avx2 {
 public:
  static constexpr int b0 = 12, element = 14;

  tile_avx2(assembler& a, tile const& t, tile_registers const& r) : a_(a), t_(t), loop_(a, t, r) {}

  void clear() { loop_.clear(); }
  std::int32_t multiply() {
    auto const one = [&](int a, int b, int split) { step(a, b, split); };
    return loop_.multiply(one, one);  // there are no pairs here, so no lone element
  }
  void merge() { loop_.merge(); }
  void end_block() { loop_.end_block(); }

 private:
  void step(int a, int b, int split) {
    if (t_.kind == product::bf16_widened) return widened(a, b, split);
    for (int j = 0; j < t_.vectors; ++j) {
      if (t_.kind == product::f16_weight)
        a_.vcvtph2ps(xb::Ymm(b0 + j), a_.ptr[loop_.panel(j, b)]);
      else
        a_.vmovups(xb::Ymm(b0 + j), a_.ptr[loop_.panel(j, b)]);
    }
    multiply_rows(a, split);
  }
  void multiply_rows(int a, int split) {
    for (int i = t_.rows_before; i < t_.rows - t_.rows_after; ++i) {
      xb::Ymm const e(element + i % 2);
      a_.vbroadcastss(e, a_.dword[loop_.row(i, a)]);
      for (int j = 0; j < t_.vectors; ++j)
        a_.vfmadd231ps(xb::Ymm(loop_.sum(i, j, split)), xb::Ymm(b0 + j), e);
    }
  }
  void widened(int a, int b, int split) {
    for (int j = 0; j < t_.vectors; ++j) {
      a_.vmovups(xb::Ymm(b0 + j), a_.ptr[loop_.panel(j, b)]);
      a_.vandps(xb::Ymm(b0 + j), xb::Ymm(b0 + j), a_.constant_bits(0xffff0000U));
    }
    multiply_rows(a + 4, split);
    for (int j = 0; j < t_.vectors; ++j) {
      a_.vmovdqu(xb::Ymm(b0 + j), a_.ptr[loop_.panel(j, b)]);
      a_.vpslld(xb::Ymm(b0 + j), xb::Ymm(b0 + j), 16);
    }
    multiply_rows(a, split);
  }

  assembler& a_;
  tile t_;
  tile_loop loop_;
};

}  // namespace sinter::inline SINTER_ABI::jit
