// Groups image by image: the bits of the same network with stretches off, for every kind of member, level, backend,
// batch and number of threads.
//
// Weights and images are rounded values, so that another order of summation would show; whole numbers are compared with
// plain loops. A stretch's scratch stands against guard pages, where slices, shuffles and poolings of an image meet.
#include <random>

#include <sinter/run/call_state.hpp>
#include <sinter/run/network_plan.hpp>
#include <sinter/run/program_builder.hpp>

#include "../support/guard_buffer.hpp"
#include "../support/levels.hpp"
#include "executors.hpp"
#include "network_helpers.hpp"

using namespace network_test;
using namespace run_test;
using sinter::strip_policy;
using sinter_test::guard_buffer, sinter_test::placement;

namespace {

constexpr auto pooled = sinter::max_pool(sinter::relu(sinter::conv2d(x, w, {.pad = 1}) + b),
                                         {.kernel = 3, .stride = 2});
constexpr auto pool_alone = sinter::max_pool(x, {.kernel = 2, .stride = 2});
constexpr auto scaled = sinter::relu(x * sinter::vector<"s"> + b);
constexpr auto mean = sinter::global_avg_pool(x);
constexpr auto depthwise = sinter::conv2d(x, w, {.pad = 1, .groups = 16}) + b;
constexpr auto added = sinter::relu(x + r);

/// Weights that no order of summation leaves alone, or whole numbers.
class weights {
 public:
  explicit weights(bool whole) : whole_(whole) {}

  void conv(std::string const& name, extent out, extent in, extent k) {
    fill(name + ".weight", {out, in, k, k});
    fill(name + ".bias", {out});
  }
  void fill(std::string const& name, shape const& dims) {
    std::vector<float> v = network_test::whole(sinter::element_count(dims),
                                               static_cast<unsigned>(held_.held.size() + 1), 2);
    for (float& f : v) f *= whole_ ? 1.0F : 0.3711F;
    held_.held[name] = {dims, std::move(v)};
  }
  sinter::weight_source source() const { return held_.source(); }

 private:
  bool whole_;
  store held_;
};

/// A stem with a pooling behind its convolution; two branches side by side in one concat, of which the second is pooled
/// from a slice; a depthwise convolution; a shuffle of two slices; a residual over all that; the mean.
net_value describe(network_builder& net, net_value const& image) {
  auto const stem = add_conv(net, "stem", pooled, image);
  auto const squeezed = add_conv(net, "squeeze", conv1, stem);
  auto const fire =
      net.concat({add_conv(net, "left", conv1, squeezed), add_conv(net, "right", conv3, squeezed)});
  auto const half = net.channels(fire, 16, 16);
  auto const deep = add_conv(net, "deep", depthwise, half);
  auto const shuffled = net.channel_shuffle(net.concat({net.channels(fire, 0, 16), deep}), 2);
  auto const normed =
      net.add("norm", scaled, x = shuffled, sinter::vector<"s"> = net.vector("norm.scale"),
              b = net.vector("norm.bias"));
  auto const sum = net.add("sum", added, x = normed, r = fire);
  auto const small = net.add("pool", pool_alone, x = sum);
  return net.add("mean", mean, x = add_conv(net, "last", conv3, small));
}
weights weights_of_it(bool whole) {
  weights s(whole);
  s.conv("stem", 24, 3, 3);
  s.conv("squeeze", 16, 24, 1);
  s.conv("left", 16, 16, 1);
  s.conv("right", 16, 16, 3);
  s.conv("deep", 16, 1, 3);
  s.fill("norm.scale", {32});
  s.fill("norm.bias", {32});
  s.conv("last", 10, 32, 3);
  return s;
}

struct made {
  network net;
  std::string text;
  bool stretched = false;
};
made make(sinter::precision const& dtypes, shape const& image, sinter::options const& o,
          bool whole = false) {
  weights const s = weights_of_it(whole);
  network_builder net(dtypes, s.source(), o);
  network n = net.build(describe(net, net.input("image", image))).value();
  std::string text = n.explain();
  bool const stretched = has(text, " run image by image, ");
  return {std::move(n), std::move(text), stretched};
}
sinter::options options_of(strip_policy stretches, std::string_view backend = {}) {
  sinter::options o = quiet();
  o.stretches = stretches;
  o.backend = backend;
  return o;
}
image picture(extent images) {
  image in = image::random(images, 25, 23, 3, 5);
  for (float& f : in.data) f *= 0.711F;
  return in;
}

}  // namespace

TEST_CASE(
    "stretches give the bits of the whole batch: poolings, slices, shuffles, depthwise, at every "
    "level") {
  for (sinter::isa level : sinter_test::jit_levels())
    for (sinter::precision const& dtypes : {sinter::f32, sinter::bf16})
      for (extent images : {2, 5}) {
        sinter::options plain = options_of(strip_policy::never),
                        stretched = options_of(strip_policy::always);
        plain.max_isa = stretched.max_isa = level;
        made const one = make(dtypes, {images, 25, 23, 3}, plain);
        made const two = make(dtypes, {images, 25, 23, 3}, stretched);
        CAPTURE(two.text);
        CHECK(!one.stretched);
        CHECK(two.stretched);
        CHECK(run(one.net, picture(images), {images, 1, 1, 10}) ==
              run(two.net, picture(images), {images, 1, 1, 10}));
        CHECK(two.net.memory().arena < one.net.memory().arena);
        CHECK(two.net.memory().intermediates == one.net.memory().intermediates);
      }
}

TEST_CASE("strips are members of a stretch, and say both") {
  sinter::options plain = options_of(strip_policy::never, "jit"),
                  both = options_of(strip_policy::always, "jit");
  plain.strips = strip_policy::never;
  both.strips = strip_policy::always;
  both.strip_rows = 3;
  made const one = make(sinter::f32, {3, 25, 23, 3}, plain);
  made const two = make(sinter::f32, {3, 25, 23, 3}, both);
  CAPTURE(two.text);
  CHECK(two.stretched);
  CHECK(has(two.text, " strips of 3 rows of each image"));
  CHECK(run(one.net, picture(3), {3, 1, 1, 10}) == run(two.net, picture(3), {3, 1, 1, 10}));
}

TEST_CASE(
    "oneDNN and the reference compute images by themselves where nothing is summed in another "
    "order") {
  for (std::string_view backend : {"onednn", "reference"}) {
    sinter::options plain = options_of(strip_policy::never, backend),
                    stretched = options_of(strip_policy::always, backend);
    plain.numerics = stretched.numerics = sinter::numerics::peer;
    bool there = false;
    for (sinter::backend const* each : sinter::backends()) there = there || each->name() == backend;
    if (!there) continue;
    made const whole = make(sinter::f32, {3, 25, 23, 3}, plain, true);
    made const images = make(sinter::f32, {3, 25, 23, 3}, stretched, true);
    CAPTURE(images.text);
    CHECK(images.stretched);
    CHECK(has(images.text, "oneDNN may sum otherwise") == (backend == "onednn"));
    image const in = image::random(3, 25, 23, 3, 5);
    CHECK(run(whole.net, in, {3, 1, 1, 10}) == run(images.net, in, {3, 1, 1, 10}));
  }
}

TEST_CASE("whole numbers image by image are the reference's") {
  image const in = image::random(3, 25, 23, 3, 5);
  made const reference =
      make(sinter::f32, {3, 25, 23, 3}, options_of(strip_policy::never, "reference"), true);
  std::vector<float> const wanted = run(reference.net, in, {3, 1, 1, 10});
  for (sinter::isa level : sinter_test::jit_levels()) {
    sinter::options o = options_of(strip_policy::always);
    o.max_isa = level;
    CHECK(run(make(sinter::f32, {3, 25, 23, 3}, o, true).net, in, {3, 1, 1, 10}) == wanted);
  }
}

TEST_CASE("a batch of unknown size goes image by image by rule, by one call as by another") {
  made const plain =
      make(sinter::f32, {sinter::dynamic, 25, 23, 3}, options_of(strip_policy::never));
  made const by_rule =
      make(sinter::f32, {sinter::dynamic, 25, 23, 3}, options_of(strip_policy::by_rule));
  CAPTURE(by_rule.text);
  CHECK(by_rule.stretched);
  for (extent images : {1, 4, 2, 0, 3})
    CHECK(run(plain.net, picture(images), {images, 1, 1, 10}) ==
          run(by_rule.net, picture(images), {images, 1, 1, 10}));
  made const tall =
      make(sinter::f32, {2, sinter::dynamic, 23, 3}, options_of(strip_policy::always));
  CHECK(has(tall.text, "is no batch of images N,H,W,C whose extents but for N are known"));
}

TEST_CASE("slices of images of unknown size are views, at every level") {
  image const in = image::random(3, 25, 23, 3, 5);
  made const fixed = make(sinter::f32, {3, 25, 23, 3}, options_of(strip_policy::never), true);
  std::vector<float> const wanted = run(fixed.net, in, {3, 1, 1, 10});
  for (sinter::isa level : sinter_test::jit_levels()) {
    sinter::options o = options_of(strip_policy::by_rule);
    o.max_isa = level;
    extent const any = sinter::dynamic;
    made const moving = make(sinter::f32, {any, any, any, 3}, o, true);
    // The shuffle reads its parts as one concat, of which the first half is taken by another.
    CHECK(moving.net.copy_count() <= fixed.net.copy_count() + 1);
    CHECK(run(moving.net, in, {3, 1, 1, 10}) == wanted);
  }
}

TEST_CASE("images are dealt to threads, with the same bits for any number of them") {
  threads_executor threads;
  backwards_executor backwards;
  std::vector<float> const wanted =
      run(make(sinter::bf16, {7, 25, 23, 3}, options_of(strip_policy::never)).net, picture(7),
          {7, 1, 1, 10});
  for (int count : {2, 3, 8})
    for (sinter::executor* executor :
         {static_cast<sinter::executor*>(&threads), static_cast<sinter::executor*>(&backwards)}) {
      sinter::options o = options_of(strip_policy::always);
      o.threads = count;
      o.executor = executor;
      made const shared = make(sinter::bf16, {7, 25, 23, 3}, o);
      CHECK(shared.stretched);
      for (int call = 0; call < 3; ++call)
        CHECK(run(shared.net, picture(7), {7, 1, 1, 10}) == wanted);
      o.stretches = strip_policy::by_rule;
      if (count > 1)
        CHECK(has(make(sinter::bf16, {7, 25, 23, 3}, o).text, "few images for the threads"));
    }
}

TEST_CASE("a stretch stays within its scratch, which is that of one image") {
  for (int i = 0; i < 4; ++i) {
    extent const batch = i % 2 == 0 ? 3 : sinter::dynamic;
    made const m = make(i < 2 ? sinter::f32 : sinter::bf16, {batch, 25, 23, 3},
                        options_of(strip_policy::always));
    auto const plan = m.net.plan().program;
    REQUIRE(!plan->strips.empty());
    image const in = picture(3);
    std::vector<sinter::bfloat16> low;
    for (float f : in.data) low.push_back(sinter::to_bfloat16(f));
    bool const f32 = m.net.describe("image").value().type == sinter::dtype::f32;
    sinter::named_view const views[] = {
        {"image", f32 ? in.view() : sinter::view(low.data(), in.dims())}};
    std::vector<std::byte> wanted(3 * 10 * (f32 ? 4 : 2)), got(wanted.size());
    sinter::named_output const outputs[] = {{"out",
                                             {wanted.data(),
                                              f32 ? sinter::dtype::f32 : sinter::dtype::bf16,
                                              {3, 1, 1, 10},
                                              sinter::dense_strides({3, 1, 1, 10}),
                                              false}}};
    auto const state = std::move(sinter::detail::call_state::make(plan).value());
    state->accept(views, {}, outputs).check();
    state->settle();
    REQUIRE(state->run() == sinter::code::ok);
    for (int g : state->active) {
      sinter::detail::planned_strip const* const s = plan->strip_of(g);
      if (s == nullptr) continue;
      for (placement where : {placement::end, placement::start}) {
        guard_buffer scratch(sinter::round_up(s->kernel->scratch_bytes(), 64), where);
        auto const invocation = std::move(s->kernel->make_invocation().value());
        sinter::call_args args = state->args[static_cast<std::size_t>(g)];
        args.scratch = scratch.data();
        for (int o = 0; o < s->outputs.ssize(); ++o)
          if (s->outputs[o].from == sinter::detail::source::output) args.outputs[o] = got.data();
        invocation->repoint(args);
        CHECK(invocation->run() == sinter::code::ok);
        CHECK(scratch.intact());
      }
    }
    CHECK(got == wanted);
  }
}

TEST_CASE(
    "a value that is wanted outside is stored whole, and rules say why a group takes the whole "
    "batch") {
  weights const s = weights_of_it(false);
  auto const build = [&](strip_policy policy) {
    network_builder net(sinter::f32, s.source(), options_of(policy));
    auto const stem = add_conv(net, "stem", pooled, net.input("image", {4, 25, 23, 3}));
    auto const squeezed = add_conv(net, "squeeze", conv1, stem);
    auto const left = add_conv(net, "left", conv1, squeezed);
    return net.build({{"out", left}, {"inner", squeezed}}).value();
  };
  image const in = picture(4);
  std::vector<float> out[2], inner[2];
  for (int i = 0; i < 2; ++i) {
    network const net = build(i == 0 ? strip_policy::never : strip_policy::always);
    shape const dims = net.describe("out").value().dims;
    out[i].resize(static_cast<std::size_t>(sinter::element_count(dims)));
    inner[i] = out[i];
    sinter::named_view const views[] = {{"image", in.view()}};
    sinter::named_output const results[] = {{"out", sinter::view(out[i].data(), dims)},
                                            {"inner", sinter::view(inner[i].data(), dims)}};
    net.try_call(views, results).check();
    CHECK(has(net.explain(), "image by image, by options::stretches") == (i == 1));
  }
  CHECK(out[0] == out[1]);
  CHECK(inner[0] == inner[1]);
  CHECK(has(build(strip_policy::by_rule).explain(), "the whole batch at once: rule 'near batch'"));
}
