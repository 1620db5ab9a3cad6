// Finds gelu_tanh where a chain spells it out in steps, as a lambda does, and puts the one step in
// their place.
//
// With T the value of a tanh step and v one value, every step in question is P(v) + Q(v) T, P and Q
// polynomials. So however the formula is written, v^3 as v * v * v or by square, the half in front
// or behind, it is found by arithmetic on polynomials: P = Q = v / 2 where T = tanh(c1 v + c3 v^3).
// The result has the error bound of gelu_tanh instead of its steps' (docs/precision.md); -Inf gives
// NaN, as the formula does. Steps that are rounded to a dtype or read elsewhere stay. Read
// jit/epilogue.hpp for who asks.
#pragma once

#include <array>
#include <cmath>

#include "epilogue_needs.hpp"

namespace sinter::inline SINTER_ABI::jit {

/// alpha of a gelu_tanh step that was found: a shut gate times -Inf is NaN.
inline constexpr float as_spelt_out = 1;

class gelu_finder {
 public:
  /// Looks among the steps behind `anchor`, at whose value the first of them begins.
  gelu_finder(chain& c, int anchor) : c_(c), anchor_(anchor) {}

  void replace_all() {
    for (int t = anchor_ + 1; t < c_.steps.ssize(); ++t)
      if (c_.steps[t].code == op::tanh && !c_.steps[t].rounded) replace(t);
    for (int i = c_.steps.ssize() - 1; i > anchor_; --i)  // what nobody reads reads nothing
      if (is_unread(c_, i)) c_.steps[i].args[0] = c_.steps[i].args[1] = c_.steps[i].args[2] = {};
  }

 private:
  static constexpr int terms = 4;
  /// P(v) + Q(v) T: coefficients of 1, v, v^2, v^3. Unknown values are NaN.
  struct form {
    std::array<double, terms> p{}, q{};
  };
  static constexpr double unknown = std::numeric_limits<double>::quiet_NaN();

  static form constant(double c) { return {{c, 0, 0, 0}, {}}; }
  static form sum(form a, form const& b, double sign) {
    for (std::size_t i = 0; i < terms; ++i) {
      a.p[i] += sign * b.p[i];
      a.q[i] += sign * b.q[i];
    }
    return a;
  }
  /// Unknown where it has a T^2 or a v^4.
  static form product(form const& a, form const& b) {
    form r;
    for (std::size_t i = 0; i < terms; ++i)
      for (std::size_t j = 0; j < terms; ++j) {
        double const p = a.p[i] * b.p[j], q = a.p[i] * b.q[j] + a.q[i] * b.p[j];
        bool const fits = i + j < terms;
        if (fits) r.p[i + j] += p;
        if (fits) r.q[i + j] += q;
        if ((!fits && !(p == 0 && q == 0)) || a.q[i] * b.q[j] != 0) r.p[0] = unknown;
      }
    return r;
  }
  /// Of four roundings to f32: what constants that a user computed may be off by.
  static bool near(double a, double b) { return std::abs(a - b) <= 0x1p-22 * std::abs(b); }
  static bool is(std::array<double, terms> const& p, double first, double third) {
    return p[0] == 0 && near(p[1], first) && p[2] == 0 && near(p[3], third);
  }

  form of(value_ref v, value_ref root) const {
    if (v == root) return {{0, 1, 0, 0}, {}};
    if (v.kind == value_kind::step && v.index > anchor_)
      return forms_[static_cast<std::size_t>(v.index)];
    return constant(v.kind == value_kind::constant ? static_cast<double>(c_.constants[int{v.index}])
                                                   : unknown);
  }
  /// Step i as a form in `root` and the tanh step t.
  form of_step(int i, value_ref root, int t) const {
    step const& s = c_.steps[i];
    double const alpha = static_cast<double>(s.alpha), beta = static_cast<double>(s.beta);
    form const a = of(s.args[0], root), b = of(s.args[1], root);
    if (i == t) return {{}, {1, 0, 0, 0}};
    if (s.rounded) return constant(unknown);
    switch (s.code) {
      case op::add:
        return sum(a, b, 1);
      case op::sub:
        return sum(a, b, -1);
      case op::mul:
        return product(a, b);
      case op::square:
        return product(a, a);
      case op::neg:
        return product(a, constant(-1));
      case op::linear:
        return sum(product(a, constant(alpha)), constant(beta), 1);
      case op::fma:
        return sum(product(a, b), of(s.args[2], root), 1);
      default:
        return constant(unknown);
    }
  }

  void replace(int t) {
    for (int r = t - 1; r >= anchor_ && r >= 0; --r)
      if (replace(t, step_ref(r))) return;
    for (int r = 0; r < c_.operands.ssize(); ++r)
      if (replace(t, operand_ref(r))) return;
  }
  /// The first step that is gelu_tanh of `root` by way of step t becomes it.
  bool replace(int t, value_ref root) {
    constexpr double c1 = 0.79788456080286535588, c3 = 0.044715 * c1;  // sqrt(2 / pi)
    for (int i = anchor_ + 1; i < c_.steps.ssize(); ++i) {
      form const f = forms_[static_cast<std::size_t>(i)] = of_step(i, root, t);
      if (i == t && !is(of(c_.steps[t].args[0], root).p, c1, c3)) return false;
      if (i <= t || !is(f.p, 0.5, 0) || !is(f.q, 0.5, 0)) continue;
      c_.steps[i] = {};
      c_.steps[i].code = op::gelu_tanh;
      c_.steps[i].alpha = as_spelt_out;
      c_.steps[i].args[0] = root;
      return true;
    }
    return false;
  }

  chain& c_;
  int anchor_;
  std::array<form, max_steps> forms_{};
};

}  // namespace sinter::inline SINTER_ABI::jit
