// How a network is written: inputs, parameters by name, blocks, views that cost nothing, and build().
//
// A block is an ordinary constexpr expression, partitioned at compile time as by compile(); what add() records is plain
// chains. Nothing is compiled before build(), which places values (run/network_layout.hpp), asks dispatch for a kernel
// for each problem once, packs the weights and plans one arena (run/network_planner.hpp). The first thing that does not
// fit is remembered, everything after it does nothing, and build() gives its sentence.
#pragma once

#include <array>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "autocast.hpp"
#include "network.hpp"
#include "program.hpp"

namespace sinter::inline SINTER_ABI {

namespace detail {
struct network_graph;

/// One binding of add(), its name no longer in a type. Exactly one of the two is there.
struct joined_operand {
  std::string_view name;
  net_value const* value = nullptr;
  parameter const* constant = nullptr;
};
template <class Name>
joined_operand join_operand(network_binding<Name, net_value> const& given) {
  return {Name::view, &given.operand, nullptr};
}
template <class Name>
joined_operand join_operand(network_binding<Name, parameter> const& given) {
  return {Name::view, nullptr, &given.operand};
}

/// The name of each output of an expression, in its order.
template <chain_expression E>
inline constexpr auto output_names = [] {
  constexpr auto source = flatten(E{});
  std::array<std::string_view, source.outputs.size()> names{};
  for (int i = 0; i < source.outputs.ssize(); ++i)
    names[static_cast<std::size_t>(i)] = source.outputs[i].name;
  return names;
}();
}  // namespace detail

/// An output of a network. Without a dtype it has that of the value; in another one it is rounded from what was computed.
struct named_value {
  std::string_view name;
  net_value value;
  std::optional<dtype> type = {};
};

class network_builder {
 public:
  /// The whole network in one precision, or by a table that says per op what runs in bf16 (run/autocast.hpp).
  network_builder(precision const& dtypes, weight_source source, options const& chosen = {});
  network_builder(autocast_table const& table, weight_source source, options const& chosen = {});
  network_builder(network_builder&&) noexcept;
  network_builder& operator=(network_builder&&) noexcept;
  ~network_builder();

  /// An input of the network: dense, NHWC for images. Batch, height and width may be `dynamic`. Without a dtype it has
  /// that of a contraction's source; another is converted when a contraction first reads it.
  net_value input(std::string_view name, shape const& dims, std::optional<dtype> type = {});

  /// A constant as the source has it.
  parameter weight(std::string_view name);
  /// The same, of rank 1.
  parameter vector(std::string_view name);
  /// A constant of the caller's, whose memory has to live until build() returns. The name is its own in the network.
  parameter constant(std::string_view name, tensor_view const& view);

  /// y = bn(conv(x)) as y = conv(x, weight) + bias, from `conv_key`.weight (and .bias, where there is one) and from
  /// `bn_key`.weight, .bias, .running_mean and .running_var: computed in double, rounded to f32 once.
  folded fold_batch_norm(std::string_view conv_key, std::string_view bn_key, float eps = 1e-5F);
  /// A batch norm that no convolution comes before: y = x * scale + shift.
  affine batch_norm(std::string_view bn_key, float eps = 1e-5F);

  /// A block: each of its operands bound once, a tensor to a value (or to a parameter), everything else to a parameter.
  /// Gives the block's output; a block with several gives an array of them, in the order of outputs(). The label is
  /// what explain() and sentences call it.
  template <chain_expression E, class... Names, class... Operands>
  auto add(std::string_view label, E const& block,
           network_binding<Names, Operands> const&... bindings) {
    constexpr bool structure_holds = (require_no_fault(structure_fault<E>), true);
    static_assert(structure_holds && detail::checker<signature_of<E>>::template joined<Names...>());
    detail::joined_operand const operands[] = {detail::join_operand(bindings)...};
    auto constexpr& names = detail::output_names<E>;
    std::array<net_value, names.size()> values;
    add_groups(label, detail::groups_of(block, precision_of_groups()), operands, names, values);
    if constexpr (names.size() == 1)
      return values[0];
    else
      return values;
  }

  /// Values side by side along the channels (the last axis). Whoever makes a part writes it where it belongs, so this
  /// costs nothing; a part that cannot be (an input, a part of two concats, ...) is copied, and explain() says so.
  net_value concat(array_view<net_value const> parts);
  net_value concat(std::initializer_list<net_value> parts) {
    return concat(array_view<net_value const>(parts.begin(), parts.size()));
  }
  /// `count` channels from `first` on: a view.
  net_value channels(net_value const& of, extent first, extent count);
  /// Channel i*k + j goes to j*groups + i, of groups * k channels: ShuffleNet's shuffle.
  net_value channel_shuffle(net_value const& of, int groups);
  /// [N, ...] as [N, everything else]: a view where the value is dense.
  net_value flatten(net_value const& of);

  /// Takes the packed weights from a file that network::save() wrote. A file of another version, CPU or network, and
  /// one that is damaged, is refused with a sentence; so is what the file does not have.
  status packed_from(std::string const& path);

  result<network> build(net_value const& output, std::string_view name = "out");
  result<network> build(array_view<named_value const> outputs);
  result<network> build(std::initializer_list<named_value> outputs) {
    return build(array_view<named_value const>(outputs.begin(), outputs.size()));
  }
  /// What was recorded so far: run/network_graph.hpp.
  detail::network_graph const& graph() const noexcept { return *graph_; }
  /// Did everything so far fit? build() says the same.
  status state() const;

 private:
  precision const& precision_of_groups() const noexcept;
  void add_groups(std::string_view label, result<std::vector<chain>> groups,
                  array_view<detail::joined_operand const> operands,
                  array_view<std::string_view const> output_names, array_view<net_value> values);

  std::unique_ptr<detail::network_graph> graph_;
};

}  // namespace sinter::inline SINTER_ABI
