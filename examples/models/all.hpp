// The ten networks of torchvision that the project is measured by, by torchvision's names.
#pragma once

#include <string_view>
#include <utility>
#include <vector>

#include "densenet.hpp"
#include "mobile.hpp"
#include "plain.hpp"
#include "resnet.hpp"
#include "shufflenet.hpp"
#include "squeezenet.hpp"

namespace models {

struct architecture {
  std::string_view name;
  /// From an image N,H,W,3 to the scores N,1000.
  net_value (*add)(builder&, net_value const& image);
};

inline constexpr architecture architectures[] = {
    {"resnet18", resnet18},         {"resnet50", resnet50},
    {"mobilenet_v2", mobilenet_v2}, {"vgg16", vgg16},
    {"alexnet", alexnet},           {"squeezenet1_1", squeezenet1_1},
    {"mnasnet1_0", mnasnet1_0},     {"resnext50_32x4d", resnext50_32x4d},
    {"densenet121", densenet121},   {"shufflenet_v2_x1_0", shufflenet_v2_x1_0},
};

/// Null where there is none of that name.
constexpr architecture const* find_architecture(std::string_view name) {
  for (architecture const& a : architectures)
    if (a.name == name) return &a;
  return nullptr;
}

/// The whole network for images of `side` pixels: "image" N,H,W,3 goes in, "out" N,1000 comes out, both in f32 whatever
/// the network computes in. Either number may be sinter::dynamic where the architecture allows it.
inline sinter::result<sinter::network> build(architecture const& a, sinter::precision const& dtypes,
                                             example::weights weights,
                                             sinter::options const& chosen = {}, extent batch = 1,
                                             extent side = 224) {
  builder net(dtypes, std::move(weights), chosen);
  net_value const image = net.input("image", {batch, side, side, 3}, sinter::dtype::f32);
  return net.build({{"out", a.add(net, image), sinter::dtype::f32}});
}

/// The scores of `batch` images that lie one behind the other.
inline std::vector<float> scores(sinter::network const& net, std::vector<float> const& images,
                                 extent batch = 1, extent side = 224) {
  std::vector<float> values(static_cast<std::size_t>(batch * 1000));
  net(sinter::view(images.data(), {batch, side, side, 3}),
      sinter::view(values.data(), {batch, 1000}));
  return values;
}

}  // namespace models
