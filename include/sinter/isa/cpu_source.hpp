// The three questions that detection asks a CPU and its operating system, as an interface: so that
// a test can be any CPU. The real one is host_cpu() in isa/host.hpp; what the answers mean is in
// isa/detect.hpp and isa/machine.hpp.
//
// The virtual functions are constexpr: a mock that is a constant is detected in a static_assert.
#pragma once

#include <cstdint>

#include "../config.hpp"

namespace sinter::inline SINTER_ABI {

struct cpuid_words {
  std::uint32_t eax = 0, ebx = 0, ecx = 0, edx = 0;
  friend constexpr bool operator==(cpuid_words const&, cpuid_words const&) = default;
};

class cpu_source {
 public:
  /// The CPUID instruction, as it answers: for a leaf beyond the highest the answer may be any
  /// other leaf's.
  constexpr virtual cpuid_words cpuid(std::uint32_t leaf, std::uint32_t subleaf) const = 0;
  /// XCR0. Only asked where CPUID reports OSXSAVE: the instruction faults elsewhere.
  constexpr virtual std::uint64_t xcr0() const = 0;
  /// Asks the operating system to let this process use AMX tile data. 0, or the errno of the
  /// refusal.
  constexpr virtual int request_amx() const = 0;

 protected:
  constexpr cpu_source() = default;
  constexpr cpu_source(cpu_source const&) = default;
  constexpr cpu_source& operator=(cpu_source const&) = default;
  constexpr ~cpu_source() = default;
};

/// The leaf, or zeros where the CPU does not have it.
constexpr cpuid_words cpuid_or_zero(cpu_source const& cpu, std::uint32_t leaf,
                                    std::uint32_t subleaf = 0) {
  std::uint32_t const highest = cpu.cpuid(leaf & 0x80000000U, 0).eax;
  if ((highest & 0x80000000U) != (leaf & 0x80000000U) || leaf > highest) return {};
  return cpu.cpuid(leaf, subleaf);
}

}  // namespace sinter::inline SINTER_ABI
