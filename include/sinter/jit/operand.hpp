// Loads and stores of one vector of values: conversion to and from f32, broadcast, tails.
//
// Nothing here reads or writes a byte beyond the elements that are asked for, and no instruction
// with a full-width memory operand stands where a tail is: masks on AVX-512; on AVX2 vmaskmovps for
// 32-bit and pieces of 8, 4 and 2 bytes for 16-bit elements. Lanes beyond a tail hold 0 after a
// load. Rounding is to nearest even; a NaN stays one. vcvtneps2bf16 flushes denormals, the integer
// sequence of the lower levels keeps them: docs/precision.md.
#pragma once

#include "../base/array_view.hpp"
#include "assembler.hpp"
#include "registers.hpp"

namespace sinter::inline SINTER_ABI::jit {

/// An address: general register + bytes.
struct place {
  int base = 0;
  std::int32_t offset = 0;
};

/// How many lanes of a vector count.
struct lane_count {
  int lanes = 0;  ///< 0: all
  int mask = -1;  ///< AVX-512, with a tail: the mask register that says the same
  constexpr bool all() const { return lanes == 0; }
};

class operand_code {
 public:
  explicit operand_code(assembler& a) : a_(a) {}

  /// Vector registers that store() wants beside the value.
  static constexpr int store_temporaries(dtype t, isa level) {
    if (t != dtype::bf16) return level == isa::avx2 ? 1 : 0;
    if (includes(level, isa::avx512_bf16)) return 0;
    return has_masks(level) ? 1 : 2;
  }

  xb::Address at(place p, int more = 0) const {
    return a_.ptr[assembler::at(p.base, p.offset + more)];
  }

  /// to = the elements at p, widened.
  void load(dtype t, int to, place p, lane_count n) {
    if (t == dtype::f32) return load_f32(to, p, n);
    if (a_.masks()) {
      if (t == dtype::bf16) {
        a_.vpmovzxwd(masked(a_.vec(to), n, true), at(p));
        a_.vpslld(a_.vec(to), a_.vec(to), 16);
      } else {
        a_.vcvtph2ps(masked(a_.vec(to), n, true), at(p));
      }
      return;
    }
    if (!n.all()) load_pieces(to, p, n.lanes);
    if (t == dtype::bf16) {
      n.all() ? a_.vpmovzxwd(a_.vec(to), at(p)) : a_.vpmovzxwd(a_.vec(to), a_.half(to));
      a_.vpslld(a_.vec(to), a_.vec(to), 16);
    } else {
      n.all() ? a_.vcvtph2ps(a_.vec(to), at(p)) : a_.vcvtph2ps(a_.vec(to), a_.half(to));
    }
  }

  /// Every lane of `to` = the one element at p, widened.
  void broadcast(dtype t, int to, place p) {
    if (t == dtype::f32) return a_.vbroadcastss(a_.vec(to), at(p));
    if (t == dtype::bf16) {
      a_.vpbroadcastw(a_.vec(to), at(p));  // twice in each lane; the lower copy is shifted out
      a_.vpslld(a_.vec(to), a_.vec(to), 16);
    } else {
      a_.vpbroadcastw(a_.half(to), at(p));
      a_.vcvtph2ps(a_.vec(to), a_.half(to));
    }
  }

  /// Stores the first lanes of `from`, rounded to t. `from` and the temporaries are overwritten.
  /// `mask` (AVX-512 below BF16, else unused) is overwritten as well.
  void store(dtype t, int from, place p, lane_count n, array_view<int const> temporaries,
             int mask) {
    if (t == dtype::f32) return store_f32(from, p, n, temporaries);
    if (t == dtype::bf16) to_bf16(from, temporaries, mask);
    if (a_.masks()) {
      if (t == dtype::f16)
        n.all() ? a_.vcvtps2ph(at(p), a_.vec(from), 0)
                : a_.vcvtps2ph(at(p) | assembler::mask(n.mask), a_.vec(from), 0);
      else if (includes(a_.level(), isa::avx512_bf16))
        n.all() ? a_.vmovdqu16(at(p), a_.half(from))
                : a_.vmovdqu16(at(p) | assembler::mask(n.mask), a_.half(from));
      else
        n.all() ? a_.vpmovdw(at(p), a_.vec(from))
                : a_.vpmovdw(at(p) | assembler::mask(n.mask), a_.vec(from));
      return;
    }
    if (t == dtype::f16) {
      if (n.all()) return a_.vcvtps2ph(at(p), a_.vec(from), 0);
      a_.vcvtps2ph(a_.half(from), a_.vec(from), 0);
    } else {
      a_.vpackusdw(a_.vec(from), a_.vec(from), a_.vec(from));
      a_.vpermq(xb::Ymm(from), xb::Ymm(from), 0x08);
      if (n.all()) return a_.vmovdqu(at(p), a_.half(from));
    }
    store_pieces(from, p, n.lanes);
  }

  /// x = x rounded to t and widened again; as store() rounds.
  void round(dtype t, int x, array_view<int const> temporaries, int mask) {
    if (t == dtype::f32) return;
    if (t == dtype::f16) {
      a_.vcvtps2ph(a_.half(x), a_.vec(x), 0);
      a_.vcvtph2ps(a_.vec(x), a_.half(x));
      return;
    }
    to_bf16(x, temporaries, mask);
    if (includes(a_.level(), isa::avx512_bf16)) a_.vpmovzxwd(a_.vec(x), a_.half(x));
    a_.vpslld(a_.vec(x), a_.vec(x), 16);
  }

  /// The AVX2 mask of the first `lanes` lanes, in memory.
  xb::Address tail_mask(int lanes) {
    std::vector<std::uint32_t> words(8, 0);
    for (int i = 0; i < lanes; ++i) words[static_cast<std::size_t>(i)] = 0xffffffffU;
    return a_.table(std::move(words));
  }

 private:
  static xb::Xmm masked(xb::Xmm v, lane_count n, bool zero) {
    if (n.all()) return v;
    v.setOpmaskIdx(n.mask);
    if (zero) v.setZero();
    return v;
  }

  void load_f32(int to, place p, lane_count n) {
    if (a_.masks() || n.all()) return a_.vmovups(masked(a_.vec(to), n, true), at(p));
    a_.vmovups(a_.vec(to), tail_mask(n.lanes));
    a_.vmaskmovps(a_.vec(to), a_.vec(to), at(p));
  }
  void store_f32(int from, place p, lane_count n, array_view<int const> temporaries) {
    if (n.all()) return a_.vmovups(at(p), a_.vec(from));
    if (a_.masks()) return a_.vmovups(at(p) | assembler::mask(n.mask), a_.vec(from));
    a_.vmovups(a_.vec(temporaries[0]), tail_mask(n.lanes));
    a_.vmaskmovps(at(p), a_.vec(temporaries[0]), a_.vec(from));
  }

  /// AVX2: 1 to 7 16-bit elements into the lower half of `to`, the rest 0.
  void load_pieces(int to, place p, int lanes) {
    xb::Xmm const x = a_.half(to);
    int done = 0;
    if (lanes >= 4) {
      a_.vmovq(x, at(p));
      done = 4;
    } else {
      a_.vpxor(x, x, x);
    }
    if (lanes - done >= 2) {
      a_.vpinsrd(x, x, at(p, 2 * done), static_cast<std::uint8_t>(done / 2));
      done += 2;
    }
    if (lanes - done >= 1) a_.vpinsrw(x, x, at(p, 2 * done), static_cast<std::uint8_t>(done));
  }
  void store_pieces(int from, place p, int lanes) {
    xb::Xmm const x = a_.half(from);
    int done = 0;
    if (lanes >= 4) {
      a_.vmovq(at(p), x);
      done = 4;
    }
    if (lanes - done >= 2) {
      a_.vpextrd(at(p, 2 * done), x, static_cast<std::uint8_t>(done / 2));
      done += 2;
    }
    if (lanes - done >= 1) a_.vpextrw(at(p, 2 * done), x, static_cast<std::uint8_t>(done));
  }

  /// With BF16: the lower half of x holds the packed result. Else each lane holds its result in the
  /// lower 16 bits: x + 0x7fff + (bit 16 of x), shifted; a NaN is made quiet instead.
  void to_bf16(int x, array_view<int const> temporaries, int mask) {
    xb::Xmm const v = a_.vec(x);
    if (includes(a_.level(), isa::avx512_bf16)) return a_.vcvtneps2bf16(a_.half(x), v);
    xb::Xmm const t = a_.vec(temporaries[0]);
    if (a_.masks()) {
      a_.vcmpps(assembler::mask(mask), v, v, unordered);
      a_.vpsrld(t, v, 16);
      a_.vpandd(t, t, a_.constant_bits(1));
      a_.vpaddd(t, t, a_.constant_bits(0x7fff));
      a_.vpaddd(t, t, v);
      a_.vpord(t | assembler::mask(mask), v, a_.constant_bits(0x400000));
    } else {
      xb::Xmm const nan = a_.vec(temporaries[1]);
      a_.vpsrld(t, v, 16);
      a_.vpand(t, t, a_.constant_bits(1));
      a_.vpaddd(t, t, a_.constant_bits(0x7fff));
      a_.vpaddd(t, t, v);
      a_.vcmpps(nan, v, v, unordered);
      a_.vpor(v, v, a_.constant_bits(0x400000));
      a_.vblendvps(t, t, v, nan);
    }
    a_.vpsrld(v, t, 16);
  }

  static constexpr std::uint8_t unordered = 3;
  assembler& a_;
};

}  // namespace sinter::inline SINTER_ABI::jit
