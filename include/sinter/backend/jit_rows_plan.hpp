// The JIT backend's rows before there is code: what a row kernel is built from, where rows lie in a
// call, what is refused.
//
// rows_code is what is known when a kernel is built; where rows lie in one call is the geometry of
// backend/jit_matmul.hpp, without a product. Columns are the last axis. Where no step looks along a
// row and everything is dense, all rows are one long one. Calls: backend/jit_rows.hpp.
#pragma once

#include <memory>
#include <string>

#include "../jit/code_memory.hpp"
#include "../jit/rows.hpp"
#include "../plan/text.hpp"
#include "backend.hpp"
#include "jit_matmul.hpp"

namespace sinter::inline SINTER_ABI::jit {

/// The immutable side of a built row kernel.
struct rows_code {
  problem wanted;
  rows_shape shape;
  rows_plan plan;
  epilogue_accesses accesses;
  std::size_t kept_bytes = 0;  ///< of one kept value, of all rows side by side
  std::shared_ptr<machine_code const> code;

  std::size_t scratch_bytes() const { return static_cast<std::size_t>(plan.kept) * kept_bytes; }
};

/// Rows x columns of one call.
struct rows_geometry {
  matmul_geometry rows;
  extent columns = 1;
  bool folded = false;  ///< all rows are one: it may be cut between any two columns
};

namespace detail {

inline extent columns_in(shape const& domain) { return domain.empty() ? 1 : domain.back(); }

inline operand_set wide_operands(problem const& p, extent columns) {
  operand_set wide = 0;
  for (int i = 0; i < p.chain.operands.ssize(); ++i) {
    shape const& dims = p.operands[at(i)].dims;
    if (!dims.empty() && dims.back() == columns) wide |= operand_set{1} << i;
  }
  return wide;
}

inline result<rows_plan> plan_rows(problem const& p) {
  extent const columns = columns_in(p.domain);
  return rows_planner(p.chain, wide_operands(p, columns), columns != dynamic, p.in_place >= 0)
      .make();
}

inline verdict check_rows_layout(problem const& p) {
  chain const& c = p.chain;
  shape const& domain = p.domain;
  extent const columns = columns_in(domain);
  for (int i = 0; i < c.operands.ssize(); ++i) {
    std::string const who = "operand " + in_quotes(c.operands[i].name);
    if (c.operands[i].role == role::weight)
      return refuse(who + " is a weight that a pointwise step reads");
    if (verdict v = check_columns(who, p.operands[at(i)], columns, false); !v) return v;
  }
  for (int i = 0; i < c.outputs.ssize(); ++i) {
    std::string const who = "output " + in_quotes(c.outputs[i].name);
    shape const& dims = p.outputs[at(i)].dims;
    if (!(dims == domain) && (domain.empty() || !(dims == reduced_shape(domain))))
      return refuse(who + " of " + to_string(dims) + " has other rows than the operands, " +
                    to_string(domain));
    if (verdict v = check_columns(who, p.outputs[at(i)], columns, true); !v) return v;
  }
  return verdict::yes();
}

/// Where nothing looks along a row and each row begins where the last one ends: one row of all
/// columns, if it ends as the code can end a row.
inline void fold_columns(rows_geometry& g, epilogue_accesses const& accesses,
                         rows_shape const& code) {
  if (g.rows.batch_axes != 0) return;
  extent const tail = g.columns * g.rows.rows % lanes_of(code.level);
  if (!has_masks(code.level) && tail != 0 && tail != code.tail_lanes) return;
  for (int i = 0; i < accesses.ssize(); ++i) {
    extent const row = g.rows.accesses[i].row;
    bool const unit = accesses[i].across == columns::unit;
    if (g.rows.rows != 1 && row != (unit ? g.columns * size_of(accesses[i].type) : 0)) return;
  }
  g.columns *= g.rows.rows;
  g.rows.rows = 1;
  g.folded = true;
}

}  // namespace detail

/// `p` has no dynamic extent.
inline rows_geometry geometry_of(rows_code const& built, problem const& p) {
  epilogue_accesses const& accesses = built.accesses;
  shape const& domain = p.domain;
  int const rank = domain.ssize();
  rows_geometry g;
  g.columns = detail::columns_in(domain);
  matmul_geometry& rows = g.rows;
  rows.batch_axes = rank > 2 ? rank - 2 : 0;
  rows.rows = rank >= 2 ? domain[rank - 2] : 1;
  for (int j = 0; j < rows.batch_axes; ++j) rows.batch[j] = domain[rank - 3 - j];
  for (int i = 0; i < accesses.ssize(); ++i) {
    tensor_desc const& d = detail::desc_of(p, accesses[i]);
    rows.accesses[i].row = detail::stride_from_end(d, 2) * size_of(d.type);
    for (int j = 0; j < rows.batch_axes; ++j)
      rows.accesses[i].batch[j] = detail::stride_from_end(d, j + 3) * size_of(d.type);
  }
  while (detail::fold_rows(rows, accesses.ssize())) {
  }
  if (!built.plan.reduces() && built.plan.scalar_outputs.empty())
    detail::fold_columns(g, accesses, built.shape);
  return g;
}

inline verdict supports_rows(problem const& p, isa level) {
  if (verdict v = epilogue::knows_types(p.chain, -1); !v) return v;
  if (detail::columns_in(p.domain) == dynamic && !has_masks(level))
    return detail::refuse("the last axis is dynamic, and " + std::string(name_of(level)) +
                          " has no masks for a partial vector");
  if (verdict v = detail::check_rows_layout(p); !v) return v;
  result<rows_plan> const plan = detail::plan_rows(p);
  if (!plan) return verdict::no(plan.error().message);
  return rows_supported(*plan, level);
}

}  // namespace sinter::inline SINTER_ABI::jit
