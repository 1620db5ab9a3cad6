// Emitters that need no approximation: comparisons, clamps, products, conversions of truth to 0 and
// 1.
//
// Each works on x in place and is exact or rounds once per arithmetic step of its row in
// core/op.hpp. min and max of the instruction set return their second operand if either is NaN or
// both are equal: every use here puts what must survive second. `b` and `c` are registers other
// than x, or memory. Read jit/eltwise.hpp for the table.
#pragma once

#include "../core/op.hpp"
#include "eltwise_lanes.hpp"

namespace sinter::inline SINTER_ABI::jit::emit {

/// -0 becomes +0: adding +0 does that and changes nothing else.
inline void relu(lanes& e, xb::Xmm const& x) {
  e.zero(e.t(0));
  e.a.vmaxps(x, e.t(0), x);
  e.a.vaddps(x, x, e.t(0));
}
/// AVX-512, the same values. Bits 4 i to 4 i + 3 of the table say what becomes of class i: 0 keeps
/// a value (quiet NaN, 1, Inf, above 0), 2 makes a signalling NaN quiet, 8 gives +0 (either zero,
/// -Inf, below 0). On Zen 4 one of these costs more than the two above beside products of f32, and
/// less beside a conversion to bf16.
inline void relu_for_bf16(lanes& e, xb::Xmm const& x) {
  e.a.vfixupimmps(x, x, e.a.constant_bits(0x08080820U), 0);
}

inline void clip(lanes& e, xb::Xmm const& x, float low, float high) {
  e.at_least(x, low, e.t(0));
  e.at_most(x, high, e.t(0));
}

/// x > 0 ? x : slope * x.
inline void leaky(lanes& e, xb::Xmm const& x, xb::Operand const& slope) {
  auto& a = e.a;
  if (e.wide()) {
    a.vcmpps(e.k(), x, a.constant(0), static_cast<std::uint8_t>(compare::not_gt));
    a.vmulps(x | e.k(), x, slope);
  } else {
    a.vmulps(e.t(0), x, slope);
    a.vcmpps(e.t(1), x, a.constant(0), static_cast<std::uint8_t>(compare::gt));
    a.vblendvps(x, e.t(0), x, e.t(1));
  }
}

/// alpha x + beta, rounded once.
inline void linear(lanes& e, xb::Xmm const& x, float alpha, float beta) {
  e.set(e.t(0), alpha);
  e.a.vfmadd213ps(x, e.t(0), e.a.constant(beta));
}

/// min(max(alpha x + beta, 0), 1).
inline void hardsigmoid(lanes& e, xb::Xmm const& x, float alpha, float beta) {
  linear(e, x, alpha, beta);
  clip(e, x, 0, 1);
}

/// A shut gate times an infinity would be NaN; a finite stand-in of the same sign gives the signed
/// zero that is wanted.
inline void keep_finite_where_shut(lanes& e, xb::Xmm const& x, bool shut_below, xb::Xmm const& t) {
  constexpr float largest = 0x1.fffffep127F;
  shut_below ? e.at_least(x, -largest, t) : e.at_most(x, largest, t);
}

inline void hardswish(lanes& e, xb::Xmm const& x, float alpha, float beta) {
  auto& a = e.a;
  e.set(e.t(1), beta);
  a.vfmadd231ps(e.t(1), x, a.constant(alpha));
  clip(e, e.t(1), 0, 1);
  if (alpha != 0) keep_finite_where_shut(e, x, alpha > 0, e.t(0));
  a.vmulps(x, x, e.t(1));
}

/// The smaller or larger; x where they are equal; NaN if either is.
inline void min_max(lanes& e, bool smaller, xb::Xmm const& x, xb::Operand const& b) {
  auto& a = e.a;
  xb::Xmm const other = e.t(0);
  a.vmovups(other, b);
  smaller ? a.vminps(x, other, x) : a.vmaxps(x, other, x);
  e.replace_where(x, other, compare::unordered, other, other, e.t(1));
}

/// x `c` b ? 1 : 0.
inline void truth(lanes& e, compare c, xb::Xmm const& x, xb::Operand const& b) {
  auto& a = e.a;
  if (e.wide()) {
    a.vcmpps(e.k(), x, b, static_cast<std::uint8_t>(c));
    a.vbroadcastss(x | e.k() | a.T_z, a.lone(std::bit_cast<std::uint32_t>(1.0F)));
  } else {
    a.vcmpps(x, x, b, static_cast<std::uint8_t>(c));
    a.vandps(x, x, a.constant(1));
  }
}

/// x != 0 ? b : c; NaN selects b.
inline void select(lanes& e, xb::Xmm const& x, xb::Operand const& b, xb::Xmm const& c) {
  auto& a = e.a;
  if (e.wide()) {
    a.vcmpps(e.k(), x, a.constant(0), static_cast<std::uint8_t>(compare::ne));
    a.vmovaps(x, c);
    a.vmovaps(x | e.k(), b);
  } else {
    a.vcmpps(x, x, a.constant(0), static_cast<std::uint8_t>(compare::ne));
    a.vblendvps(x, c, b, x);
  }
}

}  // namespace sinter::inline SINTER_ABI::jit::emit
