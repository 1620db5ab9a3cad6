// The sums of a convolution of narrow groups whose channels fill vectors: inputs stay in the lanes
// where memory has them.
//
// A lane of a source vector holds a unit of a group: a channel, or a pair of 16-bit ones. A pixel
// has four sums, each a vector of as many lanes, and a lane adds to each of them its unit times the
// weights of another output of its group. Only after all taps are the lanes of a group added across
// sums, so one tap takes no permutation, or one for the lanes a group has beyond what four sums
// serve. Which output a lane of a sum belongs to is the exclusive or of two small numbers: then
// sums are added by swapping neighbours, pairs of them and so on. Weights are packed in the same
// order. jit/conv_groups.hpp has the other groups and other levels than AVX-512.
#pragma once

#include <vector>

#include "conv_groups.hpp"

namespace sinter::inline SINTER_ABI::jit {

/// Which weight meets a unit in a lane of a sum. Groups have as many outputs as inputs.
struct lane_order {
  int units = 0;    ///< of a group: 2, 4, 8, 16
  int vectors = 0;  ///< of outputs; as a unit has channels

  static constexpr int sums = 4;
  /// Outputs of its group that a lane is multiplied for, in each vector.
  constexpr int turns() const { return sums / vectors; }
  /// Orders in which a source vector is needed.
  constexpr int versions() const { return units / turns(); }
  /// Lane i of a version is lane i ^ moved(version) of memory.
  constexpr int moved(int version) const { return version * turns(); }
  constexpr int slots() const { return versions() * sums; }
  /// Unit of the group.
  constexpr int unit(int version, int lane) const { return lane % units ^ moved(version); }
  /// Output channel, counted from the panel's first.
  constexpr int out(int sum, int lane) const {
    int const group = lane / units, vector = sum % vectors, turn = sum / vectors;
    return (group * vectors + vector) * units + (lane % units ^ turn);
  }
};

/// A pixel's sums leave room for this many.
inline constexpr int lane_tile_rows = 4;

class lane_tile {
 public:
  lane_tile(assembler& a, product kind, int rows, conv_groups const& g, tile_registers const& r)
      : a_(a),
        kind_(kind),
        rows_(rows),
        g_(g),
        r_(r),
        order_{g.in / row_of(kind).k_step, row_of(kind).k_step},
        loop_(a, tile{kind, rows, order_.vectors}, r) {}

  void clear() {
    for (int i = 0; i < rows_; ++i)
      for (int s = 0; s < lane_order::sums; ++s) a_.vpxord(sum(i, s), sum(i, s), sum(i, s));
  }
  /// Adds the products of `taps` columns of one kernel row. b is left at their end, a0 as it was.
  std::int32_t multiply() {
    for (int version = 0; version < order_.versions(); ++version) emit_version(version);
    a_.add(b(), immediate(g_.taps * tap_bytes()));
    return 0;
  }
  /// Adds up the turns, and puts the vectors' lanes in the order of memory.
  void merge() {
    if (order_.vectors == 2)
      for (int v = 0; v < 2; ++v) a_.vmovups(xb::Zmm(weight0 + v), a_.table(interleaved(v)));
    for (int i = 0; i < rows_; ++i) {
      for (int step = 1; step < order_.turns(); step *= 2)
        for (int t = 0; t < order_.turns(); t += 2 * step)
          for (int v = 0; v < order_.vectors; ++v)
            add_turn(sum(i, t * order_.vectors + v), sum(i, (t + step) * order_.vectors + v), step);
      if (order_.vectors == 2) interleave(sum(i, 0), sum(i, 1));
    }
  }

 private:
  // Sums take the first 16 registers.
  static constexpr int pixel = 16, weight0 = 17, most_taps = 15 / lane_order::sums;

  xb::Reg64 b() const { return assembler::general(r_.b); }
  int tap_bytes() const { return order_.slots() * 64; }
  static int weight(int tap, int s) { return weight0 + lane_order::sums * tap + s; }
  /// The first two sums of a pixel are where the epilogue finds its vectors.
  xb::Zmm sum(int row, int s) const {
    if (s < tile_vectors) return xb::Zmm(accumulator_of(a_.level(), rows_, row, s));
    return xb::Zmm(tile_vectors * row + s - tile_vectors);
  }

  void emit_version(int version) {
    for (int first = 0; first < g_.taps; first += most_taps) {
      int const taps = g_.taps - first < most_taps ? g_.taps - first : most_taps;
      for (int t = 0; t < taps; ++t)
        for (int s = 0; s < lane_order::sums; ++s)
          a_.vmovups(xb::Zmm(weight(t, s)),
                     a_.ptr[b() + bytes((first + t) * tap_bytes() +
                                        (version * lane_order::sums + s) * 64)]);
      each_pixel(g_, rows_, taps, [&](int row, int tap, bool load) {
        if (load) load_pixel(a_.ptr[pixel_of(g_, loop_, r_, row, first + tap, 0)], version);
        for (int s = 0; s < lane_order::sums; ++s) multiply_add(sum(row, s), weight(tap, s));
      });
    }
  }
  void load_pixel(xb::Address const& from, int version) {
    int const moved = order_.moved(version);
    if (moved > 0 && order_.units < lanes_of(a_.level()))
      return a_.vpermpd(xb::Zmm(pixel), from, swapped(moved / 2));
    a_.vmovups(xb::Zmm(pixel), from);
    if (moved > 0)
      a_.vshuff64x2(xb::Zmm(pixel), xb::Zmm(pixel), xb::Zmm(pixel), swapped(moved / 4));
  }
  /// Part i is part i ^ by: of VPERMPD's pairs of lanes in each half, of VSHUFF64X2's quarters.
  static std::uint8_t swapped(int by) {
    int order = 0;
    for (int i = 0; i < 4; ++i) order |= (i ^ by) << 2 * i;
    return static_cast<std::uint8_t>(order);
  }
  void multiply_add(xb::Zmm const& to, int w) {
    if (kind_ == product::bf16_pairs)
      a_.vdpbf16ps(to, xb::Zmm(w), xb::Zmm(pixel));
    else
      a_.vfmadd231ps(to, xb::Zmm(w), xb::Zmm(pixel));
  }

  void add_turn(xb::Zmm const& to, xb::Zmm const& from, int turn) {
    a_.vpshufd(from, from, turn == 1 ? 0xb1 : 0x4e);  // lanes i ^ turn
    a_.vaddps(to, to, from);
  }
  void interleave(xb::Zmm const& first, xb::Zmm const& second) {
    a_.vmovaps(xb::Zmm(pixel), first);
    a_.vpermt2pd(first, xb::Zmm(weight0), second);
    a_.vpermt2pd(xb::Zmm(pixel), xb::Zmm(weight0 + 1), second);
    a_.vmovaps(second, xb::Zmm(pixel));
  }
  /// For VPERMT2PD: which pairs of lanes of two vectors are those of a vector of memory, where
  /// groups are a part of each.
  std::vector<std::uint32_t> interleaved(int vector) const {
    std::vector<std::uint32_t> pairs;
    int const of_group = order_.units, part = of_group / 2;
    for (int i = 8 * vector; i < 8 * vector + 8; ++i) {
      int const group = i / of_group, within = i % of_group;
      pairs.push_back(
          static_cast<std::uint32_t>(group * part + within % part + 8 * (within / part)));
      pairs.push_back(0);
    }
    return pairs;
  }

  assembler& a_;
  product kind_;
  int rows_;
  conv_groups g_;
  tile_registers r_;
  lane_order order_;
  tile_loop loop_;
};

}  // namespace sinter::inline SINTER_ABI::jit
