// An output is computed.
// EXPECT: an_output_is_an_operand_as_it_came_nothing_is_computed
#include "sinter/plan/partition.hpp"

[[maybe_unused]] constexpr auto x = sinter::tensor<"x">;
[[maybe_unused]] constexpr auto w = sinter::weight<"w">;
[[maybe_unused]] constexpr auto w2 = sinter::weight<"w2">;
[[maybe_unused]] constexpr auto b = sinter::vector<"b">;

#ifdef SINTER_BAD
[[maybe_unused]] constexpr auto plan = sinter::partition(x);
#else
[[maybe_unused]] constexpr auto plan = sinter::partition(sinter::relu(x));
#endif
