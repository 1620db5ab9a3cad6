// The matmul kernel in AMX: panels of 32 columns times blocks of rows, in jit/matmul.hpp's frame.
//
// Whole blocks of rows pass by for each panel, then the rows that remain, for each panel again: so
// tiles are configured twice at most. Few rows take two panels at a time. The rows of a call come
// with the frame (matmul_frame::rows), so one kernel serves every M. Read jit/amx_blocks.hpp for
// blocks, jit/tile_amx.hpp for the K loop.
#pragma once

#include "amx_blocks.hpp"
#include "matmul.hpp"

namespace sinter::inline SINTER_ABI::jit {

/// Where amx_memory begins, behind the frame.
inline std::size_t amx_memory_at(epilogue const& e, isa level) {
  return round_up(matmul_frame_bytes(e, level), 64);
}

/// Tiles of rows in a whole block.
constexpr int amx_block_rows(extent rows, extent n) {
  if (rows >= 0 && rows <= amx_rows) return 1;
  return n <= amx_rows && (rows < 0 || rows > 2 * amx_rows) ? 4 : 2;
}

class matmul_amx_generator : private amx_blocks {
 public:
  matmul_amx_generator(assembler& a, matmul_shape const& s, epilogue_accesses const& accesses,
                       epilogue const& e)
      : amx_blocks(
            a, accesses, e,
            amx_frame_of<matmul_frame>(offsetof(matmul_frame, lda), amx_memory_at(e, a.level()))),
        s_(s) {}

  void emit() {
    enter(s_.tail_columns % lanes_of(s_.level), s_.direct ? k_bytes() : 0);
    xb::Label blocks_of[5];
    phases(offsetof(matmul_frame, rows), s_.row_tiles, blocks_of);
    leave();
    for (int i = 1; i <= s_.row_tiles; ++i) {
      a_.L(blocks_of[i]);
      i == 1 ? emit_pairs_of_panels() : emit_panels(i);
    }
    a_.L(full_end_);
    if (s_.full_panels) emit_epilogue(tile_vectors, 0);
    a_.L(tail_end_);
    if (s_.tail_columns > 0) emit_epilogue(tail_vectors(), s_.tail_columns % lanes_of(s_.level));
  }

 private:
  extent k_bytes() const { return s_.k * size_of(row_of(s_.kind).a); }
  int tail_vectors() const { return (s_.tail_columns + 15) / 16; }

  void begin_panels() {
    a_.mov(g(r.count), field(offsetof(matmul_frame, b)));
    a_.mov(own(offsetof(amx_memory, panel)), g(r.count));
    a_.mov(own(offsetof(amx_memory, column)), 0);
  }
  void next_panels(int n) {
    a_.imul(g(r.count), field(offsetof(matmul_frame, full_panel_bytes)), n);
    a_.add(own(offsetof(amx_memory, panel)), g(r.count));
    a_.add(own(offsetof(amx_memory, column)), immediate(n * tile_columns(s_.level)));
  }
  void unless_tail(xb::Label& without) {
    a_.cmp(field(offsetof(matmul_frame, tail_panel)), 0);
    a_.je(without, xb::CodeGenerator::T_NEAR);
  }

  /// Panel by panel.
  void emit_panels(int rows) {
    xb::Label again, tail, end;
    begin_panels();
    if (s_.full_panels) {
      a_.mov(g(r.count), field(offsetof(matmul_frame, full_panels)));
      a_.test(g(r.count), g(r.count));
      a_.jz(tail, xb::CodeGenerator::T_NEAR);
      a_.mov(own(offsetof(amx_memory, panels_left)), g(r.count));
      a_.L(again);
      emit_blocks(rows, tile_vectors, 0, false);
      next_panels(1);
      a_.dec(own(offsetof(amx_memory, panels_left)));
      a_.jnz(again, xb::CodeGenerator::T_NEAR);
      a_.L(tail);
    }
    if (s_.tail_columns > 0) {
      if (s_.full_panels) unless_tail(end);
      emit_blocks(rows, tail_vectors(), 0, true);
    }
    a_.L(end);
    a_.ret();
  }

  /// One tile of rows: two panels at a time, the last one with the tail.
  void emit_pairs_of_panels() {
    xb::Label again, rest, even, alone, end;
    begin_panels();
    if (s_.full_panels) {
      a_.mov(g(r.count), field(offsetof(matmul_frame, full_panels)));
      a_.shr(g(r.count), 1);
      a_.jz(rest, xb::CodeGenerator::T_NEAR);
      a_.mov(own(offsetof(amx_memory, panels_left)), g(r.count));
      a_.L(again);
      emit_blocks(1, tile_vectors, tile_vectors, false);
      next_panels(2);
      a_.dec(own(offsetof(amx_memory, panels_left)));
      a_.jnz(again, xb::CodeGenerator::T_NEAR);
      a_.L(rest);
      a_.test(field(offsetof(matmul_frame, full_panels)), 1);
      a_.jz(s_.tail_columns > 0 ? even : end, xb::CodeGenerator::T_NEAR);
      if (s_.tail_columns > 0) {
        unless_tail(alone);
        emit_blocks(1, tile_vectors, tail_vectors(), true);
        a_.jmp(end, xb::CodeGenerator::T_NEAR);
        a_.L(alone);
      }
      emit_blocks(1, tile_vectors, 0, false);
      if (s_.tail_columns > 0) {
        a_.jmp(end, xb::CodeGenerator::T_NEAR);
        a_.L(even);
        unless_tail(end);
      }
    }
    if (s_.tail_columns > 0) emit_blocks(1, tail_vectors(), 0, true);
    a_.L(end);
    a_.ret();
  }

  /// Blocks of panels of so many vectors; `tail`: the last of them is the narrower one.
  void emit_blocks(int rows, int vectors, int more, bool tail) {
    amx_run const run{.bytes = k_bytes(),
                      .padded = !s_.direct,
                      .vectors = {vectors, more},
                      .memory = memory_at()};
    xb::Label* const ends[] = {tail && more == 0 ? &tail_end_ : &full_end_,
                               tail ? &tail_end_ : &full_end_};
    each_block(
        {rows, vectors + more}, run, ends,
        [&] {
          a_.mov(g(r.b[0]), own(offsetof(amx_memory, panel)));
          if (more > 0) {
            a_.mov(g(r.b[1]), field(offsetof(matmul_frame, full_panel_bytes)));
            a_.add(g(r.b[1]), g(r.b[0]));
          }
          prefetch_at(offsetof(matmul_frame, full_panel_bytes));
        },
        [](tile_amx& tiles) { tiles.multiply(); });
  }

  matmul_shape s_;
  xb::Label full_end_, tail_end_;
};

}  // namespace sinter::inline SINTER_ABI::jit
