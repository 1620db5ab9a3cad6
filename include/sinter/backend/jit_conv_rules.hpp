// The JIT backend's conv2d: which problems it takes, and the plan that each of them gets.
//
// Rules are about what generated code cannot do (channels that do not lie side by side) or would do
// so badly that another backend is the better choice (groups that fill less than half of a vector).
// A plan decides, once: whether the source is converted, which groups share a vector, which kernels
// there are and for which numbers of pixels. Read backend/jit_conv_plan.hpp for what its members
// mean.
#pragma once

#include <algorithm>
#include <limits>
#include <string>

#include "jit_conv_plan.hpp"

namespace sinter::inline SINTER_ABI::jit {

namespace detail {

inline verdict check_conv_source(problem const& p, int src) {
  tensor_desc const& d = p.operands[at(src)];
  if (!d.strides.empty() && d.dims[3] > 1 && d.strides[3] != 1)
    return refuse("operand " + in_quotes(p.chain.operands[src].name) + " has the stride " +
                  std::to_string(d.strides[3]) + " along its channels; 1 is wanted");
  return verdict::yes();
}

/// How many groups share a vector: as many as fit its lanes, and the source's lanes with their
/// inputs. 0: each has vectors of its own.
inline int groups_per_vector(extent groups, extent in, extent out, isa level, product kind) {
  if (groups == 1 || in == 0 || out == 0) return 0;
  extent const sources = vector_bytes_of(level) / size_of(row_of(kind).a);
  extent const n = (std::min)(lanes_of(level) / out, sources / in);
  return n > 1 ? static_cast<int>(n) : 0;
}

inline verdict check_conv_weight(problem const& p, int src, int weight, contraction_attrs const& a,
                                 isa level) {
  operand const& o = p.chain.operands[weight];
  tensor_desc const& d = p.operands[at(weight)];
  if (o.role != role::weight)
    return refuse("operand " + in_quotes(o.name) + " of conv2d is a " +
                  std::string(name_of(o.role)) + "; a weight is wanted");
  extent const in = d.dims[3], out = d.dims[0] / a.groups;
  product const kind = product_for(level, p.operands[at(src)].type, d.type);
  int const together = (std::max)(groups_per_vector(a.groups, in, out, level, kind), 1);
  if (a.groups > 1 && 2 * together * out < lanes_of(level))
    return refuse("conv2d of " + std::to_string(a.groups) + " groups of " + std::to_string(in) +
                  " input and " + std::to_string(out) + " output channels would fill " +
                  std::to_string(together * out) + " of " + std::to_string(lanes_of(level)) +
                  " lanes; half of them at least is wanted");
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
  if (verdict v = detail::check_conv_weight(p, o.src, o.weight, o.attrs, level); !v) return v;
  return detail::check_matmul_layout(p, epilogue(p.chain, p.chain.anchor()));
}

namespace detail {

/// Bytes from pixel to pixel of a row, as the code reads them.
inline extent column_bytes(conv_plan const& plan, tensor_desc const& src) {
  if (plan.copied) return plan.pixel_bytes;
  return src.strides.empty() ? src.dims[3] * size_of(src.type) : image_stride(src, 2);
}

/// Kernel columns can be taken together: code for narrow groups is made for their distance, and has
/// a copy of its innermost loop for each; other code wants adjacent memory.
inline bool rows_are_runs(conv_plan const& plan, tensor_desc const& src) {
  if (plan.narrow()) {
    extent const reach = (plan.tile() - 1) * extent{plan.attrs.stride[1]} +
                         (plan.kernel_columns - 1) * plan.attrs.dilation[1];
    extent const bytes = checked_mul(reach + 1, column_bytes(plan, src));
    return plan.kernel_columns > 1 && plan.kernel_columns <= 16 && bytes >= 0 &&
           bytes <= (std::numeric_limits<std::int32_t>::max)();
  }
  if (plan.groups > 1 || plan.kernel_columns == 1 || plan.attrs.dilation[1] != 1) return false;
  if (plan.copied) return plan.pixel_bytes == plan.in * size_of(row_of(plan.kind).a);
  return src.strides.empty() || src.dims[2] == 1 || src.strides[2] == plan.in;
}

/// Tiles times taps of one image: how often a step of a panel is read.
inline extent panel_reads(conv_plan const& plan, conv_geometry const& g) {
  extent reads = 0;
  conv_block const all{0, 1, 0, g.y.out, 0, g.x.out};
  for_each_strip(plan, g, all, [&](conv_strip const& s, conv_run) {
    reads += s.lines * tiles_of(s.pixels, plan.tile()) * s.rows.count() * s.columns.count();
  });
  return reads;
}

/// Takes lines whole where that saves reads of panels, and a kernel column is work enough.
inline void set_lines(conv_plan& plan, problem const& p) {
  constexpr extent least_channels = 32;  // measured: 16 of f32 lose a tenth, 32 of bf16 gain
  if (is_dynamic(p) || plan.narrow() || plan.tiles() || plan.kernel_columns == 1) return;
  if (plan.in < least_channels) return;
  conv_geometry const g = geometry_of(plan, p);
  if (g.empty() || block_of(plan, g).columns < g.x.out) return;
  line_tiles const line = tiles_of_line(g.x, plan.tile());
  if (line.empty()) return;
  extent const in_pieces = panel_reads(plan, g);
  plan.lines = true;
  plan.lines = panel_reads(plan, g) < in_pieces;
  if (!plan.lines) return;
  plan.whole_rows = false;
  for (conv_shape& s : plan.shapes) s.line = line;
}

/// The numbers of pixels that tiles of a block have, for each kind of run.
inline void add_counts(conv_plan const& plan, conv_geometry const& g, conv_block const& b,
                       row_counts (&counts)[2]) {
  for_each_strip(plan, g, b, [&](conv_strip const& s, conv_run r) {
    counts[static_cast<int>(r)] |= counts_of(split_rows(s.pixels, plan.tile()));
  });
}

/// Which numbers of pixels each kernel's tiles have.
inline void set_counts(conv_plan& plan, problem const& p) {
  row_counts counts[2] = {};
  int const tile = plan.tile();
  if (plan.tiles()) {
    counts[0] = 1;  // one code for all
    counts[1] = plan.whole_rows ? 1 : 0;
  } else if (is_dynamic(p)) {
    counts[0] = all_counts(tile);
    counts[1] = plan.whole_rows ? all_counts(tile) : 0;
  } else if (conv_geometry const g = geometry_of(plan, p); !g.empty()) {
    block_extents const e = block_of(plan, g);
    for (extent n = 0; n < block_count(g, e); ++n) add_counts(plan, g, nth_block(g, e, n), counts);
  }
  for (conv_run r : {conv_run::pixel, conv_run::kernel_row})
    for (bool tail : {false, true})
      if (plan.has_panel(tail))
        plan.shapes[conv_kernel_index(r, tail)].counts = counts[static_cast<int>(r)];
}

/// Of a panel of so many columns.
inline conv_groups groups_of(conv_plan const& plan, conv_run r, extent columns, extent column) {
  conv_groups g;
  g.spread = plan.spread;
  extent const out = plan.all_out / plan.attrs.groups;
  g.in = static_cast<int>(plan.in);
  g.out = static_cast<int>(out);
  g.per_vector = plan.per_vector;
  g.in_last = static_cast<int>(columns / out - 1) % plan.per_vector + 1;
  if (r == conv_run::pixel) return g;
  g.taps = static_cast<int>(plan.kernel_columns);
  g.stride = plan.attrs.stride[1];
  g.dilation = plan.attrs.dilation[1];
  g.column = column;
  return g;
}

/// What each tile of narrow groups prefetches, so that those of a panel together prefetch the next
/// one's inputs and weights.
inline void set_ahead(conv_plan& plan, problem const& p) {
  constexpr extent most = 32, lines_of_unknown = 4;
  extent inputs = extent{plan.tile()} * plan.attrs.stride[0] * plan.attrs.stride[1];
  extent lines = lines_of_unknown;
  if (conv_geometry g; !is_dynamic(p) && !(g = geometry_of(plan, p)).empty()) {
    conv_block b = nth_block(g, block_of(plan, g), 0);
    b.image1 = b.image0 + 1;
    extent tiles = 0;
    for_each_strip(plan, g, b, [&](conv_strip const& s, conv_run) {
      tiles += s.lines * tiles_of(s.pixels, plan.tile());
    });
    conv_block const in = inputs_of(g, b);
    inputs = tiles_of((in.y1 - in.y0) * (in.x1 - in.x0), static_cast<int>(tiles));
    lines = tiles_of(plan.panels(conv_run::pixel).bytes() / cache_line, static_cast<int>(tiles));
  }
  for (conv_shape& s : plan.shapes) {
    s.groups.inputs_ahead = plan.copied ? 0 : static_cast<int>((std::min)(inputs, most));
    s.groups.weights_ahead = static_cast<int>((std::min)(lines, most));
  }
}

inline void set_shapes(conv_plan& plan, epilogue const& e, tensor_desc const& src) {
  int const lanes = lanes_of(plan.level);
  for (conv_run r : {conv_run::pixel, conv_run::kernel_row})
    for (bool tail : {false, true}) {
      if (!plan.has_panel(tail)) continue;
      conv_shape& s = plan.shapes[conv_kernel_index(r, tail)];
      extent const columns = plan.panel_columns(tail);
      s.level = plan.level;
      s.kind = plan.kind;
      s.looped_epilogue = wants_loop(e, plan.level);
      s.vectors = static_cast<int>((columns + lanes - 1) / lanes);
      s.tail_lanes = static_cast<int>(columns % lanes);
      if (plan.narrow()) {
        s.groups = groups_of(plan, r, columns, column_bytes(plan, src));
        continue;
      }
      s.run = plan.run(r);
      extent const of_row = plan.run(conv_run::kernel_row);
      s.sums_by_row = of_row >= sum_block && of_row * plan.kernel_rows > 2 * sum_block;
    }
}

/// Lanes keep their inputs where groups fill whole panels; that code has a copy for each column.
inline group_spread spread_of(conv_plan const& plan) {
  constexpr extent most_taps = 7;
  bool const pairs = plan.kind == product::bf16_pairs;
  if (!has_masks(plan.level) || plan.in != plan.out || plan.kernel_columns > most_taps)
    return group_spread::across;
  bool const fits = (pairs || plan.kind == product::f32) &&
                    (plan.in == 4 || plan.in == 8 || plan.in == 16) &&
                    plan.groups * plan.out % (pairs ? 32 : 16) == 0;
  return fits ? group_spread::in_place : group_spread::across;
}

/// Makes panels of narrow groups the plan's groups.
inline void join_groups(conv_plan& plan) {
  plan.spread = spread_of(plan);
  plan.per_vector = plan.spread == group_spread::in_place
                        ? lanes_of(plan.level) / static_cast<int>(plan.out)
                        : groups_per_vector(plan.groups, plan.in, plan.out, plan.level, plan.kind);
  if (!plan.narrow()) return;
  bool const fills = plan.per_vector * plan.out == lanes_of(plan.level);
  bool const single = plan.spread == group_spread::in_place && plan.kind == product::f32;
  extent const joined = (fills && !single ? tile_vectors : 1) * plan.per_vector;
  plan.source_runs = 1;
  plan.source_run = plan.groups * plan.in;
  plan.groups = (plan.groups + joined - 1) / joined;
  plan.group_source = joined * plan.in;
  plan.out *= joined;
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
  plan.all_out = weight.dims[0];
  dtype const a = row_of(plan.kind).a;
  plan.copied = src.type != a;
  plan.source_runs = plan.groups;
  plan.source_run = plan.in;
  detail::join_groups(plan);
  extent const padded = plan.copied ? plan.padded(plan.source_run) : plan.source_run;
  if (!plan.narrow()) plan.group_source = padded;
  plan.pixel_bytes = plan.source_runs * padded * size_of(a);
  plan.whole_rows = detail::rows_are_runs(plan, src);
  plan.accesses = detail::accesses_of(p, e);
  detail::set_lines(plan, p);
  detail::set_shapes(plan, e, src);
  detail::set_counts(plan, p);
  if (plan.narrow()) detail::set_ahead(plan, p);
  if (plan.copied) {
    conv_axis const y{.kernel = plan.kernel_rows,
                      .stride = plan.attrs.stride[0],
                      .dilation = plan.attrs.dilation[0]};
    conv_axis const x{.kernel = plan.kernel_columns,
                      .stride = plan.attrs.stride[1],
                      .dilation = plan.attrs.dilation[1]};
    plan.scratch_bytes =
        round_up(static_cast<std::size_t>(detail::copied_block_bytes +
                                          y.reach(1) * x.reach(plan.tile()) * plan.pixel_bytes),
                 64);
  }
  return plan;
}

}  // namespace sinter::inline SINTER_ABI::jit
