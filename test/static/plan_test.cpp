// The plan is a constant: what is said here is proven when it compiles. The one test case at the end shows that the
// run-time evaluation of the same functions gives the same plan.
#include <doctest/doctest.h>

#include "sinter/plan/partition.hpp"
#include "sinter/plan/text.hpp"

// Names that users give to their constants too, at global scope: nothing in the headers may be seen to shadow them.
[[maybe_unused]] static constexpr int a = 1, c = 1, d = 1, e = 1, f = 1, g = 1, i = 1, j = 1, k = 1,
                                      l = 1, m = 1, n = 1, o = 1, p = 1, q = 1, s = 1, t = 1, u = 1,
                                      v = 1, y = 1, z = 1;
static constexpr auto x = sinter::tensor<"x">;
static constexpr auto w = sinter::weight<"w">;
static constexpr auto b = sinter::vector<"b">;
static constexpr auto r = sinter::tensor<"r">;
static constexpr auto h = sinter::let<"h">;

namespace {

using sinter::dtype;
using sinter::role;

// One group: the whole epilogue goes with its convolution.
constexpr auto residual = sinter::relu(sinter::conv2d(x, w, {.stride = 1, .pad = 1}) + b + r);
constexpr auto residual_plan = sinter::partition(residual, sinter::bf16);
static_assert(residual_plan.group_count() == 1);
constexpr sinter::chain residual_chain = residual_plan.group(0);
static_assert(residual_chain.steps.size() == 4);
static_assert(residual_chain.anchor() == 0);
static_assert(residual_chain.operands.size() == 4);
static_assert(residual_chain.operands[0].type == dtype::bf16 &&
              residual_chain.operands[1].role == role::weight);
static_assert(residual_chain.operands[2].type == dtype::f32 &&
              residual_chain.operands[2].role == role::vector);
static_assert(residual_chain.outputs.size() == 1 && residual_chain.outputs[0].type == dtype::bf16);
static_assert(residual_chain.contractions[0].pad_end[1] == 1);
static_assert(sinter::text(residual_chain) ==
              "conv2d(x, w, pad=1) | add b:vector | add r:tensor | relu [bf16]");

// A let is stored once, in the activation dtype, for a later group; inside its own group it is a rounding point.
constexpr auto block =
    sinter::define(h = sinter::relu(sinter::conv2d(x, w, {.pad = 1})),
                   sinter::relu(sinter::conv2d(h, sinter::weight<"w2">, {.pad = 1}) + h));
constexpr auto block_plan = sinter::partition(block, sinter::bf16);
static_assert(block_plan.group_count() == 2);
static_assert(block_plan.group(0).outputs.size() == 1);
static_assert(block_plan.group(0).outputs[0].name == "h" &&
              block_plan.group(0).outputs[0].internal);
static_assert(block_plan.group(0).outputs[0].type == dtype::bf16);
static_assert(block_plan.group(0).steps[1].rounded);
static_assert(block_plan.group(1).operands.size() == 2 && block_plan.group(1).operands[0].internal);

// The same block, the let defined where it is first used; and by value, twice: equal plans.
constexpr auto block_in_place =
    sinter::relu(sinter::conv2d(h(sinter::relu(sinter::conv2d(x, w, {.pad = 1}))),
                                sinter::weight<"w2">, {.pad = 1}) +
                 h);
constexpr auto named = h(sinter::relu(sinter::conv2d(x, w, {.pad = 1})));
constexpr auto block_by_value =
    sinter::relu(sinter::conv2d(named, sinter::weight<"w2">, {.pad = 1}) + named);
static_assert(sinter::partition(block_in_place, sinter::bf16).group(1) == block_plan.group(1));
static_assert(sinter::partition(block_by_value, sinter::bf16).group(1) == block_plan.group(1));
static_assert(sinter::partition(block_by_value, sinter::bf16).group(0) == block_plan.group(0));

// An unnamed value that crosses a cut stays f32 for a pointwise reader and is rounded for a contraction.
constexpr auto two_branches =
    sinter::relu(sinter::conv2d(x, w) + sinter::conv2d(r, sinter::weight<"w2">));
constexpr auto branches_plan = sinter::partition(two_branches, sinter::bf16);
static_assert(branches_plan.group_count() == 2);
static_assert(branches_plan.group(0).outputs[0].type == dtype::f32);
static_assert(branches_plan.group(1).steps.size() == 3);
constexpr auto stack = sinter::matmul(sinter::relu(sinter::matmul(x, w)), sinter::weight<"w2">);
static_assert(sinter::partition(stack, sinter::bf16).group(0).outputs[0].type == dtype::bf16);

// What feeds a contraction and reads none is a group of its own, and runs first.
constexpr auto prologue_plan = sinter::partition(sinter::matmul(sinter::relu(x), w) + b);
static_assert(prologue_plan.group_count() == 2);
static_assert(prologue_plan.group(0).anchor() == -1 && prologue_plan.group(1).anchor() == 0);
// What reads operands alone and is read by one group only costs no pass.
static_assert(sinter::partition(sinter::matmul(x, w) * (b * b + 1)).group_count() == 1);
// No contraction at all is a plan too.
static_assert(sinter::partition(sinter::relu(x + r)).group_count() == 1);

// A lambda becomes steps: nothing is left of it.
constexpr auto quick_gelu = sinter::map(sinter::matmul(x, sinter::transposed(w)), [](auto arg) {
  return arg * sinter::sigmoid(1.702F * arg);
});
static_assert(sinter::partition(quick_gelu).group_count() == 1);
static_assert(sinter::partition(quick_gelu).group(0).steps.size() == 4);
static_assert(sinter::partition(quick_gelu).group(0).contractions[0].transposed_weight);
static_assert(sinter::partition(sinter::map(sinter::matmul(x, w), r,
                                            [](auto lhs, auto rhs) { return lhs - rhs; }))
                  .group(0)
                  .steps.size() == 2);

// Several outputs: each is stored; a value that only an output needs is computed in its group.
constexpr auto two_outputs = sinter::partition(sinter::define(
    h = sinter::matmul(x, w) + b,
    sinter::outputs(sinter::out = sinter::relu(h), sinter::output_named<"raw"> = h)));
static_assert(two_outputs.group_count() == 1);
static_assert(two_outputs.group(0).outputs.size() == 2 &&
              two_outputs.group(0).outputs[0].name == "raw");

// Static shapes that fit.
static_assert(sinter::partition(sinter::conv2d(sinter::tensor<"x", 1, 56, 56, 64>,
                                               sinter::weight<"w", 64, 3, 3, 64>) +
                                sinter::tensor<"r", 54, 54, 1>)
                  .group_count() == 1);
static_assert(sinter::partition(sinter::matmul(sinter::tensor<"x", sinter::dynamic, 8>,
                                               sinter::weight<"w", 8, 3>) +
                                sinter::tensor<"r", sinter::dynamic, 3>)
                  .group_count() == 1);

// 64 steps in a group, no more: the longest legal epilogue.
template <int Count>
constexpr auto halved(auto const& value) {
  if constexpr (Count == 0)
    return value;
  else
    return halved<Count - 1>(value * 0.5F);
}
static_assert(sinter::partition(halved<63>(sinter::matmul(x, w))).group(0).steps.size() == 64);
static_assert(sinter::flatten(halved<64>(sinter::matmul(x, w))).broken == sinter::fault::none);

}  // namespace

TEST_CASE("the plan at run time is the plan at compile time") {
  auto const plan = sinter::partition(block, sinter::bf16);
  REQUIRE(plan.group_count() == block_plan.group_count());
  for (int index = 0; index < plan.group_count(); ++index)
    CHECK(plan.group(index) == block_plan.group(index));
}

#if SINTER_EXCEPTIONS
TEST_CASE("a broken rule is raised with its sentence at run time") {
  auto const broken = sinter::clip(sinter::matmul(x, w), 1, -1);
  CHECK_THROWS_WITH_AS(sinter::partition(broken),
                       "sinter: clip wants a low bound that is not above the high one",
                       sinter::exception);
}
#endif
