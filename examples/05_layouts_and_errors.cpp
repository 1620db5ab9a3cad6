// Memory as it lies: PyTorch's orders, slices of bigger tensors; and what happens when something does not fit.
#include <cstdio>
#include <sinter/sinter.hpp>
#include <vector>

constexpr auto x = sinter::tensor<"x">;
constexpr auto w = sinter::weight<"w">;
constexpr auto b = sinter::vector<"b">;
constexpr auto conv = sinter::relu(sinter::conv2d(x, w, {.pad = 1}) + b);
constexpr auto linear = sinter::matmul(x, w) + b;

int main() {
  sinter::options const peer{.numerics = sinter::numerics::peer,
                             .on_fallback = sinter::policy::allow,
                             .on_split = sinter::policy::allow};

  // Logical axes are N,H,W,C and O,H,W,I. Tensors of PyTorch lie N,C,H,W and O,I,H,W: the views say so.
  std::vector<float> const image(2 * 4 * 4, 1), filter(3 * 2 * 3 * 3, 1), bias{0, 1, 2};
  std::vector<float> result(3 * 4 * 4);
  auto const image_view = sinter::nchw(image.data(), 1, 2, 4, 4);
  auto const result_view = sinter::nchw(result.data(), 1, 3, 4, 4);
  auto kernel = sinter::compile<sinter::f32>(conv, x.like(image_view), w.dims(3, 3, 3, 2),
                                             sinter::out.like(result_view), peer);
  kernel(x = image_view, kernel.pack(w = sinter::oihw(filter.data(), 3, 2, 3, 3)), b = bias,
         sinter::out = result_view);
  std::printf("channel 2: corner %g, edge %g, middle %g\n", result[32], result[33], result[37]);

  // A weight stored [out, in] is transposed; the source is the left half of a wider matrix, by its stride.
  std::vector<float> const wide{1, 2, 9, 9, 3, 4, 9, 9}, out_in{1, 0, 0, 1, 1, 1};
  std::vector<float> sums(6);
  auto const left = sinter::view(wide.data(), {2, 2}, {4, 1});
  auto small = sinter::compile<sinter::f32>(linear, x.like(left), w.dims(2, 3), peer);
  auto packed = small.pack(w = sinter::transposed(sinter::view(out_in.data(), {3, 2})));
  small(x = left, packed, b = bias, sinter::out = sums);
  std::printf("sums: %g %g %g / %g %g %g\n", sums[0], sums[1], sums[2], sums[3], sums[4], sums[5]);

  // Errors are exceptions, or results where they are expected (and in builds without exceptions).
  auto refused = sinter::try_compile<sinter::f32>(linear, x.dims(2, 5), w.dims(4, 3), peer);
  std::printf("%s\n", refused.ok() ? "compiled" : refused.error().message.c_str());
  std::vector<float> const short_bias{0, 1};
  sinter::status const called =
      small.try_call(x = left, packed, b = short_bias, sinter::out = sums);
  std::printf("%s\n", called.ok() ? "called" : called.error().message.c_str());
  try {
    small(x = sinter::view(wide.data(), {2, 2}), packed, b = bias, sinter::out = sums);
  } catch (sinter::exception const& e) {
    std::printf("%s\n", e.what());
  }
}
