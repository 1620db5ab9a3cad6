// The table of emitters: for every pointwise row of core/op.hpp what its machine code needs and how
// exact it is.
//
// eltwise_code emits one step on one vector register in place. It clobbers the temporaries and the
// mask register that it is given, and nothing else; flags stay. The meaning is that of
// reference/scalar.hpp, special values included. Bounds are proven by test/eltwise over all bf16
// inputs and a dense sample of f32, over all of f32 in the long tests. A new op:
// docs/how_to_add_an_op.md.
#pragma once

#include <cstddef>
#include <string_view>

#include "../base/array_view.hpp"
#include "eltwise_log.hpp"

namespace sinter::inline SINTER_ABI::jit {

/// The largest error against the exact value: `ulp` units of its last place in f32 where the input
/// (swish: alpha times the input) is at least `above`; below, `relative`, and where results are
/// denormal up to 4 + |input| / 2 times 2^-149 more. 0.5: correctly rounded; 0: exact.
struct error_bound {
  float ulp = 0.5F;
  float above = -std::numeric_limits<float>::infinity();
  float relative = 0;
  /// AVX-512: a shorter form of this relative error stands where the value is only stored as bf16;
  /// 0: there is none.
  float for_bf16 = 0;
};

struct eltwise_row {
  op code;
  int avx2, avx512;  ///< vector registers beside the value and its arguments
  bool memory;       ///< the second argument may be a memory operand
  error_bound error;
};

inline constexpr eltwise_row eltwise_table[] = {
    {op::relu, 1, 1, false, {0}},
    {op::leaky_relu, 2, 0, false, {}},
    {op::elu, 3, 3, false, {4}},
    {op::clip, 1, 1, false, {0}},
    {op::abs, 0, 0, false, {0}},
    {op::neg, 0, 0, false, {0}},
    {op::sqrt, 0, 0, false, {}},
    {op::square, 0, 0, false, {}},
    {op::exp, 2, 2, false, {4}},
    {op::log, 4, 3, false, {4}},
    {op::tanh, 3, 3, false, {4}},
    {op::sigmoid, 2, 2, false, {4}},
    {op::gelu_tanh, 3, 3, false, {4, -1, 0x1p-16F, 0x1p-12F}},
    {op::gelu_erf, 4, 4, false, {4, -1, 0x1p-16F}},
    {op::swish, 3, 3, false, {6, -1, 0x1p-16F}},
    {op::hardsigmoid, 1, 1, false, {}},
    {op::hardswish, 2, 2, false, {1.5F}},
    {op::mish, 3, 3, false, {6, -1, 0x1p-16F}},
    {op::softplus, 3, 3, false, {6}},
    {op::pow, 6, 6, false, {16}},  // where x^beta itself is in the range of f32
    {op::round, 0, 0, false, {0}},
    {op::linear, 1, 1, false, {}},
    {op::add, 0, 0, true, {}},
    {op::sub, 0, 0, true, {}},
    {op::mul, 0, 0, true, {}},
    {op::div, 0, 0, true, {}},
    {op::min, 2, 1, false, {0}},
    {op::max, 2, 1, false, {0}},
    {op::eq, 0, 0, true, {0}},
    {op::ne, 0, 0, true, {0}},
    {op::lt, 0, 0, true, {0}},
    {op::le, 0, 0, true, {0}},
    {op::gt, 0, 0, true, {0}},
    {op::ge, 0, 0, true, {0}},
    {op::prelu, 2, 0, true, {}},
    {op::select, 0, 0, false, {0}},
    {op::fma, 0, 0, false, {}},
    {op::cast, 2, 1, false, {0}},
};
inline constexpr int first_eltwise = static_cast<int>(op::relu);
// A pointwise row that core/op.hpp has and this table has not, or in another order, stops here.
static_assert([] {
  int constexpr rows = sizeof(eltwise_table) / sizeof(eltwise_table[0]);
  if (rows != static_cast<int>(op::cast) + 1 - first_eltwise) return false;
  for (int i = 0; i < rows; ++i)
    if (static_cast<int>(eltwise_table[i].code) != i + first_eltwise) return false;
  return true;
}());

constexpr eltwise_row const& eltwise_of(op code) {
  return eltwise_table[static_cast<int>(code) - first_eltwise];
}
constexpr int temporaries_of(op code, isa level) {
  return has_masks(level) ? eltwise_of(code).avx512 : eltwise_of(code).avx2;
}
/// Temporaries of the hungriest emitter.
constexpr int most_temporaries(isa level) {
  int most = 0;
  for (eltwise_row const& row : eltwise_table)
    if (int const n = temporaries_of(row.code, level); n > most) most = n;
  return most;
}
/// Three arguments and the temporaries fit beside nothing else; the epilogue makes room among
/// accumulators.
static_assert(3 + most_temporaries(isa::avx2) <= vector_count_of(isa::avx2));
static_assert(3 + most_temporaries(isa::avx512) <= vector_count_of(isa::avx512));

class eltwise_code {
 public:
  /// At least temporaries_of() vector registers; a mask register from AVX-512 on.
  eltwise_code(assembler& a, array_view<int const> temporaries, int mask)
      : e_(a, temporaries, mask) {}

  /// x = op(x), op of class unary. `for_bf16`: nothing but a store as bf16 follows.
  void unary(op code, float alpha, float beta, int x, bool for_bf16 = false) {
    auto& a = e_.a;
    xb::Xmm const v = e_.v(x);
    if (for_bf16 && a.masks() && code == op::gelu_tanh)
      return emit::gelu_tanh_for_bf16(e_, v, alpha == 0);
    if (for_bf16 && a.masks() && code == op::relu) return emit::relu_for_bf16(e_, v);
    switch (code) {
      case op::relu:
        return emit::relu(e_, v);
      case op::leaky_relu:
        return emit::leaky(e_, v, a.constant(alpha));
      case op::elu:
        return emit::elu(e_, v, alpha);
      case op::clip:
        return emit::clip(e_, v, alpha, beta);
      case op::abs:
        return a.vandps(v, v, a.constant_bits(0x7fffffff));
      case op::neg:
        return a.vxorps(v, v, a.constant_bits(0x80000000));
      case op::sqrt:
        return a.vsqrtps(v, v);
      case op::square:
        return a.vmulps(v, v, v);
      case op::exp:
        return emit::exp(e_, v);
      case op::log:
        return emit::log(e_, v);
      case op::tanh:
        return emit::tanh(e_, v);
      case op::sigmoid:
        return emit::sigmoid(e_, v);
      case op::gelu_tanh:
        return emit::gelu_tanh(e_, v, alpha == 0);
      case op::gelu_erf:
        return emit::gelu_erf(e_, v);
      case op::swish:
        return emit::swish(e_, v, alpha);
      case op::hardsigmoid:
        return emit::hardsigmoid(e_, v, alpha, beta);
      case op::hardswish:
        return emit::hardswish(e_, v, alpha, beta);
      case op::mish:
        return emit::mish(e_, v);
      case op::softplus:
        return emit::softplus(e_, v, alpha);
      case op::pow:
        return emit::pow(e_, v, alpha, beta);
      case op::round:
        return e_.round(v, v);
      case op::linear:
        return emit::linear(e_, v, alpha, beta);
      default:
        return;
    }
  }

  /// x = op(x, b); b is memory only where the op's row allows it.
  void binary(op code, int x, xb::Operand const& b) {
    auto& a = e_.a;
    xb::Xmm const v = e_.v(x);
    switch (code) {
      case op::add:
        return a.vaddps(v, v, b);
      case op::sub:
        return a.vsubps(v, v, b);
      case op::mul:
        return a.vmulps(v, v, b);
      case op::div:
        return a.vdivps(v, v, b);
      case op::min:
        return emit::min_max(e_, true, v, b);
      case op::max:
        return emit::min_max(e_, false, v, b);
      case op::eq:
        return emit::truth(e_, compare::eq, v, b);
      case op::ne:
        return emit::truth(e_, compare::ne, v, b);
      case op::lt:
        return emit::truth(e_, compare::lt, v, b);
      case op::le:
        return emit::truth(e_, compare::le, v, b);
      case op::gt:
        return emit::truth(e_, compare::gt, v, b);
      case op::ge:
        return emit::truth(e_, compare::ge, v, b);
      case op::prelu:
        return emit::leaky(e_, v, b);
      default:
        return;
    }
  }

  /// x = op(x, b, c), all registers.
  void ternary(op code, int x, int b, int c) {
    if (code == op::select) return emit::select(e_, e_.v(x), e_.v(b), e_.v(c));
    e_.a.vfmadd213ps(e_.v(x), e_.v(b), e_.v(c));
  }

 private:
  lanes e_;
};

}  // namespace sinter::inline SINTER_ABI::jit
