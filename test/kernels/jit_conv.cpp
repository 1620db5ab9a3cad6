// Generated convolutions against the oracle: every level this CPU has (the lower ones by the
// problem's cap), kernels, strides, dilations, paddings, channels and precisions, each operand at
// guard pages; and the faults that others had.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include <sinter/backend/jit.hpp>
#include <sinter/plan/resolve.hpp>

#include "support/check_levels.hpp"
#include "support/random_chain.hpp"
#include "support/skip.hpp"

using namespace sinter;
using namespace sinter_test;

namespace {

using sinter_test::problem_from;  // beside the overload of this file

constexpr std::string_view precisions[] = {"", " [bf16]", " [f16]", " [bf16 bf16 f32 f32 f32 f32]",
                                           " [f32 bf16 f32 f32 f32 f32]"};

/// A convolution's numbers; pads as top, bottom, left, right.
struct conv {
  extent n = 1, h = 1, w = 1, ic = 1, oc = 1, kh = 1, kw = 1;
  extent sh = 1, sw = 1, dh = 1, dw = 1;
  extent top = 0, bottom = 0, left = 0, right = 0;
  extent groups = 1;

  bool fits() const {
    return conv_extent(h, kh, sh, dh, top, bottom) > 0 &&
           conv_extent(w, kw, sw, dw, left, right) > 0;
  }
  std::string text() const {
    auto const pair = [](extent a, extent b) {
      return std::to_string(a) + "x" + std::to_string(b);
    };
    return "conv2d(x, w, stride=" + pair(sh, sw) + ", pad_begin=" + pair(top, left) +
           ", pad_end=" + pair(bottom, right) + ", dilation=" + pair(dh, dw) +
           ", groups=" + std::to_string(groups) + ")";
  }
  shape source() const { return {n, h, w, ic}; }
  shape weight() const { return {oc, kh, kw, ic / groups}; }
};

problem problem_from(conv const& v, std::string const& steps) {
  return problem_from(v.text() + steps, {v.source(), v.weight()});
}

void check_all(problem const& p, check_options options = {}, bool everywhere = false) {
  check_levels(p, options, "", everywhere);
}

/// Ones in, ones as weights: each output counts its taps. On every level, f32 and bf16 with an f32
/// output.
std::vector<float> count_taps(conv const& v, isa level, bool narrow) {
  problem p = problem_from(v, narrow ? " [bf16 bf16 f32 f32 f32 f32]" : "");
  p.max_isa = level;
  auto const x = static_cast<std::size_t>(element_count(v.source())),
             w = static_cast<std::size_t>(element_count(v.weight()));
  std::size_t const n = x > w ? x : w;
  if (narrow) {
    std::vector<bfloat16> const ones(n, to_bfloat16(1));
    return run_dense<float>(p, {ones.data(), ones.data()});
  }
  std::vector<float> const ones(n, 1.0F);
  return run_dense<float>(p, {ones.data(), ones.data()});
}
template <class Wanted>
void check_counts(conv const& v, Wanted&& wanted) {
  for (isa level : jit_levels())
    for (bool narrow : {false, true}) {
      std::vector<float> const out = count_taps(v, level, narrow);
      extent const oh = conv_extent(v.h, v.kh, v.sh, v.dh, v.top, v.bottom),
                   ow = conv_extent(v.w, v.kw, v.sw, v.dw, v.left, v.right);
      for (std::size_t i = 0; i < out.size(); ++i) {
        auto const pixel = static_cast<extent>(i) / v.oc;
        extent const y = pixel / ow % oh, x = pixel % ow;
        CHECK(out[i] == wanted(y, x));
      }
    }
}

conv random_conv(draw& d) {
  conv v;
  do {
    v = {};
    v.n = d({1, 1, 2, 3});
    v.h = d.upto(1, 12);
    v.w = d.upto(1, 20);
    v.kh = d({1, 2, 3, 4, 5, 7});
    v.kw = d({1, 2, 3, 3, 4, 5, 7});
    v.sh = d.upto(1, 3);
    v.sw = d.upto(1, 3);
    v.dh = d({1, 1, 2, 3});
    v.dw = d({1, 1, 2, 3});
    v.top = d.upto(0, 3);
    v.bottom = d.upto(0, 3);
    v.left = d.upto(0, 3);
    v.right = d.upto(0, 3);
    v.ic = d({1, 2, 3, 4, 5, 7, 15, 16, 17, 32, 33, 64});
    v.oc = d({1, 2, 3, 4, 5, 7, 15, 16, 17, 32, 33, 64});
  } while (!v.fits());
  return v;
}

constexpr char const* epilogues[] = {
    "",
    " | add b:vector",
    " | add b:vector | add r:tensor | relu",
    " | add b:vector | gelu_tanh",
    " | mul 1.702 | sigmoid | mul(%0, %2)",
    " | mul s:scalar | add r:tensor | clip(-0.5, 6) | add q:tensor",
};

}  // namespace

TEST_CASE(
    "integer data gives the oracle's bits, whatever the kernel, stride, "
    "dilation, padding and "
    "channels") {
  draw d(1);
  for (std::uint64_t seed = 1; seed <= 1500; ++seed) {
    conv const v = random_conv(d);
    problem const p = problem_from(
        v, epilogues[seed % 3] + std::string(precisions[seed / 3 % std::size(precisions)]));
    check_all(p, {.seed = seed, .values = pattern::integers, .zero_signs = false});
  }
}

TEST_CASE("any values, any epilogue") {
  draw d(2);
  for (std::uint64_t seed = 1; seed <= 1000; ++seed) {
    conv const v = random_conv(d);
    problem const p =
        problem_from(v, epilogues[seed % std::size(epilogues)] +
                            std::string(precisions[seed / 6 % std::size(precisions)]));
    check_options o{.seed = seed, .values = all_patterns[1 + seed % 3]};
    check_all(p, o);
  }
}

// Weights of infinity at taps that are outside: 0 times infinity would be NaN, so padding must not
// be multiplied.
TEST_CASE("taps outside are not multiplied: infinities and NaN among the weights") {
  draw d(3);
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    conv const v = random_conv(d);
    check_all(problem_from(v, seed % 2 == 0 ? "" : " [f32 bf16 f32 f32 f32 f32]"),
              {.seed = seed, .values = pattern::specials});
  }
}

TEST_CASE(
    "random conv chains agree with the oracle, or are refused with a "
    "sentence") {
  random_options o;
  o.matmul = o.pointwise = false;
  o.precisions.assign(std::begin(precisions), std::end(precisions));
  jit_backend const jit;
  int taken = 0;
  for (std::uint64_t seed = 1; seed <= 3000; ++seed) {
    random_case c = make_random_case(seed, o);
    for (isa level : jit_levels()) {
      c.p.max_isa = level;
      outcome const r = run_problem(jit, c.p,
                                    {.seed = seed,
                                     .where = all_placements[seed % std::size(all_placements)],
                                     .values = all_patterns[seed / 4 % 4]});
      if (r.supported) {
        ++taken;
        CHECK_MESSAGE(r.ok(), name_of(level), ": ", r.text);
      } else {
        CHECK(r.text.starts_with("sinter: "));
      }
    }
  }
  CHECK(taken > 500);
}

TEST_CASE("strided views: gaps of NaN stay where they are") {
  draw d(4);
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    conv const v = random_conv(d);
    extent const oh = conv_extent(v.h, v.kh, v.sh, v.dh, v.top, v.bottom),
                 ow = conv_extent(v.w, v.kw, v.sw, v.dw, v.left, v.right);
    extent const pixel = v.ic + d({0, 1, 3}), row = pixel * v.w + d({0, 5}),
                 image = row * v.h + d({0, 7});
    extent const to = v.oc + d({0, 1, 3}), to_row = to * ow + d({0, 5}),
                 to_image = to_row * oh + d({0, 7});
    check_all(
        problem_from(
            v.text() + " | add r:tensor" + std::string(precisions[seed % std::size(precisions)]),
            {v.source(), v.weight(), {v.n, oh, ow, v.oc}},
            {{image, row, pixel, 1}, {}, {to_image, to_row, to, 1}}, {{to_image, to_row, to, 1}}),
        {.seed = seed, .values = seed % 2 == 0 ? pattern::integers : pattern::nan_rows}, true);
  }
}

TEST_CASE("1x1 convolutions of every width and many images are one long row") {
  std::uint64_t seed = 0;
  for (std::string_view precision : precisions)
    for (extent n : {1, 2, 3})
      for (extent w = 1; w <= 20; ++w)
        for (extent s : {1, 2})
          check_all(problem_from({.n = n, .h = 5, .w = w, .ic = 17, .oc = 40, .sh = s, .sw = s},
                                 " | add b:vector | add r:tensor | relu" + std::string(precision)),
                    {.seed = ++seed});
}

TEST_CASE(
    "the source in any memory order is refused unless channels are "
    "adjacent; images may be "
    "anywhere") {
  check_all(problem_from("conv2d(x, w, pad_begin=1x1, pad_end=1x1)", {{2, 5, 6, 7}, {9, 3, 3, 7}},
                         {{7, 6 * 14, 14, 1}}));  // image inside of column
  check_all(problem_from("conv2d(x, w, pad_begin=1x1, pad_end=1x1)", {{2, 5, 6, 7}, {9, 3, 3, 7}},
                         {{5 * 6 * 7, 7, 5 * 7, 1}}));  // columns outside of rows
  check_all(
      problem_from("conv2d(x, w)", {{2, 5, 6, 7}, {9, 3, 3, 7}}, {{0, 0, 0, 1}}));  // one pixel
}

TEST_CASE("weights in any order and precision pack to the same panels") {
  for (std::string_view precision : {"", " [bf16]"}) {
    conv const v{.h = 6,
                 .w = 7,
                 .ic = 5,
                 .oc = 37,
                 .kh = 3,
                 .kw = 3,
                 .top = 1,
                 .bottom = 1,
                 .left = 1,
                 .right = 1};
    problem const p = problem_from(v, std::string(precision));
    auto const k = jit_backend{}.build(p);
    REQUIRE(k.ok());
    std::vector<float> ohwi(37 * 9 * 5), oihw(37 * 9 * 5);
    for (std::size_t o = 0; o < 37; ++o)
      for (std::size_t t = 0; t < 9; ++t)
        for (std::size_t i = 0; i < 5; ++i)
          ohwi[(o * 9 + t) * 5 + i] = oihw[(o * 5 + i) * 9 + t] =
              static_cast<float>(o * 100 + t * 10 + i) / 7.0F;
    auto const a = (*k)->pack(1, view(ohwi.data(), {37, 3, 3, 5}));
    auto const b = (*k)->pack(1, sinter::oihw(oihw.data(), 37, 5, 3, 3));
    REQUIRE(a.ok());
    REQUIRE(b.ok());
    REQUIRE(a->storage->size() == b->storage->size());
    CHECK(std::memcmp(a->data(), b->data(), a->storage->size()) == 0);
  }
}

// Faults that others had.
TEST_CASE("ones: a 2x2 of ones is 4, and every output counts its taps") {
  for (extent c : {1, 2, 3, 5})
    for (extent oc : {1, 3})
      for (extent k : {1, 2, 3, 5, 7})
        check_counts({.h = k, .w = k, .ic = c, .oc = oc, .kh = k, .kw = k},
                     [&](extent, extent) { return static_cast<float>(c * k * k); });
}

// As for products: equal terms lose the same part of a unit in the last place in each addition to a sum of one size.
// A run that begins anew goes on with what the last one's last block left, so a block may be twice as long.
TEST_CASE("the error of a long sum of kernel rows grows with its blocks, not with all terms") {
  // Runs of more than two blocks; kernel rows that are one. Of these terms a single sum loses more than is allowed.
  for (auto const& [v, term] :
       {std::pair{conv{.h = 7, .w = 14, .ic = 512, .oc = 5, .kh = 7, .kw = 7}, 1.0F + 0x1.ccp-13F},
        std::pair{conv{.h = 7, .w = 14, .ic = 256, .oc = 5, .kh = 7, .kw = 3},
                  1.0F + 0x1.ff4p-2F}}) {
    std::vector<float> const x(static_cast<std::size_t>(element_count(v.source())), term),
        w(static_cast<std::size_t>(element_count(v.weight())), 1.0F);
    double const k = static_cast<double>(v.kh * v.kw * v.ic);
    double const exact = k * static_cast<double>(term);
    double const block = static_cast<double>(jit::sum_block);
    double const additions = 2 * (block + 8) + 2 + k / block + 7;
    for (isa level : jit_levels()) {
      problem p = problem_from(v, "");
      p.max_isa = level;
      for (float y : run_dense<float>(p, {x.data(), w.data()}))
        CHECK(std::abs(static_cast<double>(y) - exact) <= (additions + 2) * 0x1p-24 * exact);
    }
  }
}

TEST_CASE("a stride larger than the kernel") {
  conv const v{.h = 67, .w = 4, .ic = 32, .oc = 48, .sh = 3, .left = 1};
  check_counts(v, [](extent, extent x) { return x == 0 ? 0.0F : 32.0F; });
  for (auto const& [k, s] : {std::pair<extent, extent>{2, 5}, {3, 4}})
    for (extent pad : {0, 1, 2})
      check_all(problem_from({.h = 23,
                              .w = 17,
                              .ic = 5,
                              .oc = 33,
                              .kh = k,
                              .kw = k,
                              .sh = s,
                              .sw = s,
                              .top = pad,
                              .left = pad},
                             ""),
                {.values = pattern::integers});
}

TEST_CASE("asymmetric padding: outputs count the taps inside") {
  auto const count = [](extent o, extent in, extent k, extent s, extent d, extent pad) {
    extent n = 0;
    for (extent t = 0; t < k; ++t) {
      extent const at = o * s - pad + t * d;
      n += at >= 0 && at < in ? 1 : 0;
    }
    return n;
  };
  for (extent k = 1; k <= 5; ++k)
    for (extent s = 1; s <= 3; ++s)
      for (extent d = 1; d <= 3; ++d)
        for (extent left = 0; left <= 3; ++left)
          for (extent right = 0; right <= 3; ++right)
            for (extent w = 1; w <= 20; w += 1 + (k + s + d) % 3) {
              conv const v{.h = 2,
                           .w = w,
                           .ic = 3,
                           .oc = 2,
                           .kh = 2,
                           .kw = k,
                           .sw = s,
                           .dw = d,
                           .top = right,
                           .bottom = left,
                           .left = left,
                           .right = right};
              if (!v.fits()) continue;
              check_counts(v, [&](extent y, extent x) {
                return static_cast<float>(3 * count(x, w, k, s, d, left) *
                                          count(y, 2, 2, 1, 1, right));
              });
            }
  conv const v{.w = 64, .kw = 4, .left = 1, .right = 2};
  check_counts(v, [](extent, extent x) {
    return x == 0 ? 3.0F : x <= 61 ? 4.0F : x == 62 ? 3.0F : 2.0F;
  });
}

TEST_CASE("few channels in and out, 11x11 with stride 4, images of one pixel") {
  std::uint64_t seed = 0;
  for (std::string_view precision : {"", " [bf16]"}) {
    for (extent ic : {1, 2, 3, 4, 5, 7, 15, 17})
      for (extent oc : {1, 2, 3, 4, 5, 7, 15, 17})
        for (extent s : {1, 2}) {
          check_all(problem_from({.n = 2,
                                  .h = 9,
                                  .w = 10,
                                  .ic = ic,
                                  .oc = oc,
                                  .kh = 3,
                                  .kw = 3,
                                  .sh = s,
                                  .sw = s,
                                  .top = 1,
                                  .bottom = 1,
                                  .left = 1,
                                  .right = 1},
                                 " | add b:vector" + std::string(precision)),
                    {.seed = ++seed}, true);
          check_all(problem_from({.ic = ic, .oc = oc, .sh = s, .sw = s}, std::string(precision)),
                    {.seed = ++seed});
        }
    check_all(problem_from({.h = 31,
                            .w = 31,
                            .ic = 64,
                            .oc = 3,
                            .kh = 11,
                            .kw = 11,
                            .sh = 4,
                            .sw = 4,
                            .top = 2,
                            .bottom = 2,
                            .left = 2,
                            .right = 2},
                           std::string(precision)));
  }
}

TEST_CASE("padding all around a single pixel: whole rows of outputs without a tap") {
  for (std::string_view precision : precisions)
    check_all(problem_from({.h = 1,
                            .w = 1,
                            .ic = 3,
                            .oc = 5,
                            .kh = 2,
                            .kw = 2,
                            .top = 3,
                            .bottom = 3,
                            .left = 3,
                            .right = 3},
                           " | add b:vector" + std::string(precision)));
}

TEST_CASE("groups of a vector of output channels or more") {
  std::uint64_t seed = 0;
  for (std::string_view precision : precisions)
    for (extent groups : {2, 3})
      for (extent in : {1, 3, 8, 16})
        for (extent out : {16, 17, 40})
          check_all(problem_from({.h = 5,
                                  .w = 9,
                                  .ic = groups * in,
                                  .oc = groups * out,
                                  .kh = 3,
                                  .kw = 3,
                                  .top = 1,
                                  .bottom = 1,
                                  .left = 1,
                                  .right = 1,
                                  .groups = groups},
                                 " | add b:vector | add r:tensor" + std::string(precision)),
                    {.seed = ++seed, .values = pattern::integers});
}

TEST_CASE(
    "narrow groups share a vector; wide ones have their own; what would fill none is refused") {
  jit_backend const jit;
  struct row {
    isa level;
    extent in, out;
    std::string_view precision, kernel;  // "": refused
  };
  for (row const& r : {row{isa::avx512, 4, 4, "", "4x16:conv:groups:lanes:rows"},
                       {isa::avx512, 8, 8, "", "4x16:conv:groups:lanes:rows"},
                       {isa::avx512, 8, 8, " [bf16]", "8x32:conv:groups:rows"},
                       {isa::avx512_bf16, 8, 8, " [bf16]", "4x32:conv:groups:lanes:rows"},
                       {isa::avx512, 3, 3, "", "8x15:conv:groups:rows"},
                       {isa::avx512, 1, 2, "", "8x32:conv:groups:rows"},
                       {isa::avx512, 8, 4, "", "8x8:conv:groups:rows"},
                       {isa::avx512, 16, 16, "", "4x16:conv:groups:lanes:rows"},
                       {isa::avx512, 16, 16, " [bf16]", "8x32:conv"},
                       {isa::avx512_bf16, 16, 16, " [bf16]", "4x32:conv:groups:lanes:rows"},
                       {isa::avx512, 16, 17, "", "8x32:conv"},
                       {isa::avx512, 40, 9, "", "8x32:conv:lines"},
                       {isa::avx512, 16, 4, "", ""},
                       {isa::avx512, 4, 4, " [bf16]", "8x32:conv:groups:rows"},
                       {isa::avx512_bf16, 4, 4, " [bf16]", "8x32:conv:groups:rows"},
                       {isa::avx512_bf16, 16, 4, " [bf16]", "8x8:conv:groups:rows"},
                       {isa::avx512_bf16, 17, 4, " [bf16]", ""},
                       {isa::avx2, 4, 4, "", "5x16:conv:groups:rows"},
                       {isa::avx2, 8, 8, "", "6x16:conv"},
                       {isa::avx2, 5, 5, "", "6x16:conv"},
                       {isa::avx2, 3, 3, " [bf16]", "5x6:conv:groups:rows"},
                       {isa::avx2, 9, 3, "", ""}}) {
    if (!runs(detected_isa(), r.level)) continue;
    problem p = problem_from({.h = 5,
                              .w = 9,
                              .ic = 12 * r.in,
                              .oc = 12 * r.out,
                              .kh = 3,
                              .kw = 3,
                              .top = 1,
                              .left = 1,
                              .groups = 12},
                             std::string(r.precision));
    p.max_isa = r.level;
    auto const k = jit.build(p);
    CHECK(k.ok() == !r.kernel.empty());
    if (k.ok()) {
      std::string const name = (*k)->stages()[0].implementation;
      CHECK_MESSAGE(name.ends_with(":" + std::string(r.kernel)), name);
    } else {
      CHECK_MESSAGE(k.error().message.find("lanes; half of them at least") != std::string::npos,
                    k.error().message);
    }
  }
}

namespace {

/// Groups of few channels: any number of them, any width, in and out alike or not.
conv random_groups(draw& d) {
  conv v = random_conv(d);
  v.groups = d({2, 3, 4, 5, 8, 9, 16, 17, 32, 33});
  extent const in = d({1, 2, 3, 4, 4, 5, 6, 7, 8, 8, 10, 12});
  v.ic = v.groups * in;
  v.oc = v.groups * d({in, in, in, 1, 2, 3, 4, 8, 12});
  return v;
}

bool fills_vectors(problem p) {
  for (isa level : jit_levels()) {
    p.max_isa = level;
    if (!jit_backend{}.supports(p)) return false;
  }
  return true;
}

}  // namespace

TEST_CASE("groups of every width: integer data gives the oracle's bits") {
  draw d(5);
  int taken = 0;
  for (std::uint64_t seed = 1; seed <= 900; ++seed) {
    problem const p =
        problem_from(random_groups(d), epilogues[seed % 3] + std::string(precisions[seed / 3 % 5]));
    if (!fills_vectors(p)) continue;
    ++taken;
    check_all(p, {.seed = seed, .values = pattern::integers, .zero_signs = false});
  }
  CHECK(taken > 600);
}

TEST_CASE("groups of every width: any values, NaN, infinities, any epilogue, all placements") {
  draw d(6);
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    problem const p = problem_from(random_groups(d), epilogues[seed % std::size(epilogues)] +
                                                         std::string(precisions[seed / 6 % 5]));
    if (fills_vectors(p)) check_all(p, {.seed = seed, .values = all_patterns[1 + seed % 3]}, true);
  }
}

TEST_CASE("groups of strided views: gaps of NaN stay where they are") {
  draw d(7);
  for (std::uint64_t seed = 1; seed <= 150; ++seed) {
    conv const v = random_groups(d);
    extent const oh = conv_extent(v.h, v.kh, v.sh, v.dh, v.top, v.bottom),
                 ow = conv_extent(v.w, v.kw, v.sw, v.dw, v.left, v.right);
    extent const pixel = v.ic + d({0, 1, 3}), row = pixel * v.w + d({0, 5}),
                 image = row * v.h + d({0, 7});
    extent const to = v.oc + d({0, 1, 3}), to_row = to * ow + d({0, 5}),
                 to_image = to_row * oh + d({0, 7});
    problem const p = problem_from(v.text() + " | add r:tensor" + std::string(precisions[seed % 5]),
                                   {v.source(), v.weight(), {v.n, oh, ow, v.oc}},
                                   {{image, row, pixel, 1}, {}, {to_image, to_row, to, 1}},
                                   {{to_image, to_row, to, 1}});
    if (fills_vectors(p))
      check_all(p, {.seed = seed, .values = seed % 2 == 0 ? pattern::integers : pattern::nan_rows});
  }
}

namespace {

bool keeps_lanes(problem const& p) {
  auto const k = jit_backend{}.build(p);
  REQUIRE(k.ok());
  return (*k)->stages()[0].implementation.find(":lanes") != std::string::npos;
}

}  // namespace

// Groups of 4, 8 and 16, in whole panels or not, one tile or many, kernels that are unrolled or not.
TEST_CASE("groups whose channels stay in their lanes: every number, stride, dilation and width") {
  std::uint64_t seed = 0;
  int in_place = 0, across = 0;
  for (char const* precision : {"", " [bf16]", " [bf16 bf16 f32 f32 f32 f32]"})
    for (extent width : {4, 8, 16})
      for (extent groups : {2, 3, 4, 6, 8, 9, 16, 24}) {
        if (width * groups > 200) continue;
        for (extent kw : {1, 2, 3, 4, 7, 8})
          for (extent s : {1, 2, 3}) {
            conv const v{.n = 2,
                         .h = 5,
                         .w = 8 + static_cast<extent>(seed % 17),
                         .ic = groups * width,
                         .oc = groups * width,
                         .kh = 3,
                         .kw = kw,
                         .sh = s,
                         .sw = s,
                         .dw = 1 + static_cast<extent>(seed % 2),
                         .top = 1,
                         .bottom = 1,
                         .left = 2,
                         .right = 1,
                         .groups = groups};
            if (!v.fits() || ++seed % 2 == 0) continue;
            problem p = problem_from(v, epilogues[2 + seed / 2 % 2] + std::string(precision));
            check_all(
                p, {.seed = seed, .values = seed % 4 == 1 ? pattern::integers : pattern::nan_rows});
            auto const k = jit_backend{}.build(p);
            REQUIRE(k.ok());
            bool const lanes = (*k)->stages()[0].implementation.find(":lanes") != std::string::npos;
            ++(lanes ? in_place : across);
          }
      }
  CHECK((in_place > 100 || !runs(detected_isa(), isa::avx512)));
  CHECK(across > 100);
}

// A pixel's bits do not depend on the tile it falls into: every width of a row of equal pixels.
TEST_CASE("groups whose channels stay in their lanes: a pixel has the same bits in every tile") {
  for (isa level : jit_levels())
    for (extent width : {4, 8, 16})
      for (char const* precision : {"", " [bf16 bf16 f32 f32 f32 f32]"}) {
        std::vector<float> first;
        for (extent w = 3; w <= 14; ++w) {
          extent const channels = 8 * width;
          conv const v{
              .h = 3, .w = w, .ic = channels, .oc = channels, .kh = 3, .kw = 3, .groups = 8};
          problem p = problem_from(v, precision);
          p.max_isa = level;
          if (!keeps_lanes(p)) continue;
          auto const size = static_cast<std::size_t>(element_count(v.source()));
          std::vector<float> x(size), weight(static_cast<std::size_t>(channels * 9 * width));
          for (std::size_t i = 0; i < size; ++i)
            x[i] = static_cast<float>(i % static_cast<std::size_t>(channels)) / 7.0F - 2.0F;
          for (std::size_t i = 0; i < weight.size(); ++i)
            weight[i] = static_cast<float>(i * 37 % 101) / 13.0F - 3.0F;
          std::vector<bfloat16> x16, weight16;
          for (float value : x) x16.push_back(to_bfloat16(value));
          for (float value : weight) weight16.push_back(to_bfloat16(value));
          bool const narrow = *precision != '\0';
          std::vector<float> const out = narrow ? run_dense<float>(p, {x16.data(), weight16.data()})
                                                : run_dense<float>(p, {x.data(), weight.data()});
          if (first.empty()) first = out;
          for (std::size_t i = 0; i < out.size(); ++i)
            CHECK(out[i] == first[i % static_cast<std::size_t>(channels)]);
        }
      }
}

TEST_CASE("groups under wide kernels: more columns than registers hold, more than are unrolled") {
  std::uint64_t seed = 0;
  for (std::string_view precision : precisions)
    for (extent kw : {4, 5, 7, 14, 15, 16, 17})
      for (extent s : {1, 2, 3})
        check_all(problem_from({.h = 3,
                                .w = 40,
                                .ic = 12,
                                .oc = 12,
                                .kh = 2,
                                .kw = kw,
                                .sw = s,
                                .dw = 1 + kw % 2,
                                .left = 3,
                                .right = 2,
                                .groups = 3},
                               " | add b:vector" + std::string(precision)),
                  {.seed = ++seed, .values = pattern::integers});
}

TEST_CASE("blocks of a large image, and dilated 7x7 kernels") {
  for (std::string_view precision : {"", " [bf16]"}) {
    check_all(problem_from({.h = 40,
                            .w = 300,
                            .ic = 40,
                            .oc = 20,
                            .kh = 3,
                            .kw = 3,
                            .top = 1,
                            .bottom = 1,
                            .left = 1,
                            .right = 1},
                           std::string(precision)),
              {.values = pattern::integers});
    check_all(problem_from({.h = 3, .w = 3000, .ic = 70, .oc = 9}, std::string(precision)),
              {.values = pattern::integers});
    check_all(
        problem_from({.h = 3, .w = 3000, .ic = 70, .oc = 9, .kh = 2, .kw = 2, .sw = 2, .left = 1},
                     std::string(precision)),
        {.values = pattern::integers});
    check_all(problem_from({.n = 2,
                            .h = 20,
                            .w = 21,
                            .ic = 16,
                            .oc = 24,
                            .kh = 7,
                            .kw = 7,
                            .dh = 2,
                            .dw = 2,
                            .top = 6,
                            .bottom = 6,
                            .left = 6,
                            .right = 6},
                           std::string(precision)),
              {.values = pattern::integers});
  }
}

TEST_CASE("short lines are taken whole: every width, taps outside at both ends of one tile") {
  int whole = 0;
  std::uint64_t seed = 0;
  for (std::string_view precision : {"", " [bf16]", " [f32 bf16 f32 f32 f32 f32]"})
    for (extent w : {1, 2, 5, 7, 8, 9, 13, 14, 15, 28, 32})
      for (auto const& [k, pad, stride, dilation] :
           {std::tuple<extent, extent, extent, extent>{3, 1, 1, 1},
            {3, 1, 2, 1},
            {3, 2, 1, 2},
            {5, 2, 1, 1},
            {7, 3, 2, 1},
            {4, 3, 1, 3},
            {8, 4, 1, 1}}) {
        conv const v{.n = 2,
                     .h = 4,
                     .w = w,
                     .ic = 33,
                     .oc = 35,
                     .kh = 3,
                     .kw = k,
                     .sw = stride,
                     .dw = dilation,
                     .top = 1,
                     .left = pad,
                     .right = pad};
        if (!v.fits()) continue;
        problem p = problem_from(v, " | add b:vector | add r:tensor" + std::string(precision));
        ++seed;
        check_all(p,
                  {.seed = seed,
                   .values = seed % 2 == 0 ? pattern::integers : pattern::specials,
                   .zero_signs = false},
                  true);
        auto const k512 = (p.max_isa = isa::avx512, jit_backend{}.build(p));
        REQUIRE(k512.ok());
        whole += (*k512)->stages()[0].implementation.ends_with(":lines") ? 1 : 0;
      }
  CHECK((whole > 100 || !runs(detected_isa(), isa::avx512)));
}

TEST_CASE("many images: blocks of several, and weights that are read once for all") {
  for (std::string_view precision : {"", " [bf16]"})
    for (auto const& [ic, oc] : {std::pair<extent, extent>{16, 70}, {128, 96}})
      check_all(problem_from({.n = 9,
                              .h = 9,
                              .w = 7,
                              .ic = ic,
                              .oc = oc,
                              .kh = 3,
                              .kw = 3,
                              .top = 1,
                              .bottom = 1,
                              .left = 1,
                              .right = 1},
                             " | add r:tensor" + std::string(precision)),
                {.values = pattern::integers});
}

TEST_CASE("every width and kernel: an output extent of 0 is an error, any other a result") {
  for (extent w = 1; w <= 40; ++w)
    for (extent k = 1; k <= 11; ++k) {
      conv const v{.h = 2, .w = w, .ic = 3, .oc = 2, .kw = k, .sw = 1 + k % 3};
      if (v.fits()) {
        check_all(problem_from(v, " [bf16]"),
                  {.seed = static_cast<std::uint64_t>(w), .values = pattern::integers});
        continue;
      }
      chain const c = parse_chain(v.text()).value();
      operand_spec const specs[] = {dense_desc(dtype::f32, v.source()),
                                    dense_desc(dtype::f32, v.weight())};
      CHECK_FALSE(make_problem(c, specs).ok());
    }
}

TEST_CASE("no images: nothing is done") {
  for (std::string_view precision : precisions)
    check_all(problem_from({.n = 0, .h = 4, .w = 4, .ic = 3, .oc = 5, .kh = 3, .kw = 3},
                           std::string(precision)));
}

TEST_CASE("one kernel serves every number of images, height and width") {
  jit_backend const jit;
  struct channels {
    extent in, out, groups;
  };
  for (std::string_view precision : precisions)
    for (char const* form : {"pad_begin=1x1, pad_end=1x1", "stride=2x2"})
      for (auto const& [in, out, groups] : {channels{19, 45, 1}, {20, 20, 5}, {18, 18, 6}})
        for (isa level : jit_levels())
          for (extent k : {1, 3}) {
            chain const c =
                parse_chain("conv2d(x, w, " + std::string(form) +
                            ", groups=" + std::to_string(groups) +
                            ") | add b:vector | add r:tensor | relu" + std::string(precision))
                    .value();
            std::vector<operand_spec> specs(c.operands.size());
            specs[0] = tensor_desc{c.operands[0].type, {dynamic, dynamic, dynamic, in}, {}};
            specs[1] = dense_desc(c.operands[1].type, {out, k, k, in / groups});
            auto wanted = make_problem(c, specs);
            REQUIRE_MESSAGE(wanted.ok(), wanted.error().message);
            wanted->max_isa = level;
            auto const kernel = jit.build(*wanted);
            REQUIRE_MESSAGE(kernel.ok(), kernel.error().message);
            auto const generated = jit::process_cache().counters().generated;
            std::uint64_t seed = 0;
            for (extent n : {0, 1, 2})
              for (extent h : {3, 4, 9})
                for (extent w : {3, 8, 13, 40}) {
                  shape const dims[] = {{n, h, w, in}};
                  auto const p = resolve(*wanted, dims);
                  REQUIRE_MESSAGE(p.ok(), p.error().message);
                  outcome const r = check_kernel(**kernel, *p, {.seed = ++seed}, true);
                  CHECK_MESSAGE(r.ok(), r.text);
                }
            CHECK(jit::process_cache().counters().generated == generated);
          }
}

TEST_CASE("parts in any order leave the bits of one piece") {
  std::vector<float> values(600'000);
  std::mt19937 random(8);
  for (float& v : values) v = static_cast<float>(random()) / 4e9F - 0.5F;
  std::vector<bfloat16> narrow(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) narrow[i] = to_bfloat16(values[i]);
  conv const cases[] = {
      // far weights in one block; blocks of rows; blocks of images; narrow groups; one long row
      {.h = 9, .w = 9, .ic = 200, .oc = 200, .kh = 3, .kw = 3, .top = 1, .left = 1},
      {.h = 60, .w = 60, .ic = 64, .oc = 72, .kh = 3, .kw = 3, .top = 1, .left = 1},
      {.n = 9, .h = 9, .w = 7, .ic = 64, .oc = 70, .kh = 3, .kw = 3, .top = 1, .bottom = 1},
      {.h = 57, .w = 56, .ic = 160, .oc = 160, .kh = 3, .kw = 3, .sh = 2, .sw = 2, .groups = 40},
      {.n = 2, .h = 40, .w = 40, .ic = 64, .oc = 70},
  };
  for (conv const& v : cases)
    for (isa level : jit_levels())
      for (bool in_bf16 : {false, true}) {
        problem p = problem_from(v, in_bf16 ? " [bf16]" : "");
        p.max_isa = level;
        void const* const data = in_bf16 ? static_cast<void const*>(narrow.data()) : values.data();
        auto const same = [&]<class T>(T const*) {
          std::vector<T> const whole = run_dense<T>(p, {data, data});
          for (int parts : {2, 3, 7}) {
            std::vector<T> const pieces = run_dense<T>(p, {data, data}, parts);
            CHECK(std::memcmp(whole.data(), pieces.data(), whole.size() * sizeof(T)) == 0);
          }
        };
        in_bf16 ? same(static_cast<bfloat16 const*>(nullptr))
                : same(static_cast<float const*>(nullptr));
      }
}

TEST_CASE("a chain too long for one copy per pixel gets its epilogue in a loop") {
  std::string text = "";
  for (int i = 0; i < 12; ++i) text += i % 2 == 0 ? " | gelu_erf" : " | mish";
  conv const v{.h = 4, .w = 13, .ic = 4, .oc = 50, .kh = 3, .kw = 3, .top = 1, .left = 1};
  for (std::string_view precision : {"", " [bf16]"})
    check_all(problem_from(v, text + std::string(precision)), {.values = pattern::integers});
  std::string many = "";
  for (int i = 0; i < 20; ++i) many += " | add r" + std::to_string(i) + ":tensor";
  check_all(problem_from(v, many));
}

TEST_CASE("addends of every broadcast shape") {
  std::uint64_t seed = 0;
  conv const v{.n = 3,
               .h = 5,
               .w = 6,
               .ic = 4,
               .oc = 6,
               .kh = 3,
               .kw = 3,
               .top = 1,
               .bottom = 1,
               .left = 1,
               .right = 1};
  for (shape const& dims :
       {shape{6}, shape{3, 1, 1, 1}, shape{5, 1, 1}, shape{6, 1}, shape{1, 5, 6, 1},
        shape{3, 1, 6, 6}, shape{3, 5, 1, 6}, shape{1, 1, 1, 6}})
    for (std::string_view precision : {"", " [bf16]"})
      for (extent k : {1, 3}) {
        conv u = v;
        u.kh = u.kw = k;
        if (k == 1) u.top = u.bottom = u.left = u.right = 0;
        check_all(problem_from(u.text() + " | add r:tensor" + std::string(precision),
                               {u.source(), u.weight(), dims}),
                  {.seed = ++seed});
      }
}

TEST_CASE("an operand that shares memory with the output") {
  chain const c =
      parse_chain("conv2d(x, w, pad_begin=1x1, pad_end=1x1) | add r:tensor | tanh").value();
  std::vector<operand_spec> specs(c.operands.size());
  specs[0] = dense_desc(dtype::f32, {1, 7, 9, 6});
  specs[1] = dense_desc(dtype::f32, {41, 3, 3, 6});
  specs[2] = dense_desc(dtype::f32, {1, 7, 9, 41});
  auto const p = make_problem(c, specs, {}, numerics::strict, 2);
  REQUIRE_MESSAGE(p.ok(), p.error().message);
  check_all(*p);
}

TEST_CASE("what is refused is refused with a sentence") {
  jit_backend const jit;
  auto const refused = [&](problem const& p, std::string_view part) {
    verdict const v = jit.supports(p);
    CHECK_FALSE(v);
    CHECK_MESSAGE(v.reason.find(part) != std::string::npos, v.reason);
    CHECK(v.reason.starts_with("sinter: "));
    CHECK_FALSE(jit.build(p).ok());
  };
  refused(problem_from("conv2d(x, w)", {{1, 4, 4, 3}, {5, 3, 3, 3}}, {{48, 4, 1, 16}}),
          "operand 'x' has the stride 16 along its channels");
  refused(problem_from("conv2d(x, w)", {{1, 4, 4, 3}, {5, 3, 3, 3}}, {}, {{20, 2, 1, 4}}),
          "output 'out' has the stride 4");
  refused(problem_from("conv2d(x, w) | add r:tensor", {{1, 4, 4, 3}, {5, 3, 3, 3}, {1, 2, 2, 5}},
                       {{}, {}, {20, 2, 1, 4}}),
          "operand 'r'");
  refused(problem_from("conv2d(x, w:tensor)", {{1, 4, 4, 3}, {5, 3, 3, 3}}),
          "operand 'w' of conv2d is a tensor");
  refused(problem_from("conv2d(x, w, groups=2)", {{1, 5, 5, 80}, {2, 3, 3, 40}}),
          "2 groups of 40 input and 1 output channels would fill 1 of");
  refused(problem_from("conv1d(x, w)", {{1, 5, 4}, {4, 3, 4}}), "conv1d");
  refused(problem_from("conv3d(x, w)", {{1, 5, 5, 5, 4}, {4, 3, 3, 3, 4}}), "conv3d");
}
