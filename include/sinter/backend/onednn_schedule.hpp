// From a problem to the stages that compute it: copies into another layout, one primitive, and a pass for the rest.
//
// What is tried, best first: everything in one primitive on the caller's memory; less and less of the chain, the rest
// in a pass over an f32 buffer; the same with activations copied to and from the order of axes that oneDNN's kernels
// are written for; slower code. The first that oneDNN accepts is taken, and each stage notes why it is
// there. A split moves no rounding point: the buffer is f32. Read onednn_kernel.hpp next.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "../base/join.hpp"
#include "../reference/pass.hpp"
#include "backend.hpp"
#include "onednn_trust.hpp"

namespace sinter::inline SINTER_ABI {
namespace onednn {

enum class stage_kind : unsigned char { one_primitive, pass };

struct stage {
  stage_kind kind = stage_kind::one_primitive;
  made_primitive made;  ///< kind one_primitive
  stage_note note;
};

struct schedule {
  std::vector<stage> stages;
  std::size_t scratch_bytes = 0;
  contraction_operands operands;
  memory_desc packed_weight;
  /// What a pass goes on from: a step and its value, in scratch at `buffer`, or zeros everywhere.
  given_value given;
  bool zeros = false;
  std::size_t buffer = 0;
  std::size_t pass_scratch = 0;  ///< where in scratch the pass computes
};

/// A pooling comes first, as split_at_pooling() leaves it, and reads an operand.
inline verdict check_pooling(problem const& p) {
  chain const& c = p.chain;
  step const& s = c.steps[0];
  if (p.numerics == numerics::strict && post_op_row_of(s.code).agrees == strict::never)
    return verdict::no("sinter: under strict numerics oneDNN's answer for a NaN in a window of " +
                       step_name(c, 0) + " is not Sinter's");
  if (s.code != op::avg_pool || !c.window(s).count_pad || !c.window(s).ceil) return verdict::yes();
  return verdict::no("sinter: oneDNN counts what lies behind the padding in a last window of " +
                     step_name(c, 0));
}

/// What the backend cannot do, whatever oneDNN says.
inline verdict check_structure(problem const& p) {
  chain const& c = p.chain;
  auto const no = [](std::string why) {
    return verdict::no("sinter: the oneDNN backend " + std::move(why));
  };
  if (is_dynamic(p)) return no("compiles for fixed extents; an extent of this problem is dynamic");
  int anchors = 0;
  for (step const& s : c.steps) anchors += s.contraction >= 0 ? 1 : 0;
  if (anchors > 1)
    return no("runs one contraction in a group; this one has " + std::to_string(anchors));
  if (c.pooling() >= 0) return check_pooling(p);
  if (anchors == 0)
    return p.domain.empty() ? no("takes values with at least one axis") : verdict::yes();
  step const& s = c.steps[c.anchor()];
  for (int i = 0; i < 2; ++i)
    if (s.args[i].kind != value_kind::operand)
      return no("takes the operands of a contraction as they are in memory; " +
                step_name(c, c.anchor()) + " reads " + sinter::detail::describe(c, s.args[i]));
  // Mixed dtypes are accepted by oneDNN 3.7 and give wrong sums; integers await their own rules.
  dtype const src = p.operands[at(s.args[0].index)].type, wt = p.operands[at(s.args[1].index)].type;
  if (src != wt || !is_floating(src) || src != c.precision.src || wt != c.precision.weight)
    return no("multiplies operands of one floating dtype, that of the precision; " +
              step_name(c, c.anchor()) + " reads " + std::string(sinter::name_of(src)) + " and " +
              std::string(sinter::name_of(wt)));
  if (s.args[0] == s.args[1]) return no("takes two operands for a contraction, not one twice");
  operand const& weight = c.operands[int{s.args[1].index}];
  if (weight.role == role::weight && c.uses(s.args[1]) > 1)
    return no("packs weight '" + std::string(weight.name.view()) +
              "' for its contraction; another step reads it too");
  return verdict::yes();
}

class scheduler {
 public:
  explicit scheduler(problem const& p) : p_(p), c_(p.chain), anchor_(p.chain.anchor()) {}

  result<schedule> run() {
    if (verdict v = check_structure(p_); !v) return failure{v.what, v.reason};
    // Descriptors divide the work by the count that they see.
    thread_scope const threads(openmp(), p_.openmp_threads);
    if (cpu_engine() == nullptr)
      return failure{code::system, "sinter: oneDNN has no CPU engine here"};
    if (nothing_to_do()) return std::move(schedule_);
    if (anchor_ >= 0) return contraction();
    if (c_.pooling() == 0) return pooling();
    return pointwise();
  }

 private:
  bool nothing_to_do() const {
    for (int i = 0; i < c_.outputs.ssize(); ++i)
      if (element_count(p_.outputs[at(i)].dims) != 0) return false;
    return true;
  }

  result<schedule> contraction() {
    step const& s = c_.steps[anchor_];
    frame_ = frame_of(s.code, p_.domain.ssize());
    operands_.src = s.args[0].index;
    operands_.weight = s.args[1].index;
    operands_.packed = c_.operands[operands_.weight].role == role::weight;
    src_ = src_desc(frame_, s, c_.attrs(s), p_.operands[at(operands_.src)]);
    plan_ = post_op_walk(p_, step_ref(anchor_)).run();
    if (element_count(src_.dims) == 0) return zeros();
    if (is_conv(s.code))
      if (verdict v = trusts_conv(p_, src_.dims); !v) return failure{v.what, v.reason};
    return search(anchor_);
  }

  result<schedule> pooling() {
    step const& s = c_.steps[0];
    frame_ = frame_of(s.code, p_.domain.ssize());
    operands_.src = s.args[0].index;
    src_ = aligned(p_.operands[at(operands_.src)], p_.domain.ssize());
    plan_ = post_op_walk(p_, step_ref(0)).run();
    return search(0);
  }

  // Axes of extent 1 are left out: oneDNN 3.7 mistakes {1,16,1} for a value per row.
  frame squeezed(frame f) const {
    inline_vector<int, max_rank> kept;
    for (int axis : f.order)
      if (p_.domain[axis] != 1) kept.push_back(axis);
    if (kept.empty()) kept.push_back(p_.domain.ssize() - 1);
    f.order = kept;
    f.channel_axis = kept.ssize() - 1;
    return f;
  }

  // The first operand that step 0 reads with all extents of the domain is the source.
  result<schedule> pointwise() {
    frame_ = squeezed(frame_of(op::relu, p_.domain.ssize()));
    for (value_ref v : c_.steps[0].args) {
      if (v.kind != value_kind::operand || !(p_.operands[at(v.index)].dims == p_.domain)) continue;
      operands_.src = v.index;
      src_ = aligned(p_.operands[at(v.index)], p_.domain.ssize());
      plan_ = post_op_walk(p_, v).run();
      if (plan_.last >= 0) return search(0);
      return failure{code::unsupported,
                     "sinter: the oneDNN backend finds nothing to begin with: " + plan_.why};
    }
    return failure{code::unsupported,
                   "sinter: the oneDNN backend begins with a tensor of all extents, " +
                       to_string(p_.domain) + ", and " + step_name(c_, 0) + " reads none"};
  }

  // Sums over nothing are zero: no primitive, and the steps after it see zeros.
  result<schedule> zeros() {
    schedule_.zeros = true;
    tensor_desc one{dtype::f32, p_.domain, p_.domain};
    for (int i = 0; i < p_.domain.ssize(); ++i) one.dims[i] = one.strides[i] = 1;
    add_pass(anchor_, one, "the sums of " + step_name(c_, anchor_) + " are over nothing");
    return std::move(schedule_);
  }

  // Copies cost less than slow code; in front of pointwise steps they cost more than a pass.
  result<schedule> search(int first) {
    failure refused{code::unsupported, {}};  // the first answer: the one to the whole plan
    for (speed const worst : {speed::fast, speed::im2col, speed::reference}) {
      for (bool const copies : {false, true}) {
        if (result<schedule> r = shorten(first, copies, worst, refused); r.ok()) return r;
        if (anchor_ < 0) return refused;
      }
    }
    return refused;
  }

  // The most steps in one primitive that oneDNN takes.
  result<schedule> shorten(int first, bool copies, speed worst, failure& refused) {
    std::string why = plan_.why;  // why not one step more
    for (int last = plan_.last; last >= first; --last) {
      for (bool const to_output : {true, false}) {
        if (to_output && !(plan_.complete && last == plan_.last)) continue;
        result<schedule> r = build(last, to_output, copies, worst, why);
        if (r.ok()) return r;
        why = sinter::detail::without_prefix(r.error().message);
        if (refused.message.empty()) refused = r.error();
      }
    }
    return refused;
  }

  std::string steps_text(int first, int last) const {
    std::string text;
    for (int i = first; i <= last; ++i)
      text += (text.empty() ? "" : " | ") + std::string(sinter::name_of(c_.steps[i].code));
    return text.empty() ? "store" : text;
  }

  std::size_t reserve(std::size_t bytes) {
    std::size_t const offset = round_up(schedule_.scratch_bytes, scratch_alignment);
    schedule_.scratch_bytes = offset + bytes;
    return offset;
  }

  static tensor_desc dense_like(tensor_desc const& d) { return dense_desc(d.type, d.dims); }
  std::size_t copy_bytes(tensor_desc const& d) const {
    return static_cast<std::size_t>(element_count(d.dims)) *
           static_cast<std::size_t>(size_of(d.type));
  }

  // Adds a stage that copies; the descriptions have the same extents.
  status add_copy(std::string what, std::string why, layout const& from, location from_at,
                  layout const& to, location to_at) {
    result<made_primitive> r =
        make_reorder(describe(from), from_at, describe(to), to_at, schedule_.scratch_bytes);
    if (!r.ok()) return r.error();
    stage s;
    s.note = {std::move(what), r->implementation, std::move(why)};
    schedule_.scratch_bytes = r->scratch_end;
    s.made = std::move(*r);
    schedule_.stages.push_back(std::move(s));
    return {};
  }

  // The source, or a copy of it.
  status place_source(attempt& a, bool copies) {
    a.src = {place::operand, at(operands_.src)};
    a.src_desc = src_;
    tensor_desc const dense = dense_like(src_);
    if (!copies || is_dense(src_)) return {};
    a.src = {place::scratch, reserve(copy_bytes(dense))};
    a.src_desc = dense;
    std::string const name(c_.operands[operands_.src].name.view());
    frame const plain = frame_of(c_.steps[anchor_].code, p_.domain.ssize());
    return add_copy("copy " + name, "oneDNN is slow on the strides of '" + name + "'",
                    to_layout(plain, src_), {place::operand, at(operands_.src)},
                    to_layout(plain, dense), a.src);
  }

  status place_weight(attempt& a, bool copies) {
    if (anchor_ < 0) return {};
    a.weight = {place::operand, at(operands_.weight)};
    a.weight_desc = p_.operands[at(operands_.weight)];
    tensor_desc const dense = dense_like(a.weight_desc);
    if (!copies || operands_.packed || is_dense(a.weight_desc)) return {};
    location const copy{place::scratch, reserve(copy_bytes(dense))};
    std::string const name(c_.operands[operands_.weight].name.view());
    step const& s = c_.steps[anchor_];
    frame const plain = frame_of(s.code, p_.domain.ssize());
    status st = add_copy("copy " + name, "oneDNN is slow on the strides of '" + name + "'",
                         weight_layout(plain, s, c_.attrs(s), a.weight_desc), a.weight,
                         weight_layout(plain, s, c_.attrs(s), dense), copy);
    a.weight = copy;
    a.weight_desc = dense;
    return st;
  }

  // A value that a pass goes on with is f32, or rounded by being stored where the chain rounds it.
  void place_destination(attempt& a, bool to_output, bool copies) {
    tensor_desc const out = aligned(p_.outputs[0], p_.domain.ssize());
    bool const rounded = a.last >= 0 && c_.steps[a.last].rounded;
    tensor_desc const dense = dense_desc(to_output ? p_.outputs[0].type
                                         : rounded ? c_.precision.src
                                                   : dtype::f32,
                                         p_.domain);
    if (to_output && (!copies || is_dense(out))) {
      a.dst = {place::output, 0};
      a.dst_desc = out;
      return;
    }
    a.dst_desc = dense;
    schedule_.buffer = reserve(copy_bytes(dense));
    a.dst = {place::scratch, schedule_.buffer};
  }

  bool may_merge(attempt const& a) const {
    int const rank = p_.domain.ssize();
    if (frame_.order.ssize() < 3 || (anchor_ >= 0 && c_.steps[anchor_].code != op::matmul) ||
        c_.pooling() >= 0)
      return false;
    bool merged = merges(a.src_desc, p_.domain) && merges(a.dst_desc, p_.domain);
    if (anchor_ >= 0)
      for (int i = 0; i + 2 < a.weight_desc.dims.ssize(); ++i)
        merged = merged && a.weight_desc.dims[i] == 1;
    for (post_op const& o : plan_.ops)
      if (o.rhs.kind == value_kind::operand && o.step <= a.last)
        merged = merged && merges(aligned(p_.operands[at(o.rhs.index)], rank, true), p_.domain);
    return merged;
  }

  // `to_output`: the primitive's value is stored as it is; otherwise a pass goes on with it.
  result<schedule> build(int last, bool to_output, bool copies, speed worst,
                         std::string const& why) {
    schedule_ = {};
    attempt a;
    a.last = last;
    if (status st = place_source(a, copies); !st.ok()) return st.error();
    if (status st = place_weight(a, copies); !st.ok()) return st.error();
    place_destination(a, to_output, copies);
    if (copies && schedule_.stages.empty() && (a.dst.where == place::output || !to_output))
      return failure{code::unsupported, "sinter: the oneDNN backend finds nothing to copy"};
    frame frame = frame_;
    frame.merged = may_merge(a);
    if (verdict v = trusts(p_, operands_, plan_, a, frame.merged); !v)
      return failure{v.what, v.reason};
    a.scratch_end = schedule_.scratch_bytes;
    result<made_primitive> r = primitive_maker(p_, frame, operands_, plan_, a).make(worst);
    if (!r.ok()) return r.error();
    schedule_.scratch_bytes = r->scratch_end;
    schedule_.operands = operands_;
    if (r->packed_weight) schedule_.packed_weight = clone(r->packed_weight.get());
    stage s;
    s.note = {steps_text(anchor_ < 0 ? 0 : anchor_, last), r->implementation, {}};
    if (!schedule_.stages.empty()) s.note.why = "it follows a copy";
    s.made = std::move(*r);
    schedule_.stages.push_back(std::move(s));
    if (!to_output) {
      add_pass(last, a.dst_desc, why);
    } else if (a.dst.where == place::scratch) {
      tensor_desc const out = aligned(p_.outputs[0], p_.domain.ssize());
      std::string const name(c_.outputs[0].name.view());
      if (status st = add_copy("copy " + name, "oneDNN is slow on the strides of '" + name + "'",
                               to_layout(frame_, a.dst_desc), a.dst, to_layout(frame_, out),
                               {place::output, 0});
          !st.ok())
        return st.error();
    }
    return std::move(schedule_);
  }

  void add_pass(int last, tensor_desc const& value, std::string why) {
    stage s;
    s.kind = stage_kind::pass;
    s.note = {steps_text(last + 1, c_.steps.ssize() - 1), "pass", std::move(why)};
    schedule_.given = {last, nullptr, value};
    schedule_.pass_scratch = reserve(pass_scratch_bytes(c_));
    schedule_.stages.push_back(std::move(s));
  }

  problem const& p_;
  chain const& c_;
  int anchor_;
  frame frame_;
  contraction_operands operands_;
  tensor_desc src_;
  post_op_plan plan_;
  schedule schedule_;
};

}  // namespace onednn
}  // namespace sinter::inline SINTER_ABI
