// The JIT backend's depthwise conv2d (groups == channels, one filter each): which problems it
// takes, how one is laid out, how its weights are packed.
//
// depthwise_plan is what is known when a kernel is built, depthwise_geometry where everything lies
// in one call. Source, residuals and outputs may have any strides but along the channels, where
// elements lie side by side. The source is read as it is, whatever its dtype. Read
// backend/jit_depthwise.hpp for the calls.
#pragma once

#include <algorithm>
#include <bit>
#include <string>
#include <utility>

#include "../core/tensor_view.hpp"
#include "../jit/depthwise.hpp"
#include "jit_conv_rules.hpp"

namespace sinter::inline SINTER_ABI::jit {

struct depthwise_plan {
  depthwise_shape shape;
  epilogue_accesses accesses;
  int src = 0, weight = 0;  ///< operands of the chain
  contraction_attrs attrs;
  extent channels = 0, kernel_rows = 1;

  depthwise_panels panels() const {
    return {shape.kind, shape.lanes(), shape.vectors, kernel_rows * shape.kernel_columns, channels};
  }
};

/// Where everything lies in one call.
struct depthwise_geometry {
  extent images = 0;
  conv_axis y, x;
  conv_geometry::strides src;
  conv_geometry::strides accesses[max_operands + max_outputs];

  extent lines() const { return images * y.out; }
  bool empty() const { return images == 0 || y.out == 0 || x.out == 0; }
};

/// `p` has no dynamic extent. Its padding may be less than that of the plan, at each side.
inline depthwise_geometry geometry_of(depthwise_plan const& plan, problem const& p) {
  using detail::at;
  depthwise_geometry g;
  tensor_desc const& src = p.operands[at(plan.src)];
  contraction_attrs const& a = p.chain.contractions[0];
  g.images = p.domain[0];
  g.y = {src.dims[1], p.domain[1], plan.kernel_rows, a.stride[0], a.dilation[0], a.pad_begin[0]};
  g.x = {src.dims[2], p.domain[2],   plan.shape.kernel_columns,
         a.stride[1], a.dilation[1], a.pad_begin[1]};
  g.src = detail::image_strides(src);
  for (int i = 0; i < plan.accesses.ssize(); ++i) {
    epilogue_access const& access = plan.accesses[i];
    g.accesses[i] = detail::image_strides(access.output ? p.outputs[at(access.index)]
                                                        : p.operands[at(access.index)]);
  }
  return g;
}

/// Output rows that pass through all channels together: a second-level cache (1 MiB here) keeps
/// their inputs, so a line that two panels share comes from memory once. Blocks of equal size.
inline extent rows_at_a_time(depthwise_plan const& plan, depthwise_geometry const& g) {
  constexpr extent near_bytes = extent{512} << 10;
  extent const row_bytes = g.x.used() * plan.channels * size_of(plan.shape.src) * g.y.stride;
  extent const most = (std::max)(extent{1}, near_bytes / (std::max)(extent{1}, row_bytes));
  extent const blocks = (g.y.out + most - 1) / most;
  return (g.y.out + blocks - 1) / (std::max)(extent{1}, blocks);
}

// ---- rules -------------------------------------------------------------------------------------

/// A group for each channel, and one filter in each.
inline bool is_depthwise(problem const& p) {
  matmul_operands const o = operands_of(p.chain);
  if (p.chain.steps[p.chain.anchor()].args[1].kind != value_kind::operand) return false;
  shape const& weight = p.operands[detail::at(o.weight)].dims;
  return o.attrs.groups > 1 && weight[3] == 1 && weight[0] == o.attrs.groups;
}

/// Only where is_depthwise() says yes.
inline verdict supports_depthwise(problem const& p, isa level) {
  if (verdict v = detail::check_matmul_chain(p.chain, level); !v) return v;
  matmul_operands const o = operands_of(p.chain);
  if (verdict v = detail::check_conv_source(p, o.src); !v) return v;
  operand const& weight = p.chain.operands[o.weight];
  if (weight.role != role::weight)
    return detail::refuse("operand " + detail::in_quotes(weight.name) + " of conv2d is a " +
                          std::string(name_of(weight.role)) + "; a weight is wanted");
  extent const columns = p.operands[detail::at(o.weight)].dims[2];
  if (columns > most_kernel_columns)
    return detail::refuse("depthwise kernel rows of " + std::to_string(columns) +
                          " taps; at most " + std::to_string(most_kernel_columns) +
                          " are generated");
  extent const widest = (std::max)(o.attrs.stride[1], o.attrs.dilation[1]);
  if (widest > extent{1} << 20)
    return detail::refuse("a depthwise stride or dilation of " + std::to_string(widest) +
                          "; at most 2^20 is generated");
  return detail::check_matmul_layout(p, epilogue(p.chain, p.chain.anchor()));
}

// ---- plan --------------------------------------------------------------------------------------

namespace detail {

/// Blocks without a rest where the row's length is known. Two vectors where channels fill them:
/// neighbouring lines pass through the caches together (measured: 1.16 times as fast for f32 of
/// 32 x 112 x 112); a rest that fills half of them costs more than that. Long kernel rows make
/// short blocks: their code is unrolled, and with all kinds of rows and panels it stays within 64
/// KiB where no two taps share a column.
inline void set_block(depthwise_shape& s, extent channels, extent row) {
  constexpr int most_multiplications = 128;
  bool const pairs = s.kind == depthwise_product::pairs;
  int const all = most_accumulators(s.level);
  bool const fills = has_masks(s.level) && channels % (2 * s.lanes()) == 0;
  s.vectors = fills || (pairs && channels > s.lanes()) ? 2 : 1;
  extent most = (std::min)(all, most_multiplications / s.kernel_columns) / s.vectors;
  most = (std::max)(most, extent{1});
  extent const pixels = row < 0 ? most : (std::min)(most, (std::max)(row, extent{1}));
  extent const blocks = row > 0 ? (row + pixels - 1) / pixels : 1;
  s.pixels = static_cast<int>(row > 0 ? (row + blocks - 1) / blocks : pixels);
  if (s.vectors == 1 && has_masks(s.level) && channels > s.lanes() && 2 * s.pixels <= most)
    s.vectors = 2;
}

/// Does the epilogue want more registers than accumulators leave, or is it so long that a copy for
/// each pixel takes more than a millisecond to generate?
inline bool wants_loop(epilogue const& e, depthwise_shape const& s) {
  constexpr int most_copied_steps = 8;
  int const free = vector_count_of(s.level) - s.pixels * s.vectors;
  return e.steps() > most_copied_steps || e.stack_bytes(s.level) / vector_bytes_of(s.level) > free;
}

}  // namespace detail

/// Only where supports_depthwise() says yes.
inline depthwise_plan plan_depthwise(problem const& p, epilogue const& e, isa level) {
  using detail::at;
  matmul_operands const o = operands_of(p.chain);
  tensor_desc const& src = p.operands[at(o.src)];
  tensor_desc const& weight = p.operands[at(o.weight)];
  depthwise_plan plan;
  plan.src = o.src;
  plan.weight = o.weight;
  plan.attrs = o.attrs;
  plan.channels = weight.dims[0];
  plan.kernel_rows = weight.dims[1];
  depthwise_shape& s = plan.shape;
  s.level = level;
  s.src = src.type;
  s.kind = product_for(level, src.type, weight.type) == product::bf16_pairs
               ? depthwise_product::pairs
               : depthwise_product::widened;
  s.kernel_columns = static_cast<int>(weight.dims[2]);
  s.stride = o.attrs.stride[1];
  s.dilation = o.attrs.dilation[1];
  s.pad = o.attrs.pad_begin[1];
  detail::set_block(s, plan.channels, p.domain[2] == dynamic ? -1 : p.domain[2]);
  s.full_panels = plan.panels().full_panels() > 0;
  s.tail_columns = plan.panels().tail_columns();
  s.looped_epilogue = detail::wants_loop(e, s);
  plan.accesses = detail::accesses_of(p, e);
  return plan;
}

// ---- weights -----------------------------------------------------------------------------------

/// Writes panels().bytes() bytes. `type` is the weight's dtype, to which f32 is rounded first.
inline void pack_depthwise(depthwise_plan const& plan, void* to, tensor_view const& source,
                           dtype type) {
  sinter::strides const s = sinter::detail::meaningful_strides(source.dims, source.strides);
  depthwise_panels const panels = plan.panels();
  auto const value = [&](extent channel, extent y, extent x) {
    if (channel >= plan.channels || y >= plan.kernel_rows) return 0.0F;
    float const v = load_as_float(source.data, source.type, channel * s[0] + y * s[1] + x * s[2]);
    return type == dtype::bf16  ? to_float(to_bfloat16(v))
           : type == dtype::f16 ? to_float(to_float16(v))
                                : v;
  };
  auto const high = [](float v) { return std::bit_cast<std::uint32_t>(v); };
  auto* out = static_cast<std::uint32_t*>(to);
  for (extent first = 0; first < plan.channels; first += panels.width()) {
    bool const full = first + panels.width() <= plan.channels;
    int const vectors = full ? panels.vectors : panels.tail_vectors();
    for (extent y = 0; y < plan.kernel_rows; ++y)
      for (extent x = 0; x < plan.shape.kernel_columns; ++x)
        for (int v = 0; v < vectors; ++v)
          for (int lane = 0; lane < panels.lanes; ++lane) {
            extent const channel = first + panels.channel_at(vectors, v, lane);
            std::uint32_t const bits = high(value(channel, y, x));
            *out++ = panels.kind == depthwise_product::pairs
                         ? bits >> 16 | (high(value(channel, y + 1, x)) & 0xffff0000U)
                         : bits;
          }
  }
}

}  // namespace sinter::inline SINTER_ABI::jit
