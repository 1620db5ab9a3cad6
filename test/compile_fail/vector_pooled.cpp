// A vector has no rows and columns.
// EXPECT: a_pooling_reads_an_image_not_a_vector_scalar_or_number
#include "sinter/plan/partition.hpp"

[[maybe_unused]] constexpr auto x = sinter::tensor<"x">;
[[maybe_unused]] constexpr auto b = sinter::vector<"b">;

#ifdef SINTER_BAD
[[maybe_unused]] constexpr auto plan = sinter::partition(sinter::global_avg_pool(b));
#else
[[maybe_unused]] constexpr auto plan = sinter::partition(sinter::global_avg_pool(x));
#endif
