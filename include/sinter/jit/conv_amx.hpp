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

class conv_amx_generator {
 public:
  conv_amx_generator(assembler& a, conv_shape const& s, epilogue_accesses const& accesses,
                     epilogue const& e)
      : a_(a), s_(s), blocks_(a, accesses, e, frame_of(e, s.level)) {
    run_.bytes = s.run * size_of(row_of(s.kind).a);
    run_.vectors[0] = s.vectors;
    run_.memory = static_cast<int>(conv_amx_memory_at(e, s.level));
  }

  void emit() {
    int const tiles = s_.vectors == 1 ? 4 : 2;
    blocks_.enter(s_.tail_lanes, run_.bytes);
    xb::Label blocks_of[5];
    blocks_.phases(offsetof(conv_frame, walk.pixels), tiles, blocks_of);
    blocks_.leave();
    for (int i = 1; i <= tiles; ++i) {
      a_.L(blocks_of[i]);
      emit_lines(i);
    }
    a_.L(end_);
    blocks_.emit_epilogue(s_.vectors, s_.tail_lanes);
  }

 private:
  static constexpr amx_registers r = amx_blocks::r;
  static xb::Reg64 g(int i) { return assembler::general(i); }
  xb::Address field(std::size_t offset) const { return blocks_.field(offset); }
  xb::Address own(std::size_t offset) const { return blocks_.own(offset); }

  static amx_frame frame_of(epilogue const& e, isa level) {
    using access = conv_frame::access;
    amx_frame f{};
    f.a = offsetof(conv_frame, a);
    f.lda = offsetof(conv_frame, walk.lda);
    f.accesses = offsetof(conv_frame, accesses);
    f.access_bytes = sizeof(access);
    f.origin = offsetof(access, origin);
    f.row_stride = offsetof(access, row_stride);
    f.at = offsetof(access, at);
    f.line_stride = offsetof(access, line_stride);
    f.a_line = offsetof(conv_frame, walk.a_line);
    f.scratch = offsetof(conv_frame, scratch);
    f.memory = conv_amx_memory_at(e, level);
    return f;
  }

  void emit_lines(int rows) {
    xb::Label again;
    xb::Label* const ends[] = {&end_};
    a_.mov(own(offsetof(amx_memory, column)), 0);
    a_.mov(own(offsetof(amx_memory, line)), 0);
    a_.L(again);
    blocks_.each_block(
        {rows, s_.vectors}, run_, ends, [&] { prepare(); },
        [&](tile_amx& tiles) { emit_taps(tiles); });
    a_.mov(g(r.count), own(offsetof(amx_memory, line)));
    a_.inc(g(r.count));
    a_.mov(own(offsetof(amx_memory, line)), g(r.count));
    a_.cmp(g(r.count), field(offsetof(conv_frame, walk.lines)));
    a_.jb(again, xb::CodeGenerator::T_NEAR);
    a_.ret();
  }

  /// Eight blocks of pixels bring the next panel: a line of each in turn for every product.
  void prepare() {
    a_.mov(g(r.b[0]), field(offsetof(conv_frame, b)));
    a_.mov(g(r.ahead), own(offsetof(amx_memory, line)));
    a_.shl(g(r.ahead), 5);
    a_.add(g(r.ahead), own(offsetof(amx_memory, row)));
    a_.shl(g(r.ahead), 3);
    a_.and_(g(r.ahead), 0x700);
    a_.add(g(r.ahead), field(offsetof(conv_frame, ahead_first)));
  }

  void emit_taps(tile_amx& tiles) {
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
    a_.add(g(r.b[0]), field(offsetof(conv_frame, walk.b_row)));
    a_.dec(own(offsetof(amx_memory, runs_left)));
    a_.jnz(next_row, xb::CodeGenerator::T_NEAR);
    a_.L(done);
  }

  assembler& a_;
  conv_shape s_;
  amx_blocks blocks_;
  amx_run run_{.vectors = {0, 0}};
  xb::Label end_;
};

}  // namespace sinter::inline SINTER_ABI::jit
