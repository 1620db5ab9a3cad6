// Problems on every level of instructions that this CPU has, against the oracle; and dense data in and
// out of one kernel, whole or in parts.
#pragma once

#include <doctest/doctest.h>

#include <initializer_list>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include <sinter/backend/jit.hpp>

#include "check_backend.hpp"
#include "levels.hpp"

namespace sinter_test {
using namespace sinter;

/// Each call draws one of a list, or of a range.
class draw {
 public:
  explicit draw(std::uint64_t seed) : random_(seed) {}
  extent operator()(std::initializer_list<extent> list) {
    return list.begin()[random_() % list.size()];
  }
  extent upto(extent first, extent last) {
    return first + static_cast<extent>(random_() % static_cast<std::uint64_t>(last - first + 1));
  }

 private:
  std::mt19937_64 random_;
};

/// VDPBF16PS takes denormals for zero, so infinity times one is NaN there and infinity elsewhere.
inline bool flushes(isa level, problem const& p) {
  int const anchor = p.chain.anchor();
  if (anchor < 0 || !includes(level, isa::avx512_bf16)) return false;
  auto const type = [&](int i) {
    return p.operands[static_cast<std::size_t>(p.chain.steps[anchor].args[i].index)].type;
  };
  return type(0) == dtype::bf16 && type(1) == dtype::bf16;
}

/// Runs on every level; the kernel must be of the level that was asked for, in one stage whose name
/// holds `part`. `everywhere`: at all placements of operands, not only the seed's.
inline void check_levels(problem p, check_options options = {}, std::string_view part = {},
                         bool everywhere = false) {
  jit_backend const jit;
  pattern const wanted = options.values;
  for (isa level : jit_levels()) {
    p.max_isa = level;
    auto const k = jit.build(p);
    REQUIRE_MESSAGE(k.ok(), k.error().message);
    std::vector<stage_note> const stages = (*k)->stages();
    CHECK(stages.size() == 1);
    CHECK(stages[0].implementation.starts_with(implementation_prefix(p, level)));
    CHECK_MESSAGE(stages[0].implementation.find(part) != std::string::npos,
                  stages[0].implementation);
    options.values = wanted == pattern::specials && flushes(level, p) ? pattern::nan_rows : wanted;
    for (std::size_t i = 0; i < (everywhere ? std::size(all_placements) : 1); ++i) {
      options.where = all_placements[(options.seed + i) % std::size(all_placements)];
      outcome const r = check_kernel(**k, p, options);
      CHECK_MESSAGE(r.ok(), name_of(level), ": ", r.text);
    }
  }
}

/// Dense operands in, the dense first output out; computed in one piece, or in parts, the last one
/// first.
template <class T>
std::vector<T> run_dense(problem const& p, std::vector<void const*> const& operands,
                         int wanted_parts = 1) {
  auto const k = jit_backend{}.build(p);
  REQUIRE_MESSAGE(k.ok(), k.error().message);
  call_args args;
  std::vector<packed_weight> packed(operands.size());
  for (std::size_t i = 0; i < operands.size(); ++i) {
    tensor_desc const& d = p.operands[i];
    args.operands[i] = operands[i];
    if (p.chain.operands[static_cast<int>(i)].role != role::weight) continue;
    auto w =
        (*k)->pack(static_cast<int>(i), tensor_view{operands[i], d.type, d.dims, d.strides, false});
    REQUIRE(w.ok());
    packed[i] = *w;
    args.operands[i] = packed[i].data();
  }
  std::vector<T> out(static_cast<std::size_t>(element_count(p.outputs[0].dims)));
  args.outputs[0] = out.data();
  buffer scratch((*k)->scratch_bytes());
  args.scratch = scratch.data();
  auto const call = (*k)->make_invocation();
  REQUIRE(call.ok());
  (*call)->repoint(args);
  if (wanted_parts == 1) {
    CHECK((*call)->run() == code::ok);
    return out;
  }
  int const parts = (*call)->cut(wanted_parts);
  CHECK(parts <= wanted_parts);
  CHECK(parts > 1);
  for (int i = parts; i-- > 0;) CHECK((*call)->run_part(i) == code::ok);
  return out;
}

}  // namespace sinter_test
