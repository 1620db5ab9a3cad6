// One step of the K loop in AVX-512: the panel's vectors in registers, elements of rows as embedded
// broadcasts.
//
// A single row has one use for each vector of the panel, so there the element is the register and
// the panel the memory operand. Read jit/tile.hpp for the loop around it. VDPBF16PS adds the
// product of the odd elements first.
#pragma once

#include "tile.hpp"

namespace sinter::inline SINTER_ABI::jit {

class tile_avx512 {
 public:
  /// Registers beyond the accumulators: the panel's vectors, rows to be interleaved, an element,
  /// orders of words.
  static constexpr int b0 = 16, rows0 = 18, element = 20, order0 = 21;

  tile_avx512(assembler& a, tile const& t, tile_registers const& r)
      : a_(a), t_(t), r_(r), loop_(a, t, r) {}

  void clear() {
    loop_.clear();
    if (t_.direct_panel && t_.kind == product::bf16_pairs)
      for (int j = 0; j < t_.vectors; ++j)
        a_.vmovups(xb::Zmm(order0 + j), a_.table(interleaving_order(j)));
  }
  std::int32_t multiply() {
    return loop_.multiply([&](int a, int b, int split) { step(a, b, split); },
                          [&](int a, int b, int split) { lone(a, b, split); });
  }
  void merge() { loop_.merge(); }
  void end_block() { loop_.end_block(); }

 private:
  /// A register as vector j of a panel's step needs it.
  xb::Xmm wide(int index, int j) const {
    if (t_.half_tail && j == t_.vectors - 1) return xb::Ymm(index);
    return xb::Zmm(index);
  }
  xb::Xmm sum(int i, int j, int split) const { return wide(loop_.sum(i, j, split), j); }

  void step(int a, int b, int split) {
    if (t_.kind == product::bf16_widened) return widened(a, b, split);
    if (t_.rows == 1 && t_.kind != product::f16_weight && !interleaves())
      return single_row(a, b, split);
    load_panel(b, true);
    multiply_rows(a, split);
  }
  bool interleaves() const { return t_.direct_panel && t_.kind == product::bf16_pairs; }
  bool has_tail() const { return t_.columns % lanes_of(a_.level()) != 0; }
  /// Vector j of a panel's step, which may end before a whole vector of it does.
  xb::Xmm within(xb::Xmm v, int j) const {
    if (t_.direct_panel && has_tail() && j == t_.vectors - 1)
      return v | assembler::mask(lanes_mask) | a_.T_z;
    return v;
  }

  void load_panel(int b, bool odd_row) {
    if (interleaves()) return interleave(odd_row);
    for (int j = 0; j < t_.vectors; ++j) {
      xb::Xmm const v = wide(b0 + j, j);
      if (t_.kind == product::f16_weight)
        a_.vcvtph2ps(v, a_.ptr[loop_.panel(j, b)]);
      else
        a_.vmovups(within(v, j), a_.ptr[loop_.panel(j, b)]);
    }
  }
  // Rows k and k + 1 of 16-bit elements become pairs. Without an odd row, pairs with zero.
  void interleave(bool odd_row) {
    xb::Zmm const even(rows0), odd(rows0 + 1);
    bool const whole = t_.columns == tile_columns(a_.level());
    auto const masked = [&](xb::Zmm v) {
      return whole ? v : v | assembler::mask(columns_mask) | a_.T_z;
    };
    a_.vmovdqu16(masked(even), a_.ptr[loop_.panel_row(0)]);
    if (odd_row)
      a_.vmovdqu16(masked(odd), a_.ptr[loop_.panel_row(1)]);
    else
      a_.vpxord(odd, odd, odd);
    for (int j = 0; j < t_.vectors; ++j) {
      a_.vmovdqa32(xb::Zmm(b0 + j), even);
      a_.vpermt2w(xb::Zmm(b0 + j), xb::Zmm(order0 + j), odd);
    }
  }
  void multiply_rows(int a, int split) {
    for (int i = t_.rows_before; i < t_.rows - t_.rows_after; ++i)
      for (int j = 0; j < t_.vectors; ++j) {
        if (t_.kind == product::bf16_pairs)
          a_.vdpbf16ps(sum(i, j, split), wide(b0 + j, j), a_.ptr_b[loop_.row(i, a)]);
        else
          a_.vfmadd231ps(sum(i, j, split), wide(b0 + j, j), a_.ptr_b[loop_.row(i, a)]);
      }
  }
  void single_row(int a, int b, int split) {
    a_.vbroadcastss(xb::Zmm(element), a_.dword[loop_.row(0, a)]);
    for (int j = 0; j < t_.vectors; ++j) {
      xb::Xmm const to = within(sum(0, j, split), j), e = wide(element, j);
      if (t_.kind == product::bf16_pairs)
        a_.vdpbf16ps(to, e, a_.ptr[loop_.panel(j, b)]);
      else
        a_.vfmadd231ps(to, e, a_.ptr[loop_.panel(j, b)]);
    }
  }
  void widened(int a, int b, int split) {
    for (int j = 0; j < t_.vectors; ++j) {
      xb::Xmm const v = wide(b0 + j, j);
      a_.vmovdqu32(v, a_.ptr[loop_.panel(j, b)]);
      a_.vpandd(v, v, a_.constant_bits(0xffff0000U));
    }
    multiply_rows(a + 4, split);
    for (int j = 0; j < t_.vectors; ++j) a_.vpslld(wide(b0 + j, j), a_.ptr[loop_.panel(j, b)], 16);
    multiply_rows(a, split);
  }
  // The last element of an odd k: its pair's other half is zero, here and in the panel.
  void lone(int a, int b, int split) {
    load_panel(b, false);
    for (int i = t_.rows_before; i < t_.rows - t_.rows_after; ++i) {
      a_.movzx(xb::Reg32(r_.scratch), a_.word[loop_.row(i, a)]);
      a_.vpbroadcastd(xb::Zmm(element), xb::Reg32(r_.scratch));
      for (int j = 0; j < t_.vectors; ++j)
        a_.vdpbf16ps(sum(i, j, split), wide(b0 + j, j), wide(element, j));
    }
  }

  assembler& a_;
  tile t_;
  tile_registers r_;
  tile_loop loop_;
};

}  // namespace sinter::inline SINTER_ABI::jit
