// Words that emitters are written in: arithmetic on one vector of f32 lanes, the same for ymm and
// zmm.
//
// An emitter gets the register x that it works on in place, the temporaries and the mask register
// that its row of jit/eltwise.hpp asks for, and says what is to be computed; whether a blend goes
// through a mask register or through vblendvps is decided here. Constants are memory operands: a
// load costs no arithmetic slot, a register would.
#pragma once

#include <initializer_list>

#include "../base/array_view.hpp"
#include "assembler.hpp"

namespace sinter::inline SINTER_ABI::jit {

/// Predicates of vcmpps, all quiet.
enum class compare : std::uint8_t {
  eq = 0x00,
  unordered = 0x03,
  ne = 0x04,  ///< or unordered
  lt = 0x11,
  le = 0x12,
  ge = 0x1d,
  gt = 0x1e,
  not_gt = 0x1a,  ///< or unordered
};

class lanes {
 public:
  /// `mask` is used from AVX-512 on only.
  lanes(assembler& code, array_view<int const> temporaries, int mask)
      : a(code), temporaries_(temporaries), mask_(mask) {}

  assembler& a;  // NOLINT: emitters speak to it directly

  bool wide() const { return a.masks(); }
  xb::Xmm v(int index) const { return a.vec(index); }
  /// Temporary i.
  xb::Xmm t(int i) const { return a.vec(temporaries_[static_cast<std::size_t>(i)]); }
  xb::Opmask k() const { return assembler::mask(mask_); }

  void set(xb::Xmm const& d, float c) { set_bits(d, std::bit_cast<std::uint32_t>(c)); }
  void set_bits(xb::Xmm const& d, std::uint32_t bits) {
    if (bits == 0)
      zero(d);
    else if (wide())
      a.vbroadcastss(d, a.lone(bits));
    else
      a.vmovups(d, a.constant_bits(bits));
  }
  void zero(xb::Xmm const& d) {
    if (d.getIdx() < 16)
      a.vpxor(xb::Xmm(d.getIdx()), xb::Xmm(d.getIdx()), xb::Xmm(d.getIdx()));
    else
      a.vpxord(d, d, d);
  }

  /// p = c[0] x^n + c[1] x^(n-1) + ... + c[n].
  void horner(xb::Xmm const& p, xb::Xmm const& x, std::initializer_list<float> c) {
    auto it = c.begin();
    set(p, *it);
    for (++it; it != c.end(); ++it) a.vfmadd213ps(p, x, a.constant(*it));
  }

  /// x = max(x, low), x = min(x, high); NaN stays, and x where the two are equal. t is overwritten.
  void at_least(xb::Xmm const& x, float low, xb::Xmm const& t) {
    set(t, low);
    a.vmaxps(x, t, x);
  }
  void at_most(xb::Xmm const& x, float high, xb::Xmm const& t) {
    set(t, high);
    a.vminps(x, t, x);
  }

  void round(xb::Xmm const& d, xb::Xmm const& s) {
    wide() ? a.vrndscaleps(d, s, 0x08) : a.vroundps(d, s, 0x08);
  }

  /// d = left `c` right ? yes : d. t is overwritten (AVX2).
  void replace_where(xb::Xmm const& d, xb::Xmm const& left, compare c, xb::Operand const& right,
                     xb::Xmm const& yes, xb::Xmm const& t) {
    if (wide()) {
      a.vcmpps(k(), left, right, static_cast<std::uint8_t>(c));
      a.vmovaps(d | k(), yes);
    } else {
      a.vcmpps(t, left, right, static_cast<std::uint8_t>(c));
      a.vblendvps(d, d, yes, t);
    }
  }

 private:
  array_view<int const> temporaries_;
  int mask_;
};

}  // namespace sinter::inline SINTER_ABI::jit
