// VGG (Simonyan and Zisserman, "Very Deep Convolutional Networks", table 1, column D) and AlexNet (Krizhevsky, "One
// weird trick for parallelizing convolutional neural networks"): convolutions one behind the other, a max pooling
// in the epilogue of some, and three linear layers. Dropout is left out: it does nothing when a network is used.
#pragma once

#include "blocks.hpp"

namespace models {

/// A convolution whose result is pooled before it is stored.
constexpr auto conv_relu_pool(conv_options const& o, int kernel) {
  return sinter::max_pool(conv_relu(o), {.kernel = kernel, .stride = 2});
}

inline constexpr auto linear_relu = relu(linear);

static_assert(sinter::partition(conv_relu_pool({.pad = 1}, 2)).group_count() == 1);

/// The map is flattened C,H,W, so the first layer is a convolution as large as the map.
inline net_value three_linear_layers(builder& net, net_value const& map, extent side,
                                     int const (&index)[3]) {
  auto const key = [&](int i) { return sub("classifier", index[i]); };
  net_value v = net.add_conv(key(0), conv_relu(), map,
                             net.linear_on_map(key(0), 4096, {channels_of(map), side, side}));
  v = net.flatten(v);
  v = net.add_conv(key(1), linear_relu, v, net.linear(key(1), 4096, 4096));
  return net.add_conv(key(2), linear, v, net.linear(key(2), 1000, 4096));
}

inline net_value vgg16(builder& net, net_value const& image) {
  constexpr int pooled = 0;  // ends a stage: the convolution before it is pooled
  constexpr extent plan[] = {64,     64,  pooled, 128, 128,    pooled, 256, 256, 256,
                             pooled, 512, 512,    512, pooled, 512,    512, 512, pooled};
  net_value v = image;
  int index = 0;  // a convolution and its relu are two layers, a pooling is one
  for (std::size_t i = 0; i < std::size(plan); ++i) {
    if (plan[i] == pooled) {
      ++index;
      continue;
    }
    std::string const key = sub("features", index);
    auto const c = net.conv_bias(key, {plan[i], channels_of(v), 3, 3});
    v = plan[i + 1] == pooled ? net.add_conv(key, conv_relu_pool({.pad = 1}, 2), v, c)
                              : net.add_conv(key, conv_relu({.pad = 1}), v, c);
    index += 2;
  }
  return three_linear_layers(net, v, 7, {0, 3, 6});
}

inline net_value alexnet(builder& net, net_value const& image) {
  net_value v = net.add_conv("features.0", conv_relu_pool({.stride = 4, .pad = 2}, 3), image,
                             net.conv_bias("features.0", {64, 3, 11, 11}));
  v = net.add_conv("features.3", conv_relu_pool({.pad = 2}, 3), v,
                   net.conv_bias("features.3", {192, 64, 5, 5}));
  v = net.add_conv("features.6", conv_relu({.pad = 1}), v,
                   net.conv_bias("features.6", {384, 192, 3, 3}));
  v = net.add_conv("features.8", conv_relu({.pad = 1}), v,
                   net.conv_bias("features.8", {256, 384, 3, 3}));
  v = net.add_conv("features.10", conv_relu_pool({.pad = 1}, 3), v,
                   net.conv_bias("features.10", {256, 256, 3, 3}));
  return three_linear_layers(net, v, 6, {1, 4, 6});
}

}  // namespace models
