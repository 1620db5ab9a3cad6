// How the work of a matmul is cut into parts: blocks of tile rows times panels of columns.
//
// Cuts run along the borders of the tiles that the uncut product has, so that every sum is made by
// the same code in the same order, whoever makes it. Row tiles of all matrices of a batch count as
// one long column of tiles. A second operand that each call packs is packed by parts of whole
// matrices, each its own panels: nothing is packed twice but a matrix that the batch shares.
#pragma once

#include "backend.hpp"
#include "jit_matmul.hpp"

namespace sinter::inline SINTER_ABI::jit {

/// The tiles of rows that one matrix has: whole blocks of rows (matmul_plan::block_rows), then the
/// rest.
class row_tiles {
 public:
  row_tiles() = default;
  row_tiles(extent rows, extent block_rows, int tile)
      : block_rows_(block_rows),
        whole_blocks_(rows / block_rows),
        whole_(split_rows(block_rows, tile)),
        rest_(split_rows(rows % block_rows, tile)) {}

  extent count() const { return whole_blocks_ * whole_.blocks + rest_.blocks; }

  /// Tiles of one block of rows: the first row, their rows together, one past the last tile.
  struct span {
    extent row = 0, rows = 0, last = 0;
    row_split split;
  };
  /// As much of tiles [first, last) as lies in the block of the first.
  span at(extent first, extent last) const {
    extent const block = whole_blocks_ == 0 ? 0 : first / whole_.blocks;
    extent const origin = block * whole_.blocks;
    row_split const& in = block < whole_blocks_ ? whole_ : rest_;
    extent const begin = first - origin, end = (std::min)(last - origin, in.blocks);
    extent const low_from = in.blocks - in.low_blocks;
    auto const row_of_tile = [&](extent t) {
      return t * in.high - (std::max)(extent{0}, t - low_from);
    };
    extent const low = (std::max)(extent{0}, end - (std::max)(begin, low_from));
    return {block * block_rows_ + row_of_tile(begin),
            row_of_tile(end) - row_of_tile(begin),
            origin + end,
            {end - begin, low, in.high}};
  }

 private:
  extent block_rows_ = 1, whole_blocks_ = 0;
  row_split whole_, rest_;
};

/// Units of rows (tiles of all matrices, or whole matrices) times panels.
struct matmul_grid {
  extent units = 1, panels = 1;
  int by_rows = 1, by_columns = 1;

  struct part {
    extent unit0 = 0, unit1 = 0, panel0 = 0, panel1 = 0;
  };
  int parts() const { return by_rows * by_columns; }
  part at(int i) const {
    return {border(units, i / by_columns, by_rows), border(units, i / by_columns + 1, by_rows),
            border(panels, i % by_columns, by_columns),
            border(panels, i % by_columns + 1, by_columns)};
  }
  part all() const { return {0, units, 0, panels}; }

 private:
  /// Where piece i of n begins; the pieces with one more come first.
  static extent border(extent count, int i, int n) {
    return count / n * i + (std::min)(extent{i}, count % n);
  }
};

/// What one element of an operand costs to bring, in multiply-adds.
struct matmul_costs {
  double first = 1, second = 1;
  explicit matmul_costs(matmul_plan const& plan)
      : first(plan.shape.direct ? 1 : 8), second(plan.panel_scratch == 0 ? 1 : 4) {}
};

inline extent matrices_of(matmul_geometry const& g) {
  extent n = 1;
  for (int i = 0; i < g.batch_axes; ++i) n *= g.batch[i];
  return n;
}
/// Matrices of the second operand that differ.
inline extent second_matrices(matmul_geometry const& g) {
  extent n = 1;
  for (int i = 0; i < g.batch_axes; ++i) n *= g.b_batch[i] == 0 ? 1 : g.batch[i];
  return n;
}

/// Units of rows in one matrix of the batch.
inline extent units_of_matrix(matmul_plan const& plan, row_tiles const& tiles) {
  return plan.panel_scratch > 0 ? 1 : tiles.count();
}

inline matmul_grid uncut(matmul_plan const& plan, matmul_geometry const& g,
                         row_tiles const& tiles) {
  matmul_grid whole;
  whole.units = matrices_of(g) * units_of_matrix(plan, tiles);
  whole.panels = plan.panels().full_panels() + (plan.panels().tail_columns() > 0 ? 1 : 0);
  return whole;
}

/// At most `wanted` parts. Each reads its rows of the first operand and its columns of the second:
/// of the cuts into about the most parts, the one that brings the least from memory.
inline matmul_grid cut_matmul(matmul_plan const& plan, matmul_geometry const& g,
                              row_tiles const& tiles, int wanted) {
  matmul_grid best = uncut(plan, g, tiles);
  double const rows = static_cast<double>(matrices_of(g)) * static_cast<double>(g.rows);
  double const k = static_cast<double>(plan.k), n = static_cast<double>(plan.n);
  double const seconds = static_cast<double>(second_matrices(g));
  // An element of the epilogue costs as much as 8 products, one of the second operand 4.
  int const most = worthwhile_parts(rows * n * (k + 8) + 4 * seconds * k * n, wanted);
  matmul_costs const costs(plan);
  auto const pieces = [](extent count, int limit) {
    return static_cast<int>((std::min)(count, extent{limit}));
  };
  auto const columns_beside = [&](int by_rows) { return pieces(best.panels, most / by_rows); };
  int largest = 1;
  for (int r = 1; r <= pieces(best.units, most); ++r)
    largest = (std::max)(largest, r * columns_beside(r));
  double least = -1;
  for (int r = pieces(best.units, most); r > 0; --r) {
    int const c = columns_beside(r);
    if (4 * r * c < 3 * largest) continue;
    double const cost = (std::max)(static_cast<double>(r), seconds) * k * n * costs.second +
                        c * rows * k * costs.first;
    if (least >= 0 && cost >= least) continue;
    least = cost;
    best.by_rows = r;
    best.by_columns = c;
  }
  return best;
}

}  // namespace sinter::inline SINTER_ABI::jit
