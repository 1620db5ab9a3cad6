// A name means one operand.
// EXPECT: one_operand_name_is_used_with_two_roles_or_two_static_shapes
#include "sinter/plan/partition.hpp"

[[maybe_unused]] constexpr auto x = sinter::tensor<"x">;
[[maybe_unused]] constexpr auto w = sinter::weight<"w">;
[[maybe_unused]] constexpr auto w2 = sinter::weight<"w2">;
[[maybe_unused]] constexpr auto b = sinter::vector<"b">;

#ifdef SINTER_BAD
[[maybe_unused]] constexpr auto plan =
    sinter::partition(sinter::matmul(x, w) + b + sinter::tensor<"b">);
#else
[[maybe_unused]] constexpr auto plan =
    sinter::partition(sinter::matmul(x, w) + b + sinter::tensor<"r">);
#endif
