// The dtypes of a block under autocast: each group of it typed by the table, value by value.
//
// A contraction reads in its own dtype; a value is stored as its step runs: low, f32, or the widest of what it reads.
// What a group hands to a pointwise step of another one inside the block is f32, unless it is a let, as ever.
#pragma once

#include <vector>

#include "network_graph.hpp"

namespace sinter::inline SINTER_ABI::detail {

class block_types {
 public:
  block_types(network_graph const& graph, array_view<bound_operand const> operands)
      : graph_(graph), operands_(operands) {}

  /// Types the next group of the block.
  void settle(chain& c) {
    dtype const low = graph_.table.low;
    dtype types[max_steps] = {};
    dtype contraction = dtype::f32;
    bool contracts = false;
    for (int i = 0; i < c.steps.ssize(); ++i) {
      step const& s = c.steps[i];
      dtype widest = low;
      for (value_ref a : s.args)
        if (dtype const t = type_of(c, a, types); size_of(t) > size_of(widest)) widest = t;
      runs_in const how = graph_.table[s.code];
      types[i] = s.code == op::cast                     ? s.to
                 : how == runs_in::full                 ? dtype::f32
                 : how == runs_in::low || low == widest ? low
                                                        : widest;
      if (s.contraction < 0) continue;
      contraction = types[i];
      contracts = true;
    }
    dtype const last = types[c.steps.ssize() - 1];
    c.precision.src = contracts ? contraction : last;
    c.precision.weight = c.precision.src;
    c.precision.dst = c.precision.residual = last;
    for (step const& s : c.steps)
      if (s.contraction >= 0)
        for (value_ref a : s.args)
          if (a.kind == value_kind::operand) c.operands[int{a.index}].type = contraction;
    for (output& o : c.outputs) {
      if (!o.internal && c.steps[int{o.value.index}].code != op::argmax)
        o.type = types[int{o.value.index}];
      if (o.internal) stored_.push_back({o.name, types[int{o.value.index}]});
    }
  }

 private:
  struct stored {
    name_text name;
    dtype type;
  };

  /// What a step reads, as far as it widens; vectors, scalars and constants do not.
  dtype type_of(chain const& c, value_ref v, dtype const* types) const {
    if (v.kind == value_kind::step) return types[v.index];
    if (v.kind != value_kind::operand) return graph_.table.low;
    operand const& o = c.operands[int{v.index}];
    if (o.role != role::tensor) return graph_.table.low;
    for (stored const& s : stored_)
      if (o.internal && s.name == o.name) return s.type;
    for (bound_operand const& b : operands_)
      if (!o.internal && b.name == o.name && b.value >= 0) return graph_.value(b.value).type;
    return dtype::f32;
  }

  network_graph const& graph_;
  array_view<bound_operand const> operands_;
  std::vector<stored> stored_;
};

}  // namespace sinter::inline SINTER_ABI::detail
