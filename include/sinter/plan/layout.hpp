// One tensor's description (dtype, extents, strides) and what can be said of it alone: reach,
// overlap, equality.
//
// Strides of axes of extent 1, and all strides of a tensor without elements, are meaningless: they
// are replaced by dense ones before anything is computed from them, so two descriptions of the same
// bytes compare equal. Inputs may have stride 0 (a broadcast made by hand); an output may not, nor
// may its elements interleave. Knows nothing of chains. Read plan/infer.hpp next.
#pragma once

#include <string>
#include <string_view>

#include "../base/join.hpp"
#include "../base/status.hpp"
#include "../core/dtype.hpp"
#include "../core/shape.hpp"

namespace sinter::inline SINTER_ABI {

/// dtype, extents and strides of one operand or output. Extents may be `dynamic`: strides are then
/// empty where it is dense; of a slice, that of an axis before a dynamic one is `dynamic` and follows
/// at the call from the axes behind it.
struct tensor_desc {
  dtype type = dtype::f32;
  shape dims;
  sinter::strides strides;
  friend constexpr bool operator==(tensor_desc const&, tensor_desc const&) = default;
};

/// Row-major description.
constexpr tensor_desc dense_desc(dtype type, shape const& dims) {
  return {type, dims, is_dynamic(dims) ? strides{} : dense_strides(dims)};
}

namespace detail {

constexpr extent max_extent = (std::numeric_limits<extent>::max)();

constexpr extent checked_add(extent a, extent b) { return a > max_extent - b ? -1 : a + b; }

/// Distance in elements from the first to the last one; -1 if it passes 2^63 - 1. Strides are >= 0
/// where extents > 1.
constexpr extent reach(shape const& dims, strides const& s) {
  if (element_count(dims) == 0) return 0;
  extent sum = 0;
  for (int i = 0; i < dims.ssize(); ++i) {
    if (dims[i] <= 1) continue;
    extent const part = checked_mul(dims[i] - 1, s[i]);
    if (part < 0) return -1;
    sum = checked_add(sum, part);
    if (sum < 0) return -1;
  }
  return sum;
}

/// Bytes from the first to one past the last element; -1 if they pass 2^63 - 1, 0 without elements.
constexpr extent byte_span(tensor_desc const& d) {
  if (element_count(d.dims) == 0) return 0;
  extent const r = reach(d.dims, d.strides);
  return r < 0 || r == max_extent ? -1 : checked_mul(r + 1, size_of(d.type));
}

/// Each element has its own place, and axes nest: every stride is larger than the reach of all
/// smaller ones.
constexpr bool elements_distinct(shape const& dims, strides const& s) {
  if (element_count(dims) == 0) return true;
  bool done[max_rank] = {};
  extent covered = 0;
  for (int round = 0; round < dims.ssize(); ++round) {
    int next = -1;
    for (int i = 0; i < dims.ssize(); ++i)
      if (!done[i] && dims[i] > 1 && (next < 0 || s[i] < s[next])) next = i;
    if (next < 0) break;
    if (s[next] <= covered) return false;
    done[next] = true;
    covered += (dims[next] - 1) * s[next];
  }
  return true;
}

/// Meaningless strides replaced: an axis of extent 1 gets the span of the axes after it.
constexpr strides meaningful_strides(shape const& dims, strides const& s) {
  strides r = s;
  if (element_count(dims) == 0) {
    r = dense_strides(dims);
    for (extent& e : r)
      if (e < 0) e = 0;
    return r;
  }
  for (int i = dims.ssize() - 1; i >= 0; --i) {
    if (dims[i] != 1) continue;
    extent span = 1;
    for (int j = i + 1; j < dims.ssize(); ++j) {
      extent const part = checked_mul(dims[j], r[j]);
      if (part > span) span = part;
    }
    r[i] = span;
  }
  return r;
}

/// The same places in memory: strides agree on every axis that has more than one index.
constexpr bool same_layout(shape const& dims, strides const& a, strides const& b) {
  if (element_count(dims) == 0) return true;
  for (int i = 0; i < dims.ssize(); ++i)
    if (dims[i] > 1 && a[i] != b[i]) return false;
  return true;
}

/// Strides of pixels (all axes but the last) that are evenly spaced, `row` elements apart; `dynamic` where a dynamic extent
/// stands behind the axis.
constexpr strides pixel_strides(shape const& dims, extent row) {
  strides s;
  s.resize(dims.size(), 1);
  for (int i = dims.ssize() - 2; i >= 0; --i) {
    if (i == dims.ssize() - 2)
      s[i] = row;
    else if (dims[i + 1] == dynamic || s[i + 1] == dynamic)
      s[i] = dynamic;
    else
      s[i] = checked_mul(s[i + 1], dims[i + 1] > 1 ? dims[i + 1] : 1);
  }
  return s;
}
/// Strides of a call whose extents are `dims`: those that are `dynamic` follow from the axes behind them.
constexpr strides strides_of_call(shape const& dims, strides s) {
  for (int i = s.ssize() - 2; i >= 0; --i)
    if (s[i] == dynamic) s[i] = checked_mul(s[i + 1], dims[i + 1] > 1 ? dims[i + 1] : 1);
  return s;
}

inline failure bad(std::string_view message) {
  return {code::bad_argument, join({"sinter: ", message})};
}
inline failure bad(std::initializer_list<piece> pieces) { return bad(join(pieces)); }

inline std::string in_quotes(std::string_view name) { return join({"'", name, "'"}); }

inline std::string list_of(strides const& s) {
  std::string text = "(";
  for (int i = 0; i < s.ssize(); ++i) {
    if (i > 0) text += ", ";
    text += std::to_string(s[i]);
  }
  return text + ")";
}

/// `kind` is "operand" or "output". Fills in dense strides where none are given, replaces
/// meaningless ones.
inline status complete_layout(std::string_view kind, std::string_view name, tensor_desc& d) {
  auto const who = [&] { return join({kind, " ", in_quotes(name)}); };
  for (int i = 0; i < d.dims.ssize(); ++i)
    if (d.dims[i] < 0 && d.dims[i] != dynamic)
      return bad(
          {who(), " has the extent ", d.dims[i], " on axis ", i, "; an extent is 0 or more"});
  if (is_dynamic(d.dims)) {
    if (d.strides.empty() || d.strides == dense_strides(d.dims) ||
        d.strides == pixel_strides(d.dims, d.dims.back())) {
      d.strides.clear();
      return {};
    }
    bool fits = d.strides.size() == d.dims.size(), follows = false;
    for (int i = d.dims.ssize() - 1; fits && i >= 0; --i) {
      fits = follows ? d.strides[i] == dynamic : d.strides[i] >= 0;
      follows = follows || d.dims[i] == dynamic;
    }
    if (!fits)
      return bad({who(), " has dynamic extents and the strides ", list_of(d.strides),
                  "; that of an axis before a dynamic one follows from the axes behind it and is "
                  "given as -1"});
    return {};
  }
  extent const count = element_count(d.dims);
  if (count < 0 || checked_mul(count, size_of(d.type)) < 0)
    return bad({who(), " of extents ", to_string(d.dims), " has more than 2^63 - 1 bytes"});
  if (d.strides.empty()) d.strides = dense_strides(d.dims);
  if (d.strides.size() != d.dims.size())
    return bad({who(), " has ", d.strides.size(), " strides for the extents ", to_string(d.dims),
                "; one for each axis is wanted"});
  d.strides = meaningful_strides(d.dims, d.strides);
  for (int i = 0; i < d.dims.ssize(); ++i)
    if (d.strides[i] < 0)
      return bad(
          {who(), " has the stride ", d.strides[i], " on axis ", i, "; a stride is 0 or more"});
  if (byte_span(d) < 0)
    return bad({who(), " of extents ", to_string(d.dims), " with strides ", list_of(d.strides),
                " reaches further than 2^63 - 1 bytes"});
  return {};
}

}  // namespace detail
}  // namespace sinter::inline SINTER_ABI
