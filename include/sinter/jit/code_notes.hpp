// What debuggers and profilers are told about generated code: SINTER_JIT_DUMP and
// SINTER_JIT_PROFILE.
//
// A dump is the bytes of one kernel in a file of its own, prefix + number + name + ".bin":
//   objdump -D -b binary -m i386:x86-64 FILE
// A profile is perf's map of a process: a line with address, size and name for each kernel, in the
// file where perf looks for it. Both happen once per generation, never in a call; without the
// variables nothing does. A file that cannot be written is said on stderr and is no reason not to
// run.
#pragma once

#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>

#include "../base/array_view.hpp"
#include "../base/env.hpp"

namespace sinter::inline SINTER_ABI::jit {

namespace detail {

inline void append_to(std::string const& file, char const* mode, void const* data,
                      std::size_t bytes, env variable) {
  std::FILE* const f = std::fopen(file.c_str(), mode);
  bool const written = f != nullptr && std::fwrite(data, 1, bytes, f) == bytes;
  if (!written)
    std::fprintf(stderr, "sinter: %s: '%s' cannot be written: %s\n", row_of(variable).name,
                 file.c_str(), std::strerror(errno));
  if (f != nullptr) std::fclose(f);
}

/// Letters, digits and - of a name; what lies between becomes one underscore.
inline std::string file_name_of(std::string_view name) {
  std::string text;
  for (char const c : name) {
    bool const kept =
        (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-';
    if (kept)
      text += c;
    else if (!text.empty() && text.back() != '_')
      text += '_';
  }
  return text.substr(0, 150);
}

}  // namespace detail

/// `name` is one line that says what the code computes: chain, shape, ISA.
inline void note_code(std::string_view name, array_view<std::byte const> code) {
  if (auto const prefix = env_text(env::jit_dump)) {
    static std::atomic<int> number{0};
    detail::append_to(
        *prefix + std::to_string(number++) + "_" + detail::file_name_of(name) + ".bin", "wb",
        code.data(), code.size(), env::jit_dump);
  }
  if (env_text(env::jit_profile)) {
    char place[48];
    std::snprintf(place, sizeof place, "%llx %zx sinter:",
                  static_cast<unsigned long long>(reinterpret_cast<std::uintptr_t>(code.data())),
                  code.size());
    std::string const line = place + std::string(name) + "\n";
    // Where perf expects it: tools/perf/Documentation/jit-interface.txt.
    detail::append_to("/tmp/perf-" + std::to_string(getpid()) + ".map", "ab", line.data(),
                      line.size(), env::jit_profile);
  }
}

}  // namespace sinter::inline SINTER_ABI::jit
