// What PyTorch says of the ten networks with weights from names, and how far scores are from it. Read
// examples/data/README.md for where the numbers come from.
#pragma once

#include <algorithm>
#include <cmath>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "../support/formula_weights.hpp"
#include "../support/safetensors.hpp"

namespace models {

/// The image of the formula, C,H,W there, as H,W,C.
inline std::vector<float> formula_image() {
  std::vector<float> const planes = example::formula_input();
  std::vector<float> pixels(planes.size());
  std::size_t const count = planes.size() / 3;
  for (std::size_t i = 0; i < pixels.size(); ++i) pixels[i] = planes[i % 3 * count + i / 3];
  return pixels;
}

/// |got - expected| / |expected|, as lengths of vectors.
inline double relative_error(std::span<float const> got, std::span<float const> expected) {
  double apart = 0, length = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    double const e = static_cast<double>(expected[i]), d = static_cast<double>(got[i]) - e;
    apart += d * d;
    length += e * e;
  }
  return std::sqrt(apart / length);
}

/// Do they see the same?
inline bool same_best(std::span<float const> got, std::span<float const> expected) {
  return std::max_element(expected.begin(), expected.end()) - expected.begin() ==
         std::max_element(got.begin(), got.end()) - got.begin();
}

/// The most that scores may be off: f32 three times what PyTorch's own f32 is, bf16 twice what its autocast is.
struct tolerance {
  double f32 = 2e-6, bf16 = 2 * 0.011;
};
/// vgg16's sums have 27 to 25088 terms; one accumulator adds at most 4608 of them, 36000 over its layers. One that adds
/// n terms is off by about 0.4 * 2^-24 * sqrt(n / 2) of the sum, and layers add up as squares do: 3.2e-6.
constexpr tolerance tolerance_of(std::string_view model) {
  if (model == "mobilenet_v2") return {2e-5, 2 * 0.07};
  if (model == "vgg16") return {3.2e-6, tolerance{}.bf16};
  return {};
}

class expected_scores {
 public:
  explicit expected_scores(std::string const& folder)
      : file_(example::safetensors::read(folder + "/vision_logits.safetensors").value()) {}
  std::span<float const> of(std::string_view model) const {
    return file_.get<float>(model, {1000}).value();
  }

 private:
  example::safetensors file_;
};

}  // namespace models
