// The depthwise convolution's kernel in numbers: its shape, its frame, where a panel of weights
// lies.
//
// Each channel has a filter of its own, so vectors run along the channels and nothing is summed
// across them. A block is `pixels` neighbouring outputs of one row times `vectors` vectors of
// channels. A column of the source that several of them meet is loaded once for all; a weight is
// loaded once per block. Panels hold the weights of one block's channels, tap after tap, rows
// around columns. Taps are in source-column order (column_uses), so that the code of a block at a
// border enters late or leaves early. Plain values, no code. Read jit/depthwise_taps.hpp next.
#pragma once

#include <vector>

#include "../base/inline_vector.hpp"
#include "../core/buffer.hpp"
#include "accumulator_block.hpp"

namespace sinter::inline SINTER_ABI::jit {

/// How a tap multiplies.
enum class depthwise_product : unsigned char {
  widened,  ///< values of the source become f32; weights are f32 in the panel
  pairs,    ///< VDPBF16PS: two neighbouring kernel rows at a time
};

/// What the kernel's code depends on, beside the steps of the chain.
struct depthwise_shape {
  isa level = isa::avx2;
  depthwise_product kind = depthwise_product::widened;
  dtype src = dtype::f32;
  bool looped_epilogue = false;
  int pixels = 1;   ///< of a block
  int vectors = 1;  ///< of a full panel
  bool full_panels = false;
  int tail_columns = 0;  ///< channels of the last, narrower panel; 0: there is none
  int kernel_columns = 1;
  extent stride = 1, dilation = 1, pad = 0;  ///< along a row; pad: on the left
  friend bool operator==(depthwise_shape const&, depthwise_shape const&) = default;

  /// Source columns from the first to the last one that a block meets, all taps inside.
  extent reach() const { return (pixels - 1) * stride + (kernel_columns - 1) * dilation + 1; }
  int lanes() const { return lanes_of(level); }
  int width() const { return vectors * lanes(); }
  int tail_vectors() const { return (tail_columns + lanes() - 1) / lanes(); }
};

/// Accumulators of a block: 14 fill the rows of 7, 14, 28, 56 and 112 pixels that networks have
/// without a rest. On AVX2 five weights and a value stand beside 8.
constexpr int most_accumulators(isa level) { return has_masks(level) ? 14 : 8; }
/// Weights of a row that are in registers at a time, per vector.
constexpr int most_taps(isa level, int vectors) {
  return has_masks(level) ? (vectors == 1 ? 8 : 5) : 5;
}
/// A row's taps are unrolled code; longer rows are refused.
inline constexpr extent most_kernel_columns = 64;

/// The argument of a kernel: filled by C++, its last part written by the kernel itself.
/// depthwise_frame_bytes() long.
struct depthwise_frame {
  /// Where tap (0, 0) of the first output meets the first channel; outside of the image, perhaps.
  void const* src = nullptr;
  std::int64_t column = 0;   ///< bytes from a column of the source to the next
  std::int64_t tap_row = 0;  ///< ... from the source row of a tap to that of the tap below it
  std::int64_t line = 0;     ///< ... from an output's source row to that of the output below it
  std::int64_t block = 0;    ///< ... from a block to the next one of its row
  void const* weights = nullptr;
  std::int64_t full_panels = 0, panel_bytes = 0;
  std::int64_t lines = 0, pixels = 0;  ///< outputs: rows, of a row
  std::int64_t taps = 0;               ///< kernel rows
  std::int64_t in_row = 0;             ///< source row of tap 0 of the first output; may be negative
  std::int64_t in_rows = 0;            ///< of the image
  std::int64_t row_dilation = 1, row_stride = 1;
  std::int64_t in_column = 0;      ///< as in_row
  std::int64_t in_columns = 0;     ///< of the image, as far as taps of the last output reach
  std::int64_t block_columns = 0;  ///< source columns from block to block
  // Written by the kernel.
  std::int64_t channel = 0, panels_left = 0, lines_left = 0, pixels_left = 0, taps_left = 0;
  std::int64_t at_row = 0, at_column = 0, spilled = 0, count = 0;
  void const *panel_src = nullptr, *line_src = nullptr, *block_src = nullptr, *panel = nullptr;

  struct access {
    void const* origin = nullptr;  ///< of the first output, first channel
    std::int64_t pixel_stride = 0, line_stride = 0;
    void const *line = nullptr, *at = nullptr;  ///< written by the kernel
  };
  access accesses[max_operands + max_outputs];
  static constexpr int spilled_bytes = most_accumulators(isa::avx512) * 64;
  alignas(64) std::byte spill[spilled_bytes];
  std::byte scratch[64];  ///< the epilogue's, as long as it wants
};
using depthwise_entry = void (*)(depthwise_frame*);

/// A source column of a block and who uses it: tap `tap` of output `pixel`.
struct column_use {
  extent column;
  int pixel, tap;
};
/// Of taps first, first + 1, ..., last - 1; in the order of columns.
inline std::vector<column_use> column_uses(depthwise_shape const& s, int first, int last) {
  std::vector<column_use> uses;
  extent const columns = extent{s.pixels - 1} * s.stride + extent{last - 1} * s.dilation + 1;
  for (extent column = 0; column < columns; ++column)
    for (int pixel = 0; pixel < s.pixels; ++pixel)
      for (int tap = first; tap < last; ++tap)
        if (pixel * s.stride + tap * s.dilation == column) uses.push_back({column, pixel, tap});
  return uses;
}

/// Where the panels of one weight lie. A tap is 32 bits per lane: an f32, or its bf16 and, above
/// it, that of the kernel row below (zero under the last one).
struct depthwise_panels {
  depthwise_product kind = depthwise_product::widened;
  int lanes = 16, vectors = 1;
  extent taps = 0;  ///< kernel rows times columns
  extent channels = 0;

  constexpr extent width() const { return extent{vectors} * lanes; }
  constexpr extent full_panels() const { return channels / width(); }
  constexpr int tail_columns() const { return static_cast<int>(channels % width()); }
  constexpr int tail_vectors() const { return (tail_columns() + lanes - 1) / lanes; }
  constexpr extent panel_bytes(int vectors_of_panel) const {
    return taps * vectors_of_panel * lanes * 4;
  }
  constexpr extent bytes() const {
    return full_panels() * panel_bytes(vectors) + panel_bytes(tail_vectors());
  }
  /// The channel of a panel of `vectors_of_panel` vectors that stands in lane `lane` of its vector
  /// `vector`. Two vectors of pairs come from VPUNPCKLWD and VPUNPCKHWD, which take 4 of every 8.
  constexpr int channel_at(int vectors_of_panel, int vector, int lane) const {
    return kind == depthwise_product::pairs && vectors_of_panel == 2
               ? lane / 4 * 8 + vector * 4 + lane % 4
               : vector * lanes + lane;
  }
};

}  // namespace sinter::inline SINTER_ABI::jit
