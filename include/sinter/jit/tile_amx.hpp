// One block of AMX tiles: which register holds what, the configuration, and the K loop.
//
// A tile is 16 rows of 64 bytes; a product adds 16 x 16 sums over 64 bytes of K. A block is
// `rows` x `columns` tiles of sums: 2 x 2, where four loads feed four products; 1 x 4 and 1 x 3
// for few rows, 4 x 1 and 3 x 1 for few columns. Its last tile of rows may have fewer of them: that
// is the only thing in which configurations differ, since columns and K are padded with zeros in
// the panel. What stands beside a row of the first operand is never read, so a row that ends within
// 64 bytes has its end copied before zeros. Read jit/amx_blocks.hpp for the loops around a block.
//
// Source: Intel SDM volume 2 (the instructions), volume 1 chapter 18 (TILECFG), optimization manual
// chapter 20 (order of loads and products).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "assembler.hpp"
#include "blocking.hpp"
#include "tile.hpp"

namespace sinter::inline SINTER_ABI::jit {

/// What one tile product multiplies. Sums are f32 or s32; K comes in pairs or quads of elements.
enum class tile_product : unsigned char { bf16, s8_s8, s8_u8, u8_s8 };

struct tile_product_row {
  tile_product code;
  std::string_view name;
  int element_bytes;
};
inline constexpr tile_product_row tile_product_table[] = {
    {tile_product::bf16, "tdpbf16ps", 2},
    {tile_product::s8_s8, "tdpbssd", 1},
    {tile_product::s8_u8, "tdpbsud", 1},
    {tile_product::u8_s8, "tdpbusd", 1},
};
constexpr tile_product_row const& row_of(tile_product p) {
  return tile_product_table[static_cast<int>(p)];
}

inline constexpr int amx_tiles = 8, amx_rows = 16, amx_row_bytes = 64;
inline constexpr int amx_tile_bytes = amx_rows * amx_row_bytes;

struct amx_block {
  int rows = 2, columns = 2;

  /// Registers. All operands of even and odd blocks of K that may be in two registers are, so that
  /// the next is loaded while the last is used.
  constexpr int sum(int i, int j) const { return rows == 2 ? 2 * i + j : rows == 1 ? j : i; }
  constexpr int first(int i, extent k) const {
    if (rows == 1) return 4 + static_cast<int>(k % 2);
    if (rows == 2) return 4 + i;
    return i == rows - 1 ? 6 : 4 + static_cast<int>((k * (rows - 1) + i) % 2);
  }
  constexpr int second(int j, extent k) const {
    if (rows == 2 && columns == 2) return 6 + j;
    return rows > 2 ? 7 : 6 + static_cast<int>((k * columns + j) % 2);
  }
  /// Bit t: tile register t holds rows of the last tile of rows.
  constexpr unsigned last_rows() const {
    constexpr unsigned of[] = {0b00111111, 0b00101100, 0b01000100, 0b01001000};
    return of[rows - 1];
  }
};
static_assert([] {
  for (amx_block b : {amx_block{1, 1}, {1, 2}, {1, 3}, {1, 4}, {2, 1}, {2, 2}, {3, 1}, {4, 1}})
    for (extent k = 0; k < 4; ++k) {
      unsigned sums = 0, operands = 0;
      for (int i = 0; i < b.rows; ++i)
        for (int j = 0; j < b.columns; ++j) {
          sums |= 1U << b.sum(i, j);
          operands |= 1U << b.first(i, k) | 1U << b.second(j, k);
          bool const last = i == b.rows - 1;
          if (((b.last_rows() >> b.sum(i, j) & 1U) != 0) != last ||
              ((b.last_rows() >> b.first(i, k) & 1U) != 0) != last ||
              (b.last_rows() >> b.second(j, k) & 1U) != 0)
            return false;
        }
      if ((sums & operands) != 0) return false;
    }
  return true;
}());

/// The 64 bytes of a configuration whose tiles are all as large as can be, as words.
inline std::vector<std::uint32_t> amx_palette() {
  std::vector<std::uint32_t> words(16, 0);
  words[0] = 1;
  for (std::size_t i = 4; i < 8; ++i) words[i] = amx_row_bytes | amx_row_bytes << 16;
  for (std::size_t i = 12; i < 14; ++i) words[i] = 0x10101010;
  return words;
}
inline constexpr int amx_palette_rows_at = 48;  ///< a byte for each tile

/// What a kernel writes while it runs: the configuration, loop state, ends of rows, sums.
struct amx_memory {
  alignas(64) std::byte palette[64];
  std::int64_t
      configured;  ///< by this call: rows of the block << 8 | rows of its last tile; 0: nothing
  std::int64_t row, first_row, block_rows, blocks, blocks_left, column, panels_left, line,
      runs_left, taps_left;
  void const* a;
  void const* panel;
  alignas(64) std::byte ends[4 * amx_tile_bytes];
  alignas(64) std::byte sums[4 * amx_tile_bytes];
};

/// The tiles of a thread belong to a call from its first configuration to the end of this scope,
/// and to nobody afterwards. Whoever used tiles before in the thread is left as the psABI leaves
/// him: tile registers do not survive a call.
class tile_scope {
 public:
  explicit tile_scope(amx_memory& memory) noexcept : memory_(memory) { memory.configured = 0; }
  tile_scope(tile_scope const&) = delete;
  tile_scope& operator=(tile_scope const&) = delete;
  ~tile_scope() {
    if (memory_.configured != 0) asm volatile(".byte 0xc4, 0xe2, 0x78, 0x49, 0xc0");  // TILERELEASE
  }

 private:
  amx_memory& memory_;
};

/// General registers. a[i] is the address of row 16 i; b[q] that of panel q; rows of panels are
/// 64 or 128 bytes apart.
struct amx_registers {
  int frame, a[4], lda, b[2], stride64, stride128, count, copied, rows_left;
  int ahead = -1;  ///< how many bytes beyond the panel memory is prefetched; -1: none is
};
inline constexpr int ends_mask = 6;  ///< the mask of bytes that the end of a row has

/// K of one run, as a block of tiles reads it.
struct amx_run {
  tile_product kind = tile_product::bf16;
  extent bytes = 0;         ///< of a row
  bool padded = false;      ///< rows are copies, padded with zeros
  int vectors[2] = {2, 0};  ///< of each panel: 16 sums each
  int memory = 0;           ///< of amx_memory in the frame

  constexpr extent blocks() const { return (bytes + amx_row_bytes - 1) / amx_row_bytes; }
  constexpr bool has_end() const { return !padded && bytes % amx_row_bytes != 0; }
};

class tile_amx {
 public:
  tile_amx(assembler& a, amx_block const& b, amx_run const& run, amx_registers const& r)
      : a_(a), b_(b), run_(run), r_(r) {}

  void clear() {
    for (int i = 0; i < b_.rows; ++i)
      for (int j = 0; j < b_.columns; ++j) a_.tilezero(tile(b_.sum(i, j)));
  }

  /// Adds the products of one run. a[0] is where its row 0 begins, as it is afterwards; the b are
  /// left at the run's end.
  void multiply() {
    set_rows();
    if (run_.has_end()) copy_ends();
    extent const n = run_.blocks(), behind = look_ahead + (run_.has_end() ? 1 : 0);
    extent const rounds = n >= behind + 2 * unroll ? (n - behind) / unroll : 0;
    extent const rest = n - rounds * unroll;
    load_first(n);
    if (rounds > 0) {
      xb::Label again;
      a_.mov(g(r_.count), static_cast<std::uint64_t>(rounds));
      a_.align(32);
      a_.L(again);
      emit(unroll, endless);
      for (int i = 0; i < b_.rows; ++i) a_.add(g(r_.a[i]), immediate(unroll * amx_row_bytes));
      advance_panels(unroll);
      a_.dec(g(r_.count));
      a_.jnz(again, xb::CodeGenerator::T_NEAR);
    }
    emit(rest, rest);
    advance_panels(rest);
    if (rounds > 0)
      a_.sub(g(r_.a[0]), immediate(static_cast<int>(rounds * unroll * amx_row_bytes)));
  }

  /// Stores the sums: panel after panel, row after row.
  void store() {
    for (int i = 0; i < b_.rows; ++i)
      for (int j = 0; j < b_.columns; ++j)
        a_.tilestored(a_.ptr[g(r_.frame) + g(stride(j)) + bytes(sums_at(i, j))],
                      tile(b_.sum(i, j)));
  }
  /// Where a panel's sums begin, from the frame.
  std::int64_t sums_of_panel(int q) const {
    return run_.memory + static_cast<std::int64_t>(offsetof(amx_memory, sums)) +
           (q > 0 ? b_.rows * run_.vectors[0] * amx_tile_bytes : 0);
  }

 private:
  static constexpr int unroll = 4, look_ahead = 2;
  static constexpr extent endless = extent{1} << 40;

  /// One product: tiles (i, -) and (-, j) of block k.
  struct use {
    int i, j;
    extent k;
  };
  struct load {
    bool first = true;
    int index = 0;
    extent k = 0;
    int at = 0;  ///< the product that wants it
  };

  static xb::Reg64 g(int i) { return assembler::general(i); }
  static xb::Tmm tile(int i) { return xb::Tmm(i); }
  static int panel_of(int j) { return j / tile_vectors; }
  int stride(int j) const { return run_.vectors[panel_of(j)] == 1 ? r_.stride64 : r_.stride128; }
  int panel_block_bytes(int q) const { return run_.vectors[q] * amx_tile_bytes; }
  std::int64_t sums_at(int i, int j) const {
    int const q = panel_of(j);
    return sums_of_panel(q) + i * run_.vectors[q] * amx_tile_bytes +
           j % tile_vectors * amx_row_bytes;
  }

  /// Products in their order. 2 x 2 goes round the block, the other way in every second one, so
  /// that of two products in a row one operand is the same, and each has its next tile loaded one or two
  /// products before.
  std::vector<use> uses_of(extent blocks) const {
    std::vector<use> uses;
    for (extent k = 0; k < blocks; ++k)
      for (int n = 0; n < b_.rows * b_.columns; ++n) {
        int i = n / b_.columns, j = n % b_.columns;
        if (b_.rows == 2 && b_.columns == 2) j = (k % 2 == 0) == (i == 0) ? j : 1 - j;
        uses.push_back({i, j, k});
      }
    return uses;
  }
  int reg(load const& l) const {
    return l.first ? b_.first(l.index, l.k) : b_.second(l.index, l.k);
  }
  load operand(use const& u, bool first, int at) const {
    return {first, first ? u.i : u.j, u.k, at};
  }
  static bool same(load const& x, load const& y) {
    return x.first == y.first && x.index == y.index && x.k == y.k;
  }

  /// Products of `count` blocks, and loads for them and what follows, of `total` blocks in all.
  void emit(extent count, extent total) {
    std::vector<use> const uses = uses_of(count + look_ahead);
    int const products = static_cast<int>(count) * b_.rows * b_.columns;
    for (int p = 0; p < products; ++p) {
      use const& u = uses[static_cast<std::size_t>(p)];
      multiply(u);
      prefetch(p);
      load next[2];
      bool const wanted[] = {follows(uses, p, true, total, next[0]),
                             follows(uses, p, false, total, next[1])};
      bool const second_first = wanted[0] && wanted[1] && next[1].at < next[0].at;
      for (int n : {second_first ? 1 : 0, second_first ? 0 : 1})
        if (wanted[n]) emit_load(next[n], total);
    }
  }
  /// What the register of an operand of product p is to hold next, if the operand is dead.
  bool follows(std::vector<use> const& uses, int p, bool first, extent total, load& next) const {
    load const now = operand(uses[static_cast<std::size_t>(p)], first, p);
    for (int q = p + 1; q < static_cast<int>(uses.size()); ++q) {
      next = operand(uses[static_cast<std::size_t>(q)], first, q);
      if (reg(next) != reg(now)) continue;
      return !same(next, now) && next.k < total;
    }
    return false;
  }
  void load_first(extent total) {
    unsigned loaded = 0;
    for (use const& u : uses_of((std::min)(total, extent{look_ahead})))
      for (bool first : {true, false}) {
        load const l = operand(u, first, 0);
        if ((loaded >> reg(l) & 1U) != 0) continue;
        loaded |= 1U << reg(l);
        emit_load(l, total);
      }
  }

  void emit_load(load const& l, extent total) {
    if (!l.first) {
      int const q = panel_of(l.index);
      std::int64_t const at = l.k * panel_block_bytes(q) + l.index % tile_vectors * amx_row_bytes;
      return a_.tileloadd(tile(reg(l)), a_.ptr[g(r_.b[q]) + g(stride(l.index)) + bytes(at)]);
    }
    if (run_.has_end() && l.k == total - 1)
      return a_.tileloadd(tile(reg(l)),
                          a_.ptr[g(r_.frame) + g(r_.stride64) + bytes(ends_at(l.index))]);
    a_.tileloadd(tile(reg(l)), a_.ptr[g(r_.a[l.index]) + g(r_.lda) + bytes(l.k * amx_row_bytes)]);
  }
  void multiply(use const& u) {
    xb::Tmm const to = tile(b_.sum(u.i, u.j)), x = tile(b_.first(u.i, u.k)),
                  y = tile(b_.second(u.j, u.k));
    switch (run_.kind) {
      case tile_product::bf16:
        return a_.tdpbf16ps(to, x, y);
      case tile_product::s8_s8:
        return a_.tdpbssd(to, x, y);
      case tile_product::s8_u8:
        return a_.tdpbsud(to, x, y);
      case tile_product::u8_s8:
        return a_.tdpbusd(to, x, y);
    }
  }
  /// A line for each product: some blocks of rows bring the next panel together.
  void prefetch(int p) {
    if (r_.ahead < 0) return;
    int const per_block = b_.rows * b_.columns, k = p / per_block, line = p % per_block;
    a_.prefetcht1(
        a_.ptr[g(r_.b[0]) + g(r_.ahead) + bytes(k * panel_block_bytes(0) + line * amx_row_bytes)]);
  }

  void set_rows() {
    for (int i = 1; i < b_.rows; ++i) {
      a_.mov(g(r_.a[i]), g(r_.lda));
      a_.shl(g(r_.a[i]), 4);
      a_.add(g(r_.a[i]), g(r_.a[i - 1]));
    }
  }
  void advance_panels(extent blocks) {
    for (int q = 0; q < 2; ++q)
      if (q <= panel_of(b_.columns - 1) && blocks > 0)
        a_.add(g(r_.b[q]), immediate(static_cast<int>(blocks) * panel_block_bytes(q)));
  }
  std::int64_t ends_at(int i) const {
    return run_.memory + static_cast<std::int64_t>(offsetof(amx_memory, ends)) + i * amx_tile_bytes;
  }
  /// The bytes of each row beyond whole tiles, and zeros behind them.
  void copy_ends() {
    extent const whole = run_.bytes / amx_row_bytes * amx_row_bytes;
    xb::Zmm const row(0);
    xb::Label again;
    a_.lea(g(r_.copied), a_.ptr[g(r_.a[0]) + bytes(whole)]);
    a_.lea(g(r_.count), a_.ptr[g(r_.frame) + bytes(ends_at(0))]);
    a_.mov(g(r_.rows_left),
           a_.qword[g(r_.frame) + bytes(run_.memory) + offsetof(amx_memory, block_rows)]);
    a_.L(again);
    a_.vmovdqu8(row | assembler::mask(ends_mask) | a_.T_z, a_.ptr[g(r_.copied)]);
    a_.vmovups(a_.ptr[g(r_.count)], row);
    a_.add(g(r_.copied), g(r_.lda));
    a_.add(g(r_.count), amx_row_bytes);
    a_.dec(g(r_.rows_left));
    a_.jnz(again, xb::CodeGenerator::T_NEAR);
  }

  assembler& a_;
  amx_block b_;
  amx_run run_;
  amx_registers r_;
};

}  // namespace sinter::inline SINTER_ABI::jit
