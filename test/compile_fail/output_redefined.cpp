// Each output has its own name.
// EXPECT: two_outputs_have_the_same_name
#include "sinter/plan/partition.hpp"

[[maybe_unused]] constexpr auto x = sinter::tensor<"x">;
[[maybe_unused]] constexpr auto w = sinter::weight<"w">;
[[maybe_unused]] constexpr auto w2 = sinter::weight<"w2">;
[[maybe_unused]] constexpr auto b = sinter::vector<"b">;

[[maybe_unused]] constexpr auto h = sinter::let<"h">;
#ifdef SINTER_BAD
[[maybe_unused]] constexpr auto second = sinter::out = sinter::relu(h);
#else
[[maybe_unused]] constexpr auto second = sinter::output_named<"activated"> = sinter::relu(h);
#endif
[[maybe_unused]] constexpr auto plan = sinter::partition(
    sinter::define(h = sinter::matmul(x, w), sinter::outputs(sinter::out = h, second)));
