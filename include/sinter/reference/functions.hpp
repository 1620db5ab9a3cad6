// The language's functions on plain numbers: sinter::sigmoid(0.5F). A lambda written for map() therefore runs on a float
// or a double as it does on an expression, so that a user can test it by itself.
//
// The meaning is reference/scalar.hpp's, the same as the oracle's. Templates on purpose: beside a non-template overload
// of the same name (std::exp under a using-directive) that one wins, and nothing becomes ambiguous.
#pragma once

#include <concepts>

#include "scalar.hpp"

namespace sinter::inline SINTER_ABI {

template <std::floating_point Real>
Real relu6(Real a) {
  return unary_meaning<op::clip>(a, Real{0}, Real{6});
}
template <std::floating_point Real>
Real silu(Real a) {
  return unary_meaning<op::swish>(a, Real{1}, Real{0});
}
template <std::floating_point Real>
Real select(Real condition, std::type_identity_t<Real> a, std::type_identity_t<Real> b) {
  return ternary_meaning<op::select>(condition, a, b);
}
template <std::floating_point Real>
Real select(bool condition, Real a, std::type_identity_t<Real> b) {
  return condition ? a : b;
}
template <std::floating_point Real>
Real prelu(Real a, std::type_identity_t<Real> slope) {
  return binary_meaning<op::prelu>(a, slope);
}
/// scale * a^exponent
template <std::floating_point Real>
Real pow(Real a, std::type_identity_t<Real> exponent, std::type_identity_t<Real> scale = Real{1}) {
  return unary_meaning<op::pow>(a, scale, exponent);
}
template <std::floating_point Real>
Real(min)(Real a, std::type_identity_t<Real> b) {
  return binary_meaning<op::min>(a, b);
}
template <std::floating_point Real>
Real(max)(Real a, std::type_identity_t<Real> b) {
  return binary_meaning<op::max>(a, b);
}
template <std::floating_point Real>
Real fma(Real a, std::type_identity_t<Real> b, std::type_identity_t<Real> c) {
  return ternary_meaning<op::fma>(a, b, c);
}

// The unary rows that take a value and, as their row says, none, one or two parameters.
#define SINTER_DETAIL_FUNCTION(code)                                             \
  template <std::floating_point Real>                                            \
  Real code(Real a) {                                                            \
    return unary_meaning<op::code>(a, static_cast<Real>(row_of(op::code).alpha), \
                                   static_cast<Real>(row_of(op::code).beta));    \
  }
#define SINTER_DETAIL_FUNCTION_ALPHA(code)                                              \
  template <std::floating_point Real>                                                   \
  Real code(Real a, std::type_identity_t<Real> alpha) {                                 \
    return unary_meaning<op::code>(a, alpha, static_cast<Real>(row_of(op::code).beta)); \
  }
#define SINTER_DETAIL_FUNCTION_ALPHA_BETA(code)                                          \
  template <std::floating_point Real>                                                    \
  Real code(Real a, std::type_identity_t<Real> alpha, std::type_identity_t<Real> beta) { \
    return unary_meaning<op::code>(a, alpha, beta);                                      \
  }
SINTER_DETAIL_FUNCTION(relu)
SINTER_DETAIL_FUNCTION(leaky_relu)
SINTER_DETAIL_FUNCTION_ALPHA(leaky_relu)
SINTER_DETAIL_FUNCTION(elu)
SINTER_DETAIL_FUNCTION_ALPHA(elu)
SINTER_DETAIL_FUNCTION_ALPHA_BETA(clip)
SINTER_DETAIL_FUNCTION(abs)
SINTER_DETAIL_FUNCTION(sqrt)
SINTER_DETAIL_FUNCTION(square)
SINTER_DETAIL_FUNCTION(exp)
SINTER_DETAIL_FUNCTION(log)
SINTER_DETAIL_FUNCTION(tanh)
SINTER_DETAIL_FUNCTION(sigmoid)
SINTER_DETAIL_FUNCTION(gelu_tanh)
SINTER_DETAIL_FUNCTION(gelu_erf)
SINTER_DETAIL_FUNCTION(swish)
SINTER_DETAIL_FUNCTION_ALPHA(swish)
SINTER_DETAIL_FUNCTION(hardsigmoid)
SINTER_DETAIL_FUNCTION_ALPHA_BETA(hardsigmoid)
SINTER_DETAIL_FUNCTION(hardswish)
SINTER_DETAIL_FUNCTION_ALPHA_BETA(hardswish)
SINTER_DETAIL_FUNCTION(mish)
SINTER_DETAIL_FUNCTION(softplus)
SINTER_DETAIL_FUNCTION_ALPHA(softplus)
SINTER_DETAIL_FUNCTION(round)
SINTER_DETAIL_FUNCTION_ALPHA_BETA(linear)
#undef SINTER_DETAIL_FUNCTION
#undef SINTER_DETAIL_FUNCTION_ALPHA
#undef SINTER_DETAIL_FUNCTION_ALPHA_BETA

}  // namespace sinter::inline SINTER_ABI
