// Expression -> graph: where templates end. The graph is plain data in the form of a chain, as large as the expression
// needs; partition.hpp cuts it into chains. Everything here is close to linear: a network of hundreds of steps has to
// fit into the million evaluation steps that clang grants a constant.
//
// The walk is depth first, arguments left to right, so a value stands before its readers and a let before its
// references. It runs twice over the same code: once with a sink that only counts (the capacities are constants of the
// type), once with the graph. A let that is met again by value is recognised by the digest of its expression.
#pragma once

#include <bit>
#include <cstdint>

#include "../expr/ops.hpp"
#include "contraction_shape.hpp"
#include "rules.hpp"

namespace sinter::inline SINTER_ABI {

// Names in a graph point at the storage of chars<>, which lives as long as the program.
struct graph_operand {
  std::string_view name;
  std::uint64_t key = 0;
  sinter::role role = sinter::role::tensor;
  dtype type = dtype::f32;
  shape static_dims;
};
struct graph_output {
  std::string_view name;
  value_ref value;
};
struct let_entry {
  std::string_view name;
  std::uint64_t key = 0;
  value_ref value;
  std::uint64_t digest = 0;
  bool read = false;
};

/// How many of each an expression's graph can hold.
struct graph_size {
  int steps = 0, operands = 0, constants = 0, contractions = 0, outputs = 0, lets = 0;
};

/// A whole expression as data. The steps are in an order in which they can run.
template <graph_size Size>
struct graph {
  inline_vector<step, static_cast<std::size_t>(Size.steps)> steps;
  inline_vector<graph_operand, static_cast<std::size_t>(Size.operands)> operands;
  inline_vector<float, static_cast<std::size_t>(Size.constants)> constants;
  inline_vector<contraction_attrs, static_cast<std::size_t>(Size.contractions)> contractions;
  inline_vector<graph_output, static_cast<std::size_t>(Size.outputs)> outputs;
  inline_vector<let_entry, static_cast<std::size_t>(Size.lets)> lets;
  sinter::precision precision;
  fault broken = fault::none;  ///< the first broken rule
};

namespace detail {

// ---- digest: do two expressions of one type have the same numbers? ------------------------------------------------

constexpr std::uint64_t mix(std::uint64_t h, std::uint64_t v) {
  h ^= v + 0x9e3779b97f4a7c15ULL + (h << 6) + (h >> 2);
  return h * 0xff51afd7ed558ccdULL;
}
constexpr std::uint64_t mix(std::uint64_t h, float v) {
  return mix(h, std::uint64_t{std::bit_cast<std::uint32_t>(v)});
}

constexpr std::uint64_t digest(none const&) { return 1; }
constexpr std::uint64_t digest(constant const& c) { return mix(std::uint64_t{2}, c.value); }
template <int I>
constexpr std::uint64_t digest(hole<I> const&) {
  return mix(std::uint64_t{3}, std::uint64_t{I});
}
template <class Name, role Role, extent... Dims>
constexpr std::uint64_t digest(leaf<Name, Role, Dims...> const&) {
  return mix(std::uint64_t{4}, Name::key);
}
template <class Name>
constexpr std::uint64_t digest(let_name<Name> const&) {
  return mix(std::uint64_t{5}, Name::key);
}
/// Its own content is compared where it is defined: the name stands for it, so nesting costs nothing.
template <class Name, class E>
constexpr std::uint64_t digest(let_node<Name, E> const&) {
  return mix(std::uint64_t{5}, Name::key);
}
template <op Code, class A, class B, class C>
constexpr std::uint64_t digest(pointwise<Code, A, B, C> const& e) {
  std::uint64_t h = mix(std::uint64_t{6}, static_cast<std::uint64_t>(Code));
  h = mix(mix(mix(h, e.alpha), e.beta), static_cast<std::uint64_t>(e.to));
  return mix(mix(mix(h, digest(e.a)), digest(e.b)), digest(e.c));
}
template <op Code, class S, class W, bool TS, bool TW>
constexpr std::uint64_t digest(contraction<Code, S, W, TS, TW> const& e) {
  std::uint64_t h =
      mix(std::uint64_t{7}, static_cast<std::uint64_t>(Code) * 4 + (TS ? 2U : 0U) + (TW ? 1U : 0U));
  for (int i = 0; i < 3; ++i)
    for (int v : {e.attrs.stride[i], e.attrs.dilation[i], e.attrs.pad_begin[i], e.attrs.pad_end[i]})
      h = mix(h, static_cast<std::uint64_t>(v));
  return mix(mix(mix(h, static_cast<std::uint64_t>(e.attrs.groups)), digest(e.src)),
             digest(e.weight));
}
template <class Body, class A>
constexpr std::uint64_t digest(map_node<Body, A> const& e) {
  return mix(mix(std::uint64_t{8}, digest(e.body)), digest(e.a));
}
template <class Body, class A, class B>
constexpr std::uint64_t digest(map_node<Body, A, B> const& e) {
  return mix(mix(mix(std::uint64_t{9}, digest(e.body)), digest(e.a)), digest(e.b));
}

// ---- sinks --------------------------------------------------------------------------------------------------------

/// Counts what the walk makes. Lets are followed by name only, so a let met twice is walked once.
struct counting_sink {
  graph_size size;
  inline_vector<std::uint64_t, 512> let_keys;

  constexpr value_ref add_operand(graph_operand const&) { return operand_ref(size.operands++); }
  constexpr value_ref add_constant(float) { return constant_ref(size.constants++); }
  constexpr value_ref add_step(step const&) { return step_ref(size.steps++); }
  constexpr value_ref add_contraction(step const&, contraction_attrs const&) {
    ++size.contractions;
    return step_ref(size.steps++);
  }
  constexpr value_ref find_let(std::uint64_t) { return step_ref(0); }
  constexpr value_ref find_definition(std::uint64_t key, std::uint64_t) {
    for (std::uint64_t known : let_keys)
      if (known == key) return step_ref(0);
    return {};
  }
  constexpr void add_let(let_entry const& entry) {
    if (!let_keys.full()) let_keys.push_back(entry.key);
    ++size.lets;
  }
  constexpr void add_output(std::string_view, value_ref) { ++size.outputs; }
};

template <graph_size Size>
struct graph_sink {
  static constexpr std::size_t slots = static_cast<std::size_t>(Size.operands) * 2 + 1;

  graph<Size> result;
  std::int16_t slot_of_name[slots]{};  ///< open addressing by name key: operand index + 1

  constexpr void report(fault f) {
    if (result.broken == fault::none) result.broken = f;
  }
  constexpr value_ref add_operand(graph_operand const& o) {
    std::size_t slot = o.key % slots;
    for (; slot_of_name[slot] != 0; slot = (slot + 1) % slots) {
      int const index = slot_of_name[slot] - 1;
      graph_operand const& known = result.operands[index];
      if (known.key != o.key || known.name != o.name) continue;
      if (known.role != o.role || !(known.static_dims == o.static_dims))
        report(fault::leaf_disagrees);
      return operand_ref(index);
    }
    result.operands.push_back(o);
    slot_of_name[slot] = static_cast<std::int16_t>(result.operands.ssize());
    return operand_ref(result.operands.ssize() - 1);
  }
  constexpr value_ref add_constant(float v) {
    auto const bits = std::bit_cast<std::uint32_t>(v);
    for (int i = 0; i < result.constants.ssize(); ++i)
      if (std::bit_cast<std::uint32_t>(result.constants[i]) == bits) return constant_ref(i);
    result.constants.push_back(v);
    return constant_ref(result.constants.ssize() - 1);
  }
  constexpr bool has_role(value_ref v, role r) const {
    return v.kind == value_kind::operand && result.operands[int{v.index}].role == r;
  }
  constexpr value_ref add_step(step const& s) {
    report(fault_of_step(s));
    for (value_ref a : s.args)
      if (has_role(a, role::weight)) report(fault::weight_outside_contraction);
    result.steps.push_back(s);
    return step_ref(result.steps.ssize() - 1);
  }
  constexpr value_ref add_contraction(step s, contraction_attrs const& attrs) {
    report(fault_of_attrs(s.code, attrs));
    if (has_role(s.args[0], role::weight)) report(fault::weight_outside_contraction);
    for (int i = 0; i < 2; ++i)
      if (s.args[i].kind == value_kind::constant || has_role(s.args[i], role::vector) ||
          has_role(s.args[i], role::scalar))
        report(fault::vector_in_contraction);
    for (int i = 0; i < result.contractions.ssize(); ++i) {
      step const& known = result.steps[int{step_of_contraction[i]}];
      if (known.args[1] == s.args[1] && known.args[0] == s.args[0] && known.code == s.code &&
          result.contractions[i] == attrs)
        report(fault::contraction_reused);
    }
    s.contraction = static_cast<std::int16_t>(result.contractions.ssize());
    step_of_contraction.push_back(static_cast<std::int16_t>(result.steps.ssize()));
    result.contractions.push_back(attrs);
    result.steps.push_back(s);
    return step_ref(result.steps.ssize() - 1);
  }
  constexpr value_ref find_let(std::uint64_t key) {
    for (let_entry& known : result.lets)
      if (known.key == key) {
        known.read = true;
        return known.value;
      }
    report(fault::let_undefined);
    return step_ref(0);
  }
  /// A let that is met again by value is a reference, if its content is the same.
  constexpr value_ref find_definition(std::uint64_t key, std::uint64_t content) {
    for (let_entry& known : result.lets)
      if (known.key == key) {
        if (known.digest != content) report(fault::let_redefined);
        known.read = true;
        return known.value;
      }
    return {};
  }
  constexpr void add_let(let_entry const& entry) {
    for (let_entry const& known : result.lets)
      if (known.key == entry.key) report(fault::let_redefined);
    if (entry.value.kind == value_kind::step) result.steps[int{entry.value.index}].rounded = true;
    result.lets.push_back(entry);
  }
  constexpr void add_output(std::string_view name, value_ref v) {
    if (v.kind != value_kind::step) report(fault::nothing_to_do);
    for (graph_output const& known : result.outputs)
      if (known.name == name) report(fault::output_redefined);
    result.outputs.push_back({name, v});
  }

  inline_vector<std::int16_t, static_cast<std::size_t>(Size.contractions)> step_of_contraction;
};

// ---- the walk -----------------------------------------------------------------------------------------------------

/// Holes: what the parameters of the lambda around stand for.
struct hole_values {
  value_ref values[2];
};

template <class Sink>
constexpr value_ref walk(Sink& sink, none const&, hole_values const&) {
  (void)sink;
  return {};
}
template <class Sink>
constexpr value_ref walk(Sink& sink, constant const& c, hole_values const&) {
  return sink.add_constant(c.value);
}
template <class Sink, int I>
constexpr value_ref walk(Sink&, hole<I> const&, hole_values const& holes) {
  return holes.values[I];
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
template <class Sink, class Name, class E>
constexpr value_ref walk(Sink&, let_node<Name, E> const&, hole_values const&);
template <class Sink, class Body, class A>
constexpr value_ref walk(Sink&, map_node<Body, A> const&, hole_values const&);
template <class Sink, class Body, class A, class B>
constexpr value_ref walk(Sink&, map_node<Body, A, B> const&, hole_values const&);
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
template <class Sink, class Name, class E>
constexpr value_ref walk(Sink& sink, let_node<Name, E> const& e, hole_values const& holes) {
  std::uint64_t const d = digest(e.inner);
  value_ref const known = sink.find_definition(Name::key, d);
  if (known.kind != value_kind::none) return known;
  value_ref const v = walk_let<Sink, Name>(sink, e.inner, holes, d);
  sink.find_let(Name::key);  // a let in place is read where it stands
  return v;
}
template <class Sink, class Body, class A>
constexpr value_ref walk(Sink& sink, map_node<Body, A> const& e, hole_values const& holes) {
  hole_values const inner{{walk(sink, e.a, holes), {}}};
  return walk(sink, e.body, inner);
}
template <class Sink, class Body, class A, class B>
constexpr value_ref walk(Sink& sink, map_node<Body, A, B> const& e, hole_values const& holes) {
  value_ref const first = walk(sink, e.a, holes);
  hole_values const inner{{first, walk(sink, e.b, holes)}};
  return walk(sink, e.body, inner);
}
template <class Sink, class Name, class E>
constexpr void walk_definition(Sink& sink, definition<Name, E> const& d, hole_values const& holes) {
  walk_let<Sink, Name>(sink, d.value, holes, digest(d.value));
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

// ---- static shapes ------------------------------------------------------------------------------------------------

/// The extents of a value as far as the leaves' types say them.
struct known_shape {
  bool known = false;
  shape dims;
};

template <graph_size Size>
class static_shape_check {
 public:
  constexpr explicit static_shape_check(graph<Size> const& source_graph) : graph_(source_graph) {
    for (step const& s : graph_.steps) {
      known_shape const made = s.contraction >= 0 ? contracted(s) : combined(s);
      shapes_.push_back(made);
    }
  }
  constexpr bool fits() const { return fits_; }

 private:
  constexpr known_shape of(value_ref v) const {
    if (v.kind == value_kind::step) return shapes_[int{v.index}];
    if (v.kind != value_kind::operand) return {v.kind == value_kind::constant, {}};
    graph_operand const& o = graph_.operands[int{v.index}];
    return {!o.static_dims.empty() || o.role == role::scalar, o.static_dims};
  }
  constexpr known_shape contracted(step const& s) {
    known_shape const src = of(s.args[0]), weight = of(s.args[1]);
    if (!src.known || !weight.known) return {};
    contraction_shape const r =
        shape_of(s.code, graph_.contractions[int{s.contraction}], src.dims, weight.dims);
    fits_ = fits_ && r.fits;
    return {r.fits, r.dims};
  }
  /// A vector never widens a value, so one without extents leaves the others known.
  constexpr known_shape combined(step const& s) {
    known_shape result{true, {}};
    for (value_ref a : s.args) {
      if (a.kind == value_kind::none) continue;
      known_shape const read = of(a);
      if (!read.known && a.kind == value_kind::operand &&
          graph_.operands[int{a.index}].role == role::vector)
        continue;
      broadcast_result const both = broadcast(result.dims, read.dims);
      if (result.known && read.known) fits_ = fits_ && both.fits;
      result.known = result.known && read.known && both.fits;
      result.dims = both.dims;
    }
    return result;
  }

  graph<Size> const& graph_;
  inline_vector<known_shape, static_cast<std::size_t>(Size.steps)> shapes_;
  bool fits_ = true;
};

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
    if (!detail::static_shape_check<graph_size_of<E>>(sink.result).fits())
      sink.report(fault::static_shapes);
  return sink.result;
}

}  // namespace sinter::inline SINTER_ABI
