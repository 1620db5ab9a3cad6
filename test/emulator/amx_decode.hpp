// Which AMX instruction stands at an address: the table of the twelve instructions and a decoder of
// their VEX forms.
//
// Pure: bytes in, a value out. It reads no byte behind the instruction, since that may be the last
// one before an unmapped page. Reserved bits are taken strictly: what the manual does not define is
// #UD here, whatever a CPU would do. Legacy prefixes are looked through so that an AMX instruction
// behind one is reported as what it is: those that the manual forbids before VEX are #UD, segment
// overrides and address-size prefixes are refused, since no kernel of Sinter has them.
//
// Source: Intel SDM volume 2: chapter 2.3 (VEX), 2.10 (exception classes AMX-E1 to E6), the
// instructions' own pages. What they do: amx_tiles.hpp. The signals: amx_emulator.hpp.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace sinter_test::amx {

enum class instruction : unsigned char {
  ldtilecfg,
  sttilecfg,
  tilerelease,
  tilezero,
  tileloadd,
  tileloaddt1,
  tilestored,
  tdpbf16ps,
  tdpbssd,
  tdpbsud,
  tdpbusd,
  tdpbuud,
  count_
};
inline constexpr std::size_t instruction_count = static_cast<std::size_t>(instruction::count_);

/// What ModRM holds.
enum class form : unsigned char {
  configuration,  ///< memory, reg = 0
  nothing,        ///< C0
  one_tile,       ///< reg: the tile, rm = 0
  tile_memory,    ///< reg: the tile, memory with SIB: base, stride
  product,        ///< reg: accumulator, rm: first operand, VEX.vvvv: second operand
};

struct instruction_row {
  instruction code;
  std::string_view name;
  form operands;
  std::uint8_t opcode;  ///< in the map 0F38
  std::uint8_t prefix;  ///< VEX.pp: 0 none, 1 66, 2 F3, 3 F2
};

inline constexpr std::array<instruction_row, instruction_count> instruction_table{{
    {instruction::ldtilecfg, "ldtilecfg", form::configuration, 0x49, 0},
    {instruction::sttilecfg, "sttilecfg", form::configuration, 0x49, 1},
    {instruction::tilerelease, "tilerelease", form::nothing, 0x49, 0},
    {instruction::tilezero, "tilezero", form::one_tile, 0x49, 3},
    {instruction::tileloadd, "tileloadd", form::tile_memory, 0x4b, 3},
    {instruction::tileloaddt1, "tileloaddt1", form::tile_memory, 0x4b, 1},
    {instruction::tilestored, "tilestored", form::tile_memory, 0x4b, 2},
    {instruction::tdpbf16ps, "tdpbf16ps", form::product, 0x5c, 2},
    {instruction::tdpbssd, "tdpbssd", form::product, 0x5e, 3},
    {instruction::tdpbsud, "tdpbsud", form::product, 0x5e, 2},
    {instruction::tdpbusd, "tdpbusd", form::product, 0x5e, 1},
    {instruction::tdpbuud, "tdpbuud", form::product, 0x5e, 0},
}};
static_assert([] {
  for (std::size_t i = 0; i < instruction_count; ++i)
    if (static_cast<std::size_t>(instruction_table[i].code) != i) return false;
  return true;
}());

constexpr instruction_row const& row_of(instruction i) {
  return instruction_table[static_cast<std::size_t>(i)];
}
constexpr std::string_view name_of(instruction i) {
  return i == instruction::count_ ? std::string_view("an AMX opcode") : row_of(i).name;
}

enum class fault_kind : unsigned char {
  none,
  undefined,   ///< #UD
  protection,  ///< #GP
  refused,     ///< legal, but not emulated
  strict,      ///< legal, but wrong in a program with several users of tiles: strict_call
};

/// base + (index << scale) + displacement; -1: absent. `next`: the base is the next instruction's
/// address.
struct address {
  int base = -1;
  int index = -1;
  int scale = 0;
  std::int32_t displacement = 0;
  bool next = false;
};

struct decoded {
  bool is_amx = false;
  /// count_: AMX by its opcode, but none of the twelve; then there is a fault.
  instruction what = instruction::count_;
  fault_kind fault = fault_kind::none;
  char const* reason = "";
  int length = 0;
  int tile = 0;    ///< ModRM.reg
  int first = 0;   ///< ModRM.rm of a product
  int second = 0;  ///< VEX.vvvv of a product
  address memory;
};

decoded decode(std::uint8_t const* code);

}  // namespace sinter_test::amx
