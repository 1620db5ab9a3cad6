// What oneDNN's post-ops can say of a chain: one table, and the walk along the chain that applies it.
//
// Post-ops are a pipeline on one running value. A step belongs to it when it reads the running value once, when what
// else it reads is an operand or a constant, when nobody else wants the running value, and when no rounding point
// lies between. post_op_walk goes from the anchor as far as that holds and says in a sentence why it stopped.
// Under strict numerics it also stops at a step whose answer for NaN, infinities or zeros is not ours: the column
// `strict` was measured with oneDNN 3.7 and test/kernels/onednn_special_values.cpp measures it again; the findings are
// in docs/onednn_special_values.md. Read onednn_layout.hpp next.
#pragma once

#include <cmath>
#include <string>
#include <string_view>
#include <vector>

#include "../plan/problem.hpp"
#include "onednn_api.hpp"

namespace sinter::inline SINTER_ABI {
namespace onednn {

enum class form : unsigned char {
  none,     ///< no post-op says it
  eltwise,  ///< a function of the running value
  binary,   ///< the running value and an operand or a constant
  prelu,
  sum,    ///< the destination's own content is added; made by the walk, not by the table
  noted,  ///< has rules of its own below: contractions, poolings, fma, cast
};

/// How oneDNN's alpha and beta follow from the step's.
enum class parameters : unsigned char { none, same, negate };

/// When the answers for special values are ours.
enum class strict : unsigned char { always, never, depends };

struct post_op_row {
  op code;
  form as;
  dnnl_alg_kind_t alg;      ///< of the step as written
  dnnl_alg_kind_t swapped;  ///< binary, the running value as second argument; undef: not so simple
  parameters takes;
  strict agrees;
};

// clang-format off
inline constexpr post_op_row post_op_table[] = {
    {op::matmul,      form::noted,   dnnl_alg_kind_undef,      dnnl_alg_kind_undef, parameters::none,   strict::always},
    {op::conv1d,      form::noted,   dnnl_alg_kind_undef,      dnnl_alg_kind_undef, parameters::none,   strict::always},
    {op::conv2d,      form::noted,   dnnl_alg_kind_undef,      dnnl_alg_kind_undef, parameters::none,   strict::always},
    {op::conv3d,      form::noted,   dnnl_alg_kind_undef,      dnnl_alg_kind_undef, parameters::none,   strict::always},
    {op::relu,        form::eltwise, dnnl_eltwise_relu,        dnnl_alg_kind_undef, parameters::none,   strict::never},
    {op::leaky_relu,  form::eltwise, dnnl_eltwise_relu,        dnnl_alg_kind_undef, parameters::same,   strict::depends},
    {op::elu,         form::eltwise, dnnl_eltwise_elu,         dnnl_alg_kind_undef, parameters::same,   strict::never},
    {op::clip,        form::eltwise, dnnl_eltwise_clip,        dnnl_alg_kind_undef, parameters::same,   strict::never},
    {op::abs,         form::eltwise, dnnl_eltwise_abs,         dnnl_alg_kind_undef, parameters::none,   strict::always},
    {op::neg,         form::eltwise, dnnl_eltwise_linear,      dnnl_alg_kind_undef, parameters::negate, strict::always},
    {op::sqrt,        form::eltwise, dnnl_eltwise_sqrt,        dnnl_alg_kind_undef, parameters::none,   strict::always},
    {op::square,      form::eltwise, dnnl_eltwise_square,      dnnl_alg_kind_undef, parameters::none,   strict::always},
    {op::exp,         form::eltwise, dnnl_eltwise_exp,         dnnl_alg_kind_undef, parameters::none,   strict::never},
    {op::log,         form::eltwise, dnnl_eltwise_log,         dnnl_alg_kind_undef, parameters::none,   strict::never},
    {op::tanh,        form::eltwise, dnnl_eltwise_tanh,        dnnl_alg_kind_undef, parameters::none,   strict::always},
    {op::sigmoid,     form::eltwise, dnnl_eltwise_logistic,    dnnl_alg_kind_undef, parameters::none,   strict::always},
    {op::gelu_tanh,   form::eltwise, dnnl_eltwise_gelu_tanh,   dnnl_alg_kind_undef, parameters::none,   strict::never},
    {op::gelu_erf,    form::eltwise, dnnl_eltwise_gelu_erf,    dnnl_alg_kind_undef, parameters::none,   strict::never},
    {op::swish,       form::eltwise, dnnl_eltwise_swish,       dnnl_alg_kind_undef, parameters::same,   strict::never},
    {op::hardsigmoid, form::eltwise, dnnl_eltwise_hardsigmoid, dnnl_alg_kind_undef, parameters::same,   strict::never},
    {op::hardswish,   form::eltwise, dnnl_eltwise_hardswish,   dnnl_alg_kind_undef, parameters::same,   strict::never},
    {op::mish,        form::eltwise, dnnl_eltwise_mish,        dnnl_alg_kind_undef, parameters::none,   strict::never},
    {op::softplus,    form::eltwise, dnnl_eltwise_soft_relu,   dnnl_alg_kind_undef, parameters::same,   strict::never},
    {op::pow,         form::eltwise, dnnl_eltwise_pow,         dnnl_alg_kind_undef, parameters::same,   strict::depends},
    {op::round,       form::eltwise, dnnl_eltwise_round,       dnnl_alg_kind_undef, parameters::none,   strict::always},
    {op::linear,      form::eltwise, dnnl_eltwise_linear,      dnnl_alg_kind_undef, parameters::same,   strict::always},
    {op::add,         form::binary,  dnnl_binary_add,          dnnl_binary_add,     parameters::none,   strict::always},
    {op::sub,         form::binary,  dnnl_binary_sub,          dnnl_alg_kind_undef, parameters::none,   strict::always},
    {op::mul,         form::binary,  dnnl_binary_mul,          dnnl_binary_mul,     parameters::none,   strict::always},
    {op::div,         form::binary,  dnnl_binary_div,          dnnl_alg_kind_undef, parameters::none,   strict::always},
    {op::min,         form::binary,  dnnl_binary_min,          dnnl_binary_min,     parameters::none,   strict::never},
    {op::max,         form::binary,  dnnl_binary_max,          dnnl_binary_max,     parameters::none,   strict::never},
    {op::eq,          form::binary,  dnnl_binary_eq,           dnnl_binary_eq,      parameters::none,   strict::always},
    {op::ne,          form::binary,  dnnl_binary_ne,           dnnl_binary_ne,      parameters::none,   strict::always},
    {op::lt,          form::binary,  dnnl_binary_lt,           dnnl_binary_gt,      parameters::none,   strict::depends},
    {op::le,          form::binary,  dnnl_binary_le,           dnnl_binary_ge,      parameters::none,   strict::depends},
    {op::gt,          form::binary,  dnnl_binary_gt,           dnnl_binary_lt,      parameters::none,   strict::depends},
    {op::ge,          form::binary,  dnnl_binary_ge,           dnnl_binary_le,      parameters::none,   strict::depends},
    {op::prelu,       form::prelu,   dnnl_alg_kind_undef,      dnnl_alg_kind_undef, parameters::none,   strict::never},
    {op::select,      form::none,    dnnl_alg_kind_undef,      dnnl_alg_kind_undef, parameters::none,   strict::never},
    {op::fma,         form::noted,   dnnl_alg_kind_undef,      dnnl_alg_kind_undef, parameters::none,   strict::always},
    {op::cast,        form::noted,   dnnl_alg_kind_undef,      dnnl_alg_kind_undef, parameters::none,   strict::always},
    {op::row_sum,     form::none,    dnnl_alg_kind_undef,      dnnl_alg_kind_undef, parameters::none,   strict::always},
    {op::row_mean,    form::none,    dnnl_alg_kind_undef,      dnnl_alg_kind_undef, parameters::none,   strict::always},
    {op::row_max,     form::none,    dnnl_alg_kind_undef,      dnnl_alg_kind_undef, parameters::none,   strict::always},
    {op::argmax,      form::none,    dnnl_alg_kind_undef,      dnnl_alg_kind_undef, parameters::none,   strict::always},
    {op::max_pool,    form::noted,   dnnl_alg_kind_undef,      dnnl_alg_kind_undef, parameters::none,   strict::never},
    {op::avg_pool,    form::noted,   dnnl_alg_kind_undef,      dnnl_alg_kind_undef, parameters::none,   strict::always},
    {op::global_avg_pool, form::noted, dnnl_alg_kind_undef,    dnnl_alg_kind_undef, parameters::none,   strict::always},
};
// clang-format on
static_assert(sizeof(post_op_table) / sizeof(post_op_table[0]) == op_count);
static_assert([] {
  for (int i = 0; i < op_count; ++i)
    if (static_cast<int>(post_op_table[i].code) != i) return false;
  return true;
}());
constexpr post_op_row const& post_op_row_of(op code) {
  return post_op_table[static_cast<int>(code)];
}

/// Rows whose algorithm answers right whatever the parameters are "always"; for the others the parameters decide.
constexpr bool agrees_under_strict(step const& s, dnnl_alg_kind_t alg) {
  post_op_row const& row = post_op_row_of(s.code);
  if (row.agrees != strict::depends) return row.agrees == strict::always;
  switch (s.code) {
    case op::leaky_relu:
      return s.alpha != 0;  // 0 is relu: NaN becomes 0
    case op::pow:
      return s.beta != 0.5F;  // a square root: wrong at -Inf and -0
    default:
      return alg == dnnl_binary_lt || alg == dnnl_binary_le;  // gt and ge say 1 of a NaN
  }
}

/// One entry of a primitive's list.
struct post_op {
  form as = form::eltwise;
  dnnl_alg_kind_t alg = dnnl_alg_kind_undef;
  float alpha = 0, beta = 0;
  value_ref rhs;  ///< an operand or a constant
  int step = -1;
};

/// oneDNN's own limit on the length of the list.
inline constexpr int max_post_ops = 32;

struct post_op_plan {
  int last = -1;  ///< the step whose value the list gives; -1: an operand as it is
  int bias = -1;  ///< an operand added first, handed over as the primitive's own bias
  int bias_step = -1;
  std::vector<post_op> ops;
  bool complete = false;  ///< the last value is output 0, and nothing else is to be done
  std::string why;        ///< why it is not
};

/// "step 3 (relu)"
inline std::string step_name(chain const& c, int i) {
  return "step " + std::to_string(i) + " (" + std::string(sinter::name_of(c.steps[i].code)) + ")";
}

/// What one step adds to the list, or why it cannot.
struct translation {
  std::vector<post_op> ops;
  std::string why;
};

inline translation no(std::string why) { return {{}, std::move(why)}; }

/// Sums and products with a constant are linear functions. -0.0 as beta keeps the sign of a zero product.
inline translation with_constant(step const& s, bool swapped, float c) {
  switch (s.code) {
    case op::add:
      return {{{form::eltwise, dnnl_eltwise_linear, 1, c, {}, -1}}, {}};
    case op::mul:
      return {{{form::eltwise, dnnl_eltwise_linear, c, -0.0F, {}, -1}}, {}};
    case op::sub:
      if (swapped) return {{{form::eltwise, dnnl_eltwise_linear, -1, c, {}, -1}}, {}};
      return {{{form::eltwise, dnnl_eltwise_linear, 1, -c, {}, -1}}, {}};
    default:
      return no({});
  }
}

/// One f32 value for each index of the last axis, next to each other.
inline bool is_dense_vector(problem const& p, value_ref v) {
  if (v.kind != value_kind::operand || p.domain.empty()) return false;
  tensor_desc const& d = p.operands[static_cast<std::size_t>(v.index)];
  return d.type == dtype::f32 && !d.dims.empty() && d.dims.back() == p.domain.back() &&
         element_count(d.dims) == d.dims.back() && (d.strides.back() == 1 || d.dims.back() == 1);
}

/// Comparisons and prelu take a mask register that a tail of channels needs too. oneDNN 3.7 then fails to generate
/// code, and a convolution does not notice and crashes when it is run; so they are kept away from tails.
inline bool has_channel_tail(problem const& p) {
  int const anchor = p.chain.anchor();
  extent const groups = anchor < 0 ? 1 : p.chain.attrs(p.chain.steps[anchor]).groups;
  constexpr extent lanes = 16;  // f32 in the widest vector
  return p.domain.empty() || p.domain.back() / groups % lanes != 0;
}
inline bool is_single(problem const& p, value_ref v) {
  return v.kind == value_kind::constant ||
         element_count(p.operands[static_cast<std::size_t>(v.index)].dims) == 1;
}
inline bool is_single_f32(problem const& p, value_ref v) {
  return v.kind == value_kind::operand && is_single(p, v) &&
         p.operands[static_cast<std::size_t>(v.index)].type == dtype::f32;
}
constexpr bool is_comparison(op code) { return code >= op::eq && code <= op::ge; }

inline translation binary(problem const& p, step const& s, bool swapped, value_ref rhs) {
  chain const& c = p.chain;
  post_op_row const& row = post_op_row_of(s.code);
  if (rhs.kind == value_kind::constant)
    if (translation t = with_constant(s, swapped, c.constants[int{rhs.index}]); !t.ops.empty())
      return t;
  if ((is_comparison(s.code) || row.as == form::prelu) && !is_single(p, rhs) && has_channel_tail(p))
    return no("oneDNN fails at it where the channels are no multiple of 16");
  if (row.as == form::prelu) {
    if (swapped) return no("the running value is its slope");
    if (rhs.kind == value_kind::constant)
      return {{{form::eltwise, dnnl_eltwise_relu, c.constants[int{rhs.index}], 0, {}, -1}}, {}};
    if (!is_dense_vector(p, rhs) && !is_single_f32(p, rhs))
      return no("its slope is not one f32 value for each channel, next to each other");
    return {{{form::prelu, dnnl_alg_kind_undef, 0, 0, rhs, -1}}, {}};
  }
  if (!swapped) return {{{form::binary, row.alg, 0, 0, rhs, -1}}, {}};
  if (row.swapped != dnnl_alg_kind_undef) return {{{form::binary, row.swapped, 0, 0, rhs, -1}}, {}};
  if (s.code == op::sub)
    return {{{form::eltwise, dnnl_eltwise_linear, -1, -0.0F, {}, -1},
             {form::binary, dnnl_binary_add, 0, 0, rhs, -1}},
            {}};
  return no("no post-op divides by the running value");
}

inline translation fma(chain const& c, step const& s, value_ref running) {
  auto const& a = s.args;
  int const at = a[0] == running ? 0 : 1;
  bool const linear = a[2].kind == value_kind::constant && a[1 - at].kind == value_kind::constant;
  if (!linear || a[at] != running)
    return no("no post-op rounds a product and a sum of operands once");
  return {{{form::eltwise,
            dnnl_eltwise_linear,
            c.constants[int{a[1 - at].index}],
            c.constants[int{a[2].index}],
            {},
            -1}},
          {}};
}

inline translation eltwise(step const& s) {
  post_op_row const& row = post_op_row_of(s.code);
  switch (row.takes) {
    case parameters::none:
      return {{{form::eltwise, row.alg, 0, 0, {}, -1}}, {}};
    case parameters::same:
      return {{{form::eltwise, row.alg, s.alpha, s.beta, {}, -1}}, {}};
    case parameters::negate:
      return {{{form::eltwise, row.alg, -1, -0.0F, {}, -1}}, {}};
  }
  return no({});
}

/// Step i as post-ops on the running value.
inline translation translate(problem const& p, int i, value_ref running) {
  chain const& c = p.chain;
  step const& s = c.steps[i];
  int reads = 0, at = -1;
  for (int a = 0; a < row_of(s.code).arity; ++a) {
    if (s.args[a] == running) {
      ++reads;
      at = a;
    } else if (s.args[a].kind == value_kind::step) {
      return no("it reads a second computed value");
    }
  }
  if (reads == 0) return no("it does not read the running value");
  if (reads > 1) return no("it reads the running value twice");
  post_op_row const& row = post_op_row_of(s.code);
  translation t;
  if (s.code == op::cast) {
    if (s.to != dtype::f32) return no("it rounds in the middle of the group");
    return t;
  }
  if (s.code == op::fma)
    t = fma(c, s, running);
  else if (row.as == form::eltwise)
    t = eltwise(s);
  else if (row.as == form::binary || row.as == form::prelu)
    t = binary(p, s, at == 1, s.args[1 - at]);
  else
    t = no(is_reduction(s.code) ? "no post-op reduces rows" : "no post-op says it");
  if (p.numerics == numerics::strict && t.why.empty() &&
      !agrees_under_strict(s, t.ops.empty() ? dnnl_alg_kind_undef : t.ops.back().alg))
    return no(
        "under strict numerics oneDNN's answer for NaN, an infinity or a zero is not Sinter's");
  return t;
}

/// Is the running value rounded here although the primitive would go on with it, or wanted by others?
inline std::string blocked_after(problem const& p, int i) {
  chain const& c = p.chain;
  for (output const& o : c.outputs)
    if (o.value == step_ref(i)) return "the value of " + step_name(c, i) + " is also an output";
  if (c.uses(step_ref(i)) != 1)
    return "the value of " + step_name(c, i) + " is read more than once";
  if (c.steps[i].rounded && c.precision.src != dtype::f32)
    return "the value of " + step_name(c, i) + " is rounded to " +
           std::string(sinter::name_of(c.precision.src));
  return {};
}

/// Do the last value's own rounding and the store round as one?
inline bool stores_as_one(problem const& p, int last) {
  chain const& c = p.chain;
  dtype const to = p.outputs[0].type;
  step const& s = c.steps[last];
  return (!s.rounded || c.precision.src == dtype::f32 || c.precision.src == to);
}

/// An addend that the primitive takes as its own bias.
inline bool is_bias(problem const& p, post_op const& o) {
  return o.as == form::binary && o.alg == dnnl_binary_add && is_dense_vector(p, o.rhs);
}

/// Does it read operand p.in_place, which is the output's own memory?
inline bool reads_output(problem const& p, translation const& t) {
  for (post_op const& o : t.ops)
    if (o.rhs.kind == value_kind::operand && o.rhs.index == p.in_place) return true;
  return false;
}

/// A cast of the last value to the output's dtype is the store itself.
inline bool is_the_store(problem const& p, int i, value_ref running) {
  chain const& c = p.chain;
  return c.steps[i].code == op::cast && i + 1 == c.steps.ssize() && c.outputs.ssize() == 1 &&
         c.steps[i].args[0] == running && c.steps[i].to == p.outputs[0].type;
}

/// Walks the chain. `running` is the value that the primitive itself makes, that of a contraction or a pooling, or an
/// operand that it reads.
class post_op_walk {
 public:
  post_op_walk(problem const& p, value_ref running) : p_(p), c_(p.chain), running_(running) {}

  post_op_plan run() {
    plan_.last = running_.kind == value_kind::step ? running_.index : -1;
    contracts_ = plan_.last >= 0 && c_.steps[plan_.last].contraction >= 0;
    for (int i = plan_.last + 1; i < c_.steps.ssize(); ++i) {
      if (running_.kind == value_kind::step) plan_.why = blocked_after(p_, running_.index);
      if (plan_.why.empty()) plan_.why = take(i);
      if (!plan_.why.empty()) return std::move(plan_);
      plan_.last = i;
      running_ = step_ref(i);
    }
    if (c_.outputs.ssize() > 1)
      plan_.why = "there are " + std::to_string(c_.outputs.ssize()) + " outputs";
    else if (!stores_as_one(p_, plan_.last))
      plan_.why = "the value of " + step_name(c_, plan_.last) + " is rounded before it is stored";
    plan_.complete = plan_.why.empty();
    return std::move(plan_);
  }

 private:
  // Step i goes into the list; or the reason why not, and the list is as it was.
  std::string take(int i) {
    if (is_the_store(p_, i, running_)) return {};
    translation t = translate(p_, i, running_);
    if (!t.why.empty()) return step_name(c_, i) + ": " + t.why;
    if (plan_.ops.size() + t.ops.size() > max_post_ops)
      return step_name(c_, i) + ": oneDNN takes " + std::to_string(max_post_ops) +
             " post-ops and not more";
    if (reads_output(p_, t)) {
      if (!contracts_ || !plan_.ops.empty() || t.ops.size() != 1 || t.ops[0].alg != dnnl_binary_add)
        return step_name(c_, i) + ": it reads the memory that the output goes to";
      t.ops[0].as = form::sum;
    }
    for (post_op& o : t.ops) o.step = i;
    if (contracts_ && plan_.ops.empty() && plan_.bias < 0 && t.ops.size() == 1 &&
        is_bias(p_, t.ops[0])) {
      plan_.bias = t.ops[0].rhs.index;
      plan_.bias_step = i;
    } else {
      for (post_op const& o : t.ops) plan_.ops.push_back(o);
    }
    return {};
  }

  problem const& p_;
  chain const& c_;
  value_ref running_;
  bool contracts_ = false;  ///< only contractions take a bias and a sum
  post_op_plan plan_;
};

}  // namespace onednn
}  // namespace sinter::inline SINTER_ABI
