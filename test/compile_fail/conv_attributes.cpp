// A stride of 0 goes nowhere.
// EXPECT: a_convolution_wants_stride_dilation_groups_of_at_least_1_and_pad_of_at_least_0
#include "sinter/plan/partition.hpp"

[[maybe_unused]] constexpr auto x = sinter::tensor<"x">;
[[maybe_unused]] constexpr auto w = sinter::weight<"w">;
[[maybe_unused]] constexpr auto w2 = sinter::weight<"w2">;
[[maybe_unused]] constexpr auto b = sinter::vector<"b">;

#ifdef SINTER_BAD
[[maybe_unused]] constexpr auto plan = sinter::partition(sinter::conv2d(x, w, {.stride = 0}));
#else
[[maybe_unused]] constexpr auto plan = sinter::partition(sinter::conv2d(x, w, {.stride = 1}));
#endif
