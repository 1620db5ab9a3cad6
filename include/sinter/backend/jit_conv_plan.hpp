// The JIT backend's conv2d: which problems it takes, how one is laid out.
//
// conv_plan is what is known when a kernel is built, conv_geometry where everything lies in one
// call. Source, residuals and outputs may have any strides but along the channels, where elements
// lie side by side. Weights are packed once, kernel rows around kernel columns around channels.
// Where pixels are adjacent, a kernel row's elements are one run from the first channel of its
// first pixel to the last of its last; strips at the left and right border, which miss taps, take
// them pixel by pixel. Read backend/jit_conv.hpp for the calls.
#pragma once

#include <algorithm>
#include <string>
#include <utility>

#include "../jit/conv.hpp"
#include "../jit/conv_geometry.hpp"
#include "../plan/problem.hpp"
#include "jit_matmul.hpp"

namespace sinter::inline SINTER_ABI::jit {

/// The kernels of one plan: what a run is, times which panels.
enum class conv_run : unsigned char { pixel, kernel_row };
inline constexpr int conv_kernels = 4;
constexpr int conv_kernel_index(conv_run r, bool tail) {
  return 2 * static_cast<int>(r) + (tail ? 1 : 0);
}

struct conv_plan {
  conv_shape shapes[conv_kernels];
  conv_accesses accesses;
  int src = 0, weight = 0;  ///< operands of the chain
  contraction_attrs attrs;
  isa level = isa::avx2;
  product kind = product::f32;
  extent groups = 1, in = 0, out = 0;  ///< channels of a group
  extent kernel_rows = 1, kernel_columns = 1;
  bool copied = false;      ///< the source is converted, block by block
  bool whole_rows = false;  ///< runs of kernel rows are possible
  extent pixel_bytes = 0;   ///< of a copied pixel; of a pixel's own channels otherwise
  std::size_t scratch_bytes = 0;

  /// Elements of a run in the source.
  extent run(conv_run r) const { return r == conv_run::pixel ? in : in * kernel_columns; }
  extent runs(conv_run r) const {
    return r == conv_run::pixel ? kernel_rows * kernel_columns : kernel_rows;
  }
  /// ... and in a panel, where a run is whole steps.
  extent padded_run(conv_run r) const {
    extent const step = row_of(kind).k_step;
    return (run(r) + step - 1) / step * step;
  }
  /// Of one group.
  panel_layout panels(conv_run r) const {
    return {kind, lanes_of(level), runs(r) * padded_run(r), out};
  }
  /// Panels of both kinds of run are the same bytes where no run is padded.
  bool both_packed() const {
    return whole_rows && padded_run(conv_run::pixel) != run(conv_run::pixel);
  }
  extent packed_bytes() const {
    return groups * (panels(conv_run::pixel).bytes() +
                     (both_packed() ? panels(conv_run::kernel_row).bytes() : 0));
  }
  /// From the start of a packed weight to the panels of a group.
  extent panels_at(conv_run r, extent group) const {
    if (r == conv_run::pixel || !both_packed()) return group * panels(conv_run::pixel).bytes();
    return groups * panels(conv_run::pixel).bytes() + group * panels(r).bytes();
  }
};

/// Where everything lies in one call. Bytes from image to image, pixel row to pixel row, pixel to
/// pixel.
struct conv_geometry {
  struct strides {
    extent image = 0, row = 0, column = 0;
  };
  extent images = 0;
  conv_axis y, x;
  strides src;
  strides accesses[max_operands + max_outputs];

  bool empty() const { return images == 0 || y.out == 0 || x.out == 0; }
};

namespace detail {

/// Axis i of an operand that broadcasts to images N, H, W, C: 0 where it has one index.
inline extent image_stride(tensor_desc const& d, int i) {
  return stride_from_end(d, 4 - i) * size_of(d.type);
}
inline conv_geometry::strides image_strides(tensor_desc const& d) {
  return {image_stride(d, 0), image_stride(d, 1), image_stride(d, 2)};
}

/// A 1x1 convolution whose pixels are evenly spaced in all operands has one long row, of all images
/// if they allow it.
inline void fold_pixels(conv_geometry& g, int accesses) {
  auto const covers = [](conv_axis const& a) {
    return a.kernel == 1 && a.pad == 0 && a.start(a.out - 1) < a.in;
  };
  if (!covers(g.y) || !covers(g.x)) return;
  extent const in_row = g.x.stride * g.src.column;
  auto const join = [&](extent count, auto outer, extent outer_src, extent inner_count) {
    bool fits = outer_src == inner_count * in_row;
    for (int i = 0; i < accesses; ++i)
      fits = fits && g.accesses[i].*outer == inner_count * g.accesses[i].column;
    return count == 1 || fits;
  };
  using s = conv_geometry::strides;
  if (!join(g.y.out, &s::row, g.y.stride * g.src.row, g.x.out)) return;
  extent pixels = g.x.out * g.y.out;
  if (join(g.images, &s::image, g.src.image, pixels)) {
    pixels *= g.images;
    g.images = 1;
  }
  g.x.out = pixels;
  g.x.in = (pixels - 1) * g.x.stride + 1;
  g.y = {};
}

}  // namespace detail

/// `p` has no dynamic extent.
inline conv_geometry geometry_of(conv_plan const& plan, problem const& p) {
  using detail::at;
  conv_geometry g;
  tensor_desc const& src = p.operands[at(plan.src)];
  contraction_attrs const& a = plan.attrs;
  g.images = p.domain[0];
  g.y = {src.dims[1], p.domain[1], plan.kernel_rows, a.stride[0], a.dilation[0], a.pad_begin[0]};
  g.x = {src.dims[2], p.domain[2], plan.kernel_columns, a.stride[1], a.dilation[1], a.pad_begin[1]};
  g.src = detail::image_strides(src);
  for (int i = 0; i < plan.accesses.ssize(); ++i) {
    conv_access const& access = plan.accesses[i];
    g.accesses[i] = detail::image_strides(access.output ? p.outputs[at(access.index)]
                                                        : p.operands[at(access.index)]);
  }
  if (!g.empty()) detail::fold_pixels(g, plan.accesses.ssize());
  return g;
}

namespace detail {

/// Packed weights of more than this are far: a second-level cache (1 MiB here) keeps a panel of them,
/// not all. The next panel is prefetched while the tiles of one are computed.
inline constexpr extent near_bytes = extent{256} << 10;
/// Of a block: inputs and outputs beside near weights; inputs and a panel of far ones; converted
/// inputs.
inline constexpr extent near_block_bytes = extent{256} << 10, far_block_bytes = extent{768} << 10,
                        copied_block_bytes = extent{384} << 10;

inline extent block_budget(conv_plan const& plan, bool far) {
  if (plan.copied) return copied_block_bytes;
  if (!far) return near_block_bytes;
  return (std::max)(near_block_bytes,
                    far_block_bytes - plan.panels(conv_run::pixel).panel_bytes(tile_vectors));
}

/// Bytes of outputs that come with one pixel of the source.
inline extent output_bytes(conv_plan const& plan) {
  extent bytes = 0;
  for (conv_access const& a : plan.accesses)
    if (a.output) bytes += plan.groups * plan.out * size_of(a.type);
  return bytes / (extent{plan.attrs.stride[0]} * plan.attrs.stride[1]);
}

}  // namespace detail

/// Several images only where they are whole. Each further block reads far weights once more; without
/// blocks, each further panel reads the source once more.
inline block_extents block_of(conv_plan const& plan, conv_geometry const& g) {
  if (g.empty()) return {};
  bool const far = plan.packed_bytes() > detail::near_bytes;
  extent const pixel = plan.pixel_bytes + (plan.copied || far ? 0 : detail::output_bytes(plan));
  extent const budget = detail::block_budget(plan, far);
  block_extents e = block_within(g.y, g.x, pixel, budget, tile_rows(plan.level));
  if (plan.copied) return e;
  extent const inputs = g.y.used() * g.x.used();
  extent blocks = ((g.y.out - 1) / e.rows + 1) * ((g.x.out - 1) / e.columns + 1);
  if (blocks == 1 && inputs * pixel > 0)
    e.images = std::clamp(budget / (inputs * pixel), extent{1}, g.images);
  blocks *= (g.images - 1) / e.images + 1;
  extent const panels = (plan.out - 1) / tile_columns(plan.level) + 1;
  bool const whole = far && (blocks - 1) * plan.packed_bytes() >
                                (panels - 1) * g.images * inputs * plan.pixel_bytes;
  return whole ? block_extents{g.y.out, g.x.out, g.images} : e;
}

/// Calls f(block) for blocks that together are all images.
template <class F>
void for_each_block(conv_geometry const& g, block_extents const& e, F&& f) {
  for (extent image = 0; image < g.images; image += e.images)
    for (extent y = 0; y < g.y.out; y += e.rows)
      for (extent x = 0; x < g.x.out; x += e.columns)
        f(conv_block{image, (std::min)(image + e.images, g.images), y,
                     (std::min)(y + e.rows, g.y.out), x, (std::min)(x + e.columns, g.x.out)});
}

/// The inputs of a block: those of its images that its taps may meet.
inline conv_block inputs_of(conv_geometry const& g, conv_block const& b) {
  auto const first = [](conv_axis const& a, extent o) {
    return std::clamp(a.start(o), extent{0}, a.in);
  };
  auto const last = [](conv_axis const& a, extent o) {
    return std::clamp(a.start(o - 1) + a.reach(1), extent{0}, a.in);
  };
  return {b.image0, b.image1, first(g.y, b.y0), last(g.y, b.y1), first(g.x, b.x0), last(g.x, b.x1)};
}

inline conv_run run_of(conv_plan const& plan, conv_geometry const& g, conv_strip const& s) {
  return plan.whole_rows && g.x.all_inside(s.columns) ? conv_run::kernel_row : conv_run::pixel;
}

// ---- rules -------------------------------------------------------------------------------------

namespace detail {

inline verdict check_conv_source(problem const& p, int src) {
  tensor_desc const& d = p.operands[at(src)];
  if (!d.strides.empty() && d.dims[3] > 1 && d.strides[3] != 1)
    return refuse("operand " + quoted(p.chain.operands[src].name) + " has the stride " +
                  std::to_string(d.strides[3]) + " along its channels; 1 is wanted");
  return verdict::yes();
}

inline verdict check_conv_weight(problem const& p, int weight, contraction_attrs const& a,
                                 isa level) {
  operand const& o = p.chain.operands[weight];
  tensor_desc const& d = p.operands[at(weight)];
  if (o.role != role::weight)
    return refuse("operand " + quoted(o.name) + " of conv2d is a " + std::string(name_of(o.role)) +
                  "; a weight is wanted");
  extent const out = d.dims[0] / a.groups;
  if (a.groups > 1 && out < lanes_of(level))
    return refuse("conv2d of " + std::to_string(a.groups) + " groups of " + std::to_string(out) +
                  " output channels; " + std::to_string(lanes_of(level)) +
                  " or more are wanted in a group");
  if (checked_mul(d.dims[2], d.dims[3]) > (std::numeric_limits<std::int32_t>::max)() / 16 ||
      checked_mul(d.dims[2], d.dims[3]) < 0)
    return refuse("a kernel row of " + std::to_string(d.dims[2]) + " x " +
                  std::to_string(d.dims[3]) + " elements is more than 2^27");
  return verdict::yes();
}

}  // namespace detail

inline verdict supports_conv(problem const& p, isa level) {
  if (verdict v = detail::check_matmul_chain(p.chain, level); !v) return v;
  matmul_operands const o = operands_of(p.chain);
  if (verdict v = detail::check_conv_source(p, o.src); !v) return v;
  if (verdict v = detail::check_conv_weight(p, o.weight, o.attrs, level); !v) return v;
  return detail::check_matmul_layout(p, epilogue(p.chain, p.chain.anchor()));
}

// ---- plan --------------------------------------------------------------------------------------

namespace detail {

inline void add_accesses(conv_plan& plan, problem const& p, epilogue const& e) {
  auto const add = [&](bool output, int i, tensor_desc const& d) {
    bool moves = false;
    for (int j = 0; j + 1 < d.dims.ssize(); ++j) moves = moves || d.dims[j] != 1;
    plan.accesses.push_back({output, i, d.type, columns_of(d, p.domain.back()), moves});
  };
  for (int i = 0; i < p.chain.outputs.ssize(); ++i) add(true, i, p.outputs[at(i)]);
  for (int i = 0; i < p.chain.operands.ssize(); ++i)
    if (e.reads(i)) add(false, i, p.operands[at(i)]);
}

/// Adjacent kernel columns meet adjacent memory.
inline bool rows_are_runs(conv_plan const& plan, tensor_desc const& src) {
  if (plan.groups > 1 || plan.kernel_columns == 1 || plan.attrs.dilation[1] != 1) return false;
  if (plan.copied) return plan.pixel_bytes == plan.in * size_of(row_of(plan.kind).a);
  return src.strides.empty() || src.dims[2] <= 1 || src.strides[2] == plan.in;
}

/// Which numbers of pixels each kernel's tiles have.
inline void set_counts(conv_plan& plan, problem const& p) {
  row_counts counts[2] = {};
  int const tile = tile_rows(plan.level);
  if (is_dynamic(p)) {
    counts[0] = all_counts(tile);
    counts[1] = plan.whole_rows ? all_counts(tile) : 0;
  } else if (conv_geometry const g = geometry_of(plan, p); !g.empty()) {
    for_each_block(g, block_of(plan, g), [&](conv_block const& b) {
      for_each_strip(g.y, g.x, b, tile, [&](conv_strip const& s) {
        counts[static_cast<int>(run_of(plan, g, s))] |= counts_of(split_rows(s.pixels, tile));
      });
    });
  }
  for (conv_run r : {conv_run::pixel, conv_run::kernel_row})
    for (bool tail : {false, true})
      if ((tail ? plan.out % tile_columns(plan.level) : plan.out / tile_columns(plan.level)) > 0)
        plan.shapes[conv_kernel_index(r, tail)].counts = counts[static_cast<int>(r)];
}

inline void set_shapes(conv_plan& plan, epilogue const& e) {
  for (conv_run r : {conv_run::pixel, conv_run::kernel_row})
    for (bool tail : {false, true}) {
      conv_shape& s = plan.shapes[conv_kernel_index(r, tail)];
      panel_layout const panels = plan.panels(r);
      s.level = plan.level;
      s.kind = plan.kind;
      s.looped_epilogue = wants_loop(e, plan.level);
      s.vectors = tail ? panels.tail_vectors() : tile_vectors;
      s.tail_lanes = tail ? panels.tail_lanes() : 0;
      s.run = plan.run(r);
    }
}

}  // namespace detail

/// Only where supports_conv() says yes.
inline conv_plan plan_conv(problem const& p, epilogue const& e, isa level) {
  using detail::at;
  matmul_operands const o = operands_of(p.chain);
  tensor_desc const& src = p.operands[at(o.src)];
  tensor_desc const& weight = p.operands[at(o.weight)];
  conv_plan plan;
  plan.src = o.src;
  plan.weight = o.weight;
  plan.attrs = o.attrs;
  plan.level = level;
  plan.kind = product_for(level, src.type, weight.type);
  plan.groups = o.attrs.groups;
  plan.out = weight.dims[0] / plan.groups;
  plan.kernel_rows = weight.dims[1];
  plan.kernel_columns = weight.dims[2];
  plan.in = weight.dims[3];
  dtype const a = row_of(plan.kind).a;
  plan.copied = src.type != a;
  plan.pixel_bytes =
      plan.groups * (plan.copied ? plan.padded_run(conv_run::pixel) : plan.in) * size_of(a);
  plan.whole_rows = detail::rows_are_runs(plan, src);
  detail::add_accesses(plan, p, e);
  detail::set_shapes(plan, e);
  detail::set_counts(plan, p);
  if (plan.copied) {
    conv_axis const y{.kernel = plan.kernel_rows,
                      .stride = plan.attrs.stride[0],
                      .dilation = plan.attrs.dilation[0]};
    conv_axis const x{.kernel = plan.kernel_columns,
                      .stride = plan.attrs.stride[1],
                      .dilation = plan.attrs.dilation[1]};
    plan.scratch_bytes = round_up(
        static_cast<std::size_t>(detail::copied_block_bytes +
                                 y.reach(1) * x.reach(tile_rows(level)) * plan.pixel_bytes),
        64);
  }
  return plan;
}

}  // namespace sinter::inline SINTER_ABI::jit
