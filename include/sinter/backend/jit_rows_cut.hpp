// A chain with a contraction and reductions behind it, cut in two: chains of both halves, and what
// lives across the cut.
//
// The cut is behind the steps that need no whole row. The product with those steps writes the
// values that live across the cut, f32, to a block that a cache keeps; the other half reads them
// there. Nothing is rounded at the cut. Values only: which blocks there are and what their problems
// look like is the business of backend/jit_matmul_rows_cut.hpp and backend/jit_conv_rows.hpp, who
// runs them backend/jit_reduced.hpp's.
#pragma once

#include <algorithm>
#include <array>
#include <string>

#include "../base/join.hpp"
#include "../plan/problem.hpp"
#include "jit_matmul.hpp"

namespace sinter::inline SINTER_ABI::jit {

/// A chain cut in two, with problems of one block.
struct rows_cut {
  problem product, rows;
  /// Where the halves' operands and outputs come from in the whole chain; -1 - i: live value i. The
  /// product's operands are the whole chain's.
  std::array<int, max_outputs> product_outputs{};
  std::array<int, max_operands> row_operands{};
  std::array<int, max_outputs> row_outputs{};
  int live = 0;
  extent live_stride = 0;  ///< elements from row to row of a live value
  extent block_rows = 0;   ///< at most

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

/// Cuts the steps of a chain. `deep`: all steps that follow from the product and need no whole row
/// stand with it; otherwise it stands alone.
class rows_cutter {
 public:
  rows_cutter(chain const& c, bool deep) : c_(c), anchor_(c.anchor()) {
    product_[at(anchor_)] = true;
    for (int i = anchor_ + 1; deep && i < c_.steps.ssize(); ++i) product_[at(i)] = follows(i);
  }

  /// False where the product would have more outputs than a chain can have.
  bool cut(rows_cut& to) {
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

  chain half(bool product, rows_cut& to) {
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
  void add_live(chain& h, std::array<int, max_steps> const& local, rows_cut& to) {
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
                     rows_cut& to) {
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

/// Cuts the chain of a problem; the halves' problems have no shapes yet.
inline status cut_at_reductions(problem const& p, rows_cut& cut) {
  if (!rows_cutter(p.chain, true).cut(cut)) {
    cut = {};
    if (!rows_cutter(p.chain, false).cut(cut))
      return failure{code::unsupported,
                     "sinter: jit: the product of a chain with reductions would store more than " +
                         std::to_string(max_outputs) + " values"};
  }
  cut.product.max_isa = cut.rows.max_isa = p.max_isa;
  for (int i = 0; i < cut.rows.chain.operands.ssize(); ++i)
    if (p.in_place >= 0 && cut.row_operands[at(i)] == p.in_place) cut.rows.in_place = i;
  // Rows a multiple of 1 KiB apart would meet in few sets of a cache.
  extent const dense = static_cast<extent>(round_up(static_cast<std::size_t>(p.domain.back()), 16));
  cut.live_stride = dense % 256 == 0 ? dense + 16 : dense;
  return {};
}

inline bool is_read_by_element(chain const& c, int operand) {
  for (step const& s : c.steps)
    for (value_ref v : s.args)
      if (s.contraction < 0 && v == operand_ref(operand)) return true;
  return false;
}

/// The halves' problems of one block. desc(output, index) is the block of an operand or output of the
/// whole chain.
template <class Desc>
void set_halves(rows_cut& cut, shape const& domain, strides const& of_live, Desc&& desc) {
  tensor_desc const live{dtype::f32, domain, of_live};
  cut.product.domain = cut.rows.domain = domain;
  for (int i = 0; i < cut.product.chain.operands.ssize(); ++i)
    cut.product.operands[at(i)] = desc(false, i);
  for (int i = 0; i < cut.product.chain.outputs.ssize(); ++i) {
    int const from = cut.product_outputs[at(i)];
    cut.product.outputs[at(i)] = from < 0 ? live : desc(true, from);
  }
  for (int i = 0; i < cut.rows.chain.operands.ssize(); ++i) {
    int const from = cut.row_operands[at(i)];
    cut.rows.operands[at(i)] = from < 0 ? live : desc(false, from);
  }
  for (int i = 0; i < cut.rows.chain.outputs.ssize(); ++i)
    cut.rows.outputs[at(i)] = desc(true, cut.row_outputs[at(i)]);
}

inline verdict check_reduced(problem const& p, rows_cut const& cut) {
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
