#include "amx_decode.hpp"

#include <cstring>

namespace sinter_test::amx {
namespace {

decoded& fail(decoded& d, fault_kind kind, char const* reason) {
  if (d.fault == fault_kind::none) {  // the first reason counts
    d.fault = kind;
    d.reason = reason;
  }
  return d;
}
decoded& undefined(decoded& d, char const* reason) {
  return fail(d, fault_kind::undefined, reason);
}

enum class prefix : unsigned char { none, forbidden, not_emulated };
prefix prefix_kind(std::uint8_t byte) {
  switch (byte) {
    case 0xf0:
    case 0x66:
    case 0xf2:
    case 0xf3:
      return prefix::forbidden;
    case 0x2e:
    case 0x36:
    case 0x3e:
    case 0x26:
    case 0x64:
    case 0x65:
    case 0x67:
      return prefix::not_emulated;
    default:
      return (byte & 0xf0U) == 0x40 ? prefix::forbidden : prefix::none;  // REX
  }
}

instruction_row const* find(std::uint8_t opcode, std::uint8_t pp, bool registers) {
  for (instruction_row const& row : instruction_table) {
    bool const in_memory = row.operands == form::configuration || row.operands == form::tile_memory;
    if (row.opcode == opcode && row.prefix == pp && in_memory != registers) return &row;
  }
  return nullptr;
}

/// The three bytes of the prefix and ModRM, taken apart. R, X and B are stored inverted.
struct vex_fields {
  int r, x, b, w, vvvv, l;
  std::uint8_t pp, mod, reg, rm;
};
vex_fields fields(std::uint8_t const* p) {
  auto const bit = [](std::uint8_t byte, int i) { return (byte >> i) & 1; };
  auto const part = [](int value) { return static_cast<std::uint8_t>(value); };
  return {bit(p[1], 7) ^ 1,        bit(p[1], 6) ^ 1, bit(p[1], 5) ^ 1, bit(p[2], 7),
          ((p[2] >> 3) & 15) ^ 15, bit(p[2], 2),     part(p[2] & 3),   part(p[4] >> 6),
          part((p[4] >> 3) & 7),   part(p[4] & 7)};
}

/// Reads SIB and displacement at p, behind ModRM; gives the address behind them.
std::uint8_t const* memory_operand(decoded& d, vex_fields const& v, std::uint8_t const* p) {
  bool const sib = v.rm == 4;
  int base = v.rm;
  if (sib) {
    int const index = ((*p >> 3) & 7) + 8 * v.x;
    if (index != 4) {
      d.memory.index = index;
      d.memory.scale = *p >> 6;
    }
    base = *p & 7;
    ++p;
  }
  bool const no_base = v.mod == 0 && base == 5;
  if (no_base)
    d.memory.next = !sib;
  else
    d.memory.base = base + 8 * v.b;
  if (v.mod == 1) {
    d.memory.displacement = static_cast<std::int8_t>(*p);
    ++p;
  } else if (v.mod == 2 || no_base) {
    std::memcpy(&d.memory.displacement, p, 4);
    p += 4;
  }
  return p;
}

void operands(decoded& d, vex_fields const& v, form f) {
  if (v.w != 0) undefined(d, "VEX.W is 1");
  if (v.l != 0) undefined(d, "VEX.L is 1");
  if (f != form::product && v.vvvv != 0) undefined(d, "VEX.vvvv is not 1111b");
  bool const has_tile = f != form::configuration && f != form::nothing;
  d.tile = v.reg + 8 * v.r;
  if (!has_tile && d.tile != 0) undefined(d, "ModRM.reg or VEX.R is not 0");
  if (has_tile && d.tile > 7) undefined(d, "a tile beyond tmm7");
  if (f == form::tile_memory && v.rm != 4) undefined(d, "a tile's memory operand without SIB");
  if (f == form::nothing || f == form::one_tile) {
    if (v.rm != 0 || v.b != 0 || v.x != 0) undefined(d, "ModRM.rm, VEX.B or VEX.X is not 0");
  }
  if (f == form::product) {
    d.first = v.rm + 8 * v.b;
    d.second = v.vvvv;
    if (d.first > 7 || d.second > 7) undefined(d, "a tile beyond tmm7");
    if (v.x != 0) undefined(d, "VEX.X is not 0");
  }
}

}  // namespace

decoded decode(std::uint8_t const* code) {
  decoded d;
  std::uint8_t const* p = code;
  bool forbidden = false, not_emulated = false;
  for (; p - code < 14 && prefix_kind(*p) != prefix::none; ++p) {
    forbidden = forbidden || prefix_kind(*p) == prefix::forbidden;
    not_emulated = true;
  }
  // Maps other than 0F38 hold no AMX instruction of these twelve, so a two-byte VEX is none either.
  bool const map_0f38 = p[0] == 0xc4 && (p[1] & 31) == 2;
  if (!map_0f38) return {};
  std::uint8_t const opcode = p[3];
  if (opcode != 0x49 && opcode != 0x4b && opcode != 0x5c && opcode != 0x5e) return {};
  d.is_amx = true;
  if (forbidden)
    undefined(d, "LOCK, 66, F2, F3 or REX before VEX");
  else if (not_emulated)
    fail(d, fault_kind::refused, "a segment or address-size prefix");
  vex_fields const v = fields(p);
  instruction_row const* const row = find(opcode, v.pp, v.mod == 3);
  if (row == nullptr)
    return undefined(d, "none of the twelve instructions of AMX-TILE, BF16, INT8");
  d.what = row->code;
  std::uint8_t const* end = p + 5;
  if (v.mod != 3) end = memory_operand(d, v, end);
  operands(d, v, row->operands);
  d.length = static_cast<int>(end - code);
  return d;
}

}  // namespace sinter_test::amx
