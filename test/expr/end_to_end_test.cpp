// From an expression to numbers, through every layer: the same chain on each backend of this build and on a plain loop.
#include <doctest/doctest.h>

#include <sinter/reference/functions.hpp>
#include <sinter/sinter.hpp>
#include <string_view>
#include <vector>

namespace {

constexpr auto x = sinter::tensor<"x">;
constexpr auto w = sinter::weight<"w">;
constexpr auto b = sinter::vector<"b">;
constexpr auto r = sinter::tensor<"r">;
constexpr auto s = sinter::scalar<"s">;
constexpr auto h = sinter::let<"h">;

/// Small integers: every sum is exact in every dtype and on every path.
std::vector<float> integers(std::size_t count, int seed) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i)
    values[i] = static_cast<float>((static_cast<int>(i) * 7 + seed * 5) % 9 - 4);
  return values;
}

constexpr std::string_view backend_names[] = {
    "reference",
#if SINTER_WITH_ONEDNN
    "onednn",
#endif
};

sinter::options on(std::string_view backend) {
  return {.numerics = sinter::numerics::peer,
          .on_fallback = sinter::policy::allow,
          .on_split = sinter::policy::allow,
          .backend = backend};
}

auto const quick_gelu = [](auto value) { return value * sinter::sigmoid(1.702F * value); };

}  // namespace

TEST_CASE("matmul + bias + relu equals a plain loop") {
  int const m = 5, k = 7, n = 3;
  auto const xs = integers(m * k, 1), ws = integers(k * n, 2), bs = integers(n, 3);
  for (std::string_view const backend : backend_names) {
    CAPTURE(backend);
    auto const kernel = sinter::compile<sinter::f32>(sinter::relu(sinter::matmul(x, w) + b),
                                                     x.dims(m, k), w.dims(k, n), on(backend));
    std::vector<float> result(m * n, -1);
    kernel(x = xs, kernel.pack(w = sinter::view(ws.data(), {k, n})), b = bs, sinter::out = result);
    for (std::size_t i = 0; i < m; ++i)
      for (std::size_t j = 0; j < n; ++j) {
        float sum = 0;
        for (std::size_t l = 0; l < k; ++l) sum += xs[i * k + l] * ws[l * n + j];
        sum += bs[j];
        CHECK(result[i * n + j] == (sum > 0 ? sum : 0));
      }
  }
}

TEST_CASE("two groups with a let between them equal the two run one by one") {
  auto const image = integers(1 * 6 * 6 * 4, 1), first = integers(4 * 3 * 3 * 4, 2),
             second = integers(4 * 3 * 3 * 4, 3);
  for (std::string_view const backend : backend_names) {
    CAPTURE(backend);
    auto const block =
        sinter::define(h = sinter::relu(sinter::conv2d(x, w, {.pad = 1})),
                       sinter::relu(sinter::conv2d(h, sinter::weight<"w2">, {.pad = 1}) + h));
    auto const kernel =
        sinter::compile<sinter::f32>(block, x.dims(1, 6, 6, 4), w.dims(4, 3, 3, 4),
                                     sinter::weight<"w2">.dims(4, 3, 3, 4), on(backend));
    CHECK(kernel.group_count() == 2);
    auto const packed =
        kernel.pack(w = sinter::view(first.data(), {4, 3, 3, 4}),
                    sinter::weight<"w2"> = sinter::view(second.data(), {4, 3, 3, 4}));
    std::vector<float> together(image.size()), middle(image.size()), apart(image.size());
    kernel(x = image, packed, sinter::out = together);

    auto const one =
        sinter::compile<sinter::f32>(sinter::relu(sinter::conv2d(x, w, {.pad = 1})),
                                     x.dims(1, 6, 6, 4), w.dims(4, 3, 3, 4), on("reference"));
    one(x = image, one.pack(w = sinter::view(first.data(), {4, 3, 3, 4})), sinter::out = middle);
    auto const two =
        sinter::compile<sinter::f32>(sinter::relu(sinter::conv2d(x, w, {.pad = 1}) + r),
                                     x.dims(1, 6, 6, 4), w.dims(4, 3, 3, 4), on("reference"));
    two(x = middle, r = middle, two.pack(w = sinter::view(second.data(), {4, 3, 3, 4})),
        sinter::out = apart);
    CHECK(together == apart);
  }
}

TEST_CASE("a lambda is the same function on floats and in a chain") {
  auto const xs = integers(4 * 4, 1);
  std::vector<float> identity(16, 0);
  for (std::size_t i = 0; i < 4; ++i) identity[i * 5] = 1;
  auto const kernel = sinter::compile<sinter::f32>(sinter::map(sinter::matmul(x, w), quick_gelu),
                                                   x.dims(4, 4), w.dims(4, 4), on("reference"));
  std::vector<float> result(16);
  kernel(x = xs, kernel.pack(w = sinter::view(identity.data(), {4, 4})), sinter::out = result);
  for (std::size_t i = 0; i < 16; ++i)
    CHECK(result[i] == doctest::Approx(quick_gelu(xs[i])).epsilon(1e-6));
}

TEST_CASE("several outputs, a scalar, a bound call and other pointers") {
  auto const xs = integers(3 * 4, 1), ws = integers(4 * 2, 2);
  for (std::string_view const backend : backend_names) {
    CAPTURE(backend);
    auto const expr = sinter::define(
        h = sinter::matmul(x, w),
        sinter::outputs(sinter::out = sinter::max(h * s, 0), sinter::output_named<"raw"> = h));
    auto const kernel = sinter::compile<sinter::f32>(expr, x.dims(3, 4), w.dims(4, 2), on(backend));
    float half = 0.5F;
    std::vector<float> result(6), raw(6), elsewhere(6);
    auto call = kernel.bind(x = xs, s = half, kernel.pack(w = sinter::view(ws.data(), {4, 2})),
                            sinter::out = result, sinter::output_named<"raw"> = raw);
    call();
    for (std::size_t i = 0; i < 6; ++i) CHECK(result[i] == (raw[i] > 0 ? raw[i] / 2 : 0));
    half = 0.25F;
    call.repoint("out", elsewhere.data()).check();
    call();
    for (std::size_t i = 0; i < 6; ++i) CHECK(elsewhere[i] == (raw[i] > 0 ? raw[i] / 4 : 0));
  }
}

TEST_CASE("a bound call is given other pointers by the names of its operands") {
  auto const kernel =
      sinter::compile<sinter::f32>(sinter::matmul(x, w) + b, x.dims(3, 4), w.dims(4, 2));
  std::vector<float> const ones(12, 1.0F), twos(12, 2.0F), ws(8, 1.0F), bias(2, 0.5F);
  std::vector<float> result(6), elsewhere(6);
  auto call = kernel.bind(x = ones, kernel.pack(w = sinter::view(ws.data(), {4, 2})), b = bias,
                          sinter::out = result);
  call();
  CHECK(result[5] == 4.5F);
  call.repoint(x = twos.data()).check();  // a pointer
  call();
  CHECK(result[5] == 8.5F);
  call.repoint(x = ones).check();  // a view: its extents are looked at
  call.repoint(sinter::out = elsewhere.data()).check();
  call();
  CHECK(elsewhere[5] == 4.5F);
  CHECK(result[5] == 8.5F);
  CHECK(call.repoint(x = bias).error().message.find("operand 'x' has 2 elements; 12 are wanted") !=
        std::string::npos);
  std::vector<sinter::bfloat16> const halves(12);
  CHECK(call.repoint(x = halves.data()).error().message ==
        "sinter: operand 'x' is bf16; f32 is wanted");
  CHECK(call.repoint(w = ws.data()).error().message ==
        "sinter: 'w' cannot be repointed; there are 'x', 'b'");
  // In a call a pointer says no extents.
  CHECK_FALSE(kernel
                  .try_bind(x = ones.data(), kernel.pack(w = sinter::view(ws.data(), {4, 2})),
                            b = bias, sinter::out = result)
                  .ok());
}

TEST_CASE("PyTorch's layouts bind as they are") {
  int const n = 2, c = 3, height = 4, width = 5, o = 2;
  auto const image = integers(n * c * height * width, 1), filter = integers(o * c * 9, 2);
  for (std::string_view const backend : backend_names) {
    CAPTURE(backend);
    auto const kernel = sinter::compile<sinter::f32>(
        sinter::conv2d(x, w, {.pad = 1}), x.dims(n, height, width, c).channels_first(),
        w.dims(o, 3, 3, c), sinter::out.dims(n, height, width, o).channels_first(), on(backend));
    std::vector<float> result(n * o * height * width);
    kernel(x = sinter::nchw(image.data(), n, c, height, width),
           kernel.pack(w = sinter::oihw(filter.data(), o, c, 3, 3)),
           sinter::out = sinter::nchw(result.data(), n, o, height, width));
    auto const at = [](int a, int extent_b, int p, int extent_c, int q, int extent_d, int z) {
      return static_cast<std::size_t>(((a * extent_b + p) * extent_c + q) * extent_d + z);
    };
    for (int image_index = 0; image_index < n; ++image_index)
      for (int oc = 0; oc < o; ++oc)
        for (int row = 0; row < height; ++row)
          for (int column = 0; column < width; ++column) {
            float sum = 0;
            for (int ic = 0; ic < c; ++ic)
              for (int ky = -1; ky <= 1; ++ky)
                for (int kx = -1; kx <= 1; ++kx)
                  if (row + ky >= 0 && row + ky < height && column + kx >= 0 && column + kx < width)
                    sum += image[at(image_index, c, ic, height, row + ky, width, column + kx)] *
                           filter[at(oc, c, ic, 3, ky + 1, 3, kx + 1)];
            CHECK(result[at(image_index, o, oc, height, row, width, column)] == sum);
          }
  }
}

TEST_CASE("numbers that are wrong are refused when they are known, with a sentence") {
  auto const bad_clip = sinter::try_compile<sinter::f32>(sinter::clip(sinter::matmul(x, w), 2, 1),
                                                         x.dims(2, 2), w.dims(2, 2));
  REQUIRE_FALSE(bad_clip.ok());
  CHECK(bad_clip.error().message ==
        "sinter: clip wants a low bound that is not above the high one");

  auto const misfit =
      sinter::try_compile<sinter::f32>(sinter::matmul(x, w), x.dims(2, 3), w.dims(4, 2));
  REQUIRE_FALSE(misfit.ok());
  CHECK(misfit.error().message.find("K is 3 in 'x'") != std::string::npos);

  std::vector<sinter::bfloat16> narrow(4);
  auto const described = sinter::try_compile<sinter::f32>(
      sinter::matmul(x, w), x.like(sinter::view(narrow.data(), {2, 2})), w.dims(2, 2));
  REQUIRE_FALSE(described.ok());
  CHECK(described.error().message.find("'x' is described as bf16") != std::string::npos);
}
