// The decoder alone: every instruction, register and form of address as Xbyak writes them, every
// reserved bit, and no byte read too much.
#include <string>

#include "emitted_code.hpp"
#include "support/guard_buffer.hpp"

using namespace sinter_test;
using namespace sinter_test::amx;

namespace {

/// Decodes with the last byte at a guard page.
decoded decode_at_page_end(std::vector<std::uint8_t> const& bytes) {
  guard_buffer memory(bytes.size(), placement::end);
  std::memcpy(memory.data(), bytes.data(), bytes.size());
  return decode(reinterpret_cast<std::uint8_t const*>(memory.data()));
}
template <class F>
decoded decode_emitted(F&& emit) {
  auto const bytes = bytes_of(emit);
  decoded const d = decode_at_page_end(bytes);
  CHECK(d.length == static_cast<int>(bytes.size()));
  return d;
}

using product_emitter = void (*)(assembler&, xb::Tmm, xb::Tmm, xb::Tmm);
struct product_case {
  instruction code;
  product_emitter emit;
};
constexpr product_case product_cases[] = {
    {instruction::tdpbf16ps,
     [](assembler& a, xb::Tmm x, xb::Tmm y, xb::Tmm z) { a.tdpbf16ps(x, y, z); }},
    {instruction::tdpbssd,
     [](assembler& a, xb::Tmm x, xb::Tmm y, xb::Tmm z) { a.tdpbssd(x, y, z); }},
    {instruction::tdpbsud,
     [](assembler& a, xb::Tmm x, xb::Tmm y, xb::Tmm z) { a.tdpbsud(x, y, z); }},
    {instruction::tdpbusd,
     [](assembler& a, xb::Tmm x, xb::Tmm y, xb::Tmm z) { a.tdpbusd(x, y, z); }},
    {instruction::tdpbuud,
     [](assembler& a, xb::Tmm x, xb::Tmm y, xb::Tmm z) { a.tdpbuud(x, y, z); }},
};

using move_emitter = void (*)(assembler&, xb::Tmm, xb::Address const&);
struct move_case {
  instruction code;
  move_emitter emit;
};
constexpr move_case move_cases[] = {
    {instruction::tileloadd,
     [](assembler& a, xb::Tmm t, xb::Address const& m) { a.tileloadd(t, m); }},
    {instruction::tileloaddt1,
     [](assembler& a, xb::Tmm t, xb::Address const& m) { a.tileloaddt1(t, m); }},
    {instruction::tilestored,
     [](assembler& a, xb::Tmm t, xb::Address const& m) { a.tilestored(m, t); }},
};

constexpr int displacements[] = {0, 1, -1, 127, -128, 128, -129, 0x12345678, -0x12345678};
constexpr int rsp = 4;  // as an index: none

bool is(address const& a, int base, int index, int scale, int displacement) {
  return a.base == base && a.index == index && (index < 0 || a.scale == scale) &&
         a.displacement == displacement && !a.next;
}

fault_kind kind_of(std::vector<std::uint8_t> const& bytes) { return decode(bytes.data()).fault; }

}  // namespace

TEST_CASE("products: all registers of all five") {
  for (product_case const& c : product_cases)
    for (int i = 0; i < 512; ++i) {
      int const to = i & 7, first = (i >> 3) & 7, second = i >> 6;
      decoded const d =
          decode_emitted([&](assembler& a) { c.emit(a, tmm(to), tmm(first), tmm(second)); });
      CHECK(d.is_amx);
      CHECK(d.fault == fault_kind::none);
      CHECK(d.what == c.code);
      CHECK(d.tile == to);
      CHECK(d.first == first);
      CHECK(d.second == second);
    }
}

TEST_CASE("tilezero of each tile, tilerelease") {
  for (int t = 0; t < tile_count; ++t) {
    decoded const d = decode_emitted([&](assembler& a) { a.tilezero(tmm(t)); });
    CHECK(d.what == instruction::tilezero);
    CHECK(d.fault == fault_kind::none);
    CHECK(d.tile == t);
  }
  decoded const d = decode_emitted([](assembler& a) { a.tilerelease(); });
  CHECK(d.what == instruction::tilerelease);
  CHECK(d.fault == fault_kind::none);
}

TEST_CASE("tile moves: every base, index, scale and size of displacement") {
  int tile = 0;
  for (move_case const& c : move_cases)
    for (int base = 0; base < 16; ++base)
      for (int index = 0; index < 16; ++index)
        for (int displacement : displacements) {
          if (index == rsp) continue;
          int const scale = (base + index + tile) % 4;
          tile = (tile + 1) % tile_count;
          decoded const d = decode_emitted([&](assembler& a) {
            c.emit(a, tmm(tile),
                   a.ptr[reg(base) + reg(index) * (1 << scale) +
                         static_cast<std::size_t>(displacement)]);
          });
          CHECK(d.what == c.code);
          CHECK(d.fault == fault_kind::none);
          CHECK(d.tile == tile);
          CHECK(is(d.memory, base, index, scale, displacement));
        }
}

TEST_CASE("tile moves without an index, and without a base") {
  // Xbyak refuses the loads and writes the stores without SIB, so these are bytes.
  for (std::uint8_t vex : std::vector<std::uint8_t>{0x7b, 0x79, 0x7a})
    for (std::uint8_t base = 0; base < 16; ++base) {
      auto const low = static_cast<std::uint8_t>(base & 7);
      auto const rxb = static_cast<std::uint8_t>(base < 8 ? 0xe2 : 0xc2);
      auto const sib = static_cast<std::uint8_t>(0xe0 | low);  // scale 8, index 4: none
      decoded d = decode_at_page_end({0xc4, rxb, vex, 0x4b, 0x9c, sib, 0x78, 0x56, 0x34, 0x12});
      CHECK(d.fault == fault_kind::none);
      CHECK(d.length == 10);
      CHECK(d.tile == 3);
      CHECK(is(d.memory, base, -1, 0, 0x12345678));
      d = decode_at_page_end({0xc4, rxb, vex, 0x4b, 0x6c, sib, 0x80});
      CHECK(d.length == 7);
      CHECK(d.tile == 5);
      CHECK(is(d.memory, base, -1, 0, -128));
      if (low == 5) continue;
      d = decode_at_page_end({0xc4, rxb, vex, 0x4b, 0x04, sib});
      CHECK(d.length == 6);
      CHECK(is(d.memory, base, -1, 0, 0));
      // VEX.X extends the 4 to 12, which is an index.
      d = decode_at_page_end({0xc4, static_cast<std::uint8_t>(rxb & 0xbf), vex, 0x4b, 0x04, sib});
      CHECK(is(d.memory, base, 12, 3, 0));
    }
  // Base 5 in a form without displacement: no base, and 32 bits of displacement.
  for (std::uint8_t rxb : std::vector<std::uint8_t>{0xe2, 0xc2}) {
    decoded const d = decode_at_page_end({0xc4, rxb, 0x7b, 0x4b, 0x04, 0xcd, 0, 0x10, 0, 0});
    CHECK(d.fault == fault_kind::none);
    CHECK(d.length == 10);
    CHECK(is(d.memory, -1, 1, 3, 0x1000));
  }
}

TEST_CASE("configurations: every base with and without an index, absolute, relative to rip") {
  for (bool load : {true, false}) {
    auto const emit = [&](assembler& a, xb::Address const& m) {
      if (load)
        a.ldtilecfg(m);
      else
        a.sttilecfg(m);
    };
    instruction const wanted = load ? instruction::ldtilecfg : instruction::sttilecfg;
    for (int base = 0; base < 16; ++base)
      for (int displacement : displacements) {
        auto const offset = static_cast<std::size_t>(displacement);
        decoded d = decode_emitted([&](assembler& a) { emit(a, a.ptr[reg(base) + offset]); });
        CHECK(d.what == wanted);
        CHECK(d.fault == fault_kind::none);
        CHECK(is(d.memory, base, -1, 0, displacement));
        d = decode_emitted([&](assembler& a) { emit(a, a.ptr[reg(base) + reg(12) * 4 + offset]); });
        CHECK(d.fault == fault_kind::none);
        CHECK(is(d.memory, base, 12, 2, displacement));
      }
    decoded d =
        decode_emitted([&](assembler& a) { emit(a, a.ptr[reinterpret_cast<void*>(0x1234)]); });
    CHECK(d.what == wanted);
    CHECK(is(d.memory, -1, -1, 0, 0x1234));
    d = decode_emitted([&](assembler& a) { emit(a, a.ptr[a.rip + 0x40]); });
    CHECK(d.what == wanted);
    CHECK(d.fault == fault_kind::none);
    CHECK(d.memory.next);
    CHECK(d.memory.base == -1);
    CHECK(d.memory.displacement == 0x40);
  }
}

TEST_CASE("each reserved bit is #UD") {
  struct reserved {
    std::vector<std::uint8_t> bytes;
    char const* reason;
  };
  // From the manual's encodings: C4, RXB mmmmm (stored inverted), W vvvv L pp, opcode, ModRM.
  reserved const cases[] = {
      {{0xc4, 0xe2, 0xfb, 0x49, 0xc0}, "VEX.W is 1"},  // tilezero tmm0 with W = 1
      {{0xc4, 0xe2, 0x7f, 0x49, 0xc0}, "VEX.L is 1"},
      {{0xc4, 0xe2, 0x73, 0x49, 0xc0}, "VEX.vvvv is not 1111b"},
      {{0xc4, 0x62, 0x7b, 0x49, 0xc0}, "a tile beyond tmm7"},
      {{0xc4, 0xe2, 0x7b, 0x49, 0xc1}, "ModRM.rm, VEX.B or VEX.X is not 0"},
      {{0xc4, 0xc2, 0x7b, 0x49, 0xc0}, "ModRM.rm, VEX.B or VEX.X is not 0"},
      {{0xc4, 0xa2, 0x7b, 0x49, 0xc0}, "ModRM.rm, VEX.B or VEX.X is not 0"},
      {{0xc4, 0xe2, 0x78, 0x49, 0xc8}, "ModRM.reg or VEX.R is not 0"},  // tilerelease
      {{0xc4, 0xe2, 0x78, 0x49, 0xc1}, "ModRM.rm, VEX.B or VEX.X is not 0"},
      {{0xc4, 0xe2, 0x70, 0x49, 0xc0}, "VEX.vvvv is not 1111b"},
      {{0xc4, 0xe2, 0x78, 0x49, 0x08}, "ModRM.reg or VEX.R is not 0"},  // ldtilecfg [rax]
      {{0xc4, 0x62, 0x78, 0x49, 0x00}, "ModRM.reg or VEX.R is not 0"},
      {{0xc4, 0xe2, 0x38, 0x49, 0x00}, "VEX.vvvv is not 1111b"},
      {{0xc4, 0xe2, 0xf9, 0x49, 0x00}, "VEX.W is 1"},                           // sttilecfg
      {{0xc4, 0xe2, 0x7b, 0x4b, 0x00}, "a tile's memory operand without SIB"},  // [rax]
      {{0xc4, 0xe2, 0x7b, 0x4b, 0x05, 0, 0, 0, 0}, "a tile's memory operand without SIB"},  // [rip]
      {{0xc4, 0x62, 0x7b, 0x4b, 0x04, 0x08}, "a tile beyond tmm7"},
      {{0xc4, 0xe2, 0x7f, 0x4b, 0x04, 0x08}, "VEX.L is 1"},
      {{0xc4, 0xe2, 0x6b, 0x4b, 0x04, 0x08}, "VEX.vvvv is not 1111b"},
      {{0xc4, 0xe2, 0xea, 0x5c, 0xc1}, "VEX.W is 1"},  // tdpbf16ps tmm0, tmm1, tmm2
      {{0xc4, 0xe2, 0x6e, 0x5c, 0xc1}, "VEX.L is 1"},
      {{0xc4, 0x62, 0x6a, 0x5c, 0xc1}, "a tile beyond tmm7"},
      {{0xc4, 0xc2, 0x6a, 0x5c, 0xc1}, "a tile beyond tmm7"},
      {{0xc4, 0xe2, 0x2a, 0x5c, 0xc1}, "a tile beyond tmm7"},
      {{0xc4, 0xa2, 0x6a, 0x5c, 0xc1}, "VEX.X is not 0"},
  };
  for (reserved const& c : cases) {
    decoded const d = decode_at_page_end(c.bytes);
    CAPTURE(c.reason);
    CHECK(d.is_amx);
    CHECK(d.fault == fault_kind::undefined);
    CHECK(std::string(d.reason) == c.reason);
  }
  // Xbyak writes a ninth tile without complaint.
  CHECK(kind_of(bytes_of([](assembler& a) { a.tilezero(tmm(8)); })) == fault_kind::undefined);
  CHECK(kind_of(bytes_of([](assembler& a) { a.tdpbssd(tmm(0), tmm(9), tmm(2)); })) ==
        fault_kind::undefined);
}

TEST_CASE("opcodes of AMX with another prefix or form are #UD, and named as none of the twelve") {
  for (std::vector<std::uint8_t> const& bytes : std::vector<std::vector<std::uint8_t>>{
           {0xc4, 0xe2, 0x6b, 0x5c, 0xc1},        // TDPFP16PS: AMX-FP16
           {0xc4, 0xe2, 0x69, 0x5c, 0xc1},        // 5C with 66
           {0xc4, 0xe2, 0x6a, 0x5c, 0x04, 0x08},  // TDPBF16PS with memory
           {0xc4, 0xe2, 0x7b, 0x4b, 0xc0},        // TILELOADD with a register
           {0xc4, 0xe2, 0x78, 0x4b, 0x04, 0x08},  // 4B without prefix
           {0xc4, 0xe2, 0x7a, 0x49, 0x00}}) {     // 49 with F3
    decoded const d = decode_at_page_end(bytes);
    CHECK(d.is_amx);
    CHECK(d.fault == fault_kind::undefined);
    CHECK(name_of(d.what) == "an AMX opcode");
  }
}

TEST_CASE("prefixes before VEX: forbidden ones are #UD, the others are refused") {
  std::vector<std::uint8_t> const plain = {0xc4, 0xe2, 0x7b, 0x4b, 0x04, 0x08};
  auto const with = [&](std::vector<std::uint8_t> bytes) {
    bytes.insert(bytes.end(), plain.begin(), plain.end());
    return decode_at_page_end(bytes);
  };
  for (std::uint8_t p : std::vector<std::uint8_t>{0xf0, 0x66, 0xf2, 0xf3, 0x40, 0x48, 0x4f}) {
    CHECK(with({p}).fault == fault_kind::undefined);
    CHECK(with({0x64, p}).fault == fault_kind::undefined);
    CHECK(with({p, 0x64}).fault == fault_kind::undefined);
  }
  for (std::uint8_t p : std::vector<std::uint8_t>{0x2e, 0x36, 0x3e, 0x26, 0x64, 0x65, 0x67}) {
    decoded const d = with({p});
    CHECK(d.fault == fault_kind::refused);
    CHECK(d.what == instruction::tileloadd);
    CHECK(d.length == 7);
  }
}

TEST_CASE("what is not AMX is left alone") {
  for (std::vector<std::uint8_t> const& bytes : std::vector<std::vector<std::uint8_t>>{
           {0x0f, 0x0b},                 // ud2
           {0xc3},                       // ret
           {0x66, 0x0f, 0x0b},           // 66 ud2
           {0xc5, 0xf8, 0x77},           // vzeroupper: VEX of two bytes
           {0xc5, 0xfa, 0x49},           // two bytes cannot name the map 0F38
           {0xc4, 0xe1, 0x7b, 0x49},     // another map
           {0xc4, 0xe3, 0x7b, 0x4b},     // another map
           {0xc4, 0xe2, 0x7d, 0x18}}) {  // vbroadcastss
    decoded const d = decode_at_page_end(bytes);
    CHECK(!d.is_amx);
    CHECK(d.fault == fault_kind::none);
  }
}
