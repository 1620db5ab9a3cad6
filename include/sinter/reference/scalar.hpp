// The scalar meaning of every row of core/op.hpp, for any real type: double in the oracle, float in
// a pass.
//
// This is where "strict" is defined; docs/precision.md has the same as tables. Three rules make the
// special values:
//   1. NaN in gives NaN out, but for comparisons, select and pow(NaN, 0) = 1 (C's rule).
//   2. a * g(a) with a gate g that vanishes at -Inf is -0 there, as for large finite negative a.
//   3. No finite input gives NaN, except outside the domain of sqrt, log, pow and 0 / 0.
// Formulas are chosen to keep relative accuracy where the textbook form cancels or overflows. Step
// by step arithmetic only: fusing belongs to linear and fma. Knows nothing of chains. Read
// reference/evaluate.hpp next.
#pragma once

#include <cmath>
#include <concepts>
#include <limits>
#include <utility>

#include "../core/dtype.hpp"
#include "../core/op.hpp"
#include "../core/shape.hpp"

#if defined(__FAST_MATH__) || (defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__ != 0)
#error "sinter: -ffast-math is set here; the rules for NaN and infinities need IEEE arithmetic"
#endif

namespace sinter::inline SINTER_ABI {
namespace detail {

template <op>
inline constexpr bool has_meaning = false;

/// a * gate, where gate is in [0, 1]: 0 with the sign of a where the gate is shut, a infinite or
/// not.
template <std::floating_point Real>
Real gated(Real a, Real gate) {
  return gate == 0 ? std::copysign(Real{0}, a) : a * gate;
}

template <std::floating_point Real>
Real sigmoid(Real a) {
  Real const e = std::exp(-std::abs(a));  // at most 1: neither overflow nor cancellation
  return (a < 0 ? e : Real{1}) / (1 + e);
}

/// min(max(a, low), high) that keeps NaN and the sign of zero.
template <std::floating_point Real>
Real clamp(Real a, Real low, Real high) {
  return a < low ? low : a > high ? high : a;
}

template <std::floating_point Real>
Real gelu_tanh(Real a) {
  // 1/2 (1 + tanh(u)) = sigmoid(2u)
  Real const u = Real(0.79788456080286535588L) * (a + Real(0.044715L) * a * a * a);
  return gated(a, sigmoid(2 * u));
}
template <std::floating_point Real>
Real gelu_erf(Real a) {
  return gated(a, std::erfc(-a * Real(0.70710678118654752440L)) / 2);
}
template <std::floating_point Real>
Real swish(Real a, Real alpha) {
  return gated(a, alpha == 0 ? (a != a ? a : Real{0.5}) : sigmoid(alpha * a));
}
template <std::floating_point Real>
Real mish(Real a) {
  // tanh(log(1 + e^a)) = (e^2a + 2 e^a) / (e^2a + 2 e^a + 2), in n = e^-|a| to stay finite
  Real const n = std::exp(-std::abs(a));
  Real const gate = a < 0 ? n * (n + 2) / (n * (n + 2) + 2) : (1 + 2 * n) / (1 + 2 * n + 2 * n * n);
  return gated(a, gate);
}
template <std::floating_point Real>
Real softplus(Real a, Real alpha) {
  Real const t = alpha * a;
  return ((t > 0 ? t : Real{0}) + std::log1p(std::exp(-std::abs(t)))) / alpha;
}
/// To nearest, ties to even, whatever the rounding mode of the caller.
template <std::floating_point Real>
Real round_even(Real a) {
  Real const whole = std::trunc(a);
  Real const rest = std::abs(a - whole);
  bool const odd = std::trunc(whole / 2) * 2 != whole;
  bool const away = rest > Real{0.5} || (rest == Real{0.5} && odd);
  return std::copysign(away ? std::abs(whole) + 1 : std::abs(whole), a);
}
template <std::floating_point Real>
Real smaller(Real a, Real b) {
  return a != a ? a : b != b ? b : b < a ? b : a;
}
template <std::floating_point Real>
Real larger(Real a, Real b) {
  return a != a ? a : b != b ? b : b > a ? b : a;
}
template <std::floating_point Real>
Real truth(bool v) {
  return v ? Real{1} : Real{0};
}

}  // namespace detail

// clang-format off: a table, one row a line

/// One unary op; `alpha` and `beta` as its row says.
template <op Code, class Real>
Real unary_meaning(Real a, [[maybe_unused]] Real alpha, [[maybe_unused]] Real beta) {
  using namespace detail;
  if constexpr (Code == op::relu)
    return a > 0 || a != a ? a : Real{0};
  else if constexpr (Code == op::leaky_relu)
    return a > 0 ? a : alpha * a;
  else if constexpr (Code == op::elu)
    return a > 0 ? a : alpha * std::expm1(a);
  else if constexpr (Code == op::clip)
    return clamp(a, alpha, beta);
  else if constexpr (Code == op::abs)
    return std::abs(a);
  else if constexpr (Code == op::neg)
    return -a;
  else if constexpr (Code == op::sqrt)
    return std::sqrt(a);
  else if constexpr (Code == op::square)
    return a * a;
  else if constexpr (Code == op::exp)
    return std::exp(a);
  else if constexpr (Code == op::log)
    return std::log(a);
  else if constexpr (Code == op::tanh)
    return std::tanh(a);
  else if constexpr (Code == op::sigmoid)
    return detail::sigmoid(a);
  else if constexpr (Code == op::gelu_tanh)
    return detail::gelu_tanh(a);
  else if constexpr (Code == op::gelu_erf)
    return detail::gelu_erf(a);
  else if constexpr (Code == op::swish)
    return detail::swish(a, alpha);
  else if constexpr (Code == op::hardsigmoid)
    return clamp(alpha * a + beta, Real{0}, Real{1});
  else if constexpr (Code == op::hardswish)
    return gated(a, clamp(alpha * a + beta, Real{0}, Real{1}));
  else if constexpr (Code == op::mish)
    return detail::mish(a);
  else if constexpr (Code == op::softplus)
    return detail::softplus(a, alpha);
  else if constexpr (Code == op::pow)
    return alpha * std::pow(a, beta);
  else if constexpr (Code == op::round)
    return round_even(a);
  else if constexpr (Code == op::linear)
    return std::fma(alpha, a, beta);
  else
    static_assert(has_meaning<Code>, "sinter: a row of core/op.hpp has no meaning here");
}

template <op Code, class Real>
Real binary_meaning(Real a, Real b) {
  using namespace detail;
  if constexpr (Code == op::add)
    return a + b;
  else if constexpr (Code == op::sub)
    return a - b;
  else if constexpr (Code == op::mul)
    return a * b;
  else if constexpr (Code == op::div)
    return a / b;
  else if constexpr (Code == op::min)
    return smaller(a, b);
  else if constexpr (Code == op::max)
    return larger(a, b);
  else if constexpr (Code == op::eq)
    return truth<Real>(a == b);
  else if constexpr (Code == op::ne)
    return truth<Real>(a != b);
  else if constexpr (Code == op::lt)
    return truth<Real>(a < b);
  else if constexpr (Code == op::le)
    return truth<Real>(a <= b);
  else if constexpr (Code == op::gt)
    return truth<Real>(a > b);
  else if constexpr (Code == op::ge)
    return truth<Real>(a >= b);
  else if constexpr (Code == op::prelu)
    return a > 0 ? a : b * a;
  else
    static_assert(has_meaning<Code>, "sinter: a row of core/op.hpp has no meaning here");
}

template <op Code, class Real>
Real ternary_meaning(Real a, Real b, Real c) {
  if constexpr (Code == op::select)
    return a != 0 ? b : c;
  else if constexpr (Code == op::fma)
    return std::fma(a, b, c);
  else
    static_assert(detail::has_meaning<Code>, "sinter: a row of core/op.hpp has no meaning here");
}

// clang-format on

/// What a reduction knows of the values of a row that it has taken, in order.
template <class Real>
struct row_state {
  Real value = 0;
  extent at = 0;  ///< argmax: the index of `value`
  extent count = 0;
};

/// The next value of the row.
template <op Code, class Real>
void take_value(row_state<Real>& row, Real v) {
  if constexpr (Code == op::row_sum || Code == op::row_mean) {
    row.value += v;
  } else if constexpr (Code == op::row_max) {
    row.value = row.count == 0 ? v : detail::larger(row.value, v);
  } else if constexpr (Code == op::argmax) {
    bool const beats = v > row.value || v != v;
    if (row.count == 0 || (row.value == row.value && beats)) {
      row.value = v;
      row.at = row.count;
    }
  } else {
    static_assert(detail::has_meaning<Code>, "sinter: a row of core/op.hpp has no meaning here");
  }
  ++row.count;
}

/// The value of the row, all of it taken; rows may be empty.
template <op Code, class Real>
Real row_result(row_state<Real> const& row) {
  if constexpr (Code == op::row_mean)
    return row.count == 0 ? std::numeric_limits<Real>::quiet_NaN()
                          : row.value / static_cast<Real>(row.count);
  else if constexpr (Code == op::row_max)
    return row.count == 0 ? -std::numeric_limits<Real>::infinity() : row.value;
  else if constexpr (Code == op::argmax)
    return static_cast<Real>(row.at);
  else
    return row.value;
}

/// Any pointwise op but cast, which is rounded().
template <op Code, class Real>
Real meaning(Real a, Real b, Real c, Real alpha, Real beta) {
  constexpr op_class kind = row_of(Code).kind;
  if constexpr (kind == op_class::unary)
    return unary_meaning<Code>(a, alpha, beta);
  else if constexpr (kind == op_class::binary)
    return binary_meaning<Code>(a, b);
  else
    return ternary_meaning<Code>(a, b, c);
}

constexpr bool is_pointwise(op code) {
  op_class const kind = row_of(code).kind;
  return kind == op_class::unary || kind == op_class::binary || kind == op_class::ternary;
}

namespace detail {

template <bool (*Wanted)(op), class F, std::size_t... Index>
void visit(op code, F&& f, std::index_sequence<Index...>) {
  auto const one = [&]<op Code>() {
    if constexpr (Wanted(Code)) f.template operator()<Code>();
    return true;
  };
  (void)((static_cast<std::size_t>(code) == Index &&
          one.template operator()<static_cast<op>(Index)>()) ||
         ...);
}

}  // namespace detail

/// Calls f.template operator()<code>() for a pointwise op: one switch, outside the loops. This
/// instantiates every row, so an op without a meaning does not compile.
template <class F>
void visit_pointwise(op code, F&& f) {
  detail::visit<is_pointwise>(code, std::forward<F>(f),
                              std::make_index_sequence<std::size_t{op_count}>{});
}
/// The same for a reduction.
template <class F>
void visit_reduction(op code, F&& f) {
  detail::visit<is_reduction>(code, std::forward<F>(f),
                              std::make_index_sequence<std::size_t{op_count}>{});
}

// ---- rounding to a dtype -----------------------------------------------------------------

namespace detail {

/// A float that rounds to any narrower format as v itself does: v cut, its last bit set if anything
/// was cut off.
inline float round_to_odd(double v) {
  auto const f = static_cast<float>(v);
  if (static_cast<double>(f) == v || v != v) return f;
  auto bits = std::bit_cast<std::uint32_t>(f);
  if (std::abs(static_cast<double>(f)) > std::abs(v)) --bits;
  return std::bit_cast<float>(bits | 1U);
}

/// To nearest, ties to even, then into range; NaN is 0.
template <class Real>
Real round_to_integer(Real v, Real low, Real high) {
  return v != v ? Real{0} : clamp(round_even(v), low, high);
}

}  // namespace detail

/// v as it is after a store to t and a load: rounded once, to nearest even. Integers saturate, NaN
/// gives 0.
inline double rounded(dtype t, double v) {
  switch (t) {
    case dtype::f32:
      return static_cast<double>(static_cast<float>(v));
    case dtype::bf16:
      return static_cast<double>(to_float(to_bfloat16(detail::round_to_odd(v))));
    case dtype::f16:
      return static_cast<double>(to_float(to_float16(detail::round_to_odd(v))));
    case dtype::s32:
      return detail::round_to_integer(v, -2147483648.0, 2147483647.0);
    case dtype::s8:
      return detail::round_to_integer(v, -128.0, 127.0);
    case dtype::u8:
      return detail::round_to_integer(v, 0.0, 255.0);
  }
  return v;
}
/// 2147483520 is the largest float in the range of s32.
inline float rounded(dtype t, float v) {
  switch (t) {
    case dtype::f32:
      return v;
    case dtype::bf16:
      return to_float(to_bfloat16(v));
    case dtype::f16:
      return to_float(to_float16(v));
    case dtype::s32:
      return detail::round_to_integer(v, -2147483648.0F, 2147483520.0F);
    case dtype::s8:
      return detail::round_to_integer(v, -128.0F, 127.0F);
    case dtype::u8:
      return detail::round_to_integer(v, 0.0F, 255.0F);
  }
  return v;
}

/// Element i of an array of dtype t. Exact in double; in float but for s32 beyond 2^24.
template <class Real>
Real load(void const* base, dtype t, extent i) {
  if (t == dtype::s32) return static_cast<Real>(static_cast<std::int32_t const*>(base)[i]);
  return static_cast<Real>(load_as_float(base, t, i));
}

/// Rounds v to t and writes it as element i.
template <class Real>
void store(void* base, dtype t, extent i, Real v) {
  Real const r = rounded(t, v);
  switch (t) {
    case dtype::f32:
      static_cast<float*>(base)[i] = static_cast<float>(r);
      break;
    case dtype::bf16:
      static_cast<bfloat16*>(base)[i] = to_bfloat16(static_cast<float>(r));
      break;
    case dtype::f16:
      static_cast<float16*>(base)[i] = to_float16(static_cast<float>(r));
      break;
    case dtype::s32:
      static_cast<std::int32_t*>(base)[i] = static_cast<std::int32_t>(r);
      break;
    case dtype::s8:
      static_cast<std::int8_t*>(base)[i] = static_cast<std::int8_t>(r);
      break;
    case dtype::u8:
      static_cast<std::uint8_t*>(base)[i] = static_cast<std::uint8_t>(r);
      break;
  }
}

}  // namespace sinter::inline SINTER_ABI
