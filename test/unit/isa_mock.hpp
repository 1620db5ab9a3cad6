// A CPU that says what a test wants: features by name, register state, palettes, caches, and the
// answer to the AMX request, which is counted. Bits are placed by the manual's numbers, written out
// here a second time.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include <sinter/isa/detect.hpp>

namespace sinter_test {

using sinter::cpuid_words;
using sinter::feature;
using sinter::features;
using sinter::isa;

/// Leaf, subleaf, register (0 EAX to 3 EDX) and bit, from the manual's CPUID tables.
struct cpuid_place {
  feature code;
  std::uint32_t leaf, subleaf;
  int word, bit;
};
inline constexpr cpuid_place cpuid_places[] = {
    {feature::avx, 1, 0, 2, 28},         {feature::f16c, 1, 0, 2, 29},
    {feature::fma, 1, 0, 2, 12},         {feature::avx2, 7, 0, 1, 5},
    {feature::bmi1, 7, 0, 1, 3},         {feature::bmi2, 7, 0, 1, 8},
    {feature::avx_vnni, 7, 1, 0, 4},     {feature::avx512f, 7, 0, 1, 16},
    {feature::avx512cd, 7, 0, 1, 28},    {feature::avx512bw, 7, 0, 1, 30},
    {feature::avx512dq, 7, 0, 1, 17},    {feature::avx512vl, 7, 0, 1, 31},
    {feature::avx512_vnni, 7, 0, 2, 11}, {feature::avx512_bf16, 7, 1, 0, 5},
    {feature::avx512_fp16, 7, 0, 3, 23}, {feature::amx_tile, 7, 0, 3, 24},
    {feature::amx_bf16, 7, 0, 3, 22},    {feature::amx_int8, 7, 0, 3, 25},
    {feature::amx_fp16, 7, 1, 0, 21},    {feature::avx10_2, 7, 1, 3, 19},
};
static_assert(sizeof(cpuid_places) / sizeof(cpuid_places[0]) == sinter::feature_count);

inline constexpr std::uint64_t all_state = 0x600e7;  // x87, SSE, AVX, AVX-512, TILECFG, TILEDATA
inline constexpr cpuid_words good_palette{8192 | (1024U << 16), 64 | (8U << 16), 16, 0};
inline constexpr cpuid_words good_tmul{0, 16 | (64U << 8), 0, 0};

struct mock_settings {
  features reported;
  std::uint64_t state = all_state;
  bool osxsave = true;
  std::uint32_t highest_leaf = 0x24;
  std::uint32_t highest_subleaf = 1;  ///< of leaf 7
  std::uint32_t palettes = 1;
  cpuid_words palette = good_palette;
  cpuid_words tmul = good_tmul;
  cpuid_words avx10{0, 2U | (7U << 16), 0, 0};
  std::array<cpuid_words, 4> caches4{};   ///< leaf 4
  std::array<cpuid_words, 4> caches1d{};  ///< leaf 8000001DH
  std::uint32_t signature = 0;
};

class mock_cpu final : public sinter::cpu_source {
 public:
  constexpr explicit mock_cpu(mock_settings const& s) : s_(s) {}

  constexpr cpuid_words cpuid(std::uint32_t leaf, std::uint32_t subleaf) const override {
    // As CPUs of one vendor do: beyond the highest basic leaf comes the data of the highest one.
    // Full of ones here.
    if (leaf < 0x80000000U && leaf > s_.highest_leaf) return {~0U, ~0U, ~0U, ~0U};
    std::array<std::uint32_t, 4> w{};
    for (cpuid_place const& place : cpuid_places)
      if (place.leaf == leaf && place.subleaf == subleaf && s_.reported.has(place.code))
        w[static_cast<std::size_t>(place.word)] |= 1U << place.bit;
    cpuid_words r{w[0], w[1], w[2], w[3]};
    if (leaf == 0) r = {s_.highest_leaf, 0x756e6547, 0x6c65746e, 0x49656e69};
    if (leaf == 1) r.eax = s_.signature;
    if (leaf == 1 && s_.osxsave) r.ecx |= 1U << 27;
    if (leaf == 4 && subleaf < 4) r = s_.caches4[subleaf];
    if (leaf == 7 && subleaf == 0) r.eax = s_.highest_subleaf;
    if (leaf == 7 && subleaf > s_.highest_subleaf) r = {~0U, ~0U, ~0U, ~0U};
    if (leaf == 0x1d && subleaf == 0) r.eax = s_.palettes;
    if (leaf == 0x1d && subleaf == 1) r = s_.palette;
    if (leaf == 0x1e) r = s_.tmul;
    if (leaf == 0x24) r = s_.avx10;
    if (leaf == 0x80000000U) r.eax = 0x8000001dU;
    if (leaf == 0x80000002U) r = {0x20202020, 0x6b636f4d, 0x55504320, 0};  // "    Mock CPU"
    if (leaf == 0x8000001dU && subleaf < 4) r = s_.caches1d[subleaf];
    return r;
  }
  /// XGETBV faults without OSXSAVE; reading it then is an error that the answer betrays.
  constexpr std::uint64_t xcr0() const override {
    return s_.osxsave ? s_.state : ~std::uint64_t{0};
  }
  constexpr int request_amx() const override { return 0; }

 private:
  mock_settings s_;
};

/// The same CPU under an operating system that answers the AMX request as told, and counts.
class mock_host final : public sinter::cpu_source {
 public:
  mock_host(mock_settings const& s, int answer) : cpu_(s), answer_(answer) {}
  cpuid_words cpuid(std::uint32_t leaf, std::uint32_t subleaf) const override {
    return cpu_.cpuid(leaf, subleaf);
  }
  std::uint64_t xcr0() const override { return cpu_.xcr0(); }
  int request_amx() const override {
    ++asked_;
    return answer_;
  }
  int asked() const { return asked_; }

 private:
  mock_cpu cpu_;
  int answer_;
  mutable std::atomic<int> asked_{0};
};

/// Reports everything that a level allows.
constexpr mock_settings mock_of(isa level) {
  mock_settings s;
  s.reported = sinter::allowed_under(level);
  return s;
}

}  // namespace sinter_test
