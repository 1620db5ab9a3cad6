// The JIT backend's pooling behind other steps: which problems it takes, and how large its blocks are.
//
// The front half of a group is built for any number of rows and images, since blocks differ; its kernels are those of
// backend/jit_conv.hpp, jit_depthwise.hpp and jit_rows.hpp. Read backend/jit_pooled.hpp for the calls.
#pragma once

#include <algorithm>
#include <memory>
#include <string>

#include "jit_conv.hpp"
#include "jit_depthwise.hpp"
#include "jit_pool.hpp"
#include "jit_rows.hpp"
#include "jit_tiles.hpp"
#include "pool_split.hpp"

namespace sinter::inline SINTER_ABI::jit {

/// Windows of how many rows and images make a block.
struct pooled_blocks {
  extent rows = 1, images = 1;
  extent front_rows = 0;  ///< of one image that scratch has room for
  bool whole = false;     ///< each block is that many whole images, all extents known
};

namespace detail {

inline extent front_stride(chain const& front) {
  int const anchor = front.anchor();
  return anchor < 0 ? 1 : front.attrs(front.steps[anchor]).stride[0];
}
inline extent front_pad(chain const& front) {
  int const anchor = front.anchor();
  return anchor < 0 ? 0 : front.attrs(front.steps[anchor]).pad_begin[0];
}
inline bool is_source(chain const& front, int operand) {
  int const anchor = front.anchor();
  return anchor >= 0 && front.steps[anchor].args[0] == operand_ref(operand);
}
inline bool is_weight(chain const& front, int operand) {
  int const anchor = front.anchor();
  return anchor >= 0 && front.steps[anchor].args[1] == operand_ref(operand);
}

/// d, which broadcasts to images, of other numbers of images and rows where it has more than one.
inline void set_rows(tensor_desc& d, extent images, extent rows) {
  int const rank = d.dims.ssize();
  if (rank == 4 && d.dims[0] != 1) d.dims[0] = images;
  if (rank >= 3 && d.dims[rank - 3] != 1) d.dims[rank - 3] = rows;
}

/// Weights of more than this are read for whole images: a second-level cache (1 MiB here) would not keep them beside a
/// block. Blocks themselves leave room for what a convolution reads.
inline constexpr extent near_weight_bytes = extent{512} << 10,
                        pooled_block_bytes = extent{256} << 10, far_pooled_bytes = extent{2} << 20;

/// Of three blocks the first and the last see nothing in common, and the second sees no padding above the image.
inline extent least_rows(pool_split const& split, pool_axis const& axis) {
  extent const stride = front_stride(split.front.chain);
  extent const padded = (front_pad(split.front.chain) + stride - 1) / stride + axis.pad_begin;
  extent const rows = (std::max)(padded, axis.kernel - axis.stride);
  return (std::max)(extent{1}, (rows + axis.stride - 1) / axis.stride);
}

/// Only of static widths, and where a window is no image of unknown height.
inline pooled_blocks blocks_of(problem const& p, pool_split const& split) {
  step const& s = split.back.chain.steps[0];
  shape const& in = split.between.dims;
  extent const height = in[1], windows = p.domain[1];
  pool_axis const axis =
      pool_axis_of(s.code, split.back.chain.window(s), 0, height == dynamic ? 1 : height);
  extent const row = (std::max)(extent{1}, in[2] * in[3] * size_of(split.between.type));
  extent weights = 0;
  for (int i = 0; i < split.front.chain.operands.ssize(); ++i)
    if (is_weight(split.front.chain, i))
      weights = element_count(split.front.operands[at(i)].dims) *
                size_of(split.front.operands[at(i)].type);
  bool const far = weights > near_weight_bytes;
  extent const budget = far ? far_pooled_bytes : pooled_block_bytes;
  pooled_blocks b;
  b.rows = (std::max)(least_rows(split, axis), (budget / row - axis.kernel) / axis.stride + 1);
  if (windows != dynamic) {
    if (far) b.rows = windows;
    extent const blocks = (windows + b.rows - 1) / b.rows;
    b.rows = (std::max)(least_rows(split, axis), (windows + blocks - 1) / blocks);
  }
  b.front_rows = (b.rows - 1) * axis.stride + axis.kernel;
  if (height == dynamic) return b;
  b.front_rows = b.rows == windows ? axis.end(windows - 1) : (std::min)(b.front_rows, height);
  if (far && b.rows == windows) b.images = (std::max)(extent{1}, budget / (b.front_rows * row));
  if (p.domain[0] == dynamic) return b;
  b.images = std::clamp(b.images, extent{1}, (std::max)(extent{1}, p.domain[0]));
  while (p.domain[0] % b.images != 0) --b.images;
  b.whole = b.rows == windows;
  return b;
}

/// The front half as kernels are built for it: the rows of a block that is whole images, else any number of rows.
inline problem front_of(pool_split const& split, pooled_blocks const& b) {
  problem p = split.front;
  shape const& whole = split.between.dims;
  extent const images = whole[0] == 1 ? 1 : b.whole ? b.images : dynamic;
  extent const rows = whole[1] == 1 ? 1 : b.whole ? b.front_rows : dynamic;
  for (int i = 0; i < p.chain.operands.ssize(); ++i) {
    tensor_desc& d = p.operands[at(i)];
    if (is_weight(p.chain, i)) continue;
    if (is_source(p.chain, i)) {
      d.dims[0] = images;
      if (!b.whole) d.dims[1] = dynamic;
    } else {
      set_rows(d, images, rows);
    }
  }
  p.domain[0] = images;
  p.domain[1] = rows;
  for (int i = 0; i < p.chain.outputs.ssize(); ++i) p.outputs[at(i)].dims = p.domain;
  return p;
}

inline verdict supports_front(problem const& p, isa level) {
  int const anchor = p.chain.anchor();
  if (anchor < 0) return supports_rows(p, level);
  if (op const code = p.chain.steps[anchor].code; code != op::conv2d)
    return refuse("a pooling behind " + std::string(name_of(code)) + " is not generated");
  if (verdict v = check_contraction(p.chain); !v) return v;
  return is_depthwise(p) ? supports_depthwise(p, level) : supports_conv(p, level);
}
/// What a front half is computed with: tiles or vectors where it is a convolution.
inline product_level level_of_front(problem const& p, isa level) {
  bool const product = p.chain.anchor() >= 0 && !is_depthwise(p);
  return product ? level_of_product(p, level) : product_level{level, {}};
}
inline result<std::shared_ptr<kernel const>> build_front(problem const& p, product_level const& l) {
  if (p.chain.anchor() < 0) return build_rows(p, l.level);
  return is_depthwise(p) ? build_depthwise(p, l.level) : build_conv(p, l.level, l.why);
}

}  // namespace detail

/// A chain with a pooling, whatever stands before it.
inline verdict supports_pooled(problem const& p, isa level) {
  result<pool_split> const split = split_at_pooling(p);
  if (!split) return verdict::no(split.error().message);
  if (verdict v = supports_pool(split->back, level); !v || !split->has_front()) return v;
  shape const& in = split->between.dims;
  bool const whole = split->back.chain.steps[0].code == op::global_avg_pool;
  if (in[2] == dynamic || (whole && in[1] == dynamic))
    return detail::refuse("a pooling of a value of " + to_string(in) +
                          " that is made in blocks wants a width, and for the mean of an image a "
                          "height, that is known");
  pool_axis const rows = pool_axis_of(split->back.chain.steps[0].code,
                                      split->back.chain.window(split->back.chain.steps[0]), 0,
                                      in[1] == dynamic ? 1 : in[1]);
  bool const sees_all =
      in[1] != dynamic && rows.stride <= rows.kernel && rows.end(p.domain[1] - 1) == in[1];
  if (split->front.chain.outputs.size() > 1 && !sees_all)
    return detail::refuse(
        "a value from before a pooling that is stored too, and of which its windows may see only a "
        "part");
  pooled_blocks const blocks = detail::blocks_of(p, *split);
  return detail::supports_front(detail::front_of(*split, blocks), level);
}

}  // namespace sinter::inline SINTER_ABI::jit
