// The network of the demo as one Sinter expression: read it as its architecture.
//
// Images are N,H,W,C. Extents stand in the leaves, so the compiler checks that the layers fit each other; the plan is a
// constant too, and the last line would break the build if a bias, a residual or an activation became a pass of its own.
#pragma once

#include <sinter/sinter.hpp>

namespace digits {

inline constexpr sinter::extent batch = 500;

inline constexpr auto image = sinter::tensor<"image", batch, 8, 8, 1>;

inline constexpr auto conv1_weight = sinter::weight<"conv1.weight", 16, 3, 3, 1>;
inline constexpr auto conv1_bias = sinter::vector<"conv1.bias">;
inline constexpr auto conv2_weight = sinter::weight<"conv2.weight", 32, 3, 3, 16>;
inline constexpr auto conv2_bias = sinter::vector<"conv2.bias">;
inline constexpr auto conv3_weight = sinter::weight<"conv3.weight", 32, 3, 3, 32>;
inline constexpr auto conv3_bias = sinter::vector<"conv3.bias">;
/// A linear layer over a whole 4 x 4 map is a convolution with a 4 x 4 kernel, and one over a 1 x 1 map a 1 x 1 one.
inline constexpr auto fc1_weight = sinter::weight<"fc1.weight", 64, 4, 4, 32>;
inline constexpr auto fc1_bias = sinter::vector<"fc1.bias">;
inline constexpr auto fc2_weight = sinter::weight<"fc2.weight", 10, 1, 1, 64>;
inline constexpr auto fc2_bias = sinter::vector<"fc2.bias">;

inline constexpr auto edges = sinter::let<"edges">;    // 8 x 8 x 16
inline constexpr auto parts = sinter::let<"parts">;    // 4 x 4 x 32
inline constexpr auto joined = sinter::let<"joined">;  // 4 x 4 x 32
inline constexpr auto hidden = sinter::let<"hidden">;  // 64

using sinter::conv2d, sinter::gelu_tanh, sinter::relu;

inline constexpr auto network =
    sinter::define(edges = relu(conv2d(image, conv1_weight, {.pad = 1}) + conv1_bias),
                   parts = relu(conv2d(edges, conv2_weight, {.stride = 2, .pad = 1}) + conv2_bias),
                   joined = relu(conv2d(parts, conv3_weight, {.pad = 1}) + conv3_bias + parts),
                   hidden = gelu_tanh(conv2d(joined, fc1_weight) + fc1_bias),
                   conv2d(hidden, fc2_weight) + fc2_bias);

static_assert(sinter::partition(network).group_count() == 5, "one fused group for each layer");

/// bf16 throughout, the scores in f32.
inline constexpr sinter::precision bf16 = [] {
  sinter::precision p = sinter::bf16;
  p.dst = sinter::dtype::f32;
  return p;
}();

}  // namespace digits
