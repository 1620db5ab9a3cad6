// Generated depthwise convolutions against the oracle: every level this CPU has (the lower ones by
// the problem's cap), kernels, strides, dilations, paddings, channels and precisions, each operand
// at guard pages.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include <sinter/backend/jit.hpp>
#include <sinter/plan/parse.hpp>
#include <sinter/plan/resolve.hpp>

#include "support/check_levels.hpp"
#include "support/skip.hpp"

using namespace sinter;
using namespace sinter_test;

namespace {

using sinter_test::problem_from;  // beside the overload of this file

constexpr std::string_view precisions[] = {"",
                                           " [bf16]",
                                           " [f16]",
                                           " [bf16 bf16 f32 f32 f32 f32]",
                                           " [f32 bf16 f32 f32 f32 f32]",
                                           " [bf16 f32 f32 f32 f32 bf16]"};

struct depthwise {
  extent n = 1, h = 1, w = 1, c = 2, kh = 1, kw = 1;
  extent sh = 1, sw = 1, dh = 1, dw = 1;
  extent top = 0, bottom = 0, left = 0, right = 0;

  extent out_h() const { return conv_extent(h, kh, sh, dh, top, bottom); }
  extent out_w() const { return conv_extent(w, kw, sw, dw, left, right); }
  bool fits() const { return out_h() > 0 && out_w() > 0; }
  std::string text() const {
    auto const pair = [](extent a, extent b) {
      return std::to_string(a) + "x" + std::to_string(b);
    };
    return "conv2d(x, w, stride=" + pair(sh, sw) + ", pad_begin=" + pair(top, left) +
           ", pad_end=" + pair(bottom, right) + ", dilation=" + pair(dh, dw) +
           ", groups=" + std::to_string(c) + ")";
  }
  shape source() const { return {n, h, w, c}; }
  shape weight() const { return {c, kh, kw, 1}; }
};
/// 3x3 and the like, padded by half a kernel on each side.
depthwise same(extent n, extent h, extent w, extent c, extent k, extent stride = 1) {
  extent const p = k / 2;
  return {n, h, w, c, k, k, stride, stride, 1, 1, p, p, p, p};
}

problem problem_from(depthwise const& v, std::string const& steps) {
  return problem_from(v.text() + steps, {v.source(), v.weight()});
}

void check_all(problem const& p, check_options options = {}, bool everywhere = false) {
  check_levels(p, options, ":depthwise", everywhere);
}

depthwise random_depthwise(draw& d) {
  depthwise v;
  do {
    v = {};
    v.n = d({1, 1, 2, 3});
    v.h = d.upto(1, 12);
    v.w = d.upto(1, 36);
    v.kh = d({1, 2, 3, 3, 4, 5, 7});
    v.kw = d({1, 2, 3, 3, 4, 5, 7, 9, 11});
    v.sh = d.upto(1, 3);
    v.sw = d({1, 1, 2, 3, 5});
    v.dh = d({1, 1, 2, 3});
    v.dw = d({1, 1, 2, 3});
    v.top = d.upto(0, 4);
    v.bottom = d.upto(0, 4);
    v.left = d.upto(0, 4);
    v.right = d.upto(0, 4);
    v.c = d({2, 3, 4, 7, 8, 9, 15, 16, 17, 24, 31, 32, 33, 40, 47, 48, 57, 64, 72});
  } while (!v.fits());
  return v;
}

constexpr char const* epilogues[] = {
    "",
    " | add b:vector",
    " | add b:vector | add r:tensor | clip(0, 6)",
    " | add b:vector | hardswish",
    " | add b:vector | swish | mul s:scalar",
    " | mul 1.702 | sigmoid | mul(%0, %2)",
    " | mul s:scalar | add r:tensor | clip(-0.5, 6) | add q:tensor",
};

}  // namespace

TEST_CASE(
    "integer data gives the oracle's bits, whatever the kernel, stride, dilation, padding and "
    "channels") {
  draw d(1);
  for (std::uint64_t seed = 1; seed <= 1000; ++seed) {
    depthwise const v = random_depthwise(d);
    problem const p = problem_from(
        v, epilogues[seed % 3] + std::string(precisions[seed / 3 % std::size(precisions)]));
    check_all(p, {.seed = seed, .values = pattern::integers, .zero_signs = false});
  }
}

TEST_CASE("any values, any epilogue") {
  draw d(2);
  for (std::uint64_t seed = 1; seed <= 700; ++seed) {
    depthwise const v = random_depthwise(d);
    problem const p =
        problem_from(v, epilogues[seed % std::size(epilogues)] +
                            std::string(precisions[seed / 7 % std::size(precisions)]));
    check_all(p, {.seed = seed, .values = all_patterns[1 + seed % 3]});
  }
}

// Weights of infinity at taps that are outside, and NaN in rows that other taps meet: 0 times
// either would be NaN, so padding and the row beside an odd one must not be multiplied.
TEST_CASE("taps outside are not multiplied: infinities and NaN") {
  draw d(3);
  for (std::uint64_t seed = 1; seed <= 500; ++seed) {
    depthwise const v = random_depthwise(d);
    check_all(problem_from(v, std::string(precisions[seed % std::size(precisions)])),
              {.seed = seed, .values = seed % 2 == 0 ? pattern::specials : pattern::nan_rows});
  }
}

TEST_CASE("a row of NaN, a column of NaN: no output beyond its taps is one") {
  for (isa level : jit_levels())
    for (bool narrow : {false, true})
      for (extent c : {16, 24, 32, 48})
        for (extent k : {2, 3, 5})
          for (bool across : {false, true})
            for (extent where : {0, 3, 10}) {
              depthwise const v = same(1, 11, 11, c, k);
              problem p = problem_from(v, narrow ? " [bf16 bf16 f32 f32 f32 f32]" : "");
              p.max_isa = level;
              auto const kernel = jit_backend{}.build(p);
              REQUIRE(kernel.ok());
              auto const count = static_cast<std::size_t>(element_count(v.source()));
              std::vector<float> x(count, 1), w(static_cast<std::size_t>(c * k * k), 1),
                  out(static_cast<std::size_t>(v.out_h() * v.out_w() * c));
              auto const along = [&](extent i) { return across ? i / c % 11 : i / c / 11; };
              for (extent i = 0; i < std::ssize(x); ++i)
                if (along(i) == where) x[static_cast<std::size_t>(i)] = NAN;
              std::vector<bfloat16> narrow_x(count);
              for (std::size_t i = 0; i < count; ++i) narrow_x[i] = to_bfloat16(x[i]);
              auto const packed = (*kernel)->pack(1, view(w.data(), v.weight()));
              REQUIRE(packed.ok());
              call_args args;
              args.operands[0] = narrow ? static_cast<void const*>(narrow_x.data()) : x.data();
              args.operands[1] = packed->data();
              args.outputs[0] = out.data();
              auto const call = (*kernel)->make_invocation();
              REQUIRE(call.ok());
              (*call)->repoint(args);
              REQUIRE((*call)->run() == code::ok);
              extent const width = v.out_w();
              bool all_right = true;
              for (extent i = 0; i < std::ssize(out); ++i) {
                extent const o = across ? i / c % width : i / c / width;
                bool const meets = o - k / 2 <= where && where < o - k / 2 + k;
                all_right = all_right && std::isnan(out[static_cast<std::size_t>(i)]) == meets;
              }
              CHECK(all_right);
            }
}

TEST_CASE("strided views: gaps of NaN stay where they are") {
  draw d(4);
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    depthwise const v = random_depthwise(d);
    extent const oh = v.out_h(), ow = v.out_w();
    extent const pixel = v.c + d({0, 1, 3}), row = pixel * v.w + d({0, 5}),
                 image = row * v.h + d({0, 7});
    extent const to = v.c + d({0, 1, 3}), to_row = to * ow + d({0, 5}),
                 to_image = to_row * oh + d({0, 7});
    check_all(
        problem_from(
            v.text() + " | add r:tensor" + std::string(precisions[seed % std::size(precisions)]),
            {v.source(), v.weight(), {v.n, oh, ow, v.c}},
            {{image, row, pixel, 1}, {}, {to_image, to_row, to, 1}}, {{to_image, to_row, to, 1}}),
        {.seed = seed, .values = seed % 2 == 0 ? pattern::integers : pattern::nan_rows}, true);
  }
}

TEST_CASE("every number of channels from 2 to 70") {
  for (std::string_view precision : precisions)
    for (extent c = 2; c <= 70; ++c)
      check_all(problem_from(same(1, 4, 9, c, 3), " | add b:vector" + std::string(precision)),
                {.seed = static_cast<std::uint64_t>(c)}, true);
}

TEST_CASE("every width against 3x3 and 5x5: borders of each kind") {
  for (std::string_view precision : {"", " [bf16]"})
    for (extent w = 1; w <= 45; ++w)
      for (extent k : {3, 5})
        for (extent stride : {1, 2})
          check_all(problem_from(same(1, 3, w, w % 2 == 0 ? 17 : 40, k, stride),
                                 " | add b:vector | clip(0, 6)" + std::string(precision)),
                    {.seed = static_cast<std::uint64_t>(w), .values = pattern::integers});
}

TEST_CASE("long kernel rows go in pieces, far strides and dilations, outputs without a tap") {
  std::uint64_t seed = 0;
  for (std::string_view precision : precisions) {
    for (extent kw : {8, 9, 17, 31, 64})
      check_all(problem_from({.h = 2, .w = 80, .c = 35, .kh = 2, .kw = kw, .left = 30, .right = 3},
                             " | add b:vector" + std::string(precision)),
                {.seed = ++seed, .values = pattern::integers});
    check_all(problem_from({.h = 5,
                            .w = 90,
                            .c = 20,
                            .kh = 3,
                            .kw = 3,
                            .sw = 11,
                            .dh = 2,
                            .dw = 29,
                            .top = 2,
                            .bottom = 2,
                            .left = 40,
                            .right = 29},
                           std::string(precision)),
              {.seed = ++seed, .values = pattern::integers});
    check_all(problem_from({.n = 2,
                            .h = 1,
                            .w = 1,
                            .c = 37,
                            .kh = 2,
                            .kw = 2,
                            .top = 3,
                            .bottom = 3,
                            .left = 3,
                            .right = 3},
                           " | add b:vector" + std::string(precision)),
              {.seed = ++seed});
    check_all(problem_from({.h = 40, .w = 3, .c = 6, .kh = 31, .kw = 1, .top = 20, .bottom = 12},
                           std::string(precision)),
              {.seed = ++seed, .values = pattern::integers});
  }
}

TEST_CASE("no two taps of a block share a column: the longest code still fits") {
  std::uint64_t seed = 0;
  for (std::string_view precision : precisions)
    for (extent kw : {9, 18, 32, 64})
      check_all(problem_from({.h = 3,
                              .w = 3 * kw + 30,
                              .c = 57,
                              .kh = 3,
                              .kw = kw,
                              .sw = 2 * kw + 1,
                              .dw = 2,
                              .top = 1,
                              .bottom = 1,
                              .left = 3 * kw,
                              .right = 6 * kw},
                             " | add b:vector | add r:tensor | hardswish" + std::string(precision)),
                {.seed = ++seed, .values = pattern::integers});
}

TEST_CASE("rows of a large image go through all channels some at a time") {
  for (std::string_view precision : {"", " [bf16]"})
    check_all(problem_from(same(2, 40, 60, 150, 3), " | add r:tensor" + std::string(precision)),
              {.values = pattern::integers});
}

TEST_CASE("weights in any order and precision pack to the same panels") {
  for (std::string_view precision : {"", " [bf16]"}) {
    problem const p = problem_from(same(1, 6, 7, 37, 3), std::string(precision));
    auto const k = jit_backend{}.build(p);
    REQUIRE(k.ok());
    std::vector<float> ohwi(37 * 9), hwo(37 * 9);
    std::vector<bfloat16> rounded(37 * 9);
    for (std::size_t o = 0; o < 37; ++o)
      for (std::size_t t = 0; t < 9; ++t) {
        float const v = static_cast<float>(o * 100 + t * 10) / 7.0F;
        ohwi[o * 9 + t] = hwo[t * 37 + o] = v;
        rounded[o * 9 + t] = to_bfloat16(v);
      }
    auto const a = (*k)->pack(1, view(ohwi.data(), {37, 3, 3, 1}));
    auto const b =
        (*k)->pack(1, tensor_view{hwo.data(), dtype::f32, {37, 3, 3, 1}, {1, 111, 37, 1}, false});
    REQUIRE(a.ok());
    REQUIRE(b.ok());
    REQUIRE(a->storage->size() == b->storage->size());
    CHECK(std::memcmp(a->data(), b->data(), a->storage->size()) == 0);
    if (precision.empty()) continue;
    auto const c = (*k)->pack(1, view(rounded.data(), {37, 3, 3, 1}));
    REQUIRE(c.ok());
    CHECK(std::memcmp(a->data(), c->data(), a->storage->size()) == 0);
  }
}

TEST_CASE("no images: nothing is done") {
  for (std::string_view precision : precisions)
    check_all(problem_from(same(0, 4, 4, 20, 3), std::string(precision)));
}

TEST_CASE("one kernel serves every number of images, height and width") {
  jit_backend const jit;
  for (std::string_view precision : precisions)
    for (char const* form :
         {"conv2d(x, w, pad_begin=1x1, pad_end=1x1, groups=45)", "conv2d(x, w, groups=45)",
          "conv2d(x, w, stride=2x2, pad_begin=1x2, pad_end=0x1, groups=45)"})
      for (isa level : jit_levels())
        for (extent k : {1, 3}) {
          chain const c = parse_chain(form + std::string(" | add b:vector | add r:tensor | relu") +
                                      std::string(precision))
                              .value();
          std::vector<operand_spec> specs(c.operands.size());
          specs[0] = tensor_desc{c.operands[0].type, {dynamic, dynamic, dynamic, 45}, {}};
          specs[1] = dense_desc(c.operands[1].type, {45, k, k, 1});
          auto wanted = make_problem(c, specs);
          REQUIRE_MESSAGE(wanted.ok(), wanted.error().message);
          wanted->max_isa = level;
          auto const kernel = jit.build(*wanted);
          REQUIRE_MESSAGE(kernel.ok(), kernel.error().message);
          auto const generated = jit::process_cache().counters().generated;
          std::uint64_t seed = 0;
          for (extent n : {0, 2})
            for (extent h : {3, 4})
              for (extent w : {3, 8, 14, 15, 40}) {
                shape const dims[] = {{n, h, w, 45}};
                auto const p = resolve(*wanted, dims);
                REQUIRE_MESSAGE(p.ok(), p.error().message);
                outcome const r = check_kernel(**kernel, *p, {.seed = ++seed}, true);
                CHECK_MESSAGE(r.ok(), r.text);
              }
          CHECK(jit::process_cache().counters().generated == generated);
        }
}

TEST_CASE("images, widths and heights that are known share one kernel") {
  jit_backend const jit;
  REQUIRE(jit.build(problem_from(same(1, 14, 14, 64, 3), " | relu")).ok());
  auto const generated = jit::process_cache().counters().generated;
  REQUIRE(jit.build(problem_from(same(3, 9, 28, 96, 3), " | relu")).ok());
  CHECK(jit::process_cache().counters().generated == generated);
}

TEST_CASE("parts leave the very bits of a whole call, in any order") {
  for (std::string_view precision : {"", " [bf16 bf16 f32 f32 f32 f32]"})
    for (extent n : {1, 3}) {
      depthwise const v = same(n, 57, 61, 72, 3);
      problem const p = problem_from(v, " | swish" + std::string(precision));
      auto const k = jit_backend{}.build(p);
      REQUIRE(k.ok());
      auto const in = static_cast<std::size_t>(element_count(v.source())),
                 weights = static_cast<std::size_t>(element_count(v.weight()));
      std::mt19937 random(7);
      std::vector<std::uint16_t> halves(2 * in);
      std::vector<float> x(in), w(weights);
      for (float& f : x) f = static_cast<float>(random() % 2001) / 1000.0F - 1;
      for (float& f : w) f = static_cast<float>(random() % 2001) / 1000.0F - 1;
      std::vector<bfloat16> narrow(in);
      for (std::size_t i = 0; i < in; ++i) narrow[i] = to_bfloat16(x[i]);
      auto const packed = (*k)->pack(1, view(w.data(), v.weight()));
      REQUIRE(packed.ok());
      std::vector<float> whole(in), parts(in);
      call_args args;
      args.operands[0] = precision.empty() ? static_cast<void const*>(x.data()) : narrow.data();
      args.operands[1] = packed->data();
      args.outputs[0] = whole.data();
      auto const call = (*k)->make_invocation();
      REQUIRE(call.ok());
      (*call)->repoint(args);
      REQUIRE((*call)->run() == code::ok);
      for (int wanted : {1, 2, 3, 8}) {
        std::fill(parts.begin(), parts.end(), NAN);
        args.outputs[0] = parts.data();
        (*call)->repoint(args);
        int const count = (*call)->cut(wanted);
        CHECK(count == wanted);
        for (int part = count; part-- > 0;) REQUIRE((*call)->run_part(part) == code::ok);
        CHECK(std::memcmp(whole.data(), parts.data(), in * sizeof(float)) == 0);
      }
    }
}

TEST_CASE("a small image is not cut") {
  problem const p = problem_from(same(1, 7, 7, 32, 3), "");
  auto const k = jit_backend{}.build(p);
  REQUIRE(k.ok());
  auto const call = (*k)->make_invocation();
  REQUIRE(call.ok());
  std::vector<float> x(7 * 7 * 32), out(7 * 7 * 32), w(32 * 9);
  auto const packed = (*k)->pack(1, view(w.data(), {32, 3, 3, 1}));
  REQUIRE(packed.ok());
  call_args args;
  args.operands[0] = x.data();
  args.operands[1] = packed->data();
  args.outputs[0] = out.data();
  (*call)->repoint(args);
  CHECK((*call)->cut(4) == 1);
}

TEST_CASE("long chains get their epilogue in a loop") {
  std::string long_text = "";
  for (int i = 0; i < 12; ++i) long_text += i % 2 == 0 ? " | gelu_erf" : " | mish";
  std::string many = "";
  for (int i = 0; i < 20; ++i) many += " | add r" + std::to_string(i) + ":tensor";
  depthwise const v = same(1, 4, 15, 40, 3);
  for (std::string_view precision : {"", " [bf16]"}) {
    check_all(problem_from(v, long_text + std::string(precision)), {.values = pattern::integers});
    check_all(problem_from(v, many + std::string(precision)));
  }
}

TEST_CASE("several outputs") {
  for (std::string_view precision : {"", " [bf16]"})
    check_all(problem_from(same(2, 5, 9, 40, 3),
                           " | add b:vector | relu -> sum=%1, out=%2" + std::string(precision)),
              {.values = pattern::integers});
}

TEST_CASE("addends of every broadcast shape") {
  std::uint64_t seed = 0;
  depthwise const v = same(3, 5, 6, 18, 3);
  for (shape const& dims :
       {shape{18}, shape{3, 1, 1, 1}, shape{5, 1, 1}, shape{6, 1}, shape{1, 5, 6, 1},
        shape{3, 1, 6, 18}, shape{3, 5, 1, 18}, shape{1, 1, 1, 18}})
    for (std::string_view precision : {"", " [bf16]"})
      check_all(problem_from(v.text() + " | add r:tensor" + std::string(precision),
                             {v.source(), v.weight(), dims}),
                {.seed = ++seed});
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
  refused(problem_from("conv2d(x, w, groups=3)", {{1, 4, 4, 3}, {3, 3, 3, 1}}, {{48, 4, 1, 16}}),
          "operand 'x' has the stride 16 along its channels");
  refused(problem_from("conv2d(x, w, groups=3)", {{1, 4, 4, 3}, {3, 3, 3, 1}}, {}, {{12, 2, 1, 4}}),
          "output 'out' has the stride 4");
  refused(problem_from("conv2d(x, w:tensor, groups=3)", {{1, 4, 4, 3}, {3, 3, 3, 1}}),
          "operand 'w' of conv2d is a tensor");
  refused(problem_from("conv2d(x, w, groups=3)", {{1, 4, 70, 3}, {3, 3, 65, 1}}),
          "depthwise kernel rows of 65 taps; at most 64 are generated");
  refused(problem_from("conv2d(x, w, stride=2097152, groups=3)", {{1, 4, 4, 3}, {3, 3, 3, 1}}),
          "a depthwise stride or dilation of 2097152");
}
