// Faults of other libraries, each as the whole kind of fault, on every engine of this build: steps applied out
// of order, addends on the wrong axis, mixed dtypes and odd destinations, old output that leaks into the
// result, a second rounding. The right results are plain loops in double and closed forms.
#include <doctest/doctest.h>

#include <xmmintrin.h>

#include <cmath>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "support/engines.hpp"

using namespace sinter_test;

namespace {

constexpr double unit = 0x1p-24;

extent count_of(shape const& dims) { return element_count(dims); }

/// As oneDNN computes it where all values are ordinary: NaN among them is the business of other tests.
problem ordinary(problem p) {
  p.numerics = numerics::peer;
  return p;
}

std::string of_precision(std::string_view precision) {
  return precision == "f32" ? "" : " [" + std::string(precision) + "]";
}

/// Calls every engine: each element is within `bound` (0) of what is wanted, or the engine refuses with a
/// sentence; the reference does not. How many computed it.
int on_each(problem const& p, std::vector<numbers> const& operands, numbers const& wanted,
            numbers const& bound = {}, placement where = placement::end) {
  int willing = 0;
  for (engine const& e : engines()) {
    call_result const r = e.call(p, operands, where);
    if (!r.willing) {
      CHECK_MESSAGE(r.text.starts_with("sinter: "), e.name, ": ", r.text);
      CHECK_MESSAGE(e.name != "reference", r.text);
      continue;
    }
    ++willing;
    REQUIRE_MESSAGE(r.text.empty(), e.name, ": ", r.text, " in ", text(p));
    REQUIRE(r.output.size() == wanted.size());
    for (std::size_t i = 0; i < wanted.size(); ++i)
      if (!(std::abs(r.output[i] - wanted[i]) <= (bound.empty() ? 0 : bound[i]))) {
        FAIL_CHECK(e.name << ": element " << i << " is " << r.output[i] << ", wanted " << wanted[i]
                          << " in " << text(p));
        break;
      }
  }
  return willing;
}

// ---- Steps in written order.

struct step_case {
  std::string_view text;
  double (*f)(double v, double column, double full);
  double steepest;  ///< |f(a) - f(b)| <= steepest |a - b|
};
double column_of(std::size_t j) { return 0.75 * static_cast<double>(j % 5) - 1.5; }
double full_of(std::size_t n) { return static_cast<double>(n * 7 % 11) / 4 - 1.25; }

constexpr step_case steps[] = {
    {"relu", [](double v, double, double) { return v > 0 ? v : 0.0; }, 1},
    {"clip(-0.75, 1.5)",
     [](double v, double, double) { return v < -0.75 ? -0.75
                                           : v > 1.5 ? 1.5
                                                     : v; }, 1},
    {"gelu_erf",
     [](double v, double, double) { return v / 2 * (1 + std::erf(v * std::sqrt(0.5))); }, 1.13},
    {"sigmoid", [](double v, double, double) { return 1 / (1 + std::exp(-v)); }, 0.25},
    {"tanh", [](double v, double, double) { return std::tanh(v); }, 1},
    {"add 2", [](double v, double, double) { return v + 2; }, 1},
    {"mul m:vector", [](double v, double m, double) { return v * m; }, 1.5},
    {"add r:tensor", [](double v, double, double r) { return v + r; }, 1},
};
constexpr std::size_t step_count = std::size(steps);

/// A product of small quarters, exact in every precision and order of sums.
struct product {
  extent m, k, n;
  numbers x, w, sums, columns, full;

  product(extent rows, extent terms, extent width) : m(rows), k(terms), n(width) {
    x = counted_numbers(m * k, [](extent i) { return static_cast<double>(i * 5 % 9 - 4) / 4; });
    w = counted_numbers(k * n, [](extent i) { return static_cast<double>(i * 3 % 7 - 3) / 4; });
    sums.assign(static_cast<std::size_t>(m * n), 0);
    for (std::size_t i = 0; i < at(m); ++i)
      for (std::size_t q = 0; q < at(k); ++q)
        for (std::size_t j = 0; j < at(n); ++j)
          sums[i * at(n) + j] += x[i * at(k) + q] * w[q * at(n) + j];
    columns = counted_numbers(n, [](extent j) { return column_of(static_cast<std::size_t>(j)); });
    full = counted_numbers(m * n, [](extent i) { return full_of(static_cast<std::size_t>(i)); });
  }
  static std::size_t at(extent e) { return static_cast<std::size_t>(e); }
};

struct expected {
  numbers values, bounds;
};

/// A scalar loop in written order. A step is right to within 64 u (1 + |v|): more than Sinter promises of any
/// of them, and what oneDNN keeps to. bf16 rounds once, at the end; its last gelu may be 2^-12 off.
expected loop(product const& d, std::vector<std::size_t> const& order, bool narrow) {
  expected e{d.sums, numbers(d.sums.size(), 0)};
  for (std::size_t i = 0; i < e.values.size(); ++i) {
    double &v = e.values[i], &bound = e.bounds[i];
    for (std::size_t s : order) {
      v = steps[s].f(v, d.columns[i % d.columns.size()], d.full[i]);
      bound = steps[s].steepest * bound + 64 * unit * (1 + std::abs(v));
    }
    if (narrow) bound += (0x1p-8 + 0x1p-12) * std::abs(v);
  }
  return e;
}

void check_order(product const& d, std::vector<std::size_t> const& order,
                 std::string_view precision) {
  std::string chain = "matmul(x, w)";
  std::vector<numbers> operands{d.x, d.w};
  std::vector<shape> dims{{d.m, d.k}, {d.k, d.n}};
  bool has_m = false, has_r = false;
  for (std::size_t s : order) {
    chain += " | " + std::string(steps[s].text);
    if (steps[s].text == "mul m:vector" && !std::exchange(has_m, true)) {
      operands.push_back(d.columns);
      dims.push_back({d.n});
    }
    if (steps[s].text == "add r:tensor" && !std::exchange(has_r, true)) {
      operands.push_back(d.full);
      dims.push_back({d.m, d.n});
    }
  }
  problem const p = ordinary(problem_from(chain + of_precision(precision), dims));
  expected const e = loop(d, order, precision == "bf16");
  CHECK(on_each(p, operands, e.values, e.bounds) == static_cast<int>(engines().size()));
}

}  // namespace

TEST_CASE("case 2: pairs and triples of steps run in written order") {
  product const d(5, 7, 3);
  for (std::string_view precision : {"f32", "bf16"})
    for (std::size_t a = 0; a < step_count; ++a)
      for (std::size_t b = 0; b < step_count; ++b) {
        check_order(d, {a, b}, precision);
        for (std::size_t c = 0; c < step_count; ++c) check_order(d, {a, b, c}, precision);
      }
}

TEST_CASE("case 2: a sample of pairs and triples on 256 cubed") {
  product const d(256, 256, 256);
  for (std::size_t n = 5; n < step_count * step_count * step_count; n += 73)
    check_order(d, {n / 64, n / 8 % 8, n % 8}, n % 2 == 0 ? "f32" : "bf16");
  for (std::string_view precision : {"f32", "bf16"}) {
    check_order(d, {5, 3}, precision);
    check_order(d, {3, 5}, precision);
  }
}

TEST_CASE("case 2: the data tell orders apart") {
  // relu commutes with clip, gelu and tanh, an addend with another: all else must differ by more than is allowed.
  product const d(5, 7, 3);
  for (bool narrow : {false, true}) {
    int told = 0;
    for (std::size_t a = 0; a < step_count; ++a)
      for (std::size_t b = 0; b < a; ++b) {
        expected const one = loop(d, {a, b}, narrow), other = loop(d, {b, a}, narrow);
        for (std::size_t i = 0; i < one.values.size(); ++i)
          if (std::abs(one.values[i] - other.values[i]) > one.bounds[i] + other.bounds[i]) {
            ++told;
            break;
          }
      }
    CHECK(told == 28 - 4);
  }
}

TEST_CASE("case 2: nothing but steps, on a sum of zero") {
  for (shape const& mk : {shape{5, 7}, shape{256, 256}}) {
    extent const n = mk[0] == 5 ? 3 : 256;
    numbers const zeros = counted_numbers(count_of(mk), [](extent) { return 0.0; });
    numbers const ones = counted_numbers(mk[1] * n, [](extent) { return 1.0; });
    std::size_t const out = static_cast<std::size_t>(mk[0] * n);
    for (std::string_view precision : {"f32", "bf16"}) {
      double const wide = precision == "bf16" ? 0x1p-8 : 64 * unit;
      problem p = problem_from("matmul(x, w) | add 2 | sigmoid" + of_precision(precision),
                               {mk, {mk[1], n}});
      on_each(p, {zeros, ones}, numbers(out, 0.8807970779778823), numbers(out, wide));
      p = problem_from("matmul(x, w) | sigmoid | add 2" + of_precision(precision),
                       {mk, {mk[1], n}});
      on_each(p, {zeros, ones}, numbers(out, 2.5));
    }
  }
}

// ---- Addends of every shape.

namespace {

/// One operand that broadcasts to an output: exact in bf16, another value at each place.
void check_addend(std::string const& head, std::vector<shape> dims, std::vector<numbers> operands,
                  shape const& out, shape const& addend, strides const& layout,
                  std::string_view precision) {
  numbers const values =
      counted_numbers(count_of(addend), [](extent n) { return static_cast<double>(n % 251 + 2); });
  dims.push_back(addend);
  operands.push_back(values);
  std::vector<strides> layouts(dims.size());
  layouts.back() = layout;
  numbers wanted;
  strides const own = dense_strides(addend);
  for_each_element(out, dense_strides(out), [&](shape const& index, extent) {
    extent offset = 0;
    for (int i = 0; i < addend.ssize(); ++i) {
      int const axis = out.ssize() - addend.ssize() + i;
      if (addend[i] > 1) offset += index[axis] * own[i];
    }
    wanted.push_back(values[static_cast<std::size_t>(offset)]);
  });
  for (std::string_view step : {"add", "mul"}) {
    std::string const chain = head + " | " + std::string(step) + " r:tensor";
    problem const p = problem_from(chain + of_precision(precision), dims, layouts);
    numbers all = wanted;
    if (step == "mul")
      for (double& v : all) v *= 0;  // the product is 0
    CHECK(on_each(p, operands, all) >= 1);
    // and on a value of 1 behind it, so that a factor counts
    problem const after = problem_from(
        head + " | add 1 | " + std::string(step) + " r:tensor" + of_precision(precision), dims,
        layouts);
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = wanted[i] + (step == "add" ? 1 : 0);
    CHECK(on_each(after, operands, all) >= 1);
  }
}

numbers zeros_of(shape const& dims) {
  return counted_numbers(count_of(dims), [](extent) { return 0.0; });
}
numbers ones_of(shape const& dims) {
  return counted_numbers(count_of(dims), [](extent) { return 1.0; });
}

}  // namespace

TEST_CASE("case 5: addends of every shape, M = N and not") {
  for (shape const& mn : {shape{4, 4}, shape{5, 3}, shape{33, 33}, shape{17, 40}}) {
    extent const m = mn[0], n = mn[1];
    shape const x{m, 3}, w{3, n};
    for (std::string_view precision : {"f32", "bf16"}) {
      auto const check = [&](shape const& addend, strides const& layout = {}) {
        check_addend("matmul(x, w)", {x, w}, {zeros_of(x), ones_of(w)}, mn, addend, layout,
                     precision);
      };
      check({n});
      check({1, n});
      check({m, 1});
      check({1, 1});
      check({m, n});
      check({m, n}, {1, m});      // in columns: of M = N the transposed matrix
      check({m, n}, {n + 3, 1});  // of a wider matrix
      check({m, 1}, {7, 1});      // a column of a wider matrix
    }
  }
}

TEST_CASE("case 5: addends of lower rank expand at the front") {
  shape const out{6, 13, 12}, x{6, 13, 2}, w{2, 12};
  for (std::string_view precision : {"f32", "bf16"})
    for (shape const& addend :
         {shape{13, 1}, shape{6, 1, 1}, shape{12}, shape{1}, shape{13, 12}, shape{6, 1, 12},
          shape{6, 13, 1}, shape{1, 13, 12}, shape{6, 13, 12}, shape{1, 1, 12}})
      check_addend("matmul(x, w)", {x, w}, {zeros_of(x), ones_of(w)}, out, addend, {}, precision);
  // The extents of the report, once.
  shape const big{32, 128, 12};
  for (shape const& addend : {shape{128, 1}, shape{32, 1, 1}, shape{12}})
    check_addend("matmul(x, w)", {{32, 128, 1}, {1, 12}},
                 {zeros_of({32, 128, 1}), ones_of({1, 12})}, big, addend, {}, "f32");
}

TEST_CASE("case 5: addends of convolutions and of rows") {
  shape const x{3, 4, 5, 16}, dw{16, 3, 3, 1}, conv{20, 3, 3, 16};
  for (std::string_view precision : {"f32", "bf16"})
    for (bool depthwise : {false, true}) {
      shape const out{3, 4, 5, depthwise ? 16 : 20};
      shape const& w = depthwise ? dw : conv;
      std::string const head = depthwise ? "conv2d(x, w, pad=1, groups=16)" : "conv2d(x, w, pad=1)";
      for (shape const& addend : {shape{out[3]}, shape{5, 1}, shape{4, 1, 1}, shape{3, 1, 1, 1},
                                  shape{1}, out, shape{4, 5, out[3]}, shape{3, 1, 5, 1}})
        check_addend(head, {x, w}, {zeros_of(x), ones_of(w)}, out, addend, {}, precision);
    }
  for (shape const& addend : {shape{9}, shape{9, 1}, shape{1, 9}, shape{9, 9}})
    check_addend("mul(x:tensor, 0)", {{9, 9}}, {ones_of({9, 9})}, {9, 9}, addend, {}, "f32");
}

// ---- An operand that is the output.

TEST_CASE("case 4: an operand that is the output, behind sums that are longer than a block") {
  // A picks one row of B, which is 2 everywhere; D was 3.
  for (extent k : {1, 33, 2048, 4096})
    for (std::string_view precision : {"f32", "bf16"}) {
      extent const m = 9, n = 33;
      numbers x = zeros_of({m, k});
      for (extent i = 0; i < m; ++i) x[static_cast<std::size_t>(i * k + (i * 77 + 5) % k)] = 1;
      numbers const w(static_cast<std::size_t>(k * n), 2), d(static_cast<std::size_t>(m * n), 3);
      for (auto const& [tail, wanted] :
           {std::pair{"mul r:tensor", 6.0}, std::pair{"sub(r:tensor, %0)", 1.0},
            std::pair{"add r:tensor", 5.0}, std::pair{"mul r:tensor | add r:tensor", 9.0},
            std::pair{"square | sub r:tensor | mul(r:tensor, %2)", 3.0}}) {
        std::string const chain = "matmul(x, w) | " + std::string(tail) + of_precision(precision);
        problem const p = ordinary(problem_from(chain, {{m, k}, {k, n}, {m, n}}, {}, {{n, 1}}, 2));
        CHECK(on_each(p, {x, w, d}, numbers(d.size(), wanted)) >= 1);
      }
    }
}

// ---- Panels.

TEST_CASE("case 26: a row with a single one picks a row of B, packed or not, transposed or not") {
  for (shape const& kn : {shape{13, 50}, shape{33, 31}, shape{67, 5}, shape{2, 64}})
    for (std::string_view precision : {"f32", "bf16", "f16", "bf16 bf16 f32 f32 f32 f32"})
      for (std::string_view weight : {"w", "w:tensor"})
        for (bool transposed : {false, true})
          for (bool other_order : {false, true}) {
            extent const k = kn[0], n = kn[1];
            numbers x = zeros_of({k, k});
            for (extent i = 0; i < k; ++i) x[static_cast<std::size_t>(i * k + (i * 5 + 1) % k)] = 1;
            // Numbers of 8 bits: the one of row i, column j differs from those of the rows and columns beside it.
            auto const b = [](extent i, extent j) {
              return static_cast<double>((i * 17 + j * 3) % 251);
            };
            shape const dims = transposed ? shape{n, k} : shape{k, n};
            numbers const w = counted_numbers(k * n, [&](extent i) {
              extent const row = i / dims[1], column = i % dims[1];
              return transposed ? b(column, row) : b(row, column);
            });
            numbers const wanted = counted_numbers(k * n, [&](extent i) {
              extent const row = i / n, column = i % n;
              for (extent q = 0; q < k; ++q)
                if (x[static_cast<std::size_t>(row * k + q)] != 0) return b(q, column);
              return -1.0;
            });
            std::string const chain = "matmul(x, " + std::string(weight) +
                                      (transposed ? ", transposed_weight)" : ")") +
                                      of_precision(precision);
            // Weights are packed from any memory order; k = 5 i + 1 visits every row where 5 does not divide it.
            strides const layout = other_order ? strides{1, dims[0]} : strides{};
            problem p = ordinary(
                problem_from(chain, {{k, k}, dims}, {{}, weight == "w" ? strides{} : layout}));
            CHECK(on_each(p, {x, w}, wanted) >= 1);
          }
}

// ---- Mixed dtypes.

TEST_CASE("case 16: mixed operand dtypes, K tails, one row, a destination in another order") {
  constexpr std::string_view types[] = {"f32", "bf16", "f16"};
  struct layout_case {
    shape x, w;
    strides out;
  };
  std::vector<layout_case> list;
  for (extent k : {1, 2, 15, 31, 33, 66, 67}) {
    list.push_back({{1, 1, k}, {1, k, 108}, {}});
    list.push_back({{1, 1, k}, {1, k, 108}, {108, 108, 1}});  // axes a, c, b
    list.push_back({{2, 3, k}, {2, k, 40}, {160, 40, 1}});    // a gap between batches
    list.push_back({{2, 3, k}, {2, k, 10}, {30, 1, 3}});      // axes a, c, b
  }
  list.push_back({{64, 576}, {576, 64}, {}});
  list.push_back({{64, 577}, {577, 64}, {}});
  int willing = 0, mixed = 0;
  for (std::string_view src : types)
    for (std::string_view weight : types)
      for (layout_case const& c : list) {
        extent const k = c.x.back(), n = c.w.back(), rows = count_of(c.x) / k;
        extent const of_batch = c.x.ssize() == 3 ? c.x[1] : rows;
        numbers const x = counted_numbers(
            rows * k, [&](extent i) { return static_cast<double>((i / k + 3 * (i % k)) % 7); });
        numbers const w = counted_numbers(count_of(c.w), [&](extent i) {
          return static_cast<double>((i / n + 5 * (i % n)) % 5);
        });
        numbers const wanted = counted_numbers(rows * n, [&](extent i) {
          extent const row = i / n, column = i % n;
          extent const matrix = c.w.ssize() == 3 ? row / of_batch * k * n : 0;
          double sum = 0;
          for (extent q = 0; q < k; ++q)
            sum += x[static_cast<std::size_t>(row * k + q)] *
                   w[static_cast<std::size_t>(matrix + q * n + column)];
          return sum;
        });
        for (std::string_view form : {"matmul(x, w)", "matmul(x, w:tensor)"}) {
          std::string const precision =
              " [" + std::string(src) + " " + std::string(weight) + " f32 f32 f32 f32]";
          std::string const chain = form == "matmul(x, w)" || src == weight
                                        ? std::string(form)
                                        : "matmul(x, w:tensor:" + std::string(weight) + ")";
          problem const p = problem_from(chain + precision, {c.x, c.w}, {}, {c.out});
          willing += on_each(p, {x, w}, wanted);
          mixed += src != weight;
        }
      }
  CHECK(willing > mixed);
}

// ---- beta * C.

TEST_CASE("case 22: an old output never counts: each kind of kernel writes over NaN") {
  struct kind {
    std::string chain;
    std::vector<shape> dims;
    double wanted;
  };
  // Ones everywhere: each output counts its terms, a number that bf16 has.
  std::vector<kind> const kinds = {
      {"matmul(x, w)", {{5, 7}, {7, 19}}, 7},
      {"matmul(x, w)", {{1, 2000}, {2000, 33}}, 2000},
      {"matmul(x, w)", {{64, 2}, {2, 64}}, 2},
      {"matmul(x, w:tensor)", {{2, 5, 7}, {2, 7, 19}}, 7},
      {"matmul(x, w) | row_sum", {{5, 7}, {7, 19}}, 7 * 19},
      {"conv2d(x, w)", {{1, 5, 5, 16}, {24, 1, 1, 16}}, 16},
      {"conv2d(x, w)", {{1, 5, 5, 16}, {24, 3, 3, 16}}, 144},
      {"conv2d(x, w, stride=2)", {{1, 9, 9, 3}, {24, 3, 3, 3}}, 27},
      {"conv2d(x, w, groups=4)", {{1, 5, 5, 32}, {32, 3, 3, 8}}, 72},
      {"conv2d(x, w, groups=32)", {{1, 5, 5, 32}, {32, 3, 3, 1}}, 9},
      {"conv2d(x, w) | max_pool(kernel=2)", {{1, 7, 7, 8}, {16, 3, 3, 8}}, 72},
      {"conv2d(x, w) | global_avg_pool", {{1, 7, 7, 8}, {16, 3, 3, 8}}, 72},
      {"avg_pool(x:tensor, kernel=3)", {{1, 7, 7, 8}}, 1},
      {"add(x:tensor, y:tensor)", {{5, 21}, {5, 21}}, 2},
      {"row_sum(x:tensor)", {{5, 21}}, 21},
  };
  for (kind const& c : kinds)
    for (std::string_view precision : {"f32", "bf16"}) {
      problem p = problem_from(c.chain + of_precision(precision), c.dims);
      std::vector<numbers> operands;
      for (shape const& d : c.dims) operands.push_back(ones_of(d));
      for (placement where : all_placements)
        CHECK(on_each(p, operands,
                      numbers(static_cast<std::size_t>(count_of(p.outputs[0].dims)), c.wanted), {},
                      where) >= 1);
    }
}

TEST_CASE("case 22: alpha A B + beta C is a chain, in place or not, and K = 0 leaves beta C") {
  constexpr double factors[] = {0, 1, -1, 0.5, 2, 3};
  for (std::string_view precision : {"f32", "bf16"})
    for (extent k : {0, 2})
      for (double alpha : factors)
        for (double beta : factors)
          for (int in_place : {-1, 2}) {
            std::string const chain = sinter::detail::join(
                {"matmul(x, w) | mul ", std::to_string(alpha), " | mul(c:tensor, ",
                 std::to_string(beta), ") | add(%1, %2)", of_precision(precision)});
            problem const p = problem_from(chain, {{3, k}, {k, 21}, {3, 21}}, {}, {}, in_place);
            // A B = 6, C = 5
            double const product = k == 0 ? 0 : 6;
            CHECK(on_each(p,
                          {numbers(static_cast<std::size_t>(3 * k), 1.5),
                           numbers(static_cast<std::size_t>(k * 21), 2), numbers(63, 5)},
                          numbers(63, alpha * product + beta * 5)) >= 1);
          }
}

TEST_CASE("case 22: there is no attribute beta") {
  auto const refused = parse_chain("matmul(x, w, beta=0.5)");
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().message ==
        "sinter: chain text: an attribute of a matmul is wanted at character 18, given is '0.5)'");
}

// ---- Sums of integers.

TEST_CASE("case 37: sums of bytes are exact in s32, or refused with a sentence") {
  std::string const precision = " [s8 s8 s32 f32 s32 s32]";
  numbers w(1536, -128), x(1536, 50);
  w[0] = -87;
  for (auto const& [chain, xs, ws] :
       {std::tuple{"matmul(x, w)", shape{1, 1536}, shape{1536, 1}},
        std::tuple{"conv2d(x, w)", shape{1, 1, 1, 1536}, shape{1, 1, 1, 1536}}}) {
    problem const p = problem_from(chain + precision, {xs, ws});
    for (engine const& e : engines()) {
      call_result const r = e.call(p, {x, w});
      if (r.willing) {
        REQUIRE_MESSAGE(r.text.empty(), e.name, ": ", r.text);
        CHECK_MESSAGE(r.output == numbers{-9828350}, e.name);
      } else {
        std::string const code(name_of(p.chain.steps[0].code));
        CHECK_MESSAGE(r.text == (e.name == "onednn" ? "sinter: the oneDNN backend multiplies "
                                                      "operands of one floating dtype, that of "
                                                      "the precision; step 0 (" +
                                                          code + ") reads s8 and s8"
                                                    : "sinter: jit: operand 'x' of " + code +
                                                          " is s8; f32, bf16 or f16 is wanted"),
                      e.name);
        CHECK(e.name != "reference");
      }
    }
  }
}

TEST_CASE("case 49: bytes are read in their own sign and saturate once, at the store") {
  struct row {
    std::string chain;
    double x, r, wanted;
  };
  for (row const& c : std::vector<row>{
           {"linear(x:tensor, 1, 0) | mul(r:tensor:s8, 1.5) | add(%0, %1) -> out=%2:u8", 100, -16,
            76},
           {"linear(x:tensor, 1, 0) | mul(r:tensor:u8, 1.5) | add(%0, %1) -> out=%2:u8", 100, 240,
            255},
           {"linear(x:tensor, 1, 0) | add r:tensor -> out=%1:s8", 120, 10, 127},
           {"linear(x:tensor, 1, 0) | add r:tensor | sub 100 -> out=%2:s8", 120, 10, 30},
           {"linear(x:tensor, 1, 0) | add r:tensor | clip(-128, 127) | sub 100 -> out=%3:s8", 120,
            10, 27},
           {"linear(x:tensor, 1, 0) | sub r:tensor -> out=%1:u8", 3, 10, 0},
           {"linear(x:tensor, 1, 0) | mul r:tensor -> out=%1:s8", -0.5, 5, -2},  // ties to even
       }) {
    problem const p = problem_from(c.chain, {{3, 21}, {3, 21}});
    int const willing = on_each(p, {numbers(63, c.x), numbers(63, c.r)}, numbers(63, c.wanted));
    CHECK_MESSAGE(willing >= 1, c.chain);
  }
}

// ---- The caller's rounding mode.

TEST_CASE(
    "case 71: the caller's rounding mode and flushing are kept, and sums of whole numbers are "
    "exact in any") {
  struct kind {
    std::string chain;
    std::vector<shape> dims;
    double wanted;
  };
  std::vector<kind> const kinds = {
      {"matmul(x, w)", {{9, 33}, {33, 21}}, 33},
      {"matmul(x, w:tensor) | relu", {{9, 33}, {33, 21}}, 33},
      {"conv2d(x, w) | relu", {{1, 5, 5, 16}, {24, 3, 3, 16}}, 144},
      {"conv2d(x, w, groups=4)", {{1, 5, 5, 32}, {32, 3, 3, 8}}, 72},
      {"conv2d(x, w, groups=32)", {{1, 5, 5, 32}, {32, 3, 3, 1}}, 9},
      {"conv2d(x, w) | max_pool(kernel=2)", {{1, 7, 7, 8}, {16, 3, 3, 8}}, 72},
      {"avg_pool(x:tensor, kernel=3)", {{1, 7, 7, 8}}, 1},
      {"row_sum(x:tensor)", {{5, 21}}, 21},
      {"row_max(x:tensor) | sub(x, %0) | exp", {{5, 21}}, 1},
  };
  constexpr unsigned usual = 0x1f80, toward_zero = 0x7f80, flushing = 0x9fc0, all = 0xffc0;
  REQUIRE((_mm_getcsr() & all) == usual);
  for (kind const& c : kinds)
    for (std::string_view precision : {"f32", "bf16"})
      for (engine const& e : engines()) {
        problem const p = ordinary(problem_from(c.chain + of_precision(precision), c.dims));
        auto const k = e.build(p);
        if (!k) continue;
        std::vector<numbers> operands;
        for (shape const& d : c.dims) operands.push_back(ones_of(d));
        for (unsigned mode : {usual, toward_zero, flushing, toward_zero | flushing}) {
          _mm_setcsr(mode);
          call_result const r = call_kernel(**k, e.capped(p), operands);
          unsigned const after = _mm_getcsr();
          _mm_setcsr(usual);
          CHECK_MESSAGE((after & all) == mode, e.name, " ", text(p));
          REQUIRE_MESSAGE(r.text.empty(), r.text);
          CHECK_MESSAGE(r.output == numbers(r.output.size(), c.wanted), e.name, " ", text(p),
                        " mode ", mode);
        }
      }
}

// ---- One rounding.

TEST_CASE("case 59: a fused chain in bf16 rounds once, a let rounds where it stands") {
  // The sum is 257, half way between two bf16 values of which 256 is the even one.
  struct kind {
    std::string head;
    shape x, w;
    double last;  ///< of w's terms; the others are 1
  };
  std::vector<kind> const kinds = {
      {"matmul(x, w)", {5, 2}, {2, 33}, 256},
      {"matmul(x, w)", {5, 66}, {66, 33}, 192},
      {"matmul(x, w:tensor)", {5, 2}, {2, 33}, 256},
      {"conv2d(x, w)", {1, 4, 4, 2}, {33, 1, 1, 2}, 256},
      {"conv2d(x, w)", {1, 4, 4, 2}, {33, 3, 3, 2}, 240},
      {"conv2d(x, w, groups=2)", {1, 4, 4, 32}, {32, 1, 1, 16}, 242},
      {"conv2d(x, w, groups=32)", {1, 4, 4, 32}, {32, 3, 3, 1}, 249},
  };
  for (kind const& c : kinds) {
    bool const conv = c.x.ssize() == 4;
    extent const terms = conv ? count_of(c.w) / c.w[0] : c.w[0];
    // The last term of each sum stands last in a filter, in the last row of a matrix.
    numbers const w = counted_numbers(count_of(c.w), [&](extent i) {
      bool const last = conv ? i % terms == terms - 1 : i / c.w[1] == terms - 1;
      return last ? c.last : 1.0;
    });
    REQUIRE(static_cast<double>(terms - 1) + c.last == 257);
    for (auto const& [tail, wanted] :
         {std::pair{" | add r:tensor", 258.0}, std::pair{" | let mul 1 | add r:tensor", 256.0},
          std::pair{" | cast<bf16> | add r:tensor", 256.0},
          std::pair{" | mul 1 | add r:tensor", 258.0}, std::pair{" | add b:vector", 258.0},
          std::pair{" | add 1 | mul 0.5 | add 0.5", 130.0}}) {
      problem const p = problem_from(c.head + tail + " [bf16]", {c.x, c.w});
      std::vector<numbers> operands{ones_of(c.x), w};
      for (int i = 2; i < p.chain.operands.ssize(); ++i)
        operands.push_back(ones_of(p.operands[static_cast<std::size_t>(i)].dims));
      CHECK(on_each(p, operands,
                    numbers(static_cast<std::size_t>(count_of(p.outputs[0].dims)), wanted)) >= 1);
    }
  }
}
