// The JIT backend's matmul: which problems it takes, how one is laid out, packed and driven.
//
// A generated kernel (which one, says matmul_code_table) computes rows x all columns; outside of it
// stand loops over batches and over blocks of rows that fit a cache, and copies of an operand whose
// elements do not lie as the kernel reads them. A problem with none of these is one call of generated
// code. Read backend/jit_matmul_geometry.hpp for the plan, backend/jit_matmul_call.hpp for calls.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "../base/join.hpp"
#include "../jit/matmul_amx.hpp"
#include "jit_matmul_geometry.hpp"

namespace sinter::inline SINTER_ABI::jit {

namespace detail {

inline verdict refuse(std::string why) { return verdict::no("sinter: jit: " + std::move(why)); }

/// What pack() answers where nothing is contracted.
inline failure no_weight(chain const& c, int operand) {
  return {code::bad_argument, "sinter: jit: operand " + in_quotes(c.operands[operand].name) +
                                  " of a chain without a contraction is no weight"};
}

/// One contraction of floating operands, whatever follows it.
inline verdict check_contraction(chain const& c) {
  int contractions = 0;
  for (step const& s : c.steps) contractions += s.contraction >= 0 ? 1 : 0;
  if (contractions != 1)
    return refuse("a chain of " + std::to_string(contractions) + " contractions; one is wanted");
  step const& s = c.steps[c.anchor()];
  for (int i = 0; i < 2; ++i)
    if (s.args[i].kind != value_kind::operand)
      return refuse(sinter::detail::join(
          {"steps on an input of ", name_of(s.code), " before it (a prologue) are not generated"}));
  for (value_ref v : {s.args[0], s.args[1]})
    if (!is_floating(c.operands[int{v.index}].type))
      return refuse(sinter::detail::join(
          {"operand ", in_quotes(c.operands[int{v.index}].name), " of ", name_of(s.code), " is ",
           name_of(c.operands[int{v.index}].type), "; f32, bf16 or f16 is wanted"}));
  return verdict::yes();
}

inline verdict check_matmul_chain(chain const& c, isa level) {
  if (verdict v = check_contraction(c); !v) return v;
  return epilogue::supports(c, c.anchor(), level);
}

constexpr bool several(extent n) { return n > 1 || n == dynamic; }  ///< or maybe

/// Elements along the last axis lie side by side, or are one for all columns.
inline verdict check_columns(std::string const& who, tensor_desc const& d, extent n, bool output) {
  if (d.dims.empty() || d.dims.back() == 1 || !several(n) || d.strides.empty())
    return verdict::yes();
  extent const stride = d.strides.back();
  if (stride == 1 || (stride == 0 && !output)) return verdict::yes();
  return refuse(who + " has the stride " + std::to_string(stride) +
                " along its last axis; 1 is wanted");
}

inline columns columns_of(tensor_desc const& d, extent n) {
  if (d.dims.empty() || (d.dims.back() == 1 && n != 1)) return columns::broadcast;
  bool const repeated = several(n) && !d.strides.empty() && d.strides.back() == 0;
  return repeated ? columns::broadcast : columns::unit;
}

inline verdict check_matmul_layout(problem const& p, epilogue const& e) {
  chain const& c = p.chain;
  extent const n = p.domain.back();
  for (int i = 0; i < c.operands.ssize(); ++i)
    if (e.reads(i)) {
      std::string const who = "operand " + in_quotes(c.operands[i].name);
      if (c.operands[i].role == role::weight)
        return refuse(who + " is a weight that a pointwise step reads");
      if (verdict v = check_columns(who, p.operands[at(i)], n, false); !v) return v;
    }
  for (int i = 0; i < c.outputs.ssize(); ++i) {
    std::string const who = "output " + in_quotes(c.outputs[i].name);
    if (!(p.outputs[at(i)].dims == p.domain))
      return refuse(who + " of " + to_string(p.outputs[at(i)].dims) +
                    " has other extents than the product of " + to_string(p.domain));
    if (verdict v = check_columns(who, p.outputs[at(i)], n, true); !v) return v;
  }
  return verdict::yes();
}

}  // namespace detail

/// What a matmul of the chain reads.
struct matmul_operands {
  int src, weight;
  contraction_attrs attrs;
};
inline matmul_operands operands_of(chain const& c) {
  step const& s = c.steps[c.anchor()];
  return {s.args[0].index, s.args[1].index, c.attrs(s)};
}

namespace detail {

inline verdict check_matmul_extents(problem const& p) {
  matmul_operands const o = operands_of(p.chain);
  tensor_desc const& weight = p.operands[at(o.weight)];
  int const rank = weight.dims.ssize();
  extent const k = weight.dims[o.attrs.transposed_weight ? rank - 1 : rank - 2],
               n = p.domain.back();
  if (k == dynamic || n == dynamic || is_dynamic(weight.dims))
    return refuse("operand " + in_quotes(p.chain.operands[o.weight].name) + " of " +
                  to_string(weight.dims) +
                  " has a dynamic extent; only rows and batches may be dynamic");
  if (k > (std::numeric_limits<std::int32_t>::max)() / 16)
    return refuse("K = " + std::to_string(k) + " is more than 2^27");
  return verdict::yes();
}

}  // namespace detail

inline verdict supports_matmul(problem const& p, isa level) {
  if (verdict v = detail::check_matmul_chain(p.chain, level); !v) return v;
  if (verdict v = detail::check_matmul_extents(p); !v) return v;
  return detail::check_matmul_layout(p, epilogue(p.chain, p.chain.anchor()));
}

namespace detail {

/// What the epilogue reads and writes, outputs first.
inline epilogue_accesses accesses_of(problem const& p, epilogue const& e) {
  epilogue_accesses accesses;
  auto const add = [&](bool output, int i, tensor_desc const& d) {
    bool moves = false;
    for (int j = 0; j + 1 < d.dims.ssize(); ++j) moves = moves || d.dims[j] != 1;
    accesses.push_back({output, i, d.type, columns_of(d, p.domain.back()), moves});
  };
  for (int i = 0; i < p.chain.outputs.ssize(); ++i) add(true, i, p.outputs[at(i)]);
  for (int i = 0; i < p.chain.operands.ssize(); ++i)
    if (e.reads(i)) add(false, i, p.operands[at(i)]);
  return accesses;
}

/// Does the epilogue want more registers than accumulators leave, or is it so long that a copy for each row takes more
/// than a millisecond to generate?
inline bool wants_loop(epilogue const& e, isa level) {
  constexpr int most_copied_steps = 8;
  if (e.steps() > most_copied_steps) return true;
  int const free = vector_count_of(level) - tile_rows(level) * tile_vectors;
  return !has_masks(level) || e.stack_bytes(level) / vector_bytes_of(level) > free;
}

/// Rows per call of the kernel: a block of the first operand that a large cache keeps while the
/// panels pass by; smaller where it is a copy. One column passes by but once.
inline extent rows_per_call(matmul_plan const& plan) {
  matmul_shape const& s = plan.shape;
  constexpr extent in_place_bytes = extent{4} << 20, copied_bytes = extent{512} << 10;
  // Tiles read 16 times as fast: half of the second-level cache that CPUs with AMX have.
  constexpr extent tiled_bytes = extent{1} << 20;
  extent const row = plan.column() ? 1 : copied_row_bytes(s.kind, plan.k);
  extent const in_place = s.kind == product::bf16_tiles ? tiled_bytes : in_place_bytes;
  extent const rows = (s.direct ? in_place : copied_bytes) / (row > 0 ? row : 1);
  extent const tile = plan.tile_rows();
  return std::clamp(rows / tile, extent{2}, extent{1} << 17) * tile;
}

inline row_counts counts_of_rows(extent rows, extent block_rows, int tile) {
  row_counts c = counts_of(split_rows(rows % block_rows, tile));
  if (rows >= block_rows) c |= counts_of(split_rows(block_rows, tile));
  return c;
}

/// A second operand that is no weight is read where it lies if its rows are dense and few rows of
/// the first operand would share the cost of packing it; a column if it is dense.
inline bool reads_in_place(matmul_plan const& plan, problem const& p, extent rows) {
  tensor_desc const& weight = p.operands[at(plan.weight)];
  if (plan.column())
    return plan.k <= 1 || stride_from_end(weight, plan.transposed_weight ? 1 : 2) == 1;
  product const kind = plan.shape.kind;
  bool const dense = plan.n == 1 || stride_from_end(weight, plan.transposed_weight ? 2 : 1) == 1;
  bool const known =
      (kind == product::f32 && weight.type == dtype::f32) || kind == product::bf16_pairs;
  return has_masks(plan.shape.level) && known && dense && rows >= 0 &&
         rows <= 2 * tile_rows(plan.shape.level);
}

/// How generated code packs the second operand in a call, where it can.
inline std::optional<pack_shape> pack_in_call(matmul_plan const& plan, tensor_desc const& weight) {
  if (plan.column()) return {};
  bool const unit_columns = stride_from_end(weight, plan.transposed_weight ? 2 : 1) == 1;
  bool const unit_k = stride_from_end(weight, plan.transposed_weight ? 1 : 2) == 1;
  matmul_shape const& s = plan.shape;
  auto const form = pack_form_of(plan.panels(), s.level, weight.type, unit_columns, unit_k);
  if (!form) return {};
  // Steps that pad a panel beyond the one that k ends in.
  extent const zero_steps = (padded_k(s.kind, s.k) - s.k) / row_of(s.kind).k_step;
  return pack_shape{s.level,       *form,          size_of(weight.type),        s.k,
                    s.full_panels, s.tail_columns, static_cast<int>(zero_steps)};
}

/// Elements of a row of the first operand lie side by side.
inline bool unit_columns(matmul_plan const& plan, tensor_desc const& src) {
  return src.strides.empty() ? !plan.transposed_src
                             : stride_from_end(src, plan.transposed_src ? 2 : 1) == 1;
}

/// Those of a column do.
inline bool unit_rows(matmul_plan const& plan, tensor_desc const& src) {
  int const i = plan.transposed_src ? 1 : 2;
  if (src.strides.empty()) return plan.transposed_src;
  return src.dims[src.dims.ssize() - i] == 1 || stride_from_end(src, i) == 1;
}

/// Operands, extents, and which code.
inline matmul_plan begin_plan(problem const& p, isa level) {
  matmul_operands const o = operands_of(p.chain);
  tensor_desc const &src = p.operands[at(o.src)], &weight = p.operands[at(o.weight)];
  matmul_plan plan;
  plan.src = o.src;
  plan.weight = o.weight;
  plan.transposed_src = o.attrs.transposed_src;
  plan.transposed_weight = o.attrs.transposed_weight;
  plan.packed_weight = p.chain.operands[o.weight].role == role::weight;
  plan.n = p.domain.back();
  plan.k = weight.dims[weight.dims.ssize() - (o.attrs.transposed_weight ? 1 : 2)];
  plan.shape.level = level;
  plan.shape.kind = product_for(level, src.type, weight.type);
  plan.shape.k = plan.k;
  plan.code =
      rule_for({plan.shape.kind, plan.k, plan.n, unit_columns(plan, src), unit_rows(plan, src)})
          .kind;
  plan.shape.column = plan.column();
  plan.shape.column_rows = plan.column_rows();
  if (plan.column()) plan.shape.a = src.type, plan.shape.b = weight.type;
  return plan;
}

}  // namespace detail

/// Only where supports_matmul() says yes.
inline matmul_plan plan_matmul(problem const& p, epilogue const& e, isa level) {
  matmul_plan plan = detail::begin_plan(p, level);
  tensor_desc const &src = p.operands[detail::at(plan.src)],
                    &weight = p.operands[detail::at(plan.weight)];
  plan.accesses = detail::accesses_of(p, e);
  matmul_shape& s = plan.shape;
  s.direct = plan.column() ||
             (src.type == row_of(s.kind).a && (detail::unit_columns(plan, src) || plan.k <= 1));
  if (plan.column())
    s.looped_epilogue = !has_masks(level) && e.steps() > column_copied_steps;
  else
    s.looped_epilogue = !plan.tiles() && detail::wants_loop(e, level);
  s.full_panels = plan.n >= tile_columns(level);
  s.tail_columns = plan.panels().tail_columns();
  plan.block_rows = detail::rows_per_call(plan);
  int const tile = plan.tile_rows();
  extent const rows = is_dynamic(p) ? -1 : geometry_of(plan, p).rows;
  if (plan.tiles())
    s.row_tiles = amx_block_rows(rows, plan.n);
  else if (plan.column_rows())
    s.rest_rows = rows < 0 ? 0 : static_cast<int>(rows % tile);
  else
    s.counts = rows < 0 ? all_counts(tile) : detail::counts_of_rows(rows, plan.block_rows, tile);
  bool const in_place = !plan.packed_weight && detail::reads_in_place(plan, p, rows);
  s.direct_panel = in_place && !plan.column();
  if (!plan.packed_weight && !in_place) {
    plan.pack = detail::pack_in_call(plan, weight);
    plan.panel_scratch = round_up(static_cast<std::size_t>(plan.packed_bytes()), 64);
  }
  extent const block = rows < 0 ? plan.block_rows : (std::min)(rows, plan.block_rows);
  if (!s.direct)
    plan.row_scratch = static_cast<std::size_t>(block * copied_row_bytes(s.kind, plan.k));
  return plan;
}

}  // namespace sinter::inline SINTER_ABI::jit
