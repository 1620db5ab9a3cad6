// Losing a fusion breaks the build: what used to be one group is two.
// EXPECT-GCC: static assertion failed
// EXPECT-CLANG: static(_assert| assertion) failed due to requirement .plan.group_count
#include "sinter/plan/partition.hpp"

[[maybe_unused]] constexpr auto x = sinter::tensor<"x">;
[[maybe_unused]] constexpr auto w = sinter::weight<"w">;
[[maybe_unused]] constexpr auto w2 = sinter::weight<"w2">;
[[maybe_unused]] constexpr auto b = sinter::vector<"b">;

#ifdef SINTER_BAD
[[maybe_unused]] constexpr auto plan = sinter::partition(sinter::matmul(sinter::relu(x), w) + b);
#else
[[maybe_unused]] constexpr auto plan = sinter::partition(sinter::relu(sinter::matmul(x, w) + b));
#endif
static_assert(plan.group_count() == 1);
