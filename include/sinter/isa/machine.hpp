// The machine as benchmarks and the demo print it and as blocking reads it: brand, model,
// processors, cache sizes.
//
// describe() is a pure function of a cpu_source but for what only the operating system knows
// (processors; caches where CPUID hides them, as some virtual machines do). Where nobody tells the
// cache sizes, small ones are assumed, and the report says so. Text and sizes are for people and
// for heuristics: no kernel is right or wrong by them.
//
// Sources: Intel SDM volume 2A, CPUID leaves 0, 1, 4, 80000002H-4H; AMD APM volume 3, leaf
// 8000001DH.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <initializer_list>
#include <string>
#include <vector>

#include "detect.hpp"

namespace sinter::inline SINTER_ABI {

/// Data and unified caches; bytes. `sharing`: logical processors that share the last level, 0 where
/// it is not known.
struct cache_sizes {
  std::int64_t l1d = 0, l2 = 0, l3 = 0;
  int l3_sharing = 0;
  friend constexpr bool operator==(cache_sizes const&, cache_sizes const&) = default;
};

/// Assumed where neither CPUID nor the operating system tells: no x86-64 CPU with AVX2 has less. No
/// L3.
inline constexpr cache_sizes assumed_caches{32 * 1024, 256 * 1024, 0, 0};

struct machine {
  std::string vendor;  ///< "GenuineIntel"; empty where CPUID is not there
  std::string brand;
  int family = 0, model = 0, stepping = 0;
  int logical = 1;   ///< processors that this process may run on
  int physical = 1;  ///< cores that these belong to
  cache_sizes caches;
  bool caches_assumed = false;
  sinter::features features;  ///< believed in, not capped
};

namespace detail {

inline std::string ascii_of(std::initializer_list<std::uint32_t> words) {
  std::string text;
  for (std::uint32_t word : words)
    for (int i = 0; i < 4; ++i)
      if (char const c = static_cast<char>((word >> (8 * i)) & 0xffU); c != '\0') text += c;
  return text;
}

inline std::string brand_of(cpu_source const& cpu) {
  std::string brand;
  for (std::uint32_t leaf = 0x80000002U; leaf <= 0x80000004U; ++leaf) {
    cpuid_words const w = cpuid_or_zero(cpu, leaf);
    brand += ascii_of({w.eax, w.ebx, w.ecx, w.edx});
  }
  auto const first = brand.find_first_not_of(' ');
  if (first == std::string::npos) return "unknown CPU";
  return brand.substr(first, brand.find_last_not_of(' ') - first + 1);
}

inline void read_signature(cpu_source const& cpu, machine& m) {
  std::uint32_t const eax = cpuid_or_zero(cpu, 1).eax;
  auto const field = [eax](int shift, std::uint32_t mask) {
    return static_cast<int>((eax >> shift) & mask);
  };
  m.stepping = field(0, 15);
  m.model = field(4, 15);
  m.family = field(8, 15);
  if (m.family == 6 || m.family == 15) m.model += field(16, 15) << 4;
  if (m.family == 15) m.family += field(20, 255);
}

constexpr void put_cache(cache_sizes& sizes, int level, std::int64_t bytes, int sharing) {
  if (level == 1) sizes.l1d = bytes;
  if (level == 2) sizes.l2 = bytes;
  if (level == 3) {
    sizes.l3 = bytes;
    sizes.l3_sharing = sharing;
  }
}

/// "0-3,8": the number of processors in a list as Linux writes it.
inline int count_list(std::string const& list) {
  int count = 0;
  for (std::size_t at = 0; at < list.size();) {
    std::size_t const comma = (std::min)(list.find(',', at), list.size());
    std::string const range = list.substr(at, comma - at);
    std::size_t const dash = range.find('-');
    if (dash == std::string::npos)
      count += range.empty() ? 0 : 1;
    else
      count += std::atoi(range.c_str() + dash + 1) - std::atoi(range.c_str()) + 1;
    at = comma + 1;
  }
  return count;
}

inline cache_sizes caches_listed_by_linux() {
  cache_sizes sizes;
  for (int i = 0; i < 8; ++i) {
    std::string const folder = "/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(i) + "/";
    std::string const type = first_line(folder + "type");
    if (type != "Data" && type != "Unified") continue;
    std::int64_t const kib = std::atoll(first_line(folder + "size").c_str());  // "1024K"
    put_cache(sizes, std::atoi(first_line(folder + "level").c_str()), kib * 1024,
              count_list(first_line(folder + "shared_cpu_list")));
  }
  return sizes;
}

/// Distinct cores among these processors; their number where the kernel does not list cores.
inline int count_cores(std::vector<int> const& processors) {
  std::vector<std::string> cores;
  for (int p : processors) {
    std::string core = first_line("/sys/devices/system/cpu/cpu" + std::to_string(p) +
                                  "/topology/thread_siblings_list");
    if (core.empty()) core = "processor " + std::to_string(p);
    cores.push_back(std::move(core));
  }
  std::sort(cores.begin(), cores.end());
  return static_cast<int>(std::unique(cores.begin(), cores.end()) - cores.begin());
}

}  // namespace detail

/// The caches that CPUID lists: leaf 4 on Intel, 8000001DH on AMD. 0 where it lists none.
constexpr cache_sizes caches_of(cpu_source const& cpu) {
  for (std::uint32_t const leaf : {std::uint32_t{4}, std::uint32_t{0x8000001dU}}) {
    cache_sizes sizes;
    for (std::uint32_t i = 0; i < 16; ++i) {
      cpuid_words const w = cpuid_or_zero(cpu, leaf, i);
      std::uint32_t const type = w.eax & 31U;  // 0 none, 1 data, 2 instruction, 3 unified
      if (type == 0) break;
      if (type == 2) continue;
      std::int64_t const line = (w.ebx & 0xfffU) + 1;
      std::int64_t const partitions = ((w.ebx >> 12) & 0x3ffU) + 1;
      std::int64_t const ways = (w.ebx >> 22) + 1;
      std::int64_t const sets = std::int64_t{w.ecx} + 1;
      detail::put_cache(sizes, static_cast<int>((w.eax >> 5) & 7U), line * partitions * ways * sets,
                        static_cast<int>((w.eax >> 14) & 0xfffU) + 1);
    }
    if (sizes.l1d > 0 && sizes.l2 > 0) return sizes;
  }
  return {};
}

/// What this CPU says of itself; processors, and caches that CPUID hides, are those of the machine
/// we run on.
inline machine describe(cpu_source const& cpu) {
  machine m;
  cpuid_words const id = cpuid_or_zero(cpu, 0);
  m.vendor = detail::ascii_of({id.ebx, id.edx, id.ecx});
  m.brand = detail::brand_of(cpu);
  detail::read_signature(cpu, m);
  m.features = detect(cpu);
  m.caches = caches_of(cpu);
  if (m.caches.l2 == 0) m.caches = detail::caches_listed_by_linux();
  if (m.caches.l1d == 0 || m.caches.l2 == 0) {
    m.caches = assumed_caches;
    m.caches_assumed = true;
  }
  std::vector<int> const processors = permitted_processors();
  if (!processors.empty()) {
    m.logical = static_cast<int>(processors.size());
    m.physical = detail::count_cores(processors);
  }
  return m;
}

/// The real machine, read once. Blocking reads its caches: L1d and L2 are above 0, L3 may be 0.
inline machine const& this_machine() {
  static machine const m = describe(host_cpu());
  return m;
}

/// "32 KiB", "1.5 MiB", "none".
inline std::string bytes_text(std::int64_t bytes) {
  if (bytes <= 0) return "none";
  if (bytes % (1024 * 1024) == 0) return std::to_string(bytes / (1024 * 1024)) + " MiB";
  if (bytes >= 1024 * 1024 && bytes % (512 * 1024) == 0)
    return std::to_string(bytes / (1024 * 1024)) + ".5 MiB";
  return std::to_string(bytes / 1024) + " KiB";
}

/// Five lines for people: CPU, cores, caches, features, and the level that kernels are chosen for
/// now.
inline std::string machine_report(machine const& m = this_machine()) {
  std::string text = "CPU       " + m.brand;
  if (!m.vendor.empty())
    text += " (" + m.vendor + ", family " + std::to_string(m.family) + ", model " +
            std::to_string(m.model) + ", stepping " + std::to_string(m.stepping) + ")";
  text += "\ncores     " + std::to_string(m.physical) + " physical, " + std::to_string(m.logical) +
          " logical for this process";
  text += "\ncaches    L1d " + bytes_text(m.caches.l1d) + ", L2 " + bytes_text(m.caches.l2) +
          ", L3 " + bytes_text(m.caches.l3);
  if (m.caches.l3_sharing > 0) text += " for " + std::to_string(m.caches.l3_sharing) + " logical";
  if (m.caches_assumed) text += " (assumed: neither CPUID nor the system tells)";
  text += "\nfeatures  " + names_of(m.features);
  text += "\nISA       ";
  if (auto const highest = max_isa(); !highest)
    text += highest.error().message;
  else if (*highest)
    text += std::string(name_of(best_isa(cap(m.features, **highest)))) + " (SINTER_MAX_ISA is " +
            std::string(name_of(**highest)) + ")";
  else
    text += std::string(name_of(best_isa(m.features)));
  return text + "\n";
}

}  // namespace sinter::inline SINTER_ABI
