// THE table of stretches: named rules that say which groups a batch goes through image by image, and why.
//
// The first rule that holds for a group decides whether it is part of the stretch before it. Each reason is a
// measurement of whole networks (docs/fusion_rules.md has the table and the machine). A rule knows sizes and nothing of
// how kernels work; what cannot be done is refused where it is found, run/stretch_builder.hpp.
#pragma once

#include <string_view>

#include "../core/shape.hpp"

namespace sinter::inline SINTER_ABI {

/// A group as the rules see it. Bytes of values are those of one image.
struct stretch_facts {
  extent images = 1;            ///< of a call; dynamic: unknown
  extent value_bytes = 0;       ///< what it reads and writes
  extent weight_bytes = 0;      ///< its own
  extent all_weight_bytes = 0;  ///< of the stretch with it
  int threads = 1;
};

struct stretch_rule {
  std::string_view name;
  bool (*holds)(stretch_facts const&) noexcept;
  bool joins;
  std::string_view reason;
};

/// Weights that a third-level cache keeps while images pass, and a batch's values that a second one does not.
inline constexpr extent stretch_weight_bytes = extent{8} << 20, near_batch_bytes = extent{2} << 20;

// clang-format off
inline constexpr stretch_rule stretch_table[] = {
    {"few images for the threads",
     [](stretch_facts const& f) noexcept { return f.threads > 1 && f.images < 4 * f.threads; }, false,
     "an image is the work of one thread"},
    {"heavy weights",
     [](stretch_facts const& f) noexcept { return f.weight_bytes > 4 * f.value_bytes; }, false,
     "each image would read them once more"},
    {"far weights",
     [](stretch_facts const& f) noexcept { return f.all_weight_bytes > stretch_weight_bytes; }, false,
     "each image would read those of all groups so far from memory"},
    {"near batch",
     [](stretch_facts const& f) noexcept { return f.images != dynamic && f.images * f.value_bytes < near_batch_bytes; },
     false, "the values of all images stay near"},
    {"far batch",
     [](stretch_facts const&) noexcept { return true; }, true,
     "whole networks 0.98 to 1.13 times as fast"},
};
// clang-format on

/// The rule that decides; the last one holds for everything.
inline stretch_rule const& stretch_rule_for(stretch_facts const& f) noexcept {
  stretch_rule const* rule = stretch_table;
  while (!rule->holds(f)) ++rule;
  return *rule;
}

}  // namespace sinter::inline SINTER_ABI
