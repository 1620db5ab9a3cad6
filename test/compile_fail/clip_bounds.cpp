// clip(low, high).
// EXPECT: clip_wants_a_low_bound_that_is_not_above_the_high_one
#include "sinter/plan/partition.hpp"

[[maybe_unused]] constexpr auto x = sinter::tensor<"x">;
[[maybe_unused]] constexpr auto w = sinter::weight<"w">;
[[maybe_unused]] constexpr auto w2 = sinter::weight<"w2">;
[[maybe_unused]] constexpr auto b = sinter::vector<"b">;

#ifdef SINTER_BAD
[[maybe_unused]] constexpr auto plan = sinter::partition(sinter::clip(sinter::matmul(x, w), 6, 0));
#else
[[maybe_unused]] constexpr auto plan = sinter::partition(sinter::clip(sinter::matmul(x, w), 0, 6));
#endif
