// The sums of a convolution of narrow groups whose channels fill quads: four 32-bit lanes, within
// which shuffles cost least.
//
// A source vector has four quads of units (a channel, or a pair of 16-bit ones). Unit i of each
// quad is spread over its quad, i = 0, 1, 2, 3, and multiplied into two sums, so that one shuffle
// serves twice the products that a permutation across quads would. What a lane of a sum is:
//   swapped      a group is two quads of units and of outputs: sum 1 has the outputs of the
//                neighbouring quad, and is added to sum 0 with its quads swapped
//   interleaved  a quad of units meets two quads of outputs (of one group, or of two): sum 0 has
//                the first of each, sum 1 the second, and both are put in order at the end
// Weights are packed in the same order. jit/conv_groups.hpp has the other groups and other levels
// than AVX-512.
#pragma once

#include "conv_groups.hpp"

namespace sinter::inline SINTER_ABI::jit {

/// Which weight meets unit i of a quad in a lane of sum 0 or 1.
struct quad_order {
  group_spread spread = group_spread::interleaved;
  int units = 0;  ///< of a group

  static constexpr int units_per_quad = 4, sums = 2;
  constexpr bool used(int i, int sum) const {
    return spread == group_spread::swapped || units == 4 || i / 2 == sum;
  }
  constexpr int slots() const { return used(0, 1) ? 8 : 4; }
  /// Where the weights of (i, sum) lie among those of a tap.
  constexpr int slot(int i, int sum) const { return used(0, 1) ? 2 * i + sum : i; }
  /// Output channel, counted from the panel's first.
  constexpr int out(int sum, int lane) const {
    int const quad = lane / 4;
    return spread == group_spread::swapped ? 4 * (quad ^ sum) + lane % 4
                                           : 8 * quad + 4 * sum + lane % 4;
  }
  /// Unit of the group.
  constexpr int unit(int i, int lane) const {
    return spread == group_spread::swapped ? i + 4 * (lane / 4 % 2) : i % units;
  }
};

class quad_tile {
 public:
  quad_tile(assembler& a, product kind, int rows, conv_groups const& g, tile_registers const& r)
      : a_(a),
        kind_(kind),
        rows_(rows),
        g_(g),
        r_(r),
        order_{g.spread, kind == product::bf16_pairs ? g.in / 2 : g.in},
        loop_(a, tile{kind, rows, quad_order::sums}, r) {}

  void clear() { loop_.clear(); }
  /// Adds the products of `taps` columns of one kernel row. b is left at their end, a0 as it was.
  std::int32_t multiply() {
    for (int i = 0; i < quad_order::units_per_quad; ++i) emit_unit(i);
    a_.add(b(), immediate(g_.taps * tap_bytes()));
    return 0;
  }
  void merge() {
    bool const swapped = g_.spread == group_spread::swapped;
    if (!swapped) {
      a_.vmovups(xb::Zmm(weight0), a_.table({0, 0, 1, 0, 8, 0, 9, 0, 2, 0, 3, 0, 10, 0, 11, 0}));
      a_.vmovups(xb::Zmm(weight0 + 1),
                 a_.table({4, 0, 5, 0, 12, 0, 13, 0, 6, 0, 7, 0, 14, 0, 15, 0}));
    }
    for (int i = 0; i < rows_; ++i) {
      xb::Zmm const first(loop_.sum(i, 0, 0)), second(loop_.sum(i, 1, 0)), x(spread);
      if (swapped) {
        a_.vpermpd(second, second, 0x4e);
        a_.vaddps(first, first, second);
      } else {
        a_.vmovaps(x, first);
        a_.vpermt2pd(first, xb::Zmm(weight0), second);
        a_.vpermt2pd(x, xb::Zmm(weight0 + 1), second);
        a_.vmovaps(second, x);
      }
    }
  }

 private:
  // Sums take the first 16 registers.
  static constexpr int spread = 16, weight0 = 17, most_weights = 15;

  xb::Reg64 b() const { return assembler::general(r_.b); }
  int tap_bytes() const { return order_.slots() * 64; }
  static xb::Zmm weight(int tap, int sum) { return xb::Zmm(weight0 + 2 * tap + sum); }

  void emit_unit(int i) {
    constexpr int most_taps = most_weights / quad_order::sums;
    for (int first = 0; first < g_.taps; first += most_taps) {
      int const taps = g_.taps - first < most_taps ? g_.taps - first : most_taps;
      for (int t = 0; t < taps; ++t)
        for (int s = 0; s < quad_order::sums; ++s)
          if (order_.used(i, s))
            a_.vmovups(weight(t, s),
                       a_.ptr[b() + bytes((first + t) * tap_bytes() + order_.slot(i, s) * 64)]);
      each_pixel(g_, rows_, taps, [&](int row, int tap, bool load) {
        if (load)
          a_.vpshufd(xb::Zmm(spread), a_.ptr[pixel_of(g_, loop_, r_, row, first + tap, 0)],
                     static_cast<std::uint8_t>(i * 0x55));
        for (int s = 0; s < quad_order::sums; ++s)
          if (order_.used(i, s)) multiply_add(loop_.sum(row, s, 0), weight(tap, s));
      });
    }
  }
  void multiply_add(int sum, xb::Zmm w) {
    if (kind_ == product::bf16_pairs)
      a_.vdpbf16ps(xb::Zmm(sum), w, xb::Zmm(spread));
    else
      a_.vfmadd231ps(xb::Zmm(sum), w, xb::Zmm(spread));
  }

  assembler& a_;
  product kind_;
  int rows_;
  conv_groups g_;
  tile_registers r_;
  quad_order order_;
  tile_loop loop_;
};

}  // namespace sinter::inline SINTER_ABI::jit
