// Equal steps before a contraction do not hide that it is used twice.
// EXPECT: the_same_contraction_is_used_twice_name_its_value_with_let
#include "sinter/plan/partition.hpp"

[[maybe_unused]] constexpr auto x = sinter::tensor<"x">;
[[maybe_unused]] constexpr auto w = sinter::weight<"w">;
#ifdef SINTER_BAD
constexpr auto y = sinter::matmul(sinter::relu(2 * x), w);
#else
constexpr auto y = sinter::let<"y">(sinter::matmul(sinter::relu(2 * x), w));
#endif
[[maybe_unused]] constexpr auto plan = sinter::partition(y * sinter::sigmoid(y));
