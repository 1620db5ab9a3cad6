// One oneDNN primitive for the first part of a chain: descriptors, attributes, arguments.
//
// A primitive_maker is given how far along the chain the primitive goes and where it writes; it tries, and says in a
// sentence what oneDNN answered. Nothing is executed here. Read onednn_trust.hpp next.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "../core/buffer.hpp"
#include "../plan/pool_shape.hpp"
#include "backend.hpp"
#include "onednn_layout.hpp"
#include "onednn_postops.hpp"

namespace sinter::inline SINTER_ABI {
namespace onednn {

/// Where the memory of an argument is found at a call.
enum class place : unsigned char { operand, output, scratch, constant, one };
struct location {
  place where = place::operand;
  std::size_t index = 0;  ///< operand, output, constant; offset in bytes for scratch
};

struct argument {
  int arg = 0;
  memory_desc desc;
  location at;
};

/// A primitive that is ready to run.
struct made_primitive {
  onednn::primitive primitive;
  std::vector<argument> arguments;
  std::string implementation;
  std::size_t scratch_end = 0;  ///< bytes of scratch in use, its own scratchpad included
  memory_desc packed_weight;    ///< the layout that oneDNN chose; empty: plain
};

/// How fast an implementation is, by its name.
enum class speed : unsigned char {
  fast,
  im2col,     ///< a convolution that copies its taps into a matrix: 6 to 80 times slower in bf16
  reference,  ///< oneDNN's own reference code
};
inline speed speed_of(std::string_view implementation, bool conv) {
  if (is_reference_code(implementation)) return speed::reference;
  bool const gemm = implementation.starts_with("gemm:") ||
                    implementation.find(":gemm:") != std::string_view::npos;
  return conv && gemm ? speed::im2col : speed::fast;
}

/// What is tried.
struct attempt {
  int last = -1;         ///< the step whose value is written
  location dst;          ///< output, or scratch
  tensor_desc dst_desc;  ///< aligned to the domain
  location src;          ///< the operand, or a copy in scratch
  tensor_desc src_desc;  ///< aligned to the domain
  location weight;
  tensor_desc weight_desc;  ///< as in the problem
  std::size_t scratch_end = 0;
};

inline constexpr std::size_t scratch_alignment = 64;

/// Adds the scratchpad that oneDNN asks for; nothing is allocated by oneDNN in a call.
inline void add_scratchpad(primitive_desc const& pd, made_primitive& made) {
  memory_desc md = queried(pd, dnnl_query_scratchpad_md);
  std::size_t const bytes = md ? dnnl_memory_desc_get_size(md.get()) : 0;
  if (bytes == 0) return;
  std::size_t const offset = round_up(made.scratch_end, scratch_alignment);
  made.scratch_end = offset + bytes;
  made.arguments.push_back({DNNL_ARG_SCRATCHPAD, std::move(md), {place::scratch, offset}});
}

inline attributes new_attributes() {
  attributes a;
  if (dnnl_primitive_attr_create(a.put()) == dnnl_success)
    dnnl_primitive_attr_set_scratchpad_mode(a.get(), dnnl_scratchpad_mode_user);
  return a;
}

/// From one layout to another one of the same extents.
inline result<made_primitive> make_reorder(memory_desc from, location from_at, memory_desc to,
                                           location to_at, std::size_t scratch_end) {
  attributes const attr = new_attributes();
  primitive_desc pd;
  made_primitive made;
  dnnl_status_t s = dnnl_invalid_arguments;
  if (from && to)
    s = dnnl_reorder_primitive_desc_create(pd.put(), from.get(), cpu_engine(), to.get(),
                                           cpu_engine(), attr.get());
  if (s == dnnl_success) s = create(made.primitive, pd.get());
  if (s != dnnl_success) return refusal(s, "a copy into another layout");
  made.implementation = implementation(pd);
  made.scratch_end = scratch_end;
  made.arguments.push_back({DNNL_ARG_FROM, std::move(from), from_at});
  made.arguments.push_back({DNNL_ARG_TO, std::move(to), to_at});
  add_scratchpad(pd, made);
  return made;
}

class primitive_maker {
 public:
  primitive_maker(problem const& p, frame const& f, contraction_operands const& o,
                  post_op_plan const& plan, attempt const& a)
      : p_(p), c_(p.chain), frame_(f), operands_(o), plan_(plan), try_(a) {}

  /// The primitive, or what oneDNN answered.
  result<made_primitive> make(speed worst) {
    made_.scratch_end = try_.scratch_end;
    primitive_desc pd;
    dnnl_status_t s = describe_all(pd);
    if (s != dnnl_success) return refusal(s, what());
    made_.implementation = implementation(pd);
    bool const conv = c_.anchor() >= 0 && is_conv(c_.steps[c_.anchor()].code);
    while (speed_of(made_.implementation, conv) > worst) {
      if (dnnl_primitive_desc_next_impl(pd.get()) != dnnl_success)
        return failure{code::unsupported, "sinter: oneDNN has nothing faster than " +
                                              made_.implementation + " for " + what()};
      made_.implementation = implementation(pd);
    }
    s = create(made_.primitive, pd.get(), at_risk_);
    if (s != dnnl_success) return refusal(s, what());
    if (operands_.packed) {
      made_.packed_weight = queried(pd, dnnl_query_weights_md);
      made_.arguments[weight_argument_].desc = clone(made_.packed_weight.get());
    }
    add_scratchpad(pd, made_);
    return std::move(made_);
  }

 private:
  std::string what() const {
    int const first = c_.pooling() == 0 ? 0 : c_.anchor();
    std::string text(first < 0 ? "pointwise steps" : sinter::name_of(c_.steps[first].code));
    text += " of " + to_string(p_.domain);
    int n = 0;
    for (post_op const& o : plan_.ops) n += o.step <= try_.last ? 1 : 0;
    return n == 0 ? text : text + " with " + std::to_string(n) + " post-ops";
  }

  const_dnnl_memory_desc_t add(int arg, memory_desc md, location where) {
    made_.arguments.push_back({arg, std::move(md), where});
    return made_.arguments.back().desc.get();
  }

  memory_desc operand_desc(int operand) const {
    return describe(to_layout(frame_, aligned(p_.operands[at(operand)], p_.domain.ssize(), true)));
  }
  memory_desc scalar_desc() const {
    layout l{dnnl_f32};
    for (int i = 0; i < frame_.rank(); ++i) l.push(1, 1);
    return describe(l);
  }

  dnnl_status_t append(dnnl_post_ops_t list, post_op const& o, int index) {
    bool const to_output = try_.dst.where == place::output;
    switch (o.as) {
      case form::eltwise:
        return dnnl_post_ops_append_eltwise(list, o.alg, o.alpha, o.beta);
      case form::sum:
        if (to_output) return dnnl_post_ops_append_sum(list, 1, 0, data_type(try_.dst_desc.type));
        [[fallthrough]];  // written elsewhere, the output's content is an operand like any other
      case form::binary: {
        bool const constant = o.rhs.kind == value_kind::constant;
        at_risk_ = at_risk_ || is_comparison(c_.steps[o.step].code);
        auto const md = add(DNNL_ARG_ATTR_MULTIPLE_POST_OP(index) | DNNL_ARG_SRC_1,
                            constant ? scalar_desc() : operand_desc(o.rhs.index),
                            {constant ? place::constant : place::operand, at(o.rhs.index)});
        return md == nullptr ? dnnl_invalid_arguments
                             : dnnl_post_ops_append_binary(list, o.alg, md);
      }
      case form::prelu: {
        at_risk_ = true;
        auto const md = add(DNNL_ARG_ATTR_MULTIPLE_POST_OP(index) | DNNL_ARG_WEIGHTS,
                            operand_desc(o.rhs.index), {place::operand, at(o.rhs.index)});
        int const mask = is_single(p_, o.rhs) ? 0 : 1 << (frame_.merged ? 1 : frame_.channel_axis);
        return md == nullptr ? dnnl_invalid_arguments : dnnl_post_ops_append_prelu(list, mask);
      }
      default:
        return dnnl_invalid_arguments;
    }
  }

  dnnl_status_t set_post_ops(attributes const& attr) {
    post_op_list list;
    dnnl_status_t s = dnnl_post_ops_create(list.put());
    int index = 0;
    for (post_op const& o : plan_.ops)
      if (s == dnnl_success && o.step <= try_.last) s = append(list.get(), o, index++);
    return s == dnnl_success ? dnnl_primitive_attr_set_post_ops(attr.get(), list.get()) : s;
  }

  dnnl_status_t describe_all(primitive_desc& pd) {
    made_.arguments.reserve(max_post_ops + 8);
    attributes const attr = new_attributes();
    if (!attr) return dnnl_out_of_memory;
    if (dnnl_status_t s = set_post_ops(attr); s != dnnl_success) return s;
    auto const src = add(DNNL_ARG_SRC_0, describe(to_layout(frame_, try_.src_desc)), try_.src);
    auto const dst = add(DNNL_ARG_DST, describe(to_layout(frame_, try_.dst_desc)), try_.dst);
    if (src == nullptr || dst == nullptr) return dnnl_invalid_arguments;
    if (c_.pooling() == 0) return describe_pooling(pd, attr, src, dst);
    if (c_.anchor() < 0) {
      auto const one = add(DNNL_ARG_SRC_1, scalar_desc(), {place::one, 0});
      return dnnl_binary_primitive_desc_create(pd.put(), cpu_engine(), dnnl_binary_mul, src, one,
                                               dst, attr.get());
    }
    return describe_contraction(pd, attr, src, dst);
  }

  dnnl_status_t describe_pooling(primitive_desc& pd, attributes const& attr,
                                 const_dnnl_memory_desc_t src, const_dnnl_memory_desc_t dst) {
    step const& s = c_.steps[0];
    pool_attrs const& a = c_.window(s);
    dnnl_dims_t kernel = {}, strides = {}, dilates = {}, begin = {}, end = {};
    for (int i = 0; i < 2; ++i) {
      pool_axis const axis = pool_axis_of(s.code, a, i, try_.src_desc.dims[i + 1]);
      kernel[i] = axis.kernel;
      strides[i] = axis.stride;
      begin[i] = axis.pad_begin;
      // As much as the last window reaches over the end, which `ceil` allows.
      extent const reach = (axis.count() - 1) * axis.stride + axis.kernel;
      end[i] = (std::max)(axis.pad_end, reach - axis.in - axis.pad_begin);
    }
    dnnl_alg_kind_t const how = s.code == op::max_pool ? dnnl_pooling_max
                                : a.count_pad          ? dnnl_pooling_avg_include_padding
                                                       : dnnl_pooling_avg_exclude_padding;
    return dnnl_pooling_forward_primitive_desc_create(
        pd.put(), cpu_engine(), dnnl_forward_inference, how, src, dst, strides, kernel, dilates,
        begin, end, attr.get());
  }

  dnnl_status_t describe_contraction(primitive_desc& pd, attributes const& attr,
                                     const_dnnl_memory_desc_t src, const_dnnl_memory_desc_t dst) {
    step const& s = c_.steps[c_.anchor()];
    contraction_attrs const& a = c_.attrs(s);
    layout const wl = weight_layout(frame_, s, a, try_.weight_desc);
    weight_argument_ = made_.arguments.size();
    auto const weight =
        add(DNNL_ARG_WEIGHTS, operands_.packed ? describe_any(wl) : describe(wl), try_.weight);
    const_dnnl_memory_desc_t bias = nullptr;
    if (plan_.bias >= 0 && plan_.bias_step <= try_.last) {
      layout l{dnnl_f32};
      if (is_conv(s.code)) {
        l.push(p_.domain.back(), 1);
      } else {
        for (int i = 0; i + 1 < frame_.rank(); ++i) l.push(1, p_.domain.back());
        l.push(p_.domain.back(), 1);
      }
      bias = add(DNNL_ARG_BIAS, describe(l), {place::operand, at(plan_.bias)});
      if (bias == nullptr) return dnnl_invalid_arguments;
    }
    if (weight == nullptr) return dnnl_invalid_arguments;
    if (s.code == op::matmul)
      return dnnl_matmul_primitive_desc_create(pd.put(), cpu_engine(), src, weight, bias, dst,
                                               attr.get());
    dnnl_dims_t strides = {}, dilates = {}, begin = {}, end = {};
    for (int i = 0; i < spatial_rank(s.code); ++i) {
      strides[i] = a.stride[i];
      dilates[i] = a.dilation[i] - 1;
      begin[i] = a.pad_begin[i];
      end[i] = a.pad_end[i];
    }
    return dnnl_convolution_forward_primitive_desc_create(
        pd.put(), cpu_engine(), dnnl_forward_inference, dnnl_convolution_direct, src, weight, bias,
        dst, strides, dilates, begin, end, attr.get());
  }

  problem const& p_;
  chain const& c_;
  frame const& frame_;
  contraction_operands const& operands_;
  post_op_plan const& plan_;
  attempt const& try_;
  made_primitive made_;
  std::size_t weight_argument_ = 0;
  bool at_risk_ = false;
};

}  // namespace onednn
}  // namespace sinter::inline SINTER_ABI
