// The chain: one fused group as plain data, the only thing that backends ever see of an expression.
//
// Steps are in SSA form: step i defines value i and names the values it reads, each an operand, an earlier step or a
// constant. A contraction is a step too (an anchor), so a prologue step stands before it, an epilogue step after it,
// and a second anchor needs nothing new; so is a pooling, and what follows it has the extents that it leaves. `outputs`
// says which values are stored, and as what. The text form
//   conv2d(x, w) | add b:vector | add r:tensor | relu
// is the same in tests, the cache, logs and docs. Templates end here: flatten.hpp makes a graph, partition.hpp cuts it
// into chains, and neither jit/ nor backend/ includes anything above this file.
#pragma once

#include <bit>
#include <cstdint>
#include <string_view>

#include "../base/inline_vector.hpp"
#include "../core/dtype.hpp"
#include "../core/op.hpp"
#include "../core/operand_role.hpp"
#include "../core/precision.hpp"
#include "../core/shape.hpp"

namespace sinter::inline SINTER_ABI {

enum class value_kind : unsigned char { none, operand, step, constant };

/// What a step reads: the index is into operands, steps or constants.
struct value_ref {
  value_kind kind = value_kind::none;
  std::int16_t index = -1;
  friend constexpr bool operator==(value_ref const&, value_ref const&) = default;
};

/// Equality of floats in a cache key: 0 and -0 are two values, NaN equals itself.
constexpr bool same_bits(float a, float b) {
  return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
}

struct step {
  op code = op::relu;
  dtype to = dtype::f32;  ///< op::cast only
  float alpha = 0, beta = 0;
  value_ref args[3];
  std::int16_t contraction = -1;  ///< index into contractions, for an anchor
  std::int16_t pooling = -1;      ///< index into poolings, for a pooling
  /// A rounding point: the value is rounded to the precision's src dtype, stored or not (a let).
  bool rounded = false;
  friend constexpr bool operator==(step const& a, step const& b) {
    return a.code == b.code && a.to == b.to && same_bits(a.alpha, b.alpha) &&
           same_bits(a.beta, b.beta) && a.args[0] == b.args[0] && a.args[1] == b.args[1] &&
           a.args[2] == b.args[2] && a.contraction == b.contraction && a.pooling == b.pooling &&
           a.rounded == b.rounded;
  }
};

using name_text = inline_string<39>;

struct operand {
  name_text name;
  sinter::role role = sinter::role::tensor;
  dtype type = dtype::f32;
  /// Not bound by the user: made by an earlier group.
  bool internal = false;
  /// Extents said in the leaf's type; empty where compile() gives them.
  shape static_dims;
  friend constexpr bool operator==(operand const&, operand const&) = default;
};

struct output {
  name_text name;
  value_ref value;  ///< a step
  dtype type = dtype::f32;
  bool internal = false;  ///< an intermediate that a later group reads
  friend constexpr bool operator==(output const&, output const&) = default;
};

template <int Steps, int Operands, int Constants, int Contractions, int Poolings, int Outputs>
struct basic_chain {
  inline_vector<step, static_cast<std::size_t>(Steps)> steps;
  inline_vector<operand, static_cast<std::size_t>(Operands)> operands;
  inline_vector<float, static_cast<std::size_t>(Constants)> constants;
  inline_vector<contraction_attrs, static_cast<std::size_t>(Contractions)> contractions;
  inline_vector<pool_attrs, static_cast<std::size_t>(Poolings)> poolings;
  inline_vector<output, static_cast<std::size_t>(Outputs)> outputs;
  sinter::precision precision;

  friend constexpr bool operator==(basic_chain const& a, basic_chain const& b) {
    if (a.constants.size() != b.constants.size()) return false;
    for (int i = 0; i < a.constants.ssize(); ++i)
      if (!same_bits(a.constants[i], b.constants[i])) return false;
    return a.steps == b.steps && a.operands == b.operands && a.contractions == b.contractions &&
           a.poolings == b.poolings && a.outputs == b.outputs && a.precision == b.precision;
  }

  /// Index of the first contraction among the steps; -1 for a chain of pointwise steps only.
  constexpr int anchor() const {
    for (int i = 0; i < steps.ssize(); ++i)
      if (steps[i].contraction >= 0) return i;
    return -1;
  }
  constexpr contraction_attrs const& attrs(step const& s) const {
    return contractions[int{s.contraction}];
  }
  /// Index of the first pooling among the steps; -1 where there is none.
  constexpr int pooling() const {
    for (int i = 0; i < steps.ssize(); ++i)
      if (steps[i].pooling >= 0) return i;
    return -1;
  }
  constexpr pool_attrs const& window(step const& s) const { return poolings[int{s.pooling}]; }
  /// How many arguments of steps (not outputs) read this value.
  constexpr int uses(value_ref v) const {
    int n = 0;
    for (step const& s : steps)
      for (value_ref a : s.args)
        if (a == v) ++n;
    return n;
  }
};

inline constexpr int max_steps = 64;
inline constexpr int max_operands = 32;
inline constexpr int max_constants = 32;
inline constexpr int max_contractions = 2;
inline constexpr int max_poolings = 1;
inline constexpr int max_outputs = 4;

using chain = basic_chain<max_steps, max_operands, max_constants, max_contractions, max_poolings,
                          max_outputs>;

constexpr value_ref operand_ref(int i) {
  return {value_kind::operand, static_cast<std::int16_t>(i)};
}
constexpr value_ref step_ref(int i) { return {value_kind::step, static_cast<std::int16_t>(i)}; }
constexpr value_ref constant_ref(int i) {
  return {value_kind::constant, static_cast<std::int16_t>(i)};
}

}  // namespace sinter::inline SINTER_ABI
