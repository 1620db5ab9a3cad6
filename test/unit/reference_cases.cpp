// The oracle against closed forms, small integers and counting: nothing here is computed by the
// library's own formulas.
#include <doctest/doctest.h>

#include <cmath>

#include "oracle.hpp"

using namespace sinter_test;

TEST_CASE("steps run in written order") {
  for (std::string_view precision : {"", " [bf16]"}) {
    given_tensor const x = filled({5, 7}, 0), w = filled({7, 3}, 1);
    double const tolerance = precision.empty() ? 1e-6 : 4e-3;
    std::string const end(precision);
    for (double v : evaluate_text("matmul(x, w) | add 2 | sigmoid" + end, {x, w}))
      CHECK(v == doctest::Approx(0.880797).epsilon(tolerance));
    for (double v : evaluate_text("matmul(x, w) | sigmoid | add 2" + end, {x, w})) CHECK(v == 2.5);
  }
}

TEST_CASE("all ordered pairs and triples of steps against a scalar loop") {
  struct named {
    std::string_view text;
    double (*f)(double);
  };
  named const ops[] = {
      {"relu", [](double v) { return v > 0 ? v : 0; }},
      {"clip(-0.5, 0.75)", [](double v) { return std::min(std::max(v, -0.5), 0.75); }},
      {"gelu_erf", [](double v) { return v / 2 * (1 + std::erf(v / std::sqrt(2.0))); }},
      {"sigmoid", [](double v) { return 1 / (1 + std::exp(-v)); }},
      {"tanh", [](double v) { return std::tanh(v); }},
      {"add 0.25", [](double v) { return v + 0.25; }},
      {"mul -1.5", [](double v) { return v * -1.5; }},
      {"add r:tensor", [](double v) { return v + 0.625; }},
  };
  std::vector<double> const inputs{-3, -0.5, -0.0625, 0, 0.375, 2};
  int wrong = 0;
  for (named const& a : ops)
    for (named const& b : ops)
      for (named const& c : ops) {
        std::string const steps =
            std::string(a.text) + " | " + std::string(b.text) + " | " + std::string(c.text);
        std::vector<given_tensor> operands{{{6, 1}, inputs}, filled({1, 1}, 1)};
        if (steps.find("r:tensor") != std::string::npos) operands.push_back(filled({1, 1}, 0.625));
        auto const given = evaluate_text("matmul(x, w) | " + steps, operands);
        for (std::size_t i = 0; i < inputs.size(); ++i)
          if (std::abs(given[i] - c.f(b.f(a.f(inputs[i])))) > 2e-7) ++wrong;
      }
  CHECK(wrong == 0);
}

TEST_CASE("addends of every shape fill the right axis") {
  given_tensor const x = filled({4, 4}, 0), w = filled({4, 4}, 1);
  std::vector<double> const list{0, 10, 20, 30};
  auto const add = [&](given_tensor const& r) {
    return evaluate_text("matmul(x, w) | add r:tensor", {x, w, r});
  };
  auto const columns = add({{4}, list}), same = add({{1, 4}, list}), rows = add({{4, 1}, list});
  auto const vector = evaluate_text("matmul(x, w) | add b:vector", {x, w, {{4}, list}});
  auto const single = add({{1, 1}, {7}});
  auto const whole = counted({4, 4}, [](extent n) { return static_cast<double>(n); });
  auto const full = add(whole), across = add({{4, 4}, whole.values, {1, 4}});
  for (std::size_t i = 0; i < 4; ++i)
    for (std::size_t j = 0; j < 4; ++j) {
      CHECK(columns[i * 4 + j] == list[j]);
      CHECK(same[i * 4 + j] == list[j]);
      CHECK(vector[i * 4 + j] == list[j]);
      CHECK(rows[i * 4 + j] == list[i]);
      CHECK(single[i * 4 + j] == 7);
      CHECK(full[i * 4 + j] == whole.values[i * 4 + j]);
      CHECK(across[i * 4 + j] == whole.values[j * 4 + i]);
    }
  // Missing leading axes: [128, 1], [32, 1, 1], [12] on [32, 128, 12].
  given_tensor const big = filled({32, 128, 12}, 0);
  auto const index = [](extent n) { return static_cast<double>(n); };
  auto const a = evaluate_text("add(x:tensor, r:tensor)", {big, counted({128, 1}, index)});
  auto const b = evaluate_text("add(x:tensor, r:tensor)", {big, counted({32, 1, 1}, index)});
  auto const c = evaluate_text("add(x:tensor, r:tensor)", {big, counted({12}, index)});
  int wrong = 0;
  for (std::size_t n = 0; n < a.size(); ++n)
    if (a[n] != static_cast<double>(n / 12 % 128) || b[n] != static_cast<double>(n / 12 / 128) ||
        c[n] != static_cast<double>(n % 12))
      ++wrong;
  CHECK(wrong == 0);
}

TEST_CASE("an addend has its own image, channel and place") {
  // conv: 3 images, 2 channels in and out, width 2, kernel 1.
  given_tensor const x = filled({3, 1, 2, 2}, 0), w = filled({2, 1, 1, 2}, 1);
  auto const hundred =
      counted({3, 1, 2, 2}, [](extent n) { return static_cast<double>(100 * (n / 4)); });
  auto const full = evaluate_text("conv2d(x, w) | add r:tensor", {x, w, hundred});
  auto const per_image =
      evaluate_text("conv2d(x, w) | add r:tensor", {x, w, {{3, 1, 1, 1}, {0, 100, 200}}});
  auto const channel = evaluate_text("conv2d(x, w) | add b:vector", {x, w, {{2}, {1, 2}}});
  auto const place =
      evaluate_text("conv2d(x, w) | add r:tensor", {x, w, {{1, 1, 2, 1}, {0.5, -4}}});
  for (std::size_t n = 0; n < 12; ++n) {
    CHECK(full[n] == 100.0 * static_cast<double>(n / 4));
    CHECK(per_image[n] == full[n]);
    CHECK(channel[n] == (n % 2 == 0 ? 1 : 2));
    CHECK(place[n] == (n / 2 % 2 == 0 ? 0.5 : -4));
  }
  auto const batched =
      evaluate_text("matmul(x, w) | add r:tensor",
                    {filled({3, 2, 2}, 0), filled({3, 2, 2}, 1), {{3, 1, 1}, {0, 100, 200}}});
  for (std::size_t n = 0; n < 12; ++n) CHECK(batched[n] == 100.0 * static_cast<double>(n / 4));
}

TEST_CASE("convolution of ones counts taps") {
  for (std::string_view precision : {"", " [bf16]"})
    for (extent c : {1, 2, 3, 5})
      for (extent o : {1, 3})
        for (extent k : {1, 2, 3, 5, 7}) {
          CAPTURE(c);
          CAPTURE(k);
          auto const v = evaluate_text("conv2d(x, w)" + std::string(precision),
                                       {filled({1, k, k, c}, 1), filled({o, k, k, c}, 1)});
          CHECK(v.size() == static_cast<std::size_t>(o));
          double const count = static_cast<double>(c * k * k);
          for (double e : v) CHECK(e == (precision.empty() ? count : rounded(dtype::bf16, count)));
        }
}

TEST_CASE("asymmetric padding: each output is its number of taps inside") {
  auto const line = evaluate_text("conv1d(x, w, pad_begin=1, pad_end=2)",
                                  {filled({1, 64, 1}, 1), filled({1, 4, 1}, 1)});
  CHECK(line.size() == 64);
  for (std::size_t i = 0; i < 64; ++i) CHECK(line[i] == (i == 0 || i == 62 ? 3 : i == 63 ? 2 : 4));

  int compared = 0, wrong = 0;
  for (extent width = 1; width <= 20; width += 3)
    for (int k = 1; k <= 5; ++k)
      for (int s = 1; s <= 3; ++s)
        for (int d = 1; d <= 3; ++d)
          for (int left = 0; left <= 3; ++left)
            for (int right = 0; right <= 3; ++right) {
              extent const out = conv_extent(width, k, s, d, left, right);
              if (out <= 0) continue;
              std::string const t = "conv2d(x, w, stride=1x" + std::to_string(s) +
                                    ", pad_begin=2x" + std::to_string(left) + ", pad_end=1x" +
                                    std::to_string(right) + ", dilation=1x" + std::to_string(d) +
                                    ") | add b:vector";
              auto const v = evaluate_text(
                  t, {filled({1, 2, width, 3}, 1), filled({2, 3, k, 3}, 1), filled({2}, 10)});
              for (extent oh = 0; oh < 3; ++oh)
                for (extent ow = 0; ow < out; ++ow) {
                  int rows = 0, columns = 0;
                  for (int kh = 0; kh < 3; ++kh)
                    rows += oh - 2 + kh >= 0 && oh - 2 + kh < 2 ? 1 : 0;
                  for (int kw = 0; kw < k; ++kw)
                    columns +=
                        ow * s - left + kw * d >= 0 && ow * s - left + kw * d < width ? 1 : 0;
                  for (extent o = 0; o < 2; ++o, ++compared)
                    if (v[static_cast<std::size_t>((oh * out + ow) * 2 + o)] !=
                        rows * columns * 3 + 10)
                      ++wrong;
                }
            }
  CHECK(wrong == 0);
  CHECK(compared > 10000);
}

TEST_CASE("a stride larger than the kernel") {
  auto const v = evaluate_text("conv2d(x, w, stride=3x1, pad_begin=0x1, pad_end=0)",
                               {filled({1, 67, 4, 32}, 1), filled({48, 1, 1, 32}, 1)});
  CHECK(v.size() == 23 * 5 * 48);
  for (std::size_t n = 0; n < v.size(); ++n) CHECK(v[n] == (n / 48 % 5 == 0 ? 0 : 32));
  for (auto const& [k, s] : {std::pair{2, 5}, std::pair{3, 4}}) {
    std::string const t = "conv1d(x, w, stride=" + std::to_string(s) + ")";
    auto const x = counted({1, 23, 1}, [](extent n) { return static_cast<double>(n); });
    auto const y = evaluate_text(t, {x, filled({1, k, 1}, 1)});
    for (std::size_t i = 0; i < y.size(); ++i) {
      double const first = static_cast<double>(i) * s;
      CHECK(y[i] == k * first + k * (k - 1) / 2);
    }
  }
}

TEST_CASE("depthwise with dilation") {
  for (extent c : {1, 3, 4, 15, 17}) {
    auto const v = evaluate_text(
        "conv2d(x, w, pad=2, dilation=2, groups=" + std::to_string(c) + ") | add b:vector",
        {filled({1, 5, 5, c}, 1), filled({c, 3, 3, 1}, 1.0 / 9), filled({c}, 1)});
    auto const at = [&](extent h, extent w, extent ch) {
      return v[static_cast<std::size_t>((h * 5 + w) * c + ch)];
    };
    for (extent ch = 0; ch < c; ++ch) {
      CHECK(at(0, 0, ch) == doctest::Approx(1.4444).epsilon(1e-4));
      CHECK(at(0, 2, ch) == doctest::Approx(1.6667).epsilon(1e-4));
      CHECK(at(2, 2, ch) == doctest::Approx(2.0).epsilon(1e-6));
    }
  }
}

TEST_CASE("groups read their own channels only") {
  // 2 groups of 3 channels in, 2 out: group g sums channels 3g .. 3g+2; weights count the output
  // channel.
  auto const x = counted({1, 1, 6}, [](extent n) { return std::pow(10, n); });
  auto const w = counted({4, 1, 3}, [](extent n) { return static_cast<double>(n / 3 + 1); });
  CHECK(evaluate_text("conv1d(x, w, groups=2)", {x, w}) ==
        std::vector<double>{111, 222, 333000, 444000});
}

TEST_CASE("long sums do not saturate") {
  CHECK(evaluate_text("matmul(x, w) [bf16]", {filled({1, 4096}, 1), filled({4096, 1}, 1)}) ==
        std::vector<double>{4096});
  for (double v :
       evaluate_text("matmul(x, w) [bf16]", {filled({64, 1024}, 1), filled({1024, 64}, 1)}))
    CHECK(v == 1024);
}

TEST_CASE("extents of 0") {
  CHECK(evaluate_text("matmul(x, w)", {filled({0, 4}, 0), filled({4, 3}, 1)}).empty());
  CHECK(evaluate_text("matmul(x, w)", {filled({4, 3}, 0), filled({3, 0}, 1)}).empty());
  CHECK(evaluate_text("matmul(x, w)", {filled({0, 2, 4}, 0), filled({4, 3}, 1)}).empty());
  CHECK(evaluate_text("conv2d(x, w)", {filled({0, 5, 5, 4}, 0), filled({4, 3, 3, 4}, 1)}).empty());
  for (std::string_view t : {"matmul(x, w)", "matmul(x, w, transposed_src, transposed_weight)"}) {
    bool const transposed = t.size() > 20;
    auto const v = evaluate_text(std::string(t) + " | add b:vector | relu",
                                 {transposed ? filled({0, 2}, 0) : filled({2, 0}, 0),
                                  transposed ? filled({3, 0}, 0) : filled({0, 3}, 0),
                                  {{3}, {-1, 0, 2}}});
    CHECK(v == std::vector<double>{0, 0, 2, 0, 0, 2});
  }
  CHECK(evaluate_text("conv2d(x, w) | add b:vector",
                      {filled({1, 2, 2, 0}, 0), filled({2, 1, 1, 0}, 0), {{2}, {3, 4}}}) ==
        std::vector<double>{3, 4, 3, 4, 3, 4, 3, 4});
  CHECK(evaluate_text("relu(x:tensor)", {filled({3, 0, 2}, 0)}).empty());
}

TEST_CASE("kernels larger than the padded input never get here") {
  for (extent width = 1; width <= 40; width += 3)
    for (extent k = 1; k <= 11; ++k) {
      chain const c = parse_chain("conv1d(x, w)").value();
      operand_spec const specs[] = {tensor_desc{dtype::f32, {1, width, 1}, {}},
                                    tensor_desc{dtype::f32, {1, k, 1}, {}}};
      auto const p = make_problem(c, specs);
      CHECK(p.ok() == (k <= width));
      if (p.ok()) CHECK(p.value().outputs[0].dims == shape{1, width - k + 1, 1});
    }
}

TEST_CASE("rounding points: once at the store, at lets, at casts, at what a contraction reads") {
  given_tensor const x{{1, 2}, {256, 1}}, ones{{2, 1}, {1, 1}}, one{{1, 1}, {1}};
  // 257 + 1 is 258 in bf16 when rounded once, 256 when 257 is rounded first (257 ties to 256, 257
  // is even).
  CHECK(evaluate_text("matmul(x, w) | add r:tensor [bf16]", {x, ones, one}) ==
        std::vector<double>{258});
  CHECK(evaluate_text("let matmul(x, w) | add r:tensor [bf16]", {x, ones, one}) ==
        std::vector<double>{256});
  CHECK(evaluate_text("matmul(x, w) | cast<bf16> | add r:tensor", {x, ones, one}) ==
        std::vector<double>{257});
  // A let in f32 precision rounds to f32: nothing to see; the second contraction reads the src
  // dtype.
  CHECK(evaluate_text("let matmul(x, w) | add r:tensor", {x, ones, one}) ==
        std::vector<double>{258});
  CHECK(evaluate_text("matmul(x, w) | matmul(%0, v) [bf16]", {x, ones, one}) ==
        std::vector<double>{256});
  CHECK(evaluate_text("matmul(x, w) | matmul(%0, v)", {x, ones, one}) == std::vector<double>{257});
  CHECK(evaluate_text("add(x:tensor, 1) | matmul(%0, w) [bf16 bf16 f32 f32 f32 f32]",
                      {{{1, 1}, {256}}, one}) == std::vector<double>{256});
}

TEST_CASE("several outputs, steps that read earlier ones") {
  auto const r = evaluate_all("matmul(x, w) | mul 1.5 | relu | mul(%0, %2) -> h=%1, out=%3",
                              {{{1, 3}, {-1, 2, 3}}, {{3, 2}, {1, 0, 0, 1, 1, -1}}});
  CHECK(r[0] == std::vector<double>{3, -1.5});
  CHECK(r[1] == std::vector<double>{6, -0.0});
}

TEST_CASE("values are computed at their own extents before an anchor and for outputs") {
  // Prologue: (x + b) with b along K, then a product that reads it; the prologue value is an output
  // too.
  auto const r =
      evaluate_all("add(x:tensor, b:vector) | matmul(%0, w) | relu -> h=%0, out=%2",
                   {{{2, 3}, {1, 2, 3, 4, 5, 6}}, {{3}, {10, 20, 30}}, filled({3, 1}, 1)});
  CHECK(r[0] == std::vector<double>{11, 22, 33, 14, 25, 36});
  CHECK(r[1] == std::vector<double>{66, 75});
  // A prologue on the weight side, transposed source and weight: 1 * (2 * 3) + 10 * (2 * 4).
  CHECK(evaluate_text("mul(w:tensor, 2) | matmul(x, %0, transposed_src, transposed_weight)",
                      {{{1, 2}, {3, 4}}, {{2, 1}, {1, 10}}}) == std::vector<double>{86});
}
