// Everything at once, at random, on every engine of this build against the oracle under guard pages: chains of up to
// twelve steps, odd shapes and strides, addends that broadcast, a dtype for each role and for single operands,
// reductions, poolings, and generated kernels that serve extents they were not built for. SINTER_TEST_SEED repeats a
// run, SINTER_TEST_COUNT makes it longer; a failure names seed and problem.
#include <doctest/doctest.h>

#include <map>
#include <string>

#include <sinter/plan/resolve.hpp>

#include "support/check_backend.hpp"
#include "support/engines.hpp"
#include "support/numbers.hpp"
#include "support/random_chain.hpp"

using namespace sinter_test;

namespace {

#ifndef SINTER_TEST_CHAINS
#define SINTER_TEST_CHAINS 200
#endif

/// What a seed is made with: extents, whether rows are reduced or windows slide, dtypes.
random_options options_of(std::uint64_t seed) {
  static std::vector<std::string> const precisions = [] {
    std::vector<std::string> all{"", " [bf16]", " [f16]"};
    constexpr std::string_view types[] = {"f32", "bf16", "f16"};
    for (std::size_t i = 0; i < 81; ++i) {
      std::string p = " [";
      p += std::string(types[i % 3]) + " " + std::string(types[i / 3 % 3]) + " f32 ";
      p += std::string(types[i / 9 % 3]) + " " + std::string(types[i / 27]) + " ";
      all.push_back(p + std::string(types[(i + i / 5) % 3]) + "]");
    }
    return all;
  }();
  constexpr extent extents[] = {5, 24, 40, 70};
  random_options o;
  o.max_steps = 11;
  o.max_extent = seed % 16 == 5 ? 140 : extents[seed % 4];  // some large enough to be cut
  o.in_place = true;
  o.strides = seed % 3 == 1;
  o.spatial = seed % 8 == 2 ? 0 : 2;
  o.reductions = seed % 5 == 0;
  o.pools = seed % 7 == 0;
  o.branches = seed % 3 != 0;
  o.precisions.assign(precisions.begin(), precisions.end());
  if (seed % 2 == 0) o.types = {"f32", "bf16", "f16"};
  if (seed % 16 == 0) o.types = {"f32", "bf16", "s32", "s8", "u8"};
  return o;
}

/// bf16 products by VDPBF16PS take denormals for zero, so an infinity times one is a NaN there: docs/precision.md.
/// oneDNN may use them on any problem.
pattern pattern_of(std::uint64_t seed, engine const& e, problem const& p) {
  pattern const wanted = all_patterns[seed / 4 % std::size(all_patterns)];
  bool narrow = p.chain.precision.src != dtype::f32 || p.chain.precision.weight != dtype::f32;
  return wanted == pattern::specials && narrow && e.name != "reference" ? pattern::nan_rows
                                                                        : wanted;
}

// oneDNN's own bounds: docs/onednn_special_values.md.
accuracy accuracy_of(engine const& e) { return {1, e.name == "onednn" ? 64.0 : 0.0}; }

struct tally {
  int taken = 0, refused = 0, dynamic = 0;
};

/// The same chain with rows (or images) known at the call only, in dense memory; nothing where it has none.
std::optional<problem> made_dynamic(problem const& p, std::vector<operand_spec>& specs,
                                    extent replaced) {
  chain const& c = p.chain;
  int const anchor = c.anchor(), rank = p.domain.ssize();
  if (anchor != 0 || c.pooling() >= 0 || p.in_place >= 0) return std::nullopt;
  step const& s = c.steps[anchor];
  bool const matmul = s.code == op::matmul;
  if (matmul && c.attrs(s).transposed_src) return std::nullopt;
  int const axis = matmul ? rank - 2 : 0;  // of the domain
  extent const rows = p.domain[axis];
  if (rows < 2) return std::nullopt;  // 1 may stand for a broadcast
  specs.assign(c.operands.size(), {});
  for (int i = 0; i < c.operands.ssize(); ++i) {
    tensor_desc const& d = p.operands[static_cast<std::size_t>(i)];
    tensor_desc mine{d.type, d.dims, {}};
    bool const weight = s.args[1] == operand_ref(i);
    int const own = mine.dims.ssize() - rank + axis;  // its axis that meets `axis`
    if (!weight && own >= 0 && mine.dims[own] == rows) mine.dims[own] = replaced;
    specs[static_cast<std::size_t>(i)] = mine;
  }
  auto made = make_problem(c, specs);
  return made.ok() ? std::optional<problem>(*made) : std::nullopt;
}

void check_dynamic(engine const& e, problem const& p, std::uint64_t seed, tally& t) {
  std::vector<operand_spec> specs;
  std::optional<problem> const built_for = made_dynamic(p, specs, dynamic);
  if (!built_for || !is_dynamic(*built_for)) return;
  auto const k = e.build(*built_for);
  if (!k) {
    CHECK(k.error().message.starts_with("sinter: "));
    return;
  }
  for (extent rows : {extent{1}, extent{7}, extent{33}, static_cast<extent>(seed % 90)}) {
    std::vector<operand_spec> known;
    auto const resolved = made_dynamic(p, known, rows);
    if (!resolved) continue;
    std::vector<shape> dims;
    for (operand_spec const& d : known) dims.push_back(d->dims);
    auto const call = resolve(*built_for, dims);
    REQUIRE_MESSAGE(call.ok(), call.error().message);
    outcome const r = check_kernel(
        **k, e.capped(*call),
        {seed, all_placements[seed % 3], pattern_of(seed, e, p), accuracy_of(e)}, true);
    CHECK_MESSAGE(r.ok(), "seed ", seed, " ", e.name, " with ", rows, " rows: ", r.text);
    ++t.dynamic;
  }
}

/// The problem of a seed on every engine.
void check_seed(std::uint64_t seed, std::map<std::string, tally>& all) {
  random_case const made = make_random_case(seed, options_of(seed));
  for (engine const& e : engines()) {
    tally& t = all[e.name];
    problem const p = e.capped(made.p);
    outcome const r = run_problem(
        *e.from, p, {seed, all_placements[seed % 3], pattern_of(seed, e, p), accuracy_of(e)});
    if (!r.supported) {
      ++t.refused;
      CHECK_MESSAGE(r.text.starts_with("sinter: "), "seed ", seed, " ", e.name, ": ", r.text);
      continue;
    }
    // oneDNN's pack() may refuse what it finds in a weight.
    if (r.text.find("multiplies padding") != std::string::npos) continue;
    ++t.taken;
    CHECK_MESSAGE(r.ok(), "seed ", seed, " ", e.name, ": ", r.text);
    if (e.level || e.name == "reference") check_dynamic(e, p, seed, t);
  }
}

}  // namespace

TEST_CASE("random chains of any length, shape and mixture of dtypes, on every engine") {
  std::uint64_t const first = number_from("SINTER_TEST_SEED", 700000),
                      count = number_from("SINTER_TEST_COUNT", SINTER_TEST_CHAINS);
  std::map<std::string, tally> all;
  for (std::uint64_t seed = first; seed < first + count; ++seed) check_seed(seed, all);
  for (auto const& [name, t] : all) {
    MESSAGE(name << ": " << t.taken << " taken, " << t.refused << " refused, " << t.dynamic
                 << " with dynamic rows");
    CHECK(t.taken > static_cast<int>(count / 8));
  }
  CHECK(all["reference"].refused == 0);
}

// A select on what may be NaN or zero; a value that a step reads which no output wants.
TEST_CASE("random chains that bounds were once too narrow for") {
  std::map<std::string, tally> all;
  for (std::uint64_t seed : {703362U, 703631U}) check_seed(seed, all);
}
