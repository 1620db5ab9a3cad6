// The depthwise convolution kernel: rows of output pixels of one image, all channels, with their
// epilogue.
//
// For each panel of channels, for each line, for each block of a line: kernel rows that are inside
// the image, then the epilogue, pixel by pixel. Kernel rows and borders are found by comparison
// with what the frame says, so one kernel serves every image, vertical stride, dilation and
// padding, known only at the call or not. A block that reaches over the left or right border, or
// that is the shorter last one, takes a second copy of the sums' code that looks at each column;
// the others take one that does not. Who calls: backend/jit_depthwise.hpp.
#pragma once

#include "depthwise_taps.hpp"
#include "epilogue.hpp"
#include "epilogue_origins.hpp"
#include "registers.hpp"

namespace sinter::inline SINTER_ABI::jit {

inline std::size_t depthwise_frame_bytes(epilogue const& e, isa level) {
  return offsetof(depthwise_frame, scratch) +
         round_up(static_cast<std::size_t>(e.stack_bytes(level)) + 1, 64);
}

class depthwise_generator {
 public:
  depthwise_generator(assembler& a, depthwise_shape const& s, epilogue_accesses const& accesses,
                      epilogue const& e)
      : a_(a), s_(s), epilogue_(e), origins_(a, accesses, layout()) {}

  void emit() {
    a_.push(g(r.tap_row));
    origins_.push();
    a_.mov(g(r.column), field(offsetof(depthwise_frame, column)));
    a_.mov(g(r.tap_row), field(offsetof(depthwise_frame, tap_row)));
    copy(offsetof(depthwise_frame, panel_src), offsetof(depthwise_frame, src));
    copy(offsetof(depthwise_frame, panel), offsetof(depthwise_frame, weights));
    a_.mov(field(offsetof(depthwise_frame, channel)), 0);
    if (s_.kind == depthwise_product::pairs) set_mask(depthwise_taps::even_mask, 0x55555555U);
    if (s_.full_panels) emit_full_panels();
    if (s_.tail_columns > 0) emit_tail_panel();
    a_.vzeroupper();
    origins_.pop();
    a_.pop(g(r.tap_row));
    a_.ret();
  }

 private:
  // rdi holds the frame throughout, rsi the source row of the tap at hand. Origins stand in
  // registers as far as there are any.
  static constexpr int frame = 7, source_row = 6;
  static constexpr depthwise_registers r{.row = 9,
                                         .at = 0,
                                         .column = 8,
                                         .tap_row = 5,
                                         .weights = 10,
                                         .low = 11,
                                         .high = 2,
                                         .scratch = 1};
  static constexpr int origin_registers[] = {3, 12, 13, 14, 15};
  static constexpr extent most_prefetched_rows = 2;
  /// Dead when the sums are made.
  static constexpr register_set free_general =
      1U << 0 | 1U << 1 | 1U << 2 | 1U << 6 | 1U << 9 | 1U << 10 | 1U << 11;

  static xb::Reg64 g(int i) { return assembler::general(i); }
  xb::Address field(std::size_t offset) const { return a_.qword[g(frame) + offset]; }
  static origin_layout layout() {
    origin_layout l = origin_layout::of<depthwise_frame>();
    l.frame = frame;
    l.registers = origin_registers;
    l.spare = r.scratch;
    l.tail_mask = depthwise_taps::lanes_mask;
    l.free_masks = set_of_range(1, 4);
    l.free_general = free_general;
    return l;
  }
  std::size_t line_field(int i) const {
    return origins_.field_of(i, offsetof(depthwise_frame::access, line));
  }

  void copy(std::size_t to, std::size_t from) {
    a_.mov(g(r.scratch), field(from));
    a_.mov(field(to), g(r.scratch));
  }
  void add(std::size_t to, std::size_t from) {
    a_.mov(g(r.scratch), field(from));
    a_.add(field(to), g(r.scratch));
  }
  void set_mask(int mask, std::uint32_t bits) {
    a_.mov(xb::Reg32(r.scratch), bits);
    a_.kmovd(assembler::mask(mask), xb::Reg32(r.scratch));
  }

  // ---- panels, lines, blocks -------------------------------------------------------------------

  void emit_full_panels() {
    xb::Label again;
    copy(offsetof(depthwise_frame, panels_left), offsetof(depthwise_frame, full_panels));
    a_.L(again);
    emit_panel(s_.vectors, s_.width());
    add(offsetof(depthwise_frame, panel), offsetof(depthwise_frame, panel_bytes));
    a_.add(field(offsetof(depthwise_frame, panel_src)), immediate(s_.width() * size_of(s_.src)));
    a_.add(field(offsetof(depthwise_frame, channel)), immediate(s_.width()));
    a_.dec(field(offsetof(depthwise_frame, panels_left)));
    a_.jnz(again, xb::CodeGenerator::T_NEAR);
  }
  void emit_tail_panel() {
    int const valid = s_.tail_columns % s_.lanes();
    if (has_masks(s_.level)) {
      if (valid > 0) set_mask(depthwise_taps::lanes_mask, (1U << valid) - 1);
      if (s_.kind == depthwise_product::pairs && s_.tail_vectors() == 2)
        set_mask(depthwise_taps::words_mask,
                 static_cast<std::uint32_t>((std::uint64_t{1} << s_.tail_columns) - 1));
    }
    emit_panel(s_.tail_vectors(), s_.tail_columns);
  }

  void emit_panel(int vectors, int columns) {
    xb::Label next_line;
    copy(offsetof(depthwise_frame, line_src), offsetof(depthwise_frame, panel_src));
    copy(offsetof(depthwise_frame, at_row), offsetof(depthwise_frame, in_row));
    copy(offsetof(depthwise_frame, lines_left), offsetof(depthwise_frame, lines));
    set_lines();
    a_.L(next_line);
    emit_line(vectors, columns);
    add(offsetof(depthwise_frame, line_src), offsetof(depthwise_frame, line));
    add(offsetof(depthwise_frame, at_row), offsetof(depthwise_frame, row_stride));
    for (int i = 0; i < origins_.accesses().ssize(); ++i)
      if (origins_.accesses()[i].moves)
        add(line_field(i), origins_.field_of(i, offsetof(depthwise_frame::access, line_stride)));
    a_.dec(field(offsetof(depthwise_frame, lines_left)));
    a_.jnz(next_line, xb::CodeGenerator::T_NEAR);
  }
  // line = origin + channel * size, or the origin itself where all channels share an element.
  void set_lines() {
    xb::Reg64 const to = g(r.at);
    a_.mov(g(r.scratch), field(offsetof(depthwise_frame, channel)));
    for (int i = 0; i < origins_.accesses().ssize(); ++i) {
      epilogue_access const& access = origins_.accesses()[i];
      a_.mov(to, field(origins_.field_of(i, offsetof(depthwise_frame::access, origin))));
      if (access.across == columns::unit)
        a_.lea(to, a_.ptr[to + g(r.scratch) * size_of(access.type)]);
      a_.mov(field(line_field(i)), to);
    }
  }

  void emit_line(int vectors, int columns) {
    xb::Label next_block;
    origins_.set(offsetof(depthwise_frame::access, line));
    copy(offsetof(depthwise_frame, block_src), offsetof(depthwise_frame, line_src));
    copy(offsetof(depthwise_frame, at_column), offsetof(depthwise_frame, in_column));
    copy(offsetof(depthwise_frame, pixels_left), offsetof(depthwise_frame, pixels));
    a_.align(32);
    a_.L(next_block);
    emit_block(vectors, columns);
    add(offsetof(depthwise_frame, block_src), offsetof(depthwise_frame, block));
    add(offsetof(depthwise_frame, at_column), offsetof(depthwise_frame, block_columns));
    a_.sub(field(offsetof(depthwise_frame, pixels_left)), immediate(s_.pixels));
    a_.jg(next_block, xb::CodeGenerator::T_NEAR);
  }

  void emit_block(int vectors, int columns) {
    depthwise_taps taps(a_, s_, r, vectors, columns);
    xb::Label border, summed;
    a_.mov(g(r.row), field(offsetof(depthwise_frame, block_src)));
    a_.mov(g(r.weights), field(offsetof(depthwise_frame, panel)));
    a_.mov(g(source_row), field(offsetof(depthwise_frame, at_row)));
    copy(offsetof(depthwise_frame, taps_left), offsetof(depthwise_frame, taps));
    a_.mov(g(r.low), field(offsetof(depthwise_frame, at_column)));
    a_.mov(g(r.high), field(offsetof(depthwise_frame, in_columns)));
    a_.sub(g(r.high), g(r.low));
    a_.neg(g(r.low));
    taps.clear();
    a_.cmp(g(r.high), immediate(static_cast<int>(s_.reach())));
    a_.jl(border, xb::CodeGenerator::T_NEAR);
    if (s_.pad > 0) {
      a_.test(g(r.low), g(r.low));
      a_.jg(border, xb::CodeGenerator::T_NEAR);
    }
    emit_rows(taps, false);
    a_.jmp(summed, xb::CodeGenerator::T_NEAR);
    a_.L(border);
    emit_rows(taps, true);
    a_.L(summed);
    if (columns == s_.width() && s_.stride <= most_prefetched_rows) prefetch_next_panel();
    taps.restore_order();
    int const tail = columns % s_.lanes();
    if (s_.looped_epilogue)
      emit_epilogue_looped(taps, vectors, tail);
    else
      emit_epilogues(taps, vectors, tail);
  }

  // ---- sums ------------------------------------------------------------------------------------

  void emit_rows(depthwise_taps& taps, bool checked) {
    xb::Label next, one, outside, done;
    a_.L(next);
    a_.cmp(g(source_row), field(offsetof(depthwise_frame, in_rows)));  // unsigned: also above it
    a_.jae(outside, xb::CodeGenerator::T_NEAR);
    if (s_.kind == depthwise_product::pairs) {
      a_.cmp(field(offsetof(depthwise_frame, taps_left)), 1);
      a_.je(one, xb::CodeGenerator::T_NEAR);
      a_.mov(g(r.scratch), field(offsetof(depthwise_frame, row_dilation)));
      a_.add(g(r.scratch), g(source_row));
      a_.cmp(g(r.scratch), field(offsetof(depthwise_frame, in_rows)));
      a_.jae(one, xb::CodeGenerator::T_NEAR);
      taps.multiply(tap_rows::two, checked);
      advance_tap(taps, 2);
      a_.jnz(next, xb::CodeGenerator::T_NEAR);
      a_.jmp(done, xb::CodeGenerator::T_NEAR);
    }
    a_.L(one);
    taps.multiply(tap_rows::one, checked);
    a_.L(outside);
    advance_tap(taps, 1);
    a_.jnz(next, xb::CodeGenerator::T_NEAR);
    a_.L(done);
  }
  // Leaves the flags of the taps that are left.
  void advance_tap(depthwise_taps const& taps, int rows) {
    for (int i = 0; i < rows; ++i) {
      a_.add(g(r.row), g(r.tap_row));
      a_.add(g(source_row), field(offsetof(depthwise_frame, row_dilation)));
    }
    a_.add(g(r.weights), immediate(rows * s_.kernel_columns * taps.tap_bytes()));
    a_.sub(field(offsetof(depthwise_frame, taps_left)), immediate(rows));
  }

  // ---- prefetch --------------------------------------------------------------------------------

  // Neighbouring pixels of a panel are all channels apart, which no hardware prefetcher follows far:
  // the last kernel rows, which no line above has read, are fetched for the next panel. Of a line that
  // two panels share, the first one has read it. (Measured in cold memory: f32 1.05 to 1.85 times as
  // fast, bf16 up to 2; in warm memory 0 to 10% slower. To fetch outputs too gained nothing in f32.)
  void prefetch_next_panel() {
    constexpr int line_bytes = 64;
    int const ahead = s_.width() * size_of(s_.src), stride = static_cast<int>(s_.stride);
    // Columns are counted from the first output's own, behind the padding.
    extent const pad = (std::min)(s_.pad, most_kernel_columns);
    a_.imul(g(r.scratch), g(r.column), static_cast<int>(pad));
    a_.add(g(r.row), g(r.scratch));
    for (int row = 0; row < stride; ++row) {
      a_.sub(g(r.row), g(r.tap_row));
      a_.mov(g(r.at), g(r.row));
      for (int column = 0; column < s_.pixels * stride; ++column) {
        for (int line = 0; line < ahead; line += line_bytes)
          a_.prefetcht1(a_.ptr[g(r.at) + bytes(ahead + line + line_bytes - 1)]);
        a_.add(g(r.at), g(r.column));
      }
    }
  }

  // ---- epilogue --------------------------------------------------------------------------------

  void emit_epilogues(depthwise_taps const& taps, int vectors, int tail_lanes) {
    xb::Label done;
    for (int pixel = 0; pixel < s_.pixels; ++pixel) {
      int const first = taps.accumulator(pixel, 0);
      emit_epilogue(first, vectors, tail_lanes, set_of_range(0, first));
      if (pixel + 1 == s_.pixels) break;
      a_.cmp(field(offsetof(depthwise_frame, pixels_left)), immediate(pixel + 1));
      a_.jle(done, xb::CodeGenerator::T_NEAR);
    }
    a_.L(done);
  }

  // The sums go to the frame, then pixel by pixel through one copy of the epilogue.
  void emit_epilogue_looped(depthwise_taps const& taps, int vectors, int tail_lanes) {
    xb::Label next_pixel;
    int const vector_bytes = vector_bytes_of(s_.level);
    for (int i = 0; i < s_.pixels * vectors; ++i)
      a_.vmovups(a_.ptr[g(frame) + offsetof(depthwise_frame, spill) + bytes(i * vector_bytes)],
                 a_.vec(taps.accumulator(0, i)));
    a_.lea(g(r.scratch), a_.ptr[g(frame) + offsetof(depthwise_frame, spill)]);
    a_.mov(field(offsetof(depthwise_frame, spilled)), g(r.scratch));
    a_.mov(g(r.scratch), field(offsetof(depthwise_frame, pixels_left)));
    a_.mov(g(r.at), immediate(s_.pixels));
    a_.cmp(g(r.scratch), g(r.at));
    a_.cmovg(g(r.scratch), g(r.at));
    a_.mov(field(offsetof(depthwise_frame, count)), g(r.scratch));
    a_.L(next_pixel);
    a_.mov(g(r.scratch), field(offsetof(depthwise_frame, spilled)));
    for (int j = 0; j < vectors; ++j)
      a_.vmovups(a_.vec(j), a_.ptr[g(r.scratch) + bytes(j * vector_bytes)]);
    emit_epilogue(0, vectors, tail_lanes, all_vectors_of(s_.level) & ~set_of_range(0, vectors));
    a_.add(field(offsetof(depthwise_frame, spilled)), immediate(vectors * vector_bytes));
    a_.dec(field(offsetof(depthwise_frame, count)));
    a_.jnz(next_pixel, xb::CodeGenerator::T_NEAR);
  }

  // One pixel's values in registers first, first + 1, ...; then to the next pixel.
  void emit_epilogue(int first, int vectors, int tail_lanes, register_set free) {
    epilogue_.emit(a_, origins_.row(s_.level, first, vectors, tail_lanes, free));
    origins_.advance(offsetof(depthwise_frame::access, pixel_stride));
  }

  assembler& a_;
  depthwise_shape s_;
  epilogue const& epilogue_;
  epilogue_origins origins_;
};

}  // namespace sinter::inline SINTER_ABI::jit
