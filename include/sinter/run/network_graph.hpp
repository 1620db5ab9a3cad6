// What a network_builder records: values, blocks as chains, constants, and the order in which they were said.
//
// A value is made by a group, or it is a view or a rearrangement of others. Extents and dtypes are known from the
// start; where a value lies is decided by run/network_layout.hpp, what is compiled by run/network_planner.hpp. Knows
// no kernel and no memory.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "network_builder.hpp"
#include "network_file.hpp"

namespace sinter::inline SINTER_ABI::detail {

enum class value_from : unsigned char { input, group, concat, channels, shuffle, flatten };

struct graph_value {
  value_from from = value_from::input;
  shape dims;
  dtype type = dtype::f32;
  std::string name;  ///< for people: "block.h", "concat of 3"
  int group = -1, output = -1;
  std::vector<int> parts;  ///< of a concat; else the one value that it is made of
  extent first = 0;        ///< channels
  int shuffled = 1;        ///< groups of a shuffle

  extent channels() const { return dims.back(); }
};

/// What a group reads: a value or a constant.
struct block_operand {
  int value = -1, constant = -1;
};
struct block_group {
  std::string label;
  sinter::chain chain;
  std::vector<block_operand> operands;
  std::vector<int> values;  ///< one per output of the chain
};
/// What a block's operand is bound to: a value, or a constant.
struct bound_operand {
  std::string_view name;
  int value = -1;
  parameter const* constant = nullptr;
};

/// A group, or a value that may need a copy where it was said.
struct graph_event {
  bool is_group = false;
  int index = -1;
};

struct network_graph {
  precision dtypes;
  bool by_table = false;  ///< dtypes are those of the table's low, and each group is typed by it
  autocast_table table;
  weight_source source;
  sinter::options options;
  status state;  ///< the first failure
  std::vector<graph_value> values;
  std::vector<block_group> groups;
  std::vector<graph_event> events;
  std::vector<parameter> constants;
  std::vector<std::string> own_constants;  ///< names that the caller gave
  std::vector<source_entry> asked;         ///< of the source
  std::shared_ptr<packed_file const> file;

  graph_value const& value(int i) const { return values[at(i)]; }
  int value_count() const { return static_cast<int>(values.size()); }
  void refuse(failure why) {
    if (state.ok()) state = std::move(why);
  }
  int add_value(graph_value v) {
    values.push_back(std::move(v));
    return static_cast<int>(values.size()) - 1;
  }
  /// A value that is made of others, at this point of the network.
  int add_view(graph_value v) {
    int const index = add_value(std::move(v));
    events.push_back({false, index});
    return index;
  }
  int add_constant(parameter const& p) {
    for (std::size_t i = 0; i < constants.size(); ++i)
      if (constants[i].key() == p.key()) return static_cast<int>(i);
    constants.push_back(p);
    return static_cast<int>(constants.size()) - 1;
  }

  int as_type(int v, dtype type);
  int cast_to(int v, dtype type);
};

/// A chain of one step: its operand in another dtype.
inline chain cast_chain(dtype from, dtype to) {
  chain c;
  step s;
  s.code = op::cast;
  s.to = to;
  s.args[0] = operand_ref(0);
  c.steps.push_back(s);
  c.operands.push_back({"x", role::tensor, from, false, shape{}});
  c.outputs.push_back({"out", step_ref(0), to, false});
  c.precision.dst = to;
  return c;
}

/// A group of its own that converts a value.
inline int network_graph::cast_to(int v, dtype type) {
  graph_value made = value(v);
  made.from = value_from::group;
  made.type = type;
  made.name = join({made.name, " as ", sinter::name_of(type)});
  made.group = static_cast<int>(groups.size());
  made.output = 0;
  made.parts.clear();
  block_group g{join({"convert ", made.name}), cast_chain(value(v).type, type), {{v, -1}}, {}};
  int const index = add_value(std::move(made));
  g.values.push_back(index);
  groups.push_back(std::move(g));
  events.push_back({true, static_cast<int>(groups.size()) - 1});
  return index;
}

/// The same value in another dtype: one more output of the group that makes it, where there is room; else a pass.
inline int network_graph::as_type(int v, dtype type) {
  if (value(v).type == type) return v;
  graph_value const was = value(v);
  if (was.from == value_from::group) {
    block_group& g = groups[at(was.group)];
    value_ref const step = g.chain.outputs[was.output].value;
    for (int i = 0; i < g.chain.outputs.ssize(); ++i)
      if (g.chain.outputs[i].value == step && g.chain.outputs[i].type == type)
        return g.values[at(i)];
    if (g.chain.outputs.full()) return cast_to(v, type);
    output more = g.chain.outputs[was.output];
    more.type = type;
    more.name.append(".");
    more.name.append(sinter::name_of(type));
    g.chain.outputs.push_back(more);
    graph_value made = was;
    made.type = type;
    made.output = g.chain.outputs.ssize() - 1;
    int const index = add_value(std::move(made));
    groups[at(was.group)].values.push_back(index);
    return index;
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    graph_value const& other = values[i];
    if (other.type != type) continue;
    if (was.from == value_from::input && other.from == value_from::group &&
        groups[at(other.group)].operands[0].value == v && other.name.starts_with(was.name) &&
        groups[at(other.group)].chain.steps[0].code == op::cast)
      return static_cast<int>(i);
  }
  if (was.from == value_from::input) return cast_to(v, type);
  graph_value made = was;
  made.type = type;
  for (int& part : made.parts) part = as_type(part, type);
  for (std::size_t i = 0; i < values.size(); ++i)
    if (values[i].from == made.from && values[i].parts == made.parts &&
        values[i].first == made.first && values[i].dims == made.dims &&
        values[i].shuffled == made.shuffled)
      return static_cast<int>(i);
  return add_view(std::move(made));
}

}  // namespace sinter::inline SINTER_ABI::detail
