// Reads the network and the digits, classifies them, counts, and draws some.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "../support/safetensors.hpp"
#include "digits_network.hpp"

namespace digits {

inline constexpr int classes = 10;
inline constexpr int side = 8;

/// 500 real digits, what they are, and what PyTorch says of each.
struct samples {
  example::safetensors file;
  std::span<std::uint8_t const> pixels, labels;
  std::span<float const> logits;

  explicit samples(std::string const& path)
      : file(example::safetensors::read(path).value()),
        pixels(file.get<std::uint8_t>("images", {batch, 1, side, side}).value()),
        labels(file.get<std::uint8_t>("labels", {batch}).value()),
        logits(file.get<float>("logits", {batch, classes}).value()) {}
};

struct answers {
  std::vector<float> logits;
  std::string explanation;
  std::string why_peer;  ///< empty: strict numerics

  int predicted(int i) const {
    auto const first = logits.begin() + i * classes;
    return static_cast<int>(std::max_element(first, first + classes) - first);
  }
  int correct(samples const& s) const {
    int n = 0;
    for (int i = 0; i < batch; ++i)
      n += predicted(i) == s.labels[static_cast<std::size_t>(i)] ? 1 : 0;
    return n;
  }
  float largest_difference(samples const& s) const {
    float largest = 0;
    for (std::size_t i = 0; i < logits.size(); ++i) {
      float const difference = std::fabs(logits[i] - s.logits[i]);
      if (!(difference <= largest)) largest = difference;  // a NaN stays
    }
    return largest;
  }
};

/// Pixels of 0 to 16 as 0 to 1, exact in either type.
template <class T>
std::vector<T> as_input(std::span<std::uint8_t const> pixels) {
  std::vector<T> input;
  for (std::uint8_t const p : pixels) {
    float const v = static_cast<float>(p) / 16;
    if constexpr (std::is_same_v<T, float>)
      input.push_back(v);
    else
      input.push_back(sinter::to_bfloat16(v));
  }
  return input;
}

/// The network under strict numerics where each group runs as one fast kernel, else with the library's own answers for
/// NaN and infinities (peer), and the sentence that says why.
template <sinter::precision Precision>
std::pair<sinter::program_for<std::remove_const_t<decltype(network)>>, std::string> compiled() {
  auto strict = sinter::try_compile<Precision>(
      network,
      sinter::options{.on_fallback = sinter::policy::error, .on_split = sinter::policy::error});
  if (strict.ok()) return {std::move(strict).value(), {}};
  return {sinter::compile<Precision>(network, sinter::options{.numerics = sinter::numerics::peer}),
          strict.error().message};
}

/// All digits at once. PyTorch stores convolution weights O,I,H,W: oihw() shows them to Sinter as they lie. A linear
/// layer's [out, in] over the flattened C,H,W map is the same memory.
template <sinter::precision Precision>
answers classify(example::safetensors const& file, samples const& digits) {
  using input_type =
      std::conditional_t<Precision.src == sinter::dtype::f32, float, sinter::bfloat16>;
  auto const [kernel, why_peer] = compiled<Precision>();
  auto const weight = [&](char const* name, sinter::shape const& dims) {
    return file.get<float>(name, dims).value().data();
  };
  auto const bias = [&](char const* name, sinter::extent n) {
    return file.get<float>(name, {n}).value();
  };
  auto const packed = kernel.pack(
      conv1_weight = sinter::oihw(weight("conv1.weight", {16, 1, 3, 3}), 16, 1, 3, 3),
      conv2_weight = sinter::oihw(weight("conv2.weight", {32, 16, 3, 3}), 32, 16, 3, 3),
      conv3_weight = sinter::oihw(weight("conv3.weight", {32, 32, 3, 3}), 32, 32, 3, 3),
      fc1_weight = sinter::oihw(weight("fc1.weight", {64, 512}), 64, 32, 4, 4),
      fc2_weight = sinter::oihw(weight("fc2.weight", {classes, 64}), classes, 64, 1, 1));

  std::vector<input_type> const input = as_input<input_type>(digits.pixels);
  answers a{std::vector<float>(static_cast<std::size_t>(batch * classes)), kernel.explain(),
            why_peer};
  kernel(image = input, packed, conv1_bias = bias("conv1.bias", 16),
         conv2_bias = bias("conv2.bias", 32), conv3_bias = bias("conv3.bias", 32),
         fc1_bias = bias("fc1.bias", 64), fc2_bias = bias("fc2.bias", classes),
         sinter::out = a.logits);
  return a;
}

/// Digits side by side, each pixel two characters wide, and what was made of each.
inline void draw(samples const& s, answers const& a, std::vector<int> const& which) {
  static constexpr char const* shades[] = {"  ", "░░", "▒▒", "▓▓", "██"};
  for (int row = 0; row < side; ++row) {
    for (int const i : which) {
      std::printf("  ");
      for (int column = 0; column < side; ++column)
        std::printf(
            "%s",
            shades[(s.pixels[static_cast<std::size_t>((i * side + row) * side + column)] + 3) / 4]);
    }
    std::printf("\n");
  }
  for (int const i : which) {
    int const label = s.labels[static_cast<std::size_t>(i)], said = a.predicted(i);
    std::printf("  %d, read as %d%s", label, said, label == said ? "    " : " (!)");
  }
  std::printf("\n");
}

/// The first few that were read right and the first few that were not.
inline std::vector<int> some_digits(samples const& s, answers const& a, int right, int wrong) {
  std::vector<int> which;
  for (bool const want_right : {true, false}) {
    int left = want_right ? right : wrong;
    for (int i = 0; i < batch && left > 0; ++i)
      if ((a.predicted(i) == s.labels[static_cast<std::size_t>(i)]) == want_right) {
        which.push_back(i);
        --left;
      }
  }
  return which;
}

}  // namespace digits
