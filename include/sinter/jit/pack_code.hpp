// Generated packing for AVX-512: a second operand that is no weight goes into panels at the speed
// of memory.
//
// Three forms, all of 32-bit units, so that f32 and pairs of 16-bit elements are one thing: rows of
// f32 copied; two rows of 16-bit elements interleaved; rows along K transposed in blocks of 16 x
// 16. What is padded becomes zero; nothing is read beside the operand's own elements. Everything
// else (AVX2, f16, odd strides, conversions) is jit/pack.hpp's plain loops, which define what this
// must give. The layout is jit/blocking.hpp's.
#pragma once

#include <optional>

#include "pack.hpp"
#include "tile.hpp"

namespace sinter::inline SINTER_ABI::jit {

enum class pack_form : unsigned char {
  rows,        ///< f32, columns side by side
  pairs,       ///< 16-bit, columns side by side
  transposed,  ///< elements along k side by side, f32 or 16-bit
};

/// What the code depends on.
struct pack_shape {
  isa level = isa::avx512;
  pack_form form = pack_form::rows;
  int element_bytes = 4;
  extent k = 0;
  bool full_panels = false;
  int tail_columns = 0;
  int zero_steps = 0;  ///< behind the steps of each panel
};

struct pack_frame {
  void const* from = nullptr;
  std::int64_t stride = 0;  ///< bytes from row to row, of what lies side by side
  void* to = nullptr;
  std::int64_t full_panels = 0;
  std::int64_t tail_panel = 1;  ///< 0: the last, narrower panel is left out
};
using pack_entry = void (*)(pack_frame const*);

/// The form in which generated code packs such an operand; nothing where it does not.
inline std::optional<pack_form> pack_form_of(panel_layout const& l, isa level, dtype from,
                                             bool unit_columns, bool unit_k) {
  if (!has_masks(level) || from != row_of(l.kind).panel || l.kind == product::f16_weight)
    return std::nullopt;
  if (unit_columns) return l.kind == product::f32 ? pack_form::rows : pack_form::pairs;
  if (unit_k) return pack_form::transposed;
  return std::nullopt;
}

class pack_generator {
 public:
  pack_generator(assembler& a, pack_shape const& s) : a_(a), s_(s) {}

  void emit() {
    a_.mov(from, a_.ptr[frame + offsetof(pack_frame, from)]);
    a_.mov(ld, a_.ptr[frame + offsetof(pack_frame, stride)]);
    a_.mov(to, a_.ptr[frame + offsetof(pack_frame, to)]);
    a_.lea(ld3, a_.ptr[ld + ld * 2]);
    if (s_.full_panels) {
      xb::Label again, done;
      a_.mov(panels, a_.ptr[frame + offsetof(pack_frame, full_panels)]);
      a_.test(panels, panels);
      a_.jz(done, xb::CodeGenerator::T_NEAR);
      a_.L(again);
      emit_panel(tile_columns(s_.level));
      if (s_.form == pack_form::transposed) {
        a_.mov(count, ld);
        a_.shl(count, 5);  // 32 columns
        a_.add(from, count);
      } else {
        a_.add(from, immediate(tile_columns(s_.level) * s_.element_bytes));
      }
      a_.dec(panels);
      a_.jnz(again, xb::CodeGenerator::T_NEAR);
      a_.L(done);
    }
    xb::Label end;
    if (s_.full_panels && s_.tail_columns > 0) {
      a_.cmp(a_.qword[frame + offsetof(pack_frame, tail_panel)], 0);
      a_.je(end, xb::CodeGenerator::T_NEAR);
    }
    if (s_.tail_columns > 0) emit_panel(s_.tail_columns);
    a_.L(end);
    a_.vzeroupper();
    a_.ret();
  }

 private:
  static constexpr int lanes = 16;
  xb::Reg64 const frame{7}, from{6}, to{2}, ld{8}, ld3{9}, count{1}, at{0}, panels{10}, at4{11};
  static constexpr int columns_mask = 1, k_mask = 2;

  void emit_panel(int columns) {
    int const vectors = (columns + lanes - 1) / lanes;
    if (s_.form == pack_form::rows)
      emit_rows(columns, vectors);
    else if (s_.form == pack_form::pairs)
      emit_pairs(columns, vectors);
    else
      emit_transposed(columns, vectors);
    emit_zeros(vectors);
  }
  void emit_zeros(int vectors) {
    if (s_.zero_steps == 0) return;
    a_.vpxord(xb::Zmm(0), xb::Zmm(0), xb::Zmm(0));
    repeat(s_.zero_steps, [&] {
      for (int j = 0; j < vectors; ++j) a_.vmovups(a_.ptr[to + bytes(64 * j)], xb::Zmm(0));
      a_.add(to, immediate(64 * vectors));
    });
  }
  void set_mask(int mask, int bits) {
    a_.mov(count.cvt32(), (std::uint64_t{1} << bits) - 1);
    a_.kmovd(assembler::mask(mask), count.cvt32());
  }
  template <class Body>
  void repeat(extent n, Body&& body) {
    if (n == 0) return;
    xb::Label again;
    a_.mov(count, static_cast<std::uint64_t>(n));
    a_.L(again);
    body();
    a_.dec(count);
    a_.jnz(again, xb::CodeGenerator::T_NEAR);
  }

  void emit_rows(int columns, int vectors) {
    int const tail = columns % lanes;
    if (tail > 0) set_mask(columns_mask, tail);
    a_.mov(at, from);
    repeat(s_.k, [&] {
      for (int j = 0; j < vectors; ++j) {
        xb::Zmm v(j);
        if (tail > 0 && j == vectors - 1) v = v | assembler::mask(columns_mask) | a_.T_z;
        a_.vmovups(v, a_.ptr[at + bytes(64 * j)]);
        a_.vmovups(a_.ptr[to + bytes(64 * j)], xb::Zmm(j));
      }
      a_.add(at, ld);
      a_.add(to, immediate(64 * vectors));
    });
  }

  void emit_pairs(int columns, int vectors) {
    for (int j = 0; j < vectors; ++j) a_.vmovups(xb::Zmm(4 + j), a_.table(interleaving_order(j)));
    a_.mov(at, from);
    auto const row = [&](int v, xb::RegExp const& address) {
      xb::Zmm z(v);
      if (columns % (2 * lanes) != 0) z = z | assembler::mask(columns_mask) | a_.T_z;
      a_.vmovdqu16(z, a_.ptr[address]);
    };
    auto const store = [&] {
      for (int j = 0; j < vectors; ++j) {
        a_.vmovdqa32(xb::Zmm(2), xb::Zmm(0));
        a_.vpermt2w(xb::Zmm(2), xb::Zmm(4 + j), xb::Zmm(1));
        a_.vmovups(a_.ptr[to + bytes(64 * j)], xb::Zmm(2));
      }
      a_.add(to, immediate(64 * vectors));
    };
    if (columns % (2 * lanes) != 0) set_mask(columns_mask, columns);
    repeat(s_.k / 2, [&] {
      row(0, at);
      row(1, at + ld);
      store();
      a_.lea(at, a_.ptr[at + ld * 2]);
    });
    if (s_.k % 2 == 0) return;
    row(0, at);
    a_.vpxord(xb::Zmm(1), xb::Zmm(1), xb::Zmm(1));
    store();
  }

  // Blocks of 16 columns x 16 steps. Vector j of every step is written in its own pass over k.
  void emit_transposed(int columns, int vectors) {
    int const per_block = 64 / s_.element_bytes;
    extent const steps = (s_.k * s_.element_bytes + 3) / 4;
    int const rest = static_cast<int>(s_.k % per_block);
    if (rest > 0) {
      a_.mov(count, ~std::uint64_t{0} >> (64 - rest));
      a_.kmovq(assembler::mask(k_mask), count);
    }
    for (int j = 0; j < vectors; ++j) {
      int const valid = columns - j * lanes < lanes ? columns - j * lanes : lanes;
      a_.mov(at, from);
      for (int i = 0; i < 4 * j; ++i) a_.lea(at, a_.ptr[at + ld * 4]);
      repeat(s_.k / per_block, [&] {
        emit_block(valid, j, vectors, lanes, false);
        a_.add(at, 64);
        a_.add(to, immediate(64 * vectors * lanes));
      });
      if (rest > 0) emit_block(valid, j, vectors, (rest * s_.element_bytes + 3) / 4, true);
      extent const done = s_.k / per_block * lanes * 64 * vectors;
      if (j + 1 < vectors)
        subtract(done);
      else
        add(steps * 64 * vectors - done);
    }
  }
  void subtract(extent n) {
    a_.mov(count, static_cast<std::uint64_t>(n));
    a_.sub(to, count);
  }
  void add(extent n) {
    a_.mov(count, static_cast<std::uint64_t>(n));
    a_.add(to, count);
  }

  void emit_block(int valid, int vector, int vectors, int steps, bool masked) {
    a_.mov(at4, at);
    for (int i = 0; i < lanes; ++i) {
      xb::Zmm v(i);
      if (i >= valid) {
        a_.vpxord(v, v, v);
        continue;
      }
      if (i % 4 == 0 && i > 0) a_.lea(at4, a_.ptr[at4 + ld * 4]);
      xb::RegExp const address = i % 4 == 0   ? xb::RegExp(at4)
                                 : i % 4 == 1 ? at4 + ld
                                 : i % 4 == 2 ? at4 + ld * 2
                                              : at4 + ld3;
      if (masked) v = v | assembler::mask(k_mask) | a_.T_z;
      if (s_.element_bytes == 2)
        a_.vmovdqu16(v, a_.ptr[address]);
      else
        a_.vmovups(v, a_.ptr[address]);
    }
    transpose(vector, vectors, steps);
  }
  // In three rounds: neighbours, pairs, then quarters of registers, which hold four columns each.
  void transpose(int vector, int vectors, int steps) {
    using xb::Zmm;
    for (int i = 0; i < 8; ++i) {
      a_.vunpcklps(Zmm(16 + 2 * i), Zmm(2 * i), Zmm(2 * i + 1));
      a_.vunpckhps(Zmm(17 + 2 * i), Zmm(2 * i), Zmm(2 * i + 1));
    }
    for (int g = 0; g < 16; g += 4) {
      a_.vunpcklpd(Zmm(g), Zmm(16 + g), Zmm(18 + g));
      a_.vunpckhpd(Zmm(g + 1), Zmm(16 + g), Zmm(18 + g));
      a_.vunpcklpd(Zmm(g + 2), Zmm(17 + g), Zmm(19 + g));
      a_.vunpckhpd(Zmm(g + 3), Zmm(17 + g), Zmm(19 + g));
    }
    for (int j = 0; j < 4; ++j) {
      for (int half = 0; half < 2; ++half) {
        a_.vshuff32x4(Zmm(16 + half), Zmm(8 * half + j), Zmm(8 * half + 4 + j), 0x88);
        a_.vshuff32x4(Zmm(18 + half), Zmm(8 * half + j), Zmm(8 * half + 4 + j), 0xdd);
      }
      for (int quarter = 0; quarter < 4; ++quarter) {
        int const step = 4 * quarter + j;
        if (step >= steps) continue;
        Zmm const out(20 + quarter);
        int const pair = quarter % 2 == 0 ? 16 : 18;
        a_.vshuff32x4(out, Zmm(pair), Zmm(pair + 1), quarter < 2 ? 0x88 : 0xdd);
        a_.vmovups(a_.ptr[to + bytes((step * vectors + vector) * 64)], out);
      }
    }
  }

  assembler& a_;
  pack_shape s_;
};

}  // namespace sinter::inline SINTER_ABI::jit
