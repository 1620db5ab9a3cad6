// The scalar meaning of each op: special values by table, accuracy of float against double, closed
// forms.
#include <doctest/doctest.h>

#include <cmath>
#include <string>

#include <sinter/reference/scalar.hpp>

using namespace sinter;

namespace {

constexpr double inf = std::numeric_limits<double>::infinity();
const double not_a_number = std::numeric_limits<double>::quiet_NaN();

/// A unary op with its row's parameters, or with others.
template <class Real>
Real unary(op code, Real a) {
  Real r{};
  op_row const& row = row_of(code);
  visit_pointwise(code, [&]<op Code>() {
    r = meaning<Code>(a, Real{}, Real{}, static_cast<Real>(row.alpha), static_cast<Real>(row.beta));
  });
  return r;
}
double with(op code, double a, double alpha, double beta = 0) {
  double r = 0;
  visit_pointwise(code, [&]<op Code>() { r = meaning<Code>(a, 0.0, 0.0, alpha, beta); });
  return r;
}
double binary(op code, double a, double b, double c = 0) {
  double r = 0;
  visit_pointwise(code, [&]<op Code>() { r = meaning<Code>(a, b, c, 0.0, 0.0); });
  return r;
}

bool same(double given, double wanted) {
  if (std::isnan(wanted)) return std::isnan(given);
  return given == wanted && std::signbit(given) == std::signbit(wanted);
}

template <class F>
void each_unary(F f) {
  for (op_row const& row : op_table)
    if (row.kind == op_class::unary) f(row);
}

}  // namespace

TEST_CASE("special values of unary ops: the table of docs/precision.md") {
  struct row {
    op code;
    double at_minus_inf, at_minus_zero, at_plus_zero, at_plus_inf;
  };
  double const ln2 = std::log(2.0);
  row const table[] = {
      {op::relu, 0.0, 0.0, 0.0, inf},
      {op::leaky_relu, -inf, -0.0, 0.0, inf},
      {op::elu, -1, -0.0, 0.0, inf},
      {op::abs, inf, 0.0, 0.0, inf},
      {op::neg, inf, 0.0, -0.0, -inf},
      {op::sqrt, not_a_number, -0.0, 0.0, inf},
      {op::square, inf, 0.0, 0.0, inf},
      {op::exp, 0.0, 1, 1, inf},
      {op::log, not_a_number, -inf, -inf, inf},
      {op::tanh, -1, -0.0, 0.0, 1},
      {op::sigmoid, 0.0, 0.5, 0.5, 1},
      {op::gelu_tanh, -0.0, -0.0, 0.0, inf},
      {op::gelu_erf, -0.0, -0.0, 0.0, inf},
      {op::swish, -0.0, -0.0, 0.0, inf},
      {op::hardsigmoid, 0.0, 0.5, 0.5, 1},
      {op::hardswish, -0.0, -0.0, 0.0, inf},
      {op::mish, -0.0, -0.0, 0.0, inf},
      {op::softplus, 0.0, ln2, ln2, inf},
      {op::pow, -inf, -0.0, 0.0, inf},  // 1 * a^1
      {op::round, -inf, -0.0, 0.0, inf},
      {op::linear, -inf, 0.0, 0.0, inf},  // 1 * a + 0: -0 + 0 is 0
      {op::clip, 0.0, -0.0, 0.0, 0.0},    // bounds 0, 0; a zero inside keeps its sign
  };
  int rows = 0;
  each_unary([&](op_row const&) { ++rows; });
  CHECK(rows == static_cast<int>(std::size(table)));
  for (row const& r : table) {
    CAPTURE(std::string(name_of(r.code)));
    CHECK(same(unary(r.code, -inf), r.at_minus_inf));
    CHECK(same(unary(r.code, -0.0), r.at_minus_zero));
    CHECK(same(unary(r.code, 0.0), r.at_plus_zero));
    CHECK(same(unary(r.code, inf), r.at_plus_inf));
    CHECK(std::isnan(unary(r.code, not_a_number)));
    // The float meaning has the same special values.
    CHECK(same(static_cast<double>(unary(r.code, static_cast<float>(-inf))), r.at_minus_inf));
    CHECK(same(static_cast<double>(unary(r.code, -0.0F)),
               static_cast<double>(static_cast<float>(r.at_minus_zero))));
    CHECK(same(static_cast<double>(unary(r.code, static_cast<float>(inf))), r.at_plus_inf));
    CHECK(std::isnan(unary(r.code, static_cast<float>(not_a_number))));
  }
}

TEST_CASE("special values of binary and ternary ops") {
  for (op code : {op::add, op::sub, op::mul, op::div, op::min, op::max, op::prelu}) {
    CAPTURE(std::string(name_of(code)));
    CHECK(std::isnan(binary(code, not_a_number, 1)));
    if (code != op::prelu) CHECK(std::isnan(binary(code, 1, not_a_number)));
  }
  CHECK(binary(op::prelu, 1, not_a_number) == 1);  // the slope is not read above 0
  CHECK(std::isnan(binary(op::prelu, -1, not_a_number)));
  // Equal operands, zeros too: the first.
  CHECK(same(binary(op::min, -0.0, 0.0), -0.0));
  CHECK(same(binary(op::min, 0.0, -0.0), 0.0));
  CHECK(same(binary(op::max, -0.0, 0.0), -0.0));
  CHECK(same(binary(op::max, 0.0, -0.0), 0.0));
  CHECK(binary(op::min, 1, -inf) == -inf);
  // Comparisons are 0 with NaN, but ne.
  for (op code : {op::eq, op::lt, op::le, op::gt, op::ge}) {
    CHECK(binary(code, not_a_number, 1) == 0);
    CHECK(binary(code, 1, not_a_number) == 0);
  }
  CHECK(binary(op::ne, not_a_number, not_a_number) == 1);
  CHECK(binary(op::eq, 0.0, -0.0) == 1);
  CHECK(binary(op::le, 2, 2) == 1);
  CHECK(binary(op::lt, 2, 2) == 0);
  CHECK(binary(op::gt, 3, 2) == 1);
  CHECK(binary(op::ge, 1, 2) == 0);
  CHECK(binary(op::select, not_a_number, 1, 2) == 1);
  CHECK(binary(op::select, -0.0, 1, 2) == 2);
  CHECK(same(binary(op::select, 0, not_a_number, 2), 2));
  CHECK(std::isnan(binary(op::fma, inf, 0, 1)));
  CHECK(binary(op::fma, 1 + 0x1p-30, 1 - 0x1p-30, -1) == -0x1p-60);  // rounded once
}

TEST_CASE("parameters: slopes, bounds, a limit of 0 times infinity") {
  CHECK(with(op::leaky_relu, -2, 0) == 0);
  CHECK(with(op::leaky_relu, -2, 1) == -2);
  CHECK(with(op::leaky_relu, -2, -0.5) == 1);
  CHECK(with(op::leaky_relu, -2, 3) == -6);
  CHECK(std::isnan(with(op::leaky_relu, -inf, 0)));  // 0 * Inf, as IEEE has it
  CHECK(with(op::clip, 5, 2, 2) == 2);
  CHECK(with(op::clip, -inf, -1, 1) == -1);
  CHECK(std::isnan(with(op::clip, not_a_number, -1, 1)));
  CHECK(std::isnan(with(op::linear, inf, 0, 1)));
  CHECK(with(op::linear, 5, 0, 1) == 1);
  CHECK(with(op::swish, 3, 0) == 1.5);
  CHECK(with(op::swish, -inf, 0) == -inf);
  CHECK(std::isnan(with(op::swish, not_a_number, 0)));
  CHECK(same(with(op::swish, inf, -1), 0.0));
  CHECK(with(op::pow, 3, 2, 2) == 18);
  CHECK(with(op::pow, not_a_number, 2, 0) == 2);
  CHECK(std::isnan(with(op::pow, -1, 1, 0.5)));
  CHECK(with(op::softplus, 1, 2) == doctest::Approx(std::log(1 + std::exp(2.0)) / 2));
  CHECK(with(op::softplus, -inf, -1) == -inf);
  CHECK(with(op::elu, -1e9, 2) == -2);
  // Ties to even, in any rounding mode.
  for (double v : {0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 4503599627370497.0})
    CHECK(same(unary(op::round, v), std::nearbyint(v)));
}

TEST_CASE("sigmoid and its kin far out: no NaN, no 0.5, limits with the right sign") {
  CHECK(unary(op::sigmoid, -90.0) == doctest::Approx(8.194e-40).epsilon(1e-3));
  CHECK(unary(op::sigmoid, 1e4) == 1);
  CHECK(unary(op::sigmoid, -1e4) == 0);
  CHECK(unary(op::sigmoid, -1e4F) == 0);
  CHECK(unary(op::swish, -88.0) == doctest::Approx(-5.328e-37).epsilon(1e-3));
  float const far = unary(op::swish, -100.0F);
  CHECK((far <= 0 && far >= -4e-42F));
  CHECK(unary(op::hardswish, 1.0) == doctest::Approx(2.0 / 3));
  CHECK(unary(op::hardswish, -1.0) == doctest::Approx(-1.0 / 3));
  CHECK(unary(op::hardswish, 3.0) == doctest::Approx(3));
  CHECK(unary(op::hardswish, -3.0) == 0);
  CHECK(unary(op::hardswish, 2.9999) < 3);
  CHECK(unary(op::gelu_tanh, 1.0) == doctest::Approx(0.8411919906));
  CHECK(unary(op::gelu_erf, 1.0) == doctest::Approx(0.8413447461));
  CHECK(unary(op::mish, 1.0) == doctest::Approx(0.8650983883));
  CHECK(unary(op::softplus, 0.0) == doctest::Approx(0.6931471806));
}

TEST_CASE("no finite input gives NaN, at any exponent, in float and double") {
  each_unary([](op_row const& row) {
    CAPTURE(std::string(row.name));
    bool const has_domain = row.code == op::sqrt || row.code == op::log;
    int nans = 0;
    for (std::uint32_t bits = 0; bits < 0x7f800000U;
         bits += 0x3ffffU) {  // every exponent, 32 fractions
      float const v = std::bit_cast<float>(bits);
      for (float a : {v, -v}) {
        if (has_domain && a < 0) continue;
        if (std::isnan(unary(row.code, a)) || std::isnan(unary(row.code, static_cast<double>(a))))
          ++nans;
      }
    }
    float const largest = std::numeric_limits<float>::max();
    if (std::isnan(unary(row.code, largest)) ||
        (!has_domain && std::isnan(unary(row.code, -largest))))
      ++nans;
    CHECK(nans == 0);
  });
}

TEST_CASE("float meanings are close to double ones: what a pass may differ by") {
  // The bounds of docs/precision.md, relative to the result in units of 2^-24 (half an ulp).
  each_unary([](op_row const& row) {
    if (row.code == op::clip) return;
    CAPTURE(std::string(row.name));
    double worst = 0;
    for (float a = -30; a < 30; a += 0.00390625F * 1.37F) {
      double const wanted = unary(row.code, static_cast<double>(a));
      auto const given = static_cast<double>(unary(row.code, a));
      if (!std::isfinite(wanted) || std::abs(wanted) < 0x1p-126) continue;
      bool const tail =
          a < -1 && (row.code == op::gelu_tanh || row.code == op::gelu_erf ||
                     row.code == op::swish || row.code == op::mish || row.code == op::softplus);
      double const absolute = row.code == op::hardsigmoid || row.code == op::hardswish
                                  ? 0x1p-22 * (1 + std::abs(static_cast<double>(a)))
                                  : 0;
      double const error = std::abs(given - wanted);
      if (error <= absolute) continue;
      worst = std::max(worst, error / std::abs(wanted) / 0x1p-24 / (tail ? 256.0 / 16 : 1));
    }
    CHECK(worst <= 16);
  });
}
