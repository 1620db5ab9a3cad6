// From Sinter's logical axes to oneDNN's: extents and strides exchanged, nothing moved.
//
// Images N,H,W,C become N,C,H,W with the strides permuted (so dense NHWC is oneDNN's nhwc), weights O,H,W,I become
// (G,)O,I,H,W, transposed matmul operands have their last two axes exchanged, and where every tensor of a problem
// allows it, all rows become one axis. Operands of post-ops are aligned at the last axis by numpy's rule.
// Read onednn_primitive.hpp next.
#pragma once

#include "../plan/problem.hpp"
#include "onednn_api.hpp"

namespace sinter::inline SINTER_ABI {
namespace onednn {

constexpr std::size_t at(int i) { return static_cast<std::size_t>(i); }

/// d with exactly `rank` axes: missing leading ones have extent 1. Strides of extents 1 are made meaningful, so that
/// oneDNN recognises the order of axes. An axis that strides of 0 repeat is one of extent 1 where `repeats` says so.
inline tensor_desc aligned(tensor_desc const& d, int rank, bool repeats = false) {
  tensor_desc r{d.type, {}, {}};
  for (int i = d.dims.ssize() - rank; i < d.dims.ssize(); ++i) {
    bool const real = i >= 0 && !(repeats && d.strides[i] == 0);
    r.dims.push_back(real ? d.dims[i] : 1);
    r.strides.push_back(real ? d.strides[i] : 1);
  }
  r.strides = sinter::detail::meaningful_strides(r.dims, r.strides);
  return r;
}

inline tensor_desc exchanged(tensor_desc d) {
  int const r = d.dims.ssize();
  std::swap(d.dims[r - 1], d.dims[r - 2]);
  std::swap(d.strides[r - 1], d.strides[r - 2]);
  return d;
}

/// How the axes of the domain, and of what has its form, go over.
struct frame {
  inline_vector<int, max_rank> order;  ///< oneDNN's axis i is the domain's axis order[i]
  bool merged = false;                 ///< all axes but the last are one
  int channel_axis = 0;                ///< oneDNN's axis for the domain's last one

  int rank() const { return merged ? 2 : order.ssize(); }
};

/// The stride of all leading axes taken as one; -1 where they are no single row axis.
inline extent row_stride(tensor_desc const& d) {
  int const r = d.dims.ssize();
  extent stride = -1, span = 1;
  for (int i = r - 2; i >= 0; --i) {
    if (d.dims[i] == 1) continue;
    if (stride >= 0 && d.strides[i] != span) return -1;
    if (stride < 0) stride = d.strides[i];
    span = d.strides[i] * d.dims[i];
  }
  return stride < 0 ? d.strides[r - 2] : stride;
}

/// Is d, aligned to the domain, full or absent on all leading axes, and a single row axis there?
inline bool merges(tensor_desc const& d, shape const& domain) {
  bool full = true, absent = true;
  for (int i = 0; i < domain.ssize() - 1; ++i) {
    full = full && d.dims[i] == domain[i];
    absent = absent && d.dims[i] == 1;
  }
  return absent || (full && row_stride(d) >= 0);
}

inline layout to_layout(frame const& f, tensor_desc const& d) {
  layout l{data_type(d.type)};
  if (!f.merged) {
    for (int axis : f.order) l.push(d.dims[axis], d.strides[axis]);
    return l;
  }
  extent rows = 1;
  for (int i = 0; i < d.dims.ssize() - 1; ++i) rows *= d.dims[i];
  l.push(rows, row_stride(d));
  l.push(d.dims.back(), d.strides.back());
  return l;
}

/// The operands of the contraction as oneDNN's src and weights.
struct contraction_operands {
  int src = -1, weight = -1;  ///< chain operands
  bool packed = false;        ///< the weight's layout is oneDNN's to choose
};

/// Weight of a convolution, O,spatial,I, as (G,)O,I,spatial.
inline layout conv_weight_layout(tensor_desc const& d, int groups) {
  layout l{data_type(d.type)};
  extent const out = d.dims[0] / groups;
  if (groups > 1) l.push(groups, d.strides[0] * out);
  l.push(out, d.strides[0]);
  int const last = d.dims.ssize() - 1;
  l.push(d.dims[last], d.strides[last]);
  for (int i = 1; i < last; ++i) l.push(d.dims[i], d.strides[i]);
  return l;
}

inline layout weight_layout(frame const& f, step const& anchor, contraction_attrs const& a,
                            tensor_desc const& d) {
  if (is_conv(anchor.code)) return conv_weight_layout(d, a.groups);
  tensor_desc w = aligned(a.transposed_weight ? exchanged(d) : d, f.order.ssize());
  w.type = d.type;
  return to_layout(f, w);
}

inline tensor_desc src_desc(frame const& f, step const& anchor, contraction_attrs const& a,
                            tensor_desc const& d) {
  bool const exchange = anchor.code == op::matmul && a.transposed_src;
  return aligned(exchange ? exchanged(d) : d, f.order.ssize());
}

inline bool is_dense(tensor_desc const& d) {
  return sinter::detail::same_layout(d.dims, d.strides, dense_strides(d.dims));
}

inline frame frame_of(op anchor, int rank) {
  frame f;
  bool const image = is_conv(anchor) || is_pooling(anchor);
  f.channel_axis = image ? 1 : rank - 1;
  if (image) {
    f.order = {0, rank - 1};
    for (int i = 1; i < rank - 1; ++i) f.order.push_back(i);
  } else {
    for (int i = 0; i < rank; ++i) f.order.push_back(i);
  }
  return f;
}

}  // namespace onednn
}  // namespace sinter::inline SINTER_ABI
