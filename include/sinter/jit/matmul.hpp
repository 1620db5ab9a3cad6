// The matmul kernel: the loops around a tile in generated code, and the frame through which C++
// drives it.
//
// For each panel of the second operand, for each tile of rows: K loop, epilogue. All extents but K
// and the width of the last panel are read from the frame, so one kernel serves every M and N,
// every stride, and M known only at the call. What is in the cache key (matmul_shape and the
// epilogue's chain) is what the code depends on, nothing else. Batches, copies of operands and
// blocks of rows that fit a cache are backend/jit_matmul.hpp's business.
//
// The epilogue is emitted row by row, and tiles with fewer rows enter it further down. Where
// registers are few, or the chain so long that its code would not fit, the sums wait in the frame
// and one row's code runs in a loop.
#pragma once

#include "matmul_frame.hpp"
#include "tile_avx2.hpp"
#include "tile_avx512.hpp"

namespace sinter::inline SINTER_ABI::jit {

class matmul_generator : private matmul_frame_code {
 public:
  matmul_generator(assembler& a, matmul_shape const& s, epilogue_accesses const& accesses,
                   epilogue const& e)
      : matmul_frame_code(a, s, accesses, e) {}

  /// False where an epilogue for each row would not fit: that is known after the first one.
  bool emit() {
    enter();
    a_.mov(g(r.scratch), field(offsetof(matmul_frame, b)));
    a_.mov(field(offsetof(matmul_frame, panel)), g(r.scratch));
    xb::Label end;
    if (s_.full_panels) emit_full_panels();
    if (s_.full_panels && s_.tail_columns > 0) {
      a_.cmp(field(offsetof(matmul_frame, tail_panel)), 0);
      a_.je(end, xb::CodeGenerator::T_NEAR);
    }
    if (s_.tail_columns > 0) emit_tail_panel();
    a_.L(end);
    leave();
    return fits_;
  }

 private:
  void emit_full_panels() {
    xb::Label again, done;
    a_.mov(g(r.count), field(offsetof(matmul_frame, full_panels)));
    a_.test(g(r.count), g(r.count));
    a_.jz(done, xb::CodeGenerator::T_NEAR);
    a_.mov(field(offsetof(matmul_frame, panels_left)), g(r.count));
    a_.L(again);
    emit_panel(tile_vectors, 0);
    a_.mov(g(r.count), field(offsetof(matmul_frame, full_panel_bytes)));
    a_.add(field(offsetof(matmul_frame, panel)), g(r.count));
    a_.add(field(offsetof(matmul_frame, column)), immediate(tile_columns(s_.level)));
    a_.dec(field(offsetof(matmul_frame, panels_left)));
    a_.jnz(again, xb::CodeGenerator::T_NEAR);
    a_.L(done);
  }
  void emit_tail_panel() {
    int const lanes = lanes_of(s_.level), valid = s_.tail_columns % lanes;
    if (has_masks(s_.level)) {
      if (valid > 0) set_mask(lanes_mask, valid);
      if (s_.direct_panel) set_mask(columns_mask, s_.tail_columns);
    }
    emit_panel((s_.tail_columns + lanes - 1) / lanes, valid);
  }

  // All rows of one panel.
  void emit_panel(int vectors, int tail_lanes) {
    load_origins();
    a_.mov(g(r.a0), field(offsetof(matmul_frame, a)));
    a_.mov(g(block_count), field(offsetof(matmul_frame, blocks)));
    xb::Label next_block;
    a_.align(32);
    a_.L(next_block);
    a_.mov(g(r.b), field(offsetof(matmul_frame, panel)));
    if (s_.looped_epilogue)
      emit_tiles_looped(vectors, tail_lanes);
    else
      emit_tiles(vectors, tail_lanes);
    a_.dec(g(block_count));
    a_.jnz(next_block, xb::CodeGenerator::T_NEAR);
  }

  template <class Then>
  void emit_k_loops(int vectors, int tail_lanes, Then&& then) {
    xb::Label of_rows[16];
    dispatch(of_rows);
    for (int rows = least_rows_; rows <= most_rows_; ++rows) {
      if (!occurs(rows)) continue;
      a_.L(of_rows[rows]);
      emit_tile(rows, vectors, tail_lanes);
      then(rows);
    }
  }

  // The sums of one tile; then a0 moves past its rows.
  void emit_tile(int rows, int vectors, int tail_lanes) {
    int const lanes = lanes_of(s_.level);
    tile t{s_.kind, rows, vectors, s_.k, s_.direct, s_.direct_panel, vectors * lanes};
    if (tail_lanes > 0) t.columns -= lanes - tail_lanes;
    t.half_tail = fills_half(s_.level, tail_lanes);
    if (has_masks(s_.level))
      emit_sums(tile_avx512(a_, t, r), rows);
    else
      emit_sums(tile_avx2(a_, t, r), rows);
    a_.imul(g(r.count), g(r.lda), rows);
    a_.add(g(r.a0), g(r.count));
  }
  template <class Tile>
  void emit_sums(Tile t, int rows) {
    t.clear();
    if (rows > 4) a_.lea(g(r.a1), a_.ptr[g(r.a0) + g(r.lda) * 4]);
    std::int32_t const advanced = t.multiply();
    if (advanced != 0) a_.sub(g(r.a0), immediate(advanced));
    t.merge();
  }

  void emit_tiles(int vectors, int tail_lanes) {
    xb::Label of_rows[16];
    emit_k_loops(vectors, tail_lanes, [&](int rows) {
      if (rows != most_rows_) a_.jmp(of_rows[rows], xb::CodeGenerator::T_NEAR);
    });
    register_set const accumulators = set_of_range(0, tile_rows(s_.level) * tile_vectors);
    std::size_t const begin = a_.getSize();
    for (int rows = most_rows_; rows > 0; --rows) {
      if (rows == most_rows_ - 1 &&
          begin + (a_.getSize() - begin) * rows_of_code(vectors) > a_.max_code_bytes)
        fits_ = false;
      if (!fits_) return;
      a_.L(of_rows[rows]);
      int const first = accumulator_of(s_.level, rows, 0, 0);
      emit_epilogue(first, vectors, tail_lanes,
                    (all_vectors_of(s_.level) & ~accumulators) | set_of_range(0, first));
      advance_rows(1);
    }
  }

  // How often the epilogue of one row stands in all panels together, if it is that of `vectors`
  // vectors.
  std::size_t rows_of_code(int vectors) const {
    int const tail = (s_.tail_columns + lanes_of(s_.level) - 1) / lanes_of(s_.level);
    return static_cast<std::size_t>(most_rows_ * ((s_.full_panels ? tile_vectors : 0) + tail) /
                                    vectors);
  }

  // The sums go to the frame, then row by row through one copy of the epilogue.
  void emit_tiles_looped(int vectors, int tail_lanes) {
    xb::Label rows_stored, next_row;
    int const vector_bytes = vector_bytes_of(s_.level);
    emit_k_loops(vectors, tail_lanes, [&](int rows) {
      for (int i = 0; i < rows; ++i)
        for (int j = 0; j < vectors; ++j)
          a_.vmovups(a_.ptr[g(frame) + offsetof(matmul_frame, spill) +
                            bytes((i * vectors + j) * vector_bytes)],
                     a_.vec(accumulator_of(s_.level, rows, i, j)));
      a_.mov(field(offsetof(matmul_frame, rows_left)), immediate(rows));
      if (rows != most_rows_) a_.jmp(rows_stored, xb::CodeGenerator::T_NEAR);
    });
    a_.L(rows_stored);
    a_.lea(g(r.count), a_.ptr[g(frame) + offsetof(matmul_frame, spill)]);
    a_.mov(field(offsetof(matmul_frame, spilled)), g(r.count));
    a_.L(next_row);
    a_.mov(g(r.count), field(offsetof(matmul_frame, spilled)));
    for (int j = 0; j < vectors; ++j)
      a_.vmovups(a_.vec(j), a_.ptr[g(r.count) + bytes(j * vector_bytes)]);
    emit_epilogue(0, vectors, tail_lanes, all_vectors_of(s_.level) & ~set_of_range(0, vectors));
    advance_rows(1);
    a_.add(field(offsetof(matmul_frame, spilled)), immediate(vectors * vector_bytes));
    a_.dec(field(offsetof(matmul_frame, rows_left)));
    a_.jnz(next_row, xb::CodeGenerator::T_NEAR);
  }

  bool fits_ = true;
};

}  // namespace sinter::inline SINTER_ABI::jit
