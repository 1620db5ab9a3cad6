// The JIT backend's pooling of an operand: the kernel and its calls.
//
// A call walks images, rows of windows and, in a row, runs of windows that see equally many columns: those at a border
// one by one, the rest together; a run is generated code (jit/pool.hpp). Its parts for several threads are runs of rows.
// Rules and plan: backend/jit_pool_plan.hpp; what comes before a pooling in its group: backend/jit_pooled.hpp.
#pragma once

#include <algorithm>
#include <memory>
#include <new>
#include <string>
#include <utility>

#include "../jit/kernel_key.hpp"
#include "../jit/process_cache.hpp"
#include "../plan/text.hpp"
#include "backend.hpp"
#include "jit_pool_plan.hpp"

namespace sinter::inline SINTER_ABI::jit {

/// The immutable side of a built pooling.
struct pool_code {
  problem wanted;
  pool_plan plan;
  std::shared_ptr<machine_code const> code;
  std::size_t frame_bytes = 0;

  std::string implementation() const {
    return "jit:" + std::string(name_of(plan.shape.level)) + ":" +
           std::string(name_of(plan.shape.src)) + ":" + std::string(name_of(plan.code));
  }
};

class pool_invocation final : public invocation {
 public:
  static result<std::unique_ptr<pool_invocation>> make(std::shared_ptr<pool_code const> built) {
    buffer memory(built->frame_bytes);
    if (memory.failed())
      return failure{code::out_of_memory, "sinter: jit: no memory for the frame of a call"};
    return std::unique_ptr<pool_invocation>(
        new pool_invocation(std::move(built), std::move(memory)));
  }

  void repoint(call_args const& args) noexcept override {
    args_ = args;
    geometry_ = geometry_of(plan_, args.shapes != nullptr ? *args.shapes : built_->wanted);
    parts_ = 1;
    frame_.tap_column = geometry_.src.column;
    frame_.window = geometry_.x.stride * geometry_.src.column;
    frame_.full_panels = plan_.channels / plan_.shape.width();
    for (int i = 0; i < plan_.accesses.ssize(); ++i)
      frame_.accesses[i].window = geometry_.accesses[i].column;
  }

  int cut(int wanted) noexcept override {
    pool_geometry const& g = geometry_;
    double const pixels = static_cast<double>(lines()) * static_cast<double>(g.columns) *
                          static_cast<double>(g.y.kernel * g.x.kernel);
    extent const worth = worthwhile_parts(pixels * static_cast<double>(plan_.channels), wanted);
    parts_ = static_cast<int>(std::clamp(lines(), extent{1}, worth));
    return parts_;
  }
  sinter::code run_part(int part) noexcept override {
    compute(lines() * part / parts_, lines() * (part + 1) / parts_);
    return sinter::code::ok;
  }

  sinter::code run_rows(call_args const& at, extent image, row_range rows) noexcept override {
    args_ = at;
    rows_of_image(image, rows.first, rows.last,
                  moved(at.operands[plan_.src], image * geometry_.src.image));
    return sinter::code::ok;
  }

  pool_geometry const& geometry() const noexcept { return geometry_; }
  /// Rows [first, last) of windows of one image, whose first pixel would be at `src`: only pixels that these windows
  /// see have to be there.
  void rows_of_image(extent image, extent first, extent last, void const* src) noexcept {
    if (plan_.channels == 0) return;
    for (extent y = first; y < last; ++y) one_row(image, y, src);
  }

 private:
  pool_invocation(std::shared_ptr<pool_code const> built, buffer memory)
      : invocation(&run_all),
        built_(std::move(built)),
        plan_(built_->plan),
        memory_(std::move(memory)),
        frame_(*new (memory_.data()) pool_frame),
        entry_(built_->code->entry<pool_entry>()) {}

  static sinter::code run_all(invocation& self) noexcept {
    auto& me = static_cast<pool_invocation&>(self);
    me.compute(0, me.lines());
    return sinter::code::ok;
  }
  static std::byte const* moved(void const* p, extent bytes) noexcept {
    return static_cast<std::byte const*>(p) + bytes;
  }
  extent lines() const noexcept { return geometry_.images * geometry_.rows; }

  /// Rows of windows [first, last), counted over all images.
  void compute(extent first, extent last) noexcept {
    extent const rows = geometry_.rows;
    while (first < last) {
      extent const image = first / rows, row = first % rows;
      extent const count = (std::min)(rows - row, last - first);
      rows_of_image(image, row, row + count,
                    moved(args_.operands[plan_.src], image * geometry_.src.image));
      first += count;
    }
  }

  void one_row(extent image, extent y, void const* src) noexcept {
    pool_axis const& across = geometry_.x;
    extent const top = geometry_.y.first(y);
    frame_.rows = geometry_.y.end(y) - top;
    extent const counted = geometry_.y.counted(y, plan_.attrs.count_pad);
    // Windows from the first one that begins inside to the last one that ends there see all columns.
    extent const inner_end = (across.in + across.pad_begin - across.kernel) / across.stride + 1;
    for (extent x = 0; x < geometry_.columns;) {
      bool const inner = x * across.stride >= across.pad_begin && x < inner_end;
      extent const end = inner ? (std::min)(inner_end, geometry_.columns) : x + 1;
      extent const left = across.first(x);
      frame_.columns = across.end(x) - left;
      frame_.tap_row = geometry_.src.row - frame_.columns * geometry_.src.column;
      frame_.windows = end - x;
      frame_.counted = static_cast<float>(counted * across.counted(x, plan_.attrs.count_pad));
      frame_.src = moved(src, top * geometry_.src.row + left * geometry_.src.column);
      for (int i = 0; i < plan_.accesses.ssize(); ++i) {
        epilogue_access const& access = plan_.accesses[i];
        conv_geometry::strides const& at = geometry_.accesses[i];
        void const* const origin =
            access.output ? args_.outputs[access.index] : args_.operands[access.index];
        frame_.accesses[i].origin = moved(origin, image * at.image + y * at.row + x * at.column);
      }
      entry_(&frame_);
      x = end;
    }
  }

  std::shared_ptr<pool_code const> built_;
  pool_plan const& plan_;
  buffer memory_;
  pool_frame& frame_;
  pool_entry entry_;
  call_args args_;
  pool_geometry geometry_;
  int parts_ = 1;
};

class pool_kernel final : public kernel {
 public:
  explicit pool_kernel(std::shared_ptr<pool_code const> built) : built_(std::move(built)) {}

  std::string_view backend() const noexcept override { return "jit"; }
  std::size_t scratch_bytes() const noexcept override { return 0; }
  std::vector<stage_note> stages() const override {
    return {{std::string(text(built_->wanted.chain).view()), built_->implementation(), {}}};
  }
  std::string layout_key(int) const override { return {}; }
  result<packed_weight> pack(int operand, tensor_view const&) const override {
    return detail::no_weight(built_->wanted.chain, operand);
  }
  /// Each row of windows is computed by itself.
  result<std::shared_ptr<kernel const>> by_rows(array_view<row_range const>) const override {
    return std::shared_ptr<kernel const>(new pool_kernel(built_));
  }
  result<std::unique_ptr<invocation>> make_invocation() const override {
    auto made = pool_invocation::make(built_);
    if (!made) return made.error();
    return std::unique_ptr<invocation>(std::move(*made));
  }

 private:
  std::shared_ptr<pool_code const> built_;
};

inline kernel_key key_of(pool_plan const& plan, chain const& c) {
  kernel_key key('w');
  auto const& [level, largest, keeps_nan, src, full, tail] = plan.shape;
  key.add(level).add(largest).add(keeps_nan).add(src).add(full).add(tail);
  key.add(plan.accesses.size());
  for (auto const& [output, index, type, across, moves] : plan.accesses)
    key.add(output).add(index).add(type).add(across).add(moves);
  return key.add(c);
}

/// Only where supports_pool() says yes.
inline result<std::shared_ptr<pool_code const>> build_pool_code(problem const& p, isa level) {
  epilogue const e(p.chain, 0);
  auto built = std::shared_ptr<pool_code>(new pool_code());
  built->wanted = p;
  built->plan = plan_pool(p, e, level);
  built->frame_bytes = pool_frame_bytes(e, level);
  auto code = process_cache().get(
      key_of(built->plan, p.chain).text(), [&]() -> result<std::shared_ptr<machine_code const>> {
        assembler a(level);
        pool_generator(a, built->plan.shape, built->plan.accesses, e).emit();
        auto const bytes = a.finish();
        if (!bytes) return bytes.error();
        return code_memory::process().publish(*bytes, profile_name(level, p));
      });
  if (!code) return code.error();
  built->code = std::move(*code);
  return std::shared_ptr<pool_code const>(std::move(built));
}

}  // namespace sinter::inline SINTER_ABI::jit
