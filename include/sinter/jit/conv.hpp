// The convolution kernel: one strip of output pixels times one panel of output channels, with its
// epilogue.
//
// An implicit matrix product: rows are pixels, a fixed number of bytes apart; K runs over the taps
// that are inside the image for the whole strip, kernel rows around kernel columns, and for each
// over `run` elements that lie side by side in the source and step after step in the panel: a
// pixel's channels, or a whole kernel row of them where pixels are adjacent. Counts of taps and the
// strides between them come with the frame, so one kernel serves every image, stride, dilation and
// padding. Which strips there are: jit/conv_geometry.hpp; who calls: backend/jit_conv.hpp.
#pragma once

#include "../core/buffer.hpp"
#include "conv_lanes.hpp"
#include "conv_lines.hpp"
#include "epilogue.hpp"
#include "epilogue_origins.hpp"
#include "registers.hpp"
#include "tile_avx2.hpp"
#include "tile_avx512.hpp"

namespace sinter::inline SINTER_ABI::jit {

/// What the kernel's code depends on, beside the steps of the chain.
struct conv_shape {
  isa level = isa::avx2;
  product kind = product::f32;
  bool looped_epilogue = false;
  int vectors = 0;        ///< of the panel
  int tail_lanes = 0;     ///< valid lanes of its last vector; 0: all
  row_counts counts = 0;  ///< tiles that occur; none: the kernel is not needed
  extent run = 0;
  bool sums_by_row = false;  ///< long sums: those of each kernel row are a block (sum_block)
  line_tiles line;           ///< of whole lines; none: all pixels of a strip have the same taps
  conv_groups groups;
  friend bool operator==(conv_shape const&, conv_shape const&) = default;
};

/// How a kernel goes through a strip, in bytes of its source and panel; the same for all panels.
struct conv_walk {
  std::int64_t lda = 0;  ///< from pixel to pixel
  std::int64_t lines = 0, a_line = 0;
  std::int64_t pixels = 0;                            ///< of a line
  std::int64_t blocks = 0, low_blocks = 0, high = 0;  ///< row_split of them
  std::int64_t tap_rows = 0, tap_columns = 0;
  std::int64_t a_column = 0;  ///< from a tap to the one beside it
  std::int64_t a_row = 0;     ///< from behind the last tap of a row to the first of the next
  std::int64_t b_row = 0;     ///< of the panel, to skip there
};

/// Memory that tiles prefetch one after another, from the first again at the end.
struct conv_stream {
  std::byte const *at = nullptr, *first = nullptr, *end = nullptr;
  std::int64_t step = 0;
};

/// The argument of a kernel: filled by C++, its last part written by the kernel itself.
/// conv_frame_bytes() long.
struct conv_frame {
  /// The first tap of the first pixel; the kernel steps it from line to line.
  void const* a = nullptr;
  void const* b = nullptr;  ///< the first tap in the panel
  conv_walk walk;
  /// What is prefetched, in bytes from the panel: a line more for each tile, from the first again
  /// at the end. The kernel leaves in `ahead` where to go on.
  std::int64_t ahead = 0, ahead_first = 0, ahead_end = 0;
  conv_stream inputs, weights;  ///< of the next panel of narrow groups
  std::int64_t pair = 0;        ///< of tiles: bytes to a second panel beside this one; 0: none
  // Written by the kernel.
  void const* tile_a = nullptr;
  std::int64_t rows_left = 0, columns_left = 0, blocks_left = 0, pixels_left = 0, spilled = 0;

  struct access {
    void const* origin = nullptr;  ///< of the first pixel, first column of the panel; as `a`
    std::int64_t row_stride = 0;   ///< bytes from pixel to pixel
    std::int64_t line_stride = 0;
    void const* at = nullptr;  ///< written by the kernel
  };
  access accesses[max_operands + max_outputs];
  alignas(64) std::byte spill[8 * tile_vectors * 64];
  std::byte scratch[64];  ///< the epilogue's, as long as it wants
};

inline constexpr int cache_line = 64;
/// A round of the K loop reads 8 lines of a panel and prefetches 2: so many tiles prefetch the next
/// panel.
inline constexpr int prefetching_tiles = 4;

using conv_entry = void (*)(conv_frame*);

inline std::size_t conv_frame_bytes(epilogue const& e, isa level) {
  return offsetof(conv_frame, scratch) +
         round_up(static_cast<std::size_t>(e.stack_bytes(level)) + 1, 64);
}

class conv_generator {
 public:
  conv_generator(assembler& a, conv_shape const& s, epilogue_accesses const& accesses,
                 epilogue const& e)
      : a_(a), s_(s), epilogue_(e), origins_(a, accesses, layout()) {
    for (int i = 1; i <= tile_rows(s_.level); ++i)
      if (occurs(i)) most_rows_ = i;
    while (least_rows_ < most_rows_ && !occurs(least_rows_)) ++least_rows_;
  }

  void emit() {
    origins_.push();
    a_.mov(g(r.lda), field(offsetof(conv_frame, walk.lda)));
    if (most_rows_ >= 4) a_.lea(g(r.lda3), a_.ptr[g(r.lda) + g(r.lda) * 2]);
    if (has_masks(s_.level) && s_.tail_lanes > 0) {
      a_.mov(xb::Reg32(r.count), (std::uint64_t{1} << s_.tail_lanes) - 1);
      a_.kmovw(assembler::mask(tail_mask), xb::Reg32(r.count));
    }
    if (s_.groups.any()) group_sums(1).set_masks(r.count);
    a_.mov(g(r.ahead), field(offsetof(conv_frame, ahead)));
    xb::Label next_line;
    a_.L(next_line);
    origins_.set(offsetof(conv_frame::access, origin));
    emit_blocks();
    advance_line();
    a_.dec(field(offsetof(conv_frame, walk.lines)));
    a_.jnz(next_line, xb::CodeGenerator::T_NEAR);
    a_.mov(field(offsetof(conv_frame, ahead)), g(r.ahead));
    a_.vzeroupper();
    origins_.pop();
    a_.ret();
  }

 private:
  // rdi holds the frame throughout. Origins stand in registers as far as there are any.
  static constexpr int frame = 7, block_count = 11;
  static constexpr tile_registers r{.a0 = 0,
                                    .a1 = 8,
                                    .lda = 9,
                                    .lda3 = 10,
                                    .b = 2,
                                    .count = 1,
                                    .scratch = 1,
                                    .ldb = 1,
                                    .ahead = 6,
                                    .frame = frame,
                                    .block_sums = offsetof(conv_frame, spill),
                                    .blocks_left = offsetof(conv_frame, blocks_left)};
  static constexpr int origin_registers[] = {3, 5, 12, 13, 14, 15};
  static constexpr register_set free_general = 1U << 1 | 1U << 2 | 1U << 8;
  static constexpr int tail_mask = 7;
  static constexpr register_set free_masks = set_of_range(1, group_masks_first - 1);

  static xb::Reg64 g(int i) { return assembler::general(i); }
  xb::Address field(std::size_t offset) const { return a_.qword[g(frame) + offset]; }
  static origin_layout layout() {
    origin_layout l = origin_layout::of<conv_frame>();
    l.frame = frame;
    l.registers = origin_registers;
    l.spare = r.count;
    l.tail_mask = tail_mask;
    l.free_masks = free_masks;
    l.free_general = free_general;
    return l;
  }

  bool occurs(int rows) const { return (s_.counts >> rows & 1U) != 0; }

  void advance_line() {
    a_.mov(g(r.count), field(offsetof(conv_frame, walk.a_line)));
    a_.add(field(offsetof(conv_frame, a)), g(r.count));
    for (int i = 0; i < origins_.accesses().ssize(); ++i) {
      if (!origins_.accesses()[i].moves) continue;
      a_.mov(g(r.count), field(origins_.field_of(i, offsetof(conv_frame::access, line_stride))));
      a_.add(field(origins_.field_of(i, offsetof(conv_frame::access, origin))), g(r.count));
    }
  }

  void emit_blocks() {
    a_.mov(g(r.a0), field(offsetof(conv_frame, a)));
    a_.mov(g(block_count), field(offsetof(conv_frame, walk.blocks)));
    xb::Label next_block;
    a_.align(32);
    a_.L(next_block);
    a_.mov(field(offsetof(conv_frame, tile_a)), g(r.a0));
    a_.mov(g(r.b), field(offsetof(conv_frame, b)));
    if (s_.looped_epilogue)
      emit_tiles_looped();
    else
      emit_tiles();
    if (!s_.groups.any()) {
      a_.add(g(r.ahead), cache_line);
      a_.cmp(g(r.ahead), field(offsetof(conv_frame, ahead_end)));
      a_.cmovae(g(r.ahead), field(offsetof(conv_frame, ahead_first)));
    }
    a_.dec(g(block_count));
    a_.jnz(next_block, xb::CodeGenerator::T_NEAR);
  }

  // Jumps to the tile of this block's number of pixels; falls through for the smallest.
  void dispatch(xb::Label* of_rows) {
    if (least_rows_ == most_rows_) return;
    a_.mov(g(r.count), field(offsetof(conv_frame, walk.high)));
    a_.cmp(field(offsetof(conv_frame, walk.low_blocks)),
           g(block_count));  // carry: not yet among the low blocks
    a_.adc(g(r.count), immediate(-1));
    for (int rows = most_rows_; rows > least_rows_; --rows) {
      if (!occurs(rows)) continue;
      a_.cmp(g(r.count), immediate(rows));
      a_.je(of_rows[rows], xb::CodeGenerator::T_NEAR);
    }
  }
  // Calls then(rows, last) behind the sums of each kind of tile; the last one has the most rows.
  template <class Then>
  void emit_sums(Then&& then) {
    if (!s_.line.empty()) return emit_line_sums(then);
    xb::Label of_rows[16];
    dispatch(of_rows);
    for (int rows = least_rows_; rows <= most_rows_; ++rows) {
      if (!occurs(rows)) continue;
      a_.L(of_rows[rows]);
      if (s_.groups.any()) prefetch_for_groups(rows);
      tile const t = tile_of(rows);
      if (s_.groups.spread == group_spread::in_place)
        emit_taps(rows, lane_tile(a_, s_.kind, rows, s_.groups, r));
      else if (s_.groups.any())
        emit_taps(rows, group_sums(rows));
      else if (has_masks(s_.level))
        emit_taps(rows, tile_avx512(a_, t, r));
      else
        emit_taps(rows, tile_avx2(a_, t, r));
      to_next_tile(rows);
      then(rows, rows == most_rows_);
    }
  }
  // Tiles of a line that are alike share the code of the last of them.
  template <class Then>
  void emit_line_sums(Then&& then) {
    xb::Label of_place[most_line_tiles];
    int first = s_.line.ssize() - 1;
    for (int i = 0; i + 1 < s_.line.ssize(); ++i) {
      int const place = last_alike(i);
      first = (std::min)(first, place);
      a_.cmp(g(block_count), immediate(s_.line.ssize() - i));
      a_.je(of_place[place], xb::CodeGenerator::T_NEAR);
    }
    for (int i = s_.line.ssize(); i-- > first;) {
      if (last_alike(i) != i) continue;
      a_.L(of_place[i]);
      if (has_masks(s_.level))
        emit_line_taps<tile_avx512>(s_.line[i]);
      else
        emit_line_taps<tile_avx2>(s_.line[i]);
      to_next_tile(s_.line[i].rows);
      then(s_.line[i].rows, i == first);
    }
  }
  int last_alike(int place) const {
    int last = place;
    for (int i = place; i < s_.line.ssize(); ++i)
      if (s_.line[i] == s_.line[place]) last = i;
    return last;
  }
  void to_next_tile(int rows) {
    a_.mov(g(r.a0), field(offsetof(conv_frame, tile_a)));
    a_.imul(g(r.count), g(r.lda), rows);
    a_.add(g(r.a0), g(r.count));
  }

  tile tile_of(int rows) const {
    tile t{s_.kind, rows, s_.vectors, s_.run, true};
    t.half_tail = fills_half(s_.level, s_.tail_lanes);
    t.goes_on = s_.sums_by_row;
    return t;
  }
  group_tile group_sums(int rows) const { return {a_, s_.kind, rows, s_.vectors, s_.groups, r}; }

  // A tile of narrow groups has few bytes of many lines, which lie far apart.
  void prefetch_for_groups(int rows) {
    go_on(offsetof(conv_frame, inputs), s_.groups.inputs_ahead, group_sums(rows).input_bytes());
    go_on(offsetof(conv_frame, weights), s_.groups.weights_ahead, cache_line);
    for (int i = 0; i < origins_.accesses().ssize(); ++i)
      if (origins_.accesses()[i].moves) prefetch_access(i, rows);
  }
  void go_on(std::size_t stream, int steps, int bytes_of_step) {
    xb::Reg64 const at = g(r.count);
    if (steps == 0) return;
    a_.mov(at, field(stream + offsetof(conv_stream, at)));
    for (int i = 0; i < steps; ++i) {
      for (int line = 0; line < bytes_of_step; line += cache_line)
        a_.prefetcht1(a_.ptr[at + bytes(line)]);
      a_.add(at, field(stream + offsetof(conv_stream, step)));
    }
    a_.cmp(at, field(stream + offsetof(conv_stream, end)));
    a_.cmovae(at, field(stream + offsetof(conv_stream, first)));
    a_.mov(field(stream + offsetof(conv_stream, at)), at);
  }
  // This tile's pixels.
  void prefetch_access(int i, int rows) {
    epilogue_access const& access = origins_.accesses()[i];
    xb::Reg64 const at = g(r.count);
    int const wide = access.across == columns::unit ? s_.vectors * lanes_of(s_.level) : 1;
    for (int row = 0; row < rows; ++row) {
      if (row == 0)
        origins_.load(at, i);
      else
        a_.add(at, field(origins_.field_of(i, offsetof(conv_frame::access, row_stride))));
      for (int line = 0; line < wide * size_of(access.type); line += cache_line)
        access.output ? a_.prefetchw(a_.ptr[at + bytes(line)])
                      : a_.prefetcht0(a_.ptr[at + bytes(line)]);
    }
  }

  template <class Tile>
  void emit_taps(int rows, Tile sums) {
    sums.clear();
    each_tap_row(sums, [&] {
      xb::Label next_column;
      a_.mov(g(r.count), field(offsetof(conv_frame, walk.tap_columns)));
      a_.mov(field(offsetof(conv_frame, columns_left)), g(r.count));
      a_.L(next_column);
      emit_tap(rows, sums);
      a_.dec(field(offsetof(conv_frame, columns_left)));
      a_.jnz(next_column, xb::CodeGenerator::T_NEAR);
    });
    sums.merge();
  }
  template <class Tile>
  void emit_line_taps(line_tile const& of) {
    tile t = tile_of(of.rows);
    Tile sums(a_, t, r);
    sums.clear();
    each_tap_row(sums, [&] {
      for (pixel_range const& pixels : of.taps) {
        if (pixels.empty()) {
          a_.add(g(r.a0), field(offsetof(conv_frame, walk.a_column)));
          a_.add(g(r.b), immediate(static_cast<int>(run_bytes())));
          continue;
        }
        t.rows_before = pixels.first;
        t.rows_after = of.rows - pixels.last;
        emit_tap(of.rows, Tile(a_, t, r));
      }
    });
    sums.merge();
  }
  // Of the panel.
  extent run_bytes() const {
    return panel_layout{s_.kind, lanes_of(s_.level), s_.run, 0}.panel_bytes(s_.vectors);
  }

  template <class Tile, class F>
  void each_tap_row(Tile& sums, F&& columns) {
    xb::Label next_row, done;
    a_.mov(g(r.count), field(offsetof(conv_frame, walk.tap_rows)));
    a_.test(g(r.count), g(r.count));
    a_.jz(done, xb::CodeGenerator::T_NEAR);
    a_.mov(field(offsetof(conv_frame, rows_left)), g(r.count));
    a_.L(next_row);
    columns();
    a_.add(g(r.a0), field(offsetof(conv_frame, walk.a_row)));
    a_.add(g(r.b), field(offsetof(conv_frame, walk.b_row)));
    a_.dec(field(offsetof(conv_frame, rows_left)));
    if constexpr (requires { sums.end_block(); }) {
      if (s_.sums_by_row) {
        a_.jz(done, xb::CodeGenerator::T_NEAR);
        sums.end_block();
        a_.jmp(next_row, xb::CodeGenerator::T_NEAR);
      }
    }
    if (!s_.sums_by_row) a_.jnz(next_row, xb::CodeGenerator::T_NEAR);
    a_.L(done);
  }
  template <class Tile>
  void emit_tap(int rows, Tile sums) {
    if (rows > 4) a_.lea(g(r.a1), a_.ptr[g(r.a0) + g(r.lda) * 4]);
    std::int32_t const advanced = sums.multiply();
    a_.add(g(r.a0), field(offsetof(conv_frame, walk.a_column)));
    if (advanced != 0) a_.sub(g(r.a0), immediate(advanced));
  }

  void emit_tiles() {
    xb::Label of_rows[16];
    emit_sums([&](int rows, bool last) {
      if (!last) a_.jmp(of_rows[rows], xb::CodeGenerator::T_NEAR);
    });
    register_set const accumulators = set_of_range(0, tile_rows(s_.level) * tile_vectors);
    for (int rows = most_rows_; rows > 0; --rows) {
      a_.L(of_rows[rows]);
      int const first = accumulator_of(s_.level, rows, 0, 0);
      emit_epilogue(first, (all_vectors_of(s_.level) & ~accumulators) | set_of_range(0, first));
    }
  }

  // The sums go to the frame, then pixel by pixel through one copy of the epilogue.
  void emit_tiles_looped() {
    xb::Label stored, next_pixel;
    int const vector_bytes = vector_bytes_of(s_.level);
    emit_sums([&](int rows, bool last) {
      for (int i = 0; i < rows; ++i)
        for (int j = 0; j < s_.vectors; ++j)
          a_.vmovups(a_.ptr[g(frame) + offsetof(conv_frame, spill) +
                            bytes((i * s_.vectors + j) * vector_bytes)],
                     a_.vec(accumulator_of(s_.level, rows, i, j)));
      a_.mov(field(offsetof(conv_frame, pixels_left)), immediate(rows));
      if (!last) a_.jmp(stored, xb::CodeGenerator::T_NEAR);
    });
    a_.L(stored);
    a_.lea(g(r.count), a_.ptr[g(frame) + offsetof(conv_frame, spill)]);
    a_.mov(field(offsetof(conv_frame, spilled)), g(r.count));
    a_.L(next_pixel);
    a_.mov(g(r.count), field(offsetof(conv_frame, spilled)));
    for (int j = 0; j < s_.vectors; ++j)
      a_.vmovups(a_.vec(j), a_.ptr[g(r.count) + bytes(j * vector_bytes)]);
    emit_epilogue(0, all_vectors_of(s_.level) & ~set_of_range(0, s_.vectors));
    a_.add(field(offsetof(conv_frame, spilled)), immediate(s_.vectors * vector_bytes));
    a_.dec(field(offsetof(conv_frame, pixels_left)));
    a_.jnz(next_pixel, xb::CodeGenerator::T_NEAR);
  }

  // One pixel's values in registers first, first + 1, ...; then to the next pixel.
  void emit_epilogue(int first, register_set free) {
    epilogue_.emit(a_, origins_.row(s_.level, first, s_.vectors, s_.tail_lanes, free));
    origins_.advance(offsetof(conv_frame::access, row_stride));
  }

  assembler& a_;
  conv_shape s_;
  epilogue const& epilogue_;
  epilogue_origins origins_;
  int most_rows_ = 0, least_rows_ = 1;
};

}  // namespace sinter::inline SINTER_ABI::jit
