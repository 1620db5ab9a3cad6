// The JIT backend's conv2d: the kernel and its calls.
//
// A call walks images, blocks of pixels whose inputs fit a cache, groups, panels of output channels
// and strips; the innermost step, a strip times a panel, is generated code. Where the source has
// another dtype than the code reads, a block's inputs are converted to scratch first. Rules and
// plan: backend/jit_conv_rules.hpp.
#pragma once

#include <memory>
#include <new>
#include <string>
#include <utility>

#include "backend.hpp"
#include "jit_conv_code.hpp"
#include "jit_conv_pack.hpp"

namespace sinter::inline SINTER_ABI::jit {

class conv_invocation final : public invocation {
 public:
  static result<std::unique_ptr<invocation>> make(std::shared_ptr<conv_code const> built) {
    buffer memory(built->frame_bytes);
    if (memory.failed())
      return failure{code::out_of_memory, "sinter: jit: no memory for the frame of a call"};
    return std::unique_ptr<invocation>(new conv_invocation(std::move(built), std::move(memory)));
  }

  void repoint(call_args const& args) noexcept override {
    problem const& p = args.shapes != nullptr ? *args.shapes : built_->wanted;
    args_ = args;
    height_ = p.domain[1];
    width_ = p.domain[2];
    geometry_ = geometry_of(plan_, p);
    block_ = block_of(plan_, geometry_);
    empty_ = geometry_.empty() || plan_.out == 0;
    src_type_ = p.operands[detail::at(plan_.src)].type;
    parts_ = 1;
  }

  int cut(int wanted) noexcept override {
    if (empty_) return parts_ = 1;
    double const sums = static_cast<double>(geometry_.images * geometry_.y.out * geometry_.x.out) *
                        static_cast<double>(plan_.all_out);
    double const taps = static_cast<double>(plan_.kernel_rows * plan_.kernel_columns * plan_.in);
    parts_ =
        static_cast<int>(std::min<extent>(worthwhile_parts(sums * taps, wanted), unit_count()));
    return parts_;
  }
  sinter::code run_part(int part) noexcept override {
    extent const all = empty_ ? 0 : unit_count();
    units(all * part / parts_, all * (part + 1) / parts_);
    return sinter::code::ok;
  }
  sinter::code run_rows(call_args const& at, extent image, row_range rows) noexcept override {
    if (empty_) return sinter::code::ok;
    args_ = at;
    if (!plan_.tiles()) return some_rows(image, rows);
    tile_scope const tiles(*reinterpret_cast<amx_memory*>(memory_.data() + built_->amx_at));
    return some_rows(image, rows);
  }

 private:
  struct panel {
    conv_entry entry = nullptr;
    extent bytes = 0, run_bytes = 0;
  };
  /// Panels of a kind of run: where the first group's are in a packed weight, bytes from group to group.
  struct panels_of_run {
    extent at = 0, group_bytes = 0;
  };
  struct prepared_strip {
    conv_strip strip;
    conv_run run = conv_run::pixel;
    conv_walk walk;
    extent source = 0;  ///< from the image's first pixel to the first tap of the strip's
    extent first_run = 0, skipped = 0;  ///< runs of the panel; those beside each row's
  };
  static constexpr std::size_t most_strips = 32;

  conv_invocation(std::shared_ptr<conv_code const> built, buffer memory)
      : invocation(&run_all),
        built_(std::move(built)),
        plan_(built_->plan),
        memory_(std::move(memory)),
        frame_(*new (memory_.data()) conv_frame),
        far_(plan_.packed_bytes() > detail::near_bytes) {
    for (conv_run r : {conv_run::pixel, conv_run::kernel_row}) {
      panel_layout const panels = plan_.panels(r);
      runs_[static_cast<int>(r)] = {plan_.panels_at(r, 0), panels.bytes()};
      for (bool tail : {false, true}) {
        int const i = conv_kernel_index(r, tail);
        extent const bytes = panels.panel_bytes(plan_.shapes[i].vectors);
        panels_[i] = {nullptr, bytes, plan_.runs(r) > 0 ? bytes / plan_.runs(r) : 0};
        if (built_->code[i]) panels_[i].entry = built_->code[i]->entry<conv_entry>();
      }
    }
  }

  static sinter::code run_all(invocation& self) noexcept {
    auto& me = static_cast<conv_invocation&>(self);
    if (!me.empty_) me.units(0, me.unit_count());
    return sinter::code::ok;
  }

  // A unit is a block times a panel. All of its strips and tiles are the same whoever computes it,
  // so sums are too.
  extent panels_per_group() const noexcept { return plan_.panels_per_group(); }
  extent panel_count() const noexcept { return plan_.groups * panels_per_group(); }
  extent unit_count() const noexcept { return block_count(geometry_, block_) * panel_count(); }

  void units(extent first, extent last) noexcept {
    if (!plan_.tiles()) return walk(first, last);
    tile_scope const tiles(*reinterpret_cast<amx_memory*>(memory_.data() + built_->amx_at));
    walk(first, last);
  }
  /// Units first, first + 1, ..., last - 1: panels of a block before the next block.
  void walk(extent first, extent last) noexcept {
    extent const panels = panel_count();
    for (extent n = first / panels; n * panels < last; ++n) {
      extent const next = (std::min)(n + 1, block_count(geometry_, block_) - 1);
      one_block(nth_block(geometry_, block_, n), nth_block(geometry_, block_, next),
                (std::max)(first - n * panels, extent{0}), (std::min)(last - n * panels, panels));
    }
  }

  static std::byte const* moved(void const* p, extent bytes) noexcept {
    return static_cast<std::byte const*>(p) + bytes;
  }

  sinter::code some_rows(extent image, row_range rows) noexcept {
    for_each_block_of(geometry_, block_, height_, width_, image, rows,
                      [&](conv_block const& b) { one_block(b, b, 0, panel_count()); });
    return sinter::code::ok;
  }

  /// Panels first, first + 1, ..., last - 1 of a block; `next` is the one that follows.
  void one_block(conv_block const& b, conv_block const& next, extent first, extent last) noexcept {
    source_ = moved(args_.operands[plan_.src], b.image0 * geometry_.src.image);
    row_ = geometry_.src.row;
    column_ = geometry_.src.column;
    conv_block const in = inputs_of(geometry_, b);
    inputs_ = first_input(in);
    next_inputs_ = first_input(inputs_of(geometry_, next));
    input_bytes_ = (in.image1 - in.image0 - 1) * geometry_.src.image + (in.y1 - in.y0 - 1) * row_ +
                   (in.x1 - in.x0) * column_;
    if (plan_.copied) copy_inputs(in);
    strips_.clear();
    for_each_strip(plan_, geometry_, b, [&](conv_strip const& s, conv_run r) {
      if (strips_.size() == most_strips) one_batch(b, first, last);
      strips_.push_back(prepare(s, r));
    });
    one_batch(b, first, last);
  }
  extent first_input(conv_block const& in) const noexcept {
    return in.image0 * geometry_.src.image + in.y0 * geometry_.src.row +
           in.x0 * geometry_.src.column;
  }

  /// These panels of all images, for the strips at hand.
  void one_batch(conv_block const& b, extent first, extent last) noexcept {
    bool const thin = is_thin();
    for (extent i = first; i < last; i += pair_ ? 2 : 1) {
      pair_ = thin && i + 1 < last && plan_.whole_pair(i);
      std::byte const* source = source_ + start_panel(i, i + 1 == panel_count());
      for (image_ = b.image0; image_ < b.image1; ++image_, source += geometry_.src.image)
        for (prepared_strip const& s : strips_) one_strip(s, source);
    }
    strips_.clear();
  }
  /// Strips that are one tile of rows take two panels of tiles at a time.
  bool is_thin() const noexcept {
    bool thin = plan_.tiles();
    for (prepared_strip const& s : strips_) thin = thin && s.strip.pixels <= amx_rows;
    return thin;
  }

  /// Bytes from the first channel of the source to the first of the group of panel i.
  extent start_panel(extent i, bool last) noexcept {
    extent const width = plan_.panel_columns(false);
    extent const group = i / panels_per_group(), nth = i % panels_per_group();
    extent const step = plan_.group_source * size_of(row_of(plan_.kind).a);
    tail_ = plan_.out_of(group) - nth * width < width;
    channel_ = group * plan_.out + nth * width;
    for (int r = 0; r < 2; ++r)
      panel_[r] = moved(args_.operands[plan_.weight],
                        runs_[r].at + group * runs_[r].group_bytes + nth * panels_[2 * r].bytes);
    if (plan_.narrow())
      prefetch_panel(last ? next_inputs_ : inputs_, last ? 0 : i + 1);
    else
      prefetch_weights(far_ && !last ? panels_[tail_ ? 1 : 0].bytes : 0);
    return group * step;
  }

  void prefetch_weights(extent ahead) noexcept {
    frame_.ahead = frame_.ahead_first = ahead;
    frame_.ahead_end = ahead + prefetching_tiles * cache_line;
  }
  /// Of narrow groups.
  void prefetch_panel(extent inputs, extent i) noexcept {
    std::byte const* const source = moved(
        args_.operands[plan_.src], inputs + i * plan_.group_source * size_of(row_of(plan_.kind).a));
    frame_.inputs = {source, source, source + input_bytes_, column_};
    std::byte const* const weights =
        moved(args_.operands[plan_.weight], plan_.panels_at(conv_run::pixel, i));
    frame_.weights = {weights, weights, weights + runs_[0].group_bytes, cache_line};
  }

  prepared_strip prepare(conv_strip const& s, conv_run r) const noexcept {
    conv_geometry const& g = geometry_;
    bool const pixel = r == conv_run::pixel;
    extent const row = g.y.dilation * row_, column = g.x.dilation * column_;
    extent const below = g.y.stride * row_, beside = g.x.stride * column_;
    row_split const split = split_rows(s.pixels, plan_.tile());
    prepared_strip to;
    to.strip = s;
    to.run = r;
    to.source = g.y.start(s.y) * row_ + s.rows.first * row + g.x.start(s.x) * column_ +
                s.columns.first * column;
    to.first_run = pixel ? s.rows.first * plan_.kernel_columns + s.columns.first : s.rows.first;
    conv_walk& w = to.walk;
    w.lda = s.down ? below : beside;
    w.lines = s.lines;
    w.a_line = s.down ? beside : below;
    w.pixels = s.pixels;
    w.blocks = split.blocks;
    w.low_blocks = split.low_blocks;
    w.high = split.high;
    w.tap_rows = s.columns.count() > 0 ? s.rows.count() : 0;
    w.tap_columns = pixel ? s.columns.count() : 1;
    w.a_column = pixel ? column : 0;
    w.a_row = row - w.tap_columns * w.a_column;
    to.skipped = pixel ? plan_.kernel_columns - s.columns.count() : 0;
    return to;
  }

  void one_strip(prepared_strip const& prepared, std::byte const* source) noexcept {
    conv_geometry const& g = geometry_;
    conv_strip const& s = prepared.strip;
    panel const& of = panels_[conv_kernel_index(prepared.run, tail_)];
    frame_.a = moved(source, prepared.source);
    frame_.b = panel_[static_cast<int>(prepared.run)] + prepared.first_run * of.run_bytes;
    frame_.pair = pair_ ? of.bytes : 0;
    frame_.walk = prepared.walk;
    frame_.walk.b_row = prepared.skipped * of.run_bytes;
    for (int i = 0; i < plan_.accesses.ssize(); ++i) {
      epilogue_access const& access = plan_.accesses[i];
      conv_geometry::strides const& at = g.accesses[i];
      void const* const origin =
          access.output ? args_.outputs[access.index] : args_.operands[access.index];
      extent const channel = access.across == columns::unit ? channel_ * size_of(access.type) : 0;
      frame_.accesses[i].origin =
          moved(origin, image_ * at.image + s.y * at.row + s.x * at.column + channel);
      frame_.accesses[i].row_stride = s.down ? at.row : at.column;
      frame_.accesses[i].line_stride = s.down ? at.column : at.row;
    }
    of.entry(&frame_);
  }

  /// Converts the inputs of a block to scratch and makes source_ the place where the image's first
  /// pixel would be.
  void copy_inputs(conv_block const& in) noexcept {
    extent const columns = in.x1 - in.x0;
    extent const padded = plan_.pixel_bytes / plan_.source_runs;
    auto* const scratch = static_cast<std::byte*>(args_.scratch);
    for (extent y = in.y0; y < in.y1; ++y)
      for (extent x = in.x0; x < in.x1; ++x) {
        std::byte* const to = scratch + ((y - in.y0) * columns + (x - in.x0)) * plan_.pixel_bytes;
        std::byte const* const from = source_ + y * geometry_.src.row + x * geometry_.src.column;
        for (extent i = 0; i < plan_.source_runs; ++i)
          copy_rows(plan_.kind, to + i * padded,
                    {from + i * plan_.source_run * size_of(src_type_), src_type_, 0, 1}, 1,
                    plan_.source_run);
      }
    column_ = plan_.pixel_bytes;
    row_ = columns * column_;
    source_ = scratch - in.y0 * row_ - in.x0 * column_;
  }

  std::shared_ptr<conv_code const> built_;
  conv_plan const& plan_;
  buffer memory_;
  conv_frame& frame_;
  bool far_;  ///< weights are prefetched
  panels_of_run runs_[2];
  panel panels_[conv_kernels];
  call_args args_;
  conv_geometry geometry_;
  block_extents block_;
  extent height_ = 0, width_ = 0;  ///< of an output, for run_rows()
  bool empty_ = true;
  int parts_ = 1;
  dtype src_type_ = dtype::f32;
  // Of the block at hand: the source as the code reads it, and strips.
  std::byte const* source_ = nullptr;
  extent row_ = 0, column_ = 0;
  // Of narrow groups: where its inputs begin and those of the next block; bytes to the end.
  extent inputs_ = 0, next_inputs_ = 0, input_bytes_ = 0;
  inline_vector<prepared_strip, most_strips> strips_;
  // Of the panel at hand.
  std::byte const* panel_[2] = {};
  bool tail_ = false, pair_ = false;
  extent image_ = 0, channel_ = 0;
};

class conv_kernel final : public kernel {
 public:
  explicit conv_kernel(std::shared_ptr<conv_code const> built) : built_(std::move(built)) {}

  std::string_view backend() const noexcept override { return "jit"; }
  std::size_t scratch_bytes() const noexcept override { return built_->plan.scratch_bytes; }
  std::vector<stage_note> stages() const override {
    conv_plan const& plan = built_->plan;
    std::string const name =
        "jit:" + std::string(name_of(plan.level)) + ":" + std::string(row_of(plan.kind).name) +
        ":" + std::to_string(plan.tile()) + "x" + std::to_string(plan.panel_columns(false)) +
        ":conv" + (plan.narrow() ? ":groups" : "") +
        (plan.spread == group_spread::in_place ? ":lanes" : "") + (plan.whole_rows ? ":rows" : "") +
        (plan.lines ? ":lines" : "");
    return {{std::string(text(built_->wanted.chain).view()), name, {}, built_->note}};
  }
  std::string layout_key(int) const override {
    conv_plan const& plan = built_->plan;
    return "jit:conv:" + std::string(name_of(weight_desc().type)) + ":" +
           std::string(row_of(plan.kind).name) + ":" + std::to_string(tile_columns(plan.level)) +
           ":" + to_string(weight_desc().dims) + ":" + std::to_string(plan.groups) + "x" +
           std::to_string(plan.out) + (plan.spread == group_spread::in_place ? ":lanes" : "") +
           (plan.both_packed() ? ":rows" : "") + (plan.tiles() ? ":tiles" : "");
  }
  result<packed_weight> pack(int operand, tensor_view const& source) const override {
    extent const bytes = built_->plan.packed_bytes();
    auto storage = std::shared_ptr<buffer>(new buffer(static_cast<std::size_t>(bytes)));
    if (storage->failed() || !pack_conv(built_->plan, storage->data(), source, weight_desc().type))
      return failure{code::out_of_memory, "sinter: jit: no memory for a packed weight of " +
                                              std::to_string(bytes) + " bytes"};
    return packed_weight{std::move(storage), layout_key(operand)};
  }
  result<std::shared_ptr<kernel const>> by_rows(array_view<row_range const> ranges) const override {
    auto built = std::shared_ptr<conv_code>(new conv_code(*built_));
    if (status st = detail::add_rows(built->plan, built->wanted, ranges); !st.ok())
      return st.error();
    if (status st = generate_convs(*built); !st.ok()) return st.error();
    return std::shared_ptr<kernel const>(new conv_kernel(std::move(built)));
  }
  result<std::unique_ptr<invocation>> make_invocation() const override {
    return conv_invocation::make(built_);
  }

 private:
  tensor_desc const& weight_desc() const {
    return built_->wanted.operands[detail::at(built_->plan.weight)];
  }

  std::shared_ptr<conv_code const> built_;
};

/// Only where supports_conv() says yes.
inline result<std::shared_ptr<kernel const>> build_conv(problem const& p, isa level,
                                                        std::string note = {}) {
  epilogue const e(p.chain, p.chain.anchor());
  auto built = std::shared_ptr<conv_code>(new conv_code());
  built->wanted = p;
  built->plan = plan_conv(p, e, level);
  built->note = std::move(note);
  built->amx_at = conv_amx_memory_at(e, level);
  built->frame_bytes = built->amx_at + (built->plan.tiles() ? sizeof(amx_memory) : 0);
  if (status st = generate_convs(*built); !st.ok()) return st.error();
  return std::shared_ptr<kernel const>(new conv_kernel(std::move(built)));
}

}  // namespace sinter::inline SINTER_ABI::jit
