// Definitions of run/network_builder.hpp: inputs, blocks, views; build() is in run/network_impl.hpp.
//
// What is said is checked and recorded; nothing is compiled before build(). After the first failure every function
// gives values with extents of 0 and does nothing else. Included by run/network_impl.hpp, and so in one translation
// unit where SINTER_EXTERN_BACKENDS says so. Read run/network_planner.hpp next.
#pragma once

#include <optional>
#include <utility>

#include "../base/join.hpp"
#include "network_block.hpp"
#include "network_builder.hpp"
#include "network_parameters_impl.hpp"
#include "network_planner.hpp"
#include "network_types.hpp"

namespace sinter::inline SINTER_ABI {
namespace detail {

inline std::string cpu_text(options const& o) {
  auto const usable = current_isa(o.max_isa);
  return std::string(usable ? sinter::name_of(best_isa(*usable)) : "no known instructions");
}

}  // namespace detail

// ---- network_builder

SINTER_API network_builder::network_builder(precision const& dtypes, weight_source source,
                                            options const& chosen)
    : graph_(std::make_unique<detail::network_graph>()) {
  graph_->dtypes = dtypes;
  graph_->source = std::move(source);
  graph_->options = chosen;
}
SINTER_API network_builder::network_builder(autocast_table const& table, weight_source source,
                                            options const& chosen)
    : network_builder(precision{table.low, table.low, dtype::f32, dtype::f32, table.low, table.low},
                      std::move(source), chosen) {
  graph_->by_table = true;
  graph_->table = table;
}
SINTER_API network_builder::network_builder(network_builder&&) noexcept = default;
SINTER_API network_builder& network_builder::operator=(network_builder&&) noexcept = default;
SINTER_API network_builder::~network_builder() = default;

SINTER_API status network_builder::state() const { return graph_->state; }
SINTER_API precision const& network_builder::precision_of_groups() const noexcept {
  return graph_->dtypes;
}

SINTER_API net_value network_builder::input(std::string_view name, shape const& dims,
                                            std::optional<dtype> type) {
  tensor_desc desc{type.value_or(graph_->by_table ? dtype::f32 : graph_->dtypes.src), dims, {}};
  if (status st = detail::complete_layout("input", name, desc); !st.ok())
    graph_->refuse(st.error());
  if (dims.empty())
    graph_->refuse(detail::bad({"input ", detail::in_quotes(name), " has no axes; one is wanted"}));
  if (name.empty() || name.size() > 39)
    graph_->refuse(detail::bad("an input's name has 1 to 39 characters"));
  for (detail::graph_value const& v : graph_->values)
    if (v.from == detail::value_from::input && v.name == name)
      graph_->refuse(detail::bad({"two inputs are named ", detail::in_quotes(name)}));
  if (!graph_->state.ok()) return {-1, detail::nothing()};
  detail::graph_value v;
  v.from = detail::value_from::input;
  v.dims = dims;
  v.type = desc.type;
  v.name = std::string(name);
  return {graph_->add_value(std::move(v)), dims};
}

// ---- blocks

SINTER_API void network_builder::add_groups(std::string_view label,
                                            result<std::vector<chain>> groups,
                                            array_view<detail::joined_operand const> operands,
                                            array_view<std::string_view const> output_names,
                                            array_view<net_value> values) {
  for (net_value& v : values) v = {-1, detail::nothing()};
  if (!graph_->state.ok()) return;
  auto const refuse = [&](failure const& why) {
    graph_->refuse({why.what, detail::join({"sinter: block ", detail::in_quotes(label), ": ",
                                            detail::without_prefix(why.message)})});
  };
  if (!groups) return refuse(groups.error());
  std::vector<detail::bound_operand> bound;
  for (detail::joined_operand const& o : operands) {
    bound.push_back({o.name, o.value != nullptr ? o.value->index_ : -1, o.constant});
    if (o.value != nullptr && (o.value->index_ < 0 || o.value->index_ >= graph_->value_count()))
      return refuse(detail::bad(
          {"operand ", detail::in_quotes(o.name), " is bound to a value that no builder made"}));
    if (o.constant != nullptr && !o.constant->refusal_.empty())
      return refuse({code::bad_argument, o.constant->refusal_});
  }
  detail::block_adder adder(*graph_, label, bound);
  detail::block_types types(*graph_, bound);
  for (chain& c : *groups) {
    if (graph_->by_table) types.settle(c);
    if (status st = adder.add(c); !st.ok()) return refuse(st.error());
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    int const v = adder.output_value(output_names[i]);
    values[i] = {v, graph_->value(v).dims};
  }
}

// ---- views

SINTER_API net_value network_builder::concat(array_view<net_value const> parts) {
  if (!graph_->state.ok()) return {-1, detail::nothing()};
  if (parts.empty()) {
    graph_->refuse(detail::bad("a concat without parts"));
    return {-1, detail::nothing()};
  }
  detail::graph_value v;
  v.from = detail::value_from::concat;
  v.name = detail::join({"concat of ", parts.size()});
  for (net_value const& part : parts) {
    if (part.index_ < 0) return {-1, detail::nothing()};
    shape dims = part.dims_;
    if (v.parts.empty()) v.dims = dims;
    extent const channels = dims.back();
    dims.back() = v.dims.back();
    if (channels == dynamic || !(dims == v.dims)) {
      graph_->refuse(
          detail::bad({"concat of ", to_string(parts[0].dims_), " and ", to_string(part.dims_),
                       "; extents may differ in the channels only, which are fixed"}));
      return {-1, detail::nothing()};
    }
    if (!v.parts.empty()) v.dims.back() += channels;
    v.parts.push_back(part.index_);
  }
  v.type = graph_->value(v.parts[0]).type;
  for (int part : v.parts)
    if (size_of(graph_->value(part).type) > size_of(v.type)) v.type = graph_->value(part).type;
  for (int& part : v.parts) part = graph_->as_type(part, v.type);
  shape const dims = v.dims;
  return {graph_->add_view(std::move(v)), dims};
}

SINTER_API net_value network_builder::channels(net_value const& of, extent first, extent count) {
  if (!graph_->state.ok() || of.index_ < 0) return {-1, detail::nothing()};
  if (first < 0 || count < 1 || of.dims_.back() == dynamic || first > of.dims_.back() - count) {
    graph_->refuse(detail::bad({"channels ", first, " to ", first + count - 1, " of ",
                                to_string(of.dims_), "; it has no such channels"}));
    return {-1, detail::nothing()};
  }
  detail::graph_value v = graph_->value(of.index_);
  v.from = detail::value_from::channels;
  v.name = detail::join({"channels of ", v.name});
  v.parts = {of.index_};
  v.first = first;
  v.dims.back() = count;
  shape const dims = v.dims;
  return {graph_->add_view(std::move(v)), dims};
}

SINTER_API net_value network_builder::channel_shuffle(net_value const& of, int groups) {
  if (!graph_->state.ok() || of.index_ < 0) return {-1, detail::nothing()};
  if (groups < 1 || of.dims_.back() == dynamic || of.dims_.back() % groups != 0) {
    graph_->refuse(detail::bad({"channel_shuffle of ", to_string(of.dims_), " in ", groups,
                                " groups; channels that the groups divide are wanted"}));
    return {-1, detail::nothing()};
  }
  if (groups == 1 || groups == of.dims_.back()) return of;
  detail::graph_value v = graph_->value(of.index_);
  v.from = detail::value_from::shuffle;
  v.name = detail::join({"shuffle of ", v.name});
  v.parts = {of.index_};
  v.shuffled = groups;
  shape const dims = v.dims;
  return {graph_->add_view(std::move(v)), dims};
}

SINTER_API net_value network_builder::flatten(net_value const& of) {
  if (!graph_->state.ok() || of.index_ < 0) return {-1, detail::nothing()};
  shape dims = of.dims_;
  extent rest = 1;
  for (int i = 1; i < dims.ssize(); ++i)
    rest = dims[i] == dynamic ? -1 : checked_mul(rest, dims[i]);
  if (rest < 0 || dims.ssize() < 2) {
    graph_->refuse(detail::bad({"flatten of ", to_string(of.dims_),
                                "; a batch axis and fixed extents after it are wanted"}));
    return {-1, detail::nothing()};
  }
  detail::graph_value v = graph_->value(of.index_);
  v.from = detail::value_from::flatten;
  v.name = detail::join({"flat ", v.name});
  v.parts = {of.index_};
  v.dims = shape{dims[0], rest};
  dims = v.dims;
  return {graph_->add_view(std::move(v)), dims};
}

// ---- build

SINTER_API status network_builder::packed_from(std::string const& path) {
  auto file = detail::packed_file::open(path, detail::cpu_text(graph_->options));
  if (!file) {
    graph_->refuse(file.error());
    return file.error();
  }
  graph_->file = std::move(*file);
  return {};
}

SINTER_API result<network> network_builder::build(net_value const& output, std::string_view name) {
  named_value const one{name, output, {}};
  return build(array_view(&one, 1));
}

}  // namespace sinter::inline SINTER_ABI
