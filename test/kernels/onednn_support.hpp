// What the tests of the oneDNN backend share: problems from text, and proof of the path that ran.
#pragma once

#include <doctest/doctest.h>

#include <string>
#include <string_view>
#include <vector>

#include <sinter/backend/onednn.hpp>
#include <sinter/plan/parse.hpp>

#include "support/check_backend.hpp"
#include "support/random_chain.hpp"

namespace sinter_test {
using namespace sinter;

/// What oneDNN 3.7 was measured to keep to (docs/onednn_special_values.md): an error of at most 64 u (1 + |result|) in
/// log, softplus, mish, gelu and elu, whose relative error grows without bound where the result is small.
inline constexpr accuracy onednn_accuracy{1, 64};

struct layouts {
  std::vector<strides> operands;  ///< empty: dense
  std::vector<strides> outputs;
};

/// `dims[i]` belongs to operand i; what is missing or empty follows from the others.
inline problem problem_of(std::string_view text, std::vector<shape> const& dims,
                          layouts const& l = {}, numerics n = numerics::peer, int in_place = -1) {
  auto const c = parse_chain(text);
  if (!c.ok()) FAIL(c.error().message);
  std::vector<operand_spec> specs(c.value().operands.size());
  for (std::size_t i = 0; i < dims.size() && i < specs.size(); ++i) {
    if (dims[i].empty()) continue;
    specs[i] = dense_desc(c.value().operands[static_cast<int>(i)].type, dims[i]);
    if (i < l.operands.size() && !l.operands[i].empty()) specs[i]->strides = l.operands[i];
  }
  auto p = make_problem(c.value(), specs, l.outputs, n, in_place);
  if (!p.ok()) FAIL(p.error().message);
  return std::move(p.value());
}

inline std::vector<stage_note> stages_of(problem const& p) {
  onednn_backend const b;
  auto const k = b.build(p);
  if (!k.ok()) FAIL(k.error().message << " in " << text(p));
  return k.value()->stages();
}

/// Right at every placement, with every pattern of finite values and, under strict numerics, with rows of NaN.
inline void check_right(problem const& p) {
  onednn_backend const b;
  std::vector<pattern> patterns = {pattern::integers, pattern::fine, pattern::uniform};
  if (p.numerics == numerics::strict) patterns.push_back(pattern::nan_rows);
  std::uint64_t seed = 1;
  for (pattern values : patterns)
    for (placement where : all_placements) {
      outcome const r = run_problem(b, p, {seed++, where, values, onednn_accuracy});
      CHECK_MESSAGE(r.ok(), r.text << " in " << text(p));
      if (!r.ok()) return;
    }
}

/// Right, and in one primitive on the caller's memory; on x86-64 one that is no reference code.
inline void check_fused(problem const& p) {
  check_right(p);
  std::vector<stage_note> const stages = stages_of(p);
  CHECK_MESSAGE(stages.size() == 1, text(p) << " is split: " << stages.back().why);
#if defined(__x86_64__)  // a oneDNN for aarch64 without its companion library has little else
  CHECK_MESSAGE(!is_reference_code(stages[0].implementation), stages[0].implementation);
#endif
  CHECK_MESSAGE(stages[0].implementation != "pass", text(p));
}

}  // namespace sinter_test
