// A value that is read twice has a name.
// EXPECT: the_same_contraction_is_used_twice_name_its_value_with_let
#include "sinter/plan/partition.hpp"

[[maybe_unused]] constexpr auto x = sinter::tensor<"x">;
[[maybe_unused]] constexpr auto w = sinter::weight<"w">;
[[maybe_unused]] constexpr auto w2 = sinter::weight<"w2">;
[[maybe_unused]] constexpr auto b = sinter::vector<"b">;

#ifdef SINTER_BAD
[[maybe_unused]] constexpr auto y = sinter::relu(sinter::conv2d(x, w));
#else
[[maybe_unused]] constexpr auto y = sinter::let<"y">(sinter::relu(sinter::conv2d(x, w)));
#endif
[[maybe_unused]] constexpr auto plan = sinter::partition(sinter::conv2d(y, w2) + y);
