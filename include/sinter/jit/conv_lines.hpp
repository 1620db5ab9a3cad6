// Short lines of output pixels at once, borders included: tiles whose pixels differ in their taps.
//
// Strips of pixels with equal taps (jit/conv_geometry.hpp) cut a small image to pieces: of 7 x 7
// outputs of a 3x3 kernel, four are single pixels that read their taps of a panel for themselves
// alone. A line taken whole reads a panel once for each of its tiles: the code of a tile goes
// through the kernel's columns one by one, and multiplies for each those pixels of the tile that
// meet it inside the image. Which pixels these are is part of the code, so widths are known when it
// is made, and lines have few tiles. Plain arithmetic; jit/conv.hpp emits the code.
#pragma once

#include "../base/inline_vector.hpp"
#include "conv_geometry.hpp"

namespace sinter::inline SINTER_ABI::jit {

/// Pixels first, first + 1, ..., last - 1 of a tile.
struct pixel_range {
  int first = 0, last = 0;
  constexpr bool empty() const { return first >= last; }
  friend constexpr bool operator==(pixel_range const&, pixel_range const&) = default;
};

inline constexpr std::size_t most_line_tiles = 4, most_line_taps = 7;

/// A tile of a line, and for each kernel column the pixels that meet it.
struct line_tile {
  int rows = 0;
  inline_vector<pixel_range, most_line_taps> taps;
  friend constexpr bool operator==(line_tile const&, line_tile const&) = default;
};
using line_tiles = inline_vector<line_tile, most_line_tiles>;

/// The tiles of a line of all outputs, as split_rows() cuts it; none where they or the taps are too
/// many.
constexpr line_tiles tiles_of_line(conv_axis const& x, int most_rows) {
  row_split const split = split_rows(x.out, most_rows);
  line_tiles tiles;
  if (split.blocks > static_cast<extent>(most_line_tiles) ||
      x.kernel > static_cast<extent>(most_line_taps))
    return tiles;
  extent at = 0;
  for (extent n = 0; n < split.blocks; ++n) {
    line_tile tile;
    tile.rows = split.high - (n >= split.blocks - split.low_blocks ? 1 : 0);
    for (extent t = 0; t < x.kernel; ++t) {
      pixel_range r;
      for (int i = 0; i < tile.rows; ++i) {
        extent const in = x.start(at + i) + t * x.dilation;
        if (in < 0) r.first = i + 1;
        if (in < x.in) r.last = i + 1;
      }
      tile.taps.push_back(r);
    }
    tiles.push_back(tile);
    at += tile.rows;
  }
  return tiles;
}

/// Calls f(strip) for strips of whole lines that together are one image of the block.
template <class F>
void for_each_line(conv_axis const& y, conv_axis const& x, conv_block const& b, F&& f) {
  for (extent y0 = b.y0; y0 < b.y1;) {
    extent const y1 = y.same_until(y0, b.y1);
    f(conv_strip{y0, 0, x.out, y1 - y0, false, y.taps(y0), {0, x.kernel}});
    y0 = y1;
  }
}

}  // namespace sinter::inline SINTER_ABI::jit
