// Emitters around e^x: exp, sigmoid, swish, tanh, elu, mish, gelu_tanh.
//
// e^z = 2^n e^r with n = round(z / ln 2): n ln 2 is taken off in two pieces, e^r is a polynomial.
// AVX-512 multiplies by 2^n with vscalefps, which takes any n; AVX2 builds 2^n in the exponent
// field, so z is clamped first.
//
// Gates 1 / (1 + e^-z) are computed as s / (s + s e^-z) with s = 2^-24: the divisor then stays
// finite as far down as the quotient is not 0, and the scaling is free. NaN reaches the result
// through the polynomial, or through x where a gate is multiplied by it. All coefficients are from
// scripts/fit_eltwise.py, named in each place.
#pragma once

#include "eltwise_basic.hpp"

namespace sinter::inline SINTER_ABI::jit::emit {

inline constexpr float log2_e = 0x1.715476p+0F;
inline constexpr float ln2_high =
    0x1.62e430p-1F;  // binary32 nearest to ln 2 = 0x1.62e42fefa39efp-1
inline constexpr float ln2_low = -0x1.05c610p-29F;
/// Added to |v| < 2^22, leaves round(v) in the low bits; they survive a shift by 23, the rest of
/// the pattern does not.
inline constexpr float round_magic = 0x1.8p23F;
inline constexpr int gate_shift = -24;
inline constexpr float gate_scale = 0x1p-24F;

constexpr float power_of_two(int n) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(127 + n) << 23);
}

/// AVX2: n holds v + round_magic + ...; makes 2^(low bits).
inline void power_from_magic(lanes& e, xb::Xmm const& n) {
  e.a.vpslld(n, n, 23);
  e.a.vpaddd(n, n, e.a.constant(1));
}

/// The argument is reduced: x becomes the rest r times `sign`, and n the multiple of ln 2 with what
/// 2^n is made from. AVX-512: n = round(sign x / ln 2). AVX2: n has that plus `shift` in its low
/// bits; p is overwritten.
inline void reduce(lanes& e, xb::Xmm const& x, xb::Xmm const& n, xb::Xmm const& p, float sign,
                   int shift) {
  auto& a = e.a;
  xb::Xmm whole = n;
  if (e.wide()) {
    a.vmulps(n, x, a.constant(sign * log2_e));
    e.round(n, n);
  } else {
    float const magic = round_magic + static_cast<float>(shift);
    e.set(n, magic);
    a.vfmadd231ps(n, x, a.constant(sign * log2_e));
    a.vsubps(p, n, a.constant(magic));
    whole = p;
  }
  a.vfmadd231ps(x, whole, a.constant(-sign * ln2_high));
  a.vfmadd231ps(x, whole, a.constant(-sign * ln2_low));
}

/// p = scale e^(sign x), |x| <= ln 2 / 2. Fit exp5: 2^-23.2.
inline void exp_polynomial(lanes& e, xb::Xmm const& p, xb::Xmm const& x, float sign, float scale) {
  float const odd = sign * scale;
  e.horner(p, x,
           {odd * 0x1.1060d0p-7F, scale * 0x1.572c20p-5F, odd * 0x1.5557b6p-3F,
            scale * 0x1.fffdf8p-2F, odd, scale});
}

/// d = 2^shift (1 + e^(-x)); x and n are overwritten. NaN stays. d, n: temporaries other than x.
inline void gate_divisor(lanes& e, xb::Xmm const& x, xb::Xmm const& n, xb::Xmm const& d) {
  auto& a = e.a;
  if (e.wide()) {
    reduce(e, x, n, d, -1, 0);
    // Beyond 2^24 the rest is noise and must only stay small: 2^n is 0 or infinite there, or NaN.
    a.vrangeps(x, x, a.constant(0.36F), 2);  // the smaller magnitude, the first one's sign
    exp_polynomial(e, d, x, -1, gate_scale);
    a.vscalefps(d, d, n);
    a.vaddps(d, d, a.constant(gate_scale));
  } else {
    e.at_most(x, 70, n);  // e^-70 does not move 1, e^104 shuts the gate
    e.at_least(x, -104.5F, n);
    reduce(e, x, n, d, -1, gate_shift);
    exp_polynomial(e, d, x, -1, 1);
    power_from_magic(e, n);
    a.vfmadd213ps(d, n, a.constant(gate_scale));
  }
}

inline void sigmoid(lanes& e, xb::Xmm const& x) {
  gate_divisor(e, x, e.t(0), e.t(1));
  e.set(x, gate_scale);
  e.a.vdivps(x, x, e.t(1));
}

inline void swish(lanes& e, xb::Xmm const& x, float alpha) {
  auto& a = e.a;
  if (alpha == 0) return a.vmulps(x, x, a.constant(0.5F));
  xb::Xmm const z = e.t(2);
  a.vmulps(z, x, a.constant(alpha));
  gate_divisor(e, z, e.t(0), e.t(1));
  keep_finite_where_shut(e, x, alpha > 0, e.t(0));
  e.set(e.t(0), gate_scale);
  a.vdivps(e.t(0), e.t(0), e.t(1));
  a.vmulps(x, x, e.t(0));
}

/// x = e^(x + more), where `more` may be null and is small. n, p: temporaries.
inline void exp_in(lanes& e, xb::Xmm const& x, xb::Xmm const& n, xb::Xmm const& p,
                   xb::Xmm const* more = nullptr) {
  auto& a = e.a;
  if (!e.wide()) {
    e.at_most(x, 89, n);
    e.at_least(x, -104.5F, n);
  }
  reduce(e, x, n, p, 1, 0);
  if (more != nullptr) a.vaddps(x, x, *more);
  if (e.wide()) {
    a.vrangeps(x, x, a.constant(0.36F), 2);
    exp_polynomial(e, p, x, 1, 1);
    a.vscalefps(x, p, n);
    return;
  }
  exp_polynomial(e, p, x, 1, 1);
  // n reaches from -151 to 128, more than an exponent field holds: two factors.
  a.vpsubd(n, n, a.constant(round_magic));
  a.vpsrad(x, n, 1);
  a.vpsubd(n, n, x);
  power_from_magic(e, n);
  power_from_magic(e, x);
  a.vmulps(p, p, x);
  a.vmulps(x, p, n);
}
inline void exp(lanes& e, xb::Xmm const& x) { exp_in(e, x, e.t(0), e.t(1)); }

/// n = 2^n of whole numbers. t: a temporary (AVX-512).
inline void power_of_whole(lanes& e, xb::Xmm const& n, xb::Xmm const& t) {
  if (e.wide()) {
    e.set(t, 1);
    e.a.vscalefps(n, t, n);
  } else {
    e.a.vcvtps2dq(n, n);
    power_from_magic(e, n);
  }
}

/// m / (m + 2) with m = e^2x - 1 = 2^n (e^2r - 1) + (2^n - 1), which does not cancel, and e^2r - 1
/// = r (2 + ...), |r| <= ln 2 / 4. Fit expm1_twice5: 2^-26.
inline void tanh(lanes& e, xb::Xmm const& x) {
  auto& a = e.a;
  xb::Xmm const n = e.t(0), m = e.t(1), sign = e.t(2);
  a.vandps(sign, x, a.constant(-0.0F));
  e.at_most(x, 9.02F, n);  // tanh is 1 to half a unit
  e.at_least(x, -9.02F, n);
  a.vmulps(n, x, a.constant(2 * log2_e));
  e.round(n, n);
  a.vfmadd231ps(
      x, n, a.constant(-ln2_high / 2));  // n <= 26: what ln2_low would add is 2^-25 of e^2x at most
  e.horner(m, x,
           {0x1.6b94dep-4F, 0x1.1226e0p-2F, 0x1.5556fap-1F, 0x1.5554b2p+0F, 0x1.fffffep+0F, 2});
  a.vmulps(m, m, x);
  power_of_whole(e, n, x);
  a.vsubps(x, n, a.constant(1));
  a.vfmadd213ps(m, n, x);
  a.vaddps(n, m, a.constant(2));
  a.vdivps(x, m, n);
  a.vorps(x, x, sign);  // the sums above made +0 of -0
}

/// x > 0 ? x : alpha (e^x - 1), with e^x - 1 = 2^n (e^r - 1) + (2^n - 1), which does not cancel.
/// Fit exp6: 2^-28.
inline void elu(lanes& e, xb::Xmm const& x, float alpha) {
  auto& a = e.a;
  xb::Xmm const z = e.t(0), n = e.t(1), p = e.t(2);
  e.zero(z);
  a.vminps(z, z, x);
  e.at_least(z, -30, n);  // e^-30 - 1 = -1
  a.vmulps(n, z, a.constant(log2_e));
  e.round(n, n);
  a.vfmadd231ps(z, n, a.constant(-ln2_high));
  a.vfmadd231ps(z, n, a.constant(-ln2_low));
  e.horner(p, z, {0x1.6a5602p-10F, 0x1.123b02p-7F, 0x1.5558aap-5F, 0x1.555490p-3F, 0x1.fffffcp-2F});
  a.vmulps(p, p, z);
  a.vfmadd213ps(p, z, z);
  power_of_whole(e, n, z);
  a.vsubps(z, n, a.constant(1));
  a.vfmadd213ps(p, n, z);
  a.vandps(z, x, a.constant(-0.0F));  // the sum above made +0 of -0
  a.vorps(p, p, z);
  if (alpha != 1) a.vmulps(p, p, a.constant(alpha));
  e.replace_where(p, x, compare::gt, a.constant(0), x, z);
  a.vmovaps(x, p);
}

/// x tanh(log(1 + e^x)) = x m / (m + 2) with m = e^x (e^x + 2).
inline void mish(lanes& e, xb::Xmm const& x) {
  auto& a = e.a;
  xb::Xmm const m = e.t(2);
  a.vmovaps(m, x);
  e.at_most(m, 30, e.t(0));  // m / (m + 2) = 1
  exp_in(e, m, e.t(0), e.t(1));
  a.vaddps(e.t(0), m, a.constant(2));
  a.vmulps(m, m, e.t(0));
  a.vaddps(e.t(0), m, a.constant(2));
  a.vdivps(m, m, e.t(0));
  keep_finite_where_shut(e, x, true, e.t(0));
  a.vmulps(x, x, m);
}

/// y = -2 log2(e) sqrt(2/pi) (x + 0.044715 x^3), and 1 / (1 + 2^y) is what x is multiplied by. f: a
/// temporary.
inline void gelu_tanh_exponent(lanes& e, xb::Xmm const& x, xb::Xmm const& y, xb::Xmm const& f) {
  auto& a = e.a;
  constexpr float c1 = -0x1.26aec2p+1F, c3 = -0x1.a5a7d0p-4F;
  a.vmulps(f, x, x);
  e.set(y, c1);
  a.vfmadd231ps(y, f, a.constant(c3));
  a.vmulps(y, y, x);
}

/// Below -1 the error of y, which grows with |y| up to 150, is what 2^-16 allows. Fits exp2_floor5,
/// exp2_near5: 2^-23.6, 2^-23.3. `shut`: -Inf gives -0, not the NaN of the formula as it is written.
inline void gelu_tanh(lanes& e, xb::Xmm const& x, bool shut) {
  auto& a = e.a;
  constexpr float s = gate_scale;
  xb::Xmm const f = e.t(0), y = e.t(1), d = e.t(2);
  if (shut) keep_finite_where_shut(e, x, true, f);
  gelu_tanh_exponent(e, x, y, f);
  if (e.wide()) {
    a.vreduceps(f, y, 0x09);  // y - floor(y); 0 of an infinity
    e.horner(d, f,
             {s * 0x1.ebaaf0p-10F, s * 0x1.26bce2p-7F, s * 0x1.c9498ep-5F, s * 0x1.ebd6c4p-3F,
              s * 0x1.62e4eap-1F, s * 0x1.fffffep-1F});
    a.vscalefps(d, d, y);  // 2^floor(y)
    a.vaddps(d, d, a.constant(s));
  } else {
    constexpr float magic = round_magic + static_cast<float>(gate_shift);
    a.vminps(y, y, a.constant(151));
    a.vmaxps(y, y, a.constant(-101));
    a.vaddps(f, y, a.constant(magic));
    a.vsubps(d, f, a.constant(magic));
    a.vsubps(y, y, d);
    e.horner(d, y,
             {0x1.5be724p-10F, 0x1.3ce940p-7F, 0x1.c6b6c0p-5F, 0x1.ebf9c0p-3F, 0x1.62e42ap-1F, 1});
    power_from_magic(e, f);
    a.vfmadd213ps(d, f, a.constant(s));
  }
  e.set(f, s);
  a.vdivps(f, f, d);
  a.vmulps(x, x, f);
}

/// For a value that is only stored as bf16, with AVX-512: to 2^-12. Fit exp2_floor3 (2^-13.7),
/// vrcp14ps (2^-14). From -10.95 down the result rounds to -0, and the divisor, scaled, is still
/// finite. `shut` as above.
inline void gelu_tanh_for_bf16(lanes& e, xb::Xmm const& x, bool shut) {
  auto& a = e.a;
  constexpr float s = 0x1p-36F;
  xb::Xmm const f = e.t(0), y = e.t(1), d = e.t(2);
  if (shut) e.at_least(x, -10.95F, f);
  gelu_tanh_exponent(e, x, y, f);
  a.vreduceps(f, y, 0x09);
  e.horner(d, f, {s * 0x1.3f8a28p-4F, s * 0x1.cf0534p-3F, s * 0x1.644388p-1F, s * 0x1.fff63cp-1F});
  a.vscalefps(d, d, y);
  a.vaddps(d, d, a.constant(s));
  a.vrcp14ps(f, d);
  a.vmulps(f, f, a.constant(s));
  a.vmulps(x, x, f);
}

}  // namespace sinter::inline SINTER_ABI::jit::emit
