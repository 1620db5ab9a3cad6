// A reduced value has a last extent of 1, and the next layer has to fit that.
// EXPECT: the_static_shapes_of_the_operands_of_a_step_do_not_fit
#include "sinter/plan/partition.hpp"

[[maybe_unused]] constexpr auto x = sinter::tensor<"x", 4, 8>;
[[maybe_unused]] constexpr auto w = sinter::weight<"w", 8, 3>;

#ifdef SINTER_BAD
[[maybe_unused]] constexpr auto plan = sinter::partition(
    sinter::matmul(sinter::row_mean(sinter::matmul(x, w)), sinter::weight<"v", 3, 5>));
#else
[[maybe_unused]] constexpr auto plan = sinter::partition(
    sinter::matmul(sinter::row_mean(sinter::matmul(x, w)), sinter::weight<"v", 1, 5>));
#endif
