// A residual of another size.
// EXPECT: the_static_shapes_of_the_operands_of_a_step_do_not_fit
#include "sinter/plan/partition.hpp"

[[maybe_unused]] constexpr auto x = sinter::tensor<"x">;
[[maybe_unused]] constexpr auto w = sinter::weight<"w">;
[[maybe_unused]] constexpr auto w2 = sinter::weight<"w2">;
[[maybe_unused]] constexpr auto b = sinter::vector<"b">;

#ifdef SINTER_BAD
[[maybe_unused]] constexpr auto skip = sinter::tensor<"skip", 16, 9>;
#else
[[maybe_unused]] constexpr auto skip = sinter::tensor<"skip", 16, 8>;
#endif
[[maybe_unused]] constexpr auto plan = sinter::partition(
    sinter::matmul(sinter::tensor<"in", 16, 4>, sinter::weight<"k", 4, 8>) + skip);
