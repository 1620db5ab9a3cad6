// Plain arithmetic on short runs of numbers: what the evaluator is made of, in double (the oracle)
// or float (a pass).
//
// An Arithmetic is a policy: a number type with load, fill, rounding, the pointwise ops, sums of
// products, reductions of rows and windows. Another one (a number with an error bound) lives with the tests. The op is looked up
// once per run, outside the element loop, so that compilers can vectorise. Read
// reference/evaluator.hpp next.
#pragma once

#include "../plan/chain.hpp"
#include "scalar.hpp"

namespace sinter::inline SINTER_ABI {

template <class Real>
struct plain_arithmetic {
  using number = Real;

  static void load(Real* out, void const* base, dtype t, extent offset, extent stride, int n) {
    switch (t) {
      case dtype::f32:
        return gather<float>(out, base, offset, stride, n);
      case dtype::bf16:
        return gather<bfloat16>(out, base, offset, stride, n);
      case dtype::f16:
        return gather<float16>(out, base, offset, stride, n);
      case dtype::s32:
        return gather<std::int32_t>(out, base, offset, stride, n);
      case dtype::s8:
        return gather<std::int8_t>(out, base, offset, stride, n);
      case dtype::u8:
        return gather<std::uint8_t>(out, base, offset, stride, n);
    }
  }
  static void fill(Real* out, float v, int n) {
    for (int j = 0; j < n; ++j) out[j] = static_cast<Real>(v);
  }
  static void round(Real* values, dtype t, int n) {
    if (t == dtype::f32 && sizeof(Real) == sizeof(float)) return;
    for (int j = 0; j < n; ++j) values[j] = rounded(t, values[j]);
  }

  /// out = the meaning of a pointwise step; as many args as its arity.
  static void apply(step const& s, Real* out, Real const* const (&args)[3], int n) {
    Real const alpha = static_cast<Real>(s.alpha), beta = static_cast<Real>(s.beta);
    Real const *a = args[0], *b = args[1], *c = args[2];
    visit_pointwise(s.code, [&]<op Code>() {
      constexpr op_class kind = row_of(Code).kind;
      if constexpr (kind == op_class::unary) {
        for (int j = 0; j < n; ++j) out[j] = unary_meaning<Code>(a[j], alpha, beta);
      } else if constexpr (kind == op_class::binary) {
        for (int j = 0; j < n; ++j) out[j] = binary_meaning<Code>(a[j], b[j]);
      } else {
        for (int j = 0; j < n; ++j) out[j] = ternary_meaning<Code>(a[j], b[j], c[j]);
      }
    });
  }

  /// A reduction takes the next n values of its row.
  using row = row_state<Real>;
  static void take(op code, row& r, Real const* values, int n) {
    visit_reduction(code, [&]<op Code>() {
      for (int j = 0; j < n; ++j) take_value<Code>(r, values[j]);
    });
  }
  static Real reduced(op code, row const& r) {
    Real result{};
    visit_reduction(code, [&]<op Code>() { result = row_result<Code>(r); });
    return result;
  }

  /// A window takes one more pixel, n channels of it: the largest, or the sum.
  static void take_pixel(op code, Real* window, Real const* pixel, bool first, int n) {
    for (int j = 0; j < n; ++j)
      window[j] = first                  ? pixel[j]
                  : code == op::max_pool ? detail::larger(window[j], pixel[j])
                                         : window[j] + pixel[j];
  }
  /// The sums of windows become means.
  static void divide(Real* sums, extent count, int n) {
    for (int j = 0; j < n; ++j) sums[j] /= static_cast<Real>(count);
  }

  /// sums[j] += a * b[j]
  static void add_products(Real* sums, Real a, Real const* b, int n) {
    for (int j = 0; j < n; ++j) sums[j] += a * b[j];
  }
  /// sum += a[0] * b[0] + ...
  static void add_dot(Real& sum, Real const* a, Real const* b, int n) {
    for (int j = 0; j < n; ++j) sum += a[j] * b[j];
  }
  /// The sums are complete: each has this many products.
  static void finish(Real*, extent /*products*/, int /*n*/) {}

 private:
  template <class T>
  static Real widen(T v) {
    if constexpr (requires { to_float(v); } && !std::is_arithmetic_v<T>) {
      return static_cast<Real>(to_float(v));
    } else {
      return static_cast<Real>(v);
    }
  }
  template <class T>
  static void gather(Real* out, void const* base, extent offset, extent stride, int n) {
    T const* p = static_cast<T const*>(base) + offset;
    if (stride == 1) {
      for (int j = 0; j < n; ++j) out[j] = widen(p[j]);
    } else {
      for (int j = 0; j < n; ++j) out[j] = widen(p[j * stride]);
    }
  }
};

/// Writes n values as elements of dtype t, rounded once.
template <class Real>
void scatter(void* base, dtype t, extent offset, extent stride, Real const* values, int n) {
  for (int j = 0; j < n; ++j) store(base, t, offset + j * stride, values[j]);
}

}  // namespace sinter::inline SINTER_ABI
