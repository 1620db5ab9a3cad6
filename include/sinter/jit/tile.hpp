// The K loop of a tile, but for its innermost step: addresses of rows, unrolling, independent sums,
// blocks of long sums, the odd end.
//
// A tile is `rows` x `vectors` accumulators, rows of the first operand times one panel of the
// second. What one step does with which instructions is the business of tile_avx2.hpp and
// tile_avx512.hpp. A tile knows nothing of what follows: it leaves its sums in the registers that
// accumulator_of() names and stops there. The code of a tile does not grow with K beyond two
// unrolled bodies.
#pragma once

#include "assembler.hpp"
#include "blocking.hpp"

namespace sinter::inline SINTER_ABI::jit {

struct tile {
  product kind = product::f32;
  int rows = 0, vectors = 0;
  extent k = 0;
  /// The first operand is read where the caller has it, so an odd k ends in a lone element (of
  /// pairs). Otherwise rows are padded copies.
  bool direct = true;
  /// So is the second: rows of it, `ldb` bytes apart, take the place of a panel (AVX-512; f32 and
  /// pairs).
  bool direct_panel = false;
  int columns = 0;  ///< valid ones; what a direct panel may read
  /// The columns of the last vector fill half of it at most, so half is computed (AVX-512): where
  /// 512-bit instructions take two turns of a 256-bit unit, as on Zen 4, that takes one.
  bool half_tail = false;
  /// Rows at the start and at the end to which nothing is added.
  int rows_before = 0, rows_after = 0;
  /// The sums go on behind these k elements, in blocks: end_block() stands between them.
  bool goes_on = false;
};

/// For tile::half_tail.
constexpr bool fills_half(isa level, int tail_lanes) {
  return has_masks(level) && tail_lanes > 0 && 2 * tail_lanes <= lanes_of(level);
}

/// General registers. a0 is the address of row 0; a1 that of row 4; b that of the panel.
struct tile_registers {
  int a0, a1, lda, lda3, b, count, scratch, ldb;
  /// Holds how many bytes beyond the panel memory is prefetched: two lines in each round, half a
  /// round apart; -1: none is.
  int ahead = -1;
  /// Holds the address of a frame with sums of blocks, a vector per accumulator, and the number of
  /// blocks left; -1: sums of any length are one block.
  int frame = -1;
  std::int32_t block_sums = 0, blocks_left = 0;
};
/// Masks that a direct panel with a tail wants: of 32-bit lanes of its last vector, of all its
/// 16-bit columns.
inline constexpr int lanes_mask = 7, columns_mask = 6;

/// Bytes, positive or negative, as the last term of an address.
inline xb::RegExp bytes(std::int64_t n) { return xb::RegExp(static_cast<std::size_t>(n)); }
/// An immediate operand, sign-extended by the processor.
constexpr std::uint32_t immediate(int n) { return static_cast<std::uint32_t>(n); }

/// For VPERMT2W: words of the 16 pairs from column 16 j on, of one row of 32 and of the next.
inline std::vector<std::uint32_t> interleaving_order(int j) {
  std::vector<std::uint32_t> words;
  for (std::uint32_t i = 0; i < 16; ++i) {
    std::uint32_t const column = static_cast<std::uint32_t>(j) * 16 + i;
    words.push_back(column | (column + 32) << 16);
  }
  return words;
}

/// Accumulator of (row, vector) of a tile of `rows` rows: the last slots of the largest tile.
constexpr int accumulator_of(isa level, int rows, int row, int vector) {
  return (tile_rows(level) - rows + row) * tile_vectors + vector;
}

class tile_loop {
 public:
  tile_loop(assembler& a, tile const& t, tile_registers const& r) : a_(a), t_(t), r_(r) {}

  void clear() {
    clear_sums();
    if (in_blocks()) store_block_sums();
  }

  /// Adds the products of k elements. `step` is called as step(offset_of_a, offset_of_b, split), in
  /// bytes, and emits one step; `lone` emits the last element of an odd k in the same form. b is
  /// left at the end of what was read, a0 by the returned number of bytes further.
  template <class Step, class Lone>
  std::int32_t multiply(Step&& step, Lone&& lone) {
    bool const odd =
        t_.kind == product::bf16_pairs && (t_.direct || t_.direct_panel) && t_.k % 2 != 0;
    int const k_step = row_of(t_.kind).k_step;
    extent const steps = odd ? t_.k / k_step : (t_.k + k_step - 1) / k_step;
    int const unroll = t_.rows == 1 ? 8 : 4;
    extent const rounds = steps >= 2 * unroll ? steps / unroll : 0;
    if (in_blocks() && is_long())
      emit_blocks(rounds, unroll, step);
    else if (rounds > 0)
      emit_rounds(rounds, unroll, step);
    int const rest = static_cast<int>(steps - rounds * unroll);
    emit_steps(rest, step);
    if (odd) {
      int const b = t_.direct_panel ? 0 : rest * b_bytes();
      lone(rest * a_bytes(), b, rest % k_splits(t_.rows));
    }
    if (int const last = rest + (odd ? 1 : 0); last > 0 && !t_.direct_panel)
      a_.add(assembler::general(r_.b), immediate(last * b_bytes()));
    return static_cast<std::int32_t>(rounds * unroll * a_bytes());
  }

  /// Adds up the splits and the blocks.
  void merge() {
    merge_splits();
    if (!in_blocks()) return;
    for (int i = 0; i < t_.rows; ++i)
      for (int j = 0; j < t_.vectors; ++j) {
        xb::Xmm const to = a_.vec(sum(i, j, 0));
        a_.vaddps(to, to, block_sum(i, j));
      }
  }

  /// Adds the sums so far to those of the blocks before.
  void end_block() {
    merge();
    store_block_sums();
    clear_sums();
  }

  /// Element of row i of the first operand, at an offset in bytes.
  xb::RegExp row(int i, int offset) const {
    xb::Reg64 const base = assembler::general(i < 4 ? r_.a0 : r_.a1);
    xb::Reg64 const lda = assembler::general(r_.lda);
    switch (i % 4) {
      case 1:
        return base + lda + bytes(offset);
      case 2:
        return base + lda * 2 + bytes(offset);
      case 3:
        return base + assembler::general(r_.lda3) + bytes(offset);
      default:
        return base + bytes(offset);
    }
  }
  xb::RegExp panel(int vector, int offset) const {
    return assembler::general(r_.b) + bytes(offset + vector * b_bytes() / t_.vectors);
  }
  /// Row 0 or 1 of a direct panel's step, from its first column.
  xb::RegExp panel_row(int row) const {
    xb::Reg64 const b = assembler::general(r_.b);
    return row == 0 ? xb::RegExp(b) : b + assembler::general(r_.ldb);
  }
  /// The register that sums (row, vector) of one split; split 0 holds the result.
  int sum(int row, int vector, int split) const {
    if (split == 0) return accumulator_of(a_.level(), t_.rows, row, vector);
    return ((split - 1) * t_.rows + row) * t_.vectors + vector;  // slots that this tile leaves free
  }

 private:
  int a_bytes() const { return a_step_bytes(t_.kind); }
  int b_bytes() const { return t_.vectors * lanes_of(a_.level()) * lane_step_bytes(t_.kind); }

  bool is_long() const { return t_.k > 2 * sum_block; }
  bool in_blocks() const { return r_.frame >= 0 && (t_.goes_on || is_long()); }
  xb::Address block_sum(int row, int vector) const {
    int const at = (row * t_.vectors + vector) * vector_bytes_of(a_.level());
    return a_.ptr[assembler::general(r_.frame) + bytes(r_.block_sums + at)];
  }
  void store_block_sums() {
    for (int i = 0; i < t_.rows; ++i)
      for (int j = 0; j < t_.vectors; ++j) a_.vmovups(block_sum(i, j), a_.vec(sum(i, j, 0)));
  }
  void clear_sums() {
    each_sum([&](int s, int i, int j) {
      xb::Xmm const v = a_.vec(sum(i, j, s));
      if (a_.masks())
        a_.vpxord(v, v, v);
      else
        a_.vxorps(v, v, v);
    });
  }
  void merge_splits() {
    for (int half = k_splits(t_.rows) / 2; half > 0; half /= 2)
      for (int s = 0; s < half; ++s)
        for (int i = 0; i < t_.rows; ++i)
          for (int j = 0; j < t_.vectors; ++j) {
            xb::Xmm const to = a_.vec(sum(i, j, s));
            a_.vaddps(to, to, a_.vec(sum(i, j, s + half)));
          }
  }

  template <class F>
  void each_sum(F&& f) const {
    for (int s = 0; s < k_splits(t_.rows); ++s)
      for (int i = 0; i < t_.rows; ++i)
        for (int j = 0; j < t_.vectors; ++j) f(s, i, j);
  }
  template <class Step>
  void emit_steps(int n, Step&& step) {
    xb::Reg64 const b = assembler::general(r_.b), ldb = assembler::general(r_.ldb);
    for (int i = 0; i < n; ++i) {
      step(i * a_bytes(), t_.direct_panel ? 0 : i * b_bytes(), i % k_splits(t_.rows));
      if (t_.direct_panel) a_.lea(b, a_.ptr[b + ldb * row_of(t_.kind).k_step]);
    }
  }
  template <class Step>
  void emit_rounds(extent rounds, int unroll, Step&& step) {
    a_.mov(assembler::general(r_.count), static_cast<std::uint64_t>(rounds));
    a_.align(32);
    emit_counted_rounds(unroll, step);
  }
  // The first block may be shorter.
  template <class Step>
  void emit_blocks(extent rounds, int unroll, Step&& step) {
    xb::Label next, done;
    xb::Address const left = a_.qword[assembler::general(r_.frame) + bytes(r_.blocks_left)];
    extent const in_block = sum_block / (unroll * row_of(t_.kind).k_step);
    extent const blocks = (rounds + in_block - 1) / in_block;
    a_.mov(left, static_cast<std::uint32_t>(blocks));
    a_.mov(assembler::general(r_.count),
           static_cast<std::uint64_t>(rounds - (blocks - 1) * in_block));
    a_.align(32);
    a_.L(next);
    emit_counted_rounds(unroll, step);
    a_.dec(left);
    a_.jz(done, xb::CodeGenerator::T_NEAR);
    end_block();
    a_.mov(assembler::general(r_.count), static_cast<std::uint64_t>(in_block));
    a_.jmp(next, xb::CodeGenerator::T_NEAR);
    a_.L(done);
  }
  template <class Step>
  void emit_counted_rounds(int unroll, Step&& step) {
    xb::Label again;
    a_.L(again);
    if (r_.ahead >= 0)
      for (int at : {0, unroll * b_bytes() / 2})
        a_.prefetcht1(a_.ptr[assembler::general(r_.b) + assembler::general(r_.ahead) + bytes(at)]);
    emit_steps(unroll, step);
    a_.add(assembler::general(r_.a0), immediate(unroll * a_bytes()));
    if (t_.rows > 4) a_.add(assembler::general(r_.a1), immediate(unroll * a_bytes()));
    if (!t_.direct_panel) a_.add(assembler::general(r_.b), immediate(unroll * b_bytes()));
    a_.dec(assembler::general(r_.count));
    a_.jnz(again, xb::CodeGenerator::T_NEAR);
  }
  assembler& a_;
  tile t_;
  tile_registers r_;
};

}  // namespace sinter::inline SINTER_ABI::jit
