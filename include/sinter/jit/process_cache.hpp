// The process's generated kernels: one cache that every kind of kernel shares.
//
// Each kind prefixes its keys with a letter of its own (jit/kernel_key.hpp), so no two kinds meet.
#pragma once

#include <string>

#include "../isa/isa.hpp"
#include "../plan/text.hpp"
#include "code_cache.hpp"
#include "code_memory.hpp"

namespace sinter::inline SINTER_ABI::jit {

inline code_cache<machine_code>& process_cache() {
  static code_cache<machine_code> cache(1024);
  return cache;
}

/// What dumps and profiles call a kernel: the level, then the problem that it was first generated
/// for.
inline std::string profile_name(isa level, problem const& p) {
  return std::string(name_of(level)) + " " + text(p);
}

}  // namespace sinter::inline SINTER_ABI::jit
