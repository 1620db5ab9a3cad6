// Emitters around log(x): log, softplus, pow; and gelu_erf.
//
// log x = k ln 2 + log m with m in [3/4, 3/2), so that k is 0 around 1 and nothing cancels there;
// log m = t P(t), t = m - 1 exact. The significand comes from vgetmantps on AVX-512, from the bit
// pattern on AVX2 (denormals are scaled first). Coefficients are from scripts/fit_eltwise.py, named
// in each place.
#pragma once

#include <limits>

#include "eltwise_exp.hpp"

namespace sinter::inline SINTER_ABI::jit::emit {

/// Registers that a logarithm works in, beside its argument; `rest` on AVX2 only.
struct log_registers {
  xb::Xmm k, t, p, rest;
};

/// k and t of x > 0: x = 2^k (1 + t), exactly. x stays; p and rest are overwritten.
inline void split(lanes& e, xb::Xmm const& x, log_registers const& r) {
  auto& a = e.a;
  if (e.wide()) {
    // Of 0, the exponent is -Inf and the significand 1; of Inf, Inf and 1.
    a.vgetexpps(r.k, x);
    a.vgetmantps(r.t, x, 0x0b);  // [3/4, 3/2), NaN of negative numbers
    a.vgetexpps(r.p, r.t);
    a.vsubps(r.k, r.k, r.p);
  } else {
    a.vcmpps(r.p, x, a.constant(0x1p-126F), static_cast<std::uint8_t>(compare::lt));
    a.vmulps(r.t, x, a.constant(0x1p23F));
    a.vblendvps(r.t, x, r.t, r.p);
    a.vandps(r.rest, r.p, a.constant(-23));
    a.vpsubd(r.k, r.t, a.constant(0.75F));
    a.vpsrad(r.k, r.k, 23);
    a.vpslld(r.p, r.k, 23);
    a.vpsubd(r.t, r.t, r.p);
    a.vcvtdq2ps(r.k, r.k);
    a.vaddps(r.k, r.k, r.rest);
  }
  a.vsubps(r.t, r.t, a.constant(1));
}

/// log(x): -Inf of either 0, NaN below, Inf of Inf. Fit log8: 2^-25.
inline void log_in(lanes& e, xb::Xmm const& x, log_registers const& r) {
  auto& a = e.a;
  split(e, x, r);
  if (!e.wide()) {
    // What the pattern cannot say, by way of the square root: NaN below 0, NaN and Inf as they are;
    // and -Inf of 0.
    a.vsqrtps(r.rest, x);
    e.set(r.p, -std::numeric_limits<float>::infinity());
    a.vcmpps(x, x, a.constant(0), static_cast<std::uint8_t>(compare::eq));
    a.vblendvps(r.rest, r.rest, r.p, x);
  }
  e.horner(r.p, r.t,
           {0x1.bb6a02p-5F, -0x1.ee3232p-4F, 0x1.32d592p-3F, -0x1.588644p-3F, 0x1.992230p-3F,
            -0x1.ffddaap-3F, 0x1.5555e4p-2F, -0x1.000014p-1F, 1});
  a.vmulps(r.t, r.t, r.p);
  a.vfmadd231ps(r.t, r.k, a.constant(ln2_high));  // its own error, 2^-28 of it, does not count
  a.vmovaps(x, r.t);
  if (!e.wide()) {
    // rest - rest is 0 where it is finite: for every positive finite argument.
    a.vsubps(r.t, r.rest, r.rest);
    a.vcmpps(r.t, r.t, a.constant(0), static_cast<std::uint8_t>(compare::eq));
    a.vblendvps(x, r.rest, x, r.t);
  }
}

inline void log(lanes& e, xb::Xmm const& x) {
  log_in(e, x, {e.t(0), e.t(1), e.t(2), e.wide() ? e.t(2) : e.t(3)});
}

/// (max(z, 0) + log(1 + e^-|z|)) / alpha with z = alpha x, where the first part is x or 0 without a
/// product that might overflow; log(1 + E) = E P(E) / Q(E). Fit log1p3_3: 2^-28.
inline void softplus(lanes& e, xb::Xmm const& x, float alpha) {
  auto& a = e.a;
  xb::Xmm const z = e.t(0), p = e.t(1), q = e.t(2);
  a.vmulps(z, x, a.constant(alpha));
  a.vorps(z, z, a.constant(-0.0F));
  exp_in(e, z, p, q);
  e.horner(p, z, {0x1.c3fb32p-9F, 0x1.e9f218p-3F, 0x1.11702cp+0F, 1});
  e.horner(q, z, {0x1.361016p-4F, 0x1.61425cp-1F, 0x1.91702ap+0F, 1});
  a.vmulps(z, z, p);
  a.vdivps(z, z, q);
  e.set(p, alpha < 0 ? -0.0F : 0.0F);
  alpha < 0 ? a.vminps(x, p, x) : a.vmaxps(x, p, x);
  a.vfmadd231ps(x, z, a.constant(1 / alpha));
}

/// x^n by squaring, n > 0; `power` and x are used up, the result is in x.
inline void integer_power(lanes& e, xb::Xmm const& x, xb::Xmm const& power, int n) {
  auto& a = e.a;
  bool started = false;
  for (; n > 0; n /= 2) {
    if (n % 2 != 0) {
      started ? a.vmulps(power, power, x) : a.vmovaps(power, x);
      started = true;
    }
    if (n > 1) a.vmulps(x, x, x);
  }
  a.vmovaps(x, power);
}

/// Is beta an integer, and an odd one? Floats of 2^24 and more are even.
constexpr bool is_integer(float v) {
  return v >= 0x1p24F || v <= -0x1p24F || static_cast<float>(static_cast<int>(v)) == v;
}
constexpr bool is_odd(float v) {
  return v < 0x1p24F && v > -0x1p24F && is_integer(v) && static_cast<int>(v) % 2 != 0;
}

/// alpha x^(+-1/2). C's pow gives +0 of -0 and Inf of -Inf, where the square root gives -0 and NaN.
inline void root_power(lanes& e, xb::Xmm const& x, float alpha, float beta) {
  auto& a = e.a;
  constexpr float inf = std::numeric_limits<float>::infinity();
  a.vaddps(x, x, a.constant(0));
  e.set(e.t(0), inf);
  e.replace_where(x, x, compare::eq, a.constant(-inf), e.t(0), e.t(1));
  a.vsqrtps(x, x);
  if (beta < 0) {
    a.vmovaps(e.t(0), x);
    e.set(x, 1);
    a.vdivps(x, x, e.t(0));
  }
  if (alpha != 1) a.vmulps(x, x, a.constant(alpha));
}

/// x = x^beta for x from 2^-149 to the largest float. The logarithm is taken in two pieces, since
/// its error is multiplied by beta log x, up to 100: log(1 + t) = (t - t^2 / 2) + t^3 Q(t), and
/// what each sum and product loses is carried along. Fit log_rest7: 2^-27.6.
inline void power_in_two_pieces(lanes& e, xb::Xmm const& x, float beta) {
  auto& a = e.a;
  constexpr float high = 0x1.62e4p-1F, low = 0x1.7f7d1cp-20F;  // ln 2; k high is exact
  xb::Xmm const k = e.t(1), t = e.t(2), h = e.t(3), p = e.t(4), q = e.t(5);
  split(e, x, {k, t, p, q});
  a.vmulps(h, t, t);
  a.vmovaps(x, t);
  a.vfmsub213ps(x, t, h);  // t^2 = h + x
  e.horner(p, t,
           {-0x1.714104p-5F, 0x1.aca3ccp-4F, -0x1.0d9402p-3F, 0x1.2885e2p-3F, -0x1.54eed4p-3F,
            0x1.996970p-3F, -0x1.000044p-2F, 0x1.5555a4p-2F});
  a.vmulps(q, t, h);
  a.vmulps(p, p, q);
  a.vfmadd231ps(p, x, a.constant(-0.5F));
  a.vmulps(h, h, a.constant(0.5F));
  a.vsubps(x, t, h);  // log(1 + t) = x + p, when p has what this difference lost
  a.vsubps(t, t, x);
  a.vsubps(t, t, h);
  a.vaddps(p, p, t);
  a.vmulps(h, k, a.constant(high));
  a.vaddps(t, h, x);  // log = t + p
  a.vsubps(h, h, t);
  a.vaddps(x, x, h);
  a.vaddps(p, p, x);
  a.vfmadd231ps(p, k, a.constant(low));
  a.vaddps(h, t, p);  // p has t^3 Q(t) too: sorted into h + p
  a.vsubps(t, t, h);
  a.vaddps(p, p, t);
  a.vmulps(x, h, a.constant(beta));  // beta log = x + t
  e.set(t, beta);
  a.vfmsub213ps(t, h, x);
  a.vfmadd231ps(t, p, a.constant(beta));
  // Where x is so large that t is no longer small, the result is 0 or Inf whatever t is.
  a.vminps(t, t, a.constant(1e-3F));
  a.vmaxps(t, t, a.constant(-1e-3F));
  exp_in(e, x, k, p, &t);
}

/// alpha x^beta. Small integers by products, halves by the square root.
inline void pow(lanes& e, xb::Xmm const& x, float alpha, float beta) {
  auto& a = e.a;
  constexpr float inf = std::numeric_limits<float>::infinity();
  if (beta == 0) return e.set(x, alpha);
  if (is_integer(beta) && beta >= -8 && beta <= 8) {
    if (beta < 0) {  // first the reciprocal: the power then over- and underflows where it should
      a.vmovaps(e.t(0), x);
      e.set(x, 1);
      a.vdivps(x, x, e.t(0));
    }
    integer_power(e, x, e.t(0), static_cast<int>(beta < 0 ? -beta : beta));
    if (alpha != 1) a.vmulps(x, x, a.constant(alpha));
    return;
  }
  if (beta == 0.5F || beta == -0.5F) return root_power(e, x, alpha, beta);
  xb::Xmm const given = e.t(0), t = e.t(1), special = e.t(2);
  a.vmovaps(given, x);
  a.vandps(x, x, a.constant_bits(0x7fffffff));
  e.at_least(x, 0x1p-149F, t);
  e.at_most(x, 0x1.fffffep127F, t);
  power_in_two_pieces(e, x, beta);
  e.set(special, beta > 0 ? 0 : inf);
  e.replace_where(x, given, compare::eq, a.constant(0), special, t);
  e.set(special, beta > 0 ? inf : 0);
  e.replace_where(x, given, compare::eq, a.constant(inf), special, t);
  e.replace_where(x, given, compare::eq, a.constant(-inf), special, t);
  e.replace_where(x, given, compare::unordered, given, given, t);
  if (is_odd(beta)) {
    a.vandps(t, given, a.constant(-0.0F));
    a.vorps(x, x, t);
  } else if (!is_integer(beta)) {
    // NaN below 0, but for -Inf, which is as Inf (C's pow): a - a + a is a where a is finite, NaN
    // of an infinity.
    e.set_bits(special, 0x7fc00000U);
    a.vsubps(t, given, given);
    a.vaddps(t, t, given);
    e.replace_where(x, t, compare::lt, a.constant(0), special, t);
  }
  if (alpha != 1) a.vmulps(x, x, a.constant(alpha));
}

/// max(x, 0) - t g with t = |x|, g = 1 - Phi(t) = e^(-t^2 / 2) R(t). R(t) = 1/2 + t N(t) / Q(t), so
/// that rounding errors of the quotient fade with t. Fits mills_rest3_4: 2^-27 for t <= 1;
/// exp2_floor6, exp2_near6: 2^-28. The power is scaled by 2^24 and R by 2^-24, so that no factor is
/// denormal before g is.
inline void gelu_erf(lanes& e, xb::Xmm const& x) {
  auto& a = e.a;
  constexpr float s = 0x1p-24F, big = 0x1p24F;
  constexpr float half_log2_e = 0x1.715476p-1F;
  xb::Xmm const t = e.t(0), g = e.t(1), f = e.t(2), p = e.t(3);
  auto const set_t = [&] {
    a.vandps(t, x, a.constant_bits(0x7fffffff));
    a.vminps(t, t, a.constant(14.5F));  // a NaN is lost here and kept in max(x, 0)
  };
  set_t();
  e.horner(g, t,
           {s * -0x1.e5b1e2p-7F, s * -0x1.ba3ef0p-4F, s * -0x1.499972p-2F, s * -0x1.988448p-2F});
  e.horner(f, t, {0x1.e5b600p-6F, 0x1.ea9a0ap-3F, 0x1.abd8e2p-1F, 0x1.6ef7e0p+0F, 1});
  a.vdivps(g, g, f);
  a.vfmadd213ps(g, t, a.constant(s * 0.5F));
  a.vmulps(t, t, t);
  a.vmulps(t, t, a.constant(-half_log2_e));
  if (e.wide()) {
    a.vreduceps(f, t, 0x09);
    e.horner(p, f,
             {big * 0x1.c4456ep-13F, big * 0x1.47373ap-10F, big * 0x1.3cfd82p-7F,
              big * 0x1.c68af6p-5F, big * 0x1.ebfd3ap-3F, big * 0x1.62e42cp-1F, big});
    a.vscalefps(p, p, t);
  } else {
    constexpr float magic = round_magic + 24;
    a.vmaxps(t, t, a.constant(-150));
    a.vaddps(f, t, a.constant(magic));
    a.vsubps(p, f, a.constant(magic));
    a.vsubps(t, t, p);
    e.horner(p, t,
             {0x1.417a84p-13F, 0x1.5f094ap-10F, 0x1.3b2dd2p-7F, 0x1.c6af7ap-5F, 0x1.ebfbdcp-3F,
              0x1.62e430p-1F, 1});
    power_from_magic(e, f);
    a.vmulps(p, p, f);
  }
  a.vmulps(g, g, p);
  set_t();
  a.vandps(p, x, a.constant(-0.0F));
  e.zero(f);
  a.vmaxps(x, f, x);
  a.vfnmadd231ps(x, t, g);
  a.vorps(x, x, p);  // g may be 0 where x is negative
}

}  // namespace sinter::inline SINTER_ABI::jit::emit
