// A group has at most 64 steps.
// EXPECT: one_group_has_too_many_steps_operands_constants_or_outputs
#include "sinter/plan/partition.hpp"

[[maybe_unused]] constexpr auto x = sinter::tensor<"x">;
[[maybe_unused]] constexpr auto w = sinter::weight<"w">;
[[maybe_unused]] constexpr auto w2 = sinter::weight<"w2">;
[[maybe_unused]] constexpr auto b = sinter::vector<"b">;

template <int Count>
[[maybe_unused]] constexpr auto halved(auto const& value) {
  if constexpr (Count == 0)
    return value;
  else
    return halved<Count - 1>(value * 0.5F);
}
#ifdef SINTER_BAD
[[maybe_unused]] constexpr auto plan = sinter::partition(halved<64>(sinter::matmul(x, w)));
#else
[[maybe_unused]] constexpr auto plan = sinter::partition(halved<63>(sinter::matmul(x, w)));
#endif
