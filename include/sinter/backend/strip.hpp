// How strips run: the kernel and the calls of a strip_plan (backend/strip_plan.hpp).
//
// The kernel's operands and outputs are those of all members but for the values between them; where extents are dynamic,
// call_args::shapes points to the members' problems, one after another. Parts for several threads are runs of strips,
// of whole images where there are enough: who begins inside an image computes the rows above, too, which another one
// may have computed as well, with the same bits. Knows kernels, nothing of who made them.
#pragma once

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "../base/join.hpp"
#include "strip_plan.hpp"

namespace sinter::inline SINTER_ABI {

class strip_invocation final : public invocation {
 public:
  static result<std::unique_ptr<invocation>> make(std::shared_ptr<strip_plan const> plan) {
    auto made = std::unique_ptr<strip_invocation>(new strip_invocation(std::move(plan)));
    for (strip_member const& m : made->plan_->members) {
      auto member = m.kernel->make_invocation();
      if (!member) return member.error();
      made->stages_.push_back({std::move(*member), {}, {}, 0, nullptr});
    }
    return std::unique_ptr<invocation>(std::move(made));
  }

  void repoint(call_args const& args) noexcept override {
    parts_ = 1;
    point(args);
    for (int i = 0; i < plan_->size(); ++i) {
      strip_member const& m = plan_->member(i);
      stage& s = stages_[detail::at(i)];
      s.args.shapes = args.shapes == nullptr ? nullptr : args.shapes + i;
      s.invocation->repoint(s.args);
      s.memory = static_cast<std::byte*>(args.scratch) + m.held_at;
    }
    problem const& last =
        args.shapes == nullptr ? plan_->members.back().problem : args.shapes[plan_->size() - 1];
    images_ = element_count(last.domain) == 0 ? 0 : last.domain[0];
  }

  int cut(int wanted) noexcept override {
    int const parts = worthwhile_parts(work_of_image() * static_cast<double>(images_), wanted);
    by_image_ = images_ >= parts;
    extent const most = by_image_ ? images_ : images_ * plan_->strips();
    parts_ = static_cast<int>(std::clamp(most, extent{1}, extent{parts}));
    return parts_;
  }
  code run_part(int part) noexcept override {
    extent const strips = plan_->strips(), each = by_image_ ? strips : 1;
    extent const all = images_ * strips / each;
    return compute(all * part / parts_ * each, all * (part + 1) / parts_ * each);
  }
  /// Of whole images.
  code run_rows(call_args const& at, extent image, row_range) noexcept override {
    point(at);
    return compute(image * plan_->strips(), (image + 1) * plan_->strips());
  }

 private:
  /// A member in this call; `held`: the rows in memory, of which the first one there is `base`.
  struct stage {
    std::unique_ptr<sinter::invocation> invocation;
    call_args args;
    row_range held;
    extent base = 0;
    std::byte* memory = nullptr;
  };

  explicit strip_invocation(std::shared_ptr<strip_plan const> plan)
      : invocation(&run_all), plan_(std::move(plan)) {}

  static code run_all(invocation& self) noexcept {
    auto& me = static_cast<strip_invocation&>(self);
    return me.compute(0, me.images_ * me.plan_->strips());
  }
  double work_of_image() const noexcept {
    double sum = 0;
    for (strip_member const& m : plan_->members) sum += sinter::work_of_image(m.problem);
    return sum;
  }
  void point(call_args const& args) noexcept {
    for (int i = 0; i < plan_->size(); ++i) {
      strip_member const& m = plan_->member(i);
      call_args& to = stages_[detail::at(i)].args;
      for (std::size_t j = 0; j < m.operands.size(); ++j)
        to.operands[j] = m.operands[j] < 0 ? nullptr : args.operands[m.operands[j]];
      for (std::size_t j = 0; j < m.outputs.size(); ++j)
        to.outputs[j] = m.outputs[j] < 0 ? nullptr : args.outputs[m.outputs[j]];
      to.scratch = args.scratch;
    }
  }

  /// Strips first, first + 1, ..., last - 1 of all images: those of an image from above.
  code compute(extent first, extent last) noexcept {
    extent const each = plan_->strips();
    for (extent n = first; n < last; ++n)
      if (code const c = one_strip(n / each, n % each, n > first && n % each > 0); c != code::ok)
        return c;
    return code::ok;
  }
  /// `goes_on`: the strip above is in memory.
  code one_strip(extent image, extent n, bool goes_on) noexcept {
    row_range needed[max_strip_members];
    plan_->rows_of(n, needed);
    for (int i = 0; i < plan_->size(); ++i) {
      row_range rows = needed[i];
      if (i + 1 < plan_->size()) rows = hold(i, image, rows, goes_on);
      if (rows.count() == 0) continue;
      stage& s = stages_[detail::at(i)];
      if (code const c = s.invocation->run_rows(s.args, image, rows); c != code::ok) return c;
    }
    return code::ok;
  }

  /// Makes room for the rows that are needed of member i, tells it and the next one where they are, and gives those that
  /// are not there yet.
  row_range hold(int i, extent image, row_range needed, bool goes_on) noexcept {
    strip_member const& m = plan_->member(i);
    stage& s = stages_[detail::at(i)];
    if (!goes_on || s.held.last <= needed.first) {
      s.held = {needed.first, needed.first};
      s.base = needed.first;
    } else if (needed.last - s.base > m.held_rows) {
      std::memmove(s.memory, s.memory + (needed.first - s.base) * m.row_bytes,
                   static_cast<std::size_t>((s.held.last - needed.first) * m.row_bytes));
      s.base = needed.first;
    }
    row_range const fresh{s.held.last, needed.last};
    s.held.last = (std::max)(s.held.last, needed.last);
    std::byte* const image0 = s.memory - (image * m.height + s.base) * m.row_bytes;
    for (std::size_t j = 0; j < m.outputs.size(); ++j)
      if (m.outputs[j] < 0) s.args.outputs[j] = image0;
    strip_member const& reader = plan_->member(i + 1);
    for (std::size_t j = 0; j < reader.operands.size(); ++j)
      if (reader.operands[j] < 0) stages_[detail::at(i + 1)].args.operands[j] = image0;
    return fresh;
  }

  std::shared_ptr<strip_plan const> plan_;
  std::vector<stage> stages_;
  extent images_ = 0;
  bool by_image_ = true;  ///< parts are whole images
  int parts_ = 1;
};

/// Of a group that runs in the strip of another one.
class idle_invocation final : public invocation {
 public:
  static result<std::unique_ptr<invocation>> make() {
    return std::unique_ptr<invocation>(new idle_invocation());
  }
  void repoint(call_args const&) noexcept override {}

 private:
  idle_invocation() : invocation([](invocation&) noexcept { return code::ok; }) {}
};

/// What the groups of a strip run on. Their weights are packed by their own kernels, whose layouts it reads.
class strip_kernel final : public kernel {
 public:
  explicit strip_kernel(std::shared_ptr<strip_plan const> plan) : plan_(std::move(plan)) {}

  std::string_view backend() const noexcept override { return plan_->members[0].kernel->backend(); }
  std::size_t scratch_bytes() const noexcept override { return plan_->scratch_bytes; }
  std::vector<stage_note> stages() const override {
    std::vector<stage_note> all;
    for (strip_member const& m : plan_->members)
      for (stage_note& s : m.kernel->stages()) all.push_back(std::move(s));
    return all;
  }
  std::string layout_key(int) const override { return {}; }
  result<packed_weight> pack(int, tensor_view const&) const override {
    return failure{code::unsupported, "sinter: the kernels of a strip pack their weights"};
  }
  /// Whole images: their strips are the same whoever asks for them.
  result<std::shared_ptr<kernel const>> by_rows(array_view<row_range const> ranges) const override {
    for (row_range r : ranges)
      if (r.first != 0 || r.last != plan_->height)
        return failure{code::unsupported, "sinter: this kernel computes whole images only"};
    return std::shared_ptr<kernel const>(new strip_kernel(plan_));
  }
  result<std::unique_ptr<invocation>> make_invocation() const override {
    return strip_invocation::make(plan_);
  }
  strip_plan const& plan() const noexcept { return *plan_; }

 private:
  std::shared_ptr<strip_plan const> plan_;
};

}  // namespace sinter::inline SINTER_ABI
