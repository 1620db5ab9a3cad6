// Several outputs, and extents that each call brings: one compiled program for every batch size.
#include <cstdio>
#include <sinter/sinter.hpp>
#include <vector>

constexpr auto x = sinter::tensor<"x", sinter::dynamic, 4>;
constexpr auto w = sinter::weight<"w", 4, 2>;
constexpr auto b = sinter::vector<"b">;

// The value before the activation is wanted as well (a backward pass needs it). It is computed once, stored twice.
constexpr auto raw = sinter::let<"raw">;
constexpr auto raw_out = sinter::output_named<"raw">;
constexpr auto layer =
    sinter::define(raw = sinter::matmul(x, w) + b,
                   sinter::outputs(sinter::out = sinter::tanh(raw), raw_out = raw));
static_assert(sinter::partition(layer).group_count() == 1);
static_assert(sinter::partition(layer).group(0).outputs.size() == 2);

int main() {
  std::vector<float> const weights{1, 0, 0, 1, 1, 0, 0, 1}, bias{0, 100};
  sinter::options const options{.on_fallback = sinter::policy::allow,
                                .on_split = sinter::policy::allow};
  auto kernel = sinter::compile<sinter::f32>(layer, options);
  auto packed = kernel.pack(w = weights);

  for (sinter::extent rows : {1, 3}) {
    std::vector<float> const input(static_cast<std::size_t>(rows * 4),
                                   static_cast<float>(rows) - 1);
    std::vector<float> activated(static_cast<std::size_t>(rows * 2)), before(activated);
    // A vector says how many elements there are, a view says rows and columns: with dynamic extents that is needed.
    kernel(x = sinter::view(input.data(), {rows, 4}), packed, b = bias,
           sinter::out = sinter::view(activated.data(), {rows, 2}),
           raw_out = sinter::view(before.data(), {rows, 2}));
    std::printf("rows %d: raw %g %g, tanh %.4f %.4f\n", static_cast<int>(rows), before[0],
                before[1], static_cast<double>(activated[0]), static_cast<double>(activated[1]));
  }
}
