// Weights from names alone: every tensor of a torchvision network follows a formula, so that a program which knows the
// architecture can be held to the scores that PyTorch computes for the same numbers (examples/data/README.md).
//
//   u_i = splitmix64(fnv1a(name) + i * 0x9e3779b97f4a7c15), i = 1, 2, ..., its upper 24 bits as a number in [-1, 1)
//
// A tensor's name is <model>/<key of the state dict>, its shape PyTorch's own (convolutions O,I,H,W, linear layers
// [out, in]); products are rounded to f32 once. Nothing here knows a network.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <sinter/core/shape.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace example {

/// 64-bit FNV-1a.
constexpr std::uint64_t fnv1a(std::string_view text) {
  std::uint64_t h = 0xcbf29ce484222325;
  for (char const c : text) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return h;
}

/// Number `i` (from 1 on) of the stream that begins at `seed`; exact in f32.
constexpr float stream_value(std::uint64_t seed, std::uint64_t i) {
  std::uint64_t z = seed + i * 0x9e3779b97f4a7c15;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
  z = (z ^ z >> 27) * 0x94d049bb133111eb;
  z ^= z >> 31;
  // Signed, since only that conversion is one instruction; 24 bits are exact.
  return static_cast<float>(static_cast<std::int32_t>(z >> 40)) * 0x1p-23F - 1.0F;
}

/// values[i] = u_i * factor + offset. Factors beside an offset are powers of two, so all is rounded once.
inline void fill_stream(std::string_view name, std::span<float> values, float factor = 1,
                        float offset = 0) {
  std::uint64_t const seed = fnv1a(name);
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = stream_value(seed, i + 1) * factor + offset;
}

/// The tensor `key` of `model`, in row-major order of PyTorch's shape.
inline std::vector<float> formula_tensor(std::string_view model, std::string_view key,
                                         sinter::shape const& dims) {
  std::vector<float> values(static_cast<std::size_t>(sinter::element_count(dims)));
  std::string const name = std::string(model) + "/" + std::string(key);
  std::string_view const leaf = key.substr(key.rfind('.') + 1);
  if (leaf == "running_var" || (leaf == "weight" && dims.ssize() == 1)) {
    fill_stream(name, values, 0.5F, 1);
  } else if (leaf == "running_mean" || leaf == "bias") {
    fill_stream(name, values, 0.1F);
  } else {
    double fan_in = 1;
    for (int i = 1; i < dims.ssize(); ++i) fan_in *= static_cast<double>(dims[i]);
    fill_stream(name, values, static_cast<float>(std::sqrt(6 / fan_in)));
  }
  return values;
}

/// The one input of all: [1, 3, 224, 224].
inline std::vector<float> formula_input() {
  std::vector<float> values(std::size_t{3} * 224 * 224);
  fill_stream("input", values);
  return values;
}

}  // namespace example
