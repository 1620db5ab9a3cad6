// ShuffleNet V2 (Ma et al., "ShuffleNet V2: Practical Guidelines for Efficient CNN Architecture Design", figures 3c and
// 3d, table 5): half of the channels go by, the other half through 1 x 1, depthwise, 1 x 1; then both halves are
// shuffled together. The split is an address, the shuffle one pass that reads both halves where they lie.
#pragma once

#include "blocks.hpp"

namespace models {

inline constexpr auto wide = sinter::let<"wide">;
inline constexpr auto spread = sinter::let<"spread">;

/// The branch that computes: no activation behind the depthwise filter.
constexpr auto shuffle_branch(int channels, int stride) {
  return define(wide = relu(conv2d(x, w1) + b1),
                spread = conv2d(wide, w2, {.stride = stride, .pad = 1, .groups = channels}) + b2,
                relu(conv2d(spread, w3) + b3));
}
/// What the other half goes through where the map is halved.
constexpr auto shuffle_shortcut(int channels) {
  return define(spread = conv2d(x, w1, {.stride = 2, .pad = 1, .groups = channels}) + b1,
                relu(conv2d(spread, w2) + b2));
}

static_assert(sinter::partition(shuffle_branch(58, 1)).group_count() == 3);
static_assert(sinter::partition(shuffle_shortcut(24)).group_count() == 2);

inline net_value add_shuffle_branch(builder& net, std::string const& name, net_value const& v,
                                    extent half, int stride) {
  auto const c1 = net.conv_bn(sub(name, 0), sub(name, 1), {half, channels_of(v), 1, 1});
  auto const c2 = net.conv_bn(sub(name, 3), sub(name, 4), {half, 1, 3, 3});
  auto const c3 = net.conv_bn(sub(name, 5), sub(name, 6), {half, half, 1, 1});
  return net.add(name, shuffle_branch(static_cast<int>(half), stride), x = v, w1 = c1.weight,
                 b1 = c1.bias, w2 = c2.weight, b2 = c2.bias, w3 = c3.weight, b3 = c3.bias);
}

inline net_value add_shuffle_shortcut(builder& net, std::string const& name, net_value const& v,
                                      extent half) {
  extent const in = channels_of(v);
  auto const c1 = net.conv_bn(sub(name, 0), sub(name, 1), {in, 1, 3, 3});
  auto const c2 = net.conv_bn(sub(name, 2), sub(name, 3), {half, in, 1, 1});
  return net.add(name, shuffle_shortcut(static_cast<int>(in)), x = v, w1 = c1.weight, b1 = c1.bias,
                 w2 = c2.weight, b2 = c2.bias);
}

/// Two halves of the channels, the first of a unit that halves the map being the whole map twice.
inline net_value add_shuffle_unit(builder& net, std::string const& name, net_value const& v,
                                  extent half, bool halves_map) {
  net_value const by = halves_map ? add_shuffle_shortcut(net, sub(name, "branch1"), v, half)
                                  : net.channels(v, 0, half);
  net_value const through = halves_map ? v : net.channels(v, half, half);
  net_value const computed =
      add_shuffle_branch(net, sub(name, "branch2"), through, half, halves_map ? 2 : 1);
  return net.channel_shuffle(net.concat({by, computed}), 2);
}

inline net_value shufflenet_v2_x1_0(builder& net, net_value const& image) {
  constexpr struct {
    int repeats;
    extent channels;
  } stages[] = {{4, 116}, {8, 232}, {4, 464}};
  net_value v = net.add_conv(
      "conv1",
      sinter::max_pool(conv_relu({.stride = 2, .pad = 1}), {.kernel = 3, .stride = 2, .pad = 1}),
      image, net.conv_bn("conv1.0", "conv1.1", {24, 3, 3, 3}));
  for (int s = 0; s < 3; ++s)
    for (int i = 0; i < stages[s].repeats; ++i)
      v = add_shuffle_unit(net, sub("stage" + std::to_string(s + 2), i), v, stages[s].channels / 2,
                           i == 0);
  v = net.add_conv("conv5", conv_relu(), v, net.conv_bn("conv5.0", "conv5.1", {1024, 464, 1, 1}));
  return classifier(net, v, "fc");
}

}  // namespace models
