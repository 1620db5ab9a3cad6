// Which features to believe in: CPUID, XCR0 and, for AMX, the tile palette must all agree. And,
// apart from that and later, whether the operating system permits AMX.
//
// examine() and detect() are pure functions of a cpu_source. current_isa() is what this process may
// use: detected once (CPUID traps in a virtual machine), capped by SINTER_MAX_ISA each time.
// Neither asks for the AMX permission, which changes the process (its signal frames grow):
// amx_permission() asks, once, when the first AMX plan is made. On Linux the permission is the
// whole process's, survives fork and ends with exec, and so does what is remembered here. Read
// next: isa/machine.hpp.
#pragma once

#include <cerrno>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "host.hpp"
#include "isa.hpp"

namespace sinter::inline SINTER_ABI {

/// Why a feature is not believed.
enum class doubt : unsigned char { none, cpuid, xcr0, prerequisite, palette, tmul, avx10_version };

namespace detail {

/// Everything that detection reads, each leaf once.
struct cpu_facts {
  cpuid_words leaf1, leaf7, leaf7_1;
  cpuid_words palettes, palette1, tmul;  ///< leaves 1DH.0, 1DH.1, 1EH.0
  cpuid_words avx10;                     ///< leaf 24H.0
  std::uint64_t xcr0 = 0;

  constexpr std::uint32_t word(cpuid_word which) const {
    switch (which) {
      case cpuid_word::leaf1_ecx:
        return leaf1.ecx;
      case cpuid_word::leaf7_ebx:
        return leaf7.ebx;
      case cpuid_word::leaf7_ecx:
        return leaf7.ecx;
      case cpuid_word::leaf7_edx:
        return leaf7.edx;
      case cpuid_word::leaf7_1_eax:
        return leaf7_1.eax;
      case cpuid_word::leaf7_1_edx:
        return leaf7_1.edx;
    }
    return 0;
  }
};

constexpr cpu_facts read_facts(cpu_source const& cpu) {
  cpu_facts f;
  f.leaf1 = cpuid_or_zero(cpu, 1);
  f.leaf7 = cpuid_or_zero(cpu, 7);
  if (f.leaf7.eax >= 1) f.leaf7_1 = cpuid_or_zero(cpu, 7, 1);
  f.palettes = cpuid_or_zero(cpu, 0x1d);
  if (f.palettes.eax >= 1) f.palette1 = cpuid_or_zero(cpu, 0x1d, 1);
  f.tmul = cpuid_or_zero(cpu, 0x1e);
  f.avx10 = cpuid_or_zero(cpu, 0x24);
  bool const osxsave = ((f.leaf1.ecx >> 27) & 1U) != 0;
  if (osxsave) f.xcr0 = cpu.xcr0();
  return f;
}

/// Palette 1 as the tile kernels take it: 8 tiles of 16 rows of 64 bytes. Virtual machines were
/// seen that report AMX in leaf 7 and in XCR0 and have zeros here: their first tile instruction
/// faults.
constexpr bool palette_is_sane(cpu_facts const& f) {
  std::uint32_t const total_bytes = f.palette1.eax & 0xffffU;
  std::uint32_t const tile_bytes = f.palette1.eax >> 16;
  std::uint32_t const row_bytes = f.palette1.ebx & 0xffffU;
  std::uint32_t const tiles = f.palette1.ebx >> 16;
  std::uint32_t const rows = f.palette1.ecx & 0xffffU;
  return total_bytes == 8192 && tile_bytes == 1024 && row_bytes == 64 && tiles == 8 && rows == 16;
}
/// The multiplier takes whole tiles: K of 16 dwords, N of 64 bytes.
constexpr bool tmul_is_sane(cpu_facts const& f) {
  return (f.tmul.ebx & 0xffU) == 16 && ((f.tmul.ebx >> 8) & 0xffffU) == 64;
}

constexpr doubt examine(cpu_facts const& facts, features believed, feature_row const& row) {
  if (((facts.word(row.where) >> row.bit) & 1U) == 0) return doubt::cpuid;
  if ((facts.xcr0 & row.xcr0) != row.xcr0) return doubt::xcr0;
  if (!believed.includes(row.needs)) return doubt::prerequisite;
  if (row.code == feature::amx_tile && !palette_is_sane(facts)) return doubt::palette;
  if (row.code == feature::amx_tile && !tmul_is_sane(facts)) return doubt::tmul;
  // Leaf 7.1 reports some version of AVX10; leaf 24H says which, and in bit 18 of EBX that it has
  // 512-bit vectors.
  if (row.code == feature::avx10_2 &&
      ((facts.avx10.ebx & 0xffU) < 2 || ((facts.avx10.ebx >> 18) & 1U) == 0))
    return doubt::avx10_version;
  return doubt::none;
}

constexpr features believed_in(cpu_facts const& facts) {
  features found;
  for (feature_row const& row : feature_table)
    if (examine(facts, found, row) == doubt::none) found = found | features{row.code};
  return found;
}

}  // namespace detail

/// The features to believe in on this CPU.
constexpr features detect(cpu_source const& cpu) {
  return detail::believed_in(detail::read_facts(cpu));
}

/// Why this feature is not believed on this CPU, or doubt::none.
constexpr doubt examine(cpu_source const& cpu, feature f) {
  detail::cpu_facts const facts = detail::read_facts(cpu);
  return detail::examine(facts, detail::believed_in(facts), row_of(f));
}

/// Yes if the feature is believed on this CPU, else no with the first thing that speaks against it.
inline verdict believe(cpu_source const& cpu, feature f) {
  std::string const no = "sinter: " + std::string(name_of(f)) + " is not used: ";
  switch (examine(cpu, f)) {
    case doubt::none:
      return verdict::yes();
    case doubt::cpuid:
      return verdict::no(no + "CPUID does not report it");
    case doubt::xcr0:
      return verdict::no(
          no + "CPUID reports it, but the operating system does not save its registers (XCR0)");
    case doubt::prerequisite:
      return verdict::no(no + "CPUID reports it, but not all that it stands on (" +
                         names_of(row_of(f).needs) + ")");
    case doubt::palette:
      return verdict::no(
          no + "CPUID reports it, but in leaf 1DH no palette of 8 tiles of 16 rows of 64 bytes");
    case doubt::tmul:
      return verdict::no(no +
                         "CPUID reports it, but in leaf 1EH no multiplier of K = 16 and N = 64");
    case doubt::avx10_version:
      return verdict::no(
          no + "CPUID reports AVX10, but in leaf 24H a version below 2 or no 512-bit vectors");
  }
  return verdict::yes();
}

/// What an errno of the AMX permission means.
struct amx_refusal {
  int error;
  std::string_view sentence;
};
inline constexpr amx_refusal amx_refusals[] = {
    {EINVAL, "the kernel does not know the request (Linux 5.16 or newer is wanted)"},
    {EOPNOTSUPP, "the kernel has tile data switched off"},
    {EPERM,
     "this process is not permitted to (a seccomp filter, a sandbox or an enclave forbids it)"},
    {ENOSPC,
     "a sigaltstack of this process is too small for a signal frame with tile data; wanted are "
     "getauxval(AT_MINSIGSTKSZ) bytes and what the handler needs"},
    {ENOSYS, "this operating system has no such request"},
};

/// What an answer to that request means: 0 is yes, an errno is no with a sentence.
inline verdict amx_answer(int error) {
  if (error == 0) return verdict::yes();
  std::string const no = "sinter: amx is not used: ";
  for (amx_refusal const& row : amx_refusals)
    if (row.error == error) return verdict::no(no + std::string(row.sentence));
  return verdict::no(no + "the request for tile data failed with errno " + std::to_string(error));
}

namespace detail {

/// What this process knows of its CPU. Constant-initialised: ready before any dynamic initialiser
/// runs.
struct process_cpu {
  std::mutex guard;
  cpu_source const* source = &host_cpu_instance;
  std::optional<features> found;
  std::optional<int> amx_error;  ///< the answer, once asked

  cpu_source const& exchange(cpu_source const& next) {
    std::lock_guard const lock(guard);
    cpu_source const& before = *source;
    source = &next;
    found.reset();
    amx_error.reset();
    return before;
  }
};
inline constinit process_cpu this_process{};

}  // namespace detail

/// Puts another CPU in the place of the real one, for the whole process and as long as it lives:
/// for tests and emulators. What is compiled meanwhile is for that CPU. Not to be used while
/// another thread compiles.
class cpu_override {
 public:
  explicit cpu_override(cpu_source const& cpu) : before_(detail::this_process.exchange(cpu)) {}
  cpu_override(cpu_override const&) = delete;
  cpu_override& operator=(cpu_override const&) = delete;
  ~cpu_override() { detail::this_process.exchange(before_); }

 private:
  cpu_source const& before_;
};

/// The CPU that detection looks at: the real one, or that of a cpu_override.
inline cpu_source const& current_cpu() {
  std::lock_guard const lock(detail::this_process.guard);
  return *detail::this_process.source;
}

/// The features of the CPU that this process runs on, whatever SINTER_MAX_ISA says.
inline features detected_isa() {
  detail::process_cpu& process = detail::this_process;
  std::lock_guard const lock(process.guard);
  if (!process.found) process.found = detect(*process.source);
  return *process.found;
}

/// The features that this process may use: detected, capped by SINTER_MAX_ISA as it is set now.
/// Tiles among them still want amx_permission().
inline result<features> current_isa() {
  auto const highest = max_isa();
  if (!highest) return highest.error();
  features const found = detected_isa();
  return *highest ? cap(found, **highest) : found;
}

/// The same with a cap of the program's own, which counts in the place of SINTER_MAX_ISA where it
/// is given.
inline result<features> current_isa(std::optional<isa> own_cap) {
  if (!own_cap) return current_isa();
  return cap(detected_isa(), *own_cap);
}

/// Whether this process may use AMX tiles. The operating system is asked at the first call on a CPU
/// whose tiles are believed in; its answer is kept. Call it when an AMX kernel is to be built, and
/// never earlier.
inline verdict amx_permission() {
  detail::process_cpu& process = detail::this_process;
  std::lock_guard const lock(process.guard);
  if (verdict tiles = believe(*process.source, feature::amx_tile); !tiles) return tiles;
  if (!process.amx_error) process.amx_error = process.source->request_amx();
  return amx_answer(*process.amx_error);
}

}  // namespace sinter::inline SINTER_ABI
