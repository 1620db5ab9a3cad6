// A matrix is no image.
// EXPECT: an_operand_of_a_contraction_has_the_wrong_static_rank
#include "sinter/plan/partition.hpp"

#ifdef SINTER_BAD
constexpr auto image = sinter::tensor<"image", 56, 64>;
#else
constexpr auto image = sinter::tensor<"image", 1, 56, 56, 64>;
#endif
[[maybe_unused]] constexpr auto plan =
    sinter::partition(sinter::conv2d(image, sinter::weight<"filter">));
