// Windows of poolings in constant expressions: the extents that they leave, and what each of them sees and counts.
//
// The one place where this is computed: static_shapes.hpp asks while a program compiles, make_problem() when it runs,
// the reference and the backends for each window. rules.hpp keeps padding below the kernel, so every window sees at
// least one pixel. Dynamic extents of batch and image are passed on. Read plan/infer.hpp next.
#pragma once

#include "chain.hpp"

namespace sinter::inline SINTER_ABI {

/// The windows along H (axis 0) or W (axis 1) of an image with `in` indices there.
struct pool_axis {
  extent in = 0, kernel = 1, stride = 1, pad_begin = 0, pad_end = 0;
  bool ceil = false;

  /// How many windows there are: 0 where none fits, -1 where extents pass 2^61.
  constexpr extent count() const {
    constexpr extent limit = (std::numeric_limits<extent>::max)() / 4;
    if (in > limit) return -1;
    extent const padded = in + pad_begin + pad_end, room = padded - kernel;
    if (room < 0 || in == 0) return 0;
    extent const whole = room / stride + 1;
    bool const one_more = ceil && room % stride != 0 && whole * stride < in + pad_begin;
    return one_more ? whole + 1 : whole;
  }
  /// The indices of the image that window o sees: from first(o) to before end(o).
  constexpr extent first(extent o) const {
    extent const at = o * stride - pad_begin;
    return at < 0 ? 0 : at;
  }
  constexpr extent end(extent o) const {
    extent const at = o * stride - pad_begin + kernel;
    return at < in ? at : in;
  }
  /// What window o counts of this axis: padding too, but nothing behind it.
  constexpr extent counted(extent o, bool count_pad) const {
    if (!count_pad) return end(o) - first(o);
    extent const at = o * stride - pad_begin + kernel, last = in + pad_end;
    return (at < last ? at : last) - (o * stride - pad_begin);
  }
};

/// The window of global_avg_pool is the image itself.
constexpr pool_axis pool_axis_of(op code, pool_attrs const& a, int axis, extent in) {
  if (code == op::global_avg_pool) return {in, in, 1, 0, 0, false};
  return {in, a.kernel[axis], a.stride[axis], a.pad_begin[axis], a.pad_end[axis], a.ceil};
}

struct pooled_shape {
  bool fits = false;
  shape dims;
};

/// For attributes that rules.hpp accepts.
constexpr pooled_shape shape_of(op code, pool_attrs const& a, shape const& image) {
  if (image.ssize() != 4 || image.back() == dynamic) return {};
  pooled_shape r{true, image};
  for (int i = 0; i < 2; ++i) {
    extent const in = image[i + 1];
    extent const left = pool_axis_of(code, a, i, in == dynamic ? 1 : in).count();
    if (in == dynamic) {
      r.dims[i + 1] = code == op::global_avg_pool ? 1 : dynamic;
    } else {
      r.fits = r.fits && left > 0;
      r.dims[i + 1] = left;
    }
  }
  return r;
}

}  // namespace sinter::inline SINTER_ABI
