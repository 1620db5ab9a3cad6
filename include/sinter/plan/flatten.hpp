// Expression -> graph: where templates end. The graph is plain data in the form of a chain, as large as the expression
// needs (graph.hpp); partition.hpp cuts it into chains.
//
// The walk is depth first, arguments left to right, so a value stands before its readers and a let before its
// references. It runs twice over the same code: once with a sink that only counts (the capacities are constants of the
// type), once with the graph. A let that is met again by value is recognised by the digest of its expression.
#pragma once

#include <bit>
#include <cstdint>

#include "../expr/pools.hpp"
#include "../expr/rows.hpp"
#include "static_shapes.hpp"

namespace sinter::inline SINTER_ABI {

namespace detail {

// ---- digest: do two expressions of one type have the same numbers? ------------------------------------------------

constexpr std::uint64_t mix(std::uint64_t h, std::uint64_t v) {
  h ^= v + 0x9e3779b97f4a7c15ULL + (h << 6) + (h >> 2);
  return h * 0xff51afd7ed558ccdULL;
}
constexpr std::uint64_t mix(std::uint64_t h, float v) {
  return mix(h, std::uint64_t{std::bit_cast<std::uint32_t>(v)});
}

/// What the parameters of the lambdas around stand for, the innermost lambda first.
struct hole_values {
  char const* lambda = nullptr;  ///< lambda_key<F>; null where no lambda is around
  value_ref values[2];
  std::uint64_t digests[2] = {};
  hole_values const* outer = nullptr;

  constexpr hole_values const* of(char const* key) const {
    hole_values const* around = this;
    while (around != nullptr && around->lambda != key) around = around->outer;
    return around;
  }
};
template <class F>
inline constexpr char lambda_key = 0;

constexpr std::uint64_t digest(none const&, hole_values const&) { return 1; }
constexpr std::uint64_t digest(constant const& c, hole_values const&) {
  return mix(std::uint64_t{2}, c.value);
}
template <class F, int Index>
constexpr std::uint64_t digest(hole<F, Index> const&, hole_values const& holes) {
  hole_values const* const around = holes.of(&lambda_key<F>);
  return mix(std::uint64_t{3}, around == nullptr ? 0 : around->digests[Index]);
}
template <class Name, role Role, extent... Dims>
constexpr std::uint64_t digest(leaf<Name, Role, Dims...> const&, hole_values const&) {
  return mix(std::uint64_t{4}, Name::key);
}
template <class Name>
constexpr std::uint64_t digest(let_name<Name> const&, hole_values const&) {
  return mix(std::uint64_t{5}, Name::key);
}
/// Its own content is compared where it is defined: the name stands for it, so nesting costs nothing.
template <class Name, class E>
constexpr std::uint64_t digest(let_node<Name, E> const&, hole_values const&) {
  return mix(std::uint64_t{5}, Name::key);
}
template <op Code, class A, class B, class C>
constexpr std::uint64_t digest(pointwise<Code, A, B, C> const& e, hole_values const& holes) {
  std::uint64_t h = mix(std::uint64_t{6}, static_cast<std::uint64_t>(Code));
  h = mix(mix(mix(h, e.alpha), e.beta), static_cast<std::uint64_t>(e.to));
  return mix(mix(mix(h, digest(e.a, holes)), digest(e.b, holes)), digest(e.c, holes));
}
template <op Code, class S, class W, bool TS, bool TW>
constexpr std::uint64_t digest(contraction<Code, S, W, TS, TW> const& e, hole_values const& holes) {
  std::uint64_t h =
      mix(std::uint64_t{7}, static_cast<std::uint64_t>(Code) * 4 + (TS ? 2U : 0U) + (TW ? 1U : 0U));
  for (int i = 0; i < 3; ++i)
    for (int v : {e.attrs.stride[i], e.attrs.dilation[i], e.attrs.pad_begin[i], e.attrs.pad_end[i]})
      h = mix(h, static_cast<std::uint64_t>(v));
  return mix(mix(mix(h, static_cast<std::uint64_t>(e.attrs.groups)), digest(e.src, holes)),
             digest(e.weight, holes));
}
template <op Code, class A>
constexpr std::uint64_t digest(pooled<Code, A> const& e, hole_values const& holes) {
  std::uint64_t h = mix(std::uint64_t{10}, static_cast<std::uint64_t>(Code));
  pool_attrs const& w = e.attrs;
  for (int i = 0; i < 2; ++i)
    for (int v : {w.kernel[i], w.stride[i], w.pad_begin[i], w.pad_end[i]})
      h = mix(h, static_cast<std::uint64_t>(v));
  h = mix(h, std::uint64_t{w.ceil ? 2U : 0U} + (w.count_pad ? 1U : 0U));
  return mix(h, digest(e.a, holes));
}
template <class F, class Body, class A>
constexpr std::uint64_t digest(map_node<F, Body, A> const& e, hole_values const& holes) {
  hole_values const inner{&lambda_key<F>, {}, {digest(e.a, holes), 0}, &holes};
  return mix(std::uint64_t{8}, digest(e.body, inner));
}
template <class F, class Body, class A, class B>
constexpr std::uint64_t digest(map_node<F, Body, A, B> const& e, hole_values const& holes) {
  hole_values const inner{&lambda_key<F>, {}, {digest(e.a, holes), digest(e.b, holes)}, &holes};
  return mix(std::uint64_t{9}, digest(e.body, inner));
}

// ---- the walk -----------------------------------------------------------------------------------------------------

template <class Sink>
constexpr value_ref walk(Sink& sink, none const&, hole_values const&) {
  (void)sink;
  return {};
}
template <class Sink>
constexpr value_ref walk(Sink& sink, constant const& c, hole_values const&) {
  return sink.add_constant(c.value);
}
template <class Sink, class F, int Index>
constexpr value_ref walk(Sink& sink, hole<F, Index> const&, hole_values const& holes) {
  if (hole_values const* const around = holes.of(&lambda_key<F>)) return around->values[Index];
  sink.report(fault::hole_outside_map);
  return {};
}
template <class Sink, class Name, role Role, extent... Dims>
constexpr value_ref walk(Sink& sink, leaf<Name, Role, Dims...> const&, hole_values const&) {
  static_assert(Name::view.size() > 0 && Name::view.size() < 40,
                "sinter: an operand's name has 1 to 39 characters");
  static_assert(((Dims >= 0 || Dims == dynamic) && ...),
                "sinter: a static extent is at least 0, or sinter::dynamic");
  return sink.add_operand({Name::view, Name::key, Role, dtype::f32, shape{Dims...}});
}
template <class Sink, class Name>
constexpr value_ref walk(Sink& sink, let_name<Name> const&, hole_values const&) {
  return sink.find_let(Name::key);
}
// Declared first: the walks call each other.
template <class Sink, op Code, class A, class B, class C>
constexpr value_ref walk(Sink&, pointwise<Code, A, B, C> const&, hole_values const&);
template <class Sink, op Code, class S, class W, bool TS, bool TW>
constexpr value_ref walk(Sink&, contraction<Code, S, W, TS, TW> const&, hole_values const&);
template <class Sink, op Code, class A>
constexpr value_ref walk(Sink&, pooled<Code, A> const&, hole_values const&);
template <class Sink, class Name, class E>
constexpr value_ref walk(Sink&, let_node<Name, E> const&, hole_values const&);
template <class Sink, class F, class Body, class A>
constexpr value_ref walk(Sink&, map_node<F, Body, A> const&, hole_values const&);
template <class Sink, class F, class Body, class A, class B>
constexpr value_ref walk(Sink&, map_node<F, Body, A, B> const&, hole_values const&);
template <class Sink, class Result, class... Defs>
constexpr value_ref walk(Sink&, scope<Result, Defs...> const&, hole_values const&);

template <class Sink, class Name, class E>
constexpr value_ref walk_let(Sink& sink, E const& inner, hole_values const& holes,
                             std::uint64_t d) {
  static_assert(Name::view.size() > 0 && Name::view.size() < 32,
                "sinter: a let's name has 1 to 31 characters");
  value_ref const v = walk(sink, inner, holes);
  sink.add_let({Name::view, Name::key, v, d, false});
  return v;
}

template <class Sink, op Code, class A, class B, class C>
constexpr value_ref walk(Sink& sink, pointwise<Code, A, B, C> const& e, hole_values const& holes) {
  step s;
  s.code = Code;
  s.to = e.to;
  s.alpha = e.alpha;
  s.beta = e.beta;
  value_ref const first = walk(sink, e.a, holes);
  value_ref const second = walk(sink, e.b, holes);
  value_ref const third = walk(sink, e.c, holes);
  s.args[0] = first;
  s.args[1] = second;
  s.args[2] = third;
  return sink.add_step(s);
}
template <class Sink, op Code, class S, class W, bool TS, bool TW>
constexpr value_ref walk(Sink& sink, contraction<Code, S, W, TS, TW> const& e,
                         hole_values const& holes) {
  step s;
  s.code = Code;
  value_ref const src = walk(sink, e.src, holes);
  value_ref const weight = walk(sink, e.weight, holes);
  s.args[0] = src;
  s.args[1] = weight;
  contraction_attrs attrs = e.attrs;
  attrs.transposed_src = TS;
  attrs.transposed_weight = TW;
  return sink.add_contraction(s, attrs);
}
template <class Sink, op Code, class A>
constexpr value_ref walk(Sink& sink, pooled<Code, A> const& e, hole_values const& holes) {
  step s;
  s.code = Code;
  s.args[0] = walk(sink, e.a, holes);
  return sink.add_pooling(s, e.attrs);
}
template <class Sink, class Name, class E>
constexpr value_ref walk(Sink& sink, let_node<Name, E> const& e, hole_values const& holes) {
  std::uint64_t const d = digest(e.inner, holes);
  value_ref const known = sink.find_definition(Name::key, d);
  if (known.kind != value_kind::none) return known;
  value_ref const v = walk_let<Sink, Name>(sink, e.inner, holes, d);
  sink.find_let(Name::key);  // a let in place is read where it stands
  return v;
}
/// A lambda's argument in its body is known by its place in the graph.
constexpr std::uint64_t place_digest(value_ref v) {
  return mix(static_cast<std::uint64_t>(v.kind), static_cast<std::uint64_t>(v.index));
}
template <class Sink, class F, class Body, class A>
constexpr value_ref walk(Sink& sink, map_node<F, Body, A> const& e, hole_values const& holes) {
  value_ref const first = walk(sink, e.a, holes);
  hole_values const inner{&lambda_key<F>, {first, {}}, {place_digest(first), 0}, &holes};
  return walk(sink, e.body, inner);
}
template <class Sink, class F, class Body, class A, class B>
constexpr value_ref walk(Sink& sink, map_node<F, Body, A, B> const& e, hole_values const& holes) {
  value_ref const first = walk(sink, e.a, holes);
  value_ref const second = walk(sink, e.b, holes);
  hole_values const inner{
      &lambda_key<F>, {first, second}, {place_digest(first), place_digest(second)}, &holes};
  return walk(sink, e.body, inner);
}
template <class Sink, class Name, class E>
constexpr void walk_definition(Sink& sink, definition<Name, E> const& d, hole_values const& holes) {
  walk_let<Sink, Name>(sink, d.value, holes, digest(d.value, holes));
}
template <class Sink, class Result, class... Defs>
constexpr void walk_definitions(Sink& sink, scope<Result, Defs...> const& e,
                                hole_values const& holes) {
  std::apply([&](auto const&... each) { (walk_definition(sink, each, holes), ...); }, e.defs);
}
template <class Sink, class Result, class... Defs>
constexpr value_ref walk(Sink& sink, scope<Result, Defs...> const& e, hole_values const& holes) {
  walk_definitions(sink, e, holes);
  return walk(sink, e.result, holes);
}

template <class Sink, class... Defs>
constexpr void walk_root(Sink& sink, output_list<Defs...> const& list) {
  std::apply(
      [&](auto const&... each) {
        (sink.add_output(std::remove_cvref_t<decltype(each)>::name::view,
                         walk(sink, each.value, hole_values{})),
         ...);
      },
      list.defs);
}
template <class Sink, expression E>
constexpr void walk_root(Sink& sink, E const& e) {
  sink.add_output("out", walk(sink, e, hole_values{}));
}
template <class Sink, class... OutputDefs, class... Defs>
constexpr void walk_root(Sink& sink, scope<output_list<OutputDefs...>, Defs...> const& e) {
  walk_definitions(sink, e, hole_values{});
  walk_root(sink, e.result);
}

template <class T>
inline constexpr bool is_output_list = false;
template <class... Defs>
inline constexpr bool is_output_list<output_list<Defs...>> = true;

}  // namespace detail

/// What compile() and partition() take: an expression, or outputs(...).
template <class E>
concept chain_expression = expression<E> || detail::is_output_list<std::remove_cvref_t<E>>;

/// The capacities of E's graph. They depend on the type alone.
template <chain_expression E>
inline constexpr graph_size graph_size_of = [] {
  detail::counting_sink sink;
  detail::walk_root(sink, E{});
  return sink.size;
}();

/// The graph of an expression. Its `broken` field names the first broken rule; nothing is raised here.
template <chain_expression E>
constexpr auto flatten(E const& e) {
  detail::graph_sink<graph_size_of<E>> sink;
  detail::walk_root(sink, e);
  for (let_entry const& l : sink.result.lets)
    if (!l.read) sink.report(fault::let_unused);
  bool any_static = false;
  for (graph_operand const& o : sink.result.operands)
    any_static = any_static || !o.static_dims.empty();
  if (any_static && sink.result.broken == fault::none)
    sink.report(detail::static_shape_check<graph_size_of<E>>(sink.result).found());
  return sink.result;
}

}  // namespace sinter::inline SINTER_ABI
