// A kernel for one image as a kernel that computes images of a batch by themselves: what by_rows() gives where a backend
// has nothing better.
//
// For backends whose values do not depend on how many images a call has: the reference, and oneDNN where no sum is made.
// Knows pointers and the distance of images only.
#pragma once

#include <memory>
#include <utility>

#include "backend.hpp"

namespace sinter::inline SINTER_ABI {

/// Bytes from image to image of each operand and output of a problem; 0 where it has one for all.
struct image_steps {
  extent operands[max_operands] = {}, outputs[max_outputs] = {};
};

namespace detail {

/// The problem for one image of its batch, images N,H,W,C of known extents, and how far its images are apart.
inline result<problem> one_image_of(problem const& p, image_steps& steps) {
  bool images = p.domain.size() == 4 && !is_dynamic(p) && p.in_place < 0;
  for (int i = 0; images && i < p.chain.outputs.ssize(); ++i)
    images = p.outputs[at(i)].dims.size() == 4 && p.outputs[at(i)].dims[0] == p.domain[0];
  if (!images)
    return failure{code::unsupported, join({"sinter: ", to_string(p.domain),
                                            " is no batch of images of known extents"})};
  problem one = p;
  auto const take = [&p](tensor_desc& d) {
    if (d.dims.size() != 4 || d.dims[0] != p.domain[0]) return extent{0};
    d.dims[0] = 1;
    return d.strides[0] * size_of(d.type);
  };
  for (int i = 0; i < p.chain.operands.ssize(); ++i) {
    bool second = false;
    for (step const& s : p.chain.steps)
      second = second || (s.contraction >= 0 && s.args[1] == operand_ref(i));
    if (!second) steps.operands[i] = take(one.operands[at(i)]);
  }
  for (int i = 0; i < p.chain.outputs.ssize(); ++i) steps.outputs[i] = take(one.outputs[at(i)]);
  one.domain[0] = 1;
  return one;
}

}  // namespace detail

class one_image_invocation final : public invocation {
 public:
  one_image_invocation(std::unique_ptr<invocation> one, image_steps const& steps, problem const& p)
      : invocation([](invocation&) noexcept { return code::unsupported; }),
        one_(std::move(one)),
        steps_(steps),
        operands_(p.chain.operands.ssize()),
        outputs_(p.chain.outputs.ssize()) {}

  void repoint(call_args const&) noexcept override {}
  code run_rows(call_args const& at, extent image, row_range) noexcept override {
    call_args args;
    args.scratch = at.scratch;
    for (int i = 0; i < operands_; ++i)
      args.operands[i] = static_cast<std::byte const*>(at.operands[i]) + image * steps_.operands[i];
    for (int i = 0; i < outputs_; ++i)
      args.outputs[i] = static_cast<std::byte*>(at.outputs[i]) + image * steps_.outputs[i];
    one_->repoint(args);
    return one_->run();
  }

 private:
  std::unique_ptr<invocation> one_;
  image_steps steps_;
  int operands_, outputs_;
};

/// `one` is made for one_image_of(p), and its packed weights are those of `whole`.
class one_image_kernel final : public kernel {
 public:
  one_image_kernel(std::shared_ptr<kernel const> one, image_steps const& steps, problem const& p)
      : one_(std::move(one)), steps_(steps), problem_(p) {}

  std::string_view backend() const noexcept override { return one_->backend(); }
  std::size_t scratch_bytes() const noexcept override { return one_->scratch_bytes(); }
  std::vector<stage_note> stages() const override { return one_->stages(); }
  std::string layout_key(int operand) const override { return one_->layout_key(operand); }
  result<packed_weight> pack(int operand, tensor_view const& source) const override {
    return one_->pack(operand, source);
  }
  result<std::unique_ptr<invocation>> make_invocation() const override {
    auto made = one_->make_invocation();
    if (!made) return made.error();
    return std::unique_ptr<invocation>(
        new one_image_invocation(std::move(*made), steps_, problem_));
  }

 private:
  std::shared_ptr<kernel const> one_;
  image_steps steps_;
  problem problem_;
};

namespace detail {

/// What by_rows() gives where only whole images can be had; `build` makes the kernel for one.
inline result<std::shared_ptr<kernel const>> by_images(
    problem const& p, array_view<row_range const> ranges,
    result<std::shared_ptr<kernel const>> (*build)(problem const&)) {
  for (row_range r : ranges)
    if (p.domain.size() != 4 || r.first != 0 || r.last != p.domain[1])
      return failure{code::unsupported, "sinter: this kernel computes whole images only"};
  image_steps steps;
  result<problem> const one = one_image_of(p, steps);
  if (!one) return one.error();
  result<std::shared_ptr<kernel const>> made = build(*one);
  if (!made) return made.error();
  return std::shared_ptr<kernel const>(new one_image_kernel(std::move(*made), steps, p));
}

}  // namespace detail

}  // namespace sinter::inline SINTER_ABI
