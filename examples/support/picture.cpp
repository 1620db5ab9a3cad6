#include "picture.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>

// The one place where stb_image is compiled; nothing but PNG and JPEG is let in.
#define STB_IMAGE_STATIC
#define STB_IMAGE_IMPLEMENTATION
#define STBI_ONLY_PNG
#define STBI_ONLY_JPEG
#define STBI_NO_LINEAR
#define STBI_NO_HDR
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-function"
#include <stb/stb_image.h>
#pragma GCC diagnostic pop

namespace example {
namespace {

/// What one element of a resized line is made of: `weights` of the line's elements from `first` on.
struct taps {
  int first = 0;
  std::vector<double> weights;
};

std::vector<taps> triangle(int from, int to) {
  double const scale = static_cast<double>(from) / to;
  double const reach = (std::max)(scale, 1.0);  // of the filter; a pixel where an axis grows
  std::vector<taps> all(static_cast<std::size_t>(to));
  for (int i = 0; i < to; ++i) {
    double const centre = (i + 0.5) * scale;
    taps& t = all[static_cast<std::size_t>(i)];
    t.first = (std::max)(0, static_cast<int>(centre - reach + 0.5));
    int const end = (std::min)(from, static_cast<int>(centre + reach + 0.5));
    double sum = 0;
    for (int j = t.first; j < end; ++j) {
      t.weights.push_back((std::max)(0.0, 1 - std::fabs(j + 0.5 - centre) / reach));
      sum += t.weights.back();
    }
    for (double& w : t.weights) w /= sum;
  }
  return all;
}

/// The sum of bytes `step` apart, rounded.
std::uint8_t blend(taps const& t, std::uint8_t const* from, std::size_t step) {
  double sum = 0.5;
  for (std::size_t j = 0; j < t.weights.size(); ++j)
    sum += t.weights[j] * static_cast<double>(from[j * step]);
  return static_cast<std::uint8_t>((std::min)(sum, 255.0));
}

picture blank(int width, int height) {
  return {width, height,
          std::vector<std::uint8_t>(std::size_t{3} * static_cast<std::size_t>(width) *
                                    static_cast<std::size_t>(height))};
}

}  // namespace

sinter::result<picture> read_picture(std::string const& path) {
  auto const refuse = [&](std::string const& why) {
    return sinter::failure{sinter::code::bad_argument, path + ": " + why};
  };
  if (!std::ifstream(path, std::ios::binary))
    return sinter::failure{sinter::code::system, path + ": cannot be opened"};
  int width = 0, height = 0, channels = 0;
  if (stbi_info(path.c_str(), &width, &height, &channels) == 0)
    return refuse(std::string("cannot be read as a PNG or JPEG picture (") + stbi_failure_reason() +
                  ")");
  if (static_cast<long>(width) * height > max_pixels)
    return refuse("has " + std::to_string(width) + " x " + std::to_string(height) +
                  " pixels; at most " + std::to_string(max_pixels) + " are read");
  unsigned char* const pixels = stbi_load(path.c_str(), &width, &height, &channels, 3);
  if (pixels == nullptr) return refuse(std::string("is damaged (") + stbi_failure_reason() + ")");
  picture made = blank(width, height);
  std::memcpy(made.rgb.data(), pixels, made.rgb.size());
  stbi_image_free(pixels);
  return made;
}

picture resized(picture const& from, int width, int height) {
  picture narrow = blank(width, from.height), made = blank(width, height);
  std::vector<taps> const columns = triangle(from.width, width);
  std::vector<taps> const rows = triangle(from.height, height);
  std::size_t const line = std::size_t{3} * static_cast<std::size_t>(width);
  std::size_t at = 0;
  for (int y = 0; y < from.height; ++y)
    for (taps const& t : columns)
      for (int c = 0; c < 3; ++c) narrow.rgb[at++] = blend(t, from.row(y) + 3 * t.first + c, 3);
  at = 0;
  for (taps const& t : rows)
    for (std::size_t i = 0; i < line; ++i) made.rgb[at++] = blend(t, narrow.row(t.first) + i, line);
  return made;
}

picture shorter_side_to(picture const& from, int side) {
  auto const longer = [side](int l, int s) {
    return static_cast<int>(static_cast<long>(side) * l / s);
  };
  return from.width <= from.height ? resized(from, side, longer(from.height, from.width))
                                   : resized(from, longer(from.width, from.height), side);
}

picture centre_crop(picture const& from, int side) {
  // Halves go to the even number, as in Python's round().
  int const left = static_cast<int>(std::nearbyint((from.width - side) / 2.0));
  int const top = static_cast<int>(std::nearbyint((from.height - side) / 2.0));
  picture made = blank(side, side);
  std::size_t const line = std::size_t{3} * static_cast<std::size_t>(side);
  for (int y = 0; y < side; ++y)
    std::memcpy(made.rgb.data() + static_cast<std::size_t>(y) * line, from.row(top + y) + 3 * left,
                line);
  return made;
}

std::vector<float> normalised(picture const& from) {
  constexpr float mean[] = {0.485F, 0.456F, 0.406F}, deviation[] = {0.229F, 0.224F, 0.225F};
  std::vector<float> image(from.rgb.size());
  for (std::size_t i = 0; i < image.size(); ++i)
    image[i] = (static_cast<float>(from.rgb[i]) / 255 - mean[i % 3]) / deviation[i % 3];
  return image;
}

}  // namespace example
