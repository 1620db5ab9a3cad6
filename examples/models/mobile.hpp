// MobileNetV2 (Sandler et al., "MobileNetV2: Inverted Residuals and Linear Bottlenecks", table 2) and MnasNet (Tan et
// al., "MnasNet: Platform-Aware Neural Architecture Search for Mobile", figure 7): 1 x 1 wide, a depthwise filter,
// 1 x 1 narrow again without an activation, and the input added where the sizes agree.
#pragma once

#include "blocks.hpp"

namespace models {

inline constexpr auto expanded = sinter::let<"expanded">;
inline constexpr auto filtered = sinter::let<"filtered">;

struct plain_relu {
  static constexpr auto of(auto const& v) { return relu(v); }
};
struct capped_relu {
  static constexpr auto of(auto const& v) { return relu6(v); }
};

/// A depthwise filter of kernel 2 * pad + 1 and a 1 x 1 convolution.
template <class Activation>
constexpr auto separable(int channels, int stride, int pad) {
  return define(filtered = Activation::of(
                    conv2d(x, w1, {.stride = stride, .pad = pad, .groups = channels}) + b1),
                conv2d(filtered, w2) + b2);
}
template <class Activation>
constexpr auto inverted_residual(int channels, int stride, int pad) {
  return define(expanded = Activation::of(conv2d(x, w1) + b1),
                filtered = Activation::of(
                    conv2d(expanded, w2, {.stride = stride, .pad = pad, .groups = channels}) + b2),
                conv2d(filtered, w3) + b3);
}
template <class Activation>
constexpr auto inverted_residual_added(int channels, int pad) {
  return define(
      expanded = Activation::of(conv2d(x, w1) + b1),
      filtered = Activation::of(conv2d(expanded, w2, {.pad = pad, .groups = channels}) + b2),
      conv2d(filtered, w3) + b3 + x);
}

static_assert(sinter::partition(separable<plain_relu>(32, 1, 1)).group_count() == 2);
static_assert(sinter::partition(inverted_residual<capped_relu>(96, 2, 1)).group_count() == 3);
static_assert(sinter::partition(inverted_residual_added<plain_relu>(96, 2)).group_count() == 3);

/// Where the weights of one block lie: keys of its convolutions, each followed by its batch norm's.
struct inverted_keys {
  std::string expand, expand_bn, filter, filter_bn, project, project_bn;
};

struct inverted_sizes {
  extent factor, out;
  int kernel, stride;
};

template <class Activation>
net_value add_inverted_residual(builder& net, std::string const& name, inverted_keys const& k,
                                net_value const& v, inverted_sizes const& s) {
  extent const in = channels_of(v), wide = in * s.factor;
  int const pad = s.kernel / 2;
  auto const narrow = net.conv_bn(k.project, k.project_bn, {s.out, wide, 1, 1});
  auto const filter = net.conv_bn(k.filter, k.filter_bn, {wide, 1, s.kernel, s.kernel});
  if (s.factor == 1)
    return net.add(name, separable<Activation>(static_cast<int>(wide), s.stride, pad), x = v,
                   w1 = filter.weight, b1 = filter.bias, w2 = narrow.weight, b2 = narrow.bias);
  auto const widen = net.conv_bn(k.expand, k.expand_bn, {wide, in, 1, 1});
  if (s.stride == 1 && in == s.out)
    return net.add(name, inverted_residual_added<Activation>(static_cast<int>(wide), pad), x = v,
                   w1 = widen.weight, b1 = widen.bias, w2 = filter.weight, b2 = filter.bias,
                   w3 = narrow.weight, b3 = narrow.bias);
  return net.add(name, inverted_residual<Activation>(static_cast<int>(wide), s.stride, pad), x = v,
                 w1 = widen.weight, b1 = widen.bias, w2 = filter.weight, b2 = filter.bias,
                 w3 = narrow.weight, b3 = narrow.bias);
}

/// How often a block is repeated; the stride is the first one's.
struct stage {
  inverted_sizes sizes;
  int repeats;
};

inline net_value mobilenet_v2(builder& net, net_value const& image) {
  constexpr stage stages[] = {{{1, 16, 3, 1}, 1}, {{6, 24, 3, 2}, 2}, {{6, 32, 3, 2}, 3},
                              {{6, 64, 3, 2}, 4}, {{6, 96, 3, 1}, 3}, {{6, 160, 3, 2}, 3},
                              {{6, 320, 3, 1}, 1}};
  net_value v = net.add_conv("features.0", conv_relu6({.stride = 2, .pad = 1}), image,
                             net.conv_bn("features.0.0", "features.0.1", {32, 3, 3, 3}));
  int index = 1;
  for (stage const& s : stages)
    for (int i = 0; i < s.repeats; ++i, ++index) {
      std::string const name = sub("features", index), c = sub(name, "conv");
      // Without an expansion, what follows it moves one place up.
      int const at = s.sizes.factor == 1 ? 0 : 1;
      inverted_keys const keys{sub(c, "0.0"),      sub(c, "0.1"),  sub(sub(c, at), 0),
                               sub(sub(c, at), 1), sub(c, at + 1), sub(c, at + 2)};
      inverted_sizes sizes = s.sizes;
      if (i > 0) sizes.stride = 1;
      v = add_inverted_residual<capped_relu>(net, name, keys, v, sizes);
    }
  v = net.add_conv("features.18", conv_relu6(), v,
                   net.conv_bn("features.18.0", "features.18.1", {1280, 320, 1, 1}));
  return classifier(net, v, "classifier.1");
}

inline net_value mnasnet1_0(builder& net, net_value const& image) {
  constexpr stage stages[] = {{{3, 24, 3, 2}, 3}, {{3, 40, 5, 2}, 3},  {{6, 80, 5, 2}, 3},
                              {{6, 96, 3, 1}, 2}, {{6, 192, 5, 2}, 4}, {{6, 320, 3, 1}, 1}};
  net_value v = net.add_conv("layers.0", conv_relu({.stride = 2, .pad = 1}), image,
                             net.conv_bn("layers.0", "layers.1", {32, 3, 3, 3}));
  v = add_inverted_residual<plain_relu>(
      net, "layers.3", {{}, {}, "layers.3", "layers.4", "layers.6", "layers.7"}, v, {1, 16, 3, 1});
  int index = 8;
  for (stage const& s : stages) {
    for (int i = 0; i < s.repeats; ++i) {
      std::string const name = sub(sub("layers", index), i), l = sub(name, "layers");
      inverted_keys const keys{sub(l, 0), sub(l, 1), sub(l, 3), sub(l, 4), sub(l, 6), sub(l, 7)};
      inverted_sizes sizes = s.sizes;
      if (i > 0) sizes.stride = 1;
      v = add_inverted_residual<plain_relu>(net, name, keys, v, sizes);
    }
    ++index;
  }
  v = net.add_conv("layers.14", conv_relu(), v,
                   net.conv_bn("layers.14", "layers.15", {1280, 320, 1, 1}));
  return classifier(net, v, "classifier.1");
}

}  // namespace models
