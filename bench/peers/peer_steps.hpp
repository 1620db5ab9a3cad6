// The steps of a chain as loops that a compiler turns into vector code: what a user of a BLAS writes behind it.
//
// A row (or a piece of one) goes through all steps while it is in the L1 cache. Functions are static, since each file
// that includes this is compiled with its own flags.
#pragma once

#include <math.h>

#include "peer.hpp"

namespace sinter_bench {

static inline bool has_loop(sinter::op code) {
  using sinter::op;
  for (op known : {op::relu, op::leaky_relu, op::clip, op::abs, op::square, op::sqrt, op::exp,
                   op::tanh, op::sigmoid, op::gelu_tanh, op::gelu_erf, op::swish, op::hardswish,
                   op::linear, op::add, op::sub, op::mul, op::max, op::min})
    if (known == code) return true;
  return false;
}

/// A clause where a step has no loop.
static inline std::string steps_without_loop(peer_part const& p, std::size_t first = 0) {
  for (std::size_t i = first; i < p.steps.size(); ++i)
    if (!has_loop(p.steps[i].code))
      return "its loops have no " + std::string(sinter::row_of(p.steps[i].code).name);
  return {};
}

static inline void apply_unary(peer_step const& s, float* __restrict v, long n) {
  using sinter::op;
  float const alpha = s.alpha, beta = s.beta;
  switch (s.code) {
    case op::relu:
      for (long i = 0; i < n; ++i) v[i] = v[i] > 0 ? v[i] : 0;
      break;
    case op::leaky_relu:
      for (long i = 0; i < n; ++i) v[i] = v[i] > 0 ? v[i] : alpha * v[i];
      break;
    case op::clip:
      for (long i = 0; i < n; ++i) v[i] = v[i] < alpha ? alpha : v[i] > beta ? beta : v[i];
      break;
    case op::abs:
      for (long i = 0; i < n; ++i) v[i] = fabsf(v[i]);
      break;
    case op::square:
      for (long i = 0; i < n; ++i) v[i] *= v[i];
      break;
    case op::sqrt:
      for (long i = 0; i < n; ++i) v[i] = sqrtf(v[i]);
      break;
    case op::exp:
      for (long i = 0; i < n; ++i) v[i] = expf(v[i]);
      break;
    case op::tanh:
      for (long i = 0; i < n; ++i) v[i] = tanhf(v[i]);
      break;
    case op::sigmoid:
      for (long i = 0; i < n; ++i) v[i] = 1 / (1 + expf(-v[i]));
      break;
    case op::gelu_tanh:
      for (long i = 0; i < n; ++i)
        v[i] = 0.5F * v[i] * (1 + tanhf(0.7978845608F * v[i] * (1 + 0.044715F * v[i] * v[i])));
      break;
    case op::gelu_erf:
      for (long i = 0; i < n; ++i) v[i] = 0.5F * v[i] * (1 + erff(0.7071067812F * v[i]));
      break;
    case op::swish:
      for (long i = 0; i < n; ++i) v[i] = v[i] / (1 + expf(-alpha * v[i]));
      break;
    case op::hardswish:
      for (long i = 0; i < n; ++i) {
        float const t = alpha * v[i] + beta;
        v[i] *= t < 0 ? 0 : t > 1 ? 1 : t;
      }
      break;
    case op::linear:
      for (long i = 0; i < n; ++i) v[i] = alpha * v[i] + beta;
      break;
    default:
      break;
  }
}

static inline void apply_binary(sinter::op code, float* __restrict v, float const* other, long n,
                                float number) {
  using sinter::op;
  auto const each = [&](auto f) {
    if (other != nullptr)
      for (long i = 0; i < n; ++i) v[i] = f(v[i], other[i]);
    else
      for (long i = 0; i < n; ++i) v[i] = f(v[i], number);
  };
  switch (code) {
    case op::add:
      each([](float a, float b) { return a + b; });
      break;
    case op::sub:
      each([](float a, float b) { return a - b; });
      break;
    case op::mul:
      each([](float a, float b) { return a * b; });
      break;
    case op::max:
      each([](float a, float b) { return a > b ? a : b; });
      break;
    case op::min:
      each([](float a, float b) { return a < b ? a : b; });
      break;
    default:
      break;
  }
}

/// Steps from `first` on over n values of one row, beginning at a column.
static inline void apply_row(peer_part const& p, std::size_t first, float* v, long row, long column,
                             long n) {
  for (std::size_t i = first; i < p.steps.size(); ++i) {
    peer_step const& s = p.steps[i];
    if (s.reads == peer_step::other::nothing) {
      apply_unary(s, v, n);
      continue;
    }
    float const* other = nullptr;
    if (s.reads == peer_step::other::columns) other = s.operand + column;
    if (s.reads == peer_step::other::all) other = s.operand + row * p.columns + column;
    apply_binary(s.code, v, other, n, s.number);
  }
}

/// Over whole rows of the output.
static inline void apply_rows(peer_part const& p, std::size_t first, long row, long rows) {
  for (long r = row; r < row + rows; ++r)
    apply_row(p, first, p.out + r * p.columns, r, 0, p.columns);
}

}  // namespace sinter_bench
