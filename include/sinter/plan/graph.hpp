// The graph: a whole expression as plain data, in the form of a chain but as large as the expression needs; and the two
// sinks that the walk over an expression writes to: one counts, one builds.
//
// Everything here is close to linear: a network of hundreds of steps has to fit into the million evaluation steps that
// clang grants a constant. Nothing here knows a template of expr/. Read flatten.hpp next.
#pragma once

#include <bit>
#include <cstdint>

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
  int steps = 0, operands = 0, constants = 0, contractions = 0, poolings = 0, outputs = 0, lets = 0;
};

/// A whole expression as data. The steps are in an order in which they can run.
template <graph_size Size>
struct graph {
  inline_vector<step, static_cast<std::size_t>(Size.steps)> steps;
  inline_vector<graph_operand, static_cast<std::size_t>(Size.operands)> operands;
  inline_vector<float, static_cast<std::size_t>(Size.constants)> constants;
  inline_vector<contraction_attrs, static_cast<std::size_t>(Size.contractions)> contractions;
  inline_vector<pool_attrs, static_cast<std::size_t>(Size.poolings)> poolings;
  inline_vector<graph_output, static_cast<std::size_t>(Size.outputs)> outputs;
  inline_vector<let_entry, static_cast<std::size_t>(Size.lets)> lets;
  sinter::precision precision;
  fault broken = fault::none;  ///< the first broken rule
};

namespace detail {

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
  constexpr value_ref add_pooling(step const&, pool_attrs const&) {
    ++size.poolings;
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
  constexpr void report(fault) {}
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
    // The middle always holds. g++ 12 at -O3 takes the index of a step for one here, and warns of it.
    return v.kind == value_kind::operand && v.index < Size.operands &&
           result.operands[int{v.index}].role == r;
  }
  constexpr value_ref add_step(step const& s) {
    report(fault_of_step(s));
    for (value_ref a : s.args)
      if (has_role(a, role::weight)) report(fault::weight_outside_contraction);
    if (is_reduction(s.code) && has_role(s.args[0], role::scalar)) report(fault::scalar_reduced);
    result.steps.push_back(s);
    same_as.push_back(first_equal(s));
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
      if (same_value(known.args[1], s.args[1]) && same_value(known.args[0], s.args[0]) &&
          known.code == s.code && result.contractions[i] == attrs)
        report(fault::contraction_reused);
    }
    s.contraction = static_cast<std::int16_t>(result.contractions.ssize());
    step_of_contraction.push_back(static_cast<std::int16_t>(result.steps.ssize()));
    result.contractions.push_back(attrs);
    result.steps.push_back(s);
    same_as.push_back(static_cast<std::int16_t>(result.steps.ssize() - 1));
    return step_ref(result.steps.ssize() - 1);
  }
  constexpr value_ref add_pooling(step s, pool_attrs const& attrs) {
    report(fault_of_window(s.code, attrs));
    value_ref const image = s.args[0];
    if (image.kind == value_kind::constant || has_role(image, role::vector) ||
        has_role(image, role::scalar))
      report(fault::vector_pooled);
    s.pooling = static_cast<std::int16_t>(result.poolings.ssize());
    result.poolings.push_back(attrs);
    return add_step(s);
  }
  constexpr bool same_window(step const& a, step const& b) const {
    if (a.pooling < 0 || b.pooling < 0) return a.pooling == b.pooling;
    return result.poolings[int{a.pooling}] == result.poolings[int{b.pooling}];
  }
  /// Equal steps before a contraction are one value in two places, so that their contraction is seen to be reused.
  /// Only steps that no contraction comes before are compared: there are few.
  constexpr std::int16_t first_equal(step const& s) {
    auto const own = static_cast<std::int16_t>(result.steps.ssize() - 1);
    for (value_ref a : s.args)
      if (a.kind == value_kind::step && !comes_before_contractions(a.index)) return own;
    for (std::int16_t earlier : prologue_steps) {
      step const& known = result.steps[int{earlier}];
      if (known.code == s.code && known.to == s.to && known.alpha == s.alpha &&
          known.beta == s.beta && same_window(known, s) && same_value(known.args[0], s.args[0]) &&
          same_value(known.args[1], s.args[1]) && same_value(known.args[2], s.args[2]))
        return earlier;
    }
    prologue_steps.push_back(own);
    return own;
  }
  constexpr bool comes_before_contractions(std::int16_t index) const {
    std::int16_t const first = first_place(step_ref(index)).index;
    for (std::int16_t known : prologue_steps)
      if (known == first) return true;
    return false;
  }
  constexpr bool same_value(value_ref a, value_ref b) const {
    return first_place(a) == first_place(b);
  }
  /// The earliest step that computes the value of `v`; `v` itself where no step computes it.
  constexpr value_ref first_place(value_ref v) const {
    if (v.kind != value_kind::step || v.index < 0) return v;
    return step_ref(same_as[int{v.index}]);
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
  inline_vector<std::int16_t, static_cast<std::size_t>(Size.steps)>
      same_as;  ///< of each step, the first one equal
  inline_vector<std::int16_t, static_cast<std::size_t>(Size.steps)> prologue_steps;
};

}  // namespace detail
}  // namespace sinter::inline SINTER_ABI
