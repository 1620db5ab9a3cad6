// Reductions along rows, and what is made of them: softmax, log_softmax, layer_norm, rms_norm.
//
//   constexpr auto shares = sinter::softmax(sinter::matmul(x, w) + b);
//
// A reduction is a row of core/op.hpp; everything else is an expression. Where that reads a value twice, map() holds
// it: computed once, and not rounded as a let would be. Read plan/flatten.hpp next.
#pragma once

#include "ops.hpp"

namespace sinter::inline SINTER_ABI {

namespace detail {

template <op Code, class A>
constexpr auto reduction(A const& a) {
  static_assert(row_of(Code).kind == op_class::reduction);
  return pointwise<Code, term_type<A>>{as_term(a), {}, {}, 0, 0, dtype::f32};
}

}  // namespace detail

/// ...,N to ...,1: each reads the rows along the last axis. The result broadcasts back as it is.
constexpr auto row_sum(expression auto const& a) { return detail::reduction<op::row_sum>(a); }
/// The sum divided by N; NaN where N is 0.
constexpr auto row_mean(expression auto const& a) { return detail::reduction<op::row_mean>(a); }
/// NaN if any value is; -Inf where N is 0.
constexpr auto row_max(expression auto const& a) { return detail::reduction<op::row_max>(a); }
/// The index of the first largest value, the first NaN counting as such; N up to 2^24.
constexpr auto argmax(expression auto const& a) { return detail::reduction<op::argmax>(a); }

namespace detail {

// What map() calls below. Lambdas inside templates would carry the type of the whole value in their own.
// One number of a row is divided, the others are multiplied: a division takes the time of ten products.
inline constexpr auto less_largest = [](auto row) { return row - row_max(row); };
inline constexpr auto exp_less_largest = [](auto row) { return exp(row - row_max(row)); };
inline constexpr auto share = [](auto row) { return row * (1.0F / row_sum(row)); };
inline constexpr auto less_log_sum = [](auto row) { return row - log(row_sum(exp(row))); };
inline constexpr auto less_mean = [](auto row) { return row - row_mean(row); };
struct over_root_mean_square {
  float eps;
  constexpr auto operator()(auto row) const {
    return row * (1.0F / sqrt(row_mean(square(row)) + eps));
  }
};

}  // namespace detail

/// e * (1 / row_sum(e)) with e = exp(v - row_max(v)).
template <expression V>
constexpr auto softmax(V const& v) {
  return map(map(v, detail::exp_less_largest), detail::share);
}
/// d - log(row_sum(exp(d))) with d = v - row_max(v).
template <expression V>
constexpr auto log_softmax(V const& v) {
  return map(map(v, detail::less_largest), detail::less_log_sum);
}

/// v * (1 / sqrt(row_mean(square(v)) + eps))
template <expression V>
constexpr auto rms_norm(V const& v, float eps = 1e-5F) {
  return map(v, detail::over_root_mean_square{eps});
}
/// ... * scale
template <expression V, expression Scale>
constexpr auto rms_norm(V const& v, Scale const& scale, float eps = 1e-5F) {
  return rms_norm(v, eps) * scale;
}

/// d * (1 / sqrt(row_mean(square(d)) + eps)) with d = v - row_mean(v).
template <expression V>
constexpr auto layer_norm(V const& v, float eps = 1e-5F) {
  return rms_norm(map(v, detail::less_mean), eps);
}
/// ... * scale + shift
template <expression V, expression Scale, expression Shift>
constexpr auto layer_norm(V const& v, Scale const& scale, Shift const& shift, float eps = 1e-5F) {
  return layer_norm(v, eps) * scale + shift;
}

}  // namespace sinter::inline SINTER_ABI
