// A let is defined before it is read.
// EXPECT: a_let_name_is_read_before_it_is_defined
#include "sinter/plan/partition.hpp"

[[maybe_unused]] constexpr auto x = sinter::tensor<"x">;
[[maybe_unused]] constexpr auto w = sinter::weight<"w">;
[[maybe_unused]] constexpr auto w2 = sinter::weight<"w2">;
[[maybe_unused]] constexpr auto b = sinter::vector<"b">;

[[maybe_unused]] constexpr auto h = sinter::let<"h">;
#ifdef SINTER_BAD
[[maybe_unused]] constexpr auto plan = sinter::partition(sinter::matmul(h, w2) + h);
#else
[[maybe_unused]] constexpr auto plan =
    sinter::partition(sinter::define(h = sinter::matmul(x, w), sinter::matmul(h, w2) + h));
#endif
