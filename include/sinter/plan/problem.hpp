// The problem: one chain with the run-time extents, strides and numerics it is compiled for; the cache key.
//
// make_problem() checks everything that can be known before data is there (ranks, extents,
// broadcasting, strides, sizes) and infers the shape of each value; a problem that exists is valid,
// so backends check nothing twice. In it every operand and output has extents; strides too, unless
// an extent is dynamic; strides of axes of extent 1 are made meaningful, so equal problems compare
// equal. A weight is described dense in its chain's dtype: what is bound at the call is packed.
// Pointers are checked at bind (plan/view_check.hpp), dynamic extents filled in by
// plan/resolve.hpp. The steps of inference: plan/infer.hpp.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "../base/array_view.hpp"
#include "../base/status.hpp"
#include "../core/tensor_view.hpp"
#include "../isa/isa.hpp"
#include "chain.hpp"
#include "infer.hpp"
#include "layout.hpp"

namespace sinter::inline SINTER_ABI {

struct problem {
  sinter::chain chain;
  std::array<tensor_desc, max_operands> operands;  ///< one per chain operand, in its order
  std::array<tensor_desc, max_outputs> outputs;    ///< one per chain output
  /// Extents of the values after the (last) anchor or pooling; without one, of all operands broadcast together. A reduced
  /// value has a last extent of 1, and one that does not depend on the anchor may have others too: value_dims() says which.
  shape domain;
  sinter::numerics numerics = sinter::numerics::strict;
  /// Index of an operand that the user declared to share memory with output 0 (element by element);
  /// -1: none.
  int in_place = -1;
  /// The user's cap on instructions: backends ask current_isa(max_isa). Nothing: SINTER_MAX_ISA
  /// alone counts.
  std::optional<isa> max_isa;
  /// Threads that a library underneath may take from OpenMP by itself.
  int openmp_threads = 1;
  friend bool operator==(problem const&, problem const&) = default;
};

/// What the caller says of one operand. Nothing: a vector is then [channels], a scalar rank 0, a tensor of pointwise steps
/// has the extents of the values it meets, all dense and in the chain's dtype; an operand of a contraction must be
/// described, here or by its static_dims. Empty strides: dense.
using operand_spec = std::optional<tensor_desc>;

/// The valid problem, or a sentence. `operands` in the chain's order, missing ones at the end count
/// as not described. `output_strides` likewise: empty strides are dense. `in_place` as in problem.
result<problem> make_problem(chain const& c, array_view<operand_spec const> operands,
                             array_view<strides const> output_strides = {},
                             numerics n = numerics::strict, int in_place = -1);

/// Does any extent change from call to call?
inline bool is_dynamic(problem const& p) {
  for (int i = 0; i < p.chain.operands.ssize(); ++i)
    if (is_dynamic(p.operands[static_cast<std::size_t>(i)].dims)) return true;
  return false;
}

namespace detail {

constexpr std::size_t at(int i) { return static_cast<std::size_t>(i); }

/// Computes the extents of values step by step. Regions: the steps that feed one argument of one contraction, those that
/// feed a pooling (and what else is made of them alone), and the rest. An operand without a description takes its extents
/// from the values of its own region.
class problem_builder {
 public:
  /// `resolves`: the problem of a call, of another whose strides may follow from extents.
  explicit problem_builder(problem& p, bool resolves = false)
      : p_(p), c_(p.chain), resolves_(resolves) {}

  status run(array_view<operand_spec const> operands, array_view<strides const> output_strides) {
    for (int i = 0; i < c_.operands.ssize(); ++i) {
      operand_spec const none;
      if (status st = take_operand(i, at(i) < operands.size() ? operands[at(i)] : none); !st.ok())
        return st;
    }
    mark_regions();
    int pair = 0, window = 0;
    for (int i = 0; i < c_.steps.ssize(); ++i) {
      if (c_.steps[i].contraction >= 0) {
        for (int side = 0; side < 2; ++side)
          if (status st = close_region(2 * pair + side); !st.ok()) return st;
        if (status st = close_contraction(i); !st.ok()) return st;
        ++pair;
      } else if (c_.steps[i].pooling >= 0) {
        if (status st = close_region(first_window + window++); !st.ok()) return st;
        if (status st = close_pooling(i); !st.ok()) return st;
      }
    }
    if (status st = close_region(rest); !st.ok()) return st;
    p_.domain = region_dims_;
    return close_outputs(output_strides);
  }

 private:
  // Numbers of regions: two for each contraction, one for each pooling, the rest.
  static constexpr int first_window = 2 * max_contractions, rest = first_window + max_poolings;

  // The description of one operand, its static extents merged in.
  status take_operand(int i, operand_spec const& given) {
    operand const& o = c_.operands[i];
    tensor_desc& d = p_.operands[at(i)];
    known_[at(i)] = given.has_value() || !o.static_dims.empty();
    if (!known_[at(i)]) return {};
    if (!given) {
      d = {o.type, o.static_dims, {}};
    } else {
      bool const packs_from_f32 =
          o.role == role::weight && is_floating(o.type) && given->type == dtype::f32;
      if (given->type != o.type && !packs_from_f32)
        return bad({"operand ", in_quotes(o.name), " is described as ", name_of(given->type), "; ",
                    name_of(o.type), " is wanted"});
      if (!o.static_dims.empty() && !agrees(given->dims, o.static_dims))
        return bad({"operand ", in_quotes(o.name), " of ", to_string(given->dims),
                    " was declared with the extents ", to_string(o.static_dims)});
      d = *given;
    }
    if (status st = complete_layout("operand", o.name, d); !st.ok()) return st;
    if (o.role == role::scalar) {
      if (!is_dynamic(d.dims) && element_count(d.dims) != 1)
        return bad({"scalar operand ", in_quotes(o.name), " of ", to_string(d.dims),
                    "; a single element is wanted"});
      d.dims.clear();
      d.strides.clear();
    }
    if (o.role == role::weight) d = dense_desc(o.type, d.dims);
    return {};
  }

  static bool agrees(shape const& given, shape const& declared) {
    if (given.size() != declared.size()) return false;
    for (int i = 0; i < given.ssize(); ++i)
      if (declared[i] != dynamic && declared[i] != given[i]) return false;
    return true;
  }

  void mark(value_ref v, int region) {
    if (v.kind != value_kind::step || region_[at(v.index)] >= 0) return;
    region_[at(v.index)] = region;
    if (is_anchor(v.index)) return;
    for (value_ref a : c_.steps[int{v.index}].args) mark(a, region);
  }
  bool is_anchor(int i) const { return c_.steps[i].contraction >= 0 || c_.steps[i].pooling >= 0; }
  void mark_regions() {
    region_.fill(-1);
    int pair = 0, window = 0;
    for (step const& s : c_.steps) {
      if (s.contraction >= 0) {
        for (int side = 0; side < 2; ++side) mark(s.args[side], 2 * pair + side);
        ++pair;
      } else if (s.pooling >= 0) {
        mark(s.args[0], first_window + window++);
      }
    }
    mark_beside_windows();
    for (int& r : region_)
      if (r < 0) r = rest;
  }
  // What is made of values that a pooling reads, and of none behind it, has their extents.
  void mark_beside_windows() {
    std::array<bool, max_steps> behind{};
    for (int i = 0; i < c_.steps.ssize(); ++i) {
      if (c_.steps[i].contraction >= 0) continue;
      int region = -1;
      behind[at(i)] = c_.steps[i].pooling >= 0;
      for (value_ref v : c_.steps[i].args) {
        if (v.kind != value_kind::step) continue;
        behind[at(i)] = behind[at(i)] || behind[at(v.index)];
        if (region_[at(v.index)] >= first_window) region = region_[at(v.index)];
      }
      if (region >= 0 && !behind[at(i)]) mark(step_ref(i), region);
    }
  }

  shape const* dims_of(value_ref v) const {
    static constexpr shape rank_0{};
    switch (v.kind) {
      case value_kind::operand:
        return known_[at(v.index)] ? &p_.operands[at(v.index)].dims : nullptr;
      case value_kind::step:
        return done_[at(v.index)] ? &dims_[at(v.index)] : nullptr;
      default:
        return &rank_0;
    }
  }

  status close_contraction(int i) {
    step const& s = c_.steps[i];
    for (int side = 0; side < 2; ++side)
      if (dims_of(s.args[side]) == nullptr)
        return bad({"the extents of operand ", describe(c_, s.args[side]), " of ", name_of(s.code),
                    " are not given"});
    result<shape> dims = contraction_dims(c_, s, *dims_of(s.args[0]), *dims_of(s.args[1]));
    if (!dims.ok()) return dims.error();
    if (!sinter::is_dynamic(*dims) && checked_mul(element_count(*dims), 8) < 0)
      return bad({"the result of ", name_of(s.code), " of ", to_string(*dims),
                  " has more than 2^63 - 1 bytes"});
    dims_[at(i)] = *dims;
    done_[at(i)] = true;
    return {};
  }

  status close_pooling(int i) {
    step const& s = c_.steps[i];
    if (dims_of(s.args[0]) == nullptr)
      return bad({"the extents of operand ", describe(c_, s.args[0]), " of ", name_of(s.code),
                  " are not given"});
    result<shape> dims = pooling_dims(c_, s, *dims_of(s.args[0]));
    if (!dims.ok()) return dims.error();
    dims_[at(i)] = *dims;
    done_[at(i)] = true;
    return {};
  }

  // Extents that everything in the region fits; those of its contraction or pooling if it has one.
  status find_region_dims(int region) {
    region_dims_.clear();
    value_ref widest;
    bool anchored = false;
    for (int i = 0; i < c_.steps.ssize(); ++i) {
      if (region_[at(i)] != region || !is_anchor(i)) continue;
      if (anchored && !(dims_[at(i)] == region_dims_)) return does_not_fit(step_ref(i), widest);
      region_dims_ = dims_[at(i)];
      widest = step_ref(i);
      anchored = true;
    }
    has_tensor_ = anchored;
    for (int i = 0; i < c_.steps.ssize(); ++i) {
      if (region_[at(i)] != region || is_anchor(i)) continue;
      for (value_ref v : c_.steps[i].args) {
        shape const* dims = dims_of(v);
        if (dims == nullptr || v.kind == value_kind::constant || v.kind == value_kind::none)
          continue;
        broadcast_result const joined = broadcast(region_dims_, *dims);
        if (!joined.fits) return does_not_fit(v, widest);
        if (anchored && !(joined.dims == region_dims_))
          return bad({describe(c_, v), " of ", to_string(*dims), " would widen ",
                      describe(c_, widest), " of ", to_string(region_dims_),
                      "; it must broadcast to that"});
        if (!(joined.dims == region_dims_) || widest.kind == value_kind::none) widest = v;
        region_dims_ = joined.dims;
        if (v.kind == value_kind::step || is_full(v)) has_tensor_ = true;
      }
    }
    return {};
  }
  bool is_full(value_ref v) const {
    role const r = c_.operands[int{v.index}].role;
    return r == role::tensor || r == role::weight;
  }
  failure does_not_fit(value_ref v, value_ref other) const {
    return bad(
        {describe(c_, v), " of ", to_string(*dims_of(v)), " does not broadcast with ",
         (other.kind == value_kind::none ? std::string("the other operands") : describe(c_, other)),
         ", ", to_string(region_dims_),
         " so far; extents must be equal or 1, aligned at the last axis",
         (sinter::is_dynamic(*dims_of(v)) || sinter::is_dynamic(region_dims_)
              ? " (a dynamic extent meets a dynamic one)"
              : "")});
  }

  // Gives an operand of a pointwise step the extents that follow from its role, or checks those
  // that it has.
  status close_operand(int i) {
    operand const& o = c_.operands[i];
    tensor_desc& d = p_.operands[at(i)];
    if (o.role == role::vector && region_dims_.empty())
      return bad({"vector operand ", in_quotes(o.name),
                  " meets values of rank 0; they have no last axis"});
    if (!known_[at(i)]) {
      if (o.role != role::scalar && !has_tensor_)
        return bad({"the extents of operand ", in_quotes(o.name),
                    " are not given and follow from no other"});
      shape dims = region_dims_;
      if (o.role == role::scalar) dims.clear();
      if (o.role == role::vector) dims = shape{region_dims_.back()};
      d = dense_desc(o.type, dims);
      known_[at(i)] = true;
    }
    if (o.role == role::vector && !(d.dims == shape{region_dims_.back()}))
      return bad({"vector operand ", in_quotes(o.name), " of ", to_string(d.dims),
                  "; one value for each of the ", extent_text(region_dims_.back()),
                  " indices of the last axis of ", to_string(region_dims_), " is wanted"});
    return {};
  }

  status close_region(int region) {
    if (status st = find_region_dims(region); !st.ok()) return st;
    for (int i = 0; i < c_.steps.ssize(); ++i) {
      if (region_[at(i)] != region || is_anchor(i)) continue;
      shape dims;
      for (value_ref v : c_.steps[i].args) {
        if (v.kind == value_kind::operand)
          if (status st = close_operand(v.index); !st.ok()) return st;
        if (dims_of(v) != nullptr) dims = broadcast(dims, *dims_of(v)).dims;
      }
      if (is_reduction(c_.steps[i].code)) {
        if (status st = check_row(c_, i, dims); !st.ok()) return st;
        dims = reduced_shape(dims);
      }
      dims_[at(i)] = dims;
      done_[at(i)] = true;
    }
    return {};
  }

  status close_outputs(array_view<strides const> given) {
    for (int i = 0; i < c_.outputs.ssize(); ++i) {
      output const& o = c_.outputs[i];
      tensor_desc& d = p_.outputs[at(i)];
      d = {o.type, dims_[at(o.value.index)], at(i) < given.size() ? given[at(i)] : strides{}};
      if (resolves_) d.strides = strides_of_call(d.dims, d.strides);
      if (status st = complete_layout("output", o.name, d); !st.ok()) return st;
      if (!sinter::is_dynamic(d.dims) && !elements_distinct(d.dims, d.strides))
        return bad({"output ", in_quotes(o.name), " of ", to_string(d.dims), " has the strides ",
                    list_of(d.strides), ", with which elements share memory or interleave"});
    }
    return p_.in_place >= 0 ? check_in_place() : status{};
  }

  status check_in_place() const {
    if (p_.in_place >= c_.operands.ssize())
      return bad("in_place names an operand that the chain does not have");
    operand const& o = c_.operands[p_.in_place];
    tensor_desc const& in = p_.operands[at(p_.in_place)];
    tensor_desc const& out = p_.outputs[0];
    std::string const who =
        join({"operand ", in_quotes(o.name), " cannot share memory with output ",
              in_quotes(c_.outputs[0].name), ": "});
    if (o.role != role::tensor) return bad({who, "its role is ", name_of(o.role)});
    for (int i = 0; i < c_.steps.ssize(); ++i)
      for (value_ref v : c_.steps[i].args)
        if (v == operand_ref(p_.in_place) && (is_anchor(i) || region_[at(i)] != rest))
          return bad({who, "a contraction or a pooling reads each of its elements more than once"});
    if (in.type != out.type || !(in.dims == out.dims) ||
        (!sinter::is_dynamic(in.dims) && !same_layout(in.dims, in.strides, out.strides)))
      return bad({who, "dtype, extents and strides must be the same, and are ", name_of(in.type),
                  " ", to_string(in.dims), " ", list_of(in.strides), " and ", name_of(out.type),
                  " ", to_string(out.dims), " ", list_of(out.strides)});
    return {};
  }

  problem& p_;
  chain const& c_;
  bool resolves_;
  std::array<bool, max_operands> known_{};
  std::array<int, max_steps> region_{};
  std::array<shape, max_steps> dims_{};
  std::array<bool, max_steps> done_{};
  shape region_dims_;
  bool has_tensor_ = false;
};

}  // namespace detail

inline result<problem> make_problem(chain const& c, array_view<operand_spec const> operands,
                                    array_view<strides const> output_strides, numerics n,
                                    int in_place) {
  if (status st = detail::check_chain(c); !st.ok()) return st.error();
  problem p;
  p.chain = c;
  p.numerics = n;
  p.in_place = in_place;
  if (status st = detail::problem_builder(p).run(operands, output_strides); !st.ok())
    return st.error();
  return p;
}

/// Extents of an operand, a step or a constant (rank 0) of a valid problem.
inline shape value_dims(problem const& p, value_ref v) {
  if (v.kind == value_kind::operand) return p.operands[detail::at(v.index)].dims;
  if (v.kind != value_kind::step) return {};
  std::array<shape, max_steps> dims;
  auto const of = [&](value_ref a) -> shape {
    if (a.kind == value_kind::operand) return p.operands[detail::at(a.index)].dims;
    return a.kind == value_kind::step ? dims[detail::at(a.index)] : shape{};
  };
  for (int i = 0; i <= v.index; ++i) {
    step const& s = p.chain.steps[i];
    shape& d = dims[detail::at(i)];
    if (s.contraction >= 0) {
      d = shape_of(s.code, p.chain.attrs(s), of(s.args[0]), of(s.args[1])).dims;
    } else if (s.pooling >= 0) {
      d = shape_of(s.code, p.chain.window(s), of(s.args[0])).dims;
    } else {
      for (value_ref a : s.args) d = broadcast(d, of(a)).dims;
      if (is_reduction(s.code)) d = reduced_shape(d);
    }
  }
  return dims[detail::at(v.index)];
}

}  // namespace sinter::inline SINTER_ABI
