// From a chain and the extents of its operands to the extents of every value; and whether the chain
// is well formed.
//
// check_chain() looks at the structure alone (indices, arity, attributes, parameters);
// contraction_dims() and pooling_dims() give the extents of a contraction and of a pooling, or a
// sentence that names what they read and its extents. Everything here accepts `dynamic` extents: dynamic meets dynamic, and never a
// number. Read plan/problem.hpp next.
#pragma once

#include <string>
#include <string_view>

#include "../base/decimal.hpp"
#include "chain.hpp"
#include "contraction_shape.hpp"
#include "layout.hpp"
#include "pool_shape.hpp"

namespace sinter::inline SINTER_ABI {
namespace detail {

/// "'x'", "the result of step 3 (relu)", "a constant": for sentences.
inline std::string describe(chain const& c, value_ref v) {
  switch (v.kind) {
    case value_kind::operand:
      return in_quotes(c.operands[int{v.index}].name);
    case value_kind::step:
      return join({"the result of step ", v.index, " (", name_of(c.steps[int{v.index}].code), ")"});
    case value_kind::constant:
      return "a constant";
    case value_kind::none:
      break;
  }
  return "nothing";
}

inline std::string extent_text(extent e) { return e == dynamic ? "dynamic" : std::to_string(e); }

inline status check_attrs(op code, contraction_attrs const& a) {
  std::string const who(name_of(code));
  for (int i = 0; i < spatial_rank(code); ++i) {
    if (a.stride[i] < 1)
      return bad({who, " has the stride ", a.stride[i], "; 1 or more is wanted"});
    if (a.dilation[i] < 1)
      return bad({who, " has the dilation ", a.dilation[i], "; 1 or more is wanted (1 is dense)"});
    if (a.pad_begin[i] < 0 || a.pad_end[i] < 0)
      return bad(
          {who, " has the padding ", a.pad_begin[i], ", ", a.pad_end[i], "; 0 or more is wanted"});
  }
  if (a.groups < 1) return bad({who, " has ", a.groups, " groups; 1 or more is wanted"});
  return {};
}

inline status check_window(op code, pool_attrs const& a) {
  std::string const who(name_of(code));
  for (int i = 0; i < 2 && code != op::global_avg_pool; ++i) {
    if (a.kernel[i] < 1)
      return bad({who, " has the kernel ", a.kernel[i], "; 1 or more is wanted"});
    if (a.stride[i] < 1)
      return bad({who, " has the stride ", a.stride[i], "; 1 or more is wanted"});
    if (a.pad_begin[i] < 0 || a.pad_end[i] < 0)
      return bad(
          {who, " has the padding ", a.pad_begin[i], ", ", a.pad_end[i], "; 0 or more is wanted"});
    if (a.pad_begin[i] >= a.kernel[i] || a.pad_end[i] >= a.kernel[i])
      return bad({who, " has the padding ", a.pad_begin[i], ", ", a.pad_end[i], " and the kernel ",
                  a.kernel[i], "; less is wanted, so that each window sees the image"});
  }
  return {};
}

inline status check_params(step const& s) {
  std::string const who(name_of(s.code));
  if (row_of(s.code).params > 0 && (s.alpha != s.alpha || s.beta != s.beta))
    return bad({who, " has a parameter that is NaN"});
  if (s.code == op::clip && s.alpha > s.beta)
    return bad({"clip has the bounds ", to_text(s.alpha), ", ", to_text(s.beta),
                "; the lower one first is wanted"});
  if (s.code == op::softplus && s.alpha == 0)
    return bad("softplus has alpha 0; any other value is wanted");
  return {};
}

inline bool refers(chain const& c, value_ref v, int before_step) {
  switch (v.kind) {
    case value_kind::operand:
      return v.index >= 0 && v.index < c.operands.ssize();
    case value_kind::constant:
      return v.index >= 0 && v.index < c.constants.ssize();
    case value_kind::step:
      return v.index >= 0 && v.index < before_step;
    case value_kind::none:
      break;
  }
  return false;
}

inline status check_step(chain const& c, int i) {
  step const& s = c.steps[i];
  std::string const who = join({"step ", i, " (", name_of(s.code), ")"});
  for (int a = 0; a < 3; ++a) {
    bool const wanted = a < row_of(s.code).arity;
    if (wanted != (s.args[a].kind != value_kind::none))
      return bad({who, " reads another number of values than ", row_of(s.code).arity});
    if (wanted && !refers(c, s.args[a], i))
      return bad({who, " reads a value that is not defined before it"});
    if (wanted && is_contraction(s.code) && s.args[a].kind == value_kind::constant)
      return bad({who, " reads a constant; an operand or a step is wanted"});
  }
  if (is_contraction(s.code) != (s.contraction >= 0) || s.contraction >= c.contractions.ssize())
    return bad({who, " has no attributes of a contraction, or has them without being one"});
  if (is_contraction(s.code))
    if (status st = check_attrs(s.code, c.attrs(s)); !st.ok()) return st;
  if (is_pooling(s.code) != (s.pooling >= 0) || s.pooling >= c.poolings.ssize())
    return bad({who, " has no attributes of a pooling, or has them without being one"});
  if (is_pooling(s.code)) {
    if (s.args[0].kind == value_kind::constant)
      return bad({who, " reads a constant; an operand or a step is wanted"});
    if (status st = check_window(s.code, c.window(s)); !st.ok()) return st;
  }
  return check_params(s);
}

/// May step i, a reduction, read rows of a value of these extents? An index has to stay what it is.
inline status check_row(chain const& c, int i, shape const& dims) {
  step const& s = c.steps[i];
  auto const who = [&] {
    return join({name_of(s.code), " of ", describe(c, s.args[0]), " of ", to_string(dims)});
  };
  if (dims.empty()) return bad({who(), "; a value with a last axis is wanted"});
  if (s.code != op::argmax) return {};
  dtype held = s.rounded ? c.precision.src : dtype::f32;
  for (output const& o : c.outputs)
    if (o.value == step_ref(i) && whole_numbers(o.type) < whole_numbers(held)) held = o.type;
  if (dims.back() > whole_numbers(held))
    return bad({who(), "; a last axis of at most ", whole_numbers(held), " is wanted, so that ",
                name_of(held), " holds each index"});
  return {};
}

inline status check_chain(chain const& c) {
  if (c.steps.empty()) return bad("a chain without steps");
  if (c.outputs.empty()) return bad("a chain without outputs");
  for (int i = 0; i < c.steps.ssize(); ++i)
    if (status st = check_step(c, i); !st.ok()) return st;
  for (output const& o : c.outputs)
    if (o.value.kind != value_kind::step || !refers(c, o.value, c.steps.ssize()))
      return bad({"output ", in_quotes(o.name), " is not the result of a step"});
  for (int i = 0; i < c.operands.ssize(); ++i)
    if (c.uses(operand_ref(i)) == 0)
      return bad({"operand ", in_quotes(c.operands[i].name), " is not read by any step"});
  return {};
}

/// A contraction whose extents do not fit, for the sentence that says why. contraction_shape.hpp
/// has the rules; here they are asked one by one, in an order that names the first one broken.
class contraction_misfit {
 public:
  contraction_misfit(chain const& c, step const& s, shape const& src, shape const& weight)
      : s_(s),
        a_(c.attrs(s)),
        src_(src),
        weight_(weight),
        name_(name_of(s.code)),
        src_text_(join({describe(c, s.args[0]), " of ", to_string(src)})),
        weight_text_(join({describe(c, s.args[1]), " of ", to_string(weight)})) {}

  failure explain() const { return bad(s_.code == op::matmul ? matmul() : convolution()); }

 private:
  std::string matmul() const {
    int const s = src_.ssize(), w = weight_.ssize();
    if (s < 2 || w < 2)
      return join({"matmul wants operands of rank 2 or more; given are ", src_text_, " and ",
                   weight_text_});
    extent const k = src_[a_.transposed_src ? s - 2 : s - 1];
    extent const weight_k = weight_[a_.transposed_weight ? w - 1 : w - 2];
    if (k != weight_k)
      return join({"matmul: K is ", extent_text(k), " in ", src_text_, " and ",
                   extent_text(weight_k), " in ", weight_text_});
    return join(
        {"matmul: the batch extents of ", src_text_, " and ", weight_text_, " do not broadcast"});
  }

  std::string convolution() const {
    int const rank = spatial_rank(s_.code) + 2;
    if (src_.ssize() != rank || weight_.ssize() != rank)
      return join({name_, " wants a source and a weight of rank ", rank, "; given are ", src_text_,
                   " and ", weight_text_});
    if (src_.back() == dynamic || is_dynamic(weight_))
      return join({name_, " has a dynamic extent among the channels of ", src_text_, " or in ",
                   weight_text_, "; only batch and image extents may be dynamic"});
    if (checked_mul(weight_.back(), a_.groups) != src_.back())
      return join({name_, ": ", src_text_, " has ", src_.back(), " channels and ", weight_text_,
                   " wants ", weight_.back(), " in each of ", a_.groups, " groups"});
    if (weight_[0] % a_.groups != 0)
      return join({name_, ": ", weight_text_, " has ", weight_[0],
                   " output channels, not a multiple of the ", a_.groups, " groups"});
    for (int i = 1; i < rank - 1; ++i)
      if (std::string text = spatial_axis(i); !text.empty()) return text;
    return join({name_, " of ", src_text_, " and ", weight_text_, " does not fit"});
  }

  std::string spatial_axis(int i) const {
    extent const in = src_[i], k = weight_[i];
    if (k == 0) return join({name_, ": ", weight_text_, " has a kernel of extent 0"});
    if (in == dynamic) return {};
    int const pad_begin = a_.pad_begin[i - 1], pad_end = a_.pad_end[i - 1],
              dilation = a_.dilation[i - 1];
    extent const e = conv_extent(in, k, a_.stride[i - 1], dilation, pad_begin, pad_end);
    if (e < 0)
      return join({name_, " of ", src_text_, " and ", weight_text_, " has extents that pass 2^61"});
    if (e > 0) return {};
    return join({name_, ": the kernel of ", weight_text_, " spans ", (k - 1) * dilation + 1,
                 " on axis ", i, ", more than the ", in + pad_begin + pad_end, " of ", src_text_,
                 " with its padding"});
  }

  step const& s_;
  contraction_attrs const& a_;
  shape const& src_;
  shape const& weight_;
  std::string name_, src_text_, weight_text_;
};

/// Extents of the result of contraction s.
inline result<shape> contraction_dims(chain const& c, step const& s, shape const& src,
                                      shape const& weight) {
  contraction_shape const r = shape_of(s.code, c.attrs(s), src, weight);
  if (!r.fits) return contraction_misfit(c, s, src, weight).explain();
  return r.dims;
}

/// Extents of the result of pooling s.
inline result<shape> pooling_dims(chain const& c, step const& s, shape const& image) {
  pooled_shape const r = shape_of(s.code, c.window(s), image);
  if (r.fits) return r.dims;
  std::string const who(name_of(s.code)),
      of = join({describe(c, s.args[0]), " of ", to_string(image)});
  if (image.ssize() != 4) return bad({who, " wants an image of rank 4, N,H,W,C; given is ", of});
  if (image.back() == dynamic)
    return bad({who, " has a dynamic extent among the channels of ", of,
                "; only batch and image extents may be dynamic"});
  for (int i = 0; i < 2; ++i) {
    if (image[i + 1] == dynamic) continue;
    pool_axis const axis = pool_axis_of(s.code, c.window(s), i, image[i + 1]);
    if (axis.count() < 0) return bad({who, " of ", of, " has extents that pass 2^61"});
    if (image[i + 1] == 0) return bad({who, " of ", of, "; an image with pixels is wanted"});
    if (axis.count() == 0)
      return bad({who, ": the window spans ", axis.kernel, " on axis ", i + 1, ", more than the ",
                  axis.in + axis.pad_begin + axis.pad_end, " of ", of, " with its padding"});
  }
  return bad({who, " of ", of, " does not fit"});
}

}  // namespace detail
}  // namespace sinter::inline SINTER_ABI
