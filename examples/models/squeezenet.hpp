// SqueezeNet 1.1 (Iandola et al., "SqueezeNet: AlexNet-level accuracy with 50x fewer parameters", figures 1 and 2):
// fire modules, a 1 x 1 squeeze and two expansions side by side. Both write into slices of one map, so the concat costs
// nothing; a pooling that follows is done by each for its own slice.
#pragma once

#include "blocks.hpp"

namespace models {

inline constexpr auto squeezed = sinter::let<"squeezed">;
inline constexpr auto points = sinter::output_named<"points">;
inline constexpr auto windows = sinter::output_named<"windows">;

struct stored {
  static constexpr auto of(auto const& v) { return v; }
};
/// The last window may reach over the edge.
struct pooled {
  static constexpr auto of(auto const& v) {
    return sinter::max_pool(v, {.kernel = 3, .stride = 2, .ceil = true});
  }
};

template <class Last>
inline constexpr auto fire =
    define(squeezed = relu(conv2d(x, w1) + b1),
           sinter::outputs(points = Last::of(relu(conv2d(squeezed, w2) + b2)),
                           windows = Last::of(relu(conv2d(squeezed, w3, {.pad = 1}) + b3))));

static_assert(sinter::partition(fire<stored>).group_count() == 3);
static_assert(sinter::partition(fire<pooled>).group_count() == 3);

template <class Last>
net_value add_fire(builder& net, int index, net_value const& v, extent squeeze, extent expand) {
  std::string const name = sub("features", index);
  auto const narrow = net.conv_bias(sub(name, "squeeze"), {squeeze, channels_of(v), 1, 1});
  auto const point = net.conv_bias(sub(name, "expand1x1"), {expand, squeeze, 1, 1});
  auto const window = net.conv_bias(sub(name, "expand3x3"), {expand, squeeze, 3, 3});
  return net.concat(net.add(name, fire<Last>, x = v, w1 = narrow.weight, b1 = narrow.bias,
                            w2 = point.weight, b2 = point.bias, w3 = window.weight,
                            b3 = window.bias));
}

inline net_value squeezenet1_1(builder& net, net_value const& image) {
  net_value v = net.add_conv("features.0", pooled::of(conv_relu({.stride = 2})), image,
                             net.conv_bias("features.0", {64, 3, 3, 3}));
  v = add_fire<stored>(net, 3, v, 16, 64);
  v = add_fire<pooled>(net, 4, v, 16, 64);
  v = add_fire<stored>(net, 6, v, 32, 128);
  v = add_fire<pooled>(net, 7, v, 32, 128);
  v = add_fire<stored>(net, 9, v, 48, 192);
  v = add_fire<stored>(net, 10, v, 48, 192);
  v = add_fire<stored>(net, 11, v, 64, 256);
  v = add_fire<stored>(net, 12, v, 64, 256);
  v = net.add_conv("classifier.1", sinter::global_avg_pool(conv_relu()), v,
                   net.conv_bias("classifier.1", {1000, 512, 1, 1}));
  return net.flatten(v);
}

}  // namespace models
