// What the tests of networks share: operands, whole-number weights whose sums are exact on every path, plain loops.
#pragma once

#include "helpers.hpp"

#include <cmath>
#include <map>
#include <sinter/network.hpp>
#include <string>
#include <vector>

namespace network_test {

using run_test::extent;
using run_test::on;
using run_test::quiet;
using run_test::shape;
using sinter::net_value;
using sinter::network;
using sinter::network_builder;

inline constexpr auto x = sinter::tensor<"x">;
inline constexpr auto r = sinter::tensor<"r">;
inline constexpr auto w = sinter::weight<"w">;
inline constexpr auto b = sinter::vector<"b">;

inline constexpr auto conv3 = sinter::relu(sinter::conv2d(x, w, {.pad = 1}) + b);
inline constexpr auto conv1 = sinter::relu(sinter::conv2d(x, w) + b);
inline constexpr auto residual3 = sinter::relu(sinter::conv2d(x, w, {.pad = 1}) + b + r);

/// Whole numbers from -limit to limit.
inline std::vector<float> whole(extent n, unsigned seed, int limit = 1) {
  std::vector<float> v(static_cast<std::size_t>(n));
  std::uint32_t state = seed * 2654435761U + 12345U;
  for (float& f : v) {
    state = state * 1664525U + 1013904223U;
    f = static_cast<float>(static_cast<int>((state >> 16) % static_cast<unsigned>(2 * limit + 1)) -
                           limit);
  }
  return v;
}

/// Weights by name, as PyTorch stores them.
struct store {
  struct tensor {
    shape dims;
    std::vector<float> data;
  };
  std::map<std::string, tensor, std::less<>> held;

  void conv(std::string const& name, extent out, extent in, extent k) {
    auto const seed = static_cast<unsigned>(held.size() + 1);
    held[name + ".weight"] = {{out, in, k, k}, whole(out * in * k * k, seed)};
    held[name + ".bias"] = {{out}, whole(out, seed + 100)};
  }
  std::vector<float> const& operator[](std::string const& name) const { return held.at(name).data; }
  sinter::weight_source source() const {
    return [this](std::string_view name) -> sinter::result<sinter::tensor_view> {
      auto const it = held.find(name);
      if (it == held.end())
        return sinter::failure{sinter::code::bad_argument,
                               "sinter: there is no weight '" + std::string(name) + "'"};
      return sinter::tensor_view(sinter::view(it->second.data.data(), it->second.dims));
    };
  }
};

/// An NHWC image.
struct image {
  extent n = 1, h = 1, w = 1, c = 1;
  std::vector<float> data;

  static image random(extent n, extent rows, extent columns, extent c, unsigned seed) {
    return {n, rows, columns, c, whole(n * rows * columns * c, seed, 2)};
  }
  extent pixels() const { return n * h * w; }
  shape dims() const { return {n, h, w, c}; }
  sinter::tensor_view view() const { return sinter::view(data.data(), dims()); }
  float at(extent pixel, extent channel) const {
    return data[static_cast<std::size_t>(pixel * c + channel)];
  }
};

/// relu(conv + bias + added), stride 1, padding (k - 1) / 2, the result rounded to `type`.
inline image plain_conv(store const& s, std::string const& name, image const& in,
                        image const* added = nullptr, sinter::dtype type = sinter::dtype::f32) {
  store::tensor const& weight = s.held.at(name + ".weight");
  extent const out_c = weight.dims[0], k = weight.dims[2], pad = (k - 1) / 2;
  image y{in.n, in.h, in.w, out_c, {}};
  y.data.resize(static_cast<std::size_t>(y.pixels() * out_c));
  for (extent n = 0; n < in.n; ++n)
    for (extent h = 0; h < in.h; ++h)
      for (extent col = 0; col < in.w; ++col)
        for (extent o = 0; o < out_c; ++o) {
          extent const pixel = (n * in.h + h) * in.w + col;
          double sum = s.held.at(name + ".bias").data[static_cast<std::size_t>(o)];
          for (extent i = 0; i < in.c; ++i)
            for (extent dy = 0; dy < k; ++dy)
              for (extent dx = 0; dx < k; ++dx) {
                extent const py = h + dy - pad, px = col + dx - pad;
                if (py < 0 || px < 0 || py >= in.h || px >= in.w) continue;
                sum +=
                    double{in.at((n * in.h + py) * in.w + px, i)} *
                    double{
                        weight.data[static_cast<std::size_t>(((o * in.c + i) * k + dy) * k + dx)]};
              }
          if (added != nullptr) sum += double{added->at(pixel, o)};
          y.data[static_cast<std::size_t>(pixel * out_c + o)] =
              sinter::round_to(type, static_cast<float>(sum > 0 ? sum : 0));
        }
  return y;
}

inline image plain_concat(std::vector<image> const& parts) {
  image y = parts[0];
  y.c = 0;
  y.data.clear();
  for (image const& p : parts) y.c += p.c;
  for (extent pixel = 0; pixel < y.pixels(); ++pixel)
    for (image const& p : parts)
      for (extent c = 0; c < p.c; ++c) y.data.push_back(p.at(pixel, c));
  return y;
}
inline image plain_channels(image const& in, extent first, extent count) {
  image y{in.n, in.h, in.w, count, {}};
  for (extent pixel = 0; pixel < y.pixels(); ++pixel)
    for (extent c = 0; c < count; ++c) y.data.push_back(in.at(pixel, first + c));
  return y;
}
inline image plain_shuffle(image const& in, extent groups) {
  image y{in.n, in.h, in.w, in.c, {}};
  for (extent pixel = 0; pixel < y.pixels(); ++pixel)
    for (extent c = 0; c < in.c; ++c)
      y.data.push_back(in.at(pixel, c % groups * (in.c / groups) + c / groups));
  return y;
}

/// The output of a network with one input and one output, whatever its dtype, as floats.
inline std::vector<float> run(network const& net, image const& in, shape const& out_dims) {
  auto const input = net.describe("image").value();
  auto const output = net.describe("out").value();
  std::vector<sinter::bfloat16> low_in;
  sinter::tensor_view view = in.view();
  if (input.type == sinter::dtype::bf16) {
    for (float v : in.data) low_in.push_back(sinter::to_bfloat16(v));
    view = sinter::view(low_in.data(), in.dims());
  }
  auto const count = static_cast<std::size_t>(sinter::element_count(out_dims));
  std::vector<float> result(count, std::nanf(""));
  if (output.type == sinter::dtype::f32) {
    net(view, sinter::view(result.data(), out_dims));
    return result;
  }
  std::vector<sinter::bfloat16> low(count);
  net(view, sinter::view(low.data(), out_dims));
  for (std::size_t i = 0; i < count; ++i) result[i] = sinter::to_float(low[i]);
  return result;
}

/// Adds one of the blocks above with the weights of that name.
template <class Block>
net_value add_conv(network_builder& net, std::string const& name, Block const& block,
                   net_value const& in) {
  return net.add(name, block, x = in, w = net.weight(name + ".weight").oihw(),
                 b = net.vector(name + ".bias"));
}

inline bool has(std::string const& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

}  // namespace network_test
