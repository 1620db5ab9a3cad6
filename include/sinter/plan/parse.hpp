// Reads a chain's text form back (plan/text.hpp has the grammar): for tests, benchmarks and logs
// that are replayed.
//
// parse_chain(text(c)) has the same text; it equals c where c lists operands, constants and
// contractions in the order of their first use, as a parsed chain does. What is read is well formed
// (check_chain), or a sentence says where not.
#pragma once

#include <string>
#include <string_view>

#include "text.hpp"

namespace sinter::inline SINTER_ABI {
namespace detail {

class chain_parser {
 public:
  explicit chain_parser(std::string_view text) : text_(text) {}

  result<chain> run() {
    read_steps();
    if (failed_.empty() && take("->")) read_outputs();
    if (failed_.empty() && take("[")) read_precision();
    skip_spaces();
    if (failed_.empty() && at_ != text_.size()) fail("the end");
    if (!failed_.empty()) return bad(failed_);
    finish();
    if (status st = check_chain(c_); !st.ok()) return st.error();
    return c_;
  }

 private:
  // ---- characters ----
  void skip_spaces() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  bool next_is(std::string_view token) {
    skip_spaces();
    return text_.substr(at_, token.size()) == token;
  }
  bool take(std::string_view token) {
    if (!next_is(token)) return false;
    at_ += token.size();
    return true;
  }
  void want(std::string_view token) {
    if (!take(token)) fail({"'", token, "'"});
  }
  void fail(std::initializer_list<piece> wanted) { fail(join(wanted)); }
  void fail(std::string_view wanted) {
    if (!failed_.empty()) return;
    failed_ = join({"chain text: ", wanted, " is wanted at character ", at_, ", given is '",
                    text_.substr(at_, 16), "'"});
  }
  static bool in_word(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || is_digit(c) || c == '_' ||
           c == '.' || c == '%' || static_cast<unsigned char>(c) >= 128;
  }
  std::string_view word(std::string const& what) {
    skip_spaces();
    std::size_t const begin = at_;
    while (at_ < text_.size() && in_word(text_[at_])) ++at_;
    if (at_ == begin) fail(what);
    return text_.substr(begin, at_ - begin);
  }
  int number() {
    bool const negative = take("-");
    long long n = 0;
    std::size_t const begin = at_;
    while (at_ < text_.size() && is_digit(text_[at_]) && n < 0x7fffffff)
      n = n * 10 + (text_[at_++] - '0');
    if (at_ == begin || n > 0x7fffffff) fail("a number below 2^31");
    return static_cast<int>(negative ? -n : n);
  }
  template <class Rows, class Key>
  int row(Rows const& rows, Key key, std::string_view name, std::string const& what) {
    int i = 0;
    for (auto const& r : rows) {
      if (key(r) == name) return i;
      ++i;
    }
    at_ -= name.size();
    fail(what);
    return 0;
  }
  dtype type() {
    auto const name = word("a dtype");
    return static_cast<dtype>(row(
        dtype_table, [](dtype_row const& r) { return r.name; }, name, "a dtype"));
  }

  // ---- values ----
  value_ref read_value(bool of_contraction, int position) {
    skip_spaces();
    if (text_.substr(at_, 1) == "%") {
      ++at_;
      return step_ref(number());
    }
    if (parsed_float const f = parse_float(text_.substr(at_)); f.used > 0) {
      at_ += f.used;
      return constant(f.value);
    }
    operand o;
    o.internal = take("~");
    o.name = word("a value");
    o.role = of_contraction && position == 1 ? role::weight : role::tensor;
    bool typed = false;
    while (text_.substr(at_, 1) == ":") {  // no space inside a value: a precision has one before it
      ++at_;
      auto const name = word("a role or a dtype");
      bool is_role = false;
      for (role r : {role::tensor, role::weight, role::vector, role::scalar}) {
        if (name_of(r) != name) continue;
        o.role = r;
        is_role = true;
      }
      if (is_role) continue;
      at_ -= name.size();
      o.type = type();
      typed = true;
    }
    if (text_.substr(at_, 1) == "[") {
      ++at_;
      o.static_dims = read_dims();
    }
    return add_operand(o, typed);
  }
  shape read_dims() {
    shape dims;
    while (failed_.empty() && !dims.full()) {
      dims.push_back(take("?") ? dynamic : extent{number()});
      if (!take("x")) break;
    }
    want("]");
    return dims;
  }
  value_ref add_operand(operand const& o, bool typed) {
    for (int i = 0; i < c_.operands.ssize(); ++i)
      if (c_.operands[i].name == o.name && c_.operands[i].internal == o.internal)
        return operand_ref(i);
    if (c_.operands.full()) {
      fail({"a chain of at most ", max_operands, " operands"});
      return operand_ref(0);
    }
    typed_[c_.operands.size()] = typed;
    c_.operands.push_back(o);
    return operand_ref(c_.operands.ssize() - 1);
  }
  value_ref constant(float v) {
    for (int i = 0; i < c_.constants.ssize(); ++i)
      if (same_bits(c_.constants[i], v)) return constant_ref(i);
    if (c_.constants.full()) {
      fail({"a chain of at most ", max_constants, " constants"});
      return constant_ref(0);
    }
    c_.constants.push_back(v);
    return constant_ref(c_.constants.ssize() - 1);
  }

  // ---- steps ----
  void read_steps() {
    do {
      if (c_.steps.full()) return fail({"a chain of at most ", max_steps, " steps"});
      read_step();
    } while (failed_.empty() && take("|"));
  }
  void read_step() {
    step s;
    auto name = word("a step");
    if (name == "let") {
      s.rounded = true;
      name = word("a step");
    }
    s.code = static_cast<op>(row(
        op_table, [](op_row const& r) { return r.name; }, name, "the name of an op"));
    op_row const& r = row_of(s.code);
    s.alpha = r.alpha;
    s.beta = r.beta;
    if (s.code == op::cast) {
      want("<");
      s.to = type();
      want(">");
    }
    if (r.kind == op_class::contraction) {
      read_contraction(s);
    } else if (r.kind == op_class::pooling) {
      read_pooling(s);
    } else if (next_is("(") && listed_items() != r.params) {
      want("(");
      read_list(s, 0);
      if (r.params > 0) want(",");
      read_params(s);
      want(")");
    } else {
      if (take("(")) {
        read_params(s);
        want(")");
      }
      s.args[0] = step_ref(c_.steps.ssize() - 1);
      read_list(s, 1);
    }
    c_.steps.push_back(s);
  }
  // Items in the parentheses that begin here: as many as parameters, and they are the parameters.
  int listed_items() const {
    int n = 1;
    for (std::size_t i = at_; i < text_.size() && text_[i] != ')'; ++i)
      if (text_[i] == ',') ++n;
    return n;
  }
  void read_list(step& s, int first) {
    for (int a = first; a < row_of(s.code).arity && failed_.empty(); ++a) {
      if (a > first) want(",");
      s.args[a] = read_value(false, a);
    }
  }
  void read_params(step& s) {
    int const params = row_of(s.code).params;
    for (int i = 0; i < params; ++i) {
      if (i > 0) want(",");
      skip_spaces();
      parsed_float const f = parse_float(text_.substr(at_));
      if (f.used == 0) return fail("a number");
      at_ += f.used;
      (i == 0 ? s.alpha : s.beta) = f.value;
    }
  }
  void read_contraction(step& s) {
    contraction_attrs a;
    int const rank = spatial_rank(s.code);
    want("(");
    s.args[0] = read_value(true, 0);
    want(",");
    s.args[1] = read_value(true, 1);
    while (failed_.empty() && take(",")) {
      auto const key = word("an attribute");
      if (key == "transposed_src") {
        a.transposed_src = true;
      } else if (key == "transposed_weight") {
        a.transposed_weight = true;
      } else {
        want("=");
        read_attr(a, key, rank);
      }
    }
    want(")");
    if (c_.contractions.full())
      return fail({"a chain of at most ", max_contractions, " contractions"});
    s.contraction = static_cast<std::int16_t>(c_.contractions.ssize());
    c_.contractions.push_back(a);
  }
  // "(x:tensor, kernel=3, ...)", or behind a step "(kernel=3, ...)"; global_avg_pool has no attributes.
  void read_pooling(step& s) {
    pool_attrs a;
    bool const whole = s.code == op::global_avg_pool;
    bool const piped = !next_is("(") || next_is("(kernel=");
    if (!piped || !whole) want("(");
    s.args[0] = piped ? step_ref(c_.steps.ssize() - 1) : read_value(false, 0);
    if (!whole) {
      if (!piped) want(",");
      want("kernel=");
      read_pair(a.kernel);
      for (int i = 0; i < 2; ++i) a.stride[i] = a.kernel[i];
      while (failed_.empty() && take(",")) read_window(a, word("an attribute"));
    }
    if (!piped || !whole) want(")");
    if (c_.poolings.full()) return fail({"a chain of at most ", max_poolings, " pooling"});
    s.pooling = static_cast<std::int16_t>(c_.poolings.ssize());
    c_.poolings.push_back(a);
  }
  void read_pair(int (&to)[2]) {
    to[0] = to[1] = number();
    if (take("x")) to[1] = number();
  }
  void read_window(pool_attrs& a, std::string_view key) {
    if (key == "ceil") {
      a.ceil = true;
    } else if (key == "exclude_pad") {
      a.count_pad = false;
    } else {
      want("=");
      int pair[2] = {};
      read_pair(pair);
      bool known = false;
      auto const put = [&](std::string_view name, std::string_view both, int(&to)[2]) {
        if (key != name && key != both) return;
        known = true;
        for (int i = 0; i < 2; ++i) to[i] = pair[i];
      };
      put("stride", "stride", a.stride);
      put("pad_begin", "pad", a.pad_begin);
      put("pad_end", "pad", a.pad_end);
      if (!known) fail("stride, pad, pad_begin or pad_end before this value");
    }
  }
  void read_attr(contraction_attrs& a, std::string_view key, int rank) {
    if (rank == 0) return fail("an attribute of a matmul");
    if (key == "groups") {
      a.groups = number();
      return;
    }
    int values[3] = {};
    int count = 0;
    do values[count++] = number();
    while (count < rank && take("x"));
    auto const put = [&](int(&to)[3]) {
      for (int i = 0; i < rank; ++i) to[i] = count == 1 ? values[0] : values[i];
    };
    if (count != 1 && count != rank) return fail("one number, or one for each axis");
    if (key == "stride") return put(a.stride);
    if (key == "dilation") return put(a.dilation);
    if (key == "pad" || key == "pad_begin") put(a.pad_begin);
    if (key == "pad" || key == "pad_end") put(a.pad_end);
    if (key != "pad" && key != "pad_begin" && key != "pad_end")
      fail("stride, pad, pad_begin, pad_end, dilation or groups before this value");
  }

  // ---- the end ----
  void read_outputs() {
    do {
      if (c_.outputs.full()) return fail({"a chain of at most ", max_outputs, " outputs"});
      output o;
      o.internal = take("~");
      o.name = word("the name of an output");
      o.value = step_ref(c_.steps.ssize() - 1);
      if (take("=")) {
        want("%");
        o.value = step_ref(number());
      }
      if (take(":")) {
        o.type = type();
        typed_output_[c_.outputs.size()] = true;
      }
      c_.outputs.push_back(o);
    } while (failed_.empty() && take(","));
  }
  void read_precision() {
    precision& p = c_.precision;
    auto const first = at_;
    auto const name = word("a precision");
    bool known_name = false;
    for (auto const& known : precision_names) {
      if (known.name != name || !next_is("]")) continue;
      p = known.value;
      known_name = true;
    }
    if (!known_name) {
      at_ = first;
      for (dtype* t : {&p.src, &p.weight, &p.acc, &p.bias, &p.residual, &p.dst})
        if (failed_.empty()) *t = type();
    }
    want("]");
  }
  void finish() {
    if (c_.outputs.empty())
      c_.outputs.push_back(
          {default_output_name, step_ref(c_.steps.ssize() - 1), c_.precision.dst, false});
    for (int i = 0; i < c_.outputs.ssize(); ++i)
      if (!typed_output_[i]) c_.outputs[i].type = c_.precision.dst;
    for (int i = 0; i < c_.operands.ssize(); ++i)
      if (!typed_[i]) c_.operands[i].type = usual_type(c_, i);
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::string failed_;
  chain c_;
  bool typed_[max_operands] = {};
  bool typed_output_[max_outputs] = {};
};

}  // namespace detail

/// The chain that the text describes, or a sentence that says where it is not understood.
inline result<chain> parse_chain(std::string_view text) { return detail::chain_parser(text).run(); }

}  // namespace sinter::inline SINTER_ABI
