// One block on its way into a network's graph: its chains, with operands turned into values and constants.
//
// Extents are inferred here, with every value dense, so that a block that does not fit is refused where it is said.
// Values inside a block are known by the names of the partition. Nothing is compiled. Read
// run/network_planner.hpp next.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "network_graph.hpp"

namespace sinter::inline SINTER_ABI::detail {

/// One block on its way into the graph: values inside it are known by the names of the partition.
class block_adder {
 public:
  block_adder(network_graph& graph, std::string_view label,
              array_view<bound_operand const> operands)
      : graph_(graph), label_(label), operands_(operands) {}

  status add(chain c) {
    block_group g;
    g.label = label_;
    operand_spec specs[max_operands];
    for (int i = 0; i < c.operands.ssize(); ++i)
      if (status st = take_operand(c, i, g, specs[at(i)]); !st.ok()) return st;
    auto made = make_problem(c, array_view(specs, c.operands.size()), {}, graph_.options.numerics);
    if (!made) return made.error();
    g.chain = std::move(c);
    int const index = static_cast<int>(graph_.groups.size());
    for (int i = 0; i < g.chain.outputs.ssize(); ++i) {
      output const& o = g.chain.outputs[i];
      graph_value v;
      v.from = value_from::group;
      v.dims = made->outputs[at(i)].dims;
      v.type = o.type;
      v.name = o.name == "out" ? label_ : join({label_, ".", o.name});
      v.group = index;
      v.output = i;
      g.values.push_back(graph_.add_value(std::move(v)));
      made_.push_back({o.name, g.values.back(), o.internal});
    }
    graph_.groups.push_back(std::move(g));
    graph_.events.push_back({true, index});
    return {};
  }
  /// The value of an output of the block.
  int output_value(std::string_view name) const {
    for (made_value const& m : made_)
      if (!m.internal && m.name == name) return m.value;
    return -1;
  }

 private:
  struct made_value {
    name_text name;
    int value;
    bool internal;
  };

  static bool contraction_reads(chain const& c, int operand) {
    for (step const& s : c.steps)
      if (s.contraction >= 0)
        for (value_ref a : s.args)
          if (a == operand_ref(operand)) return true;
    return false;
  }

  status take_operand(chain& c, int i, block_group& g, operand_spec& spec) {
    operand& o = c.operands[i];
    if (o.internal) {
      for (made_value const& m : made_)
        if (m.internal && m.name == o.name) return take_value(c, i, m.value, g, spec);
      return bad({"no earlier group makes the intermediate ", in_quotes(o.name)});
    }
    for (bound_operand const& b : operands_) {
      if (b.name != o.name) continue;
      if (b.value >= 0) return take_value(c, i, b.value, g, spec);
      spec = tensor_desc{o.type, b.constant->dims(), {}};
      g.operands.push_back({-1, graph_.add_constant(*b.constant)});
      return {};
    }
    return bad({"operand ", in_quotes(o.name), " is not bound"});
  }
  status take_value(chain& c, int i, int value, block_group& g, operand_spec& spec) {
    operand& o = c.operands[i];
    if (o.role != role::tensor)
      return bad({"operand ", in_quotes(o.name), " is a ", sinter::name_of(o.role),
                  " and is bound to a value; a parameter is wanted, or a tensor in the block"});
    if (contraction_reads(c, i)) {
      value = graph_.as_type(value, o.type);
    } else {
      o.type = graph_.value(value).type;
    }
    spec = tensor_desc{o.type, graph_.value(value).dims, {}};
    g.operands.push_back({value, -1});
    return {};
  }

  network_graph& graph_;
  std::string label_;
  array_view<bound_operand const> operands_;
  std::vector<made_value> made_;
};

}  // namespace sinter::inline SINTER_ABI::detail
