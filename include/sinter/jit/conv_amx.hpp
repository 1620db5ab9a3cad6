// The convolution kernel in AMX: one strip of output pixels times one panel of output channels, in
// jit/conv.hpp's frame.
//
// The implicit product is the same as there: rows are pixels, K runs over taps and for each over
// the elements of a run. A run is padded with zeros to whole tiles in the panel; the end of a pixel's
// own is copied before zeros as it is read. All lines of a strip go through whole blocks first and
// through what remains of each line then, so tiles are configured twice at most. Read
// jit/amx_blocks.hpp for blocks, jit/tile_amx.hpp for the K loop.
#pragma once

#include "amx_blocks.hpp"
#include "conv.hpp"

namespace sinter::inline SINTER_ABI::jit {

/// Where amx_memory begins, behind the frame.
inline std::size_t conv_amx_memory_at(epilogue const& e, isa level) {
  return round_up(conv_frame_bytes(e, level), 64);
}

class conv_amx_generator : private amx_blocks {
 public:
  conv_amx_generator(assembler& a, conv_shape const& s, epilogue_accesses const& accesses,
                     epilogue const& e)
      : amx_blocks(a, accesses, e, frame_of(conv_amx_memory_at(e, s.level))), s_(s) {
    run_.bytes = s.run * size_of(row_of(s.kind).a);
    run_.vectors[0] = s.vectors;
    run_.memory = memory_at();
  }

  void emit() {
    int const tiles = s_.vectors == 1 ? 4 : 2;
    enter(s_.tail_lanes, run_.bytes);
    xb::Label blocks_of[5];
    phases(offsetof(conv_frame, walk.pixels), tiles, blocks_of);
    leave();
    for (int i = 1; i <= tiles; ++i) {
      a_.L(blocks_of[i]);
      emit_blocks(i);
    }
    a_.L(end_);
    emit_epilogue(s_.vectors, s_.tail_lanes);
  }

 private:
  static amx_frame frame_of(std::size_t memory) {
    amx_frame f = amx_frame_of<conv_frame>(offsetof(conv_frame, walk.lda), memory);
    f.line_stride = offsetof(conv_frame::access, line_stride);
    f.a_line = offsetof(conv_frame, walk.a_line);
    return f;
  }

  /// Two panels at a time, where strips have one tile of rows.
  bool takes_pairs() const { return s_.vectors == tile_vectors && s_.tail_lanes == 0; }

  void emit_blocks(int rows) {
    if (rows > 1 || !takes_pairs()) return emit_lines({rows, s_.vectors}, run_);
    xb::Label pair;
    a_.cmp(field(offsetof(conv_frame, pair)), 0);
    a_.jne(pair, xb::CodeGenerator::T_NEAR);
    emit_lines({rows, s_.vectors}, run_);
    a_.L(pair);
    amx_run two = run_;
    two.vectors[1] = s_.vectors;
    emit_lines({rows, 2 * s_.vectors}, two);
  }

  void emit_lines(amx_block const& b, amx_run const& run) {
    xb::Label again;
    xb::Label* const ends[] = {&end_, &end_};
    a_.mov(own(offsetof(amx_memory, column)), 0);
    a_.mov(own(offsetof(amx_memory, line)), 0);
    a_.L(again);
    each_block(
        b, run, ends,
        [&] {
          a_.mov(g(r.b[0]), field(offsetof(conv_frame, b)));
          if (run.vectors[1] > 0) {
            a_.mov(g(r.b[1]), field(offsetof(conv_frame, pair)));
            a_.add(g(r.b[1]), g(r.b[0]));
          }
          prefetch_at(offsetof(conv_frame, ahead_first));
        },
        [&](tile_amx& tiles) { emit_taps(tiles, run); });
    a_.mov(g(r.count), own(offsetof(amx_memory, line)));
    a_.inc(g(r.count));
    a_.mov(own(offsetof(amx_memory, line)), g(r.count));
    a_.cmp(g(r.count), field(offsetof(conv_frame, walk.lines)));
    a_.jb(again, xb::CodeGenerator::T_NEAR);
    a_.ret();
  }

  void emit_taps(tile_amx& tiles, amx_run const& run) {
    xb::Label next_row, next_column, done;
    xb::Reg64 const n = g(r.count);
    a_.mov(n, field(offsetof(conv_frame, walk.tap_rows)));
    a_.test(n, n);
    a_.jz(done, xb::CodeGenerator::T_NEAR);
    a_.mov(own(offsetof(amx_memory, runs_left)), n);
    a_.L(next_row);
    a_.mov(n, field(offsetof(conv_frame, walk.tap_columns)));
    a_.mov(own(offsetof(amx_memory, taps_left)), n);
    a_.L(next_column);
    tiles.multiply();
    a_.add(g(r.a[0]), field(offsetof(conv_frame, walk.a_column)));
    a_.dec(own(offsetof(amx_memory, taps_left)));
    a_.jnz(next_column, xb::CodeGenerator::T_NEAR);
    a_.add(g(r.a[0]), field(offsetof(conv_frame, walk.a_row)));
    for (int q = 0; q < 2 && run.vectors[q] > 0; ++q)
      a_.add(g(r.b[q]), field(offsetof(conv_frame, walk.b_row)));
    a_.dec(own(offsetof(amx_memory, runs_left)));
    a_.jnz(next_row, xb::CodeGenerator::T_NEAR);
    a_.L(done);
  }

  conv_shape s_;
  amx_run run_{.vectors = {0, 0}};
  xb::Label end_;
};

}  // namespace sinter::inline SINTER_ABI::jit
