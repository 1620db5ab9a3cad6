// The blocks that the networks share, each one constexpr expression, and the builder that fetches their weights.
//
// A block's operands are x (what it reads), r (a residual from elsewhere), and w1, b1, w2, b2, ... in the order of its
// convolutions, whose batch norms are folded into them. Numbers (strides, groups) are values; the structure is in the
// type, so the plans below are constants: the assertions would break the build if an activation, a bias or a
// residual became a pass of its own. Keys of weights are torchvision's.
#pragma once

#include <sinter/network.hpp>
#include <string>
#include <utility>

#include "../support/weights.hpp"

namespace models {

using sinter::conv2d, sinter::define, sinter::extent, sinter::matmul, sinter::net_value,
    sinter::relu, sinter::relu6;

inline constexpr auto x = sinter::tensor<"x">;
inline constexpr auto r = sinter::tensor<"r">;
inline constexpr auto w1 = sinter::weight<"w1">;
inline constexpr auto w2 = sinter::weight<"w2">;
inline constexpr auto w3 = sinter::weight<"w3">;
inline constexpr auto w4 = sinter::weight<"w4">;
inline constexpr auto b1 = sinter::vector<"b1">;
inline constexpr auto b2 = sinter::vector<"b2">;
inline constexpr auto b3 = sinter::vector<"b3">;
inline constexpr auto b4 = sinter::vector<"b4">;
inline constexpr auto scale = sinter::vector<"scale">;
inline constexpr auto shift = sinter::vector<"shift">;

using conv_options = sinter::conv_options;

/// A batch norm follows each convolution; its shift is the bias.
constexpr auto conv(conv_options const& o = {}) { return conv2d(x, w1, o) + b1; }
constexpr auto conv_relu(conv_options const& o = {}) { return relu(conv(o)); }
constexpr auto conv_relu6(conv_options const& o = {}) { return relu6(conv(o)); }

/// A linear layer on rows.
inline constexpr auto linear = matmul(x, w1) + b1;

static_assert(sinter::partition(conv_relu()).group_count() == 1);
static_assert(sinter::partition(linear).group_count() == 1);

/// Names of torchvision: "layer1" and 0 give "layer1.0".
inline std::string sub(std::string const& name, std::string const& part) {
  return name + "." + part;
}
inline std::string sub(std::string const& name, int part) {
  return sub(name, std::to_string(part));
}

/// A network_builder that says of each weight which extents the architecture gives it: those of torchvision, so that
/// a file which does not fit is refused and the formula knows what to make.
class builder : public sinter::network_builder {
 public:
  builder(sinter::precision const& dtypes, example::weights weights,
          sinter::options const& chosen = {})
      : network_builder(dtypes, weights.source(), chosen), weights_(std::move(weights)) {}

  /// A convolution O,I,H,W without a bias and the batch norm behind it.
  sinter::folded conv_bn(std::string const& conv, std::string const& bn,
                         sinter::shape const& dims) {
    weights_.expect(sub(conv, "weight"), dims);
    expect_norm(bn, dims[0]);
    return fold_batch_norm(conv, bn);
  }
  /// A batch norm that no convolution comes before.
  sinter::affine norm(std::string const& key, extent channels) {
    expect_norm(key, channels);
    return batch_norm(key);
  }
  /// A convolution with a bias.
  sinter::folded conv_bias(std::string const& key, sinter::shape const& dims) {
    return {with_bias(key, dims).oihw(), vector(sub(key, "bias"))};
  }
  /// A convolution without either.
  sinter::parameter conv_plain(std::string const& key, sinter::shape const& dims) {
    weights_.expect(sub(key, "weight"), dims);
    return weight(sub(key, "weight")).oihw();
  }
  /// A linear layer [out, in] on rows.
  sinter::folded linear(std::string const& key, extent out, extent in) {
    return {with_bias(key, {out, in}).transposed(), vector(sub(key, "bias"))};
  }
  /// A linear layer on a flattened map C,H,W: a convolution with a kernel as large as the map.
  sinter::folded linear_on_map(std::string const& key, extent out, sinter::shape const& map) {
    sinter::shape const dims{out, map[0], map[1], map[2]};
    return {with_bias(key, {out, map[0] * map[1] * map[2]}).reshaped(dims).oihw(),
            vector(sub(key, "bias"))};
  }

  /// A block of one layer.
  net_value add_conv(std::string const& name, auto const& block, net_value const& from,
                     sinter::folded const& f) {
    return add(name, block, x = from, w1 = f.weight, b1 = f.bias);
  }

 private:
  void expect_norm(std::string const& key, extent channels) {
    for (char const* part : {"weight", "bias", "running_mean", "running_var"})
      weights_.expect(sub(key, part), {channels});
  }
  sinter::parameter with_bias(std::string const& key, sinter::shape const& dims) {
    weights_.expect(sub(key, "weight"), dims);
    weights_.expect(sub(key, "bias"), {dims[0]});
    return weight(sub(key, "weight"));
  }

  example::weights weights_;
};

inline extent channels_of(net_value const& v) { return v.dims().back(); }

/// Global average pooling and one linear layer: how most networks end.
inline net_value classifier(builder& net, net_value const& v, std::string const& key,
                            extent classes = 1000) {
  net_value const pooled = net.add("pool", sinter::global_avg_pool(x), x = v);
  return net.add_conv(key, linear, net.flatten(pooled), net.linear(key, classes, channels_of(v)));
}

}  // namespace models
