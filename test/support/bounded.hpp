// A number with a bound on how far a backend's f32 arithmetic may be from it: where tolerances come
// from.
//
// The evaluator of reference/evaluator.hpp is run with this arithmetic instead of double: value is
// the oracle's, error bounds |backend - oracle| there. With u = 2^-24:
//   sums        gamma * sum |a||b|, gamma = (K + 2) u / (1 - (K + 2) u): any order, fused or not
//               (Higham, Accuracy and Stability of Numerical Algorithms, ch. 3), with fewer than K
//               where a backend promises it (accuracy), plus what the inputs' own errors contribute, plus 2^-126 for each product (VDPBF16PS flushes
//               denormals). Integers with sum |a||b| <= 2^24 are exact.
//   steps       sup |f(t) - f(v)| over [v - e, v + e], found at its ends and at the extrema of f
//               inside (f is monotone between them); binary ops by the product, quotient ... rules;
//               a comparison that the errors can turn, and a select on it, by the whole jump.
//   rows        a sum of N values is one of N products; its mean is divided once. A largest value
//               lies between the largest lower and the largest upper end; its index is as it should
//               be where no other value may be as large, and else anything.
//   arithmetic  per op half an ulp where IEEE rounds, else the accuracy that the library promises
//               (docs/precision.md): promised() below. Exactly representable results of exact
//               inputs are exact.
//   rounding    |r(v +- e) - r(v)| for a cast, a let and the store: rounding is monotone, so
//               nothing more is needed.
// An infinite error says that nothing is promised (f32 overflows on the way, or a sign that is not
// decided).
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include <sinter/reference/evaluator.hpp>

namespace sinter_test {
using namespace sinter;

struct bounded {
  double value = 0;
  double error = 0;
  double magnitude = 0;  ///< sum |a||b| of finite products while a contraction is summed
  bool integral = true;  ///< all products so far were exact integers
};

/// How accurate the steps of the backend under test claim to be.
struct accuracy {
  double scale = 1;     ///< multiplies what is promised for exp, log, tanh and what is made of them
  double absolute = 0;  ///< added to that: units of u * (1 + |result|)
  /// Sums of more than twice as many products are made of blocks of so many; 0: of any number in any
  /// order.
  extent sum_block = 0;

  /// Additions that a product passes on its way into a sum of k of them, at most. A block that ends
  /// an odd k may have 8 more steps of the K loop, and up to four accumulators are joined.
  double additions(extent k) const {
    bool const blocks = sum_block > 0 && k > 2 * sum_block;
    return static_cast<double>(blocks ? sum_block + 8 + 2 + (k + sum_block - 1) / sum_block : k);
  }
};

namespace bounds {

inline constexpr double unit = 0x1p-24;
inline constexpr double infinite = std::numeric_limits<double>::infinity();
inline constexpr double largest = std::numeric_limits<float>::max();
inline constexpr double smallest = 0x1p-126;

/// Promised accuracy of op at input a, relative to the result, in units of u (an ulp is at most 2
/// u); absolute goes to `floor`.
inline double promised(step const& s, double a, double& floor) {
  double const alpha = std::abs(static_cast<double>(s.alpha)),
               beta = std::abs(static_cast<double>(s.beta));
  double const low_tail = a < -1 ? 256 : 8;  // 2^-16, or 4 ulp
  switch (s.code) {
    case op::exp:
    case op::log:
    case op::tanh:
    case op::sigmoid:
      return 8;
    case op::gelu_tanh:
    case op::gelu_erf:
      return low_tail;
    case op::swish:
      return static_cast<double>(s.alpha) * a < -1 ? 256 : 10;
    case op::mish:
      return a < -1 ? 256 : 16;
    case op::softplus:
      return static_cast<double>(s.alpha) * a < -1 ? 256 : 16;
    case op::elu:
      floor = 8 * unit * alpha;
      return 8;
    case op::pow:
      return 32;
    case op::hardsigmoid:
      floor = 2 * unit * (alpha * std::abs(a) + beta);
      return 1;
    case op::hardswish:
      floor = 2 * unit * std::abs(a) * (alpha * std::abs(a) + beta);
      return 2;
    default:
      return 0;
  }
}

/// Are results of this op one IEEE operation?
constexpr bool rounds_once(op code) {
  switch (code) {
    case op::leaky_relu:
    case op::sqrt:
    case op::square:
    case op::linear:
    case op::add:
    case op::sub:
    case op::mul:
    case op::div:
    case op::prelu:
    case op::fma:
      return true;
    default:
      return false;
  }
}

/// Where f may turn between two monotone pieces.
inline double turning_point(step const& s) {
  switch (s.code) {
    case op::gelu_tanh:
      return -0.7524614220710162;
    case op::gelu_erf:
      return -0.7517916243494656;
    case op::swish:
      return s.alpha == 0 ? 0 : -1.2784645427610738 / static_cast<double>(s.alpha);
    case op::mish:
      return -1.1924312145154235;
    case op::hardswish:
      return s.alpha == 0 ? 0 : -static_cast<double>(s.beta) / (2 * static_cast<double>(s.alpha));
    default:
      return 0;
  }
}

inline bool is_float(double v) { return static_cast<double>(static_cast<float>(v)) == v; }

/// Adds the op's own rounding to a propagated error and decides where nothing can be promised.
inline bounded settled(double value, double error, double relative, double floor, bool exact_op) {
  if (std::isnan(error)) error = infinite;
  if (!std::isfinite(value)) return {value, error == 0 ? 0 : infinite};
  if (std::abs(value) + error > largest) return {value, infinite};
  bool const as_is = error == 0 && is_float(value) && (value == 0 || std::abs(value) >= smallest);
  if (exact_op && as_is) return {value, 0};
  if (relative > 0 || floor > 0)
    error += relative * unit * (std::abs(value) + error) + floor + smallest;
  return {value, error};
}

template <op Code>
bounded unary(step const& s, bounded const& a, accuracy const& allowed) {
  double const alpha = s.alpha, beta = s.beta;
  double const value = unary_meaning<Code>(a.value, alpha, beta);
  double error = 0;
  if (a.error > 0) {
    double const low = a.value - a.error, high = a.value + a.error;
    for (double t : {low, high, 0.0, turning_point(s), -beta / alpha, (1 - beta) / alpha})
      if (t >= low && t <= high)
        error = std::max(error, std::abs(unary_meaning<Code>(t, alpha, beta) - value));
    if (std::isnan(unary_meaning<Code>(low, alpha, beta)) ||
        std::isnan(unary_meaning<Code>(high, alpha, beta)) || !std::isfinite(a.error))
      error = infinite;
  }
  double floor = 0;
  double const relative = promised(s, a.value, floor) * allowed.scale;
  if (relative > 0 && std::isfinite(value))
    error += allowed.absolute * unit * (1 + std::abs(value));
  return settled(value, error, rounds_once(Code) ? 1 : relative, floor * allowed.scale,
                 rounds_once(Code));
}

template <op Code>
bounded binary(bounded const& a, bounded const& b) {
  double const value = binary_meaning<Code>(a.value, b.value);
  double const product =
      std::abs(a.value) * b.error + std::abs(b.value) * a.error + a.error * b.error;
  double error = 0;
  if (a.error > 0 || b.error > 0) {
    if constexpr (Code == op::add || Code == op::sub)
      error = a.error + b.error;
    else if constexpr (Code == op::mul)
      error = product;
    else if constexpr (Code == op::div)
      error = std::abs(b.value) > b.error
                  ? (a.error + std::abs(value) * b.error) / (std::abs(b.value) - b.error)
                  : infinite;
    else if constexpr (Code == op::min || Code == op::max)
      error = std::max(a.error, b.error);
    else if constexpr (Code == op::prelu) {
      error = a.value - a.error > 0    ? a.error
              : a.value + a.error <= 0 ? product
                                       : std::max(a.error, 0.0) + product;
    } else {
      bool const open =
          std::isinf(a.error + b.error) || std::abs(a.value - b.value) <= a.error + b.error;
      error = open ? 1 : 0;  // a comparison
    }
  }
  return settled(value, error, rounds_once(Code) ? 1 : 0, 0, rounds_once(Code));
}

template <op Code>
bounded ternary(bounded const& a, bounded const& b, bounded const& c) {
  double const value = ternary_meaning<Code>(a.value, b.value, c.value);
  double error = 0;
  if constexpr (Code == op::select) {
    bool const open = a.error > 0 && !(std::abs(a.value) > a.error);  // NaN, perhaps
    error = open           ? std::abs(b.value - c.value) + b.error + c.error
            : a.value != 0 ? b.error
                           : c.error;
  } else if (a.error > 0 || b.error > 0 || c.error > 0) {
    error = std::abs(a.value) * b.error + std::abs(b.value) * a.error + a.error * b.error + c.error;
  }
  return settled(value, error, rounds_once(Code) ? 1 : 0, 0, rounds_once(Code));
}

/// A reduction's row.
struct row {
  row_state<double> values;
  bounded sum;
  double lowest = -infinite, highest = -infinite;     ///< of the largest value
  double best = 0;                                    ///< error of the value that argmax names
  double rival = -infinite, exact_rival = -infinite;  ///< upper ends of the others
  bool unknown = false;                               ///< a value has an infinite error
};

inline void take(op code, row& r, bounded const& v) {
  auto const at = r.values.at;
  double const before = r.values.value;
  bool const first = r.values.count == 0;
  visit_reduction(code, [&]<op Code>() { take_value<Code>(r.values, v.value); });
  r.unknown = r.unknown || std::isinf(v.error);
  if (std::isnan(v.value)) return;
  r.lowest = std::max(r.lowest, v.value - v.error);
  r.highest = std::max(r.highest, v.value + v.error);
  bool const beaten = first || r.values.at != at;
  double const other = beaten ? before : v.value, error = beaten ? r.best : v.error;
  if (!first) {
    double& top = error > 0 ? r.rival : r.exact_rival;
    top = std::max(top, other + error);
  }
  if (beaten) r.best = v.error;
}

inline bounded reduced(op code, row const& r) {
  double value = 0;
  visit_reduction(code, [&]<op Code>() { value = row_result<Code>(r.values); });
  if (r.unknown) return {value, infinite};
  if (code == op::row_max) {
    if (!std::isfinite(value)) return {value, 0};
    return {value, std::max(r.highest - value, value - r.lowest)};
  }
  double const low = r.values.value - r.best;
  bool const open = (r.rival > -infinite && r.rival >= low) || (r.best > 0 && r.exact_rival >= low);
  return {value, open ? infinite : 0};
}

}  // namespace bounds

struct bounded_arithmetic {
  using number = bounded;
  static inline accuracy allowed{};

  static void load(bounded* out, void const* base, dtype t, extent offset, extent stride, int n) {
    for (int j = 0; j < n; ++j) out[j] = {sinter::load<double>(base, t, offset + j * stride)};
  }
  static void fill(bounded* out, float v, int n) {
    for (int j = 0; j < n; ++j) out[j] = {static_cast<double>(v)};
  }
  static void round(bounded* values, dtype t, int n) {
    for (int j = 0; j < n; ++j) values[j] = rounded_to(t, values[j]);
  }
  static bounded rounded_to(dtype t, bounded const& v) {
    double const r = rounded(t, v.value);
    double error = 0;
    if (v.error > 0) {
      if (!std::isfinite(v.error)) return {r, bounds::infinite};
      error = std::max(std::abs(rounded(t, v.value + v.error) - r),
                       std::abs(rounded(t, v.value - v.error) - r));
      if (std::isnan(error)) error = bounds::infinite;
    }
    if (v.value != 0 && std::abs(v.value) - v.error < bounds::smallest) error += bounds::smallest;
    return {r, error};
  }
  static void apply(step const& s, bounded* out, bounded const* const (&args)[3], int n) {
    visit_pointwise(s.code, [&]<op Code>() {
      constexpr op_class kind = row_of(Code).kind;
      for (int j = 0; j < n; ++j) {
        if constexpr (kind == op_class::unary)
          out[j] = bounds::unary<Code>(s, args[0][j], allowed);
        else if constexpr (kind == op_class::binary)
          out[j] = bounds::binary<Code>(args[0][j], args[1][j]);
        else
          out[j] = bounds::ternary<Code>(args[0][j], args[1][j], args[2][j]);
      }
    });
  }
  /// A sum is one of products with 1; a mean is that, divided once.
  using row = bounds::row;
  static void take(op code, row& r, bounded const* values, int n) {
    bool const sums = code == op::row_sum || code == op::row_mean;
    for (int j = 0; j < n; ++j) {
      if (sums) {
        add_product(r.sum, values[j], {1});
        ++r.values.count;
      } else {
        bounds::take(code, r, values[j]);
      }
    }
  }
  static bounded reduced(op code, row const& r) {
    if (code != op::row_sum && code != op::row_mean) return bounds::reduced(code, r);
    bounded sum = r.sum;
    finish(&sum, r.values.count, 1);
    if (code == op::row_sum) return sum;
    return bounds::binary<op::div>(sum, {static_cast<double>(r.values.count)});
  }

  /// A window's sum is one of products with 1; its mean is that, divided once.
  static void take_pixel(op code, bounded* window, bounded const* pixel, bool first, int n) {
    for (int j = 0; j < n; ++j) {
      if (code == op::max_pool) {
        window[j] = first ? pixel[j] : bounds::binary<op::max>(window[j], pixel[j]);
      } else {
        if (first) window[j] = {};
        add_product(window[j], pixel[j], {1});
        if (first) window[j].value = pixel[j].value;  // a sum begins with its first value: -0 too
      }
    }
  }
  static void divide(bounded* sums, extent count, int n) {
    finish(sums, count, n);
    for (int j = 0; j < n; ++j)
      sums[j] = bounds::binary<op::div>(sums[j], {static_cast<double>(count)});
  }

  static void add_product(bounded& sum, bounded const& a, bounded const& b) {
    double const product = a.value * b.value;
    sum.value += product;
    if (std::isfinite(product)) sum.magnitude += std::abs(product);
    if (a.error > 0 || b.error > 0) {
      double const part =
          std::abs(a.value) * b.error + std::abs(b.value) * a.error + a.error * b.error;
      sum.error += std::isnan(part) ? bounds::infinite : part;
    }
    sum.integral = sum.integral && a.error == 0 && b.error == 0 && std::trunc(a.value) == a.value &&
                   std::trunc(b.value) == b.value;
  }
  static void add_products(bounded* sums, bounded a, bounded const* b, int n) {
    for (int j = 0; j < n; ++j) add_product(sums[j], a, b[j]);
  }
  static void add_dot(bounded& sum, bounded const* a, bounded const* b, int n) {
    for (int j = 0; j < n; ++j) add_product(sum, a[j], b[j]);
  }
  static void finish(bounded* sums, extent products, int n) {
    double const k = (allowed.additions(products) + 2) * bounds::unit;
    for (int j = 0; j < n; ++j) {
      bounded& s = sums[j];
      double error = s.error;
      if (std::isnan(s.value) && error < bounds::infinite) {
        error = 0;  // NaN in any order
      } else if (!(s.magnitude + error <= bounds::largest)) {
        error = bounds::infinite;  // a partial sum may overflow
      } else if (std::isinf(s.value)) {
        error = 0;
      } else if (!(s.integral && s.magnitude <= 0x1p24)) {
        error +=
            k / (1 - k) * (s.magnitude + error) + static_cast<double>(products) * bounds::smallest;
      }
      s = {s.value, error};
    }
  }
};

}  // namespace sinter_test
