// Which op runs in which precision, over a whole network: THE table of autocast.
//
//   constexpr auto mine = sinter::autocast.with(sinter::op::matmul, sinter::runs_in::full);
//   sinter::network_builder net(mine, weights);
//
// Each op runs low (its operands are rounded to the low dtype once, and its result is stored in it), in full f32, or follows
// what it reads: the widest of its tensors, where vectors, scalars and numbers widen nothing. As everywhere, arithmetic
// between a contraction and the store is f32; the table only says how contractions read and how values are stored.
// The default is PyTorch's list for the CPU: contractions run low, what it keeps in f32 (losses, transforms, linear
// algebra) is no op here, and everything else follows.
#pragma once

#include <array>

#include "../core/dtype.hpp"
#include "../core/op.hpp"

namespace sinter::inline SINTER_ABI {

enum class runs_in : unsigned char { low, full, follows };

struct autocast_table {
  std::array<runs_in, static_cast<std::size_t>(op_count)> rows{};
  dtype low = dtype::bf16;

  constexpr runs_in operator[](op code) const { return rows[static_cast<std::size_t>(code)]; }
  /// The same with one op changed.
  constexpr autocast_table with(op code, runs_in how) const {
    autocast_table changed = *this;
    changed.rows[static_cast<std::size_t>(code)] = how;
    return changed;
  }
};

inline constexpr autocast_table autocast = [] {
  autocast_table t;
  for (op_row const& row : op_table)
    t.rows[static_cast<std::size_t>(row.code)] =
        is_contraction(row.code) ? runs_in::low : runs_in::follows;
  return t;
}();

}  // namespace sinter::inline SINTER_ABI
