// Extents, strides and broadcasting, all usable in constant expressions.
//
// A shape lists the extents of the logical axes (images N,H,W,C; conv weights O,H,W,I; matmul M,K and K,N). Strides
// count elements and say where in memory the next index of an axis lies; the memory order is free. An extent may be
// `dynamic`: its value comes with each call. Overflow is found, not assumed away: products are checked in 63 bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>

#include "../base/inline_vector.hpp"

namespace sinter::inline SINTER_ABI {

inline constexpr int max_rank = 6;
using extent = std::int64_t;
using shape = inline_vector<extent, max_rank>;
using strides = inline_vector<extent, max_rank>;

/// An extent that each call gives anew.
inline constexpr extent dynamic = (std::numeric_limits<extent>::min)();

constexpr bool is_dynamic(shape const& s) {
  for (extent e : s)
    if (e == dynamic) return true;
  return false;
}

/// a * b for a, b >= 0; -1 if the product passes 2^63 - 1 or an argument is already negative.
constexpr extent checked_mul(extent a, extent b) {
  if (a < 0 || b < 0) return -1;
  if (a == 0 || b == 0) return 0;
  return a > (std::numeric_limits<extent>::max)() / b ? -1 : a * b;
}

/// Number of elements; 1 for rank 0; -1 on overflow or a dynamic extent.
constexpr extent element_count(shape const& s) {
  for (extent e : s)
    if (e == 0) return 0;
  extent n = 1;
  for (extent e : s) n = checked_mul(n, e);
  return n;
}

/// Row-major strides: the last axis is contiguous. Extents 0 and 1 count as 1. -1 where they would overflow.
constexpr strides dense_strides(shape const& s) {
  strides result;
  result.resize(s.size(), 1);
  for (int i = s.ssize() - 2; i >= 0; --i)
    result[i] = checked_mul(result[i + 1], s[i + 1] > 1 ? s[i + 1] : 1);
  return result;
}

/// numpy's rule for one axis: equal, or one of them is 1. -1 if they do not fit. dynamic meets 1 or itself.
constexpr extent broadcast_extent(extent a, extent b) {
  if (a == b) return a;
  if (a == 1) return b;
  if (b == 1) return a;
  return -1;
}

struct broadcast_result {
  bool fits = true;
  shape dims;
};

/// numpy's rule: shapes are aligned at the last axis, a missing axis counts as 1.
constexpr broadcast_result broadcast(shape const& a, shape const& b) {
  broadcast_result r;
  int const rank = a.ssize() > b.ssize() ? a.ssize() : b.ssize();
  r.dims.resize(static_cast<std::size_t>(rank), 1);
  for (int i = 1; i <= rank; ++i) {
    extent const ea = i <= a.ssize() ? a[a.ssize() - i] : 1;
    extent const eb = i <= b.ssize() ? b[b.ssize() - i] : 1;
    extent const e = broadcast_extent(ea, eb);
    if (e == -1) r.fits = false;
    r.dims[rank - i] = e;
  }
  return r;
}

/// Can `from` be read as if it had shape `to` (numpy's rule, `to` itself unchanged)?
constexpr bool broadcasts_to(shape const& from, shape const& to) {
  if (from.ssize() > to.ssize()) {
    for (int i = 0; i < from.ssize() - to.ssize(); ++i)
      if (from[i] != 1) return false;
  }
  for (int i = 1; i <= from.ssize() && i <= to.ssize(); ++i) {
    extent const f = from[from.ssize() - i];
    if (f != 1 && f != to[to.ssize() - i]) return false;
  }
  return true;
}

/// The extents of a reduction's result: the last axis is 1. For a rank of 1 or more.
constexpr shape reduced_shape(shape dims) {
  dims.back() = 1;
  return dims;
}

/// Output extent of a convolution along one axis; <= 0 where the dilated kernel does not fit. -1 on overflow.
constexpr extent conv_extent(extent in, extent kernel, extent stride, extent dilation,
                             extent pad_begin, extent pad_end) {
  extent const reach = checked_mul(kernel > 0 ? kernel - 1 : 0, dilation);
  constexpr extent limit = (std::numeric_limits<extent>::max)() / 4;
  if (reach < 0 || reach > limit || in > limit || pad_begin > limit || pad_end > limit) return -1;
  extent const room = in + pad_begin + pad_end - (reach + 1);
  return room < 0 ? 0 : room / stride + 1;
}

/// "1x56x56x64"; a dynamic extent is "?", rank 0 is "scalar".
inline std::string to_string(shape const& s) {
  if (s.empty()) return "scalar";
  std::string text;
  for (int i = 0; i < s.ssize(); ++i) {
    if (i > 0) text += 'x';
    text += s[i] == dynamic ? std::string("?") : std::to_string(s[i]);
  }
  return text;
}

}  // namespace sinter::inline SINTER_ABI
