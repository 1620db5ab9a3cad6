// The machine underneath: CPUID, XCR0, the AMX permission, the processors and caches that the
// kernel lists. All that is specific to x86 or to an operating system is here and nowhere else in
// isa/.
//
// Elsewhere than on x86-64 CPUID answers zeros, hence no feature is ever believed there; elsewhere
// than on Linux the AMX permission is refused with ENOSYS. What the answers mean: isa/detect.hpp,
// isa/machine.hpp.
#pragma once

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "cpu_source.hpp"

#if defined(__linux__)
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#endif

namespace sinter::inline SINTER_ABI {

namespace detail {

#if defined(__linux__) && defined(__x86_64__)

// asm/prctl.h of Linux 5.16 and newer; spelled out, since older headers lack them.
inline constexpr int arch_get_xcomp_perm = 0x1022;
inline constexpr int arch_req_xcomp_perm = 0x1023;
inline constexpr unsigned long xfeature_tile_data = 18;

/// 0 if tile data is now permitted to this process, else an errno.
inline int ask_for_tiles() {
  if (::syscall(SYS_arch_prctl, arch_req_xcomp_perm, xfeature_tile_data) != 0) return errno;
  std::uint64_t permitted = 0;
  if (::syscall(SYS_arch_prctl, arch_get_xcomp_perm, &permitted) != 0) return errno;
  return ((permitted >> xfeature_tile_data) & 1U) != 0 ? 0 : EPERM;
}

/// A seccomp filter may kill whoever makes the call, so under a filter a child makes it first: a
/// bare copy of this process under the same filter, which runs no fork handlers and sends no
/// SIGCHLD.
inline bool request_is_survivable() {
  constexpr int seccomp_mode_filter = 2;
  if (::prctl(PR_GET_SECCOMP, 0, 0, 0, 0) != seccomp_mode_filter) return true;
  long const child = ::syscall(SYS_clone, 0UL, 0UL, 0UL, 0UL, 0UL);
  if (child < 0) return false;
  if (child == 0) {
    ask_for_tiles();
    ::syscall(SYS_exit_group, 0);
  }
  int how = 0;
  while (::waitpid(static_cast<pid_t>(child), &how, __WALL) < 0)
    if (errno != EINTR) return false;
  return WIFEXITED(how);
}

#endif

class host_cpu_source final : public cpu_source {
 public:
  cpuid_words cpuid([[maybe_unused]] std::uint32_t leaf,
                    [[maybe_unused]] std::uint32_t subleaf) const override {
    cpuid_words w;
#if defined(__x86_64__)
    asm volatile("cpuid"
                 : "=a"(w.eax), "=b"(w.ebx), "=c"(w.ecx), "=d"(w.edx)
                 : "0"(leaf), "2"(subleaf));
#endif
    return w;
  }

  std::uint64_t xcr0() const override {
#if defined(__x86_64__)
    std::uint32_t low = 0;
    std::uint32_t high = 0;
    asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (std::uint64_t{high} << 32) | low;
#else
    return 0;
#endif
  }

  int request_amx() const override {
#if defined(__linux__) && defined(__x86_64__)
    return request_is_survivable() ? ask_for_tiles() : EPERM;
#else
    return ENOSYS;
#endif
  }
};

inline constexpr host_cpu_source host_cpu_instance{};

}  // namespace detail

/// The CPU that this process runs on.
inline cpu_source const& host_cpu() { return detail::host_cpu_instance; }

/// The processors that the operating system lets this process run on, as it numbers them; empty if
/// it does not say.
inline std::vector<int> permitted_processors() {
  std::vector<int> list;
#if defined(__linux__)
  // The kernel refuses a mask smaller than its own with EINVAL; 2^16 processors is more than it
  // supports.
  for (std::size_t words = 16; words <= 1024; words *= 4) {
    std::vector<unsigned long> mask(words);
    long const bytes =
        ::syscall(SYS_sched_getaffinity, 0, words * sizeof(unsigned long), mask.data());
    if (bytes < 0 && errno == EINVAL) continue;
    constexpr std::size_t width = 8 * sizeof(unsigned long);
    for (std::size_t i = 0; i < words * width; ++i)
      if (((mask[i / width] >> (i % width)) & 1U) != 0) list.push_back(static_cast<int>(i));
    break;
  }
#endif
  return list;
}

/// The first line of a file, such as one below /sys (at most 4095 characters of it); empty if it
/// cannot be read.
inline std::string first_line(std::string const& path) {
  std::FILE* file = std::fopen(path.c_str(), "r");
  if (file == nullptr) return {};
  char text[4096] = "";
  std::string line = std::fgets(text, sizeof(text), file) != nullptr ? text : "";
  std::fclose(file);
  if (!line.empty() && line.back() == '\n') line.pop_back();
  return line;
}

}  // namespace sinter::inline SINTER_ABI
