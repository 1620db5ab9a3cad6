// Representatives of every rule of dispatch (sinter/run/dispatch_rules.hpp), whatever the level.
//
// `bench rules` measures them in f32 and in bf16 (bench/ops/rules.cpp); a test of the suite fails for a rule that none
// of them belongs to. A new rule wants a problem here.
#pragma once

#include <vector>

#include "work.hpp"

namespace sinter_bench {

/// Chains without a precision, and the extents of x and w.
std::vector<work> rule_problems();

}  // namespace sinter_bench
