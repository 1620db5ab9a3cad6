// A vector is no matrix.
// EXPECT: the_operands_of_a_contraction_are_tensors_and_weights
#include "sinter/plan/partition.hpp"

[[maybe_unused]] constexpr auto x = sinter::tensor<"x">;
[[maybe_unused]] constexpr auto w = sinter::weight<"w">;
[[maybe_unused]] constexpr auto w2 = sinter::weight<"w2">;
[[maybe_unused]] constexpr auto b = sinter::vector<"b">;

#ifdef SINTER_BAD
[[maybe_unused]] constexpr auto plan = sinter::partition(sinter::matmul(b, w));
#else
[[maybe_unused]] constexpr auto plan = sinter::partition(sinter::matmul(x, w));
#endif
