// Do two tensors share an element? Exact where it matters, careful elsewhere.
//
// Byte ranges that do not meet settle most cases. Where they meet, two slices of one bigger tensor (columns of a
// matrix, channels of an image) may still have no byte in common: with equal strides that nest this is decided
// exactly. Whatever is not understood counts as shared. Knows descriptions and addresses, nothing of programs.
#pragma once

#include <cstdint>

#include "../plan/view_check.hpp"

namespace sinter::inline SINTER_ABI::detail {

/// Axes of a and b together, by falling stride: what a difference of positions can be made of.
struct common_axes {
  int count = 0;
  extent stride[max_rank] = {};    ///< bytes
  extent steps[max_rank][2] = {};  ///< the difference of indices is in -steps[0] .. steps[1]
  bool known = true;               ///< false: the strides differ, nothing is said
};

inline common_axes axes_of(tensor_desc const& a, tensor_desc const& b) {
  common_axes r;
  r.known = a.type == b.type && a.dims.size() == b.dims.size();
  for (int i = 0; r.known && i < a.dims.ssize(); ++i) {
    if (a.dims[i] <= 1 && b.dims[i] <= 1) continue;
    extent const s = a.dims[i] > 1 ? a.strides[i] : b.strides[i];
    if (a.dims[i] > 1 && b.dims[i] > 1 && a.strides[i] != b.strides[i]) r.known = false;
    int at = r.count++;
    for (; at > 0 && r.stride[at - 1] < s * size_of(a.type); --at) {
      r.stride[at] = r.stride[at - 1];
      r.steps[at][0] = r.steps[at - 1][0];
      r.steps[at][1] = r.steps[at - 1][1];
    }
    r.stride[at] = s * size_of(a.type);
    r.steps[at][0] = b.dims[i] - 1;
    r.steps[at][1] = a.dims[i] - 1;
  }
  return r;
}

/// Is there a difference of positions with axes `from` and later that lies within `bytes` of `distance`?
inline bool reaches(common_axes const& axes, int from, extent distance, extent bytes) {
  if (from >= max_rank || from == axes.count) return -bytes < distance && distance < bytes;
  extent const s = axes.stride[from];
  if (s == 0) return reaches(axes, from + 1, distance, bytes);
  extent low = bytes - 1,
         high = bytes - 1;  // how far the later axes and one element go below and above
  for (int i = from + 1; i < axes.count; ++i) {
    low += axes.steps[i][0] * axes.stride[i];
    high += axes.steps[i][1] * axes.stride[i];
  }
  // distance - q * s must be in -low .. high; where strides nest these are one, two or three values of q.
  extent const first =
      distance - high >= 0 ? (distance - high + s - 1) / s : -((high - distance) / s);
  extent const last = distance + low >= 0 ? (distance + low) / s : -((-low - distance + s - 1) / s);
  if (last - first > 2) return true;
  for (extent q = first < -axes.steps[from][0] ? -axes.steps[from][0] : first;
       q <= last && q <= axes.steps[from][1]; ++q)
    if (reaches(axes, from + 1, distance - q * s, bytes)) return true;
  return false;
}

/// False only if a at pa and b at pb have no byte in common.
inline bool share_elements(tensor_desc const& a, void const* pa, tensor_desc const& b,
                           void const* pb) {
  if (!overlap(range_of("", "", a, pa), range_of("", "", b, pb))) return false;
  common_axes const axes = axes_of(a, b);
  if (!axes.known) return true;
  auto const distance = static_cast<extent>(reinterpret_cast<std::uintptr_t>(pb)) -
                        static_cast<extent>(reinterpret_cast<std::uintptr_t>(pa));
  return reaches(axes, 0, distance, size_of(a.type));
}

}  // namespace sinter::inline SINTER_ABI::detail
