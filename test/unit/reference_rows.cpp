// Reductions, and what is made of them, against loops over plain rows.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "oracle.hpp"
#include "problem_text.hpp"

// After the headers of the evaluator: g++ warns of their parameters where sinter::out is known.
#include <sinter/expr/rows.hpp>
#include <sinter/plan/partition.hpp>
#include <sinter/plan/text.hpp>

using namespace sinter_test;

namespace {

constexpr double inf = std::numeric_limits<double>::infinity();
double const not_a_number = std::numeric_limits<double>::quiet_NaN();

std::vector<double> some(std::size_t n, int seed) {
  std::vector<double> values(n);
  for (std::size_t i = 0; i < n; ++i)
    values[i] = static_cast<double>((static_cast<int>(i) * 37 + seed * 11) % 64 - 32) / 8;
  return values;
}

constexpr auto x_leaf = sinter::tensor<"x">;

/// The text that the language makes of a function of x.
template <class Expression>
std::string text_of(Expression const& e) {
  return std::string(text(sinter::partition(e).group(0)).view());
}
std::string const softmax_text = text_of(sinter::softmax(x_leaf)),
                  log_softmax_text = text_of(sinter::log_softmax(x_leaf)),
                  layer_norm_text = text_of(sinter::layer_norm(x_leaf)),
                  rms_norm_text = text_of(sinter::rms_norm(x_leaf));

using row_function = std::vector<double> (*)(std::vector<double> const&);
std::vector<double> plain_softmax(std::vector<double> const& row) {
  double largest = -inf, sum = 0;
  for (double v : row) largest = std::max(largest, v);
  for (double v : row) sum += std::exp(v - largest);
  std::vector<double> result;
  for (double v : row) result.push_back(std::exp(v - largest) / sum);
  return result;
}
std::vector<double> plain_log_softmax(std::vector<double> const& row) {
  std::vector<double> result = plain_softmax(row);
  for (double& v : result) v = std::log(v);
  return result;
}
std::vector<double> plain_layer_norm(std::vector<double> const& row) {
  double mean = 0, variance = 0;
  for (double v : row) mean += v / static_cast<double>(row.size());
  for (double v : row) variance += (v - mean) * (v - mean) / static_cast<double>(row.size());
  std::vector<double> result;
  for (double v : row) result.push_back((v - mean) / std::sqrt(variance + 1e-5));
  return result;
}
std::vector<double> plain_rms_norm(std::vector<double> const& row) {
  double squares = 0;
  for (double v : row) squares += v * v / static_cast<double>(row.size());
  std::vector<double> result;
  for (double v : row) result.push_back(v / std::sqrt(squares + 1e-5));
  return result;
}

/// The four reductions of one row.
struct reduced_row {
  double sum, mean, max, index;
};
reduced_row reduce(std::vector<double> const& row) {
  given_tensor const x{{1, static_cast<extent>(row.size())}, row};
  auto const results = evaluate_all(
      "row_sum(x:tensor) | row_mean(x:tensor) | row_max(x:tensor) | argmax(x:tensor) -> a=%0, "
      "b=%1, "
      "c=%2, d=%3",
      {x});
  return {results[0].at(0), results[1].at(0), results[2].at(0), results[3].at(0)};
}

}  // namespace

TEST_CASE("reductions of one row: ties, NaN, infinities, no values, one value") {
  reduced_row const plain = reduce({3, -1, 5, 5, 2});
  CHECK(plain.sum == 14);
  CHECK(plain.mean == doctest::Approx(2.8));
  CHECK(plain.max == 5);
  CHECK(plain.index == 2);  // the first of two

  reduced_row const one = reduce({-7});
  CHECK((one.sum == -7 && one.mean == -7 && one.max == -7 && one.index == 0));

  reduced_row const none = reduce({});
  CHECK((none.sum == 0 && std::isnan(none.mean) && none.max == -inf && none.index == 0));

  reduced_row const low = reduce({-inf, -inf, -inf});
  CHECK((low.sum == -inf && low.mean == -inf && low.max == -inf && low.index == 0));
  CHECK(reduce({-inf, -3, -inf}).index == 1);
  CHECK(reduce({1, inf, inf}).index == 1);
  CHECK(std::isnan(reduce({1, inf, -inf}).sum));

  // The first NaN is the largest, wherever the largest number stands.
  for (std::vector<double> const& row :
       {std::vector<double>{9, not_a_number, 1, not_a_number, inf}, {0, not_a_number, 9}}) {
    reduced_row const r = reduce(row);
    CHECK((std::isnan(r.sum) && std::isnan(r.mean) && std::isnan(r.max) && r.index == 1));
  }
}

TEST_CASE("softmax, log_softmax, layer_norm and rms_norm against their definitions") {
  struct named {
    std::string const& text;
    row_function plain;
  };
  for (named const& f : {named{softmax_text, plain_softmax},
                         {log_softmax_text, plain_log_softmax},
                         {layer_norm_text, plain_layer_norm},
                         {rms_norm_text, plain_rms_norm}})
    for (std::size_t n : {1U, 2U, 7U, 255U, 256U, 257U, 700U}) {
      CAPTURE(f.text);
      CAPTURE(n);
      given_tensor const x{{2, 3, static_cast<extent>(n)}, some(6 * n, 1)};
      auto const given = evaluate_text(f.text, {x});
      int wrong = 0;
      for (std::size_t row = 0; row < 6; ++row) {
        auto const begin = x.values.begin() + static_cast<std::ptrdiff_t>(row * n);
        auto const wanted = f.plain({begin, begin + static_cast<std::ptrdiff_t>(n)});
        for (std::size_t i = 0; i < n; ++i)
          if (!(std::abs(given[row * n + i] - wanted[i]) <= 2e-7 * (1 + std::abs(wanted[i]))))
            ++wrong;
      }
      CHECK(wrong == 0);
    }
}

TEST_CASE("softmax of rows with infinities and NaN; no row sees another") {
  given_tensor const x{{4, 3},
                       {-inf, 0, 0,          // masked: a share of nothing
                        -inf, -inf, -inf,    // -Inf - -Inf: NaN, as numpy has it
                        1, not_a_number, 2,  // NaN everywhere
                        3, 3, 3}};
  auto const y = evaluate_text(softmax_text, {x});
  CHECK((y[0] == 0 && y[1] == 0.5 && y[2] == 0.5));
  for (std::size_t i = 3; i < 9; ++i) CHECK(std::isnan(y[i]));
  for (std::size_t i = 9; i < 12; ++i) CHECK(y[i] == doctest::Approx(1.0 / 3));
  // exp(x) alone would overflow; the largest value goes first.
  CHECK(evaluate_text(softmax_text, {{{1, 2}, {1e4, 1e4}}})[1] == 0.5);
}

TEST_CASE("a reduction reads the value's own rows, whatever the extents around it") {
  // [2,1] has rows of one value each, although it meets [2,3] later.
  CHECK(evaluate_text("row_sum(s:tensor) | add x:tensor",
                      {{{2, 1}, {10, 20}}, {{2, 3}, {1, 2, 3, 4, 5, 6}}}) ==
        std::vector<double>{11, 12, 13, 24, 25, 26});
  // A vector is one row for all.
  CHECK(evaluate_text("row_sum(b:vector) | add x:tensor",
                      {{{3}, {1, 2, 4}}, {{2, 3}, {0, 0, 0, 1, 1, 1}}}) ==
        std::vector<double>{7, 7, 7, 8, 8, 8});
  // A reduced value has rows of one value, so a second reduction changes nothing, and its index is 0.
  CHECK(evaluate_text("row_max(x:tensor) | row_sum", {{{2, 2}, {1, 5, 4, 3}}}) ==
        std::vector<double>{5, 4});
  CHECK(evaluate_text("row_max(x:tensor) | argmax", {{{2, 2}, {1, 5, 4, 3}}}) ==
        std::vector<double>{0, 0});
  // Broadcast before it is reduced: row 0 of the first meets each row of the second.
  CHECK(evaluate_text("add(x:tensor, y:tensor) | row_sum",
                      {{{1, 2}, {1, 2}}, {{3, 1}, {10, 20, 30}}}) ==
        std::vector<double>{23, 43, 63});
  // Rank 4, an extent of 1 before the last.
  CHECK(evaluate_text("row_mean(x:tensor)", {{{2, 1, 1, 2}, {1, 3, 5, 9}}}) ==
        std::vector<double>{2, 7});
}

TEST_CASE("values from before a reduction are read after it, in one run and in many") {
  for (extent n : {3, 256, 300, 513}) {
    CAPTURE(n);
    given_tensor const x{{2, 4}, some(8, 1)}, w{{4, n}, some(static_cast<std::size_t>(4 * n), 2)},
        r{{2, n}, some(static_cast<std::size_t>(2 * n), 3)};
    auto const results = evaluate_all(
        "matmul(x, w) | row_max | sub(%0, %1) | add r:tensor | row_sum | mul(%4, %0) | add %2 -> "
        "out=%6, top=%1, sum=%4, raw=%0",
        {x, w, r});
    int wrong = 0;
    for (std::size_t m = 0; m < 2; ++m) {
      std::vector<double> raw(static_cast<std::size_t>(n), 0);
      double top = -inf, sum = 0;
      for (std::size_t j = 0; j < raw.size(); ++j) {
        for (std::size_t k = 0; k < 4; ++k)
          raw[j] += x.values[m * 4 + k] * w.values[k * raw.size() + j];
        top = std::max(top, raw[j]);
      }
      for (std::size_t j = 0; j < raw.size(); ++j)
        sum += raw[j] - top + r.values[m * raw.size() + j];
      if (results[1][m] != top || results[2][m] != sum) ++wrong;
      for (std::size_t j = 0; j < raw.size(); ++j) {
        if (results[3][m * raw.size() + j] != raw[j]) ++wrong;
        double const wanted = sum * raw[j] + raw[j] - top;
        if (std::abs(results[0][m * raw.size() + j] - wanted) > 1e-6 * std::abs(wanted) + 1e-6)
          ++wrong;
      }
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("reductions before a contraction, along rows and across them") {
  given_tensor const x{{2, 3}, {1, 2, 3, 4, 6, 8}}, w{{3, 2}, {1, 0, 0, 1, 1, 1}};
  // x - its row mean: {-1, 0, 1} and {-2, 0, 2}.
  CHECK(evaluate_text("row_mean(x:tensor) | sub(x:tensor, %0) | matmul(%1, w)", {x, w}) ==
        std::vector<double>{0, 1, 0, 2});
  // Read along the other axis, each value lies in another row.
  given_tensor const v{{2, 2}, {1, 2, 3, 4}};
  CHECK(
      evaluate_text("row_mean(x:tensor) | sub(x:tensor, %0) | matmul(%1, v:tensor, transposed_src)",
                    {x, v}) == std::vector<double>{-7, -10, 0, 0, 7, 10});
  // Between two contractions.
  CHECK(evaluate_text("matmul(x, w) | row_max | sub(%0, %1) | matmul(%2, v:tensor)", {x, w, v}) ==
        std::vector<double>{-1, -2, -2, -4});
  // Of the result of a convolution: the channels of each place.
  given_tensor const image{{1, 2, 1}, {3, 5}}, filter{{2, 1, 1}, {1, -2}};
  CHECK(evaluate_text("conv1d(x, w) | row_sum", {image, filter}) == std::vector<double>{-3, -5});
}

TEST_CASE("no rows, empty rows, one column") {
  given_tensor const no_rows{{0, 4}, {}}, empty_rows{{3, 0}, {}};
  CHECK(evaluate_text("row_sum(x:tensor)", {no_rows}).empty());
  CHECK(evaluate_text("row_sum(x:tensor)", {empty_rows}) == std::vector<double>{0, 0, 0});
  CHECK(evaluate_text("argmax(x:tensor)", {empty_rows}) == std::vector<double>{0, 0, 0});
  CHECK(evaluate_text("row_max(x:tensor)", {empty_rows}) == std::vector<double>{-inf, -inf, -inf});
  for (double v : evaluate_text("row_mean(x:tensor)", {empty_rows})) CHECK(std::isnan(v));
  CHECK(evaluate_text(softmax_text, {empty_rows}).empty());
  CHECK(evaluate_text("matmul(x, w) | row_sum", {{{2, 3}, some(6, 1)}, {{3, 0}, {}}}) ==
        std::vector<double>{0, 0});
  CHECK(evaluate_text("matmul(x, w) | row_max", {{{2, 0}, {}}, {{0, 3}, {}}}) ==
        std::vector<double>{0, 0});
  CHECK(evaluate_text(softmax_text, {{{3, 1}, {-5, 0, 7}}}) == std::vector<double>{1, 1, 1});
  CHECK(evaluate_text(layer_norm_text, {{{2, 1}, {-5, 7}}}) == std::vector<double>{0, 0});
}

TEST_CASE("outputs round once, after the rows; an index does not") {
  // 300 values of 1/300 in bf16: each share is rounded at the store, the sum is 1 before.
  std::vector<double> const zeros(600, 0);
  double const share = rounded(dtype::bf16, 1.0 / 300);
  for (double v : evaluate_text(softmax_text + " [bf16]", {{{2, 300}, zeros}})) CHECK(v == share);
  for (double v : evaluate_text(softmax_text + " [f16]", {{{2, 300}, zeros}}))
    CHECK(v == rounded(dtype::f16, 1.0 / 300));
  // A let is a rounding point for what the reduction reads, and for what it gives.
  given_tensor const x{{1, 2}, {1 + 0x1p-7, 0x1p-9}};
  CHECK(evaluate_text("add(x:tensor, 0) | row_sum -> out:f32 [bf16]", {x})[0] ==
        1 + 0x1p-7 + 0x1p-9);
  CHECK(evaluate_text("let add(x:tensor, 0.001953125) | row_sum -> out:f32 [bf16]", {x})[0] ==
        1 + 0x1p-7 + 0x1p-8);
  CHECK(evaluate_text("let row_sum(x:tensor) | add 0 -> out:f32 [bf16]", {x})[0] == 1 + 0x1p-7);

  std::vector<double> row(300, 0);
  row[299] = 1;
  auto const results = evaluate_all(
      std::string("let add(x:tensor, 0) | argmax | row_max(%0) | sub(%0, %2) | exp | row_sum | "
                  "div(1, %5) | mul(%4, %6) -> out=%7, index=%1:f32 [bf16]"),
      {{{1, 300}, row}});
  CHECK(results[1][0] == 299);
  CHECK(results[0][299] > results[0][0]);
}

TEST_CASE("in place: rows are complete before the first value of theirs is overwritten") {
  for (extent n : {5, 300, 700}) {
    CAPTURE(n);
    std::string const r =
        "matmul(x, w) | add r:tensor | row_max | sub(%1, %2) | exp | row_sum | "
        "div(1, %5) | mul(%4, %6)";
    problem const p = problem_of(r, {dims({3, 4}), dims({4, n}), dims({3, n})}, {}, 2).value();
    std::vector<float> x(12), w(static_cast<std::size_t>(4 * n)),
        apart(static_cast<std::size_t>(3 * n)), together;
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 5) - 2;
    for (std::size_t i = 0; i < w.size(); ++i) w[i] = static_cast<float>(i % 7) * 0.25F;
    std::vector<float> residual(apart.size());
    for (std::size_t i = 0; i < residual.size(); ++i) residual[i] = static_cast<float>(i % 11) / 4;
    together = residual;
    std::vector<double> scratch(evaluate_scratch_bytes(p.chain) / sizeof(double));
    void const* operands[] = {x.data(), w.data(), residual.data()};
    void* outputs[] = {apart.data()};
    evaluate(p, operands, outputs, scratch.data());
    operands[2] = outputs[0] = together.data();
    evaluate(p, operands, outputs, scratch.data());
    CHECK(together == apart);
  }
}
