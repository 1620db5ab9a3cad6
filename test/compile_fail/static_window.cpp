// A window of 8 does not fit into 7 pixels.
// EXPECT: a_pooling_wants_an_image_of_static_rank_4_at_least_as_large_as_the_window
#include "sinter/plan/partition.hpp"

[[maybe_unused]] constexpr auto image = sinter::tensor<"image", 1, 7, 7, 8>;

#ifdef SINTER_BAD
[[maybe_unused]] constexpr auto plan = sinter::partition(sinter::max_pool(image, {.kernel = 8}));
#else
[[maybe_unused]] constexpr auto plan = sinter::partition(sinter::max_pool(image, {.kernel = 7}));
#endif
