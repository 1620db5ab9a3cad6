// An output is writable.
// EXPECT: an output is written to, and this view is read-only
#include "sinter/plan/partition.hpp"

[[maybe_unused]] constexpr auto x = sinter::tensor<"x">;
[[maybe_unused]] constexpr auto w = sinter::weight<"w">;
[[maybe_unused]] constexpr auto w2 = sinter::weight<"w2">;
[[maybe_unused]] constexpr auto b = sinter::vector<"b">;

float storage[4];
#ifdef SINTER_BAD
float const* const result = storage;
#else
float* const result = storage;
#endif
[[maybe_unused]] auto const bound = sinter::out = sinter::view(result, {2, 2});
