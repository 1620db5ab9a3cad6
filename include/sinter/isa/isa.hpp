// What a CPU can do, as plain values: features (a bit set), and the named ISA levels that kernels
// are written for.
//
// Two tables. feature_table says for each feature where CPUID reports it, which register state the
// operating system must save (XCR0) and which other features it stands on; isa/detect.hpp walks it.
// isa_table says what each level adds to the one below. Sets are ordered by inclusion: levels form
// a lattice and not a line, since avx10_2 holds no tiles. This header knows nothing of the machine
// it runs on. A new level starts here: docs/how_to_add_an_isa.md.
//
// Sources: Intel SDM volume 2A, CPUID (leaves 1, 7, 1DH, 1EH, 24H), volume 1 chapter 13 (XCR0).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

#include "../base/env.hpp"

namespace sinter::inline SINTER_ABI {

/// Named as Linux names them in /proc/cpuinfo (avx10_2 apart, which it does not list).
enum class feature : unsigned char {
  avx,
  f16c,
  fma,
  avx2,
  bmi1,
  bmi2,
  avx_vnni,
  avx512f,
  avx512cd,
  avx512bw,
  avx512dq,
  avx512vl,
  avx512_vnni,
  avx512_bf16,
  avx512_fp16,
  amx_tile,
  amx_bf16,
  amx_int8,
  amx_fp16,
  avx10_2,
  count_
};
inline constexpr int feature_count = static_cast<int>(feature::count_);

/// A set of features.
class features {
 public:
  constexpr features() = default;
  constexpr features(std::initializer_list<feature> list) {
    for (feature f : list) bits_ |= bit(f);
  }

  constexpr bool has(feature f) const noexcept { return (bits_ & bit(f)) != 0; }
  /// Every feature of `other` is here too.
  constexpr bool includes(features other) const noexcept { return (other.bits_ & ~bits_) == 0; }
  constexpr bool empty() const noexcept { return bits_ == 0; }
  constexpr std::uint32_t bits() const noexcept { return bits_; }

  friend constexpr features operator|(features a, features b) noexcept {
    return features(a.bits_ | b.bits_);
  }
  friend constexpr features operator&(features a, features b) noexcept {
    return features(a.bits_ & b.bits_);
  }
  friend constexpr features operator-(features a, features b) noexcept {
    return features(a.bits_ & ~b.bits_);
  }
  friend constexpr bool operator==(features, features) = default;

 private:
  static constexpr std::uint32_t bit(feature f) {
    return std::uint32_t{1} << static_cast<unsigned>(f);
  }
  constexpr explicit features(std::uint32_t bits) : bits_(bits) {}
  std::uint32_t bits_ = 0;
};
static_assert(feature_count <= 32);

/// The CPUID register that reports a feature: leaf, subleaf, register.
enum class cpuid_word : unsigned char {
  leaf1_ecx,
  leaf7_ebx,
  leaf7_ecx,
  leaf7_edx,
  leaf7_1_eax,
  leaf7_1_edx,
};

/// Parts of XCR0 that the operating system sets when it saves and restores those registers:
/// bits 1 and 2 (XMM, upper halves of YMM); and 5, 6, 7 (masks, upper halves of ZMM0-15, ZMM16-31);
/// 17 and 18 (TILECFG, TILEDATA).
inline constexpr std::uint64_t xcr0_avx = 0x6;
inline constexpr std::uint64_t xcr0_avx512 = 0xe6;
inline constexpr std::uint64_t xcr0_amx = 0x60000;

struct feature_row {
  feature code;
  std::string_view name;
  cpuid_word where;
  int bit;
  std::uint64_t xcr0;  ///< all of these bits are wanted
  features needs;      ///< believed only where these are; they stand above in the table
};

// clang-format off
inline constexpr auto feature_table = [] {
  using enum feature;
  using enum cpuid_word;
  return std::to_array<feature_row>({
    {avx,         "avx",         leaf1_ecx,   28, xcr0_avx,    {}},
    {f16c,        "f16c",        leaf1_ecx,   29, xcr0_avx,    {avx}},
    {fma,         "fma",         leaf1_ecx,   12, xcr0_avx,    {avx}},
    {avx2,        "avx2",        leaf7_ebx,    5, xcr0_avx,    {avx}},
    {bmi1,        "bmi1",        leaf7_ebx,    3, 0,           {}},
    {bmi2,        "bmi2",        leaf7_ebx,    8, 0,           {}},
    {avx_vnni,    "avx_vnni",    leaf7_1_eax,  4, xcr0_avx,    {avx2}},
    {avx512f,     "avx512f",     leaf7_ebx,   16, xcr0_avx512, {avx2}},
    {avx512cd,    "avx512cd",    leaf7_ebx,   28, xcr0_avx512, {avx512f}},
    {avx512bw,    "avx512bw",    leaf7_ebx,   30, xcr0_avx512, {avx512f}},
    {avx512dq,    "avx512dq",    leaf7_ebx,   17, xcr0_avx512, {avx512f}},
    {avx512vl,    "avx512vl",    leaf7_ebx,   31, xcr0_avx512, {avx512f}},
    {avx512_vnni, "avx512_vnni", leaf7_ecx,   11, xcr0_avx512, {avx512f}},
    {avx512_bf16, "avx512_bf16", leaf7_1_eax,  5, xcr0_avx512, {avx512f}},
    {avx512_fp16, "avx512_fp16", leaf7_edx,   23, xcr0_avx512, {avx512bw}},
    {amx_tile,    "amx_tile",    leaf7_edx,   24, xcr0_amx,    {}},
    {amx_bf16,    "amx_bf16",    leaf7_edx,   22, xcr0_amx,    {amx_tile}},
    {amx_int8,    "amx_int8",    leaf7_edx,   25, xcr0_amx,    {amx_tile}},
    {amx_fp16,    "amx_fp16",    leaf7_1_eax, 21, xcr0_amx,    {amx_tile}},
    {avx10_2,     "avx10_2",     leaf7_1_edx, 19, xcr0_avx512, {avx512f}},
  });
}();
// clang-format on
static_assert(feature_table.size() == feature_count);
static_assert([] {
  features above;
  int i = 0;
  for (feature_row const& row : feature_table) {
    if (static_cast<int>(row.code) != i++ || !above.includes(row.needs)) return false;
    above = above | features{row.code};
  }
  return true;
}());

constexpr feature_row const& row_of(feature f) {
  return feature_table[static_cast<std::size_t>(f)];
}
constexpr std::string_view name_of(feature f) { return row_of(f).name; }

/// "avx f16c fma": the names in the table's order, with a blank between; "none" for the empty set.
inline std::string names_of(features set) {
  std::string text;
  for (feature_row const& row : feature_table) {
    if (!set.has(row.code)) continue;
    if (!text.empty()) text += ' ';
    text += row.name;
  }
  return text.empty() ? "none" : text;
}

/// The levels that kernels are written for. `reference` is no vector code at all.
enum class isa : unsigned char {
  reference,
  avx2,
  avx512,
  avx512_bf16,
  amx,
  amx_fp16,
  avx10_2,
  count_
};
inline constexpr int isa_count = static_cast<int>(isa::count_);

struct isa_row {
  isa code;
  std::string_view name;  ///< also the word of SINTER_MAX_ISA
  isa base;               ///< the level that this one adds to
  features adds;          ///< wanted, beside what the base wants
  features may;           ///< not wanted, but a kernel of this level may look for it
  bool used;              ///< false: known by name, no kernel yet, refused with a sentence
};

// clang-format off
inline constexpr auto isa_table = [] {
  using enum feature;
  return std::to_array<isa_row>({
    {isa::reference,   "reference",   isa::reference,   {}, {}, true},
    {isa::avx2,        "avx2",        isa::reference,
     {avx, f16c, fma, avx2, bmi1, bmi2}, {avx_vnni}, true},
    {isa::avx512,      "avx512",      isa::avx2,
     {avx512f, avx512cd, avx512bw, avx512dq, avx512vl}, {avx512_vnni}, true},
    {isa::avx512_bf16, "avx512_bf16", isa::avx512,      {avx512_bf16}, {avx512_fp16}, true},
    {isa::amx,         "amx",         isa::avx512_bf16, {amx_tile, amx_bf16}, {amx_int8}, true},
    {isa::amx_fp16,    "amx_fp16",    isa::amx,         {amx_fp16}, {}, false},
    {isa::avx10_2,     "avx10_2",     isa::avx512_bf16, {avx10_2}, {}, false},
  });
}();
// clang-format on
static_assert(isa_table.size() == isa_count);
static_assert([] {
  int i = 0;
  for (isa_row const& row : isa_table) {
    if (static_cast<int>(row.code) != i || (i > 0 && static_cast<int>(row.base) >= i)) return false;
    ++i;
  }
  return true;
}());

constexpr isa_row const& row_of(isa level) { return isa_table[static_cast<std::size_t>(level)]; }
constexpr std::string_view name_of(isa level) { return row_of(level).name; }

/// What a CPU must have to be of this level.
constexpr features features_of(isa level) {
  features set;
  for (; level != isa::reference; level = row_of(level).base) set = set | row_of(level).adds;
  return set;
}
/// What kernels may use when this level is the highest allowed.
constexpr features allowed_under(isa level) {
  features set;
  for (; level != isa::reference; level = row_of(level).base)
    set = set | row_of(level).adds | row_of(level).may;
  return set;
}

/// A CPU of level a is of level b too.
constexpr bool includes(isa a, isa b) { return features_of(a).includes(features_of(b)); }
/// `found` without what is above `level`: it takes away and never adds.
constexpr features cap(features found, isa level) { return found & allowed_under(level); }
/// Kernels of this level run where these features are.
constexpr bool runs(features found, isa level) { return found.includes(features_of(level)); }
/// The highest level with kernels that runs.
constexpr isa best_isa(features found) {
  isa best = isa::reference;
  for (isa_row const& row : isa_table)
    if (row.used && runs(found, row.code)) best = row.code;
  return best;
}
/// Yes if kernels of this level exist and run where these features are, else no with a sentence.
inline verdict allows(features found, isa level) {
  std::string const name(name_of(level));
  if (!row_of(level).used)
    return verdict::no("sinter: " + name + " is known by name, but Sinter has no kernels for it");
  features const missing = features_of(level) - found;
  if (missing.empty()) return verdict::yes();
  return verdict::no("sinter: " + name + " wants " + names_of(missing) +
                     ", which this CPU lacks or SINTER_MAX_ISA forbids");
}
/// The level of that name, whether it has kernels or not.
constexpr std::optional<isa> isa_named(std::string_view name) {
  for (isa_row const& row : isa_table)
    if (row.name == name) return row.code;
  return std::nullopt;
}

// The words of SINTER_MAX_ISA are the names of the levels with kernels, in order, so that an index
// is a level.
static_assert([] {
  auto const& words = row_of(env::max_isa).words;
  int used = 0;
  for (isa_row const& row : isa_table) {
    if (!row.used) continue;
    if (used != static_cast<int>(row.code) || used >= words.ssize() || words[used] != row.name)
      return false;
    ++used;
  }
  return used == words.ssize();
}());

/// SINTER_MAX_ISA; nothing where it is not set. A word that is no level is code::bad_environment.
inline result<std::optional<isa>> max_isa() {
  auto chosen = env_choice(env::max_isa);
  if (!chosen) return chosen.error();
  if (!*chosen) return std::optional<isa>{};
  return std::optional<isa>(static_cast<isa>(**chosen));
}

}  // namespace sinter::inline SINTER_ABI
