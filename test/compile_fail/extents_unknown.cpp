// Extents of a name that the chain does not have.
// EXPECT: the chain has no operand and no output of this name
#define SINTER_EXTERN_BACKENDS 1  // declarations are enough here
#include <sinter/sinter.hpp>

[[maybe_unused]] constexpr auto x = sinter::tensor<"x">;
[[maybe_unused]] constexpr auto w = sinter::weight<"w">;
[[maybe_unused]] constexpr auto bias = sinter::vector<"bias">;
[[maybe_unused]] constexpr auto other = sinter::tensor<"other">;
[[maybe_unused]] constexpr auto chain = sinter::relu(sinter::matmul(x, w) + bias);

void run(float* data) {
  auto const kernel = sinter::compile<sinter::f32>(chain, x.dims(2, 2), w.dims(2, 2));
  auto const packed = kernel.pack(w = sinter::view(data, {2, 2}));
  [[maybe_unused]] auto const v = sinter::view(data, {2, 2});
  [[maybe_unused]] auto const b = sinter::view(data, {2});
#ifdef SINTER_BAD
  auto const again =
      sinter::compile<sinter::f32>(chain, x.dims(2, 2), w.dims(2, 2), other.dims(2, 2));
#else
  auto const again = sinter::compile<sinter::f32>(chain, x.dims(2, 2), w.dims(2, 2));
#endif
}
