// The oneDNN backend's pooling: what comes before the window, and the window with what follows it, one after the other.
//
//   front half   a kernel of onednn_kernel.hpp, into scratch; none where the window reads an operand
//   back half    oneDNN's pooling with post-ops; where it is refused, say since its answer for a NaN is not Sinter's,
//                the reference pools what oneDNN has computed, and the stage says why
//
// The value between them is whole images: oneDNN's primitives have fixed extents. How a chain is cut is
// backend/pool_split.hpp's business. Read backend/jit_pooled.hpp for the same block by block.
#pragma once

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "../base/join.hpp"
#include "../plan/layout.hpp"
#include "onednn_kernel.hpp"
#include "pool_split.hpp"
#include "reference.hpp"

namespace sinter::inline SINTER_ABI {
namespace onednn {

/// The immutable side.
struct pooled_halves {
  pool_split split;
  std::shared_ptr<kernel const> front, back;  ///< no front: the window reads an operand
  std::string why_reference;                  ///< why the reference pools; empty: oneDNN does

  /// Scratch is the value between the halves, then what each of them wants in its turn.
  std::size_t between_bytes() const {
    return front ? round_up(static_cast<std::size_t>(sinter::detail::byte_span(split.between)),
                            scratch_alignment)
                 : 0;
  }
  std::size_t scratch_bytes() const {
    std::size_t const first = front ? front->scratch_bytes() : 0;
    return between_bytes() + (std::max)(first, back->scratch_bytes());
  }
};

class pooled_invocation final : public invocation {
 public:
  pooled_invocation(std::shared_ptr<pooled_halves const> halves, std::unique_ptr<invocation> front,
                    std::unique_ptr<invocation> back)
      : invocation(&run_both),
        halves_(std::move(halves)),
        front_(std::move(front)),
        back_(std::move(back)) {}

  void repoint(call_args const& args) noexcept override {
    pool_split const& s = halves_->split;
    if (front_) front_->repoint(half_of(args, s.front.chain, s.front_operands, s.front_outputs));
    back_->repoint(half_of(args, s.back.chain, s.back_operands, s.back_outputs));
  }

 private:
  static code run_both(invocation& self) noexcept {
    auto& me = static_cast<pooled_invocation&>(self);
    code const c = me.front_ ? me.front_->run() : code::ok;
    return c == code::ok ? me.back_->run() : c;
  }

  call_args half_of(call_args const& args, chain const& half,
                    std::array<int, max_operands> const& operands,
                    std::array<int, max_outputs> const& outputs) const noexcept {
    auto* const between = static_cast<std::byte*>(args.scratch);
    call_args r;
    r.scratch = between == nullptr ? nullptr : between + halves_->between_bytes();
    for (int i = 0; i < half.operands.ssize(); ++i)
      r.operands[i] = operands[at(i)] < 0 ? between : args.operands[operands[at(i)]];
    for (int i = 0; i < half.outputs.ssize(); ++i)
      r.outputs[i] = outputs[at(i)] < 0 ? between : args.outputs[outputs[at(i)]];
    return r;
  }

  std::shared_ptr<pooled_halves const> halves_;
  std::unique_ptr<invocation> front_, back_;
};

class pooled_kernel final : public kernel {
 public:
  explicit pooled_kernel(std::shared_ptr<pooled_halves const> halves)
      : halves_(std::move(halves)) {}

  std::string_view backend() const noexcept override { return "onednn"; }
  int own_threads() const noexcept override {
    return (halves_->front ? halves_->front : halves_->back)->own_threads();
  }
  std::size_t scratch_bytes() const noexcept override { return halves_->scratch_bytes(); }
  std::vector<stage_note> stages() const override {
    std::vector<stage_note> notes;
    if (halves_->front) notes = halves_->front->stages();
    bool first = !notes.empty();
    for (stage_note& n : halves_->back->stages()) {
      if (first) n.why = "oneDNN pools in a primitive of its own";
      if (!halves_->why_reference.empty()) n.why = halves_->why_reference;
      first = false;
      notes.push_back(std::move(n));
    }
    return notes;
  }
  std::string layout_key(int operand) const override {
    int const i = front_operand(operand);
    return i >= 0 ? halves_->front->layout_key(i)
                  : halves_->back->layout_key(back_operand(operand));
  }
  result<packed_weight> pack(int operand, tensor_view const& source) const override {
    int const i = front_operand(operand);
    return i >= 0 ? halves_->front->pack(i, source)
                  : halves_->back->pack(back_operand(operand), source);
  }
  result<std::unique_ptr<invocation>> make_invocation() const override {
    std::unique_ptr<invocation> front;
    if (halves_->front) {
      auto made = halves_->front->make_invocation();
      if (!made) return made.error();
      front = std::move(*made);
    }
    auto back = halves_->back->make_invocation();
    if (!back) return back.error();
    return std::unique_ptr<invocation>(
        new pooled_invocation(halves_, std::move(front), std::move(*back)));
  }

 private:
  int front_operand(int operand) const {
    return find(halves_->split.front.chain, halves_->split.front_operands, operand);
  }
  int back_operand(int operand) const {
    return find(halves_->split.back.chain, halves_->split.back_operands, operand);
  }
  static int find(chain const& half, std::array<int, max_operands> const& origin, int operand) {
    for (int i = 0; i < half.operands.ssize(); ++i)
      if (origin[at(i)] == operand) return i;
    return -1;
  }

  std::shared_ptr<pooled_halves const> halves_;
};

/// A window that oneDNN neither pools nor makes the source of is the reference's.
inline result<std::shared_ptr<kernel const>> build_pooled(problem const& p) {
  if (is_dynamic(p)) return failure{code::unsupported, check_structure(p).reason};
  result<pool_split> split = split_at_pooling(p);
  if (!split) return split.error();
  auto halves = std::shared_ptr<pooled_halves>(new pooled_halves());
  if (split->has_front()) {
    auto front = build_plain(split->front);
    if (!front) return front.error();
    halves->front = std::move(*front);
  }
  auto back = build_plain(split->back);
  if (!back && !halves->front) return back.error();
  if (!back) halves->why_reference = sinter::detail::without_prefix(back.error().message);
  halves->back =
      back ? std::move(*back) : std::shared_ptr<kernel const>(new reference_kernel(split->back));
  halves->split = std::move(*split);
  return std::shared_ptr<kernel const>(new pooled_kernel(std::move(halves)));
}

}  // namespace onednn

}  // namespace sinter::inline SINTER_ABI
