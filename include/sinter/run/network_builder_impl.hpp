// Definitions of run/network_builder.hpp. Included by backends.hpp and by nothing else.
#pragma once

#include <optional>
#include <utility>

#include "../base/decimal.hpp"
#include "network_builder.hpp"
#include "network_planner.hpp"
#include "network_types.hpp"

namespace sinter::inline SINTER_ABI {
namespace detail {

inline network finish_network(std::shared_ptr<network_plan> plan, network_graph const& graph);

/// What stands for a value or a parameter after a failure: extents that a caller may look at.
inline shape nothing() { return {0, 0, 0, 0}; }

inline std::string cpu_text(options const& o) {
  auto const usable = current_isa(o.max_isa);
  return std::string(usable ? sinter::name_of(best_isa(*usable)) : "no known instructions");
}

/// Asks the source, or the packed file where there is no source. A view without data is one of the file.
inline result<tensor_view> ask_source(network_graph& g, std::vector<source_entry>& asked,
                                      std::string_view name) {
  if (!g.source) {
    source_entry const* const known = g.file ? g.file->source(name) : nullptr;
    if (known != nullptr && known->found)
      return tensor_view{nullptr, known->type, known->dims, dense_strides(known->dims), false};
    return bad({quoted(name), g.file ? " is not in the packed file" : ": there is no weight source"});
  }
  auto view = g.source(name);
  bool known = false;
  for (source_entry const& s : asked) known = known || s.name == name;
  if (!known)
    asked.push_back({std::string(name), view.ok(), view.ok() ? view->type : dtype::f32,
                     view.ok() ? view->dims : shape{}});
  if (!view) return view.error();
  if (!is_floating(view->type))
    return bad({quoted(name), " is ", sinter::name_of(view->type), "; a floating dtype is wanted"});
  if (view->flat || view->strides.size() != view->dims.size())
    view->strides = dense_strides(view->dims);
  view->flat = false;
  return view;
}

}  // namespace detail

// ---- parameter

SINTER_API parameter parameter::remade(std::string_view how, tensor_view const& view) const {
  parameter p = *this;
  p.key_ += detail::join({"|", how});
  p.view_ = view;
  return p;
}
SINTER_API parameter parameter::oihw() const {
  int const rank = view_.rank();
  if (rank < 3) {
    parameter p = *this;
    p.refusal_ = detail::join({"sinter: ", detail::quoted(key_), " of ", to_string(view_.dims),
                               " is no weight of a convolution; [out, in, spatial...] is wanted"});
    return p;
  }
  inline_vector<int, max_rank> order{0};
  for (int i = 2; i < rank; ++i) order.push_back(i);
  order.push_back(1);
  return remade("oihw", permuted(view_, order));
}
SINTER_API parameter parameter::transposed() const {
  if (view_.rank() >= 2) return remade("transposed", sinter::transposed(view_));
  parameter p = *this;
  p.refusal_ = detail::join({"sinter: ", detail::quoted(key_), " of ", to_string(view_.dims),
                             " cannot be transposed; two axes are wanted"});
  return p;
}
SINTER_API parameter parameter::reshaped(shape const& dims) const {
  if (element_count(dims) == element_count(view_.dims) &&
      detail::same_layout(view_.dims, view_.strides, dense_strides(view_.dims)))
    return remade(to_string(dims),
                  {view_.data, view_.type, dims, dense_strides(dims), false});
  parameter p = *this;
  p.refusal_ = detail::join({"sinter: ", detail::quoted(key_), " of ", to_string(view_.dims),
                             " cannot be reshaped to ", to_string(dims),
                             "; as many elements, and dense ones, are wanted"});
  return p;
}

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
  if (status st = detail::complete_layout("input", name, desc); !st.ok()) graph_->refuse(st.error());
  if (dims.empty())
    graph_->refuse(detail::bad({"input ", detail::quoted(name), " has no axes; one is wanted"}));
  if (name.empty() || name.size() > 39)
    graph_->refuse(detail::bad("an input's name has 1 to 39 characters"));
  for (detail::graph_value const& v : graph_->values)
    if (v.from == detail::value_from::input && v.name == name)
      graph_->refuse(detail::bad({"two inputs are named ", detail::quoted(name)}));
  if (!graph_->state.ok()) return {-1, detail::nothing()};
  detail::graph_value v;
  v.from = detail::value_from::input;
  v.dims = dims;
  v.type = desc.type;
  v.name = std::string(name);
  return {graph_->add_value(std::move(v)), dims};
}

SINTER_API parameter network_builder::weight(std::string_view name) {
  auto view = detail::ask_source(*graph_, graph_->asked, name);
  if (view) return parameter(std::string(name), *view);
  graph_->refuse(view.error());
  return parameter(std::string(name), {nullptr, dtype::f32, detail::nothing(), {}, false});
}
SINTER_API parameter network_builder::vector(std::string_view name) {
  parameter p = weight(name);
  if (graph_->state.ok() && p.dims().size() != 1)
    graph_->refuse(detail::bad({detail::quoted(name), " is ", to_string(p.dims()),
                                "; a vector is wanted"}));
  return p;
}
SINTER_API parameter network_builder::constant(std::string_view name, tensor_view const& view) {
  for (std::string const& known : graph_->own_constants)
    if (known == name)
      graph_->refuse(detail::bad({"two constants are named ", detail::quoted(name)}));
  graph_->own_constants.emplace_back(name);
  tensor_view v = view;
  if (v.flat || v.strides.size() != v.dims.size()) v.strides = dense_strides(v.dims);
  v.flat = false;
  return parameter(detail::join({"constant ", name}), v);
}

namespace detail {

/// The vectors of a batch norm; each as long as the others.
inline result<fold_recipe> batch_norm_recipe(network_graph& g, std::string_view bn_key, float eps) {
  fold_recipe r;
  r.eps = double{eps};
  struct {
    std::string_view suffix;
    tensor_view* view;
  } const parts[] = {{".weight", &r.gamma},
                     {".bias", &r.beta},
                     {".running_mean", &r.mean},
                     {".running_var", &r.variance}};
  for (auto const& part : parts) {
    std::string const name = join({bn_key, part.suffix});
    auto view = ask_source(g, g.asked, name);
    if (!view) return view.error();
    if (view->dims.size() != 1 || (!r.gamma.dims.empty() && view->dims != r.gamma.dims))
      return bad({quoted(name), " is ", to_string(view->dims),
                  "; a vector as long as the batch norm's others is wanted"});
    *part.view = *view;
  }
  return r;
}

inline parameter folded_vector(std::string const& name, std::shared_ptr<fold_recipe const> recipe,
                               fold_part part) {
  shape const dims = recipe->gamma.dims;
  return {name, {nullptr, dtype::f32, dims, dense_strides(dims), false}, std::move(recipe), part};
}

inline parameter missing_parameter() {
  return parameter("", {nullptr, dtype::f32, nothing(), {}, false});
}

}  // namespace detail

SINTER_API folded network_builder::fold_batch_norm(std::string_view conv_key,
                                                   std::string_view bn_key, float eps) {
  folded const none{detail::missing_parameter(), detail::missing_parameter()};
  if (!graph_->state.ok()) return none;
  auto recipe = detail::batch_norm_recipe(*graph_, bn_key, eps);
  if (!recipe) {
    graph_->refuse(recipe.error());
    return none;
  }
  std::string const name = detail::join({conv_key, ".weight"});
  auto weight = detail::ask_source(*graph_, graph_->asked, name);
  if (!weight) {
    graph_->refuse(weight.error());
    return none;
  }
  if (weight->rank() < 3 || weight->dims[0] != recipe->gamma.dims[0]) {
    graph_->refuse(detail::bad({detail::quoted(name), " is ", to_string(weight->dims),
                                " and the batch norm ", detail::quoted(bn_key), " has ",
                                recipe->gamma.dims[0],
                                " channels; [out, in, spatial...] with as many out is wanted"}));
    return none;
  }
  recipe->weight = *weight;
  std::string const bias_name = detail::join({conv_key, ".bias"});
  if (auto bias = detail::ask_source(*graph_, graph_->asked, bias_name); bias) {
    if (bias->dims != recipe->gamma.dims) {
      graph_->refuse(detail::bad({detail::quoted(bias_name), " is ", to_string(bias->dims),
                                  "; one value for each channel of ", detail::quoted(bn_key),
                                  " is wanted"}));
      return none;
    }
    recipe->bias = *bias;
  }
  auto const shared = std::make_shared<detail::fold_recipe const>(std::move(*recipe));
  std::string const key = detail::join({conv_key, "+", bn_key, " eps ", to_text(eps)});
  tensor_view const unseen{nullptr, dtype::f32, weight->dims, dense_strides(weight->dims), false};
  return {parameter(key + ".weight", unseen, shared, detail::fold_part::weight).oihw(),
          detail::folded_vector(key + ".bias", shared, detail::fold_part::shift)};
}

SINTER_API affine network_builder::batch_norm(std::string_view bn_key, float eps) {
  affine const none{detail::missing_parameter(), detail::missing_parameter()};
  if (!graph_->state.ok()) return none;
  auto recipe = detail::batch_norm_recipe(*graph_, bn_key, eps);
  if (!recipe) {
    graph_->refuse(recipe.error());
    return none;
  }
  auto const shared = std::make_shared<detail::fold_recipe const>(std::move(*recipe));
  std::string const key = detail::join({bn_key, " eps ", to_text(eps)});
  return {detail::folded_vector(key + ".scale", shared, detail::fold_part::scale),
          detail::folded_vector(key + ".shift", shared, detail::fold_part::shift)};
}

// ---- blocks

namespace detail {

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
    auto made = make_problem(c, array_view(specs, c.operands.size()), {},
                             graph_.options.numerics);
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
      return bad({"no earlier group makes the intermediate ", quoted(o.name)});
    }
    for (bound_operand const& b : operands_) {
      if (b.name != o.name) continue;
      if (b.value >= 0) return take_value(c, i, b.value, g, spec);
      spec = tensor_desc{o.type, b.constant->dims(), {}};
      g.operands.push_back({-1, graph_.add_constant(*b.constant)});
      return {};
    }
    return bad({"operand ", quoted(o.name), " is not bound"});
  }
  status take_value(chain& c, int i, int value, block_group& g, operand_spec& spec) {
    operand& o = c.operands[i];
    if (o.role != role::tensor)
      return bad({"operand ", quoted(o.name), " is a ", sinter::name_of(o.role),
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

}  // namespace detail

SINTER_API void network_builder::add_groups(std::string_view label,
                                            result<std::vector<chain>> groups,
                                            array_view<detail::joined_operand const> operands,
                                            array_view<std::string_view const> output_names,
                                            array_view<net_value> values) {
  for (net_value& v : values) v = {-1, detail::nothing()};
  if (!graph_->state.ok()) return;
  auto const refuse = [&](failure const& why) {
    graph_->refuse({why.what, detail::join({"sinter: block ", detail::quoted(label), ": ",
                                            detail::without_prefix(why.message)})});
  };
  if (!groups) return refuse(groups.error());
  std::vector<detail::bound_operand> bound;
  for (detail::joined_operand const& o : operands) {
    bound.push_back({o.name, o.value != nullptr ? o.value->index_ : -1, o.constant});
    if (o.value != nullptr && (o.value->index_ < 0 || o.value->index_ >= graph_->value_count()))
      return refuse(detail::bad({"operand ", detail::quoted(o.name),
                                 " is bound to a value that no builder made"}));
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
      graph_->refuse(detail::bad({"concat of ", to_string(parts[0].dims_), " and ",
                                  to_string(part.dims_),
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
  for (int i = 1; i < dims.ssize(); ++i) rest = dims[i] == dynamic ? -1 : checked_mul(rest, dims[i]);
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
  named_value const one{name, output};
  return build(array_view(&one, 1));
}

SINTER_API result<network> network_builder::build(array_view<named_value const> outputs) {
  if (!graph_->state.ok()) return graph_->state.error();
  if (outputs.empty()) return detail::bad("a network without outputs");
  std::vector<detail::named_index> ends;
  for (named_value const& o : outputs) {
    if (o.value.index_ < 0 || o.value.index_ >= graph_->value_count())
      return detail::bad({"output ", detail::quoted(o.name), " is a value that no builder made"});
    if (detail::find_named(ends, o.name) >= 0)
      return detail::bad({"two outputs are named ", detail::quoted(o.name)});
    for (detail::graph_value const& v : graph_->values)
      if (v.from == detail::value_from::input && v.name == o.name)
        return detail::bad({detail::quoted(o.name), " names an input and an output"});
    ends.push_back({o.name, o.value.index_});
  }
  auto plan = detail::network_planner(*graph_, std::move(ends), backends()).run();
  if (!plan) return plan.error();
  return detail::finish_network(std::move(*plan), *graph_);
}

}  // namespace sinter::inline SINTER_ABI
