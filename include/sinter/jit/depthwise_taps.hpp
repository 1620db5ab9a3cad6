// One kernel row of a depthwise block: source columns in order, each loaded once and multiplied
// into every output that meets it.
//
// The weights of the row stand in registers meanwhile (long rows go in pieces). Columns outside of
// the image are left out by jumps over them, so they are neither read nor multiplied. With pairs a
// source column is two rows high: their bf16 are interleaved once and serve all columns of taps;
// the row that is left over of an odd number stands beside zeros. Read jit/depthwise.hpp for the
// loops around it.
#pragma once

#include "depthwise_shape.hpp"
#include "eltwise_lanes.hpp"
#include "operand.hpp"
#include "tile.hpp"

namespace sinter::inline SINTER_ABI::jit {

/// A block's registers. General: `row` is the address of column 0 in the first source row, `at`
/// moves over the columns, `column` and `tap_row` hold strides, `weights` the address of the row's
/// first tap; columns below `low` and from `high` on are outside.
struct depthwise_registers {
  int row, at, column, tap_row, weights, low, high, scratch;
};

/// How many kernel rows a source column is high.
enum class tap_rows : unsigned char { one, two };

class depthwise_taps {
 public:
  /// Masks: the valid lanes of the last vector; of all 16-bit columns of a panel; even words.
  static constexpr int lanes_mask = 7, words_mask = 6, even_mask = 5;

  /// `columns`: valid ones of the panel.
  depthwise_taps(assembler& a, depthwise_shape const& s, depthwise_registers const& r, int vectors,
                 int columns)
      : a_(a), s_(s), r_(r), memory_(a), vectors_(vectors), columns_(columns) {}

  /// The last registers: those of the outputs that come first are free first.
  int accumulator(int pixel, int vector) const {
    return vector_count_of(s_.level) - (s_.pixels - pixel) * vectors_ + vector;
  }
  void clear() {
    for (int i = accumulator(0, 0); i < vector_count_of(s_.level); ++i)
      lanes(a_, {}, 0).zero(narrow() ? xb::Ymm(i) : a_.vec(i));
  }

  /// `checked`: columns may be outside.
  void multiply(tap_rows rows, bool checked) {
    int const most = most_taps(s_.level, vectors_), all = s_.kernel_columns;
    int const pieces = (all + most - 1) / most, piece = (all + pieces - 1) / pieces;
    if (pairs() && rows == tap_rows::one && vectors_ == 2) zero(interleaved_with());
    for (int first = 0; first < all; first += piece)
      one_piece(rows, checked, first, (std::min)(first + piece, all));
  }

  int tap_bytes() const { return vectors_ * vector_bytes_of(s_.level); }

  /// Pairs of two vectors: brings the sums of all outputs into the order of channels.
  void restore_order() {
    if (!pairs() || vectors_ != 2) return;
    xb::Zmm const low(0), high(1), other(2);
    a_.vmovdqu64(low, a_.table(order(0)));
    a_.vmovdqu64(high, a_.table(order(4)));
    for (int pixel = 0; pixel < s_.pixels; ++pixel) {
      xb::Zmm const first(accumulator(pixel, 0)), second(accumulator(pixel, 1));
      a_.vmovdqa64(other, first);
      a_.vpermt2q(first, low, second);
      a_.vpermt2q(other, high, second);
      a_.vmovdqa64(second, other);
    }
  }

 private:
  bool pairs() const { return s_.kind == depthwise_product::pairs; }
  /// AVX-512: half a vector is enough, and twice as fast where a core splits whole ones.
  bool narrow() const { return a_.masks() && vectors_ == 1 && columns_ <= 8; }
  xb::Xmm reg(int i) const { return narrow() ? xb::Ymm(i) : a_.vec(i); }
  bool has_tail(int vector) const { return (vector + 1) * s_.lanes() > columns_; }
  lane_count count(int vector) const {
    return has_tail(vector) ? lane_count{columns_ - vector * s_.lanes(), lanes_mask} : lane_count{};
  }

  int weight(int tap, int vector) const { return tap * vectors_ + vector; }
  /// Values of a column; behind the weights of a piece.
  int value(int vector) const { return most_taps(s_.level, vectors_) * vectors_ + vector; }
  int interleaved_with() const { return value(vectors_); }

  void zero(int i) { lanes(a_, {}, 0).zero(a_.vec(i)); }

  static std::vector<std::uint32_t> order(std::uint32_t first) {
    std::vector<std::uint32_t> words;
    for (std::uint32_t i = 0; i < 8; ++i) {
      // 128-bit lanes first / 2, first / 2 + 1 of either source in turn; 8: of the second.
      words.push_back(first + i / 4 * 2 + i % 2 + (i / 2 % 2) * 8);
      words.push_back(0);
    }
    return words;
  }

  void one_piece(tap_rows rows, bool checked, int first, int last) {
    xb::Label end;
    load_weights(rows, first, last);
    a_.mov(general(r_.at), general(r_.row));
    std::vector<column_use> const uses = column_uses(s_, first, last);
    extent at = 0;
    for (std::size_t i = 0; i < uses.size();) {
      extent const column = uses[i].column;
      xb::Label outside;
      advance(column - at);
      at = column;
      bool const may_be_left = checked && column < s_.pad;
      if (may_be_left) {
        a_.cmp(general(r_.low), immediate(static_cast<int>(column)));
        a_.jg(outside, xb::CodeGenerator::T_NEAR);
      }
      if (checked) {
        a_.cmp(general(r_.high), immediate(static_cast<int>(column)));
        a_.jle(end, xb::CodeGenerator::T_NEAR);
      }
      load_column(rows);
      for (; i < uses.size() && uses[i].column == column; ++i)
        for (int v = 0; v < vectors_; ++v) multiply(uses[i], first, v);
      a_.L(outside);
    }
    a_.L(end);
  }

  static xb::Reg64 general(int i) { return assembler::general(i); }

  void advance(extent columns) {
    if (columns == 0) return;
    xb::Reg64 const at = general(r_.at), step = general(r_.column);
    if (columns == 1) return a_.add(at, step);
    if (columns == 2 || columns == 4 || columns == 8)
      return a_.lea(at, a_.ptr[at + step * static_cast<int>(columns)]);
    a_.imul(general(r_.scratch), step, static_cast<int>(columns));
    a_.add(at, general(r_.scratch));
  }

  void load_weights(tap_rows rows, int first, int last) {
    for (int tap = first; tap < last; ++tap)
      for (int v = 0; v < vectors_; ++v) {
        xb::Address const from =
            a_.ptr[assembler::at(r_.weights, tap * tap_bytes() + v * vector_bytes_of(s_.level))];
        xb::Xmm const to = reg(weight(tap - first, v));
        if (pairs() && rows == tap_rows::one)
          a_.vmovdqu16(to | assembler::mask(even_mask) | a_.T_z, from);
        else
          a_.vmovups(to, from);
      }
  }
  void multiply(column_use const& use, int first, int v) {
    xb::Xmm const to = reg(accumulator(use.pixel, v)), x = reg(value(v)),
                  w = reg(weight(use.tap - first, v));
    if (pairs())
      a_.vdpbf16ps(to, x, w);
    else
      a_.vfmadd231ps(to, x, w);
  }

  // ---- source columns --------------------------------------------------------------------------

  void load_column(tap_rows rows) {
    if (pairs() && vectors_ == 2) return interleave_two(rows);
    if (narrow()) return load_half(rows);
    for (int v = 0; v < vectors_; ++v) {
      place const from{r_.at, v * s_.lanes() * size_of(s_.src)};
      if (!pairs()) {
        memory_.load(s_.src, value(v), from, count(v));
        continue;
      }
      a_.vpmovzxwd(within(a_.vec(value(v)), v), memory_.at(from));
      if (rows == tap_rows::two) or_row_below(a_.vec(value(v)), within(a_.vec(value(v) + 1), v));
    }
  }
  void load_half(tap_rows rows) {
    xb::Ymm const to(value(0)), masked = to | assembler::mask(lanes_mask) | a_.T_z;
    xb::Address const from = a_.ptr[general(r_.at)];
    if (s_.src == dtype::f32) return a_.vmovups(masked, from);
    if (s_.src == dtype::f16) return a_.vcvtph2ps(masked, from);
    a_.vpmovzxwd(masked, from);
    if (!pairs()) return a_.vpslld(to, to, 16);
    if (rows == tap_rows::two)
      or_row_below(to, xb::Ymm(value(1)) | assembler::mask(lanes_mask) | a_.T_z);
  }
  /// `to` holds the upper row's bf16 in the low words; the lower row's come above them.
  void or_row_below(xb::Xmm const& to, xb::Xmm const& masked) {
    xb::Xmm const below(to.isZMM() ? xb::Operand::ZMM : xb::Operand::YMM, masked.getIdx());
    a_.vpmovzxwd(masked, a_.ptr[general(r_.at) + general(r_.tap_row)]);
    a_.vpslld(below, below, 16);
    a_.vpord(to, to, below);
  }
  void interleave_two(tap_rows rows) {
    xb::Zmm const above(value(0)), below(interleaved_with()), high(value(1));
    auto const words = [&](xb::Zmm z) {
      return columns_ < 2 * s_.lanes() ? z | assembler::mask(words_mask) | a_.T_z : z;
    };
    a_.vmovdqu16(words(above), a_.ptr[general(r_.at)]);
    if (rows == tap_rows::two)
      a_.vmovdqu16(words(below), a_.ptr[general(r_.at) + general(r_.tap_row)]);
    a_.vpunpckhwd(high, above, below);
    a_.vpunpcklwd(above, above, below);
  }
  xb::Xmm within(xb::Xmm v, int vector) const {
    return has_tail(vector) ? v | assembler::mask(lanes_mask) | a_.T_z : v;
  }

  assembler& a_;
  depthwise_shape const& s_;
  depthwise_registers r_;
  operand_code memory_;
  int vectors_, columns_;
};

}  // namespace sinter::inline SINTER_ABI::jit
