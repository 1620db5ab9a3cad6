// ResNet (He et al., "Deep Residual Learning for Image Recognition", figure 5 and table 1) and ResNeXt (Xie et al.,
// "Aggregated Residual Transformations for Deep Neural Networks", figure 3c): four stages of residual blocks behind a
// 7 x 7 stem. The stride of a bottleneck stands in its 3 x 3 convolution, as torchvision has it.
#pragma once

#include "blocks.hpp"

namespace models {

inline constexpr auto hidden1 = sinter::let<"hidden1">;
inline constexpr auto hidden2 = sinter::let<"hidden2">;
inline constexpr auto shortcut = sinter::let<"shortcut">;

/// Two 3 x 3 convolutions around which x goes by.
inline constexpr auto basic_block = define(hidden1 = relu(conv2d(x, w1, {.pad = 1}) + b1),
                                           relu(conv2d(hidden1, w2, {.pad = 1}) + b2 + x));

/// The same where x changes its size: w3 is the projection.
constexpr auto basic_block_projected(int stride) {
  return define(shortcut = conv2d(x, w3, {.stride = stride}) + b3,
                hidden1 = relu(conv2d(x, w1, {.stride = stride, .pad = 1}) + b1),
                relu(conv2d(hidden1, w2, {.pad = 1}) + b2 + shortcut));
}

/// 1 x 1 down, 3 x 3, 1 x 1 up. ResNeXt's 3 x 3 is cut into groups.
constexpr auto bottleneck(int groups) {
  return define(hidden1 = relu(conv2d(x, w1) + b1),
                hidden2 = relu(conv2d(hidden1, w2, {.pad = 1, .groups = groups}) + b2),
                relu(conv2d(hidden2, w3) + b3 + x));
}
constexpr auto bottleneck_projected(int stride, int groups) {
  return define(
      shortcut = conv2d(x, w4, {.stride = stride}) + b4, hidden1 = relu(conv2d(x, w1) + b1),
      hidden2 = relu(conv2d(hidden1, w2, {.stride = stride, .pad = 1, .groups = groups}) + b2),
      relu(conv2d(hidden2, w3) + b3 + shortcut));
}

static_assert(sinter::partition(basic_block).group_count() == 2);
static_assert(sinter::partition(basic_block_projected(2)).group_count() == 3);
static_assert(sinter::partition(bottleneck(1)).group_count() == 3);
static_assert(sinter::partition(bottleneck_projected(2, 32)).group_count() == 4);

inline net_value resnet_stem(builder& net, net_value const& image) {
  return net.add_conv(
      "stem",
      sinter::max_pool(conv_relu({.stride = 2, .pad = 3}), {.kernel = 3, .stride = 2, .pad = 1}),
      image, net.conv_bn("conv1", "bn1", {64, 3, 7, 7}));
}

inline net_value add_basic_block(builder& net, std::string const& name, net_value const& v,
                                 extent planes, int stride) {
  extent const in = channels_of(v);
  auto const c1 = net.conv_bn(sub(name, "conv1"), sub(name, "bn1"), {planes, in, 3, 3});
  auto const c2 = net.conv_bn(sub(name, "conv2"), sub(name, "bn2"), {planes, planes, 3, 3});
  if (stride == 1 && in == planes)
    return net.add(name, basic_block, x = v, w1 = c1.weight, b1 = c1.bias, w2 = c2.weight,
                   b2 = c2.bias);
  auto const project =
      net.conv_bn(sub(name, "downsample.0"), sub(name, "downsample.1"), {planes, in, 1, 1});
  return net.add(name, basic_block_projected(stride), x = v, w1 = c1.weight, b1 = c1.bias,
                 w2 = c2.weight, b2 = c2.bias, w3 = project.weight, b3 = project.bias);
}

/// `width` channels inside, 4 * planes outside.
inline net_value add_bottleneck(builder& net, std::string const& name, net_value const& v,
                                extent planes, extent width, int stride, int groups) {
  extent const in = channels_of(v), out = 4 * planes;
  auto const c1 = net.conv_bn(sub(name, "conv1"), sub(name, "bn1"), {width, in, 1, 1});
  auto const c2 = net.conv_bn(sub(name, "conv2"), sub(name, "bn2"), {width, width / groups, 3, 3});
  auto const c3 = net.conv_bn(sub(name, "conv3"), sub(name, "bn3"), {out, width, 1, 1});
  if (stride == 1 && in == out)
    return net.add(name, bottleneck(groups), x = v, w1 = c1.weight, b1 = c1.bias, w2 = c2.weight,
                   b2 = c2.bias, w3 = c3.weight, b3 = c3.bias);
  auto const project =
      net.conv_bn(sub(name, "downsample.0"), sub(name, "downsample.1"), {out, in, 1, 1});
  return net.add(name, bottleneck_projected(stride, groups), x = v, w1 = c1.weight, b1 = c1.bias,
                 w2 = c2.weight, b2 = c2.bias, w3 = c3.weight, b3 = c3.bias, w4 = project.weight,
                 b4 = project.bias);
}

inline net_value resnet18(builder& net, net_value const& image) {
  net_value v = resnet_stem(net, image);
  for (int depth = 0; depth < 4; ++depth)
    for (int block = 0; block < 2; ++block)
      v = add_basic_block(net, sub("layer" + std::to_string(depth + 1), block), v, 64 << depth,
                          depth > 0 && block == 0 ? 2 : 1);
  return classifier(net, v, "fc");
}

/// 3, 4, 6 and 3 bottlenecks; each is `groups` paths of `path_width` channels at the first stage.
inline net_value resnet_of_bottlenecks(builder& net, net_value const& image, int groups,
                                       extent path_width) {
  constexpr int blocks[] = {3, 4, 6, 3};
  net_value v = resnet_stem(net, image);
  for (int depth = 0; depth < 4; ++depth)
    for (int block = 0; block < blocks[depth]; ++block)
      v = add_bottleneck(net, sub("layer" + std::to_string(depth + 1), block), v, 64 << depth,
                         (groups * path_width) << depth, depth > 0 && block == 0 ? 2 : 1, groups);
  return classifier(net, v, "fc");
}

inline net_value resnet50(builder& net, net_value const& image) {
  return resnet_of_bottlenecks(net, image, 1, 64);
}
inline net_value resnext50_32x4d(builder& net, net_value const& image) {
  return resnet_of_bottlenecks(net, image, 32, 4);
}

}  // namespace models
