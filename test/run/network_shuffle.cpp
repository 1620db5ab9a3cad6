// Channel shuffles: bit for bit what the definition says, for every number of groups, dtype, and place of the parts.
#include "network_helpers.hpp"

#include <cstdint>
#include <cstring>

#include <sinter/run/interleave.hpp>
#include <sinter/run/network_copy.hpp>

#include "executors.hpp"

using namespace network_test;
using sinter::dtype;

namespace {

/// Bytes that differ from their neighbours.
std::vector<std::byte> pattern(std::size_t n, unsigned seed) {
  std::vector<std::byte> v(n);
  std::uint32_t state = seed * 2654435761U + 1;
  for (std::byte& b : v) {
    state = state * 1664525U + 1013904223U;
    b = static_cast<std::byte>(state >> 24);
  }
  return v;
}

/// A value's bytes, pixel by pixel.
struct raw_image {
  shape dims;
  dtype type = dtype::f32;
  std::vector<std::byte> bytes;

  static raw_image random(shape const& dims, dtype type, unsigned seed) {
    return {dims, type,
            pattern(static_cast<std::size_t>(sinter::element_count(dims) * sinter::size_of(type)),
                    seed)};
  }
  std::size_t element() const { return static_cast<std::size_t>(sinter::size_of(type)); }
  std::size_t channels() const { return static_cast<std::size_t>(dims.back()); }
  std::size_t pixels() const { return bytes.size() / element() / channels(); }
  std::byte const* at(std::size_t pixel, std::size_t channel) const {
    return bytes.data() + (pixel * channels() + channel) * element();
  }
  sinter::tensor_view view() const {
    return {bytes.data(), type, dims, sinter::dense_strides(dims), false};
  }
};

/// Channels of images side by side, and channel i*k + j at j*groups + i.
raw_image plain_shuffle(std::vector<raw_image> const& parts, std::size_t groups) {
  raw_image all = parts[0];
  all.bytes.clear();
  all.dims.back() = 0;
  for (raw_image const& p : parts) all.dims.back() += p.dims.back();
  std::size_t const each = all.channels() / groups;
  for (std::size_t pixel = 0; pixel < parts[0].pixels(); ++pixel)
    for (std::size_t c = 0; c < all.channels(); ++c) {
      std::size_t channel = c % groups * each + c / groups, part = 0;
      for (; channel >= parts[part].channels(); ++part) channel -= parts[part].channels();
      std::byte const* const from = parts[part].at(pixel, channel);
      all.bytes.insert(all.bytes.end(), from, from + all.element());
    }
  return all;
}

sinter::weight_source nothing() {
  return [](std::string_view) -> sinter::result<sinter::tensor_view> {
    return sinter::failure{sinter::code::bad_argument, "sinter: no weights"};
  };
}

/// What the network gives for these inputs "0", "1", ..., between walls that stay as they are.
std::vector<std::byte> output_of(network const& net, std::vector<raw_image> const& in,
                                 raw_image const& wanted) {
  std::vector<std::byte> memory(wanted.bytes.size() + 256, std::byte{0xa5});
  std::vector<std::string> names;
  for (std::size_t i = 0; i < in.size(); ++i) names.push_back(std::to_string(i));
  std::vector<sinter::named_view> views;
  for (std::size_t i = 0; i < in.size(); ++i) views.push_back({names[i], in[i].view()});
  sinter::named_output const to[] = {
      {"out",
       {memory.data() + 128, wanted.type, wanted.dims, sinter::dense_strides(wanted.dims), false}}};
  net.try_call(views, to).check();
  for (std::size_t i = 0; i < 128; ++i)
    REQUIRE((memory[i] == std::byte{0xa5} && memory[memory.size() - 1 - i] == std::byte{0xa5}));
  return {memory.begin() + 128, memory.end() - 128};
}

template <class Element>
void check_rows() {
  for (int count : {1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 29})
    for (extent length : {0, 1, 2, 3, 4, 5, 7, 8, 9, 12, 15, 16, 17, 33}) {
      CAPTURE(count);
      CAPTURE(length);
      std::size_t const row = static_cast<std::size_t>(length) * sizeof(Element);
      std::vector<std::vector<std::byte>> memory;  // two pixels, one byte off any boundary
      std::vector<sinter::detail::pixel_row> rows;
      for (int i = 0; i < count; ++i)
        memory.push_back(pattern(2 * row + 1 + 3, static_cast<unsigned>(i + 1)));
      for (auto const& m : memory) rows.push_back({m.data() + 1, static_cast<extent>(row + 3)});
      std::vector<std::byte> wanted,
          got(row * static_cast<std::size_t>(count) + 64, std::byte{0x5a});
      for (std::size_t j = 0; j < static_cast<std::size_t>(length); ++j)
        for (auto const& m : memory)
          for (std::size_t b = 0; b < sizeof(Element); ++b)
            wanted.push_back(m[1 + row + 3 + j * sizeof(Element) + b]);
      wanted.resize(got.size(), std::byte{0x5a});
      sinter::detail::row_interleaver<Element>(rows.data(), count, 1).write(got.data(), length);
      CHECK(got == wanted);
    }
}

}  // namespace

TEST_CASE("rows are interleaved as the definition says, and not a byte more is written") {
  check_rows<std::uint8_t>();
  check_rows<std::uint16_t>();
  check_rows<std::uint32_t>();
}

TEST_CASE("a shuffle of every number of groups, for each dtype, is one pass") {
  for (dtype type : {dtype::f32, dtype::bf16, dtype::f16, dtype::s32, dtype::s8, dtype::u8})
    for (extent channels : {1, 2, 7, 9, 12, 15, 58, 60})
      for (extent groups = 1; groups <= channels; ++groups) {
        if (channels % groups != 0) continue;
        CAPTURE(sinter::name_of(type));
        CAPTURE(channels);
        CAPTURE(groups);
        network_builder net(sinter::f32, nothing(), quiet());
        auto const in = net.input("0", {2, 3, 2, channels}, type);
        auto const model = net.build(net.channel_shuffle(in, static_cast<int>(groups))).value();
        CHECK(model.copy_count() <= 2);  // the shuffle, and what brings it into the output
        std::vector<raw_image> const pixels{raw_image::random({2, 3, 2, channels}, type, 7)};
        raw_image const wanted = plain_shuffle(pixels, static_cast<std::size_t>(groups));
        CHECK(output_of(model, pixels, wanted) == wanted.bytes);
      }
}

TEST_CASE(
    "parts are read where they lie: inputs, slices, more parts than groups, parts that end within "
    "a group") {
  struct split {
    std::vector<extent> parts;
    int groups;
  };
  split const splits[] = {{{4, 4}, 2},    {{3, 5}, 2},       {{1, 6, 1}, 2},  {{5, 5, 5}, 3},
                          {{7, 1, 4}, 3}, {{1, 2, 3, 4}, 5}, {{29, 29}, 2},   {{10, 50}, 4},
                          {{6, 6}, 12},   {{2, 2, 2, 2}, 2}, {{33, 31, 2}, 6}};
  for (split const& s : splits)
    for (bool sliced : {false, true})
      for (bool moves : {false, true}) {
        CAPTURE(s.parts.size());
        CAPTURE(s.groups);
        CAPTURE(sliced);
        CAPTURE(moves);
        network_builder net(sinter::bf16, nothing(), quiet());
        extent const any = moves ? sinter::dynamic : 3;
        std::vector<net_value> values;
        for (std::size_t i = 0; i < s.parts.size(); ++i) {
          extent const wide = s.parts[i] + (sliced ? 5 : 0);
          auto const in =
              net.input(std::to_string(i), {moves ? any : 2, any, 2, wide}, dtype::bf16);
          values.push_back(sliced ? net.channels(in, 3, s.parts[i]) : in);
        }
        auto const model = net.build(net.channel_shuffle(net.concat(values), s.groups)).value();
        INFO(model.explain());
        for (extent rows : {3, 1}) {
          if (!moves && rows != 3) continue;
          std::vector<raw_image> given, parts;
          for (std::size_t i = 0; i < s.parts.size(); ++i) {
            extent const wide = s.parts[i] + (sliced ? 5 : 0);
            given.push_back(
                raw_image::random({2, rows, 2, wide}, dtype::bf16, static_cast<unsigned>(i + 1)));
            raw_image part = given.back();
            part.dims.back() = s.parts[i];
            part.bytes.clear();
            for (std::size_t p = 0; p < given.back().pixels(); ++p) {
              std::byte const* const from = given.back().at(p, sliced ? 3 : 0);
              part.bytes.insert(part.bytes.end(), from, from + part.channels() * part.element());
            }
            parts.push_back(part);
          }
          raw_image const wanted = plain_shuffle(parts, static_cast<std::size_t>(s.groups));
          CHECK(output_of(model, given, wanted) == wanted.bytes);
        }
      }
}

TEST_CASE("more parts than a group has operands are put side by side first") {
  network_builder net(sinter::f32, nothing(), quiet());
  std::vector<net_value> values;
  std::vector<raw_image> pixels;
  for (int i = 0; i < 34; ++i) {
    values.push_back(net.input(std::to_string(i), {1, 2, 2, 2}));
    pixels.push_back(raw_image::random({1, 2, 2, 2}, dtype::f32, static_cast<unsigned>(i)));
  }
  auto const model = net.build(net.channel_shuffle(net.concat(values), 4)).value();
  raw_image const wanted = plain_shuffle(pixels, 4);
  CHECK(output_of(model, pixels, wanted) == wanted.bytes);
}

TEST_CASE("threads share a shuffle") {
  run_test::threads_executor executor;
  sinter::options o = quiet();
  o.threads = 3;
  o.executor = &executor;
  network_builder net(sinter::bf16, nothing(), o);
  auto const one = net.input("0", {2, 90, 91, 29}, dtype::bf16);
  auto const two = net.input("1", {2, 90, 91, 31}, dtype::bf16);
  auto const model = net.build(net.channel_shuffle(net.concat({one, two}), 2)).value();
  std::vector<raw_image> const pixels{raw_image::random({2, 90, 91, 29}, dtype::bf16, 3),
                                      raw_image::random({2, 90, 91, 31}, dtype::bf16, 4)};
  raw_image const wanted = plain_shuffle(pixels, 2);
  CHECK(output_of(model, pixels, wanted) == wanted.bytes);
}
