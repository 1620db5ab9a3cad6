// The JIT backend's pooling behind other steps of its group: block by block of rows, in cache.
//
// The front half (a convolution with its epilogue, or pointwise steps) writes the rows that a block of windows sees to
// scratch, the pooling reads them there; rows that the next block sees too are kept. Where the weights are too large
// to be read once for each block, a block is whole images. Blocks are the same for every number of threads, and so are
// the calls of the front half: how it sums a pixel may depend on the rows of a call. Of a convolution whose block begins
// inside the image a call has less padding above, or none. How the chain is cut is backend/pool_split.hpp's business.
#pragma once

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "jit_pooled_plan.hpp"

namespace sinter::inline SINTER_ABI::jit {

/// The immutable side.
struct pooled_code {
  problem wanted;
  pool_split split;
  pooled_blocks blocks;
  std::shared_ptr<pool_code const> pool;
  std::shared_ptr<kernel const> front;

  extent row_bytes() const {
    shape const& dims = split.between.dims;
    return dims[2] * dims[3] * size_of(split.between.type);
  }
  extent image_bytes() const { return blocks.front_rows * row_bytes(); }
  std::size_t front_scratch() const { return round_up(front->scratch_bytes(), 64); }
  std::size_t scratch_bytes() const {
    return front_scratch() + static_cast<std::size_t>(blocks.images * image_bytes());
  }
};

class pooled_invocation final : public invocation {
 public:
  pooled_invocation(std::shared_ptr<pooled_code const> built, std::unique_ptr<pool_invocation> pool,
                    std::unique_ptr<invocation> half)
      : invocation(&run_all),
        built_(std::move(built)),
        pool_(std::move(pool)),
        half_(std::move(half)),
        front_(detail::front_of(built_->split, built_->blocks)),
        back_(built_->split.back) {}

  void repoint(call_args const& args) noexcept override {
    args_ = args;
    whole_ = args.shapes != nullptr ? args.shapes : &built_->wanted;
    pool_split const& split = built_->split;
    parts_ = 1;
    for (int i = 0; i < front_.chain.operands.ssize(); ++i)
      front_.operands[detail::at(i)] =
          whole_->operands[detail::at(split.front_operands[detail::at(i)])];
    value_ref const pooled = whole_->chain.steps[whole_->chain.pooling()].args[0];
    image_ = value_dims(*whole_, pooled);
    call_args back;
    back_.domain = whole_->domain;
    for (int i = 0; i < back_.chain.operands.ssize(); ++i) {
      int const from = split.back_operands[detail::at(i)];
      back_.operands[detail::at(i)] =
          from < 0 ? dense_desc(split.between.type, image_) : whole_->operands[detail::at(from)];
      back.operands[i] = from < 0 ? nullptr : args.operands[from];
    }
    for (int i = 0; i < back_.chain.outputs.ssize(); ++i) {
      int const from = split.back_outputs[detail::at(i)];
      back_.outputs[detail::at(i)] = whole_->outputs[detail::at(from)];
      back.outputs[i] = args.outputs[from];
    }
    back.shapes = &back_;
    pool_->repoint(back);
    between_ = static_cast<std::byte*>(args.scratch) + built_->front_scratch();
  }

  /// By blocks; by images where the front half stores values of its own, each once.
  int cut(int wanted) noexcept override {
    double sums = static_cast<double>(element_count(image_));
    int const anchor = front_.chain.anchor();
    if (anchor >= 0) {
      shape const& w = front_.operands[detail::at(operands_of(front_.chain).weight)].dims;
      sums *= static_cast<double>(w[1] * w[2] * w[3]);
    }
    together_ = front_.chain.outputs.ssize() > 1 ? blocks_of_image() : 1;
    parts_ = static_cast<int>(std::clamp(blocks() / (std::max)(together_, extent{1}), extent{1},
                                         extent{worthwhile_parts(sums, wanted)}));
    return parts_;
  }
  sinter::code run_part(int part) noexcept override {
    extent const units = blocks() / (std::max)(together_, extent{1});
    return compute(units * part / parts_ * together_, units * (part + 1) / parts_ * together_);
  }
  sinter::code run_rows(call_args const& at, extent image, row_range) noexcept override {
    repoint(at);
    extent const each = blocks_of_image();
    return blocks() == 0 ? sinter::code::ok : compute(image * each, (image + 1) * each);
  }

 private:
  static sinter::code run_all(invocation& self) noexcept {
    auto& me = static_cast<pooled_invocation&>(self);
    return me.compute(0, me.blocks());
  }
  extent blocks_of_image() const noexcept {
    return (whole_->domain[1] + built_->blocks.rows - 1) / built_->blocks.rows;
  }
  extent blocks() const noexcept {
    extent const images = built_->blocks.images;
    if (whole_->domain[3] == 0) return 0;
    return (whole_->domain[0] + images - 1) / images * blocks_of_image();
  }

  /// Blocks first, first + 1, ..., last - 1: those of an image from above.
  sinter::code compute(extent first, extent last) noexcept {
    extent const each = blocks_of_image();
    for (extent n = first; n < last; ++n) {
      extent const image = n / each * built_->blocks.images;
      extent const images = (std::min)(built_->blocks.images, whole_->domain[0] - image);
      bool const goes_on = n > first && n % each > 0;
      if (sinter::code const c = one_block(image, images, n % each, goes_on); c != sinter::code::ok)
        return c;
    }
    return sinter::code::ok;
  }

  /// What two neighbours see is made in a call of its own, so that it is the same bits whoever makes it. `goes_on`:
  /// scratch holds it, since the block above was the last one.
  sinter::code one_block(extent image, extent images, extent n, bool goes_on) noexcept {
    pool_axis const& axis = pool_->geometry().y;
    extent const y = n * built_->blocks.rows;
    extent const end = (std::min)(y + built_->blocks.rows, whole_->domain[1]);
    extent const first = axis.first(y), last = axis.end(end - 1);
    extent const shared = n > 0 ? (std::max)(first, axis.end(y - 1)) : first;
    extent const next = end < whole_->domain[1] ? (std::min)(last, axis.first(end)) : last;
    if (goes_on)
      keep(images, first, shared);
    else
      held_ = first;
    extent const cuts[] = {goes_on ? shared : first, shared, next, last};
    for (int i = 0; i < 3; ++i)
      if (cuts[i] < cuts[i + 1])
        if (sinter::code const c = run_front(image, images, cuts[i], cuts[i + 1]);
            c != sinter::code::ok)
          return c;
    for (extent i = 0; i < images; ++i)
      pool_->rows_of_image(image + i, y, end,
                           between_ + i * built_->image_bytes() - held_ * built_->row_bytes());
    return sinter::code::ok;
  }
  /// Moves rows [first, last) to where a block begins.
  void keep(extent images, extent first, extent last) noexcept {
    extent const row = built_->row_bytes();
    for (extent i = 0; i < images && first < last; ++i) {
      std::byte* const to = between_ + i * built_->image_bytes();
      std::memmove(to, to + (first - held_) * row, static_cast<std::size_t>((last - first) * row));
    }
    held_ = first;
  }

  sinter::code run_front(extent image, extent images, extent first, extent last) noexcept {
    pool_split const& split = built_->split;
    extent const rows = last - first;
    extent const start =
        first * detail::front_stride(front_.chain) - detail::front_pad(split.front.chain);
    extent const pad = (std::max)(-start, extent{0});
    if (front_.chain.anchor() >= 0)
      front_.chain.contractions[0].pad_begin[0] = static_cast<int>(pad);
    call_args args;
    args.scratch = args_.scratch;
    for (int i = 0; i < front_.chain.operands.ssize(); ++i) {
      int const from = split.front_operands[detail::at(i)];
      tensor_desc const& whole = whole_->operands[detail::at(from)];
      tensor_desc& d = front_.operands[detail::at(i)];
      args.operands[i] = args_.operands[from];
      if (detail::is_weight(front_.chain, i)) continue;
      bool const source = detail::is_source(front_.chain, i);
      extent const at_row = source ? (std::max)(start, extent{0}) : first;
      args.operands[i] = moved(args_.operands[from], offset_of(whole, image, at_row));
      d.dims = whole.dims;
      if (source) {
        d.dims[0] = images;
        d.dims[1] = (std::max)(whole.dims[1] - at_row, extent{0});
      } else {
        detail::set_rows(d, images, rows);
      }
    }
    front_.domain = {images, rows, image_[2], image_[3]};
    for (int i = 0; i < front_.chain.outputs.ssize(); ++i) {
      int const from = split.front_outputs[detail::at(i)];
      tensor_desc& d = front_.outputs[detail::at(i)];
      if (from < 0) {
        d = dense_desc(split.between.type, front_.domain);
        d.strides[0] = built_->image_bytes() / size_of(d.type);
        args.outputs[i] = between_ + (first - held_) * built_->row_bytes();
      } else {
        d = whole_->outputs[detail::at(from)];
        args.outputs[i] = moved(args_.outputs[from], offset_of(d, image, first));
        d.dims = front_.domain;
      }
    }
    args.shapes = &front_;
    half_->repoint(args);
    return half_->run();
  }
  static extent offset_of(tensor_desc const& d, extent image, extent row) noexcept {
    return image * detail::image_stride(d, 0) + row * detail::image_stride(d, 1);
  }
  static void const* moved(void const* p, extent bytes) noexcept {
    return p == nullptr ? p : static_cast<std::byte const*>(p) + bytes;
  }
  static void* moved(void* p, extent bytes) noexcept {
    return p == nullptr ? p : static_cast<std::byte*>(p) + bytes;
  }

  std::shared_ptr<pooled_code const> built_;
  std::unique_ptr<pool_invocation> pool_;
  std::unique_ptr<invocation> half_;  ///< of the front
  problem front_, back_;              ///< of the block at hand, and of the call
  call_args args_;
  problem const* whole_ = nullptr;
  shape image_;  ///< of the value between
  std::byte* between_ = nullptr;
  extent held_ = 0;      ///< the first row that it holds
  extent together_ = 1;  ///< blocks that are not cut apart
  int parts_ = 1;
};

class pooled_kernel final : public kernel {
 public:
  explicit pooled_kernel(std::shared_ptr<pooled_code const> built) : built_(std::move(built)) {}

  std::string_view backend() const noexcept override { return "jit"; }
  std::size_t scratch_bytes() const noexcept override { return built_->scratch_bytes(); }
  std::vector<stage_note> stages() const override {
    pooled_blocks const& b = built_->blocks;
    std::string const block = b.images > 1 || b.rows == built_->wanted.domain[1]
                                  ? std::to_string(b.images) + " images"
                                  : std::to_string(b.rows) + " rows";
    std::string const between =
        std::string(name_of(built_->split.between.type)) +
        (built_->split.reordered ? ", rounded before the largest is taken, which is the same" : "");
    return {{std::string(text(built_->wanted.chain).view()),
             built_->front->stages()[0].implementation + " + " + built_->pool->implementation() +
                 " in blocks of " + block + " (" + between + ")",
             {},
             built_->front->stages()[0].note}};
  }
  std::string layout_key(int operand) const override {
    return built_->front->layout_key(front_operand(operand));
  }
  result<packed_weight> pack(int operand, tensor_view const& source) const override {
    return built_->front->pack(front_operand(operand), source);
  }
  /// Whole images, where each of them is blocks of its own: then their calls of the front half are the same.
  result<std::shared_ptr<kernel const>> by_rows(array_view<row_range const> ranges) const override {
    for (row_range r : ranges)
      if (r.first != 0 || r.last != built_->wanted.domain[1])
        return failure{code::unsupported, "sinter: jit: a pooling has blocks of its own"};
    if (built_->blocks.images > 1)
      return failure{code::unsupported, "sinter: jit: a pooling has blocks of several images"};
    return std::shared_ptr<kernel const>(new pooled_kernel(built_));
  }
  result<std::unique_ptr<invocation>> make_invocation() const override {
    auto pool = pool_invocation::make(built_->pool);
    if (!pool) return pool.error();
    auto half = built_->front->make_invocation();
    if (!half) return half.error();
    return std::unique_ptr<invocation>(
        new pooled_invocation(built_, std::move(*pool), std::move(*half)));
  }

 private:
  int front_operand(int operand) const {
    for (int i = 0; i < built_->split.front.chain.operands.ssize(); ++i)
      if (built_->split.front_operands[detail::at(i)] == operand) return i;
    return 0;
  }

  std::shared_ptr<pooled_code const> built_;
};

/// Only where supports_pooled() says yes.
inline result<std::shared_ptr<kernel const>> build_pooled(problem const& p, isa level) {
  result<pool_split> split = split_at_pooling(p);
  if (!split) return split.error();
  auto pool = build_pool_code(split->back, level);
  if (!pool) return pool.error();
  if (!split->has_front()) return std::shared_ptr<kernel const>(new pool_kernel(std::move(*pool)));
  auto built = std::shared_ptr<pooled_code>(new pooled_code());
  built->wanted = p;
  built->split = std::move(*split);
  built->pool = std::move(*pool);
  built->blocks = detail::blocks_of(p, built->split);
  problem const half = detail::front_of(built->split, built->blocks);
  auto front = detail::build_front(half, detail::level_of_front(half, level));
  if (!front) return front.error();
  built->front = std::move(*front);
  return std::shared_ptr<kernel const>(new pooled_kernel(std::move(built)));
}

}  // namespace sinter::inline SINTER_ABI::jit
