// Poolings of images, N,H,W,C: windows that slide over H and W, each channel by itself.
//
//   constexpr auto stem = sinter::max_pool(sinter::relu(sinter::conv2d(x, w, {.stride = 2, .pad = 3}) + b),
//                                          {.kernel = 3, .stride = 2, .pad = 1});
//
// Each is a row of core/op.hpp with a pool_attrs (core/operand_role.hpp). A pooling of what follows a contraction joins
// that contraction's group. Read plan/flatten.hpp next; what windows leave is computed in plan/pool_shape.hpp.
#pragma once

#include "ops.hpp"

namespace sinter::inline SINTER_ABI {

struct pool_options {
  spatial kernel;
  spatial stride = as_kernel;  ///< as kernel where not given: windows side by side
  spatial pad = 0;             ///< before the first row and column; less than the kernel
  spatial pad_end = as_pad;    ///< after the last ones; as pad where not given
  bool ceil = false;           ///< keep a last window that begins inside and reaches over the end
  bool count_include_pad = true;  ///< avg_pool: padding counts in what sums are divided by
  static constexpr int as_kernel = -1, as_pad = -1;
};

namespace detail {

constexpr pool_attrs window_of(pool_options const& o) {
  spatial const stride = o.stride.axes[0] == pool_options::as_kernel ? o.kernel : o.stride;
  spatial const end = o.pad_end.axes[0] == pool_options::as_pad ? o.pad : o.pad_end;
  pool_attrs attrs;
  for (int i = 0; i < 2; ++i) {
    attrs.kernel[i] = o.kernel.axes[i];
    attrs.stride[i] = stride.axes[i];
    attrs.pad_begin[i] = o.pad.axes[i];
    attrs.pad_end[i] = end.axes[i];
  }
  for (spatial const& s : {o.kernel, stride, o.pad, end})
    if (s.given > 2) attrs.kernel[0] = 0;  // refused by the rule "pool attributes"
  attrs.ceil = o.ceil;
  return attrs;
}

}  // namespace detail

/// N,H,W,C to N,H',W',C: the largest value of each window, padding left out; NaN if any is NaN.
template <expression X>
constexpr auto max_pool(X const& x, pool_options const& o) {
  return pooled<op::max_pool, X>(x, detail::window_of(o));
}
/// N,H,W,C to N,H',W',C: the mean of each window.
template <expression X>
constexpr auto avg_pool(X const& x, pool_options const& o) {
  pool_attrs attrs = detail::window_of(o);
  attrs.count_pad = o.count_include_pad;
  return pooled<op::avg_pool, X>(x, attrs);
}
/// N,H,W,C to N,1,1,C: the mean of each channel of an image.
template <expression X>
constexpr auto global_avg_pool(X const& x) {
  return pooled<op::global_avg_pool, X>(x, pool_attrs{});
}

}  // namespace sinter::inline SINTER_ABI
