// Environment variables: the table of all that the library reads, and strict reading of one.
//
// A value that is not understood is an error that lists the right ones; nothing is guessed, nothing
// falls back in silence. Unset and empty mean the same. A variable is read each time it is asked
// for (compile() asks, a call never does), so what setenv() does in a running program counts from
// the next compile() on; setenv() beside a running compile() is a data race of the C library's, not
// of ours. Users read docs/environment.md, which a test holds equal to this table. What a word
// means is the business of the layer that asks (isa/isa.hpp, run/).
#pragma once

#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "array_view.hpp"
#include "inline_vector.hpp"
#include "status.hpp"

namespace sinter::inline SINTER_ABI {

enum class env : unsigned char { backend, max_isa, verbose, jit_dump, jit_profile, count_ };

struct env_row {
  env code;
  char const* name;
  inline_vector<std::string_view, 6> words;  ///< the values that are understood; none: any text
  std::string_view value;  ///< what any text is taken for; empty where there are words
  std::string_view meaning;
};

// clang-format off
inline constexpr env_row env_table[] = {
    {env::backend, "SINTER_BACKEND", {"reference", "onednn", "jit"}, "",
     "compile for this backend alone; what it cannot do is refused"},
    {env::max_isa, "SINTER_MAX_ISA", {"reference", "avx2", "avx512", "avx512_bf16", "amx"}, "",
     "use no instructions above this level; it caps what the CPU has and never raises it"},
    {env::verbose, "SINTER_VERBOSE", {"0", "1", "2"}, "",
     "1: one CSV line on standard error for each compile; 2: and one for each call"},
    {env::jit_dump, "SINTER_JIT_DUMP", {}, "path prefix",
     "write the machine code of each generated kernel to a file whose name begins so"},
    {env::jit_profile, "SINTER_JIT_PROFILE", {"perf"}, "",
     "tell a profiler the names and addresses of generated kernels (perf: its map file)"},
};
// clang-format on
inline constexpr int env_count = static_cast<int>(env::count_);
static_assert(sizeof(env_table) / sizeof(env_table[0]) == env_count);
static_assert([] {
  for (int i = 0; i < env_count; ++i)
    if (static_cast<int>(env_table[i].code) != i) return false;
  return true;
}());

constexpr env_row const& row_of(env which) { return env_table[static_cast<int>(which)]; }

/// The value of a variable; nothing where it is unset or empty.
inline std::optional<std::string> env_text(char const* name) {
  char const* value = std::getenv(name);
  if (value == nullptr || *value == '\0') return std::nullopt;
  return std::string(value);
}
inline std::optional<std::string> env_text(env which) { return env_text(row_of(which).name); }

/// The index into `words` of a variable's value; nothing where it is unset or empty. Any other
/// value, also one that differs in case or has spaces around it, is code::bad_environment:
///   sinter: SINTER_MAX_ISA is 'avx3'; wanted one of reference, avx2, avx512, avx512_bf16, amx
inline result<std::optional<int>> env_choice(char const* name,
                                             array_view<std::string_view const> words) {
  std::optional<std::string> const given = env_text(name);
  if (!given) return std::optional<int>{};
  for (std::size_t i = 0; i < words.size(); ++i)
    if (words[i] == *given) return std::optional<int>(static_cast<int>(i));
  std::string sentence = "sinter: ";
  sentence += name;
  sentence += " is '" + *given + "'; wanted ";
  if (words.size() > 1) sentence += "one of ";
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (i > 0) sentence += ", ";
    sentence += words[i];
  }
  return failure{code::bad_environment, std::move(sentence)};
}
inline result<std::optional<int>> env_choice(env which) {
  env_row const& row = row_of(which);
  return env_choice(row.name, array_view(row.words.data(), row.words.size()));
}

/// The first variable of the table whose value is not understood, as an error: compile() asks this
/// before it starts.
inline status check_environment() {
  for (env_row const& row : env_table) {
    if (row.words.empty()) continue;
    if (auto chosen = env_choice(row.code); !chosen) return chosen.error();
  }
  return {};
}

}  // namespace sinter::inline SINTER_ABI
