// A scalar is bound by address: a temporary would be gone before the call.
// EXPECT: deleted
#include "sinter/plan/partition.hpp"

[[maybe_unused]] constexpr auto x = sinter::tensor<"x">;
[[maybe_unused]] constexpr auto w = sinter::weight<"w">;
[[maybe_unused]] constexpr auto w2 = sinter::weight<"w2">;
[[maybe_unused]] constexpr auto b = sinter::vector<"b">;

[[maybe_unused]] float const half = 0.5F;
#ifdef SINTER_BAD
[[maybe_unused]] auto const bound = sinter::scalar<"s"> = 0.5F;
#else
[[maybe_unused]] auto const bound = sinter::scalar<"s"> = half;
#endif
