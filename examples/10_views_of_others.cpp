// Views of other libraries: whatever looks like std::mdspan binds as it is, strides included.
#include <array>
#include <cstdio>
#include <sinter/sinter.hpp>
#include <vector>
#if __has_include(<mdspan>)
#include <mdspan>
#endif

// A matrix view of one's own. The concept sinter::mdspan_like asks for rank(), extent(i), stride(i) and data_handle();
// std::mdspan has them (C++23), so has the reference implementation of it, and so has this.
struct matrix_view {
  float* data;
  std::array<sinter::extent, 2> extents, steps;

  static constexpr std::size_t rank() { return 2; }
  constexpr sinter::extent extent(std::size_t i) const { return extents[i]; }
  constexpr sinter::extent stride(std::size_t i) const { return steps[i]; }
  constexpr float* data_handle() const { return data; }
};
static_assert(sinter::mdspan_like<matrix_view> && sinter::viewable<matrix_view>);

constexpr auto x = sinter::tensor<"x">;
constexpr auto w = sinter::weight<"w">;
constexpr auto b = sinter::vector<"b">;
constexpr auto layer = sinter::relu(sinter::matmul(x, w) + b);

int main() {
  std::vector<float> table{1, 2, 9, 9,  //
                           3, 4, 9, 9};
  std::vector<float> weights{1, 0, 0, 1, 1, 1};  // stored [out, in]
  std::array<float, 3> bias{0, -1, 0.5F};
  std::vector<float> result(2 * 3);

  matrix_view const left{table.data(), {2, 2}, {4, 1}};      // two columns of four
  matrix_view const in_out{weights.data(), {2, 3}, {1, 2}};  // the transposed weight
  matrix_view const out_view{result.data(), {2, 3}, {3, 1}};
  sinter::options const quiet{.on_fallback = sinter::policy::allow,
                              .on_split = sinter::policy::allow};

  // compile() takes extents and strides from a view, too.
  auto kernel = sinter::compile<sinter::f32>(layer, x.like(left), w.dims(2, 3), quiet);
  kernel(x = left, kernel.pack(w = in_out), b = bias, sinter::out = out_view);
  std::printf("%g %g %g\n%g %g %g\n", result[0], result[1], result[2], result[3], result[4],
              result[5]);

#if defined(__cpp_lib_mdspan)
  std::mdspan<float const, std::dextents<int, 2>, std::layout_stride> const same(
      table.data(), {std::dextents<int, 2>(2, 2), std::array<int, 2>{4, 1}});
  std::vector<float> again(2 * 3);
  kernel(x = same, kernel.pack(w = in_out), b = bias, sinter::out = again);
  if (again != result) return 1;
#endif
}
