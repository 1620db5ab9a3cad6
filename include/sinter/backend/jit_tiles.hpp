// When AMX tiles are preferred to AVX512-BF16: one table of rules, and the model that gives their
// numbers.
//
// No figure here is measured: the model counts tile products at 16 cycles, loads of lines at two a
// cycle, VDPBF16PS at one a cycle, and a guess for the configuration. options::tune measures and
// overrules; a tile_override does so for tests. Whether this process may use tiles at all is
// isa/detect.hpp's business and asked only where the rules want them: the first question changes
// the process. Both kernels compute the same problem with the same epilogue.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>

#include "../base/join.hpp"
#include "../isa/detect.hpp"
#include "../plan/problem.hpp"

namespace sinter::inline SINTER_ABI::jit {

/// A product of two bf16 operands as the rules see it. Of a convolution, rows are output pixels and
/// terms all taps of all channels. -1: known at the call only.
struct tile_facts {
  extent rows = -1, columns = 0, terms = 0;
  bool packed_in_call = false;  ///< the second operand is no weight
};

/// Cycles by the model, not measured.
struct tile_model {
  double tiles = 0, vectors = 0;
};

constexpr tile_model model_of(tile_facts const& f) {
  constexpr double product_cycles = 16, load_cycles = 8, store_cycles = 16, configuring = 250;
  auto const count = [](extent n, extent each) {
    return static_cast<double>((n + each - 1) / each);
  };
  double const rows = count(f.rows, 16), columns = count(f.columns, 16);
  double const products = rows * columns * count(f.terms, 32);
  double const rows_of_block = rows < 2 ? 1 : columns < 2 ? 4 : 2;
  double const columns_of_block = rows < 2 ? 4 : columns < 2 ? 1 : 2;
  double const loads = products * (1 / rows_of_block + 1 / columns_of_block);
  double const sums = static_cast<double>(f.rows) * columns;
  tile_model m;
  m.tiles = (std::max)(products * product_cycles, loads * load_cycles) +
            rows * columns * store_cycles + 2 * sums + configuring;
  m.vectors = sums * count(f.terms, 2) + sums;
  return m;
}

enum class tile_choice : unsigned char { tiles, vectors, cheaper };

struct tile_rule {
  std::string_view name;
  bool (*holds)(tile_facts const&) noexcept;
  tile_choice choice;
  std::string_view reason;
};
// clang-format off
inline constexpr tile_rule tile_table[] = {
    {"rows known at the call",
     [](tile_facts const& f) noexcept { return f.rows < 0; },
     tile_choice::tiles, "model, not measured: from two rows on tiles cost less"},
    {"one row",
     [](tile_facts const& f) noexcept { return f.rows == 1; },
     tile_choice::vectors, "model, not measured: a tile of one row takes as long as one of 16"},
    {"second operand packed for few rows",
     [](tile_facts const& f) noexcept { return f.packed_in_call && f.rows <= 16; },
     tile_choice::vectors, "model, not measured: vectors read it in place"},
    {"cheaper by the model",
     [](tile_facts const&) noexcept { return true; },
     tile_choice::cheaper, "model, not measured: tile products of 16 cycles, loads, configuration"},
};
// clang-format on

/// The rule that decides; the last one holds for everything.
inline tile_rule const& rule_for(tile_facts const& f) noexcept {
  tile_rule const* rule = tile_table;
  while (!rule->holds(f)) ++rule;
  return *rule;
}
inline bool prefers_tiles(tile_facts const& f) noexcept {
  tile_choice const c = rule_for(f).choice;
  if (c != tile_choice::cheaper) return c == tile_choice::tiles;
  tile_model const m = model_of(f);
  return m.tiles < m.vectors;
}

namespace detail {
inline constinit tile_choice tile_chosen = tile_choice::cheaper;  ///< `cheaper`: the rules choose
}  // namespace detail

/// Takes tiles or vectors whatever the rules say, in the whole process, as long as it lives: for
/// tests. Not to be used while another thread compiles.
class tile_override {
 public:
  explicit tile_override(tile_choice c) : before_(detail::tile_chosen) { detail::tile_chosen = c; }
  tile_override(tile_override const&) = delete;
  tile_override& operator=(tile_override const&) = delete;
  ~tile_override() { detail::tile_chosen = before_; }

 private:
  tile_choice before_;
};

/// The facts of a product of two bf16 operands; false where tiles have nothing to multiply.
inline bool tile_facts_of(problem const& p, tile_facts& f) {
  step const& s = p.chain.steps[p.chain.anchor()];
  contraction_attrs const& a = p.chain.attrs(s);
  auto const src = static_cast<std::size_t>(s.args[0].index),
             weight = static_cast<std::size_t>(s.args[1].index);
  shape const& w = p.operands[weight].dims;
  if (p.operands[src].type != dtype::bf16 || p.operands[weight].type != dtype::bf16) return false;
  if (s.code != op::matmul && (s.code != op::conv2d || a.groups > 1)) return false;
  bool const matmul = s.code == op::matmul;
  int const rank = w.ssize(), axes = p.domain.ssize();
  f.packed_in_call = p.chain.operands[static_cast<int>(weight)].role != role::weight;
  f.columns = matmul ? p.domain.back() : w[0];
  f.terms = matmul ? w[a.transposed_weight ? rank - 1 : rank - 2] : w[1] * w[2] * w[3];
  // A matrix of its own for each batch has its own rows.
  bool const shared = !matmul || element_count(w) == w[rank - 1] * w[rank - 2];
  f.rows = 1;
  for (int i = shared ? 0 : axes - 2; i < axes - 1; ++i)
    f.rows = p.domain[i] == dynamic || f.rows < 0 ? -1 : f.rows * p.domain[i];
  return true;
}

/// " (270000 cycles in tiles, 2100000 in vectors)"; nothing where rows are known at the call only.
inline std::string figures_of(tile_facts const& f) {
  if (f.rows < 0) return {};
  tile_model const m = model_of(f);
  return sinter::detail::join({" (", static_cast<long long>(m.tiles), " cycles in tiles, ",
                               static_cast<long long>(m.vectors), " in vectors)"});
}

/// What a product is computed with, and why.
struct product_level {
  isa level = isa::avx2;
  std::string why;  ///< empty where there was no choice
};

/// `level` is the highest of vectors that this process may use.
inline product_level level_of_product(problem const& p, isa level) {
  tile_facts f;
  result<features> const usable = current_isa(p.max_isa);
  if (!usable || !runs(*usable, isa::amx) || !tile_facts_of(p, f)) return {level, {}};
  tile_rule const& rule = rule_for(f);
  tile_choice const forced = detail::tile_chosen;
  bool const wanted =
      forced == tile_choice::cheaper ? prefers_tiles(f) : forced == tile_choice::tiles;
  std::string const why =
      forced == tile_choice::cheaper
          ? sinter::detail::join({"rule '", rule.name, "', ", rule.reason, figures_of(f)})
          : "by a tile_override";
  if (!wanted) return {level, why};
  if (verdict const v = amx_permission(); !v) return {level, v.reason};
  return {isa::amx, why};
}

/// What a measurement may try beside level_of_product(): nothing where there is no choice.
inline std::optional<product_level> other_level_of_product(problem const& p, isa level) {
  tile_facts f;
  result<features> const usable = current_isa(p.max_isa);
  bool const choice = usable && runs(*usable, isa::amx) && tile_facts_of(p, f) &&
                      detail::tile_chosen == tile_choice::cheaper;
  if (!choice || !amx_permission()) return std::nullopt;
  return product_level{prefers_tiles(f) ? level : isa::amx, "measured"};
}

}  // namespace sinter::inline SINTER_ABI::jit
