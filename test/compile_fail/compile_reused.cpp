// compile() holds to the structural rules as partition() does.
// EXPECT: the_same_contraction_is_used_twice_name_its_value_with_let
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
  auto const again = sinter::compile<sinter::f32>(
      sinter::matmul(x, w) + sinter::sigmoid(sinter::matmul(x, w)), x.dims(2, 2), w.dims(2, 2));
#else
  constexpr auto h = sinter::let<"h">;
  auto const again = sinter::compile<sinter::f32>(h(sinter::matmul(x, w)) + sinter::sigmoid(h),
                                                  x.dims(2, 2), w.dims(2, 2));
#endif
}
