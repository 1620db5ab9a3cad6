// The extents of a contraction's result, in constant expressions: the one place where they are computed.
//
// static_shapes.hpp asks while a program compiles, make_problem() when it runs. Both only learn whether the operands fit;
// the sentence that says why not is made in infer.hpp. Dynamic extents are passed on where they are legal: batch, image and
// M, never channels. Read plan/infer.hpp next.
#pragma once

#include "chain.hpp"

namespace sinter::inline SINTER_ABI {

struct contraction_shape {
  bool fits = false;
  shape dims;
};

namespace detail {

constexpr contraction_shape matmul_shape(contraction_attrs const& a, shape const& src,
                                         shape const& weight) {
  int const s = src.ssize(), w = weight.ssize();
  if (s < 2 || w < 2) return {};
  extent const m = src[a.transposed_src ? s - 1 : s - 2], k = src[a.transposed_src ? s - 2 : s - 1];
  extent const n = weight[a.transposed_weight ? w - 2 : w - 1];
  if (k != weight[a.transposed_weight ? w - 1 : w - 2]) return {};
  shape batch_src = src, batch_weight = weight;
  batch_src.resize(src.size() - 2);
  batch_weight.resize(weight.size() - 2);
  broadcast_result const batch = broadcast(batch_src, batch_weight);
  contraction_shape r{batch.fits, batch.dims};
  r.dims.push_back(m);
  r.dims.push_back(n);
  return r;
}

constexpr contraction_shape conv_shape(op code, contraction_attrs const& a, shape const& src,
                                       shape const& weight) {
  int const rank = spatial_rank(code) + 2;
  if (src.ssize() != rank || weight.ssize() != rank || is_dynamic(weight)) return {};
  if (a.groups < 1 || checked_mul(weight.back(), a.groups) != src.back() ||
      weight[0] % a.groups != 0)
    return {};
  contraction_shape r{true, shape{src[0]}};
  for (int i = 1; i < rank - 1; ++i) {
    extent const e = src[i] == dynamic
                         ? dynamic
                         : conv_extent(src[i], weight[i], a.stride[i - 1], a.dilation[i - 1],
                                       a.pad_begin[i - 1], a.pad_end[i - 1]);
    if (weight[i] == 0 || (e <= 0 && e != dynamic)) return {};
    r.dims.push_back(e);
  }
  r.dims.push_back(weight[0]);
  return r;
}

}  // namespace detail

/// For attributes that rules.hpp accepts. dynamic meets dynamic, and never a number.
constexpr contraction_shape shape_of(op code, contraction_attrs const& a, shape const& src,
                                     shape const& weight) {
  return code == op::matmul ? detail::matmul_shape(a, src, weight)
                            : detail::conv_shape(code, a, src, weight);
}

}  // namespace sinter::inline SINTER_ABI
