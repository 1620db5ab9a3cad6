// The JIT backend's depthwise conv2d: the kernel and its calls.
//
// A call walks images and blocks of output rows; the rest is generated code (jit/depthwise.hpp).
// Its parts for several threads are runs of output rows. Rules, plan and packing:
// backend/jit_depthwise_plan.hpp.
#pragma once

#include <memory>
#include <new>
#include <utility>

#include "../jit/kernel_key.hpp"
#include "../jit/process_cache.hpp"
#include "../plan/text.hpp"
#include "backend.hpp"
#include "jit_depthwise_plan.hpp"

namespace sinter::inline SINTER_ABI::jit {

/// The immutable side of a built depthwise convolution.
struct depthwise_code {
  problem wanted;
  depthwise_plan plan;
  std::shared_ptr<machine_code const> code;
  std::size_t frame_bytes = 0;
};

class depthwise_invocation final : public invocation {
 public:
  static result<std::unique_ptr<invocation>> make(std::shared_ptr<depthwise_code const> built) {
    buffer memory(built->frame_bytes);
    if (memory.failed())
      return failure{code::out_of_memory, "sinter: jit: no memory for the frame of a call"};
    return std::unique_ptr<invocation>(
        new depthwise_invocation(std::move(built), std::move(memory)));
  }

  void repoint(call_args const& args) noexcept override {
    args_ = args;
    geometry_ = geometry_of(plan_, args.shapes != nullptr ? *args.shapes : built_->wanted);
    rows_ = rows_at_a_time(plan_, geometry_);
    parts_ = 1;
    set_frame();
  }

  int cut(int wanted) noexcept override {
    depthwise_geometry const& g = geometry_;
    double const work = static_cast<double>(g.lines()) * static_cast<double>(g.x.out) *
                        static_cast<double>(plan_.channels) *
                        static_cast<double>(plan_.kernel_rows * plan_.shape.kernel_columns);
    extent const worth = worthwhile_parts(work, wanted);
    parts_ = (std::max)(extent{1}, (std::min)(worth, g.lines()));
    return static_cast<int>(parts_);
  }
  code run_part(int part) noexcept override {
    extent const lines = geometry_.lines();
    compute(lines * part / parts_, lines * (part + 1) / parts_);
    return code::ok;
  }
  code run_rows(call_args const& at, extent image, row_range rows) noexcept override {
    args_ = at;
    compute(image * geometry_.y.out + rows.first, image * geometry_.y.out + rows.last);
    return code::ok;
  }

 private:
  depthwise_invocation(std::shared_ptr<depthwise_code const> built, buffer memory)
      : invocation(&run_all),
        built_(std::move(built)),
        plan_(built_->plan),
        memory_(std::move(memory)),
        frame_(*new (memory_.data()) depthwise_frame),
        entry_(built_->code->entry<depthwise_entry>()) {}

  static sinter::code run_all(invocation& self) noexcept {
    auto& me = static_cast<depthwise_invocation&>(self);
    me.compute(0, me.geometry_.lines());
    return sinter::code::ok;
  }

  static std::byte const* moved(void const* p, extent bytes) noexcept {
    return static_cast<std::byte const*>(p) + bytes;
  }

  void set_frame() noexcept {
    depthwise_geometry const& g = geometry_;
    depthwise_panels const panels = plan_.panels();
    frame_.column = g.src.column;
    frame_.tap_row = g.y.dilation * g.src.row;
    frame_.line = g.y.stride * g.src.row;
    frame_.block_columns = plan_.shape.pixels * g.x.stride;
    frame_.block = frame_.block_columns * g.src.column;
    frame_.weights = args_.operands[plan_.weight];
    frame_.full_panels = panels.full_panels();
    frame_.panel_bytes = panels.panel_bytes(panels.vectors);
    frame_.pixels = g.x.out;
    frame_.taps = plan_.kernel_rows;
    frame_.in_rows = g.y.in;
    frame_.row_dilation = g.y.dilation;
    frame_.row_stride = g.y.stride;
    frame_.in_column = g.x.start(0);
    frame_.in_columns = (std::min)(g.x.in, g.x.start(0) + g.x.reach(g.x.out));
    for (int i = 0; i < plan_.accesses.ssize(); ++i) {
      frame_.accesses[i].pixel_stride = g.accesses[i].column;
      frame_.accesses[i].line_stride = g.accesses[i].row;
    }
  }

  /// Output rows [first, last) of all images, counted from the first image on.
  void compute(extent first, extent last) noexcept {
    if (geometry_.empty()) return;
    extent const height = geometry_.y.out;
    while (first < last) {
      extent const image = first / height, row = first % height;
      extent const rows = (std::min)({rows_, height - row, last - first});
      some_rows(image, row, rows);
      first += rows;
    }
  }
  void some_rows(extent image, extent row, extent rows) noexcept {
    depthwise_geometry const& g = geometry_;
    frame_.in_row = g.y.start(row);
    frame_.lines = rows;
    frame_.src = moved(args_.operands[plan_.src], image * g.src.image + frame_.in_row * g.src.row +
                                                      frame_.in_column * g.src.column);
    for (int i = 0; i < plan_.accesses.ssize(); ++i) {
      epilogue_access const& access = plan_.accesses[i];
      void const* const origin =
          access.output ? args_.outputs[access.index] : args_.operands[access.index];
      frame_.accesses[i].origin =
          moved(origin, image * g.accesses[i].image + row * g.accesses[i].row);
    }
    entry_(&frame_);
  }

  std::shared_ptr<depthwise_code const> built_;
  depthwise_plan const& plan_;
  buffer memory_;
  depthwise_frame& frame_;
  depthwise_entry entry_;
  call_args args_;
  depthwise_geometry geometry_;
  extent rows_ = 1, parts_ = 1;
};

class depthwise_kernel final : public kernel {
 public:
  explicit depthwise_kernel(std::shared_ptr<depthwise_code const> built)
      : built_(std::move(built)) {}

  std::string_view backend() const noexcept override { return "jit"; }
  std::size_t scratch_bytes() const noexcept override { return 0; }
  std::vector<stage_note> stages() const override {
    depthwise_shape const& s = built_->plan.shape;
    std::string const name = "jit:" + std::string(name_of(s.level)) + ":" + product_name() + ":" +
                             std::to_string(s.pixels) + "x" + std::to_string(s.width()) +
                             ":depthwise";
    return {{std::string(text(built_->wanted.chain).view()), name, {}}};
  }
  std::string layout_key(int) const override {
    return "jit:depthwise:" + std::string(name_of(weight_desc().type)) + ":" + product_name() +
           ":" + std::to_string(built_->plan.shape.width()) + ":" + to_string(weight_desc().dims);
  }
  result<packed_weight> pack(int operand, tensor_view const& source) const override {
    extent const bytes = built_->plan.panels().bytes();
    auto storage = std::shared_ptr<buffer>(new buffer(static_cast<std::size_t>(bytes)));
    if (storage->failed())
      return failure{code::out_of_memory, "sinter: jit: no memory for a packed weight of " +
                                              std::to_string(bytes) + " bytes"};
    pack_depthwise(built_->plan, storage->data(), source, weight_desc().type);
    return packed_weight{std::move(storage), layout_key(operand)};
  }
  /// Each line is computed by itself.
  result<std::shared_ptr<kernel const>> by_rows(array_view<row_range const>) const override {
    return std::shared_ptr<kernel const>(new depthwise_kernel(built_));
  }
  result<std::unique_ptr<invocation>> make_invocation() const override {
    return depthwise_invocation::make(built_);
  }

 private:
  tensor_desc const& weight_desc() const {
    return built_->wanted.operands[detail::at(built_->plan.weight)];
  }
  std::string product_name() const {
    depthwise_shape const& s = built_->plan.shape;
    return s.kind == depthwise_product::pairs ? "pairs" : std::string(name_of(s.src));
  }

  std::shared_ptr<depthwise_code const> built_;
};

// Bindings name every member: one that is added and forgotten here does not compile.
inline kernel_key key_of(depthwise_plan const& plan, chain const& c) {
  kernel_key key('d');
  auto const& [level, kind, src, looped, pixels, vectors, full, tail, columns, stride, dilation,
               pad] = plan.shape;
  key.add(level).add(kind).add(src).add(looped).add(pixels).add(vectors).add(full).add(tail);
  key.add(columns).add(stride).add(dilation).add(pad).add(plan.accesses.size());
  for (auto const& [output, index, type, across, moves] : plan.accesses)
    key.add(output).add(index).add(type).add(across).add(moves);
  return key.add(c);
}

inline result<std::shared_ptr<machine_code const>> generate_depthwise(depthwise_plan const& plan,
                                                                      problem const& p,
                                                                      epilogue const& e) {
  return process_cache().get(
      key_of(plan, p.chain).text(), [&]() -> result<std::shared_ptr<machine_code const>> {
        assembler a(plan.shape.level);
        depthwise_generator(a, plan.shape, plan.accesses, e).emit();
        auto const bytes = a.finish();
        if (!bytes) return bytes.error();
        return code_memory::process().publish(*bytes, profile_name(plan.shape.level, p));
      });
}

/// Only where supports_depthwise() says yes. A chain too long for an epilogue per pixel of a block
/// gets it once, in a loop.
inline result<std::shared_ptr<kernel const>> build_depthwise(problem const& p, isa level) {
  epilogue const e(p.chain, p.chain.anchor());
  auto built = std::shared_ptr<depthwise_code>(new depthwise_code());
  built->wanted = p;
  built->plan = plan_depthwise(p, e, level);
  built->frame_bytes = depthwise_frame_bytes(e, level);
  auto code = generate_depthwise(built->plan, p, e);
  if (!code && code.error().what == code::unsupported && !built->plan.shape.looped_epilogue) {
    built->plan.shape.looped_epilogue = true;
    code = generate_depthwise(built->plan, p, e);
  }
  if (!code) return code.error();
  built->code = std::move(*code);
  return std::shared_ptr<kernel const>(new depthwise_kernel(std::move(built)));
}

}  // namespace sinter::inline SINTER_ABI::jit
