// A stretch: kernels that a batch goes through image by image, one after another, so that a near cache keeps what an
// image has between them.
//
// Values that only members read and write have room for one image in scratch, by their lives; all others are where they
// would be without. A member computes whole images by kernel::by_rows(), and may be a strip (backend/strip.hpp). Parts
// for several threads are images. Which groups are members is run/stretch_builder.hpp's business.
#pragma once

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "backend.hpp"
#include "strip_plan.hpp"

namespace sinter::inline SINTER_ABI {

/// Where a member reads or writes image 0.
struct stretch_place {
  enum class from : unsigned char { operand, output, constant, scratch };
  from where = from::operand;
  int index = 0;           ///< of the stretch's call_args
  std::size_t offset = 0;  ///< bytes from there, or in scratch
  void const* constant = nullptr;
  extent image_bytes = 0;  ///< from image to image of what is in scratch, if it were all there
};

struct stretch_member {
  std::shared_ptr<sinter::kernel const> kernel;  ///< as by_rows() gave it
  sinter::problem problem;                       ///< of its last group
  int first = 0, last = 0;                       ///< its groups, counted from the stretch's first
  double work = 0;                               ///< of an image, multiply-adds
  std::size_t scratch_at = 0;                    ///< its own, in the stretch's
  std::vector<stretch_place> operands, outputs;
};

struct stretch_plan {
  std::vector<stretch_member> members;
  std::size_t scratch_bytes = 0;  ///< of members, and of values between them
};

class stretch_invocation final : public invocation {
 public:
  static result<std::unique_ptr<invocation>> make(std::shared_ptr<stretch_plan const> plan) {
    auto made = std::unique_ptr<stretch_invocation>(new stretch_invocation(std::move(plan)));
    for (stretch_member const& m : made->plan_->members) {
      auto member = m.kernel->make_invocation();
      if (!member) return member.error();
      made->stages_.push_back({std::move(*member), {}, 0});
    }
    return std::unique_ptr<invocation>(std::move(made));
  }

  void repoint(call_args const& args) noexcept override {
    args_ = args;
    parts_ = 1;
    for (std::size_t i = 0; i < stages_.size(); ++i) {
      stretch_member const& m = plan_->members[i];
      stage& s = stages_[i];
      s.args.scratch = static_cast<std::byte*>(args.scratch) + m.scratch_at;
      s.args.shapes = args.shapes == nullptr ? nullptr : args.shapes + m.first;
      point(m, s.args, 0);
      s.invocation->repoint(s.args);
      problem const& p = args.shapes == nullptr ? m.problem : args.shapes[m.last];
      s.height = p.domain[1];
      images_ = element_count(p.domain) == 0 ? 0 : p.domain[0];
    }
  }

  int cut(int wanted) noexcept override {
    double work = 0;
    for (stretch_member const& m : plan_->members) work += m.work;
    extent const worth = worthwhile_parts(work * static_cast<double>(images_), wanted);
    return parts_ = static_cast<int>(std::clamp(images_, extent{1}, worth));
  }
  code run_part(int part) noexcept override {
    return compute(images_ * part / parts_, images_ * (part + 1) / parts_);
  }

 private:
  struct stage {
    std::unique_ptr<sinter::invocation> invocation;
    call_args args;
    extent height;
  };

  explicit stretch_invocation(std::shared_ptr<stretch_plan const> plan)
      : invocation(&run_all), plan_(std::move(plan)) {}

  static code run_all(invocation& self) noexcept {
    auto& me = static_cast<stretch_invocation&>(self);
    return me.compute(0, me.images_);
  }

  /// Images first, first + 1, ..., last - 1.
  code compute(extent first, extent last) noexcept {
    for (extent image = first; image < last; ++image)
      for (std::size_t i = 0; i < stages_.size(); ++i) {
        stage& s = stages_[i];
        point(plan_->members[i], s.args, image);
        if (code const c = s.invocation->run_rows(s.args, image, {0, s.height}); c != code::ok)
          return c;
      }
    return code::ok;
  }

  /// Image 0 of what is in scratch is where it would be if `image` lay there.
  void point(stretch_member const& m, call_args& to, extent image) const noexcept {
    for (std::size_t i = 0; i < m.operands.size(); ++i)
      to.operands[i] = address_of(m.operands[i], image);
    for (std::size_t i = 0; i < m.outputs.size(); ++i)
      to.outputs[i] = const_cast<void*>(address_of(m.outputs[i], image));
  }
  void const* address_of(stretch_place const& p, extent image) const noexcept {
    auto const* const base = static_cast<std::byte const*>(
        p.where == stretch_place::from::operand    ? args_.operands[p.index]
        : p.where == stretch_place::from::output   ? args_.outputs[p.index]
        : p.where == stretch_place::from::constant ? p.constant
                                                   : args_.scratch);
    return base == nullptr ? nullptr
                           : base + (static_cast<extent>(p.offset) - image * p.image_bytes);
  }

  std::shared_ptr<stretch_plan const> plan_;
  std::vector<stage> stages_;
  call_args args_;
  extent images_ = 0;
  int parts_ = 1;
};

/// What the groups of a stretch run on. Their weights are packed by their own kernels, whose layouts it reads.
class stretch_kernel final : public kernel {
 public:
  explicit stretch_kernel(std::shared_ptr<stretch_plan const> plan) : plan_(std::move(plan)) {}

  std::string_view backend() const noexcept override { return plan_->members[0].kernel->backend(); }
  std::size_t scratch_bytes() const noexcept override { return plan_->scratch_bytes; }
  std::vector<stage_note> stages() const override {
    std::vector<stage_note> all;
    for (stretch_member const& m : plan_->members)
      for (stage_note& s : m.kernel->stages()) all.push_back(std::move(s));
    return all;
  }
  std::string layout_key(int) const override { return {}; }
  result<packed_weight> pack(int, tensor_view const&) const override {
    return failure{code::unsupported, "sinter: the kernels of a stretch pack their weights"};
  }
  result<std::unique_ptr<invocation>> make_invocation() const override {
    return stretch_invocation::make(plan_);
  }

 private:
  std::shared_ptr<stretch_plan const> plan_;
};

}  // namespace sinter::inline SINTER_ABI
