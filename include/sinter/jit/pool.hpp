// The pooling kernel: a run of windows of one output row that see equally many pixels, all channels, with their
// epilogue.
//
// Vectors run along the channels and nothing is combined across them. For each panel of channels, for each window, for
// each pixel that it sees: the largest value or the sum, in registers; rows from above, each from left to right; a sum
// is divided once. How many rows and columns a window sees, where it stands and what it counts comes with the frame,
// so one kernel serves all kernels, strides, paddings and images, known only at the call or not. Who calls:
// backend/jit_pool.hpp.
#pragma once

#include <cstddef>

#include "../core/buffer.hpp"
#include "epilogue.hpp"
#include "epilogue_origins.hpp"
#include "registers.hpp"
#include "tile.hpp"

namespace sinter::inline SINTER_ABI::jit {

/// What the kernel's code depends on, beside the steps of the chain.
struct pool_shape {
  isa level = isa::avx2;
  bool largest = true;    ///< else the mean
  bool keeps_nan = true;  ///< strict numerics
  dtype src = dtype::f32;
  bool full_panels = false;
  int tail_columns = 0;  ///< channels of the last, narrower panel; 0: there is none
  friend bool operator==(pool_shape const&, pool_shape const&) = default;

  /// Vectors of a full panel: each takes part in its own chain of dependent instructions.
  static constexpr int vectors = 4;
  int lanes() const { return lanes_of(level); }
  int width() const { return vectors * lanes(); }
};

/// The argument of a kernel: filled by C++, its last part written by the kernel itself. pool_frame_bytes() long.
struct pool_frame {
  void const* src = nullptr;    ///< the first pixel that the first window sees, first channel
  std::int64_t tap_column = 0;  ///< bytes from a pixel to the next one of its row
  std::int64_t tap_row = 0;     ///< ... from behind a window's row to the next row
  std::int64_t window = 0;      ///< ... from a window to the next
  std::int64_t rows = 0, columns = 0, windows = 0, full_panels = 0;
  float counted = 1;  ///< what sums are divided by
  // Written by the kernel.
  std::int64_t channel = 0, panels_left = 0, windows_left = 0;
  void const* panel_src = nullptr;

  struct access {
    void const* origin = nullptr;  ///< of the first window, first channel
    std::int64_t window = 0;       ///< bytes from window to window
    void const* at = nullptr;      ///< written by the kernel
  };
  access accesses[max_operands + max_outputs];
  std::byte scratch[64];  ///< the epilogue's, as long as it wants
};
using pool_entry = void (*)(pool_frame*);

inline std::size_t pool_frame_bytes(epilogue const& e, isa level) {
  return offsetof(pool_frame, scratch) +
         round_up(static_cast<std::size_t>(e.stack_bytes(level)) + 1, 64);
}

class pool_generator {
 public:
  pool_generator(assembler& a, pool_shape const& s, epilogue_accesses const& accesses,
                 epilogue const& e)
      : a_(a), s_(s), epilogue_(e), origins_(a, accesses, layout()), memory_(a) {}

  void emit() {
    origins_.push();
    a_.mov(g(tap_column), field(offsetof(pool_frame, tap_column)));
    a_.mov(g(tap_row), field(offsetof(pool_frame, tap_row)));
    copy(offsetof(pool_frame, panel_src), offsetof(pool_frame, src));
    a_.mov(field(offsetof(pool_frame, channel)), 0);
    if (s_.full_panels) emit_full_panels();
    if (s_.tail_columns > 0) emit_tail_panel();
    a_.vzeroupper();
    origins_.pop();
    a_.ret();
  }

 private:
  // rdi holds the frame throughout, r10 the window's first pixel. Origins stand in registers as far as there are any.
  static constexpr int frame = 7, first_pixel = 10, pixel = 6, tap_column = 8, tap_row = 9,
                       rows_left = 1, columns_left = 2, scratch = 0;
  static constexpr int origin_registers[] = {3, 12, 13, 14, 15};
  /// Dead when the window is through.
  static constexpr register_set free_general = 1U << 0 | 1U << 1 | 1U << 2 | 1U << 6 | 1U << 11;
  static constexpr int lanes_mask = 7, nan_mask = 6;
  /// Behind the accumulators: a value, and what the maximum wants.
  static constexpr int value = pool_shape::vectors, temporary = value + 1;

  static xb::Reg64 g(int i) { return assembler::general(i); }
  xb::Address field(std::size_t offset) const { return a_.qword[g(frame) + offset]; }
  static origin_layout layout() {
    origin_layout l = origin_layout::of<pool_frame>();
    l.frame = frame;
    l.registers = origin_registers;
    l.spare = scratch;
    l.tail_mask = lanes_mask;
    l.free_masks = set_of_range(1, 4);
    l.free_general = free_general;
    return l;
  }
  void copy(std::size_t to, std::size_t from) {
    a_.mov(g(scratch), field(from));
    a_.mov(field(to), g(scratch));
  }

  // ---- panels and windows ----------------------------------------------------------------------

  void emit_full_panels() {
    xb::Label again;
    copy(offsetof(pool_frame, panels_left), offsetof(pool_frame, full_panels));
    a_.L(again);
    emit_panel(s_.vectors, 0);
    a_.add(field(offsetof(pool_frame, panel_src)), immediate(s_.width() * size_of(s_.src)));
    a_.add(field(offsetof(pool_frame, channel)), immediate(s_.width()));
    a_.dec(field(offsetof(pool_frame, panels_left)));
    a_.jnz(again, xb::CodeGenerator::T_NEAR);
  }
  void emit_tail_panel() {
    int const tail = s_.tail_columns % s_.lanes();
    if (has_masks(s_.level) && tail > 0) {
      a_.mov(xb::Reg32(scratch), (1U << tail) - 1);
      a_.kmovd(assembler::mask(lanes_mask), xb::Reg32(scratch));
    }
    emit_panel((s_.tail_columns + s_.lanes() - 1) / s_.lanes(), tail);
  }

  void emit_panel(int vectors, int tail_lanes) {
    xb::Label again;
    a_.mov(g(columns_left), field(offsetof(pool_frame, channel)));
    origins_.set(offsetof(pool_frame::access, origin), columns_left);
    copy(offsetof(pool_frame, windows_left), offsetof(pool_frame, windows));
    a_.mov(g(first_pixel), field(offsetof(pool_frame, panel_src)));
    a_.align(32);
    a_.L(again);
    emit_window(vectors, tail_lanes);
    epilogue_.emit(a_, origins_.row(s_.level, 0, vectors, tail_lanes,
                                    all_vectors_of(s_.level) & ~set_of_range(0, vectors)));
    a_.add(g(first_pixel), field(offsetof(pool_frame, window)));
    origins_.advance(offsetof(pool_frame::access, window));
    a_.dec(field(offsetof(pool_frame, windows_left)));
    a_.jnz(again, xb::CodeGenerator::T_NEAR);
  }

  // ---- one window ------------------------------------------------------------------------------

  // The accumulators begin at -Inf, or at -0, to which any value adds as it is.
  void emit_window(int vectors, int tail_lanes) {
    xb::Label next_row, next_column;
    for (int v = 0; v < vectors; ++v)
      lanes(a_, {}, 0).set_bits(a_.vec(v), s_.largest ? 0xff800000U : 0x80000000U);
    a_.mov(g(pixel), g(first_pixel));
    a_.mov(g(rows_left), field(offsetof(pool_frame, rows)));
    a_.L(next_row);
    a_.mov(g(columns_left), field(offsetof(pool_frame, columns)));
    a_.L(next_column);
    for (int v = 0; v < vectors; ++v) take_pixel(v, v == vectors - 1 ? tail_lanes : 0);
    a_.add(g(pixel), g(tap_column));
    a_.dec(g(columns_left));
    a_.jnz(next_column, xb::CodeGenerator::T_NEAR);
    a_.add(g(pixel), g(tap_row));
    a_.dec(g(rows_left));
    a_.jnz(next_row, xb::CodeGenerator::T_NEAR);
    if (s_.largest) return;
    a_.vbroadcastss(a_.vec(value), a_.dword[g(frame) + offsetof(pool_frame, counted)]);
    for (int v = 0; v < vectors; ++v) a_.vdivps(a_.vec(v), a_.vec(v), a_.vec(value));
  }
  void take_pixel(int v, int tail_lanes) {
    place const from{pixel, v * s_.lanes() * size_of(s_.src)};
    bool const in_place = s_.src == dtype::f32 && tail_lanes == 0 && !keeps_nan();
    if (!in_place) memory_.load(s_.src, value, from, {tail_lanes, lanes_mask});
    xb::Xmm const x = a_.vec(v), other = a_.vec(value);
    if (keeps_nan()) {
      int const temporaries[] = {temporary, temporary + 1};
      eltwise_code(a_, temporaries, nan_mask).binary(op::max, v, other);
    } else if (in_place) {
      s_.largest ? a_.vmaxps(x, x, memory_.at(from)) : a_.vaddps(x, x, memory_.at(from));
    } else {
      s_.largest ? a_.vmaxps(x, x, other) : a_.vaddps(x, x, other);
    }
  }
  bool keeps_nan() const { return s_.largest && s_.keeps_nan; }

  assembler& a_;
  pool_shape s_;
  epilogue const& epilogue_;
  epilogue_origins origins_;
  operand_code memory_;
};

}  // namespace sinter::inline SINTER_ABI::jit
