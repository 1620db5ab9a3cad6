// The JIT backend's conv2d: how one is laid out in memory and cut into blocks.
//
// conv_plan is what is known when a kernel is built, conv_geometry where everything lies in one
// call. Source, residuals and outputs may have any strides but along the channels, where elements
// lie side by side. Weights are packed once, kernel rows around kernel columns around channels.
// Where pixels are adjacent, a kernel row's elements are one run from the first channel of its
// first pixel to the last of its last; strips at the left and right border, which miss taps, take
// them pixel by pixel. Groups narrower than a vector are put side by side in its lanes
// (jit/conv_groups.hpp). Read backend/jit_conv_rules.hpp for who makes a plan, backend/jit_conv.hpp
// for the calls.
#pragma once

#include <algorithm>
#include <string>
#include <utility>

#include "../jit/conv_amx.hpp"
#include "../jit/conv_geometry.hpp"
#include "../jit/conv_lanes.hpp"
#include "../jit/conv_lines.hpp"
#include "../plan/problem.hpp"
#include "backend.hpp"
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
  epilogue_accesses accesses;
  int src = 0, weight = 0;  ///< operands of the chain
  contraction_attrs attrs;
  isa level = isa::avx2;
  product kind = product::f32;
  extent groups = 1, in = 0, out = 0;  ///< channels of a group
  /// Narrow groups that share a vector; 0: none do. All that share a panel then count as one group
  /// here: `out` is the panel's, `in` still that of each.
  int per_vector = 0;
  group_spread spread = group_spread::across;
  extent all_out = 0;       ///< output channels of all groups; the last group may have fewer
  extent group_source = 0;  ///< channels of the source from group to group
  extent kernel_rows = 1, kernel_columns = 1;
  bool copied = false;  ///< the source is converted, block by block
  /// Runs of channels of a pixel, each padded to whole steps where it is copied.
  extent source_runs = 1, source_run = 0;
  bool whole_rows = false;  ///< runs of kernel rows are possible
  bool lines = false;       ///< strips are whole lines (jit/conv_lines.hpp)
  extent pixel_bytes = 0;   ///< of a copied pixel; of a pixel's own channels otherwise
  std::size_t scratch_bytes = 0;

  /// Rows of the source from the first to the last that an output meets.
  extent reach_rows() const { return (kernel_rows - 1) * attrs.dilation[0] + 1; }
  bool narrow() const { return per_vector > 0; }
  bool tiles() const { return kind == product::bf16_tiles; }
  int tile() const {
    if (spread == group_spread::in_place) return lane_tile_rows;
    return narrow() ? group_tile_rows(level) : tile_rows(level);
  }
  extent out_of(extent group) const { return (std::min)(out, all_out - group * out); }
  /// Columns of a whole panel, and of the one that remains.
  extent panel_columns(bool tail) const {
    extent const whole = narrow() ? out : tile_columns(level);
    return tail ? (narrow() ? all_out : out) % whole : whole;
  }
  bool has_panel(bool tail) const {
    return tail ? out > 0 && panel_columns(true) > 0
                : (narrow() ? all_out : out) >= panel_columns(false);
  }

  extent panels_per_group() const {
    return (out + panel_columns(false) - 1) / panel_columns(false);
  }
  /// Panels i and i + 1, counted over all groups, are whole ones of the same group.
  bool whole_pair(extent i) const {
    extent const group = i / panels_per_group(), nth = i % panels_per_group();
    return (nth + 2) * panel_columns(false) <= out_of(group);
  }

  /// Elements of a run in the source.
  extent run(conv_run r) const { return r == conv_run::pixel ? in : in * kernel_columns; }
  extent runs(conv_run r) const {
    return r == conv_run::pixel ? kernel_rows * kernel_columns : kernel_rows;
  }
  /// ... and in a panel, where a run is whole steps.
  extent padded_run(conv_run r) const {
    if (narrow() && r == conv_run::kernel_row) return kernel_columns * padded(in);
    return padded(run(r));
  }
  extent padded(extent elements) const { return padded_k(kind, elements); }
  /// Of one group.
  panel_layout panels(conv_run r, extent group = 0) const {
    return {kind, lanes_of(level), runs(r) * padded_run(r), out_of(group)};
  }
  /// Panels of both kinds of run are the same bytes where no run is padded.
  bool both_packed() const {
    return whole_rows && !narrow() && padded_run(conv_run::pixel) != run(conv_run::pixel);
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

/// `p` has no dynamic extent. Its padding may be less than that of the plan, at each side.
inline conv_geometry geometry_of(conv_plan const& plan, problem const& p) {
  using detail::at;
  conv_geometry g;
  tensor_desc const& src = p.operands[at(plan.src)];
  contraction_attrs const& a = p.chain.contractions[0];
  g.images = p.domain[0];
  g.y = {src.dims[1], p.domain[1], plan.kernel_rows, a.stride[0], a.dilation[0], a.pad_begin[0]};
  g.x = {src.dims[2], p.domain[2], plan.kernel_columns, a.stride[1], a.dilation[1], a.pad_begin[1]};
  g.src = detail::image_strides(src);
  for (int i = 0; i < plan.accesses.ssize(); ++i) {
    epilogue_access const& access = plan.accesses[i];
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
  if (plan.narrow()) return far_block_bytes;
  if (!far) return near_block_bytes;
  return (std::max)(near_block_bytes,
                    far_block_bytes - plan.panels(conv_run::pixel).panel_bytes(tile_vectors));
}

/// Bytes of outputs that come with one pixel of the source.
inline extent output_bytes(conv_plan const& plan) {
  extent bytes = 0;
  for (epilogue_access const& a : plan.accesses)
    if (a.output) bytes += plan.all_out * size_of(a.type);
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
  block_extents e = block_within(g.y, g.x, pixel, budget, plan.tile());
  if (plan.copied) return e;
  extent const inputs = g.y.used() * g.x.used();
  extent blocks = ((g.y.out - 1) / e.rows + 1) * ((g.x.out - 1) / e.columns + 1);
  if (blocks == 1 && inputs * pixel > 0)
    e.images = std::clamp(budget / (inputs * pixel), extent{1}, g.images);
  blocks *= (g.images - 1) / e.images + 1;
  extent const panels = (plan.out - 1) / plan.panel_columns(false) + 1;
  bool const whole =
      far && !plan.narrow() &&
      (blocks - 1) * plan.packed_bytes() > (panels - 1) * g.images * inputs * plan.pixel_bytes;
  return whole ? block_extents{g.y.out, g.x.out, g.images} : e;
}

inline extent block_count(conv_geometry const& g, block_extents const& e) {
  auto const count = [](extent all, extent each) { return (all + each - 1) / each; };
  return count(g.images, e.images) * count(g.y.out, e.rows) * count(g.x.out, e.columns);
}
/// Blocks 0, 1, ..., block_count() - 1 together are all images.
inline conv_block nth_block(conv_geometry const& g, block_extents const& e, extent n) {
  extent const across = (g.x.out + e.columns - 1) / e.columns;
  extent const down = (g.y.out + e.rows - 1) / e.rows;
  extent const x = n % across * e.columns, y = n / across % down * e.rows,
               image = n / across / down * e.images;
  return {image, (std::min)(image + e.images, g.images), y, (std::min)(y + e.rows, g.y.out),
          x,     (std::min)(x + e.columns, g.x.out)};
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

/// Calls f(block) for blocks that together are these rows of an image of `height` x `width` outputs, which geometry_of()
/// may have folded.
template <class F>
void for_each_block_of(conv_geometry const& g, block_extents const& e, extent height, extent width,
                       extent image, row_range rows, F&& f) {
  bool const folded = g.y.out != height || g.x.out != width;
  extent const before = folded && g.x.out > height * width ? image * height * width : 0;
  extent const image0 = folded && g.x.out > height * width ? 0 : image;
  extent const y0 = folded ? 0 : rows.first, y1 = folded ? 1 : rows.last;
  extent const x0 = folded ? before + rows.first * width : 0;
  extent const x1 = folded ? before + rows.last * width : width;
  if (rows.count() == 0) return;
  for (extent y = y0; y < y1; y += e.rows)
    for (extent x = x0; x < x1; x += e.columns)
      f(conv_block{image0, image0 + 1, y, (std::min)(y + e.rows, y1), x,
                   (std::min)(x + e.columns, x1)});
}

inline conv_run run_of(conv_plan const& plan, conv_geometry const& g, conv_strip const& s) {
  return plan.whole_rows && g.x.all_inside(s.columns) ? conv_run::kernel_row : conv_run::pixel;
}

/// Calls f(strip, run) for strips that together are one image of the block.
template <class F>
void for_each_strip(conv_plan const& plan, conv_geometry const& g, conv_block const& b, F&& f) {
  if (plan.lines)
    return for_each_line(g.y, g.x, b, [&](conv_strip const& s) { f(s, conv_run::pixel); });
  for_each_strip(g.y, g.x, b, plan.tiles() ? amx_rows : plan.tile(), plan.narrow(),
                 [&](conv_strip const& s) { f(s, run_of(plan, g, s)); });
}

}  // namespace sinter::inline SINTER_ABI::jit
