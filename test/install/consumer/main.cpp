// A user's program: it is built and run by each way of using Sinter (see ../consume.sh). The chain is the README's.
#include <cstdio>
#include <sinter/sinter.hpp>
#include <vector>

constexpr auto x = sinter::tensor<"x">;
constexpr auto w = sinter::weight<"w">;
constexpr auto b = sinter::vector<"b">;
constexpr auto r = sinter::tensor<"r">;
constexpr auto chain = sinter::relu(sinter::conv2d(x, w, {.pad = 1}) + b + r);
static_assert(sinter::partition(chain).group_count() == 1);

int main() {
  constexpr sinter::version version = sinter::library_version;
  std::printf("sinter %d.%d.%d onednn=%d jit=%d\n", version.major, version.minor, version.patch,
              SINTER_WITH_ONEDNN, SINTER_WITH_JIT);

  std::vector<float> const image(8 * 8 * 16, 1), filter(16 * 3 * 3 * 16, 0.25F), bias(16, -1);
  std::vector<float> const skip(8 * 8 * 16, 0.5F);
  std::vector<float> result(8 * 8 * 16);
  auto kernel = sinter::compile<sinter::f32>(chain, x.dims(1, 8, 8, 16), w.dims(16, 3, 3, 16));
  auto packed = kernel.pack(w = filter);
  kernel(x = image, packed, b = bias, r = skip, sinter::out = result);

  // 4 taps lie inside of the image at a corner, 9 in the middle; 16 channels of 0.25 each; bias and skip.
  bool const right = result[0] == 4 * 4 - 0.5F && result[9 * 16] == 9 * 4 - 0.5F;
  std::printf("corner %g, middle %g: %s\n", result[0], result[9 * 16], right ? "right" : "WRONG");
  return right ? 0 : 1;
}
