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

#include "../backend/backend.hpp"
#include "program_plan.hpp"

namespace sinter::inline SINTER_ABI::detail {

/// Of its places, an input's index is of the stretch's operands, an output's of its outputs, an arena item's of its
/// items, a constant's of its constants.
struct stretch_member {
  std::shared_ptr<sinter::kernel const> kernel;  ///< as by_rows() gave it
  shape domain;
  int first = 0, last = 0;  ///< its groups
  inline_vector<place, max_operands> operands;
  inline_vector<place, max_outputs> outputs;
};

struct stretch_plan {
  std::vector<stretch_member> members;
  std::vector<arena_item> items;  ///< values between, of one image; then the scratch of each member
  std::vector<void const*> constants;
  std::size_t scratch_bytes = 0;
  double work = 0;  ///< of an image, multiply-adds

  std::size_t scratch_at(std::size_t member) const noexcept {
    return items[items.size() - members.size() + member].offset;
  }
};

class stretch_invocation final : public invocation {
 public:
  static result<std::unique_ptr<invocation>> make(std::shared_ptr<stretch_plan const> plan) {
    auto made = std::unique_ptr<stretch_invocation>(new stretch_invocation(std::move(plan)));
    for (stretch_member const& m : made->plan_->members) {
      auto member = m.kernel->make_invocation();
      if (!member) return member.error();
      made->members_.push_back(std::move(*member));
    }
    return std::unique_ptr<invocation>(std::move(made));
  }

  void repoint(call_args const& args) noexcept override {
    args_ = args;
    parts_ = 1;
    for (std::size_t i = 0; i < members_.size(); ++i) {
      point(i, 0);
      members_[i]->repoint(member_args_[i]);
    }
    stretch_member const& last = plan_->members.back();
    images_ = args.shapes == nullptr ? last.domain[0]
                                     : args.shapes[last.last - plan_->members[0].first].domain[0];
  }

  int cut(int wanted) noexcept override {
    extent const worth = worthwhile_parts(plan_->work * static_cast<double>(images_), wanted);
    return parts_ = static_cast<int>(std::clamp(images_, extent{1}, worth));
  }
  code run_part(int part) noexcept override {
    return compute(images_ * part / parts_, images_ * (part + 1) / parts_);
  }

 private:
  explicit stretch_invocation(std::shared_ptr<stretch_plan const> plan)
      : invocation(&run_all), plan_(std::move(plan)), member_args_(plan_->members.size()) {}

  static code run_all(invocation& self) noexcept {
    auto& me = static_cast<stretch_invocation&>(self);
    return me.compute(0, me.images_);
  }

  /// Images first, first + 1, ..., last - 1.
  code compute(extent first, extent last) noexcept {
    for (extent image = first; image < last; ++image)
      for (std::size_t i = 0; i < members_.size(); ++i) {
        point(i, image);
        row_range const all{0, plan_->members[i].domain[1]};
        if (code const c = members_[i]->run_rows(member_args_[i], image, all); c != code::ok)
          return c;
      }
    return code::ok;
  }

  /// Image 0 of what is in scratch is where it would be if `image` lay there.
  void point(std::size_t i, extent image) noexcept {
    stretch_member const& m = plan_->members[i];
    call_args& to = member_args_[i];
    to.scratch = static_cast<std::byte*>(args_.scratch) + plan_->scratch_at(i);
    to.shapes =
        args_.shapes == nullptr ? nullptr : args_.shapes + (m.first - plan_->members[0].first);
    for (int j = 0; j < m.operands.ssize(); ++j) to.operands[j] = address_of(m.operands[j], image);
    for (int j = 0; j < m.outputs.ssize(); ++j)
      to.outputs[j] = const_cast<void*>(address_of(m.outputs[j], image));
  }
  void const* address_of(place const& p, extent image) const noexcept {
    if (p.from == source::constant) return plan_->constants[at(p.index)];
    extent from = static_cast<extent>(p.offset);
    void const* base = args_.scratch;
    if (p.from == source::arena) {
      arena_item const& item = plan_->items[at(p.index)];
      from += static_cast<extent>(item.offset) - image * static_cast<extent>(item.bytes);
    } else {
      base = p.from == source::input ? args_.operands[p.index] : args_.outputs[p.index];
    }
    return base == nullptr ? nullptr : static_cast<std::byte const*>(base) + from;
  }

  std::shared_ptr<stretch_plan const> plan_;
  std::vector<std::unique_ptr<invocation>> members_;
  std::vector<call_args> member_args_;
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
  std::vector<stage_note> stages() const override { return {}; }  // those of its groups
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

}  // namespace sinter::inline SINTER_ABI::detail
