// The matmul kernel for one column where the elements of a column of the first operand lie side by
// side (it is transposed): lanes run along rows, and no sum crosses lanes.
//
// A pass is some vectors of rows and walks down K: one element of the second operand times them all.
// The rows that are left take one pass where their number was known; else narrower ones, each half as
// wide as the one before it, the last one with a mask, or on AVX2 of four, two and one lanes. Every
// sum is made in the same order, so passes of any width give the same bits, and so do all levels. Any
// number of rows is served by the same code. Then the sums wait for the epilogue
// (jit/column_code.hpp).
//
// Both operands are read as they lie, in their own dtypes; `lda` of the frame is here what separates
// one k from the next.
#pragma once

#include "column_code.hpp"

namespace sinter::inline SINTER_ABI::jit {

/// Vectors of the widest pass: several lines of 64 bytes of each k are read together, since the next
/// k may be on another page (measured on AVX2: 64 x 4096 takes 19.9 us with 8 vectors, 11.4 with 12).
constexpr int column_rows_vectors(isa level) { return has_masks(level) ? 8 : 12; }

class column_rows_generator : private column_code {
 public:
  column_rows_generator(assembler& a, matmul_shape const& s, epilogue_accesses const& accesses,
                        epilogue const& e)
      : column_code(a, s, accesses, e) {}

  void emit() {
    enter();
    a_.lea(g(r.lda3), a_.ptr[g(r.lda) + g(r.lda) * 2]);
    load_origins();
    a_.mov(g(r.a0), field(offsetof(matmul_frame, a)));
    a_.mov(g(rows_left), field(offsetof(matmul_frame, rows)));
    xb::Label next, narrower, sums_made;
    a_.L(next);
    begin_sums();
    int const lanes = lanes_of(s_.level);
    emit_pass_for(lanes * column_rows_vectors(s_.level), narrower);
    a_.jmp(sums_made, xb::CodeGenerator::T_NEAR);
    a_.L(narrower);
    if (s_.rest_rows > 0) emit_known_rest(sums_made);
    for (int rows = lanes * (has_masks(s_.level) ? 4 : 8); rows >= least_rows(); rows /= 2) {
      xb::Label skip;
      emit_pass_for(rows, skip);
      a_.L(skip);
    }
    if (has_masks(s_.level)) emit_masked_pass();
    a_.L(sums_made);
    emit_epilogues();
    a_.test(g(rows_left), g(rows_left));
    a_.jnz(next, xb::CodeGenerator::T_NEAR);
    leave();
  }

 private:
  static constexpr int rows_left = block_count;
  static constexpr int factor = 14, element = 15;
  static constexpr int unroll = 4;

  int least_rows() const { return has_masks(s_.level) ? lanes_of(s_.level) : 1; }
  place of_column(int k) const { return {r.b, k * size_of(s_.b)}; }

  /// Where there are so many rows; `fewer` is for the caller to place.
  void emit_pass_for(int rows, xb::Label& fewer) {
    a_.cmp(g(rows_left), immediate(rows));
    a_.jb(fewer, xb::CodeGenerator::T_NEAR);
    emit_rows(rows);
  }
  /// All that are left, if they are as many as was known.
  void emit_known_rest(xb::Label& then) {
    xb::Label others;
    a_.cmp(g(rows_left), immediate(s_.rest_rows));
    a_.jne(others, xb::CodeGenerator::T_NEAR);
    if (int const tail = s_.rest_rows % lanes_of(s_.level); has_masks(s_.level) && tail > 0)
      set_mask(columns_mask, tail);
    emit_rows(s_.rest_rows);
    a_.jmp(then, xb::CodeGenerator::T_NEAR);
    a_.L(others);
  }
  void emit_rows(int rows) {
    int const lanes = lanes_of(s_.level);
    emit_pass((rows + lanes - 1) / lanes, {rows % lanes, columns_mask});
    a_.add(field(offsetof(matmul_frame, spilled)), immediate(4 * rows));
    a_.add(g(r.a0), immediate(rows * size_of(s_.a)));
    a_.sub(g(rows_left), immediate(rows));
  }
  /// The rows that are left, fewer than lanes.
  void emit_masked_pass() {
    xb::Label none;
    a_.test(g(rows_left), g(rows_left));
    a_.jz(none, xb::CodeGenerator::T_NEAR);
    a_.mov(xb::Reg32(r.count), 0xffffffffU);
    a_.bzhi(xb::Reg32(r.count), xb::Reg32(r.count), xb::Reg32(rows_left));
    a_.kmovd(assembler::mask(columns_mask), xb::Reg32(r.count));
    emit_pass(1, {1, columns_mask});
    a_.shl(g(rows_left), 2);
    a_.add(field(offsetof(matmul_frame, spilled)), g(rows_left));
    a_.xor_(g(rows_left), g(rows_left));
    a_.L(none);
  }

  /// Sums of so many vectors of rows, the last one of `tail` lanes, to where the frame says.
  void emit_pass(int vectors, lane_count tail) {
    a_.mov(g(r.a1), g(r.a0));
    a_.mov(g(r.b), field(offsetof(matmul_frame, b)));
    clear(vectors);
    extent const rounds = s_.k / unroll;
    auto const terms = [&](int count) {
      for (int i = 0; i < count; ++i) emit_term(i, vectors, tail);
    };
    if (rounds > 0)
      emit_rounds(rounds, unroll, vectors, [&] {
        terms(unroll);
        a_.lea(g(r.a1), a_.ptr[g(r.a1) + g(r.lda) * unroll]);
        a_.add(g(r.b), immediate(unroll * size_of(s_.b)));
      });
    terms(static_cast<int>(s_.k % unroll));
    a_.mov(g(r.count), field(offsetof(matmul_frame, spilled)));
    for (int v = 0; v < vectors; ++v)
      a_.vmovups(a_.ptr[g(r.count) + bytes(v * vector_bytes_of(s_.level))], a_.vec(v));
  }

  /// k from the registers on: one element of the column times the same k of all rows.
  void emit_term(int k, int vectors, lane_count tail) {
    memory_.broadcast(s_.b, factor, of_column(k));
    xb::RegExp const from = rows_.row(4 + k, 0);
    int const bytes_of_vector = lanes_of(s_.level) * size_of(s_.a);
    if (s_.a != dtype::f32 || !tail.all()) a_.lea(g(r.ldb), a_.ptr[from]);
    for (int v = 0; v < vectors; ++v) {
      lane_count const n = v + 1 == vectors ? tail : lane_count{};
      if (s_.a == dtype::f32 && n.all()) {
        a_.vfmadd231ps(a_.vec(v), a_.vec(factor), a_.ptr[from + bytes(v * bytes_of_vector)]);
        continue;
      }
      memory_.load(s_.a, element, {r.ldb, v * bytes_of_vector}, n);
      a_.vfmadd231ps(a_.vec(v), a_.vec(factor), a_.vec(element));
    }
  }
};

}  // namespace sinter::inline SINTER_ABI::jit
