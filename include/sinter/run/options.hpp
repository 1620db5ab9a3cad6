// What a user may say to compile() beside the expression and its extents, and where warnings go.
//
// A policy says what happens when a program becomes slower than was asked for: nothing, a warning, or a failure. The
// warning handler belongs to the whole process; without one a warning is a line on stderr. Read run/dispatch.hpp next.
#pragma once

#include <atomic>
#include <cstdio>
#include <optional>
#include <string_view>

#include "../core/precision.hpp"
#include "../isa/isa.hpp"
#include "parallel.hpp"

namespace sinter::inline SINTER_ABI {

enum class policy : unsigned char { allow, warn, error };

/// Do neighbouring groups run strip by strip, the value between them in a near cache? by_rule: where run/strip_rules.hpp
/// has measured that it is faster; always: wherever it can be done (for tests, and to measure on another machine).
enum class strip_policy : unsigned char { by_rule, never, always };

/// What options::threads may be at most: each worker has memory of its own.
inline constexpr int max_threads = 1024;

struct options {
  /// strict: the rules of docs/precision.md for NaN, infinities and zeros hold on every path.
  sinter::numerics numerics = sinter::numerics::strict;
  /// A group runs on the reference backend, or a library underneath runs its own reference code.
  policy on_fallback = policy::warn;
  /// A group runs as more than one kernel.
  policy on_split = policy::warn;
  /// The one backend to compile for ("reference", "onednn", "jit"); it beats SINTER_BACKEND. Empty: the first willing.
  std::string_view backend = {};
  /// Measure the willing backends once for each problem of the process and take the fastest; about 50 ms for each.
  /// Without it the rules of run/dispatch_rules.hpp choose. Wants fixed extents. Strips and stretches go by their rules
  /// in any case.
  bool tune = false;
  strip_policy strips = strip_policy::by_rule;
  /// Rows of a strip; 0: as many as the near cache holds.
  int strip_rows = 0;
  /// Does a batch go through a stretch of groups image by image? Rules as those of strips.
  strip_policy stretches = strip_policy::by_rule;
  /// No instructions above this level; it beats SINTER_MAX_ISA.
  std::optional<isa> max_isa = std::nullopt;
  /// The operand that shares its memory with the output, element by element. Empty: none may overlap.
  std::string_view in_place = {};
  /// Threads of one call, at most. More than the caller's own come from the executor, and results have the same bits
  /// for every count (but where oneDNN computes: explain() says so).
  int threads = 1;
  /// Wanted where threads > 1: &openmp_threads of sinter/openmp.hpp, or one of your own. It is not owned.
  sinter::executor* executor = nullptr;
};

/// Gets each warning: one sentence that begins with "sinter:", without a newline. May be called from any thread.
using warning_handler = void (*)(std::string_view sentence);

namespace detail {
inline void warn_on_stderr(std::string_view sentence) {
  std::fprintf(stderr, "%.*s\n", static_cast<int>(sentence.size()), sentence.data());
}
inline std::atomic<warning_handler> current_warning_handler{&warn_on_stderr};

inline void warn(std::string_view sentence) { current_warning_handler.load()(sentence); }
}  // namespace detail

/// Sets the handler of the process and gives back the one before; null sets the default, a line on stderr.
inline warning_handler set_warning_handler(warning_handler handler) {
  return detail::current_warning_handler.exchange(handler != nullptr ? handler
                                                                     : &detail::warn_on_stderr);
}

}  // namespace sinter::inline SINTER_ABI
