// 64 channels meet a filter of 32.
// EXPECT: the_static_shapes_of_the_operands_of_a_step_do_not_fit
#include "sinter/plan/partition.hpp"

[[maybe_unused]] constexpr auto x = sinter::tensor<"x">;
[[maybe_unused]] constexpr auto w = sinter::weight<"w">;
[[maybe_unused]] constexpr auto w2 = sinter::weight<"w2">;
[[maybe_unused]] constexpr auto b = sinter::vector<"b">;

#ifdef SINTER_BAD
[[maybe_unused]] constexpr auto filter = sinter::weight<"filter", 64, 3, 3, 32>;
#else
[[maybe_unused]] constexpr auto filter = sinter::weight<"filter", 64, 3, 3, 64>;
#endif
[[maybe_unused]] constexpr auto plan =
    sinter::partition(sinter::conv2d(sinter::tensor<"image", 1, 56, 56, 64>, filter));
