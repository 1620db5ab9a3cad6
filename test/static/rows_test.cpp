// Reductions in the language and in plans: what softmax and its kin are made of, and where groups are cut. Proven when
// it compiles.
#include <doctest/doctest.h>

#include "sinter/plan/partition.hpp"
#include "sinter/plan/text.hpp"

static constexpr auto x = sinter::tensor<"x">;
static constexpr auto w = sinter::weight<"w">;
static constexpr auto b = sinter::vector<"b">;
static constexpr auto r = sinter::tensor<"r">;
static constexpr auto gain = sinter::vector<"gain">;
static constexpr auto shift = sinter::vector<"shift">;
static constexpr auto h = sinter::let<"h">;

namespace {

using sinter::dtype;
using sinter::matmul, sinter::partition, sinter::softmax;

template <class E>
constexpr bool is(E const& expr, std::string_view wanted,
                  sinter::precision const& dtypes = sinter::f32) {
  auto const plan = partition(expr, dtypes);
  return plan.group_count() == 1 && sinter::text(plan.group(0)) == wanted;
}

// What is read twice is one step, and nothing is a rounding point; of a contraction too.
static_assert(is(softmax(matmul(x, w) + b),
                 "matmul(x, w) | add b:vector | row_max | sub(%1, %2) | exp | row_sum | div(1, %5) "
                 "| mul(%4, %6)"));
static_assert(
    is(softmax(x),
       "row_max(x:tensor) | sub(x:tensor, %0) | exp | row_sum | div(1, %3) | mul(%2, %4)"));
static_assert(is(sinter::log_softmax(matmul(x, w)),
                 "matmul(x, w) | row_max | sub(%0, %1) | exp | row_sum | log | sub(%2, %5)"));
static_assert(
    is(sinter::layer_norm(x),
       "row_mean(x:tensor) | sub(x:tensor, %0) | square | row_mean | add 0.00001 | sqrt | "
       "div(1, %5) | mul(%1, %6)"));
static_assert(
    is(sinter::layer_norm(x + r, gain, shift, 0.25F),
       "add(x:tensor, r:tensor) | row_mean | sub(%0, %1) | square | row_mean | add 0.25 | "
       "sqrt | div(1, %6) | mul(%2, %7) | mul gain:vector | add shift:vector"));
static_assert(
    is(sinter::rms_norm(matmul(x, w)),
       "matmul(x, w) | square | row_mean | add 0.00001 | sqrt | div(1, %4) | mul(%0, %5)"));
static_assert(is(sinter::rms_norm(x, gain, 0.5F),
                 "square(x:tensor) | row_mean | add 0.5 | sqrt | div(1, %3) | mul(x:tensor, %4) | "
                 "mul gain:vector"));
static_assert(is(sinter::rms_norm(x, 0.5F),
                 "square(x:tensor) | row_mean | add 0.5 | sqrt | div(1, %3) | mul(x:tensor, %4)"));

// On the values of a lambda, beside them, and one inside the other.
static_assert(is(sinter::map(matmul(x, w),
                             [](auto scores) { return scores * softmax(2 * scores); }),
                 "matmul(x, w) | mul(2, %0) | row_max | sub(%1, %2) | exp | row_sum | div(1, %5) | "
                 "mul(%4, %6) | "
                 "mul(%0, %7)"));
static_assert(is(sinter::map(x, r,
                             [](auto left, auto right) {
                               return sinter::row_sum(left * right) / sinter::row_max(left);
                             }),
                 "mul(x:tensor, r:tensor) | row_sum | row_max(x:tensor) | div(%1, %2)"));
static_assert(
    is(softmax(softmax(x)),
       "row_max(x:tensor) | sub(x:tensor, %0) | exp | row_sum | div(1, %3) | mul(%2, %4) | "
       "row_max | sub(%5, %6) | exp | row_sum | div(1, %9) | mul(%8, %10)"));

// A lambda may read what a lambda around it was given.
static_assert(is(sinter::map(x + r,
                             [](auto sum) {
                               return sinter::map(softmax(sum), [sum](auto share) {
                                 return share * (sum - share);
                               });
                             }),
                 "add(x:tensor, r:tensor) | row_max | sub(%0, %1) | exp | row_sum | div(1, %4) | "
                 "mul(%3, %5) | sub(%0, %6) | mul(%6, %7)"));
// A let in a lambda is another value with another argument, and the same with the same one.
constexpr auto doubled_in_place = [](auto value) { return h(value * 2) + h; };
static_assert(sinter::flatten(sinter::map(x, doubled_in_place) * sinter::map(r, doubled_in_place))
                  .broken == sinter::fault::let_redefined);
static_assert(sinter::flatten(sinter::map(x, doubled_in_place) * sinter::map(x, doubled_in_place))
                  .broken == sinter::fault::none);
static_assert(sinter::flatten(x + sinter::hole<int, 0>{}).broken ==
              sinter::fault::hole_outside_map);

// The plan: a reduction goes with what it reads; a contraction after it opens a group.
constexpr auto attention =
    partition(matmul(softmax(matmul(x, sinter::transposed(r))), sinter::tensor<"v">), sinter::bf16);
static_assert(attention.group_count() == 2);
static_assert(attention.group(0).outputs.size() == 1 &&
              attention.group(0).outputs[0].type == dtype::bf16);
static_assert(sinter::text(attention.group(1)) == "matmul(~%6.bf16, v:tensor) [bf16]");
// What is reduced and read by a later group is stored in f32.
constexpr auto scaled =
    partition(matmul(x, w) + matmul(r, sinter::weight<"v">) *
                                 sinter::row_max(h(matmul(x, sinter::weight<"u">))),
              sinter::bf16);
static_assert(scaled.group_count() == 3);
// A reduction without a contraction before it has rows of its own: it never sinks into a product's group.
constexpr auto divided = partition(matmul(x, w) / sinter::row_max(sinter::abs(x)), sinter::bf16);
static_assert(divided.group_count() == 2);
static_assert(sinter::text(divided.group(0)) == "abs(x:tensor) | row_max -> ~%2:f32 [bf16]");
static_assert(sinter::text(divided.group(1)) == "matmul(x, w) | div ~%2:tensor:f32 [bf16]");
static_assert(partition(x / sinter::row_max(sinter::abs(x))).group_count() == 1);
constexpr auto beside = partition(matmul(x, w) + softmax(r));
static_assert(beside.group_count() == 2);
static_assert(
    sinter::text(beside.group(0)) ==
    "row_max(r:tensor) | sub(r:tensor, %0) | exp | row_sum | div(1, %3) | mul(%2, %4) -> ~%6");
static_assert(sinter::text(beside.group(1)) == "matmul(x, w) | add ~%6:tensor");
static_assert(partition(matmul(x, w) + b * sinter::row_sum(b)).group_count() == 2);

// Two outputs of one value: the shares in the precision's dtype, the index in f32.
constexpr auto head =
    partition(sinter::define(h = matmul(x, w) + b,
                             sinter::outputs(sinter::out = softmax(h),
                                             sinter::output_named<"label"> = sinter::argmax(h))),
              sinter::bf16);
static_assert(head.group_count() == 1);
static_assert(head.group(0).outputs[0].type == dtype::bf16 &&
              head.group(0).outputs[1].type == dtype::f32);
static_assert(head.group(0).steps[1].rounded && !head.group(0).steps[2].rounded);

// Equal with equal numbers, not with others: a let by value is one definition.
constexpr auto normed = h(sinter::rms_norm(matmul(x, w), 0.5F));
static_assert(partition(normed * sinter::sigmoid(normed)).group_count() == 1);
static_assert(sinter::flatten(normed * h(sinter::rms_norm(matmul(x, w), 0.25F))).broken ==
              sinter::fault::let_redefined);
static_assert(sinter::flatten(normed * h(sinter::rms_norm(matmul(x, w), 0.5F))).broken ==
              sinter::fault::none);
static_assert(sinter::hash(partition(sinter::row_sum(x)).group(0)) !=
              sinter::hash(partition(sinter::row_mean(x)).group(0)));
static_assert(sinter::flatten(sinter::row_max(sinter::scalar<"s">) + x).broken ==
              sinter::fault::scalar_reduced);
static_assert(sinter::flatten(sinter::row_max(w) + x).broken ==
              sinter::fault::weight_outside_contraction);
// A contraction used twice is seen behind a reduction.
static_assert(sinter::flatten(matmul(sinter::row_sum(x), w) + matmul(sinter::row_sum(x), w))
                  .broken == sinter::fault::contraction_reused);

// Static extents: [4,1] broadcasts back, and a vector widens it again.
constexpr auto small = sinter::tensor<"x", 4, 8>;
constexpr auto narrow = sinter::weight<"w", 8, 3>;
static_assert(sinter::flatten(matmul(softmax(matmul(small, narrow)), sinter::tensor<"v", 3, 5>))
                  .broken == sinter::fault::none);
static_assert(sinter::flatten(matmul(sinter::row_sum(small), sinter::tensor<"v", 8, 5>)).broken ==
              sinter::fault::static_shapes);
static_assert(sinter::flatten(matmul(sinter::row_sum(small) + gain, sinter::tensor<"v", 8, 5>))
                  .broken == sinter::fault::none);

}  // namespace

TEST_CASE("the same plans at run time") {
  CHECK(is(softmax(x),
           "row_max(x:tensor) | sub(x:tensor, %0) | exp | row_sum | div(1, %3) | mul(%2, %4)"));
  CHECK(partition(matmul(x, w) / sinter::row_max(sinter::abs(x))).group_count() == 2);
}
