// Which generated code computes a product: one table of rules.
//
// The level of instructions is chosen before (backend/jit_tiles.hpp), a backend before that
// (run/dispatch_rules.hpp). All kernels compute the same problem with the same epilogue. Values only:
// what a plan makes of the choice is backend/jit_matmul.hpp's business.
#pragma once

#include <string_view>

#include "../jit/blocking.hpp"

namespace sinter::inline SINTER_ABI::jit {

/// The kernels of a product: panels of columns (jit/matmul.hpp), AMX tiles (jit/matmul_amx.hpp), or
/// one column, with K (jit/column.hpp) or rows (jit/column_rows.hpp) in the lanes.
enum class matmul_code_kind : unsigned char { panels, tiles, column, column_rows };

/// What decides between them.
struct matmul_code_facts {
  product kind = product::f32;
  extent k = 0, n = 0;
  bool unit_k = true;      ///< elements of a row of the first operand lie side by side
  bool unit_rows = false;  ///< those of a column do
};
struct matmul_code_rule {
  std::string_view name;
  bool (*holds)(matmul_code_facts const&) noexcept;
  matmul_code_kind kind;
  std::string_view reason;
};
// clang-format off
inline constexpr matmul_code_rule matmul_code_table[] = {
    {"AMX tiles",
     [](matmul_code_facts const& f) noexcept { return f.kind == product::bf16_tiles; },
     matmul_code_kind::tiles, "the level was chosen for them: backend/jit_tiles.hpp"},
    {"one column",
     [](matmul_code_facts const& f) noexcept { return f.n == 1 && (f.unit_k || f.k <= 1); },
     matmul_code_kind::column, "panels would use one lane of each vector"},
    {"one column, a transposed matrix",
     [](matmul_code_facts const& f) noexcept { return f.n == 1 && f.unit_rows; },
     matmul_code_kind::column_rows, "rows lie side by side, so they fill the lanes"},
    {"panels",
     [](matmul_code_facts const&) noexcept { return true; },
     matmul_code_kind::panels, "columns fill the lanes, or rows have to be copied first anyway"},
};
// clang-format on
inline matmul_code_rule const& rule_for(matmul_code_facts const& f) noexcept {
  matmul_code_rule const* rule = matmul_code_table;
  while (!rule->holds(f)) ++rule;
  return *rule;
}

}  // namespace sinter::inline SINTER_ABI::jit
