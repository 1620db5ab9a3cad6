// A matmul as it was built, and where everything lies in one call.
//
// matmul_plan is what is known when a kernel is built; matmul_geometry is of one call, batch axes
// folded into rows as far as strides allow. Values only: who makes a plan is backend/jit_matmul.hpp,
// who walks a geometry is backend/jit_matmul_call.hpp.
#pragma once

#include <optional>

#include "../jit/column.hpp"
#include "../jit/column_rows.hpp"
#include "../jit/pack_code.hpp"
#include "../plan/problem.hpp"
#include "jit_matmul_rules.hpp"

namespace sinter::inline SINTER_ABI::jit {

struct matmul_plan {
  matmul_shape shape;
  matmul_code_kind code = matmul_code_kind::panels;
  epilogue_accesses accesses;
  int src = 0, weight = 0;  ///< operands of the chain
  bool transposed_src = false, transposed_weight = false;
  bool packed_weight = true;  ///< the second operand is a weight; otherwise each call packs it
  extent k = 0, n = 0;
  extent block_rows = 0;  ///< rows that one call of the kernel takes at most
  std::size_t panel_scratch = 0, row_scratch = 0;
  std::optional<pack_shape> pack;  ///< how generated code packs in the call

  panel_layout panels() const { return {shape.kind, lanes_of(shape.level), k, n}; }
  bool tiles() const { return code == matmul_code_kind::tiles; }
  bool column() const { return code == matmul_code_kind::column || column_rows(); }
  bool column_rows() const { return code == matmul_code_kind::column_rows; }
  int tile_rows() const {
    if (column_rows()) return column_rows_vectors(shape.level) * lanes_of(shape.level);
    return column() ? column_tile_rows : jit::tile_rows(shape.level);
  }
  /// Bytes of the second operand as the kernel reads it: panels, or the column as it is.
  extent packed_bytes() const {
    return column() ? (k * size_of(shape.b) + 63) / 64 * 64 : panels().bytes();
  }
  std::size_t scratch_bytes() const { return panel_scratch + row_scratch; }
};

inline constexpr int max_batch_axes = max_rank - 2;

/// Where everything lies: element (batch..., row, column) of each operand. Strides in bytes but
/// a_column.
struct matmul_geometry {
  int batch_axes = 0;
  extent batch[max_batch_axes] = {};
  extent rows = 0;
  extent a_row = 0, a_column = 0;
  bool dense_rows = false;  ///< the code wants rows of the first operand side by side
  extent a_batch[max_batch_axes] = {};
  extent b_row = 0, b_column = 0;  ///< elements; of an operand that is packed in the call
  extent b_batch[max_batch_axes] = {};
  struct access {
    extent row = 0;
    extent batch[max_batch_axes] = {};
  };
  access accesses[max_operands + max_outputs];

  bool empty() const {
    for (int i = 0; i < batch_axes; ++i)
      if (batch[i] == 0) return true;
    return rows == 0;
  }
};

namespace detail {

using sinter::detail::at;
using sinter::detail::in_quotes;

/// The stride of axis i counted from the end (1 is the last), 0 where the operand is broadcast
/// along it.
inline extent stride_from_end(tensor_desc const& d, int i) {
  if (i > d.dims.ssize()) return 0;
  return d.dims[d.dims.ssize() - i] == 1 ? 0 : d.strides[d.strides.ssize() - i];
}

inline tensor_desc const& desc_of(problem const& p, epilogue_access const& a) {
  return a.output ? p.outputs[at(a.index)] : p.operands[at(a.index)];
}

/// Bytes from one matrix of a packed weight to the next along its batch axis i (from the end, 3 is
/// the first).
inline extent packed_stride(matmul_plan const& plan, tensor_desc const& weight, int i) {
  int const rank = weight.dims.ssize();
  if (i > rank || weight.dims[rank - i] == 1) return 0;
  extent matrices = 1;
  for (int j = 3; j < i; ++j) matrices *= weight.dims[rank - j];
  return matrices * plan.packed_bytes();
}

/// Makes axis 0 of the batch one with the rows where all operands allow it.
inline bool fold_rows(matmul_geometry& g, int accesses) {
  if (g.batch_axes == 0) return false;
  auto const fits = [&](extent batch, extent row) {
    return g.rows == 1 || g.batch[0] == 1 || batch == row * g.rows;
  };
  bool ok = (g.b_batch[0] == 0 || g.batch[0] == 1) && fits(g.a_batch[0], g.a_row);
  if (g.dense_rows) ok = ok && g.a_batch[0] == g.a_row * g.rows;
  for (int i = 0; i < accesses; ++i) ok = ok && fits(g.accesses[i].batch[0], g.accesses[i].row);
  if (!ok) return false;
  if (g.rows == 1) {
    g.a_row = g.a_batch[0];
    for (int i = 0; i < accesses; ++i) g.accesses[i].row = g.accesses[i].batch[0];
  }
  g.rows *= g.batch[0];
  --g.batch_axes;
  for (int j = 0; j < g.batch_axes; ++j) {
    g.batch[j] = g.batch[j + 1];
    g.a_batch[j] = g.a_batch[j + 1];
    g.b_batch[j] = g.b_batch[j + 1];
    for (int i = 0; i < accesses; ++i) g.accesses[i].batch[j] = g.accesses[i].batch[j + 1];
  }
  return true;
}

}  // namespace detail

/// Batch axis 0 is the innermost. `p` has no dynamic extent.
inline matmul_geometry geometry_of(matmul_plan const& plan, problem const& p) {
  using detail::at, detail::stride_from_end;
  matmul_geometry g;
  tensor_desc const& src = p.operands[at(plan.src)];
  tensor_desc const& weight = p.operands[at(plan.weight)];
  extent const src_bytes = size_of(src.type), weight_bytes = size_of(weight.type);
  int const rank = p.domain.ssize();
  g.batch_axes = rank - 2;
  g.rows = p.domain[rank - 2];
  g.a_row = stride_from_end(src, plan.transposed_src ? 1 : 2) * src_bytes;
  g.a_column = stride_from_end(src, plan.transposed_src ? 2 : 1);
  g.dense_rows = plan.column_rows();
  if (g.dense_rows) g.a_row = src_bytes;  // of one row as well
  g.b_row = stride_from_end(weight, plan.transposed_weight ? 1 : 2);
  g.b_column = stride_from_end(weight, plan.transposed_weight ? 2 : 1);
  for (int j = 0; j < g.batch_axes; ++j) {
    g.batch[j] = p.domain[rank - 3 - j];
    g.a_batch[j] = stride_from_end(src, j + 3) * src_bytes;
    g.b_batch[j] = plan.packed_weight ? detail::packed_stride(plan, weight, j + 3)
                                      : stride_from_end(weight, j + 3) * weight_bytes;
  }
  for (int i = 0; i < plan.accesses.ssize(); ++i) {
    tensor_desc const& d = detail::desc_of(p, plan.accesses[i]);
    g.accesses[i].row = stride_from_end(d, 2) * size_of(d.type);
    for (int j = 0; j < g.batch_axes; ++j)
      g.accesses[i].batch[j] = stride_from_end(d, j + 3) * size_of(d.type);
  }
  while (detail::fold_rows(g, plan.accesses.ssize())) {
  }
  return g;
}

}  // namespace sinter::inline SINTER_ABI::jit
