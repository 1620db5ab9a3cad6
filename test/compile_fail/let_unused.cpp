// A definition that nobody reads is a mistake.
// EXPECT: a_let_is_defined_and_never_read
#include "sinter/plan/partition.hpp"

[[maybe_unused]] constexpr auto x = sinter::tensor<"x">;
[[maybe_unused]] constexpr auto w = sinter::weight<"w">;
[[maybe_unused]] constexpr auto w2 = sinter::weight<"w2">;
[[maybe_unused]] constexpr auto b = sinter::vector<"b">;

[[maybe_unused]] constexpr auto h = sinter::let<"h">;
#ifdef SINTER_BAD
[[maybe_unused]] constexpr auto plan =
    sinter::partition(sinter::define(h = sinter::matmul(x, w), sinter::matmul(x, w2)));
#else
[[maybe_unused]] constexpr auto plan =
    sinter::partition(sinter::define(h = sinter::matmul(x, w), sinter::matmul(h, w2)));
#endif
