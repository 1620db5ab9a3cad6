// Generated convolutions with reductions of their channels behind them, against the oracle: every
// level this CPU has, dense, grouped and depthwise ones, blocks of images, lines and columns.
#include <doctest/doctest.h>

#include <cstring>
#include <string>
#include <vector>

#include <sinter/backend/jit.hpp>
#include <sinter/plan/resolve.hpp>

#include "support/check_levels.hpp"
#include "support/row_chains.hpp"

using namespace sinter;
using namespace sinter_test;

namespace {

constexpr std::string_view precisions[] = {"", " [bf16]", " [f16]", " [bf16 bf16 f32 f32 f32 f32]",
                                           " [f32 f32 f32 bf16 bf16 f32]"};

struct image_conv {
  char const* head;
  shape source, weight;
};
image_conv const convs[] = {
    {"conv2d(x, w)", {2, 5, 7, 19}, {40, 1, 1, 19}},
    {"conv2d(x, w, pad_begin=1x1, pad_end=1x1)", {1, 7, 9, 5}, {70, 3, 3, 5}},
    {"conv2d(x, w, stride=2x3, pad_begin=0x2, pad_end=1x0, dilation=1x2)",
     {2, 9, 13, 3},
     {7, 3, 2, 3}},
    {"conv2d(x, w, pad_begin=1x1, pad_end=1x1, groups=4)", {1, 6, 6, 32}, {32, 3, 3, 8}},
    {"conv2d(x, w, pad_begin=1x1, pad_end=1x1, groups=24, stride=2)",
     {2, 9, 10, 24},
     {24, 3, 3, 1}},
    {"conv2d(x, w, pad_begin=2x2, pad_end=2x2, groups=33)", {1, 5, 8, 33}, {33, 5, 5, 1}},
};

/// Blocks of lines; of lines of several blocks; of pieces of lines; of images, with near and far
/// weights; depthwise ones.
image_conv const large[] = {
    {"conv2d(x, w, pad_begin=1x1, pad_end=1x1)", {1, 43, 40, 2}, {90, 3, 3, 2}},
    {"conv2d(x, w, stride=2, pad_begin=3x3, pad_end=3x3)", {2, 80, 61, 2}, {90, 7, 7, 2}},
    {"conv2d(x, w, pad_begin=1x2, pad_end=1x2)", {1, 3, 900, 2}, {90, 3, 5, 2}},
    {"conv2d(x, w)", {29, 5, 5, 3}, {260, 1, 1, 3}},
    {"conv2d(x, w, pad_begin=1x1, pad_end=1x1)", {100, 2, 3, 17}, {900, 3, 3, 17}},
    {"conv2d(x, w, pad_begin=1x1, pad_end=1x1, groups=200)", {1, 37, 30, 200}, {200, 3, 3, 1}},
    {"conv2d(x, w, pad_begin=1x1, pad_end=1x1, groups=200, stride=2)",
     {1, 3, 700, 200},
     {200, 3, 3, 1}},
};

}  // namespace

TEST_CASE("reductions behind a convolution") {
  std::uint64_t seed = 0;
  for (std::string const& rows :
       {softmax, log_softmax, layer_norm, rms_norm, std::string("argmax(x:tensor)"),
        std::string("row_max(x:tensor)"), std::string("row_mean(x:tensor)"),
        std::string("row_sum(x:tensor) | sub(x, %0) | relu")})
    for (std::string_view precision : precisions)
      for (image_conv const& v : convs) {
        ++seed;
        check_levels(problem_from(behind_product(v.head, rows) + std::string(precision),
                                  {v.source, v.weight}),
                     {.seed = seed, .values = all_patterns[seed % std::size(all_patterns)]},
                     ":rows:", seed % 16 == 0);
      }
}

TEST_CASE("steps before, between and after reductions behind a convolution, outputs, addends") {
  std::uint64_t seed = 0;
  for (std::string const steps :
       {" | add b:vector | add r:tensor | let gelu_erf | row_mean | sub(%3, %4) -> hidden=%3, "
        "moved=%5",
        " | mul 0.125 | row_max | sub(%1, %2) | exp | row_sum | div(%4, %5) -> sums=%0, top=%2, "
        "out=%6",
        " | add r:tensor | row_sum | add(%1, %2) | mul r",
        " | tanh | exp(%0) | square(%0) | row_sum(%1) | add(%1, %4) | add(%2, %5) | add(%3, %6) | "
        "add(%0, %7) -> a=%0, b=%8"})
    for (image_conv const& v : convs)
      for (int broadcast = 0; broadcast < 8; ++broadcast) {
        std::string const text = v.head + steps;
        bool const addend = text.find("r:tensor") != std::string::npos;
        if (!addend && broadcast > 0) break;
        shape dims = problem_from(v.head, {v.source, v.weight}).domain;
        for (int axis = 0; axis < 3; ++axis)
          if ((broadcast >> axis & 1) != 0) dims[axis] = 1;
        std::vector<shape> all{v.source, v.weight};
        if (addend) all.push_back(dims);
        if (text.find("b:vector") != std::string::npos) all.insert(all.begin() + 2, shape{});
        ++seed;
        check_levels(problem_from(text + std::string(precisions[seed % 5]), all),
                     {.seed = seed, .values = all_patterns[seed % std::size(all_patterns)]},
                     ":rows:");
      }
}

TEST_CASE("many blocks behind which rows are reduced, strided views") {
  std::uint64_t seed = 0;
  for (image_conv const& v : large) {
    std::string const text = behind_product(v.head, softmax) + (seed % 2 == 0 ? "" : " [bf16]");
    check_levels(problem_from(text, {v.source, v.weight}), {.seed = ++seed}, ":rows:");
  }
  for (std::string_view precision : precisions)
    check_levels(
        problem_from(
            "conv2d(x, w, pad_begin=1x1, pad_end=1x1) | add r:tensor | row_max | sub(%1, %2)" +
                std::string(precision),
            {{2, 30, 31, 3}, {45, 3, 3, 3}, {2, 30, 31, 45}},
            {{5000, 160, 5, 1}, {}, {50000, 1600, 50, 1}}, {{60000, 1700, 49, 1}}),
        {.seed = ++seed}, ":rows:");
}

TEST_CASE("one kernel behind a convolution serves every number of images, lines and columns") {
  jit_backend const jit;
  for (isa level : jit_levels())
    for (std::string_view precision : {"", " [bf16]"})
      for (extent groups : {1, 90}) {
        std::string const head = "conv2d(x, w, stride=2x1, pad_begin=1x1, pad_end=1x1, groups=" +
                                 std::to_string(groups) + ")";
        extent const in = groups == 1 ? 3 : 90;
        problem wanted =
            problem_from(head + " | add b:vector | add r:tensor | row_mean | sub(%2, %3)" +
                             std::string(precision),
                         {{dynamic, dynamic, dynamic, in}, {90, 3, 3, groups == 1 ? 3 : 1}});
        wanted.max_isa = level;
        auto const k = jit.build(wanted);
        REQUIRE_MESSAGE(k.ok(), k.error().message);
        auto const generated = jit::process_cache().counters().generated;
        std::uint64_t seed = 0;
        for (shape const& source :
             {shape{0, 4, 4, in}, shape{1, 1, 1, in}, shape{3, 5, 9, in}, shape{1, 61, 33, in},
              shape{2, 3, 800, in}, shape{20, 9, 8, in}}) {
          shape const dims[] = {source};
          auto const p = resolve(wanted, dims);
          REQUIRE_MESSAGE(p.ok(), p.error().message);
          outcome const r = check_kernel(**k, *p, {.seed = ++seed}, true);
          CHECK_MESSAGE(r.ok(), r.text);
        }
        CHECK(jit::process_cache().counters().generated == generated);
      }
}

TEST_CASE("any cut of a convolution with reductions leaves the bits of the whole call") {
  std::vector<float> values(1'000'000);
  draw next(3);
  for (float& v : values) v = static_cast<float>(next.upto(-1000, 1000)) / 700.0F;
  std::vector<bfloat16> narrow;
  for (float v : values) narrow.push_back(to_bfloat16(v));
  for (image_conv const& v : large)
    for (isa level : jit_levels()) {
      std::string const text = behind_product(v.head, softmax);
      problem p = problem_from(text, {v.source, v.weight});
      p.max_isa = level;
      std::vector<float> const whole = run_dense<float>(p, {values.data(), values.data()});
      p = problem_from(text + " [bf16 bf16 f32 f32 f32 f32]", {v.source, v.weight});
      p.max_isa = level;
      std::vector<float> const whole_narrow = run_dense<float>(p, {narrow.data(), narrow.data()});
      for (int parts : {2, 3}) {
        CHECK(run_dense<float>(p, {narrow.data(), narrow.data()}, parts) == whole_narrow);
        problem f = problem_from(text, {v.source, v.weight});
        f.max_isa = level;
        CHECK(run_dense<float>(f, {values.data(), values.data()}, parts) == whole);
      }
    }
}

TEST_CASE("extents of zero, and shared memory, behind a convolution") {
  for (extent n : {0, 2})
    for (extent in : {0, 3})
      check_levels(
          problem_from("conv2d(x, w, pad_begin=1x1) | add b:vector | row_sum | add(%1, %2) "
                       "-> a=%2, b=%3",
                       {{n, 4, 5, in}, {20, 2, 2, in}}));
  check_levels(problem_from("conv2d(x, w) | add r:tensor | row_max | sub(%1, %2) | add r",
                            {{1, 40, 41, 2}, {70, 1, 1, 2}, {1, 40, 41, 70}}, {}, {}, 2),
               {}, ":rows:", true);
  verdict const v = jit_backend{}.supports(
      problem_from("conv2d(x, w) | row_max | sub(%0, %1) | add r:tensor -> out=%0, moved=%3",
                   {{1, 4, 4, 6}, {41, 1, 1, 6}, {1, 4, 4, 41}}, {}, {}, 2));
  CHECK_FALSE(v);
  CHECK(v.reason.find("shares memory") != std::string::npos);
}

TEST_CASE("a filter behind which channels are reduced is packed as for the convolution alone") {
  for (image_conv const& v : convs) {
    auto const alone = jit_backend{}.build(problem_from(v.head, {v.source, v.weight})).value();
    auto const reduced =
        jit_backend{}
            .build(problem_from(std::string(v.head) + " | row_sum", {v.source, v.weight}))
            .value();
    CHECK(alone->layout_key(1) == reduced->layout_key(1));
  }
}

TEST_CASE("what the halves refuse is refused with their sentences") {
  auto const refused = [](problem const& p, std::string_view part) {
    verdict const v = jit_backend{}.supports(p);
    CHECK_FALSE(v);
    CHECK_MESSAGE(v.reason.find(part) != std::string::npos, v.reason);
    CHECK_FALSE(jit_backend{}.build(p).ok());
  };
  refused(problem_from("conv2d(x, w) | row_sum", {{1, 4, 4, 3}, {5, 3, 3, 3}}, {{48, 4, 1, 16}}),
          "operand 'x' has the stride 16 along its channels");
  refused(problem_from("conv2d(x, w, groups=2) | row_sum", {{1, 5, 5, 80}, {2, 3, 3, 40}}),
          "2 groups of 40 input and 1 output channels would fill 1 of");
  refused(problem_from("conv2d(x, w) | row_max | sub(%0, %1)", {{1, 4, 4, 3}, {5, 3, 3, 3}}, {},
                       {{20, 2, 1, 4}}),
          "output 'out' has the stride 4");
  refused(problem_from("conv2d(x, w) | row_sum | sub(%0, %1) | max_pool(%2, kernel=2x2)",
                       {{1, 4, 4, 3}, {5, 1, 1, 3}}),
          "step 1 (row_sum) reads whole rows");
}
