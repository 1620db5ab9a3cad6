// The text form of a chain, in constant expressions; the text of a problem for logs; hashes of
// both.
//
//   conv2d(x, w, stride=2, pad=1) | add b:vector | add r:tensor | relu
//   matmul(x, w) | mul 1.702 | sigmoid | mul(%0, %2) -> h=%1, out=%3 [bf16]
//
// Steps stand in order. A step that reads the one before it as its first value is written `name
// others`; any other one names all its values: `name(values)`. A value is an operand (`name:role`,
// in a contraction the role only where it is not the usual one), `%i` for step i, or a number. Left
// out is what is usual: parameters at their defaults, one output "out" that is the last step,
// dtypes that follow from the precision, the precision f32. `let` marks a rounding point, `~` what
// is internal, `:bf16` an unusual dtype, `[2x3]` extents said in a leaf's type. plan/parse.hpp
// reads it back.
#pragma once

#include <bit>
#include <string>
#include <string_view>

#include "../base/decimal.hpp"
#include "chain.hpp"
#include "problem.hpp"

namespace sinter::inline SINTER_ABI {

inline constexpr std::string_view default_output_name = "out";

/// The dtype of operand i that follows from the precision: by what a contraction reads, then by
/// role.
template <int... N>
constexpr dtype usual_type(basic_chain<N...> const& c, int i) {
  role const r = c.operands[i].role;
  for (step const& s : c.steps)
    for (value_ref v : s.args)
      if (s.contraction >= 0 && v == operand_ref(i))
        return r == role::weight ? c.precision.weight : c.precision.src;
  return r == role::tensor ? c.precision.residual : c.precision.bias;
}

namespace detail {

inline constexpr struct {
  std::string_view name;
  precision value;
} precision_names[] = {{"f32", f32}, {"bf16", bf16}, {"f16", f16}};

template <class Chain, class Text>
class chain_printer {
 public:
  constexpr explicit chain_printer(Chain const& printed) : c_(printed) {}

  constexpr Text print() {
    for (int i = 0; i < c_.steps.ssize(); ++i) {
      if (i > 0) out_.append(" | ");
      print_step(i);
    }
    print_outputs();
    print_precision();
    return out_;
  }

 private:
  constexpr void print_step(int i) {
    step const& s = c_.steps[i];
    op_row const& row = row_of(s.code);
    bool const piped = i > 0 && s.contraction < 0 && s.args[0] == step_ref(i - 1);
    if (s.pooling >= 0) return print_pooling(s, row, piped);
    if (s.rounded) out_.append("let ");
    out_.append(row.name);
    if (s.code == op::cast) {
      out_.append("<");
      out_.append(name_of(s.to));
      out_.append(">");
    }
    if (piped) {
      if (row.params > 0 && !usual_params(s)) {
        out_.append("(");
        print_params(s);
        out_.append(")");
      }
      for (int a = 1; a < row.arity; ++a) {
        out_.append(a == 1 ? " " : ", ");
        print_value(s, a);
      }
      return;
    }
    out_.append("(");
    for (int a = 0; a < row.arity; ++a) {
      if (a > 0) out_.append(", ");
      print_value(s, a);
    }
    if (row.params > 0) out_.append(", ");
    print_params(s);
    if (s.contraction >= 0) print_attrs(s);
    out_.append(")");
  }

  constexpr void print_pooling(step const& s, op_row const& row, bool piped) {
    bool const whole = s.code == op::global_avg_pool;
    if (s.rounded) out_.append("let ");
    out_.append(row.name);
    if (piped && whole) return;
    out_.append("(");
    if (!piped) print_value(s, 0);
    if (!piped && !whole) out_.append(", ");
    if (!whole) print_window(c_.window(s));
    out_.append(")");
  }
  constexpr void print_window(pool_attrs const& w) {
    print_pair("kernel=", w.kernel);
    if (w.stride[0] != w.kernel[0] || w.stride[1] != w.kernel[1]) print_pair(", stride=", w.stride);
    if (w.pad_begin[0] == w.pad_end[0] && w.pad_begin[1] == w.pad_end[1]) {
      if (w.pad_begin[0] != 0 || w.pad_begin[1] != 0) print_pair(", pad=", w.pad_begin);
    } else {
      print_pair(", pad_begin=", w.pad_begin);
      print_pair(", pad_end=", w.pad_end);
    }
    if (w.ceil) out_.append(", ceil");
    if (!w.count_pad) out_.append(", exclude_pad");
  }
  constexpr void print_pair(std::string_view name, int const (&values)[2]) {
    out_.append(name);
    out_.append_number(values[0]);
    if (values[1] == values[0]) return;
    out_.append("x");
    out_.append_number(values[1]);
  }

  static constexpr bool usual_params(step const& s) {
    op_row const& row = row_of(s.code);
    return same_bits(s.alpha, row.alpha) && (row.params < 2 || same_bits(s.beta, row.beta));
  }
  constexpr void print_params(step const& s) {
    if (row_of(s.code).params > 0) out_.append(to_text(s.alpha));
    if (row_of(s.code).params > 1) {
      out_.append(", ");
      out_.append(to_text(s.beta));
    }
  }

  constexpr void print_value(step const& s, int a) {
    value_ref const v = s.args[a];
    if (v.kind == value_kind::step) {
      out_.append("%");
      out_.append_number(v.index);
    } else if (v.kind == value_kind::constant) {
      out_.append(to_text(c_.constants[int{v.index}]));
    } else if (v.kind == value_kind::operand) {
      operand const& o = c_.operands[int{v.index}];
      if (o.internal) out_.append("~");
      out_.append(o.name);
      role const usual = a == 1 ? role::weight : role::tensor;
      if (s.contraction < 0 || o.role != usual) {
        out_.append(":");
        out_.append(name_of(o.role));
      }
      if (o.type != usual_type(c_, v.index)) print_type(o.type);
      if (!o.static_dims.empty()) print_dims(o.static_dims);
    }
  }
  constexpr void print_type(dtype t) {
    out_.append(":");
    out_.append(name_of(t));
  }
  constexpr void print_dims(shape const& dims) {
    out_.append("[");
    for (int i = 0; i < dims.ssize(); ++i) {
      if (i > 0) out_.append("x");
      if (dims[i] == dynamic) {
        out_.append("?");
      } else {
        out_.append_number(dims[i]);
      }
    }
    out_.append("]");
  }

  constexpr void print_axes(std::string_view name, int const (&values)[3], int rank) {
    bool const equal = (rank < 2 || values[1] == values[0]) && (rank < 3 || values[2] == values[0]);
    out_.append(", ");
    out_.append(name);
    out_.append("=");
    for (int i = 0; i < (equal ? 1 : rank); ++i) {
      if (i > 0) out_.append("x");
      out_.append_number(values[i]);
    }
  }
  static constexpr bool all(int const (&values)[3], int usual) {
    return values[0] == usual && values[1] == usual && values[2] == usual;
  }
  constexpr void print_attrs(step const& s) {
    contraction_attrs const& a = c_.attrs(s);
    int const rank = spatial_rank(s.code);
    if (rank > 0) {
      if (!all(a.stride, 1)) print_axes("stride", a.stride, rank);
      bool symmetric = true;
      for (int i = 0; i < rank; ++i) symmetric = symmetric && a.pad_begin[i] == a.pad_end[i];
      if (symmetric) {
        if (!all(a.pad_begin, 0)) print_axes("pad", a.pad_begin, rank);
      } else {
        print_axes("pad_begin", a.pad_begin, rank);
        print_axes("pad_end", a.pad_end, rank);
      }
      if (!all(a.dilation, 1)) print_axes("dilation", a.dilation, rank);
      if (a.groups != 1) {
        out_.append(", groups=");
        out_.append_number(a.groups);
      }
    }
    if (a.transposed_src) out_.append(", transposed_src");
    if (a.transposed_weight) out_.append(", transposed_weight");
  }

  constexpr bool usual_output() const {
    if (c_.outputs.size() != 1) return false;
    output const& o = c_.outputs[0];
    return o.name == default_output_name && o.value == step_ref(c_.steps.ssize() - 1) &&
           o.type == c_.precision.dst && !o.internal;
  }
  constexpr void print_outputs() {
    if (c_.outputs.empty() || usual_output()) return;
    out_.append(" -> ");
    for (int i = 0; i < c_.outputs.ssize(); ++i) {
      output const& o = c_.outputs[i];
      if (i > 0) out_.append(", ");
      if (o.internal) out_.append("~");
      out_.append(o.name);
      if (c_.outputs.size() > 1 || o.value != step_ref(c_.steps.ssize() - 1)) {
        out_.append("=%");
        out_.append_number(o.value.index);
      }
      if (o.type != c_.precision.dst) print_type(o.type);
    }
  }
  constexpr void print_precision() {
    precision const& p = c_.precision;
    if (p == f32) return;
    out_.append(" [");
    bool named = false;
    for (auto const& known : precision_names) {
      if (!(known.value == p)) continue;
      out_.append(known.name);
      named = true;
    }
    if (!named) {
      dtype const types[] = {p.src, p.weight, p.acc, p.bias, p.residual, p.dst};
      for (int i = 0; i < 6; ++i) {
        if (i > 0) out_.append(" ");
        out_.append(name_of(types[i]));
      }
    }
    out_.append("]");
  }

  Chain const& c_;
  Text out_;
};

/// FNV-1a, 64 bits, over the bytes of numbers.
class hasher {
 public:
  constexpr hasher& add(std::uint64_t v) {
    for (int i = 0; i < 8; ++i) {
      state_ = (state_ ^ (v & 255U)) * 0x100000001b3U;
      v >>= 8;
    }
    return *this;
  }
  constexpr hasher& add(std::string_view text) {
    add(std::uint64_t{text.size()});
    for (char c : text) state_ = (state_ ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
    return *this;
  }
  constexpr hasher& add(float v) { return add(std::uint64_t{std::bit_cast<std::uint32_t>(v)}); }
  constexpr hasher& add(value_ref v) { return number(static_cast<int>(v.kind)).number(v.index); }
  constexpr hasher& add(inline_vector<extent, max_rank> const& list) {
    number(list.ssize());
    for (extent e : list) number(e);
    return *this;
  }
  constexpr hasher& add(tensor_desc const& d) {
    return number(static_cast<int>(d.type)).add(d.dims).add(d.strides);
  }
  constexpr hasher& number(std::int64_t v) { return add(static_cast<std::uint64_t>(v)); }
  constexpr std::uint64_t value() const { return state_; }

 private:
  std::uint64_t state_ = 0xcbf29ce484222325U;
};

}  // namespace detail

/// The text form of a chain; longer ones end in "...".
template <std::size_t Capacity = 1024, int... N>
constexpr inline_string<Capacity> text(basic_chain<N...> const& c) {
  return detail::chain_printer<basic_chain<N...>, inline_string<Capacity>>(c).print();
}

/// The chain, then each tensor: "matmul(x, w) | relu; x:16x32:f32 w:32x64:f32 -> out:16x64:f32".
/// Strides are shown where they are not dense: "x:16x32:f32/64,1"; "?" where one follows at the call.
inline std::string text(problem const& p) {
  auto const tensor = [](std::string_view name, tensor_desc const& d) {
    std::string s = detail::join({" ", name, ":", to_string(d.dims), ":", name_of(d.type)});
    if (!is_dynamic(d.dims) && detail::same_layout(d.dims, d.strides, dense_strides(d.dims)))
      return s;
    for (int i = 0; i < d.strides.ssize(); ++i) {
      s += i == 0 ? "/" : ",";
      s += d.strides[i] == dynamic ? "?" : std::to_string(d.strides[i]);
    }
    return s;
  };
  std::string s(text<4096>(p.chain).view());
  s += ";";
  for (int i = 0; i < p.chain.operands.ssize(); ++i)
    s += tensor(p.chain.operands[i].name, p.operands[detail::at(i)]);
  s += " ->";
  for (int i = 0; i < p.chain.outputs.ssize(); ++i)
    s += tensor(p.chain.outputs[i].name, p.outputs[detail::at(i)]);
  if (p.numerics == numerics::peer) s += " peer";
  if (p.in_place >= 0) s += detail::join({" in place: ", p.chain.operands[p.in_place].name});
  return s;
}

/// Equal chains have equal hashes.
template <int... N>
constexpr std::uint64_t hash(basic_chain<N...> const& c) {
  detail::hasher h;
  h.number(c.steps.ssize());
  for (step const& s : c.steps) {
    h.number(static_cast<int>(s.code)).number(static_cast<int>(s.to)).add(s.alpha).add(s.beta);
    for (value_ref v : s.args) h.add(v);
    h.number(s.contraction).number(s.pooling).number(s.rounded ? 1 : 0);
  }
  h.number(c.operands.ssize());
  for (operand const& o : c.operands)
    h.add(o.name.view())
        .number(static_cast<int>(o.role))
        .number(static_cast<int>(o.type))
        .number(o.internal)
        .add(o.static_dims);
  h.number(c.constants.ssize());
  for (float v : c.constants) h.add(v);
  h.number(c.contractions.ssize());
  for (contraction_attrs const& a : c.contractions) {
    for (int i = 0; i < 3; ++i)
      h.number(a.stride[i]).number(a.dilation[i]).number(a.pad_begin[i]).number(a.pad_end[i]);
    h.number(a.groups).number(a.transposed_src).number(a.transposed_weight);
  }
  h.number(c.poolings.ssize());
  for (pool_attrs const& w : c.poolings) {
    for (int i = 0; i < 2; ++i)
      h.number(w.kernel[i]).number(w.stride[i]).number(w.pad_begin[i]).number(w.pad_end[i]);
    h.number(w.ceil).number(w.count_pad);
  }
  h.number(c.outputs.ssize());
  for (output const& o : c.outputs)
    h.add(o.name.view()).add(o.value).number(static_cast<int>(o.type)).number(o.internal);
  precision const& p = c.precision;
  for (dtype t : {p.src, p.weight, p.acc, p.bias, p.residual, p.dst}) h.number(static_cast<int>(t));
  return h.value();
}

/// Equal problems have equal hashes.
inline std::uint64_t hash(problem const& p) {
  detail::hasher h;
  h.add(hash(p.chain));
  for (int i = 0; i < p.chain.operands.ssize(); ++i) h.add(p.operands[detail::at(i)]);
  for (int i = 0; i < p.chain.outputs.ssize(); ++i) h.add(p.outputs[detail::at(i)]);
  h.add(p.domain).number(static_cast<int>(p.numerics)).number(p.in_place);
  return h.number(p.max_isa ? 1 + static_cast<int>(*p.max_isa) : 0).value();
}

}  // namespace sinter::inline SINTER_ABI
