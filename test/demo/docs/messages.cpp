// The examples of docs/errors.md are what the library says, word for word: each case is provoked here.
#include <doctest/doctest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sinter/sinter.hpp>
#include <string>
#include <vector>

namespace {

using sinter::f32;

constexpr auto x = sinter::tensor<"x">;
constexpr auto w = sinter::weight<"w">;
constexpr auto b = sinter::vector<"b">;
constexpr auto r = sinter::tensor<"r">;
constexpr auto s = sinter::scalar<"s">;
constexpr auto product = sinter::matmul(x, w);
constexpr auto layer = product + b;
constexpr auto conv = sinter::conv2d(x, w);

/// The reference backend: these refusals come before any other is asked.
sinter::options quiet() {
  sinter::options o;
  o.backend = "reference";
  return o;
}

bool documented(std::string const& message) {
  static std::string const page = [] {
    std::ifstream file(SINTER_DOCS "/errors.md");
    return std::string{std::istreambuf_iterator<char>(file), {}};
  }();
  return page.find("``" + message + "``") != std::string::npos;
}

template <class Result>
void refused(Result const& made) {
  REQUIRE(!made.ok());
  CHECK_MESSAGE(documented(made.error().message), made.error().message);
}

template <class E, class... Given>
void not_compiled(E const& e, Given const&... given) {
  refused(sinter::try_compile<f32>(e, given..., quiet()));
}

}  // namespace

TEST_CASE("extents that do not fit") {
  not_compiled(layer, x.dims(4, 5), w.dims(8, 3));
  not_compiled(product, x.dims(5), w.dims(5, 3));
  not_compiled(product, x.dims(2, 4, 5), w.dims(3, 5, 3));
  not_compiled(conv, x.dims(8, 8, 3), w.dims(16, 3, 3, 3));
  not_compiled(conv, x.dims(1, 8, 8, 3), w.dims(16, 3, 3, 4));
  not_compiled(sinter::conv2d(x, w, {.groups = 4}), x.dims(1, 8, 8, 4), w.dims(6, 3, 3, 1));
  not_compiled(conv, x.dims(1, 8, 8, 3), w.dims(16, 0, 3, 3));
  not_compiled(conv, x.dims(1, 4, 4, 3), w.dims(16, 5, 5, 3));
  not_compiled(conv, x.dims(1, 8, 8, sinter::dynamic), w.dims(16, 3, 3, 3));
  not_compiled(product, x.dims(4, sinter::dynamic), w.dims(sinter::dynamic, 3));
  not_compiled(product + r, x.dims(4, 5), w.dims(5, 3), r.dims(4, 2));
  not_compiled(product + r, x.dims(4, 5), w.dims(5, 3), r.dims(2, 4, 3));
  not_compiled(layer, x.dims(4, 5), w.dims(5, 3), b.dims(1));
  not_compiled(product * s, x.dims(4, 5), w.dims(5, 3), s.dims(2));
  not_compiled(product, x.dims(4, -2), w.dims(5, 3));
  not_compiled(product, x.dims(sinter::extent{1} << 32, sinter::extent{1} << 32), w.dims(5, 3));
  not_compiled(product, x.dims(sinter::extent{1} << 32, 1), w.dims(1, sinter::extent{1} << 32));
}

TEST_CASE("strides, outputs and sharing") {
  not_compiled(product, x.dims(4, 5).with_strides({5}), w.dims(5, 3));
  not_compiled(product, x.dims(4, 5).with_strides({-5, 1}), w.dims(5, 3));
  not_compiled(product, x.dims(2, sinter::dynamic, 5).with_strides({100, 8, 1}), w.dims(5, 3));
  not_compiled(product, x.dims(4, 5).with_strides({sinter::extent{1} << 62, 1}), w.dims(5, 3));
  not_compiled(product, x.dims(4, 5), w.dims(5, 3), sinter::out.dims(4, 3).with_strides({1, 1}));
  not_compiled(product, x.dims(4, 5), w.dims(5, 3), sinter::out.dims(4, 5));
  sinter::options o = quiet();
  o.in_place = "y";
  refused(sinter::try_compile<f32>(layer, x.dims(4, 5), w.dims(5, 3), o));
  o.in_place = "b";
  refused(sinter::try_compile<f32>(layer, x.dims(4, 5), w.dims(5, 3), o));
  o.in_place = "r";
  refused(sinter::try_compile<f32>(product + r, x.dims(4, 5), w.dims(5, 3), r.dims(1, 3), o));
  refused(sinter::try_compile<f32>(sinter::matmul(r, w), r.dims(4, 5), w.dims(5, 5), o));
  o = quiet();
  for (int threads : {0, 4}) {
    o.threads = threads;
    refused(sinter::try_compile<f32>(product, x.dims(4, 5), w.dims(5, 3), o));
  }
  o = {};
  o.max_isa = sinter::isa::amx_fp16;
  refused(sinter::try_compile<f32>(product, x.dims(4, 5), w.dims(5, 3), o));
}

TEST_CASE("views of a call") {
  std::vector<float> data(64), bias(3), result(64);
  auto const kernel = sinter::compile<f32>(layer, x.dims(4, 5), w.dims(5, 3), quiet());
  auto const packed = kernel.pack(w = sinter::view(data.data(), {5, 3}));
  auto const out = sinter::view(result.data(), {4, 3});
  auto const call = [&](auto const& given) {
    refused(kernel.try_call(x = given, packed, b = bias, sinter::out = out));
  };
  call(sinter::view(data.data(), {20}));
  call(sinter::view(data.data(), {4, 6}));
  call(sinter::view(static_cast<float*>(nullptr), {4, 5}));
  refused(kernel.try_call(x = sinter::view(result.data(), {4, 5}), packed, b = bias,
                          sinter::out = out));
  std::vector<float> const two(2);
  refused(
      kernel.try_call(x = sinter::view(data.data(), {4, 5}), packed, b = two, sinter::out = out));

  auto const strided =
      sinter::compile<f32>(layer, x.dims(4, 5).with_strides({8, 1}), w.dims(5, 3), quiet());
  refused(
      strided.try_call(x = sinter::view(data.data(), {4, 5}), packed, b = bias, sinter::out = out));
  std::vector<float> const flat(20);
  refused(strided.try_call(x = flat, packed, b = bias, sinter::out = out));

  auto const any = sinter::compile<f32>(layer, x.dims(sinter::dynamic, 8), w.dims(8, 3), quiet());
  auto const wide = any.pack(w = sinter::view(data.data(), {8, 3}));
  refused(any.try_call(x = sinter::view(data.data(), {3, 5}), wide, b = bias, sinter::out = out));
  std::vector<float> const rows(16);
  refused(any.try_call(x = rows, wide, b = bias, sinter::out = out));
}

TEST_CASE("bf16 and bound calls") {
  std::vector<float> data(64), bias(3);
  std::vector<sinter::bfloat16> narrow(64), result(12);
  auto const kernel = sinter::compile<sinter::bf16>(layer, x.dims(4, 5), w.dims(5, 3), quiet());
  auto const packed = kernel.pack(w = sinter::view(data.data(), {5, 3}));
  auto const out = sinter::view(result.data(), {4, 3});
  refused(
      kernel.try_call(x = sinter::view(data.data(), {4, 5}), packed, b = bias, sinter::out = out));
  sinter::tensor_view odd = sinter::view(narrow.data(), {4, 5});
  odd.data = reinterpret_cast<char const*>(narrow.data()) + 1;
  refused(kernel.try_call(x = odd, packed, b = bias, sinter::out = out));
  refused(sinter::try_compile<sinter::bf16>(layer, x.like(sinter::view(data.data(), {4, 5})),
                                            w.dims(5, 3), quiet()));

  auto call =
      kernel.bind(x = sinter::view(narrow.data(), {4, 5}), packed, b = bias, sinter::out = out);
  refused(call.repoint("w", data.data()));
  refused(call.repoint("out", static_cast<void const*>(result.data())));
}

TEST_CASE("the environment") {
  setenv("SINTER_MAX_ISA", "avx3", 1);
  refused(sinter::try_compile<f32>(layer, x.dims(4, 5), w.dims(5, 3)));
  unsetenv("SINTER_MAX_ISA");
}
