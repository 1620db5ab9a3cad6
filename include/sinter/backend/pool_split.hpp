// A problem with a pooling cut in two: what the window reads, and the window with what follows it.
//
// The front half makes the value that is pooled (and what else is made of values from before the window); the back
// half begins with the pooling and reads that value as an operand. Halves are problems for kernels that exist. The
// value between them is f32, so nothing is rounded at the cut; or narrower where that is exact: the value is a let, or
// it is the largest one that is rounded next, and rounding keeps order. Values only; who runs the halves, and in which
// blocks, is a backend's business: backend/jit_pooled.hpp and backend/onednn_pooled.hpp.
#pragma once

#include <array>
#include <string>

#include "../base/join.hpp"
#include "../plan/problem.hpp"

namespace sinter::inline SINTER_ABI {

struct pool_split {
  problem front;  ///< without steps where the pooling reads an operand
  problem back;   ///< its step 0 is the pooling, its operand 0 what that reads
  /// Where the halves' operands and outputs come from in the whole chain; -1: the value between them.
  std::array<int, max_operands> front_operands{}, back_operands{};
  std::array<int, max_outputs> front_outputs{}, back_outputs{};
  tensor_desc between;
  bool reordered = false;  ///< it is narrower since rounding and the largest value commute

  bool has_front() const { return !front.chain.steps.empty(); }
};

namespace detail {

class pool_splitter {
 public:
  explicit pool_splitter(problem const& p) : p_(p), c_(p.chain), pooling_(p.chain.pooling()) {}

  result<pool_split> run() {
    mark();
    for (int i = 0; i < c_.steps.ssize(); ++i)
      if (!front_[at(i)] && i != pooling_)
        for (value_ref v : c_.steps[i].args)
          if (v.kind == value_kind::step && front_[at(v.index)])
            return refuse(i, "reads values from before and from behind a pooling");
    value_ref const pooled = c_.steps[pooling_].args[0];
    split_.between = dense_desc(type_between(), value_dims(p_, pooled));
    if (pooled.kind == value_kind::step) make_half(split_.front, true);
    make_half(split_.back, false);
    if (!fits_) return refuse(pooling_, "would leave too many values between two kernels");
    return place_in_place();
  }

 private:
  failure refuse(int step, std::string_view why) const {
    return {code::unsupported,
            join({"sinter: step ", step, " (", name_of(c_.steps[step].code), ") ", why})};
  }

  void mark() {
    mark_front(c_.steps[pooling_].args[0]);
    std::array<bool, max_steps> behind{};
    for (int i = 0; i < c_.steps.ssize(); ++i) {
      bool of_front = false;
      behind[at(i)] = i == pooling_;
      for (value_ref v : c_.steps[i].args) {
        if (v.kind != value_kind::step) continue;
        behind[at(i)] = behind[at(i)] || behind[at(v.index)];
        of_front = of_front || front_[at(v.index)];
      }
      if (of_front && !behind[at(i)]) front_[at(i)] = true;
    }
  }
  void mark_front(value_ref v) {
    if (v.kind != value_kind::step || front_[at(v.index)]) return;
    front_[at(v.index)] = true;
    for (value_ref a : c_.steps[int{v.index}].args) mark_front(a);
  }

  dtype type_between() {
    value_ref const pooled = c_.steps[pooling_].args[0];
    dtype const narrow = c_.precision.src;
    if (pooled.kind == value_kind::operand) return p_.operands[at(pooled.index)].type;
    if (c_.steps[int{pooled.index}].rounded) return narrow;
    step const& s = c_.steps[pooling_];
    if (s.code != op::max_pool) return dtype::f32;
    dtype wanted = s.rounded ? narrow : dtype::f32;
    if (!s.rounded && c_.uses(step_ref(pooling_)) == 0) {
      bool first = true, same = true;
      for (output const& o : c_.outputs) {
        if (!(o.value == step_ref(pooling_))) continue;
        same = same && (first || o.type == wanted);
        wanted = o.type;
        first = false;
      }
      if (!same) wanted = dtype::f32;
    }
    split_.reordered = wanted != dtype::f32 && is_floating(wanted);
    return split_.reordered ? wanted : dtype::f32;
  }

  void make_half(problem& half, bool front) {
    half.numerics = p_.numerics;
    half.max_isa = p_.max_isa;
    half.openmp_threads = p_.openmp_threads;
    chain& h = half.chain;
    h.constants = c_.constants;
    h.precision = c_.precision;
    std::array<int, max_steps> local{};
    if (!front) add_step(half, pooling_, front, local);
    for (int i = 0; i < c_.steps.ssize(); ++i)
      if (front_[at(i)] == front && i != pooling_) add_step(half, i, front, local);
    for (int o = 0; o < c_.outputs.ssize(); ++o) {
      int const value = c_.outputs[o].value.index;
      if (front_[at(value)] != front) continue;
      output out = c_.outputs[o];
      out.value = step_ref(local[at(value)]);
      add_output(half, out, p_.outputs[at(o)], o, front);
    }
    value_ref const pooled = c_.steps[pooling_].args[0];
    if (front)
      add_output(half, {"pooled", step_ref(local[at(pooled.index)]), split_.between.type, true},
                 split_.between, -1, true);
    half.domain = front ? split_.between.dims : p_.domain;
  }
  void add_step(problem& half, int i, bool front, std::array<int, max_steps>& local) {
    chain& h = half.chain;
    step s = c_.steps[i];
    for (value_ref& v : s.args) {
      if (v.kind == value_kind::operand) v = operand_of(half, v.index, front);
      if (v.kind != value_kind::step) continue;
      v = front_[at(v.index)] && !front ? operand_of(half, -1, front)
                                        : step_ref(local[at(v.index)]);
    }
    if (s.contraction >= 0) {
      h.contractions.push_back(c_.attrs(c_.steps[i]));
      s.contraction = static_cast<std::int16_t>(h.contractions.ssize() - 1);
    }
    if (s.pooling >= 0) {
      h.poolings.push_back(c_.window(c_.steps[i]));
      s.pooling = 0;
    }
    local[at(i)] = h.steps.ssize();
    h.steps.push_back(s);
  }
  value_ref operand_of(problem& half, int from, bool front) {
    chain& h = half.chain;
    auto& origin = front ? split_.front_operands : split_.back_operands;
    for (int i = 0; i < h.operands.ssize(); ++i)
      if (origin[at(i)] == from) return operand_ref(i);
    if (h.operands.full()) {
      fits_ = false;
      return operand_ref(0);
    }
    operand between;
    between.name = "pooled";
    between.type = split_.between.type;
    between.internal = true;
    origin[h.operands.size()] = from;
    half.operands[h.operands.size()] = from < 0 ? split_.between : p_.operands[at(from)];
    h.operands.push_back(from < 0 ? between : c_.operands[from]);
    return operand_ref(h.operands.ssize() - 1);
  }
  void add_output(problem& half, output const& o, tensor_desc const& d, int from, bool front) {
    chain& h = half.chain;
    if (h.outputs.full()) {
      fits_ = false;
      return;
    }
    (front ? split_.front_outputs : split_.back_outputs)[h.outputs.size()] = from;
    half.outputs[h.outputs.size()] = d;
    h.outputs.push_back(o);
  }

  /// Memory that an operand shares with output 0 belongs to the back half, or nothing is promised.
  result<pool_split> place_in_place() {
    if (p_.in_place < 0) return split_;
    chain const& b = split_.back.chain;
    for (int i = 0; i < b.operands.ssize(); ++i)
      if (split_.back_operands[at(i)] == p_.in_place) split_.back.in_place = i;
    bool const whole = !b.outputs.empty() && split_.back_outputs[0] == 0;
    if (split_.back.in_place < 0 || !whole)
      return refuse(pooling_, "stands in a chain whose output 0 shares memory with an operand");
    return split_;
  }

  problem const& p_;
  chain const& c_;
  int pooling_;
  std::array<bool, max_steps> front_{};
  bool fits_ = true;
  pool_split split_;
};

}  // namespace detail

/// The halves of a problem whose chain has a pooling, or a sentence.
inline result<pool_split> split_at_pooling(problem const& p) {
  return detail::pool_splitter(p).run();
}

}  // namespace sinter::inline SINTER_ABI
