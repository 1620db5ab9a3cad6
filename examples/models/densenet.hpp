// DenseNet (Huang et al., "Densely Connected Convolutional Networks", figures 1 and 2, table 1): within a block each
// layer reads everything before it and appends 32 channels. A batch norm and relu come before the convolution, so
// they are a prologue on what it reads, with a scale and a shift of its own for each layer.
#pragma once

#include "blocks.hpp"

namespace models {

inline constexpr auto activated = sinter::let<"activated">;
inline constexpr auto narrowed = sinter::let<"narrowed">;

inline constexpr auto norm_relu = relu(x * scale + shift);

/// 1 x 1 to 128 channels and its batch norm, then 3 x 3 to 32.
inline constexpr auto dense_layer =
    define(activated = norm_relu, narrowed = relu(conv2d(activated, w1) + b1),
           conv2d(narrowed, w2, {.pad = 1}));
/// Half as many channels, half the size.
inline constexpr auto transition = define(
    activated = norm_relu, sinter::avg_pool(conv2d(activated, w1), {.kernel = 2, .stride = 2}));

inline net_value add_dense_layer(builder& net, std::string const& name, net_value const& v) {
  constexpr extent growth = 32, inner = 4 * growth;
  auto const first = net.norm(sub(name, "norm1"), channels_of(v));
  auto const narrow =
      net.conv_bn(sub(name, "conv1"), sub(name, "norm2"), {inner, channels_of(v), 1, 1});
  return net.add(name, dense_layer, x = v, scale = first.scale, shift = first.shift,
                 w1 = narrow.weight, b1 = narrow.bias,
                 w2 = net.conv_plain(sub(name, "conv2"), {growth, inner, 3, 3}));
}

inline net_value add_transition(builder& net, std::string const& name, net_value const& v) {
  auto const first = net.norm(sub(name, "norm"), channels_of(v));
  return net.add(
      name, transition, x = v, scale = first.scale, shift = first.shift,
      w1 = net.conv_plain(sub(name, "conv"), {channels_of(v) / 2, channels_of(v), 1, 1}));
}

inline net_value densenet121(builder& net, net_value const& image) {
  constexpr int layers[] = {6, 12, 24, 16};
  net_value v = net.add_conv(
      "features.conv0",
      sinter::max_pool(conv_relu({.stride = 2, .pad = 3}), {.kernel = 3, .stride = 2, .pad = 1}),
      image, net.conv_bn("features.conv0", "features.norm0", {64, 3, 7, 7}));
  for (int b = 1; b <= 4; ++b) {
    std::string const block = "features.denseblock" + std::to_string(b);
    for (int i = 1; i <= layers[b - 1]; ++i)
      v = net.concat({v, add_dense_layer(net, sub(block, "denselayer" + std::to_string(i)), v)});
    if (b < 4) v = add_transition(net, "features.transition" + std::to_string(b), v);
  }
  auto const last = net.norm("features.norm5", channels_of(v));
  v = net.add("features.norm5", norm_relu, x = v, scale = last.scale, shift = last.shift);
  return classifier(net, v, "classifier");
}

}  // namespace models
