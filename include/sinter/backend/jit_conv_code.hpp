// The JIT backend's conv2d: a plan with its code, and the same for rows of images.
//
// Code is generated once for each set of tile sizes and taken from the process's cache after that. Rows of an image by
// themselves fall into other tiles than the whole call: these are generated too, and rows whose pixels would be summed
// in another order (few pixels in a tile have several sums each) are refused, so a pixel has the same bits either way.
// Read backend/jit_conv.hpp for the calls.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "../jit/kernel_key.hpp"
#include "../jit/process_cache.hpp"
#include "../plan/resolve.hpp"
#include "../plan/text.hpp"
#include "backend.hpp"
#include "jit_conv_rules.hpp"

namespace sinter::inline SINTER_ABI::jit {

/// The immutable side of a built convolution.
struct conv_code {
  problem wanted;
  conv_plan plan;
  std::shared_ptr<machine_code const> code[conv_kernels];
  std::size_t frame_bytes = 0;
  std::size_t amx_at = 0;  ///< amx_memory in the frame
  std::string note;        ///< why these instructions, where there was a choice
};

inline kernel_key key_of(conv_shape const& s, epilogue_accesses const& accesses, chain const& c) {
  kernel_key key('c');
  key.add(s.level).add(s.kind).add(s.looped_epilogue).add(s.vectors).add(s.tail_lanes);
  key.add(s.counts).add(s.run).add(s.sums_by_row).add(accesses.size());
  auto const& [spread, in, out, per_vector, in_last, taps, stride, dilation, column, inputs_ahead,
               weights_ahead] = s.groups;
  key.add(s.line.size());
  for (line_tile const& t : s.line) {
    key.add(t.rows).add(t.taps.size());
    for (pixel_range const& pixels : t.taps) key.add(pixels.first).add(pixels.last);
  }
  key.add(spread).add(in).add(out).add(per_vector).add(in_last);
  key.add(taps).add(stride).add(dilation).add(column);
  key.add(inputs_ahead).add(weights_ahead);
  for (epilogue_access const& a : accesses)
    key.add(a.output).add(a.index).add(a.type).add(a.across).add(a.moves);
  return key.add(c);
}

inline result<std::shared_ptr<machine_code const>> generate_conv(conv_shape const& s,
                                                                 epilogue_accesses const& accesses,
                                                                 problem const& p,
                                                                 epilogue const& e) {
  return process_cache().get(
      key_of(s, accesses, p.chain).text(), [&]() -> result<std::shared_ptr<machine_code const>> {
        assembler a(s.level);
        if (s.kind == product::bf16_tiles)
          conv_amx_generator(a, s, accesses, e).emit();
        else
          conv_generator(a, s, accesses, e).emit();
        auto const bytes = a.finish();
        if (!bytes) return bytes.error();
        return code_memory::process().publish(*bytes, profile_name(s.level, p));
      });
}

/// The code of each kernel that the plan has. A chain too long for an epilogue per pixel of a tile
/// gets it once, in a loop.
inline status generate_convs(conv_code& built) {
  problem const& p = built.wanted;
  epilogue const e(p.chain, p.chain.anchor());
  for (int i = 0; i < conv_kernels; ++i) {
    conv_shape& s = built.plan.shapes[i];
    if (s.counts == 0) continue;
    auto code = generate_conv(s, built.plan.accesses, p, e);
    if (!code && code.error().what == code::unsupported && !s.looped_epilogue) {
      s.looped_epilogue = true;
      code = generate_conv(s, built.plan.accesses, p, e);
    }
    if (!code) return code.error();
    built.code[i] = std::move(*code);
  }
  return {};
}

// ---- rows of images

namespace detail {

/// The problem with one image where their number is unknown.
inline result<problem> of_known_batch(problem const& p) {
  if (!is_dynamic(p)) return p;
  shape dims[max_operands];
  for (int i = 0; i < p.chain.operands.ssize(); ++i) {
    dims[i] = p.operands[at(i)].dims;
    if (dims[i].size() == 4 && dims[i][0] == dynamic) dims[i][0] = 1;
  }
  return resolve(p, array_view<shape const>(dims, p.chain.operands.size()));
}

/// How each pixel of the images is summed, in so many sums; images follow each other.
class sums_of_pixels {
 public:
  sums_of_pixels(conv_plan const& plan, conv_geometry const& g, extent height, extent width)
      : plan_(plan), g_(g), height_(height), width_(width) {}

  void take(conv_block const& b) {
    for_each_strip(plan_, g_, b, [&](conv_strip const& s, conv_run) {
      row_split const split = split_rows(s.pixels, plan_.tile());
      extent const high = (split.blocks - split.low_blocks) * split.high;
      for (extent image = b.image0; image < b.image1; ++image)
        for (extent line = 0; line < s.lines; ++line)
          for (extent i = 0; i < s.pixels; ++i)
            set(image, s.y + (s.down ? i : line), s.x + (s.down ? line : i),
                k_splits(i < high ? split.high : split.high - 1));
    });
  }
  std::vector<unsigned char> const& all() const { return sums_; }

 private:
  void set(extent image, extent y, extent x, int sums) {
    auto const i = static_cast<std::size_t>((image * height_ + y) * width_ + x);
    if (i >= sums_.size()) sums_.resize(i + 1);
    sums_[i] = static_cast<unsigned char>(sums);
  }

  conv_plan const& plan_;
  conv_geometry const& g_;
  extent height_, width_;
  std::vector<unsigned char> sums_;
};

/// A pixel of these rows by themselves is summed as in a whole call.
inline bool sums_alike(conv_plan const& plan, conv_geometry const& g, shape const& domain,
                       array_view<row_range const> ranges) {
  extent const height = domain[1], width = domain[2];
  block_extents const e = block_of(plan, g);
  sums_of_pixels whole(plan, g, height, width);
  for (extent n = 0; n < block_count(g, e); ++n) whole.take(nth_block(g, e, n));
  for (row_range rows : ranges)
    for (extent image = 0; image < domain[0]; ++image) {
      sums_of_pixels part(plan, g, height, width);
      for_each_block_of(g, e, height, width, image, rows,
                        [&](conv_block const& b) { part.take(b); });
      auto const first = static_cast<std::size_t>((image * height + rows.first) * width);
      for (std::size_t i = first; i < part.all().size(); ++i)
        if (part.all()[i] != whole.all()[i]) return false;
    }
  return true;
}

/// Adds the tiles of these rows to the plan, or says why a pixel would have other bits there.
inline status add_rows(conv_plan& plan, problem const& wanted, array_view<row_range const> ranges) {
  constexpr row_counts few = 0b1110;  // tiles of 1, 2 and 3 pixels
  shape const& d = wanted.domain;
  if (d[1] == dynamic || d[2] == dynamic)
    return sinter::detail::bad({"jit: images of ", to_string(d),
                                " are made row by row only where their height and "
                                "width are known"});
  result<problem> const p = of_known_batch(wanted);
  if (!p) return p.error();
  conv_geometry const g = geometry_of(plan, *p);
  if (g.empty() || plan.lines || plan.tiles()) return {};
  bool const splits = !plan.narrow();
  if (splits && d[0] == dynamic && g.y.out != d[1] && d[1] * d[2] % plan.tile() != 0)
    return sinter::detail::bad({"jit: of an unknown number of images of ", d[1] * d[2],
                                " pixels, which are no "
                                "whole tiles of ",
                                plan.tile(),
                                ", some pixels would be summed in another order row "
                                "by row"});
  row_counts counts[2] = {};
  block_extents const e = block_of(plan, g);
  for (row_range rows : ranges)
    for_each_block_of(g, e, d[1], d[2], 0, rows,
                      [&](conv_block const& b) { add_counts(plan, g, b, counts); });
  for (conv_run r : {conv_run::pixel, conv_run::kernel_row})
    for (bool tail : {false, true}) {
      row_counts& c = plan.shapes[conv_kernel_index(r, tail)].counts;
      if (plan.has_panel(tail)) c |= counts[static_cast<int>(r)];
    }
  row_counts all = counts[0] | counts[1];
  for (conv_shape const& s : plan.shapes) all |= is_dynamic(wanted) ? 0 : s.counts;
  if (splits && (all & few) != 0 && !sums_alike(plan, g, p->domain, ranges))
    return sinter::detail::bad(
        {"jit: tiles of fewer than 4 pixels would be summed in another order row by row"});
  return {};
}

}  // namespace detail

}  // namespace sinter::inline SINTER_ABI::jit
