// Where a chain with a product and reductions behind it is cut in two, and the problems of both
// halves.
//
// The cut is behind the steps that need no whole row. The product with those steps writes the
// values that live across the cut, f32, to a block of rows that a cache keeps; the other half reads
// them there. Both halves are problems of rank 2 and one block long, for the kernels that exist:
// backend/jit_matmul.hpp and backend/jit_rows.hpp. Values only; who runs them is
// backend/jit_matmul_rows.hpp.
#pragma once

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "jit_rows.hpp"

namespace sinter::inline SINTER_ABI::jit {

/// A chain cut in two, with problems of one block: rows x columns.
struct matmul_rows_cut {
  problem product, rows;
  /// Where the halves' operands and outputs come from in the whole chain; -1 - i: live value i. The
  /// product's operands are the whole chain's.
  std::array<int, max_outputs> product_outputs{};
  std::array<int, max_operands> row_operands{};
  std::array<int, max_outputs> row_outputs{};
  int live = 0;
  // What finds the blocks of a call: operands and outputs of the whole chain but those of the
  // product itself.
  matmul_plan layout;
  extent block_rows = 0;   ///< at most
  extent live_stride = 0;  ///< elements from row to row of a live value

  std::size_t live_bytes() const {
    return static_cast<std::size_t>(block_rows * live_stride) * sizeof(float);
  }
};

inline bool has_reductions(chain const& c) {
  for (step const& s : c.steps)
    if (is_reduction(s.code)) return true;
  return false;
}

namespace detail {

/// Bytes of live values that a block has at most, beside what the product reads meanwhile.
inline constexpr extent live_block_bytes = extent{256} << 10;
inline constexpr extent most_block_rows = 64;

/// Cuts the steps of a chain. `deep`: all steps that follow from the product and need no whole row
/// stand with it; otherwise it stands alone.
class matmul_rows_cutter {
 public:
  matmul_rows_cutter(chain const& c, bool deep) : c_(c), anchor_(c.anchor()) {
    product_[at(anchor_)] = true;
    for (int i = anchor_ + 1; deep && i < c_.steps.ssize(); ++i) product_[at(i)] = follows(i);
  }

  /// False where the product would have more outputs than a chain can have.
  bool cut(matmul_rows_cut& to) {
    to.product.chain = half(true, to);
    to.rows.chain = half(false, to);
    return fits_;
  }

 private:
  /// A step that reads an operand of the product element by element does so where its rows are: in
  /// the other half.
  bool follows(int i) const {
    bool any = false;
    if (is_reduction(c_.steps[i].code)) return false;
    for (value_ref v : c_.steps[i].args) {
      if (v == c_.steps[anchor_].args[0] || v == c_.steps[anchor_].args[1]) return false;
      if (v.kind != value_kind::step) continue;
      if (!product_[at(v.index)]) return false;
      any = true;
    }
    return any;
  }
  bool is_live(int i) const {
    if (!product_[at(i)]) return false;
    for (int j = 0; j < c_.steps.ssize(); ++j)
      for (value_ref v : c_.steps[j].args)
        if (v == step_ref(i) && !product_[at(j)]) return true;
    return false;
  }

  chain half(bool product, matmul_rows_cut& to) {
    chain h;
    h.constants = c_.constants;
    h.precision = c_.precision;
    if (product) {
      h.operands = c_.operands;
      h.contractions = c_.contractions;
    }
    std::array<int, max_steps> local{};
    for (int i = 0; i < c_.steps.ssize(); ++i) {
      if (product_[at(i)] != product) continue;
      step s = c_.steps[i];
      for (value_ref& v : s.args) v = argument(h, v, product, local, to);
      local[at(i)] = h.steps.ssize();
      h.steps.push_back(s);
    }
    for (int o = 0; o < c_.outputs.ssize(); ++o) {
      int const v = c_.outputs[o].value.index;
      if (product_[at(v)] != product) continue;
      (product ? to.product_outputs : to.row_outputs)[h.outputs.size()] = o;
      h.outputs.push_back(c_.outputs[o]);
      h.outputs.back().value = step_ref(local[at(v)]);
    }
    if (product) add_live(h, local, to);
    return h;
  }
  void add_live(chain& h, std::array<int, max_steps> const& local, matmul_rows_cut& to) {
    for (int i = 0; i < c_.steps.ssize(); ++i) {
      if (!is_live(i)) continue;
      live_[at(i)] = to.live++;
      if (h.outputs.full()) {
        fits_ = false;
        continue;
      }
      to.product_outputs[h.outputs.size()] = -1 - live_[at(i)];
      h.outputs.push_back({"live", step_ref(local[at(i)]), dtype::f32, true});
    }
  }
  value_ref argument(chain& h, value_ref v, bool product, std::array<int, max_steps> const& local,
                     matmul_rows_cut& to) {
    if (v.kind == value_kind::none || v.kind == value_kind::constant) return v;
    if (v.kind == value_kind::step && product_[at(v.index)] == product)
      return step_ref(local[at(v.index)]);
    if (product) return v;  // an operand
    int const from = v.kind == value_kind::operand ? int{v.index} : -1 - live_[at(v.index)];
    for (int i = 0; i < h.operands.ssize(); ++i)
      if (to.row_operands[at(i)] == from) return operand_ref(i);
    if (h.operands.full()) {
      fits_ = false;
      return operand_ref(0);
    }
    operand o;
    if (from >= 0)
      o = c_.operands[from];
    else
      o.name = "live";
    to.row_operands[h.operands.size()] = from;
    h.operands.push_back(o);
    return operand_ref(h.operands.ssize() - 1);
  }

  chain const& c_;
  int anchor_;
  std::array<bool, max_steps> product_{};
  std::array<int, max_steps> live_{};
  bool fits_ = true;
};

/// Element (row, column) of an operand or output within a block of `rows` rows.
inline tensor_desc block_desc(tensor_desc const& d, extent row_bytes, extent rows) {
  tensor_desc b;
  b.type = d.type;
  bool moves = false;
  for (int j = 0; j + 1 < d.dims.ssize(); ++j) moves = moves || d.dims[j] != 1;
  b.dims = {moves ? rows : 1, d.dims.empty() ? 1 : d.dims.back()};
  b.strides = {row_bytes / size_of(d.type), d.strides.empty() ? 1 : d.strides.back()};
  return b;
}

/// The problems of one block, in a call (or a build) whose geometry is g. Rows may be dynamic.
inline void set_block(matmul_rows_cut& cut, problem const& p, matmul_geometry const& g,
                      extent rows) {
  extent const n = p.domain.back();
  shape const domain{rows, n};
  cut.product.domain = cut.rows.domain = domain;
  auto const by_index = [&](bool output, int index) -> tensor_desc {
    for (int i = 0; i < cut.layout.accesses.ssize(); ++i)
      if (epilogue_access const& a = cut.layout.accesses[i]; a.output == output && a.index == index)
        return block_desc(desc_of(p, a), g.accesses[i].row, rows);
    return {};
  };
  tensor_desc const live{dtype::f32, domain, {cut.live_stride, 1}};
  for (int i = 0; i < p.chain.operands.ssize(); ++i)
    cut.product.operands[at(i)] = by_index(false, i);
  for (int i = 0; i < cut.product.chain.outputs.ssize(); ++i)
    cut.product.outputs[at(i)] =
        cut.product_outputs[at(i)] < 0 ? live : by_index(true, cut.product_outputs[at(i)]);
  for (int i = 0; i < cut.rows.chain.operands.ssize(); ++i)
    cut.rows.operands[at(i)] =
        cut.row_operands[at(i)] < 0 ? live : by_index(false, cut.row_operands[at(i)]);
  for (int i = 0; i < cut.rows.chain.outputs.ssize(); ++i)
    cut.rows.outputs[at(i)] = by_index(true, cut.row_outputs[at(i)]);

  tensor_desc& src = cut.product.operands[at(cut.layout.src)];
  tensor_desc const& whole = p.operands[at(cut.layout.src)];
  extent const row = g.a_row / size_of(whole.type);
  src = {whole.type, {rows, cut.layout.k}, {row, g.a_column}};
  if (cut.layout.transposed_src) src = {whole.type, {cut.layout.k, rows}, {g.a_column, row}};
  dtype const type = p.operands[at(cut.layout.weight)].type;
  tensor_desc& weight = cut.product.operands[at(cut.layout.weight)];
  shape const dims = cut.layout.transposed_weight ? shape{n, cut.layout.k} : shape{cut.layout.k, n};
  weight = dense_desc(type, dims);
  if (!cut.layout.packed_weight)
    weight.strides =
        cut.layout.transposed_weight ? strides{g.b_column, g.b_row} : strides{g.b_row, g.b_column};
}

/// Where nothing is known of rows: as the code needs it.
inline matmul_geometry unknown_rows(matmul_rows_cut const& cut, problem const& p) {
  matmul_geometry g;
  tensor_desc const& weight = p.operands[at(cut.layout.weight)];
  g.a_column = cut.layout.transposed_src ? 0 : 1;
  g.b_row = stride_from_end(weight, cut.layout.transposed_weight ? 1 : 2);
  g.b_column = stride_from_end(weight, cut.layout.transposed_weight ? 2 : 1);
  return g;
}

inline bool is_read_by_element(chain const& c, int operand) {
  for (step const& s : c.steps)
    for (value_ref v : s.args)
      if (s.contraction < 0 && v == operand_ref(operand)) return true;
  return false;
}

inline void set_layout(matmul_rows_cut& cut, problem const& p, isa level) {
  matmul_operands const o = operands_of(p.chain);
  matmul_plan& l = cut.layout;
  tensor_desc const& weight = p.operands[at(o.weight)];
  int const rank = weight.dims.ssize();
  l.shape.level = level;
  l.shape.kind = product_for(level, p.operands[at(o.src)].type, weight.type);
  l.src = o.src;
  l.weight = o.weight;
  l.transposed_src = o.attrs.transposed_src;
  l.transposed_weight = o.attrs.transposed_weight;
  l.packed_weight = p.chain.operands[o.weight].role == role::weight;
  l.n = p.domain.back();
  l.k = weight.dims[o.attrs.transposed_weight ? rank - 1 : rank - 2];
  auto const add = [&](bool output, int i, tensor_desc const& d) {
    l.accesses.push_back({output, i, d.type, columns_of(d, l.n), true});
  };
  for (int i = 0; i < p.chain.outputs.ssize(); ++i) add(true, i, p.outputs[at(i)]);
  for (int i = 0; i < p.chain.operands.ssize(); ++i)
    if (is_read_by_element(p.chain, i)) add(false, i, p.operands[at(i)]);
  // Rows a multiple of 1 KiB apart would meet in few sets of a cache.
  extent const dense = static_cast<extent>(round_up(static_cast<std::size_t>(l.n), 16));
  cut.live_stride = dense % 256 == 0 ? dense + 16 : dense;
  extent const tile = tile_rows(level);
  extent const row_bytes = (std::max)(extent{4}, cut.live * cut.live_stride * 4);
  cut.block_rows = std::clamp(live_block_bytes / row_bytes, tile, most_block_rows) / tile * tile;
}

/// The cut of a problem for a build: its halves are those that kernels are built for.
inline result<matmul_rows_cut> cut_matmul_rows(problem const& p, isa level) {
  matmul_rows_cut cut;
  if (!matmul_rows_cutter(p.chain, true).cut(cut)) {
    cut = {};
    if (!matmul_rows_cutter(p.chain, false).cut(cut))
      return failure{code::unsupported,
                     "sinter: jit: the product of a chain with reductions would store more than " +
                         std::to_string(max_outputs) + " values"};
  }
  cut.product.max_isa = cut.rows.max_isa = p.max_isa;
  set_layout(cut, p, level);
  for (int i = 0; i < cut.rows.chain.operands.ssize(); ++i)
    if (p.in_place >= 0 && cut.row_operands[at(i)] == p.in_place) cut.rows.in_place = i;
  if (is_dynamic(p)) {
    set_block(cut, p, unknown_rows(cut, p), dynamic);
  } else {
    matmul_geometry const g = geometry_of(cut.layout, p);
    set_block(cut, p, g, g.rows <= cut.block_rows ? g.rows : dynamic);
  }
  return cut;
}

inline verdict check_matmul_rows(problem const& p, matmul_rows_cut const& cut) {
  for (int i = 0; i < p.chain.outputs.ssize(); ++i) {
    shape const& dims = p.outputs[at(i)].dims;
    if (!(dims == p.domain) && !(dims == reduced_shape(p.domain)))
      return refuse("output " + in_quotes(p.chain.outputs[i].name) + " of " + to_string(dims) +
                    " has other rows than the product of " + to_string(p.domain));
  }
  // The product may not overwrite what the row kernel reads after it.
  bool const early = cut.product_outputs[0] == 0 && !cut.product.chain.outputs.empty();
  if (p.in_place >= 0 && cut.rows.in_place >= 0 && early)
    return refuse("operand " + in_quotes(p.chain.operands[p.in_place].name) +
                  " shares memory with an output that is stored before a reduction reads it");
  return verdict::yes();
}

}  // namespace detail
}  // namespace sinter::inline SINTER_ABI::jit
