// Arithmetic is in float, and a double would be rounded in silence.
// EXPECT: write the constant as a float
#include "sinter/plan/partition.hpp"

[[maybe_unused]] constexpr auto x = sinter::tensor<"x">;
[[maybe_unused]] constexpr auto w = sinter::weight<"w">;
[[maybe_unused]] constexpr auto w2 = sinter::weight<"w2">;
[[maybe_unused]] constexpr auto b = sinter::vector<"b">;

#ifdef SINTER_BAD
[[maybe_unused]] constexpr auto plan = sinter::partition(sinter::matmul(x, w) * 0.1);
#else
[[maybe_unused]] constexpr auto plan = sinter::partition(sinter::matmul(x, w) * 0.1F);
#endif
