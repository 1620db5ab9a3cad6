// THE table of strips: named rules that say which neighbouring groups run strip by strip, and why.
//
// The first rule that holds decides. Each reason is a measurement, of groups apart against the same groups in strips in
// one run (bench/blocks/strips.cpp; docs/fusion_rules.md has the table and the machine). A rule knows sizes and nothing
// of how kernels work; what cannot be done is refused where it is found, run/strip_builder.hpp.
#pragma once

#include <string_view>

#include "../core/shape.hpp"

namespace sinter::inline SINTER_ABI {

/// Neighbouring groups as the rules see them.
struct strip_facts {
  extent images = 1;         ///< of a call; dynamic: unknown
  extent between_bytes = 0;  ///< of the values between the groups, of one image
  extent weight_bytes = 0;   ///< of all groups
  extent strip_bytes = 0;    ///< of the values between that a strip holds
  bool depthwise = false;    ///< one of the groups computes little for each value that it reads
};

struct strip_rule {
  std::string_view name;
  bool (*holds)(strip_facts const&) noexcept;
  bool joins;
  std::string_view reason;
};

/// A second-level cache (1 MiB here) has room for a strip beside weights and what the first group reads.
inline constexpr extent strip_budget = extent{384} << 10;
/// Values between that a second-level cache does not hold, and ones of which a third keeps ever less.
inline constexpr extent far_between_bytes = extent{11} << 18,
                        farther_between_bytes = extent{5} << 20;

// clang-format off
inline constexpr strip_rule strip_table[] = {
    {"wide rows",
     [](strip_facts const& f) noexcept { return f.strip_bytes > 2 * strip_budget; }, false,
     "not even one row of each value stays near"},
    {"far weights",
     [](strip_facts const& f) noexcept { return f.weight_bytes > extent{512} << 10; }, false,
     "each strip would read them once more"},
    {"unknown batch",
     [](strip_facts const& f) noexcept { return f.images == dynamic; }, true,
     "one image 0.98 to 1.05, four and more up to 4.0 times as fast"},
    {"far values",
     [](strip_facts const& f) noexcept { return f.images * f.between_bytes > farther_between_bytes; }, true,
     "inverted residuals 0.91 to 4.0, dense layers 0.98 to 1.3, bottlenecks 1.0 to 1.2 times as fast"},
    {"far values, depthwise",
     [](strip_facts const& f) noexcept { return f.depthwise && f.images * f.between_bytes > far_between_bytes; }, true,
     "inverted residuals 0.99 to 1.05 times as fast"},
    {"near values",
     [](strip_facts const&) noexcept { return true; }, false,
     "inverted residuals, dense layers and bottlenecks 0.98 to 1.05 times as fast"},
};
// clang-format on

/// The rule that decides; the last one holds for everything.
inline strip_rule const& strip_rule_for(strip_facts const& f) noexcept {
  strip_rule const* rule = strip_table;
  while (!rule->holds(f)) ++rule;
  return *rule;
}

}  // namespace sinter::inline SINTER_ABI
