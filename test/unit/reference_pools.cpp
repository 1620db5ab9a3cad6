// Poolings against loops over plain images, and the problems that their chains make.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "oracle.hpp"
#include "problem_text.hpp"

using namespace sinter_test;

namespace {

constexpr double inf = std::numeric_limits<double>::infinity();
double const not_a_number = std::numeric_limits<double>::quiet_NaN();

struct window {
  int kernel, stride, pad, pad_end;
  bool ceil, count_pad;
};

/// PyTorch's loops, one channel at a time: padding is looked at and left out.
std::vector<double> plain(bool max, std::vector<double> const& x, extent h, extent w, extent c,
                          window const& k, extent out_h, extent out_w) {
  std::vector<double> y;
  for (extent i = 0; i < out_h; ++i)
    for (extent j = 0; j < out_w; ++j)
      for (extent ch = 0; ch < c; ++ch) {
        double largest = -inf, sum = 0;
        int counted = 0;
        for (extent a = i * k.stride - k.pad; a < i * k.stride - k.pad + k.kernel; ++a)
          for (extent b = j * k.stride - k.pad; b < j * k.stride - k.pad + k.kernel; ++b) {
            bool const inside = a >= 0 && a < h && b >= 0 && b < w;
            bool const padded = a < h + k.pad_end && b < w + k.pad_end;
            if (inside || (k.count_pad && padded)) ++counted;
            if (!inside) continue;
            double const v = x[static_cast<std::size_t>((a * w + b) * c + ch)];
            largest = std::max(largest, v);
            sum += v;
          }
        y.push_back(max ? largest : sum / counted);
      }
  return y;
}

std::string text_of(bool max, window const& k) {
  return detail::join({max ? "max_pool" : "avg_pool", "(x:tensor, kernel=", k.kernel,
                       ", stride=", k.stride, ", pad_begin=", k.pad, ", pad_end=", k.pad_end,
                       k.ceil ? ", ceil" : "", !max && !k.count_pad ? ", exclude_pad" : "", ")"});
}

}  // namespace

TEST_CASE("poolings of images against plain loops") {
  int compared = 0;
  for (int kernel : {1, 2, 3, 5})
    for (int stride : {1, 2, 3})
      for (int pad = 0; pad < std::min(kernel, 3); ++pad)
        for (int pad_end = 0; pad_end < std::min(kernel, 3); ++pad_end)
          for (int flags = 0; flags < 4; ++flags)
            for (bool max : {true, false}) {
              window const k{kernel, stride, pad, pad_end, (flags & 1) != 0, (flags & 2) != 0};
              extent const h = 5 + (kernel + stride) % 3, w = 8, c = 3;
              given_tensor const x = counted(
                  {1, h, w, c}, [](extent n) { return static_cast<double>(n * 37 % 64 - 32) / 8; });
              std::string const chain = text_of(max, k);
              CAPTURE(chain);
              shape const out = problem_of(chain, {dims({1, h, w, c})}).value().outputs[0].dims;
              // The definition of the extents: as many windows as begin inside, and fit or may reach over.
              for (int axis : {1, 2}) {
                extent const in = axis == 1 ? h : w;
                extent many = 0;
                while (many * stride + kernel <= in + pad + pad_end ||
                       (k.ceil && many * stride < in + pad &&
                        (many - 1) * stride + kernel < in + pad + pad_end))
                  ++many;
                CHECK(out[axis] == many);
              }
              auto const given = evaluate_text(chain, {x});
              auto const wanted = plain(max, x.values, h, w, c, k, out[1], out[2]);
              REQUIRE(given.size() == wanted.size());
              int wrong = 0;
              for (std::size_t i = 0; i < given.size(); ++i)
                if (std::abs(given[i] - wanted[i]) > 1e-6 * std::abs(wanted[i])) ++wrong;
              CHECK(wrong == 0);
              ++compared;
            }
  CHECK(compared > 300);
}

TEST_CASE("global_avg_pool is the mean of each channel of each image") {
  given_tensor const x = counted(
      {2, 3, 4, 5}, [](extent n) { return static_cast<double>(n % 7) + (n >= 60 ? 100 : 0); });
  auto const y = evaluate_text("global_avg_pool(x:tensor)", {x});
  REQUIRE(y.size() == 10);
  for (std::size_t image = 0; image < 2; ++image)
    for (std::size_t c = 0; c < 5; ++c) {
      double sum = 0;
      for (std::size_t pixel = 0; pixel < 12; ++pixel) sum += x.values[image * 60 + pixel * 5 + c];
      CHECK(y[image * 5 + c] == doctest::Approx(sum / 12));
    }
}

TEST_CASE("NaN, infinities and zeros in windows; no channel and no window sees another") {
  given_tensor const x{{1, 1, 4, 2}, {not_a_number, 1, -1, 2, -inf, -inf, -inf, inf}};
  auto const max = evaluate_text("max_pool(x:tensor, kernel=1x2)", {x});
  CHECK((std::isnan(max[0]) && max[1] == 2 && max[2] == -inf && max[3] == inf));
  auto const avg = evaluate_text("avg_pool(x:tensor, kernel=1x2)", {x});
  CHECK((std::isnan(avg[0]) && avg[1] == 1.5 && avg[2] == -inf && std::isnan(avg[3])));
  given_tensor const last{{1, 1, 2, 1}, {1, not_a_number}};
  CHECK(std::isnan(evaluate_text("max_pool(x:tensor, kernel=1x2)", {last})[0]));
}

TEST_CASE("steps before, behind and beside a pooling; several outputs of other extents") {
  given_tensor const x = counted({1, 4, 4, 2}, [](extent n) { return static_cast<double>(n) - 9; });
  given_tensor const b{{2}, {0.5, -0.5}};
  auto const all = evaluate_all(
      "relu(x:tensor) | add b:vector | max_pool(kernel=2) | mul b:vector | mul(%1, 2) -> out=%3, "
      "whole=%4",
      {x, b});
  REQUIRE((all[0].size() == 8 && all[1].size() == 32));
  for (std::size_t i = 0; i < 32; ++i)
    CHECK(all[1][i] == 2 * (std::max(x.values[i], 0.0) + b.values[i % 2]));
  for (std::size_t i = 0; i < 2; ++i)
    for (std::size_t j = 0; j < 2; ++j)
      for (std::size_t c = 0; c < 2; ++c) {
        std::size_t const at =
            ((2 * i + 1) * 4 + 2 * j + 1) * 2 + c;  // the last of a window is the largest
        CHECK(all[0][(i * 2 + j) * 2 + c] ==
              (std::max(x.values[at], 0.0) + b.values[c]) * b.values[c]);
      }
}

TEST_CASE("a pooling behind a convolution, before one, and of what a reduction left") {
  // All ones: each sum counts its taps, so the window's largest is 9 wherever an inner pixel is seen.
  given_tensor const x = filled({1, 6, 6, 1}, 1), w = filled({1, 3, 3, 1}, 1);
  auto const y = evaluate_text("conv2d(x, w, pad=1) | max_pool(kernel=2)", {x, w});
  CHECK(std::all_of(y.begin(), y.end(), [](double v) { return v == 9; }));
  auto const z = evaluate_text("max_pool(x:tensor, kernel=2) | conv2d(%0, w, pad=1)", {x, w});
  CHECK(z == std::vector<double>{4, 6, 4, 6, 9, 6, 4, 6, 4});
  given_tensor const rows = counted({1, 2, 2, 3}, [](extent n) { return static_cast<double>(n); });
  auto const m = evaluate_text("row_max(x:tensor) | avg_pool(kernel=2)", {rows});
  CHECK(m == std::vector<double>{(2 + 5 + 8 + 11) / 4.0});
}

TEST_CASE("rounding: none before the window, a let where it stands") {
  // 1 + 2^-9 is no bf16; two of them and two ones average to 1 + 2^-10.
  given_tensor const x{{1, 2, 2, 1}, {1, 1, 1, 1}};
  given_tensor const r{{1, 2, 2, 1}, {0x1p-7, 0, 0, 0}};
  CHECK(evaluate_text("add(x:tensor, r:tensor) | mul 0.25 | avg_pool(kernel=2) | sub 0.25 [bf16]",
                      {x, r})[0] == 0x1p-11);
  CHECK(evaluate_text("add(x:tensor, r:tensor) | let mul 0.3 | avg_pool(kernel=2) [bf16]",
                      {x, r})[0] == evaluate_text("add(x:tensor, r:tensor) | let mul 0.3 | "
                                                  "avg_pool(kernel=2) | mul 1 [bf16]",
                                                  {x, r})[0]);
}

TEST_CASE("what is refused of a window") {
  CHECK(refusal("max_pool(x:tensor, kernel=2)", {dims({4, 4, 3})}) ==
        "sinter: max_pool wants an image of rank 4, N,H,W,C; given is 'x' of 4x4x3");
  CHECK(
      refusal("max_pool(x:tensor, kernel=2)", {dims({1, 4, 4, dynamic})}) ==
      "sinter: max_pool has a dynamic extent among the channels of 'x' of 1x4x4x?; only batch and "
      "image extents may be dynamic");
  CHECK(
      refusal("avg_pool(x:tensor, kernel=5, pad=1)", {dims({1, 2, 8, 3})}) ==
      "sinter: avg_pool: the window spans 5 on axis 1, more than the 4 of 'x' of 1x2x8x3 with its "
      "padding");
  CHECK(refusal("global_avg_pool(x:tensor)", {dims({1, 0, 8, 3})}) ==
        "sinter: global_avg_pool of 'x' of 1x0x8x3; an image with pixels is wanted");
  CHECK(refusal("max_pool(x:tensor, kernel=1) [bf16]",
                {dims({1, (extent{1} << 61) + 1, 1, 1}, {0, 0, 1, 1}, dtype::bf16)}) ==
        "sinter: max_pool of 'x' of 1x2305843009213693953x1x1 has extents that pass 2^61");
  CHECK(refusal("max_pool(x:tensor, kernel=0)", {}) ==
        "sinter: max_pool has the kernel 0; 1 or more is wanted");
  CHECK(refusal("max_pool(x:tensor, kernel=2, stride=0)", {}) ==
        "sinter: max_pool has the stride 0; 1 or more is wanted");
  CHECK(refusal("max_pool(x:tensor, kernel=2, pad=-1)", {}) ==
        "sinter: max_pool has the padding -1, -1; 0 or more is wanted");
  CHECK(refusal("max_pool(x:tensor, kernel=2, pad=2)", {}) ==
        "sinter: max_pool has the padding 2, 2 and the kernel 2; less is wanted, so that each "
        "window sees the image");
  CHECK(refusal("max_pool(1, kernel=2)", {}) ==
        "sinter: step 0 (max_pool) reads a constant; an operand or a step is wanted");
  CHECK(refusal("relu(x:tensor) | max_pool(kernel=2) | add %0", {dims({1, 4, 4, 3})})
            .find("does not broadcast with") != std::string::npos);
  CHECK(refusal("max_pool(x:tensor, kernel=2) | add r:tensor", {dims({1, 4, 4, 3}), nothing}) ==
        "");
  CHECK(refusal("max_pool(x:tensor, kernel=2, size=2)", {}) ==
        "sinter: chain text: stride, pad, pad_begin or pad_end before this value is wanted at "
        "character 35, given is ')'");
  CHECK(refusal("max_pool(x:tensor, kernel=2) | max_pool(kernel=2)", {dims({1, 8, 8, 3})}) ==
        "sinter: chain text: a chain of at most 1 pooling is wanted at character 49, given is ''");
  CHECK(
      refusal("max_pool(x:tensor, kernel=3, stride=1, pad=1)", {dims({1, 4, 4, 3})}, {}, 0) ==
      "sinter: operand 'x' cannot share memory with output 'out': a contraction or a pooling reads "
      "each of its elements more than once");
}

TEST_CASE("extents of poolings: dynamic, and of each value") {
  problem const p =
      problem_of("relu(x:tensor) | max_pool(kernel=3, stride=2, pad=1) | add b:vector",
                 {dims({dynamic, dynamic, 9, 3})})
          .value();
  CHECK(p.domain == shape{dynamic, dynamic, 5, 3});
  CHECK(value_dims(p, step_ref(0)) == shape{dynamic, dynamic, 9, 3});
  CHECK(p.operands[1].dims == shape{3});
  CHECK(problem_of("global_avg_pool(x:tensor)", {dims({1, dynamic, dynamic, 3})}).value().domain ==
        shape{1, 1, 1, 3});
}

TEST_CASE("the text form of poolings is read back") {
  for (std::string_view text : {
           "max_pool(x:tensor, kernel=3, stride=2, pad=1)",
           "max_pool(x:tensor, kernel=3x2, stride=1x4, pad_begin=1x0, pad_end=0x1, ceil) | relu",
           "conv2d(x, w) | relu | avg_pool(kernel=2, exclude_pad) | mul b:vector [bf16]",
           "conv2d(x, w) | let relu | let global_avg_pool | add %2",
           "global_avg_pool(~x:tensor)",
           "relu(x:tensor) | abs(x:tensor) | max_pool(%0, kernel=2)",
       }) {
    CAPTURE(text);
    chain const c = parse_chain(text).value();
    CHECK(sinter::text(c).view() == text);
    CHECK(parse_chain(sinter::text(c).view()).value() == c);
  }
}
