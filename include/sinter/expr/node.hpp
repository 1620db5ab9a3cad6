// The nodes of an expression: leaves, pointwise steps, contractions, poolings, lets, maps, outputs. Plain values.
//
// The structure is in the type, the numbers (strides, pads, alpha, beta) are in the value. Nothing here is evaluated
// and nothing holds a reference, so an expression may be kept, copied and returned. ops.hpp makes the nodes;
// plan/flatten.hpp is the only reader: read it next.
#pragma once

#include <concepts>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>

#include "../base/fixed_string.hpp"
#include "../core/op.hpp"
#include "../core/operand_role.hpp"
#include "../core/tensor_view.hpp"

namespace sinter::inline SINTER_ABI {

/// A node says so by this member type. Nodes have constructors, and neither a common base nor member initialisers: g++ 12
/// needs time and memory exponential in the depth to value-initialise nested aggregates.
template <class E>
concept expression = requires {
  typename std::remove_cvref_t<E>::is_expression;
};

/// `x = image`: a view for the operand or output of that name.
template <class Name, class Void>
struct binding {
  using name = Name;
  basic_view<Void> view;
};

/// `x = value` in network_builder::add(): a value or a parameter of a network, which says so by this member type.
template <class T>
concept network_operand = requires {
  typename std::remove_cvref_t<T>::is_network_operand;
};
template <class Name, class Operand>
struct network_binding {
  using name = Name;
  Operand operand;
};

/// `h = expr` inside define(), or `out = expr` inside outputs().
template <class Name, class E>
struct definition {
  using name = Name;
  E value;

  constexpr definition() : value() {}
  constexpr explicit definition(E const& defined) : value(defined) {}
};

/// `x.dims(1, 56, 56, 64)`: what compile() is told of an operand's extents and, where not dense, its strides.
template <class Name>
struct described {
  using name = Name;
  shape dims;
  sinter::strides strides;
  bool strided = false;
  std::optional<dtype> type = std::nullopt;  ///< of like(): checked against the precision

  /// Strides in elements, one for each extent.
  constexpr described with_strides(sinter::strides const& s) const { return {dims, s, true, type}; }
  /// The memory order of other frameworks: N,C,[D,][H,]W while the logical order stays channels-last.
  constexpr described channels_first() const {
    shape memory = dims;
    int const r = dims.ssize();
    for (int i = 2; i < r; ++i) memory[i] = dims[i - 1];
    if (r > 2) memory[1] = dims[r - 1];
    sinter::strides const in_memory = dense_strides(memory);
    sinter::strides s = in_memory;
    for (int i = 2; i < r; ++i) s[i - 1] = in_memory[i];
    if (r > 2) s[r - 1] = in_memory[1];
    return {dims, s, true, type};
  }
};

namespace detail {
template <class P>
concept element_pointer = std::is_pointer_v<P> && element<std::remove_pointer_t<P>>;

template <class Name>
struct describes {
  template <std::convertible_to<extent>... Extents>
  constexpr described<Name> dims(Extents... e) const {
    static_assert(sizeof...(e) <= max_rank, "sinter: an operand has at most 6 axes");
    return {shape{static_cast<extent>(e)...}, {}, false, std::nullopt};
  }
  constexpr described<Name> dims(shape const& s) const { return {s, {}, false, std::nullopt}; }
  /// Extents and strides of a view, which is then what can be bound.
  template <viewable V>
  constexpr described<Name> like(V&& view) const {
    auto const v = as_view(std::forward<V>(view));
    return {v.dims, v.strides, !v.flat, v.type};
  }
};
}  // namespace detail

/// An operand that is bound by name. Extents, where given, are those of the logical axes, known at compile time.
template <class Name, role Role, extent... Dims>
struct leaf : detail::describes<Name> {
  using is_expression = void;
  using name = Name;
  static constexpr sinter::role role = Role;

  template <viewable V>
  constexpr auto operator=(V&& v) const {  // NOLINT: `x = image` makes a binding
    return binding<Name, void const>{as_view(std::forward<V>(v))};
  }
  /// A single value for a scalar operand: bound by address, so it has to live until the call.
  template <element T>
  requires(Role == role::scalar) constexpr auto operator=(
      T const& value) const {  // NOLINT: as above
    return binding<Name, void const>{view(&value, shape{})};
  }
  template <element T>
  requires(Role == role::scalar) auto operator=(T const&& value) const =
      delete;  // NOLINT: a temporary would be gone before the call
  /// A pointer alone, without extents: what bound::repoint() takes.
  template <detail::element_pointer P>
  constexpr auto operator=(P const& p) const {  // NOLINT: as above
    return binding<Name, void const>{view(p, shape{})};
  }
  template <network_operand Operand>
  constexpr auto operator=(Operand const& o) const {  // NOLINT: as above
    return network_binding<Name, Operand>{o};
  }
};

/// An output that is bound by name: `out = result`.
template <class Name>
struct output_leaf : detail::describes<Name> {
  using name = Name;
  template <viewable V>
  constexpr auto operator=(V&& v) const {  // NOLINT: makes a binding
    auto const view = as_view(std::forward<V>(v));
    static_assert(std::is_same_v<std::remove_const_t<decltype(view)>, output_view>,
                  "sinter: an output is written to, and this view is read-only");
    return binding<Name, void>{view};
  }
  template <detail::element_pointer P>
  constexpr auto operator=(P const& p) const {  // NOLINT: a pointer alone, as in leaf
    static_assert(!std::is_const_v<std::remove_pointer_t<P>>,
                  "sinter: an output is written to, and this pointer is read-only");
    return binding<Name, void>{sinter::view(p, shape{})};
  }
  template <expression E>
  constexpr auto operator=(E const& e) const {  // NOLINT: makes a definition
    return definition<Name, E>(e);
  }
};

struct none {};

/// A unary, binary or ternary step, or a cast.
template <op Code, class A, class B = none, class C = none>
struct pointwise {
  using is_expression = void;
  A a;
  B b;
  C c;
  float alpha, beta;
  dtype to;

  constexpr pointwise() : a(), b(), c(), alpha(0), beta(0), to(dtype::f32) {}
  constexpr pointwise(A const& first_value, B const& second_value, C const& third_value,
                      float alpha_value, float beta_value, dtype target)
      : a(first_value),
        b(second_value),
        c(third_value),
        alpha(alpha_value),
        beta(beta_value),
        to(target) {}
};

template <op Code, class Src, class Weight, bool TransposedSrc = false,
          bool TransposedWeight = false>
struct contraction {
  using is_expression = void;
  Src src;
  Weight weight;
  contraction_attrs attrs;

  constexpr contraction() : src(), weight(), attrs() {}
  constexpr contraction(Src const& first_value, Weight const& second_value,
                        contraction_attrs const& given)
      : src(first_value), weight(second_value), attrs(given) {}
};

/// Windows over an image; made by pools.hpp.
template <op Code, class A>
struct pooled {
  using is_expression = void;
  A a;
  pool_attrs attrs;

  constexpr pooled() : a(), attrs() {}
  constexpr pooled(A const& first_value, pool_attrs const& given) : a(first_value), attrs(given) {}
};

struct constant {
  using is_expression = void;
  float value;

  constexpr constant() : value(0) {}
  constexpr explicit constant(float number) : value(number) {}
};

/// The last two axes exchanged; stands only directly inside matmul().
template <class E>
struct transposed_node {
  using is_expression = void;
  E inner;
};

/// A named value: defined here, and a rounding point.
template <class Name, class E>
struct let_node {
  using is_expression = void;
  using name = Name;
  E inner;

  constexpr let_node() : inner() {}
  constexpr explicit let_node(E const& defined) : inner(defined) {}
};

/// let<"h">: refers to the value of that name; let<"h">(expr) and `h = expr` inside define() define it.
template <class Name>
struct let_name {
  using is_expression = void;
  using name = Name;
  template <expression E>
  constexpr let_node<Name, E> operator()(E const& e) const {
    return let_node<Name, E>(e);
  }
  template <expression E>
  constexpr definition<Name, E> operator=(E const& e) const {  // NOLINT: makes a definition
    return definition<Name, E>(e);
  }
};

/// The i-th parameter of the mapped lambda F: its type tells the holes of nested maps apart.
template <class F, int Index>
struct hole {
  using is_expression = void;
};

/// A lambda's body, called once with holes, over the values of the arguments.
template <class F, class Body, class... Args>
struct map_node;
template <class F, class Body, class A>
struct map_node<F, Body, A> {
  using is_expression = void;
  Body body;
  A a;

  constexpr map_node() : body(), a() {}
  constexpr map_node(Body const& of, A const& first_value) : body(of), a(first_value) {}
};
template <class F, class Body, class A, class B>
struct map_node<F, Body, A, B> {
  using is_expression = void;
  Body body;
  A a;
  B b;

  constexpr map_node() : body(), a(), b() {}
  constexpr map_node(Body const& of, A const& first_value, B const& second_value)
      : body(of), a(first_value), b(second_value) {}
};

/// Definitions in order, then the value that they lead to.
template <class Result, class... Defs>
struct scope {
  using is_expression = void;
  Result result;
  std::tuple<Defs...> defs;

  constexpr scope() : result(), defs() {}
  constexpr scope(Result const& last, Defs const&... all) : result(last), defs(all...) {}
};

/// Several named outputs. Not an expression: nothing can be computed from it.
template <class... Defs>
struct output_list {
  std::tuple<Defs...> defs;

  constexpr output_list() : defs() {}
  constexpr explicit output_list(Defs const&... all) : defs(all...) {}
};

}  // namespace sinter::inline SINTER_ABI
