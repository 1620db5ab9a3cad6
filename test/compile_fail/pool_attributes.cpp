// A pad as large as the window: a window of padding alone would have no largest value.
// EXPECT: a_pooling_wants_kernel_and_stride_of_at_least_1_and_pad_of_at_least_0_below_the_kernel
#include "sinter/plan/partition.hpp"

[[maybe_unused]] constexpr auto x = sinter::tensor<"x">;

#ifdef SINTER_BAD
[[maybe_unused]] constexpr auto plan =
    sinter::partition(sinter::max_pool(x, {.kernel = 2, .pad = 2}));
#else
[[maybe_unused]] constexpr auto plan =
    sinter::partition(sinter::max_pool(x, {.kernel = 2, .pad = 1}));
#endif
