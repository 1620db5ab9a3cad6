// A weight is packed for a contraction.
// EXPECT: a_weight_is_the_second_operand_of_a_contraction_and_nothing_else
#include "sinter/plan/partition.hpp"

[[maybe_unused]] constexpr auto x = sinter::tensor<"x">;
[[maybe_unused]] constexpr auto w = sinter::weight<"w">;
[[maybe_unused]] constexpr auto w2 = sinter::weight<"w2">;
[[maybe_unused]] constexpr auto b = sinter::vector<"b">;

#ifdef SINTER_BAD
[[maybe_unused]] constexpr auto plan = sinter::partition(sinter::matmul(x, w) + w2);
#else
[[maybe_unused]] constexpr auto plan =
    sinter::partition(sinter::matmul(x, w) + sinter::tensor<"w2">);
#endif
