// The constants of a network, ready for its kernels: weights packed, vectors dense in the chain's dtype; batch norms
// folded only when nothing better is at hand.
//
// Each constant is prepared once for each layout, however many kernels read it; or it comes from a packed file, where
// the builder was given one. Knows problems and kernels one at a time, nothing of the network around them.
#pragma once

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "network.hpp"
#include "network_file.hpp"
#include "program_plan.hpp"

namespace sinter::inline SINTER_ABI::detail {

/// Calls visit(index of the element in dense order, its position in elements) for each element.
template <class Visit>
void for_each_element(shape const& dims, strides const& s, Visit&& visit) {
  extent const count = element_count(dims);
  inline_vector<extent, max_rank> index;
  index.resize(dims.size(), 0);
  extent position = 0;
  for (extent i = 0; i < count; ++i) {
    visit(i, position);
    for (int axis = dims.ssize() - 1; axis >= 0; --axis) {
      position += s[axis];
      if (++index[axis] < dims[axis]) break;
      position -= s[axis] * dims[axis];
      index[axis] = 0;
    }
  }
}

inline void store_rounded(void* to, dtype type, extent i, float v) {
  if (type == dtype::bf16)
    static_cast<bfloat16*>(to)[i] = to_bfloat16(v);
  else if (type == dtype::f16)
    static_cast<float16*>(to)[i] = to_float16(v);
  else
    static_cast<float*>(to)[i] = v;
}

/// A dense copy in a floating dtype.
inline result<std::shared_ptr<buffer const>> dense_copy(tensor_view const& v, dtype type) {
  auto made =
      std::make_shared<buffer>(static_cast<std::size_t>(element_count(v.dims) * size_of(type)));
  if (made->failed()) return failure{code::out_of_memory, "sinter: no memory for a constant"};
  void* const to = made->data();
  for_each_element(v.dims, v.strides, [&](extent i, extent position) {
    store_rounded(to, type, i, load_as_float(v.data, v.type, position));
  });
  return std::shared_ptr<buffer const>(std::move(made));
}

/// A batch norm, and the convolution before it where there is one. Views of the source.
struct fold_recipe {
  tensor_view weight, bias;  ///< of the convolution, OIHW; data null where there is none
  tensor_view gamma, beta, mean, variance;
  double eps = 1e-5;

  double scale(extent c) const {
    return double{at_index(gamma, c)} / std::sqrt(double{at_index(variance, c)} + eps);
  }
  double shift(extent c) const {
    double const before = bias.dims.empty() ? 0.0 : double{at_index(bias, c)};
    return (before - double{at_index(mean, c)}) * scale(c) + double{at_index(beta, c)};
  }
  static float at_index(tensor_view const& v, extent i) {
    return load_as_float(v.data, v.type, i * v.strides[0]);
  }
};

/// The channel that each element of a folded constant belongs to is its first index in the source's order.
inline result<std::shared_ptr<buffer const>> compute_fold(fold_recipe const& r, fold_part part) {
  extent const channels = r.gamma.dims[0];
  extent const count = part == fold_part::weight ? element_count(r.weight.dims) : channels;
  auto made = std::make_shared<buffer>(static_cast<std::size_t>(count) * sizeof(float));
  if (made->failed()) return failure{code::out_of_memory, "sinter: no memory for a constant"};
  auto* const to = reinterpret_cast<float*>(made->data());
  if (part == fold_part::weight) {
    std::vector<double> scales;
    for (extent c = 0; c < channels; ++c) scales.push_back(r.scale(c));
    extent const each = count / channels;
    for_each_element(r.weight.dims, r.weight.strides, [&](extent i, extent position) {
      double const w = load_as_float(r.weight.data, r.weight.type, position);
      to[i] = static_cast<float>(w * scales[at(static_cast<int>(i / each))]);
    });
  } else {
    for (extent c = 0; c < channels; ++c)
      to[c] = static_cast<float>(part == fold_part::scale ? r.scale(c) : r.shift(c));
  }
  return std::shared_ptr<buffer const>(std::move(made));
}

class network_weights {
 public:
  /// What kernel operand `index` of a group reads, packed or dense.
  result<packed_entry> constant(parameter const& p, group_plan const& group, int index,
                                packed_file const* file) {
    operand const& o = group.problem.chain.operands[index];
    bool const packs = o.role == role::weight;
    std::string const layout =
        packs ? group.chosen.kernel->layout_key(index) : join({"dense ", sinter::name_of(o.type)});
    for (packed_entry const& e : entries_)
      if (e.key == p.key() && e.layout == layout) return e;
    packed_entry e{p.key(), layout, nullptr, 0, {}};
    if (file != nullptr) {
      if (status st = file->find(e); !st.ok()) return st.error();
    } else if (status st = make(p, group, index, e); !st.ok()) {
      return st.error();
    }
    entries_.push_back(e);
    return e;
  }
  std::vector<packed_entry> const& entries() const { return entries_; }

  std::vector<source_entry> sources;  ///< what the weight source was asked

 private:
  static status make(parameter const& p, group_plan const& group, int index, packed_entry& e) {
    operand const& o = group.problem.chain.operands[index];
    tensor_view view = p.view();
    std::shared_ptr<buffer const> held;
    if (p.recipe()) {
      auto computed = compute_fold(*p.recipe(), p.part());
      if (!computed) return computed.error();
      held = std::move(*computed);
      view.data = held->data();
    }
    if (view.data == nullptr && element_count(view.dims) > 0)
      return bad({"the source gives no data for ", in_quotes(p.key())});
    if (o.role != role::weight) return make_dense(view, o.type, e);
    if (view.type != dtype::f32 && view.type != o.type) {
      auto widened = dense_copy(view, dtype::f32);
      if (!widened) return widened.error();
      held = std::move(*widened);
      view = {held->data(), dtype::f32, view.dims, dense_strides(view.dims), false};
    }
    auto packed = group.chosen.kernel->pack(index, view);
    if (!packed) return packed.error();
    e.data = packed->data();
    e.bytes = packed->storage ? packed->storage->size() : 0;
    e.kept = packed->storage;
    return {};
  }
  static status make_dense(tensor_view const& view, dtype type, packed_entry& e) {
    auto dense = dense_copy(view, type);
    if (!dense) return dense.error();
    e.data = (*dense)->data();
    e.bytes = (*dense)->size();
    e.kept = std::move(*dense);
    return {};
  }

  std::vector<packed_entry> entries_;
};

}  // namespace sinter::inline SINTER_ABI::detail
