// Poolings in the language and in plans: what joins a convolution, what opens a group, what is refused. Proven when
// it compiles.
#include <doctest/doctest.h>

#include "sinter/plan/partition.hpp"
#include "sinter/plan/text.hpp"

static constexpr auto x = sinter::tensor<"x">;
static constexpr auto w = sinter::weight<"w">;
static constexpr auto w2 = sinter::weight<"w2">;
static constexpr auto b = sinter::vector<"b">;
static constexpr auto r = sinter::tensor<"r">;
static constexpr auto h = sinter::let<"h">;

namespace {

using sinter::avg_pool, sinter::conv2d, sinter::global_avg_pool, sinter::max_pool;
using sinter::define, sinter::dtype, sinter::fault, sinter::flatten, sinter::partition;
using sinter::out, sinter::output_named, sinter::outputs, sinter::relu;

/// The texts of all groups, one after the other.
template <class E>
constexpr bool are(E const& expr, std::initializer_list<std::string_view> wanted,
                   sinter::precision const& dtypes = sinter::f32) {
  auto const plan = partition(expr, dtypes);
  if (plan.group_count() != static_cast<int>(wanted.size())) return false;
  int group = 0;
  for (std::string_view text : wanted)
    if (!(sinter::text(plan.group(group++)) == text)) return false;
  return true;
}

// The attributes, and what they are where they are not given.
static_assert(are(max_pool(x, {.kernel = 2}), {"max_pool(x:tensor, kernel=2)"}));
static_assert(are(max_pool(x, {.kernel = {3, 2}, .stride = {1, 2}, .pad = {1, 0}, .ceil = true}),
                  {"max_pool(x:tensor, kernel=3x2, stride=1x2, pad=1x0, ceil)"}));
static_assert(are(avg_pool(x, {.kernel = 3, .pad = 1, .pad_end = 2, .count_include_pad = false}),
                  {"avg_pool(x:tensor, kernel=3, pad_begin=1, pad_end=2, exclude_pad)"}));
static_assert(are(global_avg_pool(x), {"global_avg_pool(x:tensor)"}));
// It is nothing to max_pool what is divided by.
static_assert(are(max_pool(x, {.kernel = 2, .count_include_pad = false}),
                  {"max_pool(x:tensor, kernel=2)"}));

// A pooling of what follows a contraction joins its group, and what follows the pooling does too.
constexpr auto stem =
    max_pool(relu(conv2d(x, w, {.stride = 2, .pad = 3}) + b), {.kernel = 3, .stride = 2, .pad = 1});
static_assert(are(stem,
                  {"conv2d(x, w, stride=2, pad=3) | add b:vector | relu | "
                   "max_pool(kernel=3, stride=2, pad=1) [bf16]"},
                  sinter::bf16));
static_assert(are(relu(global_avg_pool(conv2d(x, w) + b) * r),
                  {"conv2d(x, w) | add b:vector | global_avg_pool | mul r:tensor | relu"}));
static_assert(partition(stem).group(0).pooling() == 3);

// A group has one pooling; the second reads what the first group stores, in f32.
static_assert(are(avg_pool(max_pool(conv2d(x, w), {.kernel = 2}), {.kernel = 2}),
                  {"conv2d(x, w) | max_pool(kernel=2) -> ~%1", "avg_pool(~%1:tensor, kernel=2)"}));

// densenet's transition: norm, relu, convolution, average. The steps before stay a group of their own.
static_assert(are(avg_pool(conv2d(relu(x * b + sinter::vector<"shift">), w), {.kernel = 2}),
                  {"mul(x:tensor, b:vector) | add shift:vector | relu -> ~%2",
                   "conv2d(~%2, w) | avg_pool(kernel=2)"}));

// Without a contraction: the pooling's own group, with the pointwise steps around it.
static_assert(are(relu(max_pool(sinter::abs(x) + b, {.kernel = 2}) * r),
                  {"abs(x:tensor) | add b:vector | max_pool(kernel=2) | mul r:tensor | relu"}));

// A let that is pooled and read elsewhere too is stored once, by its own group.
static_assert(are(define(h = relu(conv2d(x, w)),
                         outputs(out = max_pool(h, {.kernel = 2}), output_named<"whole"> = h)),
                  {"conv2d(x, w) | let relu | max_pool(kernel=2) -> whole=%1, out=%2"}));
static_assert(are(define(h = relu(conv2d(x, w)), conv2d(max_pool(h, {.kernel = 2}), w2) + r),
                  {"conv2d(x, w) | let relu | max_pool(kernel=2) -> ~%2",
                   "conv2d(~%2, w2) | add r:tensor"}));
// What is pooled and not pooled has other extents: steps that read both stand alone.
static_assert(are(define(h = relu(conv2d(x, w)), h* global_avg_pool(h)),
                  {"conv2d(x, w) | let relu | global_avg_pool -> ~h=%1, ~%2=%2",
                   "mul(~h:tensor, ~%2:tensor)"}));
static_assert(are(define(h = relu(x), avg_pool(h, {.kernel = 3, .stride = 1, .pad = 1}) - h),
                  {"let relu(x:tensor) -> ~h",
                   "avg_pool(~h:tensor, kernel=3, stride=1, pad=1) | sub ~h:tensor"}));
// An operand may be both: poolformer's mixer.
static_assert(are(avg_pool(x, {.kernel = 3, .stride = 1, .pad = 1}) - x,
                  {"avg_pool(x:tensor, kernel=3, stride=1, pad=1) | sub x:tensor"}));

// Two poolings of one value: the first joins, the second reads the let.
static_assert(partition(define(h = relu(conv2d(x, w)),
                               max_pool(h, {.kernel = 2}) + avg_pool(h, {.kernel = 2})))
                  .group_count() == 2);

// One let name, two windows.
static_assert(flatten(h(max_pool(x, {.kernel = 2})) + h(max_pool(x, {.kernel = 3}))).broken ==
              fault::let_redefined);
static_assert(flatten(h(max_pool(x, {.kernel = 2})) + h(max_pool(x, {.kernel = 2}))).broken ==
              fault::none);
// A contraction of one pooling that is written twice is one contraction; of two poolings, two.
static_assert(flatten(conv2d(max_pool(x, {.kernel = 2}), w) * conv2d(max_pool(x, {.kernel = 2}), w))
                  .broken == fault::contraction_reused);
static_assert(flatten(conv2d(max_pool(x, {.kernel = 2}), w) * conv2d(max_pool(x, {.kernel = 3}), w))
                  .broken == fault::none);

// Refusals.
static_assert(flatten(max_pool(x, {.kernel = 0})).broken == fault::pool_attributes);
static_assert(flatten(max_pool(x, {.kernel = 2, .stride = 0})).broken == fault::pool_attributes);
static_assert(flatten(max_pool(x, {.kernel = 2, .pad = 2})).broken == fault::pool_attributes);
static_assert(flatten(max_pool(x, {.kernel = 2, .pad = -1})).broken == fault::pool_attributes);
static_assert(flatten(max_pool(x, {.kernel = {2, 2, 2}})).broken == fault::pool_attributes);
static_assert(flatten(max_pool(b, {.kernel = 2})).broken == fault::vector_pooled);
static_assert(flatten(global_avg_pool(sinter::scalar<"s">)).broken == fault::vector_pooled);
static_assert(flatten(global_avg_pool(w)).broken == fault::weight_outside_contraction);
static_assert(flatten(max_pool(sinter::tensor<"i", 1, 4, 4>, {.kernel = 2})).broken ==
              fault::static_window);
static_assert(flatten(max_pool(sinter::tensor<"i", 1, 2, 4, 8>, {.kernel = 3})).broken ==
              fault::static_window);
static_assert(flatten(max_pool(sinter::tensor<"i", 1, 2, 4, 8>, {.kernel = 3, .pad = 1})).broken ==
              fault::none);
// Extents follow: 7x7 behind the window, dynamic ones stay so.
static_assert(flatten(max_pool(sinter::tensor<"i", 1, 14, 14, 8>, {.kernel = 2}) +
                      sinter::tensor<"j", 1, 7, 7, 8>)
                  .broken == fault::none);
static_assert(flatten(max_pool(sinter::tensor<"i", 1, 14, 14, 8>, {.kernel = 2}) +
                      sinter::tensor<"j", 1, 6, 6, 8>)
                  .broken == fault::static_shapes);
static_assert(flatten(global_avg_pool(sinter::tensor<"i", 1, sinter::dynamic, sinter::dynamic, 8>) +
                      sinter::tensor<"j", 1, 1, 1, 8>)
                  .broken == fault::none);

// One window axis: how many there are, what each sees and counts. PyTorch's formulas, by hand.
constexpr sinter::pool_axis resnet{112, 3, 2, 1, 1, false};
static_assert(resnet.count() == 56 && resnet.first(0) == 0 && resnet.end(0) == 2 &&
              resnet.end(55) == 112 && resnet.first(55) == 109);
constexpr sinter::pool_axis squeezenet{111, 3, 2, 0, 0, true}, floored{112, 3, 2, 0, 0, false},
    ceiled{112, 3, 2, 0, 0, true};
static_assert(squeezenet.count() == 55 && floored.count() == 55 && ceiled.count() == 56);
static_assert(ceiled.first(55) == 110 && ceiled.end(55) == 112 && ceiled.counted(55, true) == 2);
// A window that would begin behind the image and its padding in front is not kept.
constexpr sinter::pool_axis dropped{3, 2, 2, 1, 1, true};
static_assert(dropped.count() == 2 && sinter::pool_axis{4, 2, 2, 1, 1, true}.count() == 3);
static_assert(sinter::pool_axis{5, 2, 3, 1, 1, true}.count() == 2);
static_assert(resnet.counted(0, true) == 3 && resnet.counted(0, false) == 2);

}  // namespace

TEST_CASE("a pooling's plan at run time is the one of the compiler") {
  auto const plan = partition(stem, sinter::bf16);
  CHECK(plan.group_count() == 1);
  CHECK(sinter::hash(plan.group(0)) == sinter::hash(partition(stem, sinter::bf16).group(0)));
  auto const other = partition(max_pool(x, {.kernel = 3, .stride = 2, .pad = 1, .ceil = true}));
  auto const floors = partition(max_pool(x, {.kernel = 3, .stride = 2, .pad = 1}));
  CHECK(!(other.group(0) == floors.group(0)));
  CHECK(sinter::hash(other.group(0)) != sinter::hash(floors.group(0)));
}
