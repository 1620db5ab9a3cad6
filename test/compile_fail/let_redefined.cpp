// A let has one definition.
// EXPECT: one_let_name_is_defined_twice_with_different_expressions
#include "sinter/plan/partition.hpp"

[[maybe_unused]] constexpr auto x = sinter::tensor<"x">;
[[maybe_unused]] constexpr auto w = sinter::weight<"w">;
[[maybe_unused]] constexpr auto w2 = sinter::weight<"w2">;
[[maybe_unused]] constexpr auto b = sinter::vector<"b">;

[[maybe_unused]] constexpr auto h = sinter::let<"h">;
#ifdef SINTER_BAD
[[maybe_unused]] constexpr auto again = h(sinter::conv2d(x, w, {.stride = 2}));
#else
[[maybe_unused]] constexpr auto again = h(sinter::conv2d(x, w, {.stride = 1}));
#endif
[[maybe_unused]] constexpr auto plan =
    sinter::partition(sinter::conv2d(h(sinter::conv2d(x, w)), w2) + again);
