// A network: many blocks compiled into one program with one arena; its values, its parameters, and what is called.
//
//   sinter::network_builder net(sinter::bf16, weights);
//   auto const image = net.input("image", {1, 224, 224, 3});
//   auto const h = net.add("conv1", conv_relu, x = image, w = stem.weight, b = stem.bias);
//   sinter::network const model = net.build(h).value();
//   model(pixels, logits);
//
// A network is immutable, cheap to copy and shareable by threads, as every program is. It owns its weights, packed.
// run/network_builder.hpp makes one; docs/networks.md is the guide. Declarations only: the definitions are in
// run/network_impl.hpp.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "../base/array_view.hpp"
#include "program_core.hpp"

namespace sinter::inline SINTER_ABI {

class network_builder;
namespace detail {
struct network_plan;
struct fold_recipe;
enum class fold_part : unsigned char { weight, shift, scale };
}  // namespace detail

/// A value of a network that is being built: what a block gives and the next one reads. Cheap to copy; it belongs to
/// its builder.
class net_value {
 public:
  using is_network_operand = void;
  net_value() = default;
  /// Images N,H,W,C. Batch, height and width may be `dynamic`.
  shape const& dims() const noexcept { return dims_; }

 private:
  friend class network_builder;
  net_value(int index, shape const& dims) : index_(index), dims_(dims) {}
  int index_ = -1;
  shape dims_;
};

/// A named constant of a network: weight, vector, scalar or tensor. A view with any strides, or a recipe.
class parameter {
 public:
  using is_network_operand = void;
  parameter() = default;
  parameter(std::string key, tensor_view const& view) : key_(std::move(key)), view_(view) {}
  /// Computed when it is packed: from a recipe, in the order of the view's elements in memory.
  parameter(std::string key, tensor_view const& view,
            std::shared_ptr<detail::fold_recipe const> recipe, detail::fold_part part)
      : key_(std::move(key)), view_(view), recipe_(std::move(recipe)), part_(part) {}

  shape const& dims() const noexcept { return view_.dims; }
  /// Its data is null where it is computed.
  tensor_view const& view() const noexcept { return view_; }
  std::shared_ptr<detail::fold_recipe const> const& recipe() const noexcept { return recipe_; }
  detail::fold_part part() const noexcept { return part_; }
  /// The name in the source, and what was made of it: "fc.weight", "fc.weight|transposed".
  std::string const& key() const noexcept { return key_; }

  /// [O, I, spatial...] as PyTorch stores it, seen as the [O, spatial..., I] that a convolution wants.
  parameter oihw() const;
  /// The last two axes exchanged: a linear layer's [out, in] where matmul wants [in, out].
  parameter transposed() const;
  /// Other extents over the same elements, which are to be dense: a linear layer over a flattened N,C,H,W map is
  /// the convolution `w.reshaped({out, c, h, w}).oihw()`.
  parameter reshaped(shape const& dims) const;

 private:
  friend class network_builder;
  parameter remade(std::string_view how, tensor_view const& view) const;

  std::string key_;
  tensor_view view_;
  std::shared_ptr<detail::fold_recipe const> recipe_;
  detail::fold_part part_ = detail::fold_part::weight;
  std::string refusal_;  ///< why it could not be made: add() passes it on
};

/// A convolution and the batch norm after it as one: y = conv(x, weight) + bias. The weight is seen as OHWI.
struct folded {
  parameter weight, bias;
};
/// A batch norm alone: y = x * scale + shift.
struct affine {
  parameter scale, shift;
};

/// Where weights come from: anything that is called with a name and gives a result<tensor_view>. The memory behind the
/// views has to live until build() returns. A copy shares what it was made of.
class weight_source {
 public:
  weight_source() = default;
  template <class F>
  requires(!std::is_same_v<std::remove_cvref_t<F>, weight_source>)
      weight_source(F&& source)  // NOLINT: implicit on purpose
      : held_(std::make_shared<std::decay_t<F>>(std::forward<F>(source))),
        call_([](void* held, std::string_view name) -> result<tensor_view> {
          return (*static_cast<std::decay_t<F>*>(held))(name);
        }) {}

  explicit operator bool() const noexcept { return call_ != nullptr; }
  result<tensor_view> operator()(std::string_view name) const { return call_(held_.get(), name); }

 private:
  std::shared_ptr<void> held_;
  result<tensor_view> (*call_)(void*, std::string_view) = nullptr;
};

/// Bytes of a network's memory for one call, without weights, inputs and outputs. Dynamic extents count as nothing.
struct network_memory {
  std::size_t arena = 0;  ///< what a call takes: values between groups and the scratch of kernels
  std::size_t intermediates = 0;  ///< the sum of all values, each with memory of its own
  std::size_t least = 0;          ///< what no plan can go below: the most that is alive at one time
};

/// A compiled network. Immutable, cheap to copy, may be called by several threads at once.
class network {
 public:
  explicit network(std::shared_ptr<detail::network_plan const> plan);

  /// One call of a network with one input and one output: `net(image, logits)`. Views as in a program's call.
  /// Allocates at the first call of a thread only, and where dynamic extents outgrow the arena.
  template <viewable In, viewable Out>
  void operator()(In&& in, Out&& to) const {
    try_call(std::forward<In>(in), std::forward<Out>(to)).check();
  }
  template <viewable In, viewable Out>
  status try_call(In&& in, Out&& to) const {
    return call_one(as_view(std::forward<In>(in)), as_view(std::forward<Out>(to)));
  }
  /// Any number of inputs and outputs, by name, in any order.
  status try_call(array_view<named_view const> in, array_view<named_output const> to) const;

  /// The same, validated once: called without arguments, by one thread at a time; repoint() knows the names.
  template <viewable In, viewable Out>
  bound bind(In&& in, Out&& to) const {
    return std::move(
        bind_one(as_view(std::forward<In>(in)), as_view(std::forward<Out>(to))).value());
  }
  result<bound> try_bind(array_view<named_view const> in, array_view<named_output const> to) const;

  /// Allocates now what this thread's first call would.
  void warm_up() const;

  /// Groups that run, copies among them.
  int group_count() const noexcept;
  int kernel_count() const noexcept;
  /// Copies that no producer could save; explain() names each with its reason.
  int copy_count() const noexcept;
  network_memory memory() const noexcept;
  std::size_t arena_bytes() const noexcept { return memory().arena; }
  std::size_t intermediate_bytes() const noexcept { return memory().intermediates; }
  std::size_t least_arena_bytes() const noexcept { return memory().least; }
  /// For people: each group with its block, backend and implementation; the copies; the memory.
  std::string explain() const;
  /// Description of an input or output.
  result<tensor_desc> describe(std::string_view name) const;
  /// Writes the packed weights to a file that network_builder::packed_from() maps again: docs/networks.md.
  status save(std::string const& path) const;

  detail::network_plan const& plan() const noexcept { return *plan_; }
  program_core const& core() const noexcept;

 private:
  status call_one(tensor_view const& in, output_view const& to) const;
  result<bound> bind_one(tensor_view const& in, output_view const& to) const;

  std::shared_ptr<detail::network_plan const> plan_;
};

}  // namespace sinter::inline SINTER_ABI
