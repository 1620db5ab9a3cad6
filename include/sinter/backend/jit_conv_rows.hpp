// The JIT backend's reductions behind a conv2d, depthwise ones too: the loop over blocks of pixels.
//
// A block's pixels are the rows that are reduced, its channels their columns. Whole lines where
// scratch holds them, whole images where it holds several; blocks are found anew for the extents of
// each call, so all of them may be dynamic but the channels. The product's half is a convolution of
// a part of the image, whose padding is what the part lacks. How a block is computed is
// backend/jit_reduced.hpp's business, how the chain is cut backend/jit_rows_cut.hpp's.
#pragma once

#include <algorithm>
#include <memory>
#include <utility>

#include "jit_pooled_plan.hpp"
#include "jit_reduced.hpp"

namespace sinter::inline SINTER_ABI::jit {

namespace detail {

/// An operand or output within a block of the extents `domain`.
inline tensor_desc block_desc(tensor_desc d, shape const& domain) {
  for (int axis = 0, i = d.dims.ssize() - 4; axis < 3; ++axis, ++i)
    if (i >= 0 && d.dims[i] != 1) d.dims[i] = domain[axis];
  return d;
}

/// Of an axis of the source: what a block sees that begins at output `first`.
struct source_part {
  extent from = 0, size = 0, pad = 0;
};
inline source_part part_of_source(extent size, extent first, extent stride, extent pad) {
  extent const start = first * stride - pad, from = (std::max)(start, extent{0});
  return {from, size == dynamic ? dynamic : (std::max)(size - from, extent{0}), from - start};
}

/// Where in the source the part of a block begins, in bytes.
struct block_origin {
  extent image = 0, y = 0, x = 0;

  extent in(tensor_desc const& d) const {
    return image * image_stride(d, 0) + y * image_stride(d, 1) + x * image_stride(d, 2);
  }
};

/// The problems of the block of extents `domain` that begins at an output. Gives where its part of
/// the source begins.
inline block_origin set_block(rows_cut& cut, problem const& p, shape const& domain,
                              block_origin const& first) {
  auto const desc = [&](bool output, int i) {
    return block_desc(output ? p.outputs[at(i)] : p.operands[at(i)], domain);
  };
  extent const pixel = cut.live_stride;
  extent const line = domain[2] == dynamic ? 0 : domain[2] * pixel;
  extent const image = domain[1] == dynamic ? 0 : domain[1] * line;
  set_halves(cut, domain, {image, line, pixel, 1}, desc);

  matmul_operands const o = operands_of(p.chain);
  cut.product.operands[at(o.weight)] = p.operands[at(o.weight)];
  tensor_desc& src = cut.product.operands[at(o.src)];
  src = p.operands[at(o.src)];
  contraction_attrs& attrs = cut.product.chain.contractions[0];
  source_part const y =
      part_of_source(src.dims[1], first.y, o.attrs.stride[0], o.attrs.pad_begin[0]);
  source_part const x =
      part_of_source(src.dims[2], first.x, o.attrs.stride[1], o.attrs.pad_begin[1]);
  src.dims[0] = domain[0];
  src.dims[1] = domain[1] == dynamic ? dynamic : y.size;
  src.dims[2] = domain[2] == dynamic ? dynamic : x.size;
  attrs.pad_begin[0] = static_cast<int>(y.pad);
  attrs.pad_begin[1] = static_cast<int>(x.pad);
  return {first.image, y.from, x.from};
}

/// n in pieces of equal size, at most `most`.
inline extent even_piece(extent n, extent most) {
  extent const pieces = (n + most - 1) / most;
  return pieces < 2 ? (std::max)(n, extent{1}) : (n + pieces - 1) / pieces;
}

/// Images, lines and columns of a block of at most `pixels` pixels.
inline block_extents block_of_pixels(shape const& domain, extent pixels) {
  block_extents e;
  e.columns = even_piece(domain[2], pixels);
  if (e.columns < domain[2]) return e;
  e.rows = even_piece(domain[1], (std::max)(extent{1}, pixels / e.columns));
  if (e.rows < domain[1]) return e;
  e.images = even_piece(domain[0], (std::max)(extent{1}, pixels / (e.rows * e.columns)));
  return e;
}

/// The cut of a problem for a build: its halves are those that kernels are built for.
inline result<rows_cut> cut_conv_rows(problem const& p) {
  rows_cut cut;
  if (status st = cut_at_reductions(p, cut); !st.ok()) return st.error();
  tensor_desc const& weight = p.operands[at(operands_of(p.chain).weight)];
  bool const far = element_count(weight.dims) * size_of(weight.type) > near_weight_bytes;
  extent const pixel_bytes = (std::max)(extent{4}, cut.live * cut.live_stride * 4);
  cut.block_rows =
      (std::max)(extent{1}, (far ? far_pooled_bytes : pooled_block_bytes) / pixel_bytes);
  shape domain = p.domain;
  bool whole = !is_dynamic(p);
  if (whole) {
    block_extents const e = block_of_pixels(domain, cut.block_rows);
    whole = e.images >= domain[0] && e.rows >= domain[1] && e.columns >= domain[2];
    if (whole) cut.block_rows = (std::max)(extent{1}, domain[0] * domain[1] * domain[2]);
  }
  for (int axis = 0; !whole && axis < 3; ++axis)
    if (domain[axis] != 1) domain[axis] = dynamic;
  set_block(cut, p, domain, {});
  return cut;
}

}  // namespace detail

inline verdict supports_conv_rows(problem const& p, isa level) {
  if (verdict v = detail::check_contraction(p.chain); !v) return v;
  result<rows_cut> const cut = detail::cut_conv_rows(p);
  if (!cut) return verdict::no(cut.error().message);
  if (verdict v = detail::check_reduced(p, *cut); !v) return v;
  if (verdict v = detail::supports_front(cut->product, level); !v) return v;
  return supports_rows(cut->rows, level);
}

class conv_rows_invocation final : public reduced_invocation {
 public:
  /// `block`: its problems are those of the block that is computed.
  conv_rows_invocation(std::shared_ptr<reduced_code const> built, rows_cut const& block,
                       reduced_halves halves)
      : reduced_invocation(std::move(built), std::move(halves)), block_(block) {}

  void repoint(call_args const& args) noexcept override {
    begin(args);
    shape const& all = whole_->domain;
    each_ = detail::block_of_pixels(all, block_.block_rows);
    across_ = (all[2] + each_.columns - 1) / each_.columns;
    down_ = (all[1] + each_.rows - 1) / each_.rows;
    set_units((all[0] + each_.images - 1) / each_.images * down_ * across_);
  }

  int cut(int wanted) noexcept override {
    shape const& w = whole_->operands[detail::at(operands_of(whole_->chain).weight)].dims;
    return cut_units(static_cast<double>(element_count(whole_->domain)) *
                         static_cast<double>(w[1] * w[2] * w[3]),
                     wanted);
  }

 private:
  void point(extent unit) noexcept override {
    shape domain = whole_->domain;
    detail::block_origin const first{unit / across_ / down_ * each_.images,
                                     unit / across_ % down_ * each_.rows,
                                     unit % across_ * each_.columns};
    domain[0] = (std::min)(each_.images, domain[0] - first.image);
    domain[1] = (std::min)(each_.rows, domain[1] - first.y);
    domain[2] = (std::min)(each_.columns, domain[2] - first.x);
    detail::block_origin const source = detail::set_block(block_, *whole_, domain, first);

    chain const& c = whole_->chain;
    block_pointers to;
    for (int i = 0; i < c.operands.ssize(); ++i)
      to.operands[i] = moved(args_.operands[i], first.in(whole_->operands[detail::at(i)]));
    for (int i = 0; i < c.outputs.ssize(); ++i)
      to.outputs[i] = moved(args_.outputs[i], first.in(whole_->outputs[detail::at(i)]));
    matmul_operands const o = operands_of(c);
    to.src = moved(args_.operands[o.src], source.in(whole_->operands[detail::at(o.src)]));
    to.weight = args_.operands[o.weight];
    point_halves(block_, to);
  }

  rows_cut block_;
  block_extents each_;
  extent across_ = 0, down_ = 0;
};

class conv_rows_kernel final : public reduced_kernel {
 public:
  conv_rows_kernel(std::shared_ptr<reduced_code const> built, rows_cut const& cut)
      : reduced_kernel(std::move(built)), cut_(cut) {}

 private:
  std::unique_ptr<invocation> join(reduced_halves halves) const override {
    return std::unique_ptr<invocation>(new conv_rows_invocation(built_, cut_, std::move(halves)));
  }

  rows_cut cut_;
};

/// Only where supports_conv_rows() says yes. build_product(problem) makes the kernel of a
/// convolution without reductions.
template <class BuildProduct>
result<std::shared_ptr<kernel const>> build_conv_rows(problem const& p, isa level,
                                                      BuildProduct&& build_product) {
  result<rows_cut> cut = detail::cut_conv_rows(p);
  if (!cut) return cut.error();
  auto built = build_reduced(p, *cut, level, build_product);
  if (!built) return built.error();
  return std::shared_ptr<kernel const>(new conv_rows_kernel(std::move(*built), *cut));
}

}  // namespace sinter::inline SINTER_ABI::jit
