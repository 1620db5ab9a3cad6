// A transposition is a way to read an operand of matmul.
// EXPECT: transposed\(\) stands only directly inside matmul
#include "sinter/plan/partition.hpp"

[[maybe_unused]] constexpr auto x = sinter::tensor<"x">;
[[maybe_unused]] constexpr auto w = sinter::weight<"w">;
[[maybe_unused]] constexpr auto w2 = sinter::weight<"w2">;
[[maybe_unused]] constexpr auto b = sinter::vector<"b">;

#ifdef SINTER_BAD
[[maybe_unused]] constexpr auto plan =
    sinter::partition(sinter::matmul(sinter::relu(sinter::transposed(x)), w));
#else
[[maybe_unused]] constexpr auto plan = sinter::partition(sinter::matmul(sinter::transposed(x), w));
#endif
