// THE op table: one row for each operation that a chain can hold. Everything that is said of an op is said here once:
// its name in the chain's text form, how many values it reads, what alpha and beta mean, their default values.
//
// The scalar meaning of each row is in reference/scalar.hpp, the oneDNN post-op in backend/onednn_postops.hpp, the
// machine code in jit/eltwise.hpp; a static_assert in each proves that no row is missing. A new op starts here:
// docs/how_to_add_an_op.md.
#pragma once

#include <cstddef>
#include <string_view>

#include "../config.hpp"

namespace sinter::inline SINTER_ABI {

enum class op_class : unsigned char {
  contraction,
  unary,
  binary,
  ternary,
  cast,
  reduction,
  pooling
};

enum class op : unsigned char {
  // contractions: args are source, weight
  matmul,
  conv1d,
  conv2d,
  conv3d,
  // unary
  relu,
  leaky_relu,
  elu,
  clip,
  abs,
  neg,
  sqrt,
  square,
  exp,
  log,
  tanh,
  sigmoid,
  gelu_tanh,
  gelu_erf,
  swish,
  hardsigmoid,
  hardswish,
  mish,
  softplus,
  pow,
  round,
  linear,
  // binary
  add,
  sub,
  mul,
  div,
  min,
  max,
  eq,
  ne,
  lt,
  le,
  gt,
  ge,
  prelu,
  // ternary
  select,
  fma,
  // conversions
  cast,
  // reductions: the last axis becomes 1
  row_sum,
  row_mean,
  row_max,
  argmax,
  // windows that slide over an image, N,H,W,C: each channel by itself
  max_pool,
  avg_pool,
  global_avg_pool,
  count_
};
inline constexpr int op_count = static_cast<int>(op::count_);

struct op_row {
  op code;
  std::string_view name;
  op_class kind;
  int arity;              ///< values that it reads
  int params;             ///< 0, 1 (alpha) or 2 (alpha, beta)
  float alpha, beta;      ///< defaults
  std::string_view text;  ///< its formula in a, b, c (values read), alpha, beta
};

inline constexpr op_row op_table[] = {
    {op::matmul, "matmul", op_class::contraction, 2, 0, 0, 0, "sum over k of a[m,k] * b[k,n]"},
    {op::conv1d, "conv1d", op_class::contraction, 2, 0, 0, 0, "convolution, NWC by OWI"},
    {op::conv2d, "conv2d", op_class::contraction, 2, 0, 0, 0, "convolution, NHWC by OHWI"},
    {op::conv3d, "conv3d", op_class::contraction, 2, 0, 0, 0, "convolution, NDHWC by ODHWI"},
    {op::relu, "relu", op_class::unary, 1, 0, 0, 0, "a > 0 ? a : 0; NaN stays NaN; relu(-0) = +0"},
    {op::leaky_relu, "leaky_relu", op_class::unary, 1, 1, 0.01F, 0, "a > 0 ? a : alpha * a"},
    {op::elu, "elu", op_class::unary, 1, 1, 1, 0, "a > 0 ? a : alpha * (exp(a) - 1)"},
    {op::clip, "clip", op_class::unary, 1, 2, 0, 0, "min(max(a, alpha), beta); NaN stays NaN"},
    {op::abs, "abs", op_class::unary, 1, 0, 0, 0, "|a|"},
    {op::neg, "neg", op_class::unary, 1, 0, 0, 0, "-a"},
    {op::sqrt, "sqrt", op_class::unary, 1, 0, 0, 0, "square root; NaN below 0"},
    {op::square, "square", op_class::unary, 1, 0, 0, 0, "a * a"},
    {op::exp, "exp", op_class::unary, 1, 0, 0, 0, "e^a"},
    {op::log, "log", op_class::unary, 1, 0, 0, 0, "natural logarithm; -Inf at 0, NaN below"},
    {op::tanh, "tanh", op_class::unary, 1, 0, 0, 0, "hyperbolic tangent"},
    {op::sigmoid, "sigmoid", op_class::unary, 1, 0, 0, 0, "1 / (1 + exp(-a))"},
    {op::gelu_tanh, "gelu_tanh", op_class::unary, 1, 0, 0, 0,
     "a/2 * (1 + tanh(sqrt(2/pi) * (a + 0.044715 a^3)))"},
    {op::gelu_erf, "gelu_erf", op_class::unary, 1, 0, 0, 0, "a/2 * (1 + erf(a / sqrt(2)))"},
    {op::swish, "swish", op_class::unary, 1, 1, 1, 0, "a * sigmoid(alpha * a)"},
    {op::hardsigmoid, "hardsigmoid", op_class::unary, 1, 2, 1.0F / 6, 0.5F,
     "min(max(alpha * a + beta, 0), 1)"},
    {op::hardswish, "hardswish", op_class::unary, 1, 2, 1.0F / 6, 0.5F,
     "a * min(max(alpha * a + beta, 0), 1)"},
    {op::mish, "mish", op_class::unary, 1, 0, 0, 0, "a * tanh(log(1 + exp(a)))"},
    {op::softplus, "softplus", op_class::unary, 1, 1, 1, 0, "log(1 + exp(alpha * a)) / alpha"},
    {op::pow, "pow", op_class::unary, 1, 2, 1, 1, "alpha * a^beta"},
    {op::round, "round", op_class::unary, 1, 0, 0, 0, "to the nearest integer, ties to even"},
    {op::linear, "linear", op_class::unary, 1, 2, 1, 0, "alpha * a + beta, rounded once"},
    {op::add, "add", op_class::binary, 2, 0, 0, 0, "a + b"},
    {op::sub, "sub", op_class::binary, 2, 0, 0, 0, "a - b"},
    {op::mul, "mul", op_class::binary, 2, 0, 0, 0, "a * b"},
    {op::div, "div", op_class::binary, 2, 0, 0, 0, "a / b"},
    {op::min, "min", op_class::binary, 2, 0, 0, 0, "the smaller; NaN if either is NaN"},
    {op::max, "max", op_class::binary, 2, 0, 0, 0, "the larger; NaN if either is NaN"},
    {op::eq, "eq", op_class::binary, 2, 0, 0, 0, "a == b ? 1 : 0"},
    {op::ne, "ne", op_class::binary, 2, 0, 0, 0, "a != b ? 1 : 0; 1 if either is NaN"},
    {op::lt, "lt", op_class::binary, 2, 0, 0, 0, "a < b ? 1 : 0"},
    {op::le, "le", op_class::binary, 2, 0, 0, 0, "a <= b ? 1 : 0"},
    {op::gt, "gt", op_class::binary, 2, 0, 0, 0, "a > b ? 1 : 0"},
    {op::ge, "ge", op_class::binary, 2, 0, 0, 0, "a >= b ? 1 : 0"},
    {op::prelu, "prelu", op_class::binary, 2, 0, 0, 0, "a > 0 ? a : b * a"},
    {op::select, "select", op_class::ternary, 3, 0, 0, 0, "a != 0 ? b : c (a NaN selects b)"},
    {op::fma, "fma", op_class::ternary, 3, 0, 0, 0, "a * b + c, rounded once"},
    {op::cast, "cast", op_class::cast, 1, 0, 0, 0, "a rounded to a dtype, nearest even"},
    {op::row_sum, "row_sum", op_class::reduction, 1, 0, 0, 0, "sum of a along the last axis"},
    {op::row_mean, "row_mean", op_class::reduction, 1, 0, 0, 0,
     "that sum / the last extent; NaN of none"},
    {op::row_max, "row_max", op_class::reduction, 1, 0, 0, 0,
     "largest a along the last axis; NaN if any is NaN; -Inf of none"},
    {op::argmax, "argmax", op_class::reduction, 1, 0, 0, 0,
     "index of the first NaN, else of the first largest a; 0 of none"},
    {op::max_pool, "max_pool", op_class::pooling, 1, 0, 0, 0,
     "largest a of a window over H,W; NaN if any is NaN"},
    {op::avg_pool, "avg_pool", op_class::pooling, 1, 0, 0, 0,
     "sum of a over a window of H,W / how many it counts"},
    {op::global_avg_pool, "global_avg_pool", op_class::pooling, 1, 0, 0, 0,
     "sum of a over H,W / (H * W)"},
};
static_assert(sizeof(op_table) / sizeof(op_table[0]) == op_count);
static_assert([] {
  for (int i = 0; i < op_count; ++i)
    if (static_cast<int>(op_table[i].code) != i) return false;
  return true;
}());

constexpr op_row const& row_of(op code) { return op_table[static_cast<int>(code)]; }
constexpr std::string_view name_of(op code) { return row_of(code).name; }
constexpr bool is_contraction(op code) { return row_of(code).kind == op_class::contraction; }
/// Reads whole rows, that is the last axis of its argument, and leaves one value of each.
constexpr bool is_reduction(op code) { return row_of(code).kind == op_class::reduction; }
/// Reads windows of an image and leaves one value of each; channels stay apart.
constexpr bool is_pooling(op code) { return row_of(code).kind == op_class::pooling; }
constexpr bool is_conv(op code) {
  return code == op::conv1d || code == op::conv2d || code == op::conv3d;
}
/// Spatial dimensions of a convolution: 1, 2 or 3; 0 for anything else.
constexpr int spatial_rank(op code) {
  return is_conv(code) ? static_cast<int>(code) - static_cast<int>(op::conv1d) + 1 : 0;
}

}  // namespace sinter::inline SINTER_ABI
