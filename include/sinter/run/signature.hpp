// The names of a program as a type, and the checks on them: which operands and outputs there are, and whether the
// arguments of compile(), pack(), bind() and a call name each as they should.
//
// Each check ends in a small struct whose static_assert is the sentence and whose template argument is the name, so
// that both compilers print both. Nothing here knows a value.
#pragma once

#include <array>
#include <string_view>
#include <utility>

#include "../base/array_view.hpp"
#include "../plan/flatten.hpp"
#include "program_core.hpp"

namespace sinter::inline SINTER_ABI {

template <class... Names>
struct name_list {};

/// One operand of a program: needs_dims where a contraction reads it and its type says no extents.
template <class Name, role Role, bool NeedsDims>
struct operand_entry {
  using name = Name;
  static constexpr sinter::role role = Role;
  static constexpr bool needs_dims = NeedsDims;
};

template <class Parameters, class Outputs>
struct signature;

/// The first structural rule that an expression of this type breaks, whatever its numbers are. The shapes of a
/// convolution and of windows depend on them and are left to the run.
template <chain_expression E>
inline constexpr fault structure_fault = [] {
  auto const made = flatten(E{});
  bool only_matmul = true;
  for (step const& each : made.steps)
    only_matmul = only_matmul && !is_conv(each.code) && !is_pooling(each.code);
  return made.broken == fault::static_shapes && !only_matmul ? fault::none : made.broken;
}();

namespace detail {

/// The names of an expression's graph, turned into types again.
template <chain_expression E>
struct signature_maker {
  static constexpr auto source = flatten(E{});

  static constexpr bool needs_dims(int operand) {
    if (!source.operands[operand].static_dims.empty()) return false;
    for (step const& each : source.steps)
      if ((each.contraction >= 0 || each.pooling >= 0) &&
          (each.args[0] == operand_ref(operand) || each.args[1] == operand_ref(operand)))
        return true;
    return false;
  }
  template <int Index, std::size_t... J>
  static auto operand_name(std::index_sequence<J...>) -> chars<source.operands[Index].name[J]...>;
  template <int Index, std::size_t... J>
  static auto output_name(std::index_sequence<J...>) -> chars<source.outputs[Index].name[J]...>;

  template <int Index>
  using operand =
      operand_entry<decltype(operand_name<Index>(
                        std::make_index_sequence<source.operands[Index].name.size()>{})),
                    source.operands[Index].role, needs_dims(Index)>;
  template <int Index>
  using output =
      decltype(output_name<Index>(std::make_index_sequence<source.outputs[Index].name.size()>{}));

  template <int... Index, int... J>
  static auto make(std::integer_sequence<int, Index...>, std::integer_sequence<int, J...>)
      -> signature<name_list<operand<Index>...>, name_list<output<J>...>>;
  using type = decltype(make(std::make_integer_sequence<int, source.operands.ssize()>{},
                             std::make_integer_sequence<int, source.outputs.ssize()>{}));
};

template <class>
inline constexpr bool never = false;

// clang-format off
template <class Name> struct unknown_name {
  static_assert(never<Name>, "sinter: the chain has no operand and no output of this name");
  static constexpr bool value = false;
};
template <class Name> struct doubled_name {
  static_assert(never<Name>, "sinter: this name is given more than once");
  static constexpr bool value = false;
};
template <class Name> struct unbound_operand {
  static_assert(never<Name>, "sinter: this operand is not bound: write `name = view` among the arguments");
  static constexpr bool value = false;
};
template <class Name> struct unbound_output {
  static_assert(never<Name>, "sinter: this output is not bound: write `name = view` among the arguments");
  static constexpr bool value = false;
};
template <class Name> struct weight_not_packed {
  static_assert(never<Name>, "sinter: a weight is bound by its packed form: auto packed = kernel.pack(name = view), then pass packed");
  static constexpr bool value = false;
};
template <class Name> struct not_a_weight {
  static_assert(never<Name>, "sinter: only weights are packed, and this operand is none");
  static constexpr bool value = false;
};
template <class Name> struct without_extents {
  static_assert(never<Name>, "sinter: compile() wants the extents of this operand: name.dims(...) or name.like(view)");
  static constexpr bool value = false;
};
template <class Argument> struct not_an_argument {
  static_assert(never<Argument>, "sinter: this is no argument: bindings (x = view), packed weights, extents (x.dims(...)) and options are");
  static constexpr bool value = false;
};
// clang-format on

/// How often Name is in a list.
template <class Name, class... Names>
inline constexpr int times = (0 + ... + (std::is_same_v<Name, Names> ? 1 : 0));

template <class Name, class... Names>
constexpr bool once() {
  if constexpr (times < Name, Names... >> 1) return doubled_name<Name>::value;
  return true;
}

template <class>
struct described_name {
  using type = void;
};
template <class Name>
struct described_name<described<Name>> {
  using type = Name;
};

template <class Argument>
constexpr bool known_to_compile() {
  if constexpr (!std::is_same_v<Argument, options> &&
                std::is_void_v<typename described_name<Argument>::type>)
    return not_an_argument<Argument>::value;
  return true;
}

template <class Signature>
struct checker;

template <class... Parameters, class... Outputs>
struct checker<signature<name_list<Parameters...>, name_list<Outputs...>>> {
  template <class Name>
  static constexpr bool is_operand = times<Name, typename Parameters::name...> > 0;
  template <class Name>
  static constexpr bool is_weight = (false || ... ||
                                     (std::is_same_v<Name, typename Parameters::name> &&
                                      Parameters::role == role::weight));

  /// void stands for an argument that is no name.
  template <class Name>
  static constexpr bool known() {
    if constexpr (!std::is_void_v<Name> && !is_operand<Name> && times<Name, Outputs...> == 0)
      return unknown_name<Name>::value;
    return true;
  }
  template <class Parameter, class... Described>
  static constexpr bool has_extents() {
    if constexpr (Parameter::needs_dims && times<typename Parameter::name, Described...> == 0)
      return without_extents<typename Parameter::name>::value;
    return true;
  }
  template <class... Arguments>
  static constexpr bool compile() {
    return (known_to_compile<Arguments>() && ...) &&
           (known<typename described_name<Arguments>::type>() && ...) &&
           (once<typename Parameters::name, typename described_name<Arguments>::type...>() &&
            ...) &&
           (has_extents<Parameters, typename described_name<Arguments>::type...>() && ...);
  }

  template <class Name>
  static constexpr bool packable() {
    if constexpr (!is_operand<Name>)
      return unknown_name<Name>::value;
    else if constexpr (!is_weight<Name>)
      return not_a_weight<Name>::value;
    return true;
  }
  template <class... Names>
  static constexpr bool pack() {
    return (packable<Names>() && ...) && (once<Names, Names...>() && ...);
  }

  template <class Parameter, class... Named>
  static constexpr bool bound_operand() {
    if constexpr (times<typename Parameter::name, Named...> == 0)
      return unbound_operand<typename Parameter::name>::value;
    return once<typename Parameter::name, Named...>();
  }
  template <class Output, class... Named>
  static constexpr bool bound_output() {
    if constexpr (times<Output, Named...> == 0) return unbound_output<Output>::value;
    return once<Output, Named...>();
  }
  /// What network_builder::add() is given: each operand once, and nothing else.
  template <class... Named>
  static constexpr bool joined() {
    return (operand_is_known<Named>() && ...) && (bound_operand<Parameters, Named...>() && ...);
  }
  template <class Name>
  static constexpr bool operand_is_known() {
    if constexpr (!is_operand<Name>) return unknown_name<Name>::value;
    return true;
  }
  template <class Name>
  static constexpr bool viewed() {
    if constexpr (is_weight<Name>)
      return weight_not_packed<Name>::value;
    else if constexpr (!is_operand<Name>)
      return unknown_name<Name>::value;
    return true;
  }
  template <class... Views, class... Packed, class... Written>
  static constexpr bool call(name_list<Views...>, name_list<Packed...>, name_list<Written...>) {
    return (viewed<Views>() && ...) && (known<Packed>() && ...) && (known<Written>() && ...) &&
           (bound_operand<Parameters, Views..., Packed...>() && ...) &&
           (bound_output<Outputs, Written...>() && ...);
  }
};

template <class Signature, class... Arguments>
constexpr bool check_compile() {
  return checker<Signature>::template compile<Arguments...>();
}
template <class Signature, class... Names>
constexpr bool check_pack() {
  return checker<Signature>::template pack<Names...>();
}

// ---- the arguments of a call, sorted ------------------------------------------------------------------------------

template <class... Lists>
struct concatenated;
template <class... As, class... Bs, class... Rest>
struct concatenated<name_list<As...>, name_list<Bs...>, Rest...>
    : concatenated<name_list<As..., Bs...>, Rest...> {};
template <class... As>
struct concatenated<name_list<As...>> {
  using type = name_list<As...>;
};

/// What one argument of a call names: as a view, in packed weights, as an output.
template <class Argument>
struct named_by {
  static_assert(
      never<Argument>,
      "sinter: this is no argument of a call: bindings (x = view) and packed weights are");
};
template <class Name>
struct named_by<binding<Name, void const>> {
  using views = name_list<Name>;
  using packs = name_list<>;
  using outputs = name_list<>;
};
template <class Name>
struct named_by<binding<Name, void>> {
  using views = name_list<>;
  using packs = name_list<>;
  using outputs = name_list<Name>;
};

/// The arguments of one call as program_core takes them, without an allocation.
template <class Signature, class... Arguments>
class call_operands {
 public:
  explicit call_operands(Arguments const&... arguments) {
    static_assert(checker<Signature>::call(
        typename concatenated<name_list<>, typename named_by<Arguments>::views...>::type{},
        typename concatenated<name_list<>, typename named_by<Arguments>::packs...>::type{},
        typename concatenated<name_list<>, typename named_by<Arguments>::outputs...>::type{}));
    (take(arguments), ...);
  }
  array_view<named_view const> views() const { return {views_.data(), view_count_}; }
  array_view<packed const* const> packs() const { return {packs_.data(), pack_count_}; }
  array_view<named_output const> outputs() const { return {outputs_.data(), output_count_}; }

 private:
  template <class Name>
  void take(binding<Name, void const> const& given) {
    views_[view_count_++] = {Name::view, given.view};
  }
  template <class Name>
  void take(binding<Name, void> const& given) {
    outputs_[output_count_++] = {Name::view, given.view};
  }
  template <class Packed>
  requires requires(Packed const& given) { given.held(); }
  void take(Packed const& given) { packs_[pack_count_++] = &given.held(); }

  std::array<named_view, sizeof...(Arguments)> views_;
  std::array<packed const*, sizeof...(Arguments)> packs_{};
  std::array<named_output, sizeof...(Arguments)> outputs_;
  std::size_t view_count_ = 0, pack_count_ = 0, output_count_ = 0;
};

}  // namespace detail

template <chain_expression E>
using signature_of = typename detail::signature_maker<E>::type;

}  // namespace sinter::inline SINTER_ABI
