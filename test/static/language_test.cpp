// Each function and operator of the language makes the row of the op table that it should, with its parameters.
#include <doctest/doctest.h>

#include "sinter/plan/flatten.hpp"

namespace {

using sinter::op;

constexpr auto x = sinter::tensor<"x">;
constexpr auto y = sinter::tensor<"y">;
constexpr auto z = sinter::tensor<"z">;

constexpr sinter::step last(auto const& expr) {
  auto const graph = sinter::flatten(expr);
  return graph.steps.back();
}
constexpr bool makes(auto const& expr, op code, float alpha = 0, float beta = 0) {
  sinter::step const made = last(expr);
  return made.code == code && made.alpha == alpha && made.beta == beta &&
         sinter::flatten(expr).broken == sinter::fault::none;
}

static_assert(makes(sinter::relu(x), op::relu));
static_assert(makes(sinter::leaky_relu(x), op::leaky_relu, 0.01F) &&
              makes(sinter::leaky_relu(x, 0.2F), op::leaky_relu, 0.2F));
static_assert(makes(sinter::elu(x), op::elu, 1) && makes(sinter::elu(x, 2), op::elu, 2));
static_assert(makes(sinter::clip(x, -1, 1), op::clip, -1, 1) &&
              makes(sinter::relu6(x), op::clip, 0, 6));
static_assert(makes(sinter::abs(x), op::abs) && makes(-x, op::neg) &&
              makes(sinter::sqrt(x), op::sqrt));
static_assert(makes(sinter::square(x), op::square) && makes(sinter::exp(x), op::exp) &&
              makes(sinter::log(x), op::log));
static_assert(makes(sinter::tanh(x), op::tanh) && makes(sinter::sigmoid(x), op::sigmoid));
static_assert(makes(sinter::gelu_tanh(x), op::gelu_tanh) &&
              makes(sinter::gelu_erf(x), op::gelu_erf));
static_assert(makes(sinter::swish(x, 2), op::swish, 2) && makes(sinter::silu(x), op::swish, 1));
static_assert(makes(sinter::hardsigmoid(x), op::hardsigmoid, 1.0F / 6, 0.5F));
static_assert(makes(sinter::hardswish(x), op::hardswish, 1.0F / 6, 0.5F));
static_assert(makes(sinter::mish(x), op::mish) && makes(sinter::softplus(x), op::softplus, 1));
static_assert(makes(sinter::pow(x, 2), op::pow, 1, 2) &&
              makes(sinter::pow(x, 2, 3), op::pow, 3, 2));
static_assert(makes(sinter::round(x), op::round) &&
              makes(sinter::linear(x, 2, 3), op::linear, 2, 3));
static_assert(makes(x + y, op::add) && makes(x - y, op::sub) && makes(x * y, op::mul) &&
              makes(x / y, op::div));
static_assert(makes(sinter::min(x, y), op::min) && makes(sinter::max(x, y), op::max) &&
              makes(sinter::max(x, 0), op::max));
static_assert(makes(x == y, op::eq) && makes(x != y, op::ne) && makes(x < y, op::lt) &&
              makes(x <= y, op::le));
static_assert(makes(x > y, op::gt) && makes(x >= y, op::ge) &&
              makes(sinter::prelu(x, y), op::prelu));
static_assert(makes(sinter::select(x > y, x, 0.0F), op::select) &&
              makes(sinter::fma(x, y, z), op::fma));
static_assert(last(sinter::cast<sinter::dtype::bf16>(x)).code == op::cast &&
              last(sinter::cast<sinter::dtype::bf16>(x)).to == sinter::dtype::bf16);

static_assert(makes(sinter::row_sum(x), op::row_sum) && makes(sinter::row_mean(x), op::row_mean) &&
              makes(sinter::row_max(x), op::row_max) && makes(sinter::argmax(x), op::argmax));

// Numbers stand on either side, and equal operands are one operand.
static_assert(last(2 - x).args[0] == sinter::constant_ref(0) &&
              last(2 - x).args[1] == sinter::operand_ref(0));
static_assert(sinter::flatten(x * x).operands.size() == 1);

// Convolution attributes: one number for all axes, or one each; pad_end as pad unless it is given.
constexpr sinter::contraction_attrs attrs(auto const& expr) {
  return sinter::flatten(expr).contractions[0];
}
constexpr auto asymmetric = attrs(sinter::conv2d(
    x, y, {.stride = {2, 1}, .dilation = 3, .pad = {1, 2}, .pad_end = {0, 4}, .groups = 4}));
static_assert(asymmetric.stride[0] == 2 && asymmetric.stride[1] == 1 &&
              asymmetric.dilation[1] == 3);
static_assert(asymmetric.pad_begin[1] == 2 && asymmetric.pad_end[0] == 0 &&
              asymmetric.pad_end[1] == 4);
static_assert(asymmetric.groups == 4);
static_assert(attrs(sinter::conv3d(x, y, {.pad = 2})).pad_end[2] == 2);
static_assert(attrs(sinter::conv1d(x, y)) == sinter::contraction_attrs{});
static_assert(sinter::flatten(sinter::conv2d(x, y, {.stride = {1, 2, 3}})).broken ==
              sinter::fault::conv_attributes);
static_assert(attrs(sinter::matmul(sinter::transposed(x), y)).transposed_src);

}  // namespace

// An expression holds no reference: what it was made from may be gone.
auto made_from_temporaries() { return sinter::relu(sinter::matmul(x, y) + (z * 2)); }

TEST_CASE("expressions are values") {
  auto const first = made_from_temporaries();
  auto const copy = first;
  auto const graph = sinter::flatten(copy);
  CHECK(graph.steps.size() == 4);
  CHECK(graph.constants[0] == 2);
  CHECK(graph.operands[2].name == "z");
}
