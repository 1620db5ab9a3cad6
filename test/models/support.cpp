// What the examples' networks stand on: the weights that follow from names, and (with stb_image) pictures.
#include "support/formula_weights.hpp"
#include "support/weights.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#if SINTER_TEST_PICTURES
#include <cstdio>
#include <fstream>
#include <string>

#include "support/picture.hpp"

#define STB_IMAGE_WRITE_STATIC
#define STB_IMAGE_WRITE_IMPLEMENTATION
#include <stb/stb_image_write.h>
#endif

// The check values of examples/data/README.md.
TEST_CASE("streams begin with the published numbers") {
  CHECK(example::fnv1a("input") == 0x1ebbae8f5810b65b);
  CHECK(example::fnv1a("resnet50/conv1.weight") == 0xf124199f136a9753);
  float const input[] = {-0.80436337F, 0.30472076F, -0.5927515F, -0.45111072F};
  float const conv1[] = {-0.4181447F, 0.05766642F, -0.95098233F, -0.55427098F};
  std::vector<float> const image = example::formula_input();
  REQUIRE(image.size() == 150528);
  CHECK(std::equal(std::begin(input), std::end(input), image.begin()));
  float stream[4];
  example::fill_stream("resnet50/conv1.weight", stream);
  CHECK(std::equal(std::begin(conv1), std::end(conv1), std::begin(stream)));
}

TEST_CASE("a tensor's last name and its shape say how its stream is scaled") {
  using example::formula_tensor;
  auto const u = [](char const* name) { return example::stream_value(example::fnv1a(name), 1); };
  CHECK(formula_tensor("m", "bn.running_mean", {2})[0] == u("m/bn.running_mean") * 0.1F);
  CHECK(formula_tensor("m", "bn.running_var", {2})[0] == u("m/bn.running_var") * 0.5F + 1);
  CHECK(formula_tensor("m", "bn.weight", {2})[0] == u("m/bn.weight") * 0.5F + 1);
  CHECK(formula_tensor("m", "fc.bias", {2})[0] == u("m/fc.bias") * 0.1F);
  float const bound = static_cast<float>(std::sqrt(6.0 / 27));
  auto const conv = formula_tensor("m", "conv.weight", {4, 3, 3, 3});
  CHECK(conv.size() == 108);
  CHECK(conv[0] == u("m/conv.weight") * bound);
  CHECK(std::all_of(conv.begin(), conv.end(), [&](float v) { return std::fabs(v) <= bound; }));
}

TEST_CASE("weights give what the architecture expects, and refuse what does not fit") {
  auto made = example::weights::formula("m");
  made.expect("fc.bias", {3});
  auto const by_formula = made.source();
  REQUIRE(by_formula("fc.bias").ok());
  CHECK(by_formula("fc.bias")->dims == sinter::shape{3});
  CHECK(by_formula("fc.bias")->data == by_formula("fc.bias")->data);  // made once
  CHECK(by_formula("fc.weight").error().message ==
        "m: tensor 'fc.weight' is no parameter of this network");

  std::string const path = SINTER_EXAMPLES_DATA "/digits_cnn.safetensors";
  auto read = example::weights::read(path).value();
  read.expect("conv1.weight", {16, 1, 3, 3});
  read.expect("fc1.weight", {64, 3, 7, 7});
  auto const from_file = read.source();
  auto const direct = example::safetensors::read(path).value();
  auto const wanted = direct.get<float>("conv1.weight", {16, 1, 3, 3}).value();
  auto const view = from_file("conv1.weight").value();
  REQUIRE(view.type == sinter::dtype::f32);
  CHECK(std::equal(wanted.begin(), wanted.end(), static_cast<float const*>(view.data)));
  CHECK(from_file("fc1.weight").error().message ==
        path + ": tensor 'fc1.weight' is 64x512; 64x3x7x7 is wanted");
}

#if SINTER_TEST_PICTURES

namespace {

constexpr int width = 37, height = 53;

std::vector<std::uint8_t> pixels() {
  std::vector<std::uint8_t> rgb;
  for (int y = 0; y < height; ++y)
    for (int x = 0; x < width; ++x)
      for (int c = 0; c < 3; ++c)
        rgb.push_back(static_cast<std::uint8_t>(x * 7 + y * 13 + c * 50 + x * y % 11 * 9));
  return rgb;
}

std::string const file = "models_support_picture";

example::picture written_and_read() {
  std::string const png = file + ".png";
  REQUIRE(stbi_write_png(png.c_str(), width, height, 3, pixels().data(), 0) != 0);
  auto read = example::read_picture(png);
  std::remove(png.c_str());
  return std::move(read).value();
}

std::uint64_t hash_of(example::picture const& p) {
  return example::fnv1a({reinterpret_cast<char const*>(p.rgb.data()), p.rgb.size()});
}

void write(std::string const& path, std::string const& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

}  // namespace

TEST_CASE("a PNG picture is read as it was written") {
  example::picture const p = written_and_read();
  CHECK(p.width == width);
  CHECK(p.height == height);
  CHECK(p.rgb == pixels());
}

// Hashes of what Pillow 11 gives for the same pixels: Image.resize(size, BILINEAR), which torchvision calls.
TEST_CASE("resizing has the bytes of Pillow's antialiased bilinear filter") {
  example::picture const p = written_and_read();
  CHECK(hash_of(example::resized(p, 16, 22)) == 0x8e335e6a460f696f);
  CHECK(hash_of(example::resized(p, 64, 91)) == 0x7ab77bdeedd2e3b4);
  CHECK(hash_of(example::resized(p, 8, 8)) == 0x160a23a28ff9e525);
}

TEST_CASE("the shorter side is brought to a length, the other keeps the ratio") {
  example::picture const p = written_and_read();
  example::picture const tall = example::shorter_side_to(p, 16);
  CHECK(tall.width == 16);
  CHECK(tall.height == 22);  // 22.9, rounded down
  example::picture const wide = example::shorter_side_to(example::resized(p, 40, 30), 15);
  CHECK(wide.width == 20);
  CHECK(wide.height == 15);
}

TEST_CASE("the crop is the middle, and half a pixel goes to the even side") {
  example::picture const p = written_and_read();
  example::picture const middle = example::centre_crop(p, 20);  // left 8.5, top 16.5
  CHECK(std::equal(middle.row(0), middle.row(0) + 60, p.row(16) + 3 * 8));
  CHECK(std::equal(middle.row(19), middle.row(19) + 60, p.row(35) + 3 * 8));
}

TEST_CASE("pixels are brought to mean 0 and deviation 1 of ImageNet") {
  example::picture const p{1, 1, {0, 255, 51}};
  std::vector<float> const v = example::normalised(p);
  CHECK(v[0] == doctest::Approx(-0.485 / 0.229));
  CHECK(v[1] == doctest::Approx((1 - 0.456) / 0.224));
  CHECK(v[2] == doctest::Approx((0.2 - 0.406) / 0.225));
}

TEST_CASE("what is no picture is refused with a sentence that names the file") {
  auto const refusal = [](std::string const& path) {
    auto const read = example::read_picture(path);
    return read.ok() ? std::string("accepted") : read.error().message;
  };
  CHECK(refusal("no_such_file.png") == "no_such_file.png: cannot be opened");
  std::string const text = file + ".txt", cut = file + "_cut.png", huge = file + "_huge.png";
  write(text, "not a picture");
  CHECK(refusal(text).starts_with(text + ": cannot be read as a PNG or JPEG picture"));
  // A header, and the beginning of data that is not there: some versions of the reader look for it.
  std::string const head("\x89PNG\r\n\x1a\n\0\0\0\rIHDR", 16),
      tail("\x08\x02\0\0\0\0\0\0\0\0\0\0\x10IDAT", 17);
  write(cut, head + std::string("\0\0\0\x08\0\0\0\x08", 8) + tail);
  CHECK(refusal(cut).starts_with(cut + ": is damaged"));
  write(huge, head + std::string("\0\0\x3a\x98\0\0\x3a\x98", 8) + tail);
  CHECK(refusal(huge) == huge + ": has 15000 x 15000 pixels; at most 200000000 are read");
  for (std::string const& made : {text, cut, huge}) std::remove(made.c_str());
}

#endif
