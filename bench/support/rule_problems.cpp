#include "rule_problems.hpp"

#include <array>

namespace sinter_bench {
namespace {

using extents = std::map<std::string, sinter::shape>;

extents product(sinter::extent m, sinter::extent n, sinter::extent k) {
  return {{"x", {m, k}}, {"w", {k, n}}};
}

void add_products(std::vector<work>& list) {
  std::string const bias = "matmul(x, w) | add b:vector", gelu = bias + " | gelu_tanh";
  for (int size : {1, 4, 16, 32, 64, 128, 256, 512})
    list.push_back({gelu, product(size, size, size)});
  for (auto const& [m, n, k] :
       {std::array{1, 64, 64}, {1, 768, 768}, {1, 3072, 768}, {1, 768, 3072}, {1, 2048, 2048}})
    list.push_back({bias, product(m, n, k)});
  for (auto const& [m, n, k] : {std::array{768, 1, 768},
                                {64, 1, 64},
                                {1, 1, 768},
                                {16, 1, 4096},
                                {1024, 1, 64},
                                {128, 2, 768},
                                {256, 7, 256},
                                {1000, 10, 512},
                                {4096, 16, 16}})
    list.push_back({bias, product(m, n, k)});
  for (auto const& [m, n, k] : {std::array{4, 768, 768},
                                {16, 3072, 768},
                                {33, 100, 257},
                                {128, 768, 3072},
                                {128, 3072, 768},
                                {512, 512, 8},
                                {16, 16, 8192},
                                {3136, 64, 64},
                                {7, 1000, 2048}})
    list.push_back({bias + " | relu", product(m, n, k)});
  // The second operand is no weight: attention's two products, and a plain matrix.
  list.push_back(
      {"matmul(x, w:tensor, transposed_weight)", {{"x", {12, 128, 64}}, {"w", {12, 128, 64}}}});
  list.push_back({"matmul(x, w:tensor)", {{"x", {12, 128, 128}}, {"w", {12, 128, 64}}}});
  list.push_back({"matmul(x, w:tensor)", {{"x", {12, 1, 128}}, {"w", {12, 128, 64}}}});
  list.push_back({"matmul(x, w:tensor)", {{"x", {12, 12, 64}}, {"w", {12, 64, 12}}}});
  list.push_back({"matmul(x, w:tensor)", {{"x", {64, 1, 128}}, {"w", {64, 128, 1}}}});
  for (auto const& [k, m] :
       {std::array{768, 768}, {64, 64}, {4096, 64}, {64, 4096}, {1000, 10}, {300, 100}})
    list.push_back({"matmul(x, w, transposed_src)", {{"x", {k, m}}, {"w", {k, 1}}}});
  list.push_back({"matmul(x, w:tensor)", product(16, 64, 64)});
  list.push_back({"matmul(x, w:tensor)", product(256, 256, 256)});
  list.push_back({"matmul(x, w:tensor, transposed_weight)", {{"x", {64, 512}}, {"w", {512, 512}}}});
}

extents image(sinter::extent n, sinter::extent side, sinter::extent in, sinter::extent out,
              sinter::extent kernel, sinter::extent groups = 1) {
  return {{"x", {n, side, side, in}}, {"w", {out, kernel, kernel, in / groups}}};
}

void add_convolutions(std::vector<work>& list) {
  auto const add = [&list](std::string const& attributes, extents const& of) {
    list.push_back({"conv2d(x, w" + attributes + ") | add b:vector | relu", of});
  };
  for (auto const& [side, in, out] : {std::array{56, 64, 256},
                                      {56, 256, 64},
                                      {28, 24, 144},
                                      {14, 256, 1024},
                                      {7, 512, 2048},
                                      {1, 2048, 1000}})
    add("", image(1, side, in, out, 1));
  for (auto const& [side, channels] :
       {std::array{56, 64}, {28, 128}, {14, 256}, {7, 512}, {30, 20}, {8, 32}})
    add(", pad=1", image(1, side, channels, channels, 3));
  add(", stride=2, pad=1", image(1, 28, 256, 256, 3));
  add(", stride=2", image(1, 28, 512, 1024, 1));
  add(", pad=2, dilation=2", image(1, 28, 128, 128, 3));
  add(", pad=1", image(4, 7, 512, 512, 3));
  add(", stride=2, pad=3", image(1, 224, 3, 64, 7));
  add(", stride=2, pad=1", image(1, 224, 3, 32, 3));
  add(", stride=16", image(1, 224, 3, 768, 16));
  add(", pad=2", image(1, 28, 1, 16, 5));
  for (auto const& [side, channels] : {std::array{56, 128}, {28, 256}, {14, 512}, {7, 1024}})
    add(", pad=1, groups=32", image(1, side, channels, channels, 3, 32));
  add(", groups=2", image(1, 14, 256, 256, 1, 2));
  add(", groups=3", image(1, 28, 240, 60, 1, 3));
  for (auto const& [side, channels] : {std::array{112, 32}, {56, 144}, {14, 384}, {7, 960}})
    add(", pad=1, groups=" + std::to_string(channels),
        image(1, side, channels, channels, 3, channels));
  add(", stride=2, pad=2, groups=240", image(1, 28, 240, 240, 5, 240));
  list.push_back(
      {"conv1d(x, w, pad=1) | add b:vector | relu", {{"x", {1, 256, 64}}, {"w", {64, 3, 64}}}});
  list.push_back(
      {"conv3d(x, w, pad=1) | relu", {{"x", {1, 8, 28, 28, 32}}, {"w", {32, 3, 3, 3, 32}}}});
}

void add_rest(std::vector<work>& list) {
  list.push_back({"relu(x) | add r:tensor", {{"x", {512, 768}}}});
  list.push_back({"gelu_tanh(x)", {{"x", {128, 3072}}}});
}

}  // namespace

std::vector<work> rule_problems() {
  std::vector<work> list;
  add_products(list);
  add_convolutions(list);
  add_rest(list);
  return list;
}

}  // namespace sinter_bench
