// From a chain and the extents of its operands to the extents of every value; and whether the chain is well formed.
//
// check_chain() looks at the structure alone (indices, arity, attributes, parameters); contraction_dims() and
// pointwise_dims() give the extents of one step. Sentences name both operands and their extents. Everything here
// accepts `dynamic` extents: dynamic meets dynamic, and never a number. Read plan/problem.hpp next.
#pragma once

#include <string>
#include <string_view>

#include "chain.hpp"
#include "layout.hpp"

namespace sinter::inline SINTER_ABI {
namespace detail {

/// "'x'", "the result of step 3 (relu)", "a constant": for sentences.
inline std::string describe(chain const& c, value_ref v) {
  switch (v.kind) {
    case value_kind::operand: return quoted(c.operands[int{v.index}].name);
    case value_kind::step:
      return "the result of step " + std::to_string(v.index) + " (" +
             std::string(name_of(c.steps[int{v.index}].code)) + ")";
    case value_kind::constant: return "a constant";
    case value_kind::none: break;
  }
  return "nothing";
}

inline std::string extent_text(extent e) { return e == dynamic ? "dynamic" : std::to_string(e); }

inline status check_attrs(op code, contraction_attrs const& a) {
  std::string const who(name_of(code));
  for (int i = 0; i < spatial_rank(code); ++i) {
    if (a.stride[i] < 1) return bad(who + " has the stride " + std::to_string(a.stride[i]) + "; 1 or more is wanted");
    if (a.dilation[i] < 1)
      return bad(who + " has the dilation " + std::to_string(a.dilation[i]) + "; 1 or more is wanted (1 is dense)");
    if (a.pad_begin[i] < 0 || a.pad_end[i] < 0)
      return bad(who + " has the padding " + std::to_string(a.pad_begin[i]) + ", " + std::to_string(a.pad_end[i]) +
                 "; 0 or more is wanted");
  }
  if (a.groups < 1) return bad(who + " has " + std::to_string(a.groups) + " groups; 1 or more is wanted");
  return {};
}

inline status check_params(step const& s) {
  std::string const who(name_of(s.code));
  if (row_of(s.code).params > 0 && (s.alpha != s.alpha || s.beta != s.beta))
    return bad(who + " has a parameter that is NaN");
  if (s.code == op::clip && s.alpha > s.beta)
    return bad("clip has the bounds " + std::to_string(s.alpha) + ", " + std::to_string(s.beta) +
               "; the lower one first is wanted");
  if (s.code == op::softplus && s.alpha == 0) return bad("softplus has alpha 0; any other value is wanted");
  return {};
}

inline bool refers(chain const& c, value_ref v, int before_step) {
  switch (v.kind) {
    case value_kind::operand: return v.index >= 0 && v.index < c.operands.ssize();
    case value_kind::constant: return v.index >= 0 && v.index < c.constants.ssize();
    case value_kind::step: return v.index >= 0 && v.index < before_step;
    case value_kind::none: break;
  }
  return false;
}

inline status check_step(chain const& c, int i) {
  step const& s = c.steps[i];
  std::string const who = "step " + std::to_string(i) + " (" + std::string(name_of(s.code)) + ")";
  for (int a = 0; a < 3; ++a) {
    bool const wanted = a < row_of(s.code).arity;
    if (wanted != (s.args[a].kind != value_kind::none))
      return bad(who + " reads another number of values than " + std::to_string(row_of(s.code).arity));
    if (wanted && !refers(c, s.args[a], i))
      return bad(who + " reads a value that is not defined before it");
    if (wanted && is_contraction(s.code) && s.args[a].kind == value_kind::constant)
      return bad(who + " reads a constant; an operand or a step is wanted");
  }
  if (is_contraction(s.code) != (s.contraction >= 0) || s.contraction >= c.contractions.ssize())
    return bad(who + " has no attributes of a contraction, or has them without being one");
  if (is_contraction(s.code))
    if (status st = check_attrs(s.code, c.attrs(s)); !st.ok()) return st;
  return check_params(s);
}

inline status check_chain(chain const& c) {
  if (c.steps.empty()) return bad("a chain without steps");
  if (c.outputs.empty()) return bad("a chain without outputs");
  for (int i = 0; i < c.steps.ssize(); ++i)
    if (status st = check_step(c, i); !st.ok()) return st;
  for (output const& o : c.outputs)
    if (o.value.kind != value_kind::step || !refers(c, o.value, c.steps.ssize()))
      return bad("output " + quoted(o.name) + " is not the result of a step");
  for (int i = 0; i < c.operands.ssize(); ++i)
    if (c.uses(operand_ref(i)) == 0) return bad("operand " + quoted(c.operands[i].name) + " is not read by any step");
  return {};
}

/// One contraction of a valid chain with the extents of what it reads. Names are made only for a sentence.
struct contraction_site {
  chain const& c;
  step const& s;
  shape const& src;
  shape const& weight;
  std::string op_name() const { return std::string(name_of(s.code)); }
  std::string src_text() const { return describe(c, s.args[0]) + " of " + to_string(src); }
  std::string weight_text() const { return describe(c, s.args[1]) + " of " + to_string(weight); }
};

inline status check_channels(contraction_site const& at) {
  contraction_attrs const& a = at.c.attrs(at.s);
  extent const channels = at.src.back(), in = at.weight.back(), out = at.weight[0];
  if (channels == dynamic || is_dynamic(at.weight))
    return bad(at.op_name() + " has a dynamic extent among the channels of " + at.src_text() + " or in " +
               at.weight_text() + "; only batch and image extents may be dynamic");
  if (checked_mul(in, a.groups) != channels)
    return bad(at.op_name() + ": " + at.src_text() + " has " + std::to_string(channels) + " channels and " +
               at.weight_text() + " wants " + std::to_string(in) + " in each of " + std::to_string(a.groups) +
               " groups");
  if (out % a.groups != 0)
    return bad(at.op_name() + ": " + at.weight_text() + " has " + std::to_string(out) +
               " output channels, not a multiple of the " + std::to_string(a.groups) + " groups");
  return {};
}

/// The extent of spatial axis i (1 is the first) of the output.
inline result<extent> conv_output_extent(contraction_site const& at, int i) {
  contraction_attrs const& a = at.c.attrs(at.s);
  extent const in = at.src[i], k = at.weight[i];
  if (k == 0) return bad(at.op_name() + ": " + at.weight_text() + " has a kernel of extent 0");
  if (in == dynamic) return dynamic;
  extent const e =
      conv_extent(in, k, a.stride[i - 1], a.dilation[i - 1], a.pad_begin[i - 1], a.pad_end[i - 1]);
  if (e == -1) return bad(at.op_name() + " of " + at.src_text() + " has extents that pass 2^61");
  if (e == 0)
    return bad(at.op_name() + ": the kernel of " + at.weight_text() + " spans " +
               std::to_string((k - 1) * a.dilation[i - 1] + 1) + " on axis " + std::to_string(i) +
               ", more than the " + std::to_string(in + a.pad_begin[i - 1] + a.pad_end[i - 1]) + " of " +
               at.src_text() + " with its padding");
  return e;
}

inline result<shape> conv_dims(contraction_site const& at) {
  int const n = spatial_rank(at.s.code);
  if (at.src.ssize() != n + 2 || at.weight.ssize() != n + 2)
    return bad(at.op_name() + " wants a source and a weight of rank " + std::to_string(n + 2) + "; given are " +
               at.src_text() + " and " + at.weight_text());
  if (status st = check_channels(at); !st.ok()) return st.error();
  shape out{at.src[0]};
  for (int i = 1; i <= n; ++i) {
    result<extent> const e = conv_output_extent(at, i);
    if (!e.ok()) return e.error();
    out.push_back(e.value());
  }
  out.push_back(at.weight[0]);
  return out;
}

inline result<shape> matmul_dims(contraction_site const& at) {
  if (at.src.ssize() < 2 || at.weight.ssize() < 2)
    return bad("matmul wants operands of rank 2 or more; given are " + at.src_text() + " and " + at.weight_text());
  contraction_attrs const& a = at.c.attrs(at.s);
  int const s = at.src.ssize(), w = at.weight.ssize();
  extent const m = at.src[a.transposed_src ? s - 1 : s - 2], k = at.src[a.transposed_src ? s - 2 : s - 1];
  extent const n = at.weight[a.transposed_weight ? w - 2 : w - 1];
  extent const weight_k = at.weight[a.transposed_weight ? w - 1 : w - 2];
  if (k != weight_k)
    return bad("matmul: K is " + extent_text(k) + " in " + at.src_text() + " and " + extent_text(weight_k) + " in " +
               at.weight_text());
  shape batch_src = at.src, batch_weight = at.weight;
  batch_src.resize(at.src.size() - 2);
  batch_weight.resize(at.weight.size() - 2);
  broadcast_result batch = broadcast(batch_src, batch_weight);
  if (!batch.fits)
    return bad("matmul: the batch extents of " + at.src_text() + " and " + at.weight_text() + " do not broadcast");
  batch.dims.push_back(m);
  batch.dims.push_back(n);
  return batch.dims;
}

/// Extents of the result of contraction s.
inline result<shape> contraction_dims(chain const& c, step const& s, shape const& src, shape const& weight) {
  contraction_site const at{c, s, src, weight};
  return s.code == op::matmul ? matmul_dims(at) : conv_dims(at);
}

}  // namespace detail
}  // namespace sinter::inline SINTER_ABI
