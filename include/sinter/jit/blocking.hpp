// Blocking: the numbers of a matrix product. How products are made, how large a tile is, how rows
// are split, where a panel of the second operand lies.
//
// Plain values and arithmetic, no code and no memory. The second operand is packed in panels: a
// panel holds the columns of one tile, step after step of the K loop, so that the kernel reads it
// from front to end. A step is one k, or a pair (k, k + 1) of 16-bit elements in one 32-bit lane.
// Panels are padded with zeros in N and K; what lies beside a row of the first operand is never
// read. Read jit/tile.hpp and jit/pack.hpp next.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "../core/dtype.hpp"
#include "../core/shape.hpp"
#include "accumulator_block.hpp"

namespace sinter::inline SINTER_ABI::jit {

/// How one step of the K loop multiplies.
enum class product : unsigned char { f32, f16_weight, bf16_pairs, bf16_widened, bf16_tiles };

struct product_row {
  product code;
  std::string_view name;
  int k_step;   ///< indices of k in a step
  int k_block;  ///< to a multiple of which panels and copied rows are padded
  dtype
      a;  ///< the first operand as the tile kernel reads it; another dtype is converted on the way
  dtype panel;  ///< elements of a panel
  std::string_view meaning;
};
inline constexpr product_row product_table[] = {
    {product::f32, "f32", 1, 1, dtype::f32, dtype::f32, "f32 FMA"},
    {product::f16_weight, "f16", 1, 1, dtype::f32, dtype::f16,
     "f32 FMA, panels widened as they are loaded"},
    {product::bf16_pairs, "bf16", 2, 2, dtype::bf16, dtype::bf16, "VDPBF16PS"},
    {product::bf16_widened, "bf16", 2, 2, dtype::f32, dtype::bf16,
     "two f32 FMAs per pair, the odd element first: on normal data the sums of VDPBF16PS"},
    {product::bf16_tiles, "bf16", 2, 32, dtype::bf16, dtype::bf16, "TDPBF16PS"},
};
static_assert([] {
  for (int i = 0; i < 5; ++i)
    if (static_cast<int>(product_table[i].code) != i) return false;
  return true;
}());
constexpr product_row const& row_of(product p) { return product_table[static_cast<int>(p)]; }

/// Bytes of the first operand that a step reads per row, and of a panel per lane.
constexpr int a_step_bytes(product p) { return row_of(p).k_step * size_of(row_of(p).a); }
constexpr int lane_step_bytes(product p) { return row_of(p).k_step * size_of(row_of(p).panel); }

/// k, padded as panels and copied rows are.
constexpr extent padded_k(product p, extent k) {
  extent const block = row_of(p).k_block;
  return (k + block - 1) / block * block;
}

/// How a product of these dtypes is made on this level; the dtypes are floating.
constexpr product product_for(isa level, dtype src, dtype weight) {
  if (src == dtype::bf16 && weight == dtype::bf16) {
    if (includes(level, isa::amx)) return product::bf16_tiles;
    return includes(level, isa::avx512_bf16) ? product::bf16_pairs : product::bf16_widened;
  }
  return weight == dtype::f16 ? product::f16_weight : product::f32;
}

/// The largest tile. Accumulators of (row, vector) stand in register 2 * slot + vector, slot
/// counting from the end, so a tile of fewer rows uses the last slots and the epilogue is entered
/// at its first.
///
/// AVX-512: 8 x 2 leaves 16 registers to the epilogue; two loads of a panel feed 16 FMAs with
/// embedded broadcasts. More rows would not compute faster and, where rows are a multiple of 4 KiB
/// apart, would evict each other from an L1 of 8 ways (measured: 14 x 2 falls to 53% of the peak at
/// 1024^3, 8 x 2 stays at 97%). AVX2: 6 x 2, two registers for the panel and two for broadcasts.
/// AMX: two by two tiles of 16 x 16 sums in four of the eight tile registers (jit/tile_amx.hpp).
inline constexpr int tile_vectors = 2;
constexpr int tile_rows(isa level) {
  return includes(level, isa::amx) ? 32 : has_masks(level) ? 8 : 6;
}
constexpr int tile_columns(isa level) { return tile_vectors * lanes_of(level); }

/// Independent sums per accumulator: few rows alone would wait for the latency of their FMAs.
constexpr int k_splits(int rows) { return rows == 1 ? 4 : rows <= 3 ? 2 : 1; }

/// Terms of a sum that one accumulator adds before it is added to a second one, in sums of more than
/// twice as many: the error of a long sum grows with this and the number of blocks, not with K.
inline constexpr extent sum_block = 512;

/// m rows as `blocks` tiles of `high` rows, the last `low_blocks` of them one row shorter: no tile
/// is much smaller than another. All 0 for m = 0.
struct row_split {
  extent blocks = 0;
  extent low_blocks = 0;
  int high = 0;
};
constexpr row_split split_rows(extent m, int max_rows) {
  if (m <= 0) return {};
  row_split s;
  s.blocks = (m + max_rows - 1) / max_rows;
  s.high = static_cast<int>((m + s.blocks - 1) / s.blocks);
  s.low_blocks = s.blocks * s.high - m;
  return s;
}

/// The row counts that a split uses: bit r for tiles of r rows.
using row_counts = std::uint32_t;
constexpr row_counts counts_of(row_split const& s) {
  row_counts c = 0;
  if (s.blocks > s.low_blocks) c |= row_counts{1} << s.high;
  if (s.low_blocks > 0) c |= row_counts{1} << (s.high - 1);
  return c;
}
constexpr row_counts all_counts(int max_rows) { return (row_counts{2} << max_rows) - 2; }

/// Where the panels of one K x N operand lie: the full ones, then a narrower one for the remaining
/// columns.
struct panel_layout {
  product kind = product::f32;
  int lanes = 16;
  extent k = 0, n = 0;

  constexpr extent width() const { return extent{tile_vectors} * lanes; }
  constexpr extent steps() const { return padded_k(kind, k) / row_of(kind).k_step; }
  constexpr extent full_panels() const { return n / width(); }
  constexpr int tail_columns() const { return static_cast<int>(n % width()); }
  constexpr int tail_vectors() const { return (tail_columns() + lanes - 1) / lanes; }
  /// Valid lanes of the last vector of the narrow panel; 0: all.
  constexpr int tail_lanes() const { return tail_columns() % lanes; }
  constexpr extent step_bytes(int vectors) const {
    return extent{vectors} * lanes * lane_step_bytes(kind);
  }
  constexpr extent panel_bytes(int vectors) const { return steps() * step_bytes(vectors); }
  constexpr extent bytes() const {
    return full_panels() * panel_bytes(tile_vectors) + panel_bytes(tail_vectors());
  }
};

}  // namespace sinter::inline SINTER_ABI::jit
