// A picture from a PNG or JPEG file, brought to what the networks of torchvision were trained on.
//
//   read_picture -> shorter_side_to(256) -> centre_crop(224) -> normalised
//
// Resizing is bilinear and antialiased as torchvision does it on pictures: the triangle filter is widened by the factor
// by which an axis shrinks, rows first and then columns, each pass rounded to 8 bits. Transparency is dropped, and the
// orientation that a camera noted is not looked at, as there. The reader behind it is stb_image (picture.cpp).
#pragma once

#include <cstddef>
#include <cstdint>
#include <sinter/base/status.hpp>
#include <string>
#include <vector>

namespace example {

struct picture {
  int width = 0, height = 0;
  std::vector<std::uint8_t> rgb;  ///< rows from the top, three bytes a pixel

  std::uint8_t const* row(int y) const {
    return rgb.data() + std::size_t{3} * static_cast<std::size_t>(y * width);
  }
};

/// More pixels than any camera has; what a file says beyond it is refused before memory is taken.
inline constexpr long max_pixels = 200'000'000;

/// Refusals begin with the file's name.
sinter::result<picture> read_picture(std::string const& path);

picture resized(picture const& from, int width, int height);

/// The other side keeps the ratio, rounded down.
picture shorter_side_to(picture const& from, int side);

/// The middle side x side pixels; the picture has at least as many.
picture centre_crop(picture const& from, int side);

/// (value / 255 - mean) / deviation of ImageNet's channels, as one image N,H,W,C.
std::vector<float> normalised(picture const& from);

}  // namespace example
