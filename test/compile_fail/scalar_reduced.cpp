// A scalar has no rows to reduce.
// EXPECT: a_reduction_reads_rows_along_the_last_axis_and_a_scalar_has_none
#include "sinter/plan/partition.hpp"

[[maybe_unused]] constexpr auto x = sinter::tensor<"x">;
[[maybe_unused]] constexpr auto s = sinter::scalar<"s">;

#ifdef SINTER_BAD
[[maybe_unused]] constexpr auto plan = sinter::partition(x + sinter::row_sum(s));
#else
[[maybe_unused]] constexpr auto plan = sinter::partition(x + sinter::row_sum(x * s));
#endif
