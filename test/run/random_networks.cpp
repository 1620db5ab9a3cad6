// Random networks: convolutions of every kind, poolings, slices, concats, shuffles, residuals and values that are wanted
// outside, as images by themselves, in strips, on several threads and with a batch that only the call knows: the same
// bits each time.
//
// SINTER_TEST_SEED repeats a run, SINTER_TEST_COUNT makes it longer.
#include <random>

#include "../support/levels.hpp"
#include "../support/numbers.hpp"
#include "executors.hpp"
#include "network_helpers.hpp"

using namespace network_test;
using namespace run_test;
using sinter::strip_policy;

namespace {

constexpr auto added = sinter::relu(x + r);
constexpr auto gated = x * sinter::sigmoid(r);
constexpr auto pooled = sinter::max_pool(sinter::relu(sinter::conv2d(x, w, {.pad = 1}) + b),
                                         {.kernel = 3, .stride = 2, .pad = 1});
constexpr auto pool_alone = sinter::avg_pool(x, {.kernel = 3, .stride = 1, .pad = 1});
constexpr auto downward = sinter::relu(sinter::conv2d(x, w, {.stride = 2, .pad = 1}) + b);

/// What is built of a seed, by any options, over a batch that is known or not.
class random_network {
 public:
  explicit random_network(std::uint64_t seed) : seed_(seed) {}

  sinter::result<network> build(sinter::precision const& dtypes, extent batch,
                                sinter::options const& o) {
    random_.seed(seed_);
    images_ = image::random(0, 5 + below(9), 5 + below(9), 3, 1);
    network_builder net(dtypes, source(), o);
    values_ = {net.input("image", {batch, images_.h, images_.w, images_.c})};
    for (extent i = 4 + below(12); i > 0; --i) add(net);
    std::vector<sinter::named_value> outputs{{"out", values_.back()}};
    if (below(3) == 0 && values_.size() > 3)
      outputs.push_back({"inner", values_[values_.size() / 2]});
    return net.build(outputs);
  }
  /// All outputs, as bytes, for so many images.
  std::vector<std::vector<std::byte>> run(network const& net, extent batch) const {
    image in = image::random(batch, images_.h, images_.w, images_.c, 5);
    std::vector<sinter::bfloat16> low;
    for (float& f : in.data) low.push_back(sinter::to_bfloat16(f *= 0.711F));
    bool const f32 = net.describe("image").value().type == sinter::dtype::f32;
    sinter::named_view const views[] = {
        {"image", f32 ? in.view() : sinter::view(low.data(), in.dims())}};
    std::vector<std::vector<std::byte>> got;
    std::vector<sinter::named_output> outputs;
    for (std::string_view name : {"out", "inner"})
      if (auto const d = net.describe(name)) {
        shape dims = d->dims;
        dims[0] = batch;
        got.emplace_back(
            static_cast<std::size_t>(sinter::element_count(dims) * sinter::size_of(d->type)),
            std::byte{0xa5});
        outputs.push_back(
            {name, {got.back().data(), d->type, dims, sinter::dense_strides(dims), false}});
      }
    net.try_call(views, outputs).check();
    return got;
  }

 private:
  extent below(extent n) { return static_cast<extent>(random_() % static_cast<unsigned>(n)); }
  net_value any() {
    return values_[static_cast<std::size_t>(below(static_cast<extent>(values_.size())))];
  }
  /// The last value, as a rule.
  net_value next() { return below(4) == 0 ? any() : values_.back(); }
  /// Another value of the same extents; of the same image where `channels` may differ.
  net_value like(net_value const& v, bool channels) {
    for (int i = 0; i < 20; ++i) {
      net_value const other = any();
      shape a = other.dims();
      if (channels) a.back() = v.dims().back();
      if (a == v.dims()) return other;
    }
    return v;
  }
  sinter::weight_source source() {
    return [this](std::string_view name) -> sinter::result<sinter::tensor_view> {
      shape const dims = wanted_[std::string(name)];
      auto& data = held_[std::string(name)];
      data = network_test::whole(sinter::element_count(dims),
                                 static_cast<unsigned>(std::hash<std::string_view>{}(name)), 1);
      for (float& f : data) f *= 0.3711F;
      return sinter::tensor_view(sinter::view(data.data(), dims));
    };
  }
  std::string fresh() const { return sinter::detail::join({"v", values_.size()}); }
  template <class Block>
  net_value conv(network_builder& net, Block const& block, net_value const& from, extent out,
                 extent in, extent k) {
    std::string const name = fresh();
    wanted_[name + ".weight"] = {out, in, k, k};
    wanted_[name + ".bias"] = {out};
    return add_conv(net, name, block, from);
  }
  void add(network_builder& net) {
    net_value const from = next();
    extent const c = from.dims().back();
    constexpr extent widths[] = {4, 8, 12, 16, 20, 32};
    extent const out = widths[below(6)];
    switch (below(12)) {
      case 0:
        return values_.push_back(conv(net, conv1, from, out, c, 1));
      case 1:
      case 2:
        return values_.push_back(conv(net, conv3, from, out, c, 3));
      case 3:
        return values_.push_back(conv(net, pooled, from, out, c, 3));
      case 4:
        return values_.push_back(conv(net, downward, from, out, c, 3));
      case 5: {
        auto depthwise = sinter::conv2d(x, w, {.pad = 1, .groups = static_cast<int>(c)}) + b;
        return values_.push_back(conv(net, depthwise, from, c, 1, 3));
      }
      case 6:
        return values_.push_back(net.add(fresh(), pool_alone, x = from));
      case 7:
        return values_.push_back(net.concat({from, like(from, true), like(from, true)}));
      case 8:
        if (c < 4) break;
        return values_.push_back(net.channels(from, c / 4, c / 2));
      case 9:
        if (c % 4 != 0) break;
        return values_.push_back(net.channel_shuffle(from, below(2) == 0 ? 2 : 4));
      case 10:
        return values_.push_back(net.add(fresh(), gated, x = from, r = like(from, false)));
      default:
        break;
    }
    values_.push_back(net.add(fresh(), added, x = from, r = like(from, false)));
  }

  std::uint64_t seed_;
  std::mt19937_64 random_;
  image images_;
  std::vector<net_value> values_;
  std::map<std::string, shape> wanted_;
  std::map<std::string, std::vector<float>> held_;
};

/// The same on one thread, group after group.
sinter::options plain_of(sinter::options o) {
  o.strips = o.stretches = strip_policy::never;
  o.threads = 1;
  return o;
}

}  // namespace

TEST_CASE("random networks: the bits of whole batches, however images go through them") {
  std::uint64_t const first = sinter_test::number_from("SINTER_TEST_SEED", 1),
                      count = sinter_test::number_from("SINTER_TEST_COUNT", 60);
  threads_executor executor;
  int built = 0, stretched = 0, in_strips = 0;
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    CAPTURE(seed);
    auto const levels = sinter_test::jit_levels();
    sinter::options o = plain_of(quiet());
    if (!levels.empty()) o.max_isa = levels[seed % levels.size()];
    sinter::precision const& dtypes = seed % 2 == 0 ? sinter::f32 : sinter::bf16;
    random_network made(seed);
    auto const whole = made.build(dtypes, sinter::dynamic, o);
    if (!whole) {
      check_sentence(whole.error().message, {});
      continue;
    }
    ++built;
    o.stretches = strip_policy::always;
    o.strips = seed % 3 == 0 ? strip_policy::always : strip_policy::never;
    o.strip_rows = static_cast<int>(seed % 4);
    network const moving = made.build(dtypes, sinter::dynamic, o).value();
    o.threads = 2 + static_cast<int>(seed % 3);
    o.executor = &executor;
    network const shared = made.build(dtypes, sinter::dynamic, o).value();
    for (extent batch : {3, 1, 0, 4, 2}) {
      CAPTURE(batch);
      auto const wanted = made.run(*whole, batch);
      CHECK(made.run(moving, batch) == wanted);
      CHECK(made.run(shared, batch) == wanted);
    }
    network const fixed = made.build(dtypes, 3, plain_of(o)).value();
    network const by_images = made.build(dtypes, 3, o).value();
    INFO(by_images.explain());
    CHECK(made.run(by_images, 3) == made.run(fixed, 3));
    stretched += has(moving.explain(), "image by image, by") ? 1 : 0;
    in_strips += has(moving.explain(), " strips of ") ? 1 : 0;
  }
  MESSAGE(built << " built, " << stretched << " image by image, " << in_strips << " in strips");
  CHECK(built > static_cast<int>(count / 2));
}
