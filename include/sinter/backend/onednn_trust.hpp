// What oneDNN accepts and then computes wrongly, or crashes at: not asked of it, and refused in a sentence.
//
// Each rule was found by test/kernels/onednn_random.cpp and its kin with oneDNN 3.7.2 on AVX-512, and is as narrow as
// the failures allow. A rule asks only for extents and strides, never for oneDNN's version: a fixed fault costs a copy
// or another backend, a wrong guess would cost a wrong result. docs/onednn_faults.md lists them with an example each.
// Read onednn_schedule.hpp next: it decides what to try instead.
#pragma once

#include <string>

#include "onednn_primitive.hpp"

namespace sinter::inline SINTER_ABI {
namespace onednn {

/// Is there an output position whose taps along this axis all lie in padding? oneDNN 3.7 crashes at some of them.
inline bool sees_only_padding(extent in, extent kernel, extent out, extent stride, extent dilation,
                              extent pad) {
  for (extent o = 0; o < out; ++o) {
    extent const first = o * stride - pad;
    if (first >= 0 && first < in) {  // so do all that follow up to the last one inside
      o += (in - 1 - first) / stride;
      continue;
    }
    bool inside = false;
    for (extent k = 0; k < kernel && !inside; ++k)
      inside = first + k * dilation >= 0 && first + k * dilation < in;
    if (!inside) return true;
  }
  return false;
}

inline verdict distrust(std::string why) { return verdict::no("sinter: oneDNN " + std::move(why)); }

/// The geometry of a convolution along one spatial axis.
inline verdict trusts_axis(problem const& p, shape const& src, int axis) {
  chain const& c = p.chain;
  step const& s = c.steps[c.anchor()];
  contraction_attrs const& a = c.attrs(s);
  shape const& weight = p.operands[at(s.args[1].index)].dims;
  extent const in = src[axis + 1], out = p.domain[axis + 1], kernel = weight[axis + 1];
  std::string const where =
      ", as in " + step_name(c, c.anchor()) + " along spatial axis " + std::to_string(axis);
  if (sees_only_padding(in, kernel, out, a.stride[axis], a.dilation[axis], a.pad_begin[axis]))
    return distrust("is not trusted with output positions that see only padding" + where);
  extent const span = (out - 1) * a.stride[axis] + (kernel - 1) * a.dilation[axis] + 1;
  if (a.pad_begin[axis] > 0 && span <= in)
    return distrust(
        "is not trusted with padding at the beginning of a source that is long enough without" +
        where);
  if (axis + 1 == spatial_rank(s.code) && weight.back() == 1 && out == 1 && a.stride[axis] > 1)
    return distrust(
        "is not trusted with a stride along an output axis of extent 1 and single input channels" +
        where);
  return verdict::yes();
}

/// Under strict numerics: products of pairs (or, in a tile, of 32) take in what lies behind the last channel, times 0.
inline verdict keeps_neighbours_apart(problem const& p) {
  chain const& c = p.chain;
  step const& s = c.steps[c.anchor()];
  extent const channels = p.operands[at(s.args[1].index)].dims.back();
  auto const tiles = static_cast<unsigned>(dnnl_cpu_isa_avx512_core_amx);
  bool const has_tiles = (static_cast<unsigned>(dnnl_get_effective_cpu_isa()) & tiles) == tiles;
  extent const group = has_tiles ? 32 : 2;
  if (p.numerics == numerics::peer || size_of(c.precision.src) > 2 || channels % group == 0)
    return verdict::yes();
  return distrust(
      "reads the " + std::to_string(channels) + " input channels of " + step_name(c, c.anchor()) +
      " in groups of " + std::to_string(group) +
      ", so that a NaN spreads to neighbours; under strict numerics that is not allowed");
}

inline verdict trusts_conv(problem const& p, shape const& src) {
  for (int i = 0; i < spatial_rank(p.chain.steps[p.chain.anchor()].code); ++i)
    if (verdict v = trusts_axis(p, src, i); !v) return v;
  return keeps_neighbours_apart(p);
}

/// oneDNN 3.7 finds the elements of a post-op's operand from its place in the destination, as if the operand were
/// dense or laid out like the destination: other strides give wrong values in silence. All are aligned to the domain.
inline bool is_read_right(tensor_desc const& rhs, tensor_desc const& dst) {
  if (rhs.dims == dst.dims) return sinter::detail::same_layout(dst.dims, rhs.strides, dst.strides);
  extent const count = element_count(rhs.dims);
  if (count == 1) return true;
  return is_dense(rhs) && (count == rhs.dims.back() || is_dense(dst));
}

/// Channels last or first, without gaps.
inline bool is_dense_image(tensor_desc const& d) {
  tensor_desc first{d.type, {d.dims[0]}, {d.strides[0]}};
  first.dims.push_back(d.dims.back());
  first.strides.push_back(d.strides.back());
  for (int i = 1; i < d.dims.ssize() - 1; ++i) {
    first.dims.push_back(d.dims[i]);
    first.strides.push_back(d.strides[i]);
  }
  return is_dense(d) || is_dense(first);
}

/// oneDNN 3.7 goes wrong, or crashes, where the matrices of a batch are not next to each other.
inline bool is_batch_right(tensor_desc const& d) {
  return d.dims.ssize() < 3 || is_dense(d) || is_dense(exchanged(d));
}

/// The memory that one attempt reads and writes.
inline verdict trusts(problem const& p, contraction_operands const& operands,
                      post_op_plan const& plan, attempt const& a, bool merged) {
  chain const& c = p.chain;
  int const rank = p.domain.ssize(), anchor = c.anchor();
  for (post_op const& o : plan.ops) {
    if (o.step > a.last || o.rhs.kind != value_kind::operand || o.as == form::sum) continue;
    if (!is_read_right(aligned(p.operands[at(o.rhs.index)], rank, true), a.dst_desc))
      return distrust("does not honour the strides of '" +
                      std::string(c.operands[o.rhs.index].name.view()) + "' in " +
                      step_name(c, o.step));
  }
  if (anchor < 0 && c.pooling() < 0) return verdict::yes();
  if (anchor < 0 || is_conv(c.steps[anchor].code)) {
    if (is_dense_image(a.src_desc) && is_dense_image(a.dst_desc)) return verdict::yes();
    return distrust("wants images without gaps");
  }
  if (a.dst_desc.dims.back() == 1 && !is_dense(a.dst_desc))
    return distrust("writes a matrix of one column as if it were dense");
  tensor_desc const weight =
      c.attrs(c.steps[anchor]).transposed_weight ? exchanged(a.weight_desc) : a.weight_desc;
  bool const right = is_batch_right(a.src_desc) && is_dense(a.dst_desc) &&
                     (operands.packed || is_batch_right(weight));
  return merged || rank < 3 || right ? verdict::yes()
                                     : distrust("wants the matrices of a batch next to each other");
}

}  // namespace onednn
}  // namespace sinter::inline SINTER_ABI
