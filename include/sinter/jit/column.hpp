// The matmul kernel for one column: lanes run along K, and a vector of sums becomes one number.
//
// Panels would leave all lanes but one empty here. A tile is up to eight rows, each multiplied by
// the same elements of the column while they are in registers; few rows have several accumulators
// each, so that eight are always in flight. Whole lines of 64 bytes of one row are read together:
// rows that are a multiple of 4 KiB apart share a set of the first-level cache and would evict each
// other between two halves. The sums of a tile's rows are added across lanes by a tree that leaves
// them side by side in one register; then they wait for the epilogue (jit/column_code.hpp).
//
// Both operands are read as they lie, in their own dtypes; a K tail by masks, or on AVX2 in pieces.
// Pairs of bf16 are added as VDPBF16PS adds them: the odd elements first.
#pragma once

#include "column_code.hpp"

namespace sinter::inline SINTER_ABI::jit {

/// Rows of the largest tile of one column, on every level.
inline constexpr int column_tile_rows = 8;
/// Accumulators of each row, so that as many as possible of eight are there.
constexpr int column_splits(int rows) { return rows <= 1 ? 8 : rows == 2 ? 4 : rows <= 4 ? 2 : 1; }

class column_generator : private column_code {
 public:
  column_generator(assembler& a, matmul_shape const& s, epilogue_accesses const& accesses,
                   epilogue const& e)
      : column_code(a, s, accesses, e) {}

  void emit() {
    enter();
    if (has_masks(s_.level) && tail() > 0) set_mask(columns_mask, tail());
    load_origins();
    a_.mov(g(r.a0), field(offsetof(matmul_frame, a)));
    a_.mov(g(block_count), field(offsetof(matmul_frame, blocks)));
    xb::Label next_tiles, next_tile, tile_done, of_rows[column_tile_rows + 1];
    a_.L(next_tiles);
    begin_sums();
    a_.align(32);
    a_.L(next_tile);
    dispatch(of_rows);
    for (int rows = least_rows_; rows <= most_rows_; ++rows) {
      if (!occurs(rows)) continue;
      a_.L(of_rows[rows]);
      emit_tile(rows);
      if (rows != most_rows_) a_.jmp(tile_done, xb::CodeGenerator::T_NEAR);
    }
    a_.L(tile_done);
    xb::Label finish;
    a_.dec(g(block_count));
    a_.jz(finish);
    a_.lea(g(r.scratch), a_.ptr[g(frame) + bytes(sums_at + sums_bytes - 4 * column_tile_rows)]);
    a_.cmp(field(offsetof(matmul_frame, spilled)), g(r.scratch));
    a_.jbe(next_tile, xb::CodeGenerator::T_NEAR);
    a_.L(finish);
    emit_epilogues();
    a_.test(g(block_count), g(block_count));
    a_.jnz(next_tiles, xb::CodeGenerator::T_NEAR);
    leave();
  }

 private:
  // Registers beyond the eight accumulators.
  static constexpr int column0 = 8, element = 12, odd_mask = 15;

  bool pairs() const { return s_.a == dtype::bf16 && s_.b == dtype::bf16; }
  bool widens_pairs() const { return pairs() && !includes(s_.level, isa::avx512_bf16); }
  int elements_of_vector() const { return (pairs() ? 2 : 1) * lanes_of(s_.level); }
  int vectors_of_line() const {
    return (pairs() || (s_.a == dtype::f32 && s_.b == dtype::f32)) && !has_masks(s_.level) ? 2 : 1;
  }
  int elements_of_line() const { return vectors_of_line() * elements_of_vector(); }
  int tail() const { return static_cast<int>(s_.k % elements_of_vector()); }
  int a_bytes(int elements) const { return elements * size_of(s_.a); }
  int b_bytes(int elements) const { return elements * size_of(s_.b); }

  static int sum(int rows, int row, int split) { return split * rows + row; }

  // ---- the K loop ------------------------------------------------------------------------------

  void emit_tile(int rows) {
    int const splits = column_splits(rows);
    a_.mov(g(r.b), field(offsetof(matmul_frame, b)));
    if (rows > 4) a_.lea(g(r.a1), a_.ptr[g(r.a0) + g(r.lda) * 4]);
    if (widens_pairs() && !has_masks(s_.level))
      a_.vmovups(a_.vec(odd_mask), a_.constant_bits(0xffff0000U));
    clear(rows * splits);
    int const unroll = splits > 2 ? splits : 2;
    extent const lines = s_.k / elements_of_line();
    extent const rounds = lines >= 2 * unroll ? lines / unroll : 0;
    if (rounds > 0)
      emit_rounds(rounds, unroll / splits * vectors_of_line() * (pairs() ? 2 : 1), rows * splits,
                  [&] {
                    for (int i = 0; i < unroll; ++i)
                      emit_line(rows, i % splits, i * elements_of_line());
                    a_.add(g(r.a0), immediate(unroll * a_bytes(elements_of_line())));
                    if (rows > 4) a_.add(g(r.a1), immediate(unroll * a_bytes(elements_of_line())));
                    a_.add(g(r.b), immediate(unroll * b_bytes(elements_of_line())));
                  });
    int const left = static_cast<int>(lines - rounds * unroll);
    for (int i = 0; i < left; ++i) emit_line(rows, i % splits, i * elements_of_line());
    emit_end(rows, left % splits, left * elements_of_line());
    for (int half = splits / 2; half > 0; half /= 2)
      for (int i = 0; i < half * rows; ++i) add(i, i, i + half * rows);
    std::int64_t const advanced = rounds * unroll * a_bytes(elements_of_line());
    if (advanced != 0) a_.sub(g(r.a0), immediate(static_cast<int>(advanced)));
    a_.imul(g(r.count), g(r.lda), rows);
    a_.add(g(r.a0), g(r.count));
    store_sums(rows);
  }

  void add(int to, int x, int y) { a_.vaddps(a_.vec(to), a_.vec(x), a_.vec(y)); }

  place of_column(int at) const { return {r.b, b_bytes(at)}; }
  xb::Address of_row(int row, int at) const { return a_.ptr[rows_.row(row, a_bytes(at))]; }

  /// A line of the column times the same line of each row, `at` elements from the registers.
  void emit_line(int rows, int split, int at) {
    int const vectors = vectors_of_line();
    for (int v = 0; v < vectors; ++v) load_column(v, at + v * elements_of_vector(), false);
    for (int i = 0; i < rows; ++i)
      for (int v = 0; v < vectors; ++v)
        multiply(sum(rows, i, split), v, i, at + v * elements_of_vector(), false);
  }
  /// What is left behind the last line.
  void emit_end(int rows, int split, int at) {
    int const left = static_cast<int>(s_.k % elements_of_line());
    if (left >= elements_of_vector()) {
      load_column(0, at, false);
      for (int i = 0; i < rows; ++i) multiply(sum(rows, i, split), 0, i, at, false);
      at += elements_of_vector();
    }
    if (tail() == 0) return;
    if (has_masks(s_.level)) {
      load_column(0, at, true);
      for (int i = 0; i < rows; ++i) multiply(sum(rows, i, split), 0, i, at, true);
      return;
    }
    for (int left_over = tail(); left_over > 0; left_over -= 8, at += 8)
      emit_pieces(rows, split, at, left_over < 8 ? lane_count{left_over} : lane_count{});
  }
  /// AVX2: up to eight elements, each widened by itself.
  void emit_pieces(int rows, int split, int at, lane_count n) {
    memory_.load(s_.b, column0, of_column(at), n);
    for (int i = 0; i < rows; ++i) {
      load_row(i, at, n);
      a_.vfmadd231ps(a_.vec(sum(rows, i, split)), a_.vec(column0), a_.vec(element));
    }
  }

  void load_row(int row, int at, lane_count n) {
    a_.lea(g(r.ldb), of_row(row, at));
    memory_.load(s_.a, element, {r.ldb, 0}, n);
  }
  /// A vector of the column to register(s) column0 + 2 v.
  void load_column(int v, int at, bool tail) {
    int const even = column0 + 2 * v;
    if (!pairs())
      return memory_.load(s_.b, even, of_column(at),
                          tail ? lane_count{1, columns_mask} : lane_count{});
    load_pairs(even, memory_.at(of_column(at)), tail);
    if (widens_pairs()) split_pairs(even, even + 1);
  }
  void load_pairs(int to, xb::Address const& from, bool tail) {
    if (tail)
      a_.vmovdqu16(a_.vec(to) | assembler::mask(columns_mask) | a_.T_z, from);
    else
      a_.vmovups(a_.vec(to), from);
  }
  /// Pairs of bf16 in `even` become their even elements, widened; `odd` their odd ones.
  void split_pairs(int even, int odd) {
    if (has_masks(s_.level)) {
      a_.vpandd(a_.vec(odd), a_.vec(even), a_.constant_bits(0xffff0000U));
    } else {
      a_.vandps(a_.vec(odd), a_.vec(even), a_.vec(odd_mask));
    }
    a_.vpslld(a_.vec(even), a_.vec(even), 16);
  }
  /// sum += vector v of the column times that of a row.
  void multiply(int sum, int v, int row, int at, bool tail) {
    xb::Xmm const to = a_.vec(sum), b = a_.vec(column0 + 2 * v), x = a_.vec(element);
    if (widens_pairs()) {
      load_pairs(element, of_row(row, at), tail);
      split_pairs(element, element + 1);
      a_.vfmadd231ps(to, a_.vec(column0 + 2 * v + 1), a_.vec(element + 1));
      return a_.vfmadd231ps(to, b, x);
    }
    if (pairs()) {
      if (!tail) return a_.vdpbf16ps(to, b, of_row(row, at));
      load_pairs(element, of_row(row, at), true);
      return a_.vdpbf16ps(to, b, x);
    }
    if (s_.a == dtype::f32 && !tail) return a_.vfmadd231ps(to, b, of_row(row, at));
    load_row(row, at, tail ? lane_count{1, columns_mask} : lane_count{});
    a_.vfmadd231ps(to, b, x);
  }

  // ---- from lanes to sums ----------------------------------------------------------------------

  static constexpr int t = 8, u = 9;
  static xb::Zmm z(int i) { return xb::Zmm(i); }
  static xb::Ymm y(int i) { return xb::Ymm(i); }
  static xb::Xmm x(int i) { return xb::Xmm(i); }

  /// Sums of rows 0 to rows - 1, side by side, to where the frame says; then that moves. Where rows
  /// are no power of two, the last one stands in for those that are not there.
  void store_sums(int rows) {
    bool const eight = rows > 4, wide = eight && has_masks(s_.level);
    if (wide)
      fold_eight(rows);
    else if (has_masks(s_.level))
      fold_each(rows);
    gather_four(0, rows, wide);
    if (wide) {
      a_.vshuff64x2(z(t), z(0), z(0), 0x08);
      a_.vshuff64x2(z(u), z(0), z(0), 0x0d);
      a_.vaddps(y(0), y(t), y(u));
    } else if (eight) {
      gather_four(4, rows, false);
      a_.vperm2f128(y(t), y(0), y(4), 0x20);
      a_.vperm2f128(y(u), y(0), y(4), 0x31);
      a_.vaddps(y(0), y(t), y(u));
    } else {
      a_.vextractf128(x(t), y(0), 1);
      a_.vaddps(x(0), x(0), x(t));
    }
    a_.mov(g(r.count), field(offsetof(matmul_frame, spilled)));
    a_.vmovups(a_.ptr[g(r.count)], eight ? xb::Xmm(y(0)) : x(0));
    a_.add(field(offsetof(matmul_frame, spilled)), immediate(4 * rows));
  }
  /// Halves of row i and of row i + 4 are added, and share a register.
  void fold_eight(int rows) {
    for (int i = 0; i < 4; ++i) {
      int const other = i + 4 < rows ? i + 4 : rows - 1;
      a_.vshuff64x2(z(t), z(i), z(other), 0x44);
      a_.vshuff64x2(z(i), z(i), z(other), 0xee);
      add(i, i, t);
    }
  }
  void fold_each(int rows) {
    for (int i = 0; i < rows; ++i) {
      a_.vextractf64x4(y(t), z(i), 1);
      a_.vaddps(y(i), y(i), y(t));
    }
  }
  /// Rows first to first + 3 become one register: in each quarter a part of the sum of each.
  void gather_four(int first, int rows, bool wide) {
    auto const v = [wide](int i) { return wide ? xb::Xmm(z(i)) : xb::Xmm(y(i)); };
    auto const row = [rows](int i) { return i < rows ? i : rows - 1; };
    auto const two = [&](int to, int other) {
      a_.vunpcklps(v(t), v(to), v(other));
      a_.vunpckhps(v(u), v(to), v(other));
      a_.vaddps(v(to), v(t), v(u));
    };
    two(first, row(first + 1));
    int const second = row(first + 2);
    if (second > first) two(second, row(first + 3));
    a_.vunpcklpd(v(t), v(first), v(second));
    a_.vunpckhpd(v(u), v(first), v(second));
    a_.vaddps(v(first), v(t), v(u));
  }
};

}  // namespace sinter::inline SINTER_ABI::jit
