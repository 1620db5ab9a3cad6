// How a result of a unary emitter is judged: the oracle's value, the bound of its row in
// jit/eltwise.hpp, NaN for NaN, and the sign of zero. The worst that was seen is kept for a row of
// docs/precision.md's table.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <limits>
#include <sinter/reference/scalar.hpp>
#include <span>
#include <string>
#include <vector>

#include "pointwise_loop.hpp"

namespace sinter_test {
using namespace sinter;

struct unary_case {
  op code;
  float alpha = 0, beta = 0;
};
/// The oracle's values; the op is looked up once.
inline void exact(unary_case const& c, std::span<float const> in, std::span<double> want) {
  visit_pointwise(c.code, [&]<op Code>() {
    if constexpr (row_of(Code).kind == op_class::unary)
      for (std::size_t i = 0; i < in.size(); ++i)
        want[i] = unary_meaning<Code>(static_cast<double>(in[i]), static_cast<double>(c.alpha),
                                      static_cast<double>(c.beta));
  });
}
inline double exact(unary_case const& c, float x) {
  double y = 0;
  exact(c, {&x, 1}, {&y, 1});
  return y;
}

/// |got - want| in units of the last place that f32 has at `want`.
inline double ulps(float got, double want) {
  if (static_cast<double>(got) == want) return 0;
  double const size = std::abs(want);
  if (std::isinf(got) || size >= 0x1.ffffffp127) {
    // Beyond the largest float: an infinity is right from half an ulp on, and one ulp more for each
    // ulp less.
    double const bounded = std::min(size, 0x1p128);
    return std::signbit(got) == std::signbit(want)
               ? std::abs(std::min(std::abs(static_cast<double>(got)), 0x1p128) - bounded) / 0x1p104
               : std::numeric_limits<double>::infinity();
  }
  int const exponent = size < 0x1p-126 ? -126 : std::ilogb(size);
  return std::abs(static_cast<double>(got) - want) / std::ldexp(1.0, exponent - 23);
}

struct worst {
  double ulp = 0, relative = 0;
  float at = 0, relative_at = 0;
  int wrong = 0;  ///< NaN-ness, sign of zero, or the bound
  float wrong_at = 0, wrong_got = 0;
  double wrong_want = 0;

  void merge(worst const& o) {
    if (o.ulp > ulp) ulp = o.ulp, at = o.at;
    if (o.relative > relative) relative = o.relative, relative_at = o.relative_at;
    if (wrong == 0) wrong_at = o.wrong_at, wrong_got = o.wrong_got, wrong_want = o.wrong_want;
    wrong += o.wrong;
  }
};

inline bool below(unary_case const& c, float x) {
  return (c.code == op::swish ? c.alpha * x : x) < jit::eltwise_of(c.code).error.above;
}
inline void judge(unary_case const& c, float x, float got, double want, worst& w) {
  jit::error_bound const bound = jit::eltwise_of(c.code).error;
  bool right = true;
  // Most results: correctly rounded, which says nothing new of the worst.
  if (got == static_cast<float>(want) && got != 0 && w.ulp > 0.5 && !below(c, x)) return;
  if (std::isnan(want) || std::isnan(got)) {
    right = std::isnan(want) && std::isnan(got);
  } else if (static_cast<double>(got) == want) {
    right = std::signbit(got) == std::signbit(want);
  } else {
    double const u = ulps(got, want);
    if (got == 0) right = std::signbit(got) == std::signbit(want);
    if (!below(c, x)) {
      if (u > w.ulp) w.ulp = u, w.at = x;
      right = right && u <= static_cast<double>(bound.ulp);
    } else {
      double const slack =
          std::abs(want) < 0x1p-126 ? (4 + std::abs(static_cast<double>(x)) / 2) * 0x1p-149 : 0;
      double const r =
          std::max(0.0, std::abs(static_cast<double>(got) - want) - slack) / std::abs(want);
      if (r > w.relative) w.relative = r, w.relative_at = x;
      right = right && r <= static_cast<double>(bound.relative);
      if (c.code == op::gelu_tanh || c.code == op::gelu_erf) right = right && !(got > 0);
    }
  }
  if (!right && w.wrong++ == 0) w.wrong_at = x, w.wrong_got = got, w.wrong_want = want;
}

/// Vectors of 16 lanes together.
inline int vectors_in_16(isa level) { return level == isa::avx2 ? 2 : 1; }

inline std::string title(unary_case const& c, isa level) {
  char text[96];
  std::snprintf(text, sizeof text, "%-11.*s %7.4g %5.3g  %-11.*s",
                static_cast<int>(name_of(c.code).size()), name_of(c.code).data(),
                static_cast<double>(c.alpha), static_cast<double>(c.beta),
                static_cast<int>(name_of(level).size()), name_of(level).data());
  return text;
}

inline void report(unary_case const& c, isa level, worst const& w) {
  std::printf("%s  %6.3f ulp at %-13.9g", title(c, level).c_str(), w.ulp,
              static_cast<double>(w.at));
  if (w.relative > 0)
    std::printf("  below -1: 2^%.2f at %.9g", std::log2(w.relative),
                static_cast<double>(w.relative_at));
  std::printf("\n");
  CHECK_MESSAGE(w.wrong == 0, title(c, level), " wrong ", w.wrong, " times, first at ", w.wrong_at,
                ": ", w.wrong_got, " instead of ", w.wrong_want);
}

}  // namespace sinter_test
