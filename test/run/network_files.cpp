// Constants of a network: batch norms folded, packed weights saved and mapped, precisions by a table.
#include "network_helpers.hpp"

#include <cstdio>
#include <filesystem>
#include <fstream>

using namespace network_test;

namespace {

/// Two convolutions with batch norms; 0.75 and 0.5 are exact, so is every sum.
store normed_store() {
  store s;
  s.conv("conv", 8, 4, 3);
  s.held.erase("conv.bias");
  s.conv("second", 8, 8, 1);
  for (char const* bn : {"bn", "bn2"}) {
    std::string const name = bn;
    auto const seed = static_cast<unsigned>(name.size() * 10);
    s.held[name + ".weight"] = {{8}, whole(8, seed, 3)};
    s.held[name + ".bias"] = {{8}, whole(8, seed + 1, 3)};
    s.held[name + ".running_mean"] = {{8}, whole(8, seed + 2, 3)};
    s.held[name + ".running_var"] = {{8}, std::vector<float>(8, 3.0F)};  // + eps 1: its root is 2
  }
  return s;
}

net_value normed(network_builder& net) {
  auto const in = net.input("image", {1, 5, 4, 4}, sinter::dtype::f32);
  auto const first = net.fold_batch_norm("conv", "bn", 1.0F);
  auto const second = net.fold_batch_norm("second", "bn2", 1.0F);
  auto const h = net.add("first", conv3, x = in, w = first.weight, b = first.bias);
  return net.add("second", conv1, x = h, w = second.weight, b = second.bias);
}

/// conv, then the batch norm as it is written, then relu.
image plain_normed(store const& s, std::string const& conv, std::string const& bn,
                   image const& in) {
  store raw;  // without bias and relu: plain_conv() of +w and of -w, whose relus are its two halves
  raw.held[conv + ".weight"] = s.held.at(conv + ".weight");
  raw.held[conv + ".bias"] = {{8}, std::vector<float>(8, 0.0F)};
  image y = plain_conv(raw, conv, in);
  for (float& v : raw.held[conv + ".weight"].data) v = -v;
  image const negative = plain_conv(raw, conv, in);
  auto const of = [&s](std::string const& name, std::size_t c) {
    auto const it = s.held.find(name);
    return it == s.held.end() ? 0.0F : it->second.data[c];
  };
  for (std::size_t i = 0; i < y.data.size(); ++i) {
    std::size_t const c = i % 8;
    float const sum = y.data[i] - negative.data[i] + of(conv + ".bias", c);
    float const v =
        (sum - of(bn + ".running_mean", c)) / 2 * of(bn + ".weight", c) + of(bn + ".bias", c);
    y.data[i] = v > 0 ? v : 0;
  }
  return y;
}

std::string temporary(std::string const& name) {
  return (std::filesystem::temp_directory_path() / ("sinter_test_" + name)).string();
}

std::vector<char> bytes_of(std::string const& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}
void write_bytes(std::string const& path, std::vector<char> const& bytes) {
  std::ofstream(path, std::ios::binary)
      .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

}  // namespace

TEST_CASE("a folded batch norm is the batch norm behind the convolution") {
  store const s = normed_store();
  image const pixels = image::random(1, 5, 4, 4, 1);
  image const wanted = plain_normed(s, "second", "bn2", plain_normed(s, "conv", "bn", pixels));
  for (std::string_view backend : {"", "reference"}) {
    sinter::options o = quiet();
    o.backend = backend;
    network_builder net(sinter::f32, s.source(), o);
    auto const model = net.build(normed(net)).value();
    CHECK(run(model, pixels, wanted.dims()) == wanted.data);
  }
}

TEST_CASE("a batch norm that is not folded is a scale and a shift") {
  store const s = normed_store();
  network_builder net(sinter::f32, s.source(), quiet());
  auto const in = net.input("image", {1, 5, 4, 8});
  auto const n = net.batch_norm("bn", 1.0F);
  constexpr auto scale = sinter::vector<"scale">;
  constexpr auto shift = sinter::vector<"shift">;
  auto const y =
      net.add("norm", sinter::relu(x * scale + shift), x = in, scale = n.scale, shift = n.shift);
  image const pixels = image::random(1, 5, 4, 8, 3);
  std::vector<float> wanted;
  for (std::size_t i = 0; i < pixels.data.size(); ++i) {
    std::size_t const c = i % 8;
    float const v =
        (pixels.data[i] - s["bn.running_mean"][c]) / 2 * s["bn.weight"][c] + s["bn.bias"][c];
    wanted.push_back(v > 0 ? v : 0);
  }
  CHECK(run(net.build(y).value(), pixels, pixels.dims()) == wanted);
}

TEST_CASE("packed weights are saved and mapped: the same bits, nothing packed, no source") {
  store const s = normed_store();
  image const pixels = image::random(1, 5, 4, 4, 2);
  std::string const path = temporary("packed");
  for (sinter::precision const& p : {sinter::f32, sinter::bf16}) {
    network_builder net(p, s.source(), quiet());
    auto const model = net.build(normed(net)).value();
    model.save(path).check();
    std::vector<float> const wanted = run(model, pixels, {1, 5, 4, 8});
    for (bool with_source : {true, false}) {
      network_builder again(p, with_source ? s.source() : sinter::weight_source(), quiet());
      again.packed_from(path).check();
      auto const mapped = again.build(normed(again)).value();
      std::remove(path.c_str());  // what is mapped stays
      CHECK(run(mapped, pixels, {1, 5, 4, 8}) == wanted);
      mapped.save(path).check();  // and can be saved again
    }
  }
  std::remove(path.c_str());
}

TEST_CASE("a packed file that does not fit is refused with a sentence") {
  store const s = normed_store();
  std::string const path = temporary("refused");
  network_builder net(sinter::f32, s.source(), quiet());
  net.build(normed(net)).value().save(path).check();
  std::vector<char> const good = bytes_of(path);
  auto const open = [&] {
    network_builder other(sinter::f32, s.source(), quiet());
    auto const st = other.packed_from(path);
    CHECK(!st.ok());
    CHECK(!other.build(normed(other)).ok());
    return st.error().message;
  };
  // Each byte of the table and of what follows is covered by a checksum, each of the header by a check.
  std::vector<char> damaged = good;
  damaged[70] = static_cast<char>(damaged[70] ^ 1);
  write_bytes(path, damaged);
  CHECK(has(open(), "is damaged: its table"));
  damaged = good;
  damaged[damaged.size() - 70] = static_cast<char>(damaged[damaged.size() - 70] ^ 64);
  write_bytes(path, damaged);
  CHECK(has(open(), "is damaged: '"));
  damaged = good;
  damaged[8] = 9;
  write_bytes(path, damaged);
  CHECK(has(open(), "has format 9; 1 is wanted"));
  for (std::size_t size : {good.size() - 1, good.size() / 2, std::size_t{65}}) {
    write_bytes(path, {good.begin(), good.begin() + static_cast<std::ptrdiff_t>(size)});
    CHECK(has(open(), "it is truncated, or was changed"));
  }
  write_bytes(path, {good.begin(), good.begin() + 10});
  CHECK(has(open(), "is no file of packed weights"));
  write_bytes(path, {});
  CHECK(has(open(), "cannot be mapped, or is empty"));
  std::remove(path.c_str());
  CHECK(has(open(), "cannot be opened"));

  write_bytes(path, good);
  sinter::options capped = quiet();
  capped.max_isa = sinter::isa::reference;
  network_builder elsewhere(sinter::f32, s.source(), capped);
  auto const st = elsewhere.packed_from(path);
  if (sinter::best_isa(*sinter::current_isa()) != sinter::isa::reference)
    CHECK(has(st.error().message, "; reference is wanted: pack again"));

  network_builder stranger(sinter::f32, s.source(), quiet());
  stranger.packed_from(path).check();
  auto const in = stranger.input("image", {1, 5, 4, 8});
  auto const built =
      stranger.build(stranger.add("odd", conv1, x = in, w = stranger.weight("second.weight").oihw(),
                                  b = stranger.vector("second.bias")));
  CHECK(has(built.error().message, "it belongs to another network"));
  network_builder low(sinter::bf16, s.source(), quiet());
  low.packed_from(path).check();
  CHECK(has(low.build(normed(low)).error().message, "in another layout than"));
  std::remove(path.c_str());
}

TEST_CASE(
    "autocast: contractions run low, what follows them is stored low, and the table may say "
    "otherwise") {
  store const s = normed_store();
  image const pixels = image::random(1, 5, 4, 4, 2);
  auto const types_of = [&](sinter::autocast_table const& table) {
    network_builder net(table, s.source(), quiet());
    auto const model = net.build(normed(net)).value();
    INFO(model.explain());
    CHECK(model.describe("image").value().type == sinter::dtype::f32);
    run(model, pixels, {1, 5, 4, 8});
    return model.describe("out").value().type;
  };
  CHECK(types_of(sinter::autocast) == sinter::dtype::bf16);
  constexpr auto full = sinter::autocast.with(sinter::op::conv2d, sinter::runs_in::full);
  CHECK(types_of(full) == sinter::dtype::f32);
  constexpr auto relu_full = sinter::autocast.with(sinter::op::relu, sinter::runs_in::full);
  CHECK(types_of(relu_full) == sinter::dtype::f32);

  // All in f32 by the table is f32, bit for bit.
  network_builder plain(sinter::f32, s.source(), quiet()), by_table(full, s.source(), quiet());
  CHECK(run(plain.build(normed(plain)).value(), pixels, {1, 5, 4, 8}) ==
        run(by_table.build(normed(by_table)).value(), pixels, {1, 5, 4, 8}));
  // And with everything low it is bf16 but for the image, whose whole numbers are the same in both.
  network_builder low(sinter::bf16, s.source(), quiet()),
      cast(sinter::autocast, s.source(), quiet());
  CHECK(run(low.build(normed(low)).value(), pixels, {1, 5, 4, 8}) ==
        run(cast.build(normed(cast)).value(), pixels, {1, 5, 4, 8}));
}

TEST_CASE("a value that is wanted in two dtypes is stored in both, without a pass") {
  store s;
  s.conv("one", 8, 8, 3);
  constexpr sinter::precision mixed{.src = sinter::dtype::bf16, .weight = sinter::dtype::bf16};
  network_builder net(mixed, s.source(), quiet());
  auto const in = net.input("image", {1, 4, 4, 8}, sinter::dtype::f32);
  auto const h = add_conv(net, "one", conv3, in);
  auto const y = net.add("two", residual3, x = h, w = net.weight("one.weight").oihw(),
                         b = net.vector("one.bias"), r = h);
  auto const model = net.build(y).value();
  INFO(model.explain());
  CHECK(model.group_count() == 3);  // the image is converted by a pass, h is not
  image const pixels = image::random(1, 4, 4, 8, 4);
  image const exact = plain_conv(s, "one", pixels);
  image rounded = exact;
  for (float& v : rounded.data) v = sinter::round_to(sinter::dtype::bf16, v);
  CHECK(run(model, pixels, {1, 4, 4, 8}) == plain_conv(s, "one", rounded, &exact).data);
}
