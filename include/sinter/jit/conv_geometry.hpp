// Where a convolution's pixels lie: axes, the taps that fall inside the image, blocks, strips of
// pixels.
//
// A strip is a run of output pixels, along a row or down a column, that all have the same taps
// inside the image: what is outside is neither read nor multiplied, and no pixel is worth a test in
// generated code. Along an axis the first and last few outputs miss taps and the rest have them
// all, so a row is a few short strips and a long one; where the short ones of many rows stand above
// each other they make a strip down the image. Plain arithmetic, no memory. Read jit/conv.hpp for
// the code that computes a strip.
#pragma once

#include <algorithm>

#include "blocking.hpp"

namespace sinter::inline SINTER_ABI::jit {

/// Taps first, first + 1, ..., last - 1 of a kernel axis.
struct tap_range {
  extent first = 0, last = 0;
  constexpr extent count() const { return last - first; }
  friend constexpr bool operator==(tap_range const&, tap_range const&) = default;
};

/// One spatial axis of a convolution.
struct conv_axis {
  extent in = 1, out = 1, kernel = 1, stride = 1, dilation = 1, pad = 0;

  /// Index of the input that tap 0 of output o meets; may be outside.
  constexpr extent start(extent o) const { return o * stride - pad; }
  /// Inputs from the first to the last one that `outputs` neighbouring outputs may meet, padding
  /// among them.
  constexpr extent reach(extent outputs) const {
    return (outputs - 1) * stride + (kernel - 1) * dilation + 1;
  }
  /// Outputs that fit a reach; at least 1.
  constexpr extent outputs_within(extent inputs) const {
    extent const room = inputs - reach(1);
    return room < 0 ? 1 : room / stride + 1;
  }

  /// Inputs that some tap meets, about.
  constexpr extent used() const { return (std::min)(in, out * (std::min)(stride, kernel)); }

  constexpr tap_range taps(extent o) const {
    extent const at = start(o);
    extent const first = at >= 0 ? 0 : (-at + dilation - 1) / dilation;
    extent const last = at >= in ? 0 : (std::min)(kernel, (in - 1 - at) / dilation + 1);
    return first < last ? tap_range{first, last} : tap_range{};
  }
  constexpr bool all_inside(tap_range const& t) const { return t.first == 0 && t.last == kernel; }
  /// The first output after o with other taps; at most `limit`.
  constexpr extent same_until(extent o, extent limit) const {
    tap_range const t = taps(o);
    if (all_inside(t)) return (std::min)(limit, (in - reach(1) + pad) / stride + 1);
    while (++o < limit && taps(o) == t) {
    }
    return (std::min)(o, limit);
  }
};

/// Pixels: images [image0, image1), rows [y0, y1), columns [x0, x1).
struct conv_block {
  extent image0 = 0, image1 = 0, y0 = 0, y1 = 0, x0 = 0, x1 = 0;
};

/// `lines` lines of `pixels` pixels each, all with the same taps inside.
struct conv_strip {
  extent y = 0, x = 0;  ///< the first pixel
  extent pixels = 0, lines = 0;
  bool down = false;  ///< a line goes down, not across
  tap_range rows, columns;
};

namespace detail {
constexpr extent tiles_of(extent pixels, int tile) { return (pixels + tile - 1) / tile; }
}  // namespace detail

/// Calls f(strip) for strips that together are one image of the block. Strips with all columns
/// inside may be wanted across only.
template <class F>
void for_each_strip(conv_axis const& y, conv_axis const& x, conv_block const& b, int tile,
                    bool whole_across, F&& f) {
  for (extent y0 = b.y0; y0 < b.y1;) {
    extent const y1 = y.same_until(y0, b.y1);
    tap_range const rows = y.taps(y0);
    for (extent x0 = b.x0; x0 < b.x1;) {
      extent const x1 = x.same_until(x0, b.x1);
      tap_range const columns = x.taps(x0);
      if ((whole_across && x.all_inside(columns)) ||
          detail::tiles_of(x1 - x0, tile) * (y1 - y0) <=
              detail::tiles_of(y1 - y0, tile) * (x1 - x0))
        f(conv_strip{y0, x0, x1 - x0, y1 - y0, false, rows, columns});
      else
        f(conv_strip{y0, x0, y1 - y0, x1 - x0, true, rows, columns});
      x0 = x1;
    }
    y0 = y1;
  }
}

/// The extents of a block whose inputs, at pixel_bytes each, take about `budget` bytes; one output
/// pixel at least, and blocks of equal size as far as possible.
struct block_extents {
  extent rows = 1, columns = 1, images = 1;
};
constexpr block_extents block_within(conv_axis const& y, conv_axis const& x, extent pixel_bytes,
                                     extent budget, int tile) {
  auto const evenly = [](extent n, extent most, extent multiple) {
    if (n <= 0) return extent{1};
    extent const blocks = (n + most - 1) / most;
    return ((n + blocks - 1) / blocks + multiple - 1) / multiple * multiple;
  };
  extent const pixels = (std::max)(extent{1}, budget / (pixel_bytes > 0 ? pixel_bytes : 1));
  extent const width = (std::min)(x.in, x.reach(x.out));
  block_extents e;
  if (extent const rows = pixels / (width > 0 ? width : 1); rows >= (std::min)(y.in, y.reach(1))) {
    e.rows = evenly(y.out, y.outputs_within(rows), 1);
    e.columns = x.out > 0 ? x.out : 1;
  } else {
    e.columns = evenly(x.out, x.outputs_within(pixels / (std::min)(y.in, y.reach(1))), tile);
  }
  return e;
}

}  // namespace sinter::inline SINTER_ABI::jit
