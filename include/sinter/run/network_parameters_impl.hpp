// Definitions of run/network.hpp and run/network_builder.hpp that make parameters: from the source, reshaped, folded.
//
// A parameter is a view or a recipe; no element is read here, so a network whose packed weights come from a file never
// touches the originals. What the source answers is remembered for that file. Included by
// run/network_builder_impl.hpp. Read run/network_weights.hpp for what becomes of a recipe.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "../base/decimal.hpp"
#include "network_graph.hpp"
#include "network_weights.hpp"

namespace sinter::inline SINTER_ABI {
namespace detail {

/// What stands for a value or a parameter after a failure: extents that a caller may look at.
inline shape nothing() { return {0, 0, 0, 0}; }

/// What the source answered when the file was made, without the data.
inline result<tensor_view> ask_file(packed_file const* file, std::string_view name) {
  if (file == nullptr) return bad({in_quotes(name), ": there is no weight source"});
  source_entry const* const known = file->source(name);
  if (known == nullptr || !known->found)
    return bad({in_quotes(name), " is not in the packed file"});
  return tensor_view{nullptr, known->type, known->dims, dense_strides(known->dims), false};
}

/// Asks the source, or the packed file where there is no source.
inline result<tensor_view> ask_source(network_graph& g, std::string_view name) {
  std::vector<source_entry>& asked = g.asked;
  auto view = g.source ? g.source(name) : ask_file(g.file.get(), name);
  bool known = false;
  for (source_entry const& s : asked) known = known || s.name == name;
  if (!known)
    asked.push_back({std::string(name), view.ok(), view.ok() ? view->type : dtype::f32,
                     view.ok() ? view->dims : shape{}});
  if (!view) return view.error();
  if (!is_floating(view->type))
    return bad(
        {in_quotes(name), " is ", sinter::name_of(view->type), "; a floating dtype is wanted"});
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
    p.refusal_ = detail::join({"sinter: ", detail::in_quotes(key_), " of ", to_string(view_.dims),
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
  p.refusal_ = detail::join({"sinter: ", detail::in_quotes(key_), " of ", to_string(view_.dims),
                             " cannot be transposed; two axes are wanted"});
  return p;
}
SINTER_API parameter parameter::reshaped(shape const& dims) const {
  if (element_count(dims) == element_count(view_.dims) &&
      detail::same_layout(view_.dims, view_.strides, dense_strides(view_.dims)))
    return remade(to_string(dims), {view_.data, view_.type, dims, dense_strides(dims), false});
  parameter p = *this;
  p.refusal_ = detail::join({"sinter: ", detail::in_quotes(key_), " of ", to_string(view_.dims),
                             " cannot be reshaped to ", to_string(dims),
                             "; as many elements, and dense ones, are wanted"});
  return p;
}

// ---- from the source

SINTER_API parameter network_builder::weight(std::string_view name) {
  auto view = detail::ask_source(*graph_, name);
  if (view) return parameter(std::string(name), *view);
  graph_->refuse(view.error());
  return parameter(std::string(name), {nullptr, dtype::f32, detail::nothing(), {}, false});
}
SINTER_API parameter network_builder::vector(std::string_view name) {
  parameter p = weight(name);
  if (graph_->state.ok() && p.dims().size() != 1)
    graph_->refuse(detail::bad(
        {detail::in_quotes(name), " is ", to_string(p.dims()), "; a vector is wanted"}));
  return p;
}
SINTER_API parameter network_builder::constant(std::string_view name, tensor_view const& view) {
  for (std::string const& known : graph_->own_constants)
    if (known == name)
      graph_->refuse(detail::bad({"two constants are named ", detail::in_quotes(name)}));
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
    auto view = ask_source(g, name);
    if (!view) return view.error();
    if (view->dims.size() != 1 || (!r.gamma.dims.empty() && view->dims != r.gamma.dims))
      return bad({in_quotes(name), " is ", to_string(view->dims),
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
  auto weight = detail::ask_source(*graph_, name);
  if (!weight) {
    graph_->refuse(weight.error());
    return none;
  }
  if (weight->rank() < 3 || weight->dims[0] != recipe->gamma.dims[0]) {
    graph_->refuse(detail::bad({detail::in_quotes(name), " is ", to_string(weight->dims),
                                " and the batch norm ", detail::in_quotes(bn_key), " has ",
                                recipe->gamma.dims[0],
                                " channels; [out, in, spatial...] with as many out is wanted"}));
    return none;
  }
  recipe->weight = *weight;
  std::string const bias_name = detail::join({conv_key, ".bias"});
  if (auto bias = detail::ask_source(*graph_, bias_name); bias) {
    if (bias->dims != recipe->gamma.dims) {
      graph_->refuse(detail::bad({detail::in_quotes(bias_name), " is ", to_string(bias->dims),
                                  "; one value for each channel of ", detail::in_quotes(bn_key),
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

}  // namespace sinter::inline SINTER_ABI
