// A residual block: two convolutions and a skip connection around them, in two fused kernels.
#include <cstdio>
#include <sinter/sinter.hpp>
#include <vector>

constexpr sinter::extent channels = 16, size = 8;

// Extents in the types: the compiler checks that the layers fit, and compile() needs no dims.
constexpr auto x = sinter::tensor<"x", 1, size, size, channels>;
constexpr auto w1 = sinter::weight<"w1", channels, 3, 3, channels>;
constexpr auto w2 = sinter::weight<"w2", channels, 3, 3, channels>;
constexpr auto b1 = sinter::vector<"b1">;
constexpr auto b2 = sinter::vector<"b2">;

// A value that is used more than once gets a name with let; so does one that is worth a name.
constexpr auto h = sinter::let<"h">;

constexpr auto block = sinter::define(h = sinter::relu(sinter::conv2d(x, w1, {.pad = 1}) + b1),
                                      sinter::relu(sinter::conv2d(h, w2, {.pad = 1}) + b2 + x));

// One group for each convolution: the second holds bias, skip connection and relu.
constexpr auto plan = sinter::partition(block);
static_assert(plan.group_count() == 2);
static_assert(plan.group(1).steps.size() == 4);

int main() {
  std::size_t const count = static_cast<std::size_t>(size * size * channels);
  std::vector<float> image(count), result(count);
  for (std::size_t i = 0; i < count; ++i) image[i] = static_cast<float>(i % 5) - 2;

  // A filter whose middle tap passes its own channel through: the first convolution doubles, the second negates.
  std::vector<float> first(static_cast<std::size_t>(channels * 9 * channels)), second(first);
  for (sinter::extent c = 0; c < channels; ++c) {
    auto const middle = static_cast<std::size_t>((c * 9 + 4) * channels + c);
    first[middle] = 2;
    second[middle] = -1;
  }
  std::vector<float> const zeros(static_cast<std::size_t>(channels));

  auto kernel =
      sinter::compile<sinter::f32>(block, sinter::options{.numerics = sinter::numerics::peer});
  auto packed = kernel.pack(w1 = first, w2 = second);
  kernel(x = image, packed, b1 = zeros, b2 = zeros, sinter::out = result);

  // relu(x - relu(2 x)): 0 for every x, since 2 x is more than x where it counts, and x < 0 is cut.
  for (std::size_t i = 0; i < 5; ++i) std::printf("%g -> %g\n", image[i], result[i]);

  std::vector<float> const ones(static_cast<std::size_t>(channels), 1);
  kernel(x = image, packed, b1 = zeros, b2 = ones, sinter::out = result);
  for (std::size_t i = 0; i < 5; ++i) std::printf("%g -> %g\n", image[i], result[i]);
}
