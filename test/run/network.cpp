// Networks: what they compute, against plain loops on whole numbers, which are exact on every path.
#include "network_helpers.hpp"

#include <thread>

#include <sinter/run/call_state.hpp>
#include <sinter/run/network_plan.hpp>

#include "counting_new.hpp"
#include "executors.hpp"

using namespace network_test;

namespace {

store small_store() {
  store s;
  s.conv("c0", 16, 8, 3);
  s.conv("c1", 16, 16, 3);
  s.conv("squeeze", 8, 16, 1);
  s.conv("left", 16, 8, 1);
  s.conv("right", 24, 8, 3);
  s.conv("last", 8, 40, 1);
  s.conv("grow0", 8, 16, 3);
  s.conv("grow1", 8, 24, 3);
  s.conv("grow2", 8, 32, 1);
  s.conv("branch", 8, 8, 3);
  s.conv("after", 8, 16, 1);
  return s;
}

/// A fire module and what reads it.
net_value fire(network_builder& net, net_value const& in) {
  auto const squeezed = add_conv(net, "squeeze", conv1, in);
  auto const left = add_conv(net, "left", conv1, squeezed);
  auto const right = add_conv(net, "right", conv3, squeezed);
  return add_conv(net, "last", conv1, net.concat({left, right}));
}
image plain_fire(store const& s, image const& in) {
  image const squeezed = plain_conv(s, "squeeze", in);
  return plain_conv(
      s, "last", plain_concat({plain_conv(s, "left", squeezed), plain_conv(s, "right", squeezed)}));
}

/// Three layers of a dense block: each reads all before it. `nested` says how the concats are written.
net_value dense(network_builder& net, net_value const& in, bool nested) {
  auto const f0 = add_conv(net, "c0", conv3, in);
  auto const f1 = add_conv(net, "grow0", conv3, f0);
  auto const two = net.concat({f0, f1});
  auto const f2 = add_conv(net, "grow1", conv3, two);
  auto const three = nested ? net.concat({two, f2}) : net.concat({f0, f1, f2});
  auto const f3 = add_conv(net, "grow2", conv1, three);
  auto const four = nested ? net.concat({three, f3}) : net.concat({f0, f1, f2, f3});
  return add_conv(net, "last", conv1, four);
}
image plain_dense(store const& s, image const& in) {
  image const f0 = plain_conv(s, "c0", in);
  image const f1 = plain_conv(s, "grow0", f0);
  image const f2 = plain_conv(s, "grow1", plain_concat({f0, f1}));
  image const f3 = plain_conv(s, "grow2", plain_concat({f0, f1, f2}));
  return plain_conv(s, "last", plain_concat({f0, f1, f2, f3}));
}

/// Two units of a shuffle network.
net_value shuffled(network_builder& net, net_value const& in) {
  net_value v = add_conv(net, "c0", conv3, in);
  for (int i = 0; i < 2; ++i) {
    auto const computed = add_conv(net, "branch", conv3, net.channels(v, 8, 8));
    v = net.channel_shuffle(net.concat({net.channels(v, 0, 8), computed}), 2);
  }
  return add_conv(net, "after", conv1, v);
}
image plain_shuffled(store const& s, image const& in) {
  image v = plain_conv(s, "c0", in);
  for (int i = 0; i < 2; ++i)
    v = plain_shuffle(
        plain_concat({plain_channels(v, 0, 8), plain_conv(s, "branch", plain_channels(v, 8, 8))}),
        2);
  return plain_conv(s, "after", v);
}

}  // namespace

TEST_CASE("a residual network is what plain loops give, on each backend and precision") {
  store const s = small_store();
  for (std::string_view backend : {"", "reference", "jit", "onednn"})
    for (sinter::precision const& p : {sinter::f32, sinter::bf16}) {
      CAPTURE(backend);
      network_builder net(p, s.source(), on(backend));
      auto const in = net.input("image", {2, 9, 7, 8});
      auto const h = add_conv(net, "c0", conv3, in);
      CHECK(h.dims() == shape{2, 9, 7, 16});
      auto const y = net.add("second", residual3, x = h, w = net.weight("c1.weight").oihw(),
                             b = net.vector("c1.bias"), r = h);
      auto const model = net.build(y);
      if (!model) {
        CHECK_MESSAGE((backend == "jit" || backend == "onednn"), model.error().message);
        continue;
      }
      image const pixels = image::random(2, 9, 7, 8, 1);
      image const first = plain_conv(s, "c0", pixels, nullptr, p.dst);
      image const second = plain_conv(s, "c1", first, &first, p.dst);
      CHECK(run(*model, pixels, second.dims()) == second.data);
    }
}

TEST_CASE("a concat costs nothing: its producers write where it belongs") {
  store const s = small_store();
  network_builder net(sinter::f32, s.source(), quiet());
  auto const model = net.build(fire(net, net.input("image", {1, 6, 5, 16}))).value();
  INFO(model.explain());
  CHECK(model.copy_count() == 0);
  CHECK(model.group_count() == 4);
  image const pixels = image::random(1, 6, 5, 16, 3);
  image const wanted = plain_fire(s, pixels);
  CHECK(run(model, pixels, wanted.dims()) == wanted.data);
}

TEST_CASE("a dense block costs nothing, however its concats are written") {
  store const s = small_store();
  for (bool nested : {false, true})
    for (std::string_view backend : {"", "reference"}) {
      network_builder net(sinter::f32, s.source(), on(backend));
      auto const model = net.build(dense(net, net.input("image", {1, 6, 5, 8}), nested)).value();
      INFO(model.explain());
      CHECK(model.copy_count() == 0);
      image const pixels = image::random(1, 6, 5, 8, 4);
      image const wanted = plain_dense(s, pixels);
      CHECK(run(model, pixels, wanted.dims()) == wanted.data);
    }
}

TEST_CASE("what no producer can write is copied, and explain() says why") {
  store const s = small_store();
  network_builder net(sinter::f32, s.source(), quiet());
  auto const in = net.input("image", {1, 4, 4, 8});
  auto const left = add_conv(net, "branch", conv3, in);
  auto const one = add_conv(net, "after", conv1, net.concat({in, left}));
  auto const two = add_conv(net, "after", conv1, net.concat({left, left}));
  sinter::named_value const outputs[] = {{"one", one}, {"two", two}};
  auto const model = net.build(outputs).value();
  INFO(model.explain());
  CHECK(model.copy_count() == 3);
  CHECK(has(model.explain(), "it is an input"));
  CHECK(has(model.explain(), "it lies in another concat"));
  image const pixels = image::random(1, 4, 4, 8, 5);
  image const l = plain_conv(s, "branch", pixels);
  std::vector<float> first(128), second(128);
  sinter::named_view const views[] = {{"image", pixels.view()}};
  sinter::named_output const results[] = {{"two", sinter::view(second.data(), {1, 4, 4, 8})},
                                          {"one", sinter::view(first.data(), {1, 4, 4, 8})}};
  model.try_call(views, results).check();
  CHECK(first == plain_conv(s, "after", plain_concat({pixels, l})).data);
  CHECK(second == plain_conv(s, "after", plain_concat({l, l})).data);
}

TEST_CASE("channels are views, a shuffle is one rearrangement") {
  store const s = small_store();
  for (sinter::precision const& p : {sinter::f32, sinter::bf16}) {
    network_builder net(p, s.source(), quiet());
    auto const model = net.build(shuffled(net, net.input("image", {1, 5, 6, 8}))).value();
    INFO(model.explain());
    CHECK(model.copy_count() == 2);  // one pass for each unit: it reads both parts where they lie
    image const pixels = image::random(1, 5, 6, 8, 6);
    image const wanted = plain_shuffled(s, pixels);
    if (p == sinter::f32) CHECK(run(model, pixels, wanted.dims()) == wanted.data);
  }
}

TEST_CASE("an output in another dtype is rounded from what was computed") {
  store s = small_store();
  for (float& value : s.held.at("branch.bias").data) value = 257;  // no bf16 is that
  network_builder net(sinter::bf16, s.source(), quiet());
  auto const in = net.input("image", {1, 4, 4, 8}, sinter::dtype::f32);
  auto const a = add_conv(net, "branch", conv3, in);
  sinter::named_value const outputs[] = {{"wide", a, sinter::dtype::f32}, {"narrow", a}};
  auto const model = net.build(outputs).value();
  INFO(model.explain());
  CHECK(model.group_count() == 2);  // the image is converted; one convolution stores both
  image const pixels = image::random(1, 4, 4, 8, 8);
  std::vector<float> wide(128);
  std::vector<sinter::bfloat16> narrow(128);
  sinter::named_view const views[] = {{"image", pixels.view()}};
  sinter::named_output const results[] = {{"wide", sinter::view(wide.data(), {1, 4, 4, 8})},
                                          {"narrow", sinter::view(narrow.data(), {1, 4, 4, 8})}};
  model.try_call(views, results).check();
  CHECK(wide == plain_conv(s, "branch", pixels).data);
  image const rounded = plain_conv(s, "branch", pixels, nullptr, sinter::dtype::bf16);
  for (std::size_t i = 0; i < 128; ++i) CHECK(sinter::to_float(narrow[i]) == rounded.data[i]);

  sinter::named_value const counted[] = {{"out", a, sinter::dtype::s8}};
  auto const refused = net.build(counted);
  REQUIRE(!refused.ok());
  CHECK(refused.error().message ==
        "sinter: output 'out' is wanted in s8; a floating dtype is wanted");
}

TEST_CASE("outputs that others read, concats and inputs as outputs") {
  store const s = small_store();
  network_builder net(sinter::f32, s.source(), quiet());
  auto const in = net.input("image", {1, 4, 4, 8});
  auto const a = add_conv(net, "branch", conv3, in);
  auto const c = net.concat({a, add_conv(net, "branch", conv3, a)});
  sinter::named_value const outputs[] = {
      {"a", a}, {"c", c}, {"same", in}, {"half", net.channels(c, 4, 8)}};
  auto const model = net.build(outputs).value();
  INFO(model.explain());
  image const pixels = image::random(1, 4, 4, 8, 7);
  image const pa = plain_conv(s, "branch", pixels);
  image const pc = plain_concat({pa, plain_conv(s, "branch", pa)});
  run_test::guarded ra(128), rc(256), rs(128), rh(128);
  sinter::named_view const views[] = {{"image", pixels.view()}};
  sinter::named_output const results[] = {{"a", sinter::view(ra.data(), {1, 4, 4, 8})},
                                          {"c", sinter::view(rc.data(), {1, 4, 4, 16})},
                                          {"same", sinter::view(rs.data(), {1, 4, 4, 8})},
                                          {"half", sinter::view(rh.data(), {1, 4, 4, 8})}};
  model.try_call(views, results).check();
  CHECK(std::vector<float>(ra.data(), ra.data() + 128) == pa.data);
  CHECK(std::vector<float>(rc.data(), rc.data() + 256) == pc.data);
  CHECK(std::vector<float>(rs.data(), rs.data() + 128) == pixels.data);
  CHECK(std::vector<float>(rh.data(), rh.data() + 128) == plain_channels(pc, 4, 8).data);
  CHECK((ra.walls_intact() && rc.walls_intact() && rs.walls_intact() && rh.walls_intact()));
}

TEST_CASE("flatten, a transposed linear layer and the same as a convolution agree") {
  store s = small_store();
  s.held["fc.weight"] = {{10, 8 * 3 * 2}, whole(480, 50)};
  s.held["fc.bias"] = {{10}, whole(10, 51)};
  image const pixels = image::random(2, 3, 2, 8, 8);
  image const h = plain_conv(s, "branch", pixels);
  std::vector<float> by_rows(20), by_conv(20);
  for (std::size_t n = 0; n < 2; ++n)
    for (std::size_t o = 0; o < 10; ++o) {
      float rows = s["fc.bias"][o], map = rows;
      for (std::size_t i = 0; i < 48; ++i) {
        rows += h.data[n * 48 + i] * s["fc.weight"][o * 48 + i];
        std::size_t const channel = i / 6, pixel = i % 6;  // C,H,W of PyTorch
        map += h.data[n * 48 + pixel * 8 + channel] * s["fc.weight"][o * 48 + i];
      }
      by_rows[n * 10 + o] = rows;
      by_conv[n * 10 + o] = map;
    }
  network_builder net(sinter::f32, s.source(), quiet());
  auto const v = add_conv(net, "branch", conv3, net.input("image", {2, 3, 2, 8}));
  auto const linear = net.add("linear", sinter::matmul(x, w) + b, x = net.flatten(v),
                              w = net.weight("fc.weight").transposed(), b = net.vector("fc.bias"));
  CHECK(run(net.build(linear).value(), pixels, {2, 10}) == by_rows);
  network_builder other(sinter::f32, s.source(), quiet());
  auto const u = add_conv(other, "branch", conv3, other.input("image", {2, 3, 2, 8}));
  auto const conv = other.add("conv", sinter::conv2d(x, w) + b, x = u,
                              w = other.weight("fc.weight").reshaped({10, 8, 3, 2}).oihw(),
                              b = other.vector("fc.bias"));
  CHECK(run(other.build(conv).value(), pixels, {2, 1, 1, 10}) == by_conv);
}

TEST_CASE("batch and image size are dynamic, without new code") {
  store const s = small_store();
  for (int kind = 0; kind < 3; ++kind)
    for (bool whole_image : {false, true}) {
      CAPTURE(kind);
      extent const side = whole_image ? sinter::dynamic : 5;
      auto const build = [&](shape const& dims) {
        network_builder net(sinter::f32, s.source(), quiet());
        auto const in = net.input("image", dims);
        return net
            .build(kind == 0   ? fire(net, in)
                   : kind == 1 ? dense(net, in, true)
                               : shuffled(net, in))
            .value();
      };
      extent const channels = kind == 0 ? 16 : 8;
      network const model = build({sinter::dynamic, side, side, channels});
      INFO(model.explain());
      // Slices are views as where all is fixed; but a shuffle reads a concat of unknown extents as a whole.
      if (kind < 2) CHECK(model.copy_count() == build({2, 5, 5, channels}).copy_count());
      auto const built = sinter::read_counters().kernels;
      for (extent n : {2, 1, 3})
        for (extent size : {5, 7}) {
          extent const h = whole_image ? size : 5, columns = whole_image ? size + 1 : 5;
          image const pixels = image::random(n, h, columns, kind == 0 ? 16 : 8, 9);
          image const wanted = kind == 0   ? plain_fire(s, pixels)
                               : kind == 1 ? plain_dense(s, pixels)
                                           : plain_shuffled(s, pixels);
          CHECK(run(model, pixels, wanted.dims()) == wanted.data);
        }
      CHECK(sinter::read_counters().kernels == built);
    }
}

TEST_CASE("extents of a call that do not fit are refused, and nothing is written") {
  store const s = small_store();
  network_builder net(sinter::f32, s.source(), quiet());
  auto const a = net.input("a", {1, sinter::dynamic, 4, 8});
  auto const c = net.input("c", {1, sinter::dynamic, 4, 8});
  auto const both =
      net.concat({add_conv(net, "branch", conv3, a), add_conv(net, "branch", conv3, c)});
  auto const model = net.build(add_conv(net, "after", conv1, both)).value();
  image const three = image::random(1, 3, 4, 8, 1), five = image::random(1, 5, 4, 8, 1);
  std::vector<float> result(96, 7.0F);
  sinter::named_output const results[] = {{"out", sinter::view(result.data(), {1, 3, 4, 8})}};
  sinter::named_view const wrong[] = {{"a", three.view()}, {"c", five.view()}};
  auto const st = model.try_call(wrong, results);
  REQUIRE(!st.ok());
  CHECK(has(st.error().message, "a part of a concat is 1x5x4x8 in this call"));
  CHECK(result == std::vector<float>(96, 7.0F));
  sinter::named_view const right[] = {{"a", three.view()}, {"c", three.view()}};
  model.try_call(right, results).check();
  image const part = plain_conv(s, "branch", three);
  CHECK(result == plain_conv(s, "after", plain_concat({part, part})).data);
}

TEST_CASE("equal blocks share kernels; a call and a bound call allocate nothing") {
  store const s = small_store();
  network_builder net(sinter::f32, s.source(), quiet());
  net_value v = add_conv(net, "c0", conv3, net.input("image", {1, 5, 5, 8}));
  for (int i = 0; i < 20; ++i)
    v = net.add("block", residual3, x = v, w = net.weight("c1.weight").oihw(),
                b = net.vector("c1.bias"), r = v);
  auto const before = sinter::read_counters().kernels;
  auto const model = net.build(v).value();
  CHECK(model.group_count() == 21);
  // The first of the equal ones, and the last, which writes the output: but that is no part of the problem.
  CHECK(sinter::read_counters().kernels - before == 2);
  image const pixels = image::random(1, 5, 5, 8, 2);
  std::vector<float> result(400);
  auto const to = sinter::view(result.data(), {1, 5, 5, 16});
  model.warm_up();
  long count = allocation_count();
  for (int i = 0; i < 5; ++i) model(pixels.view(), to);
  CHECK(allocation_count() - count == 0);
  auto call = model.bind(pixels.view(), to);
  count = allocation_count();
  for (int i = 0; i < 5; ++i) call();
  CHECK(allocation_count() - count == 0);
}

TEST_CASE("eight threads share a network; four threads compute one call") {
  store const s = small_store();
  run_test::threads_executor executor;
  image const pixels = image::random(4, 9, 8, 8, 11);
  image const wanted = plain_dense(s, pixels), mixed = plain_shuffled(s, pixels);
  for (int threads : {1, 4}) {
    sinter::options o = quiet();
    o.threads = threads;
    o.executor = threads > 1 ? &executor : nullptr;
    network_builder net(sinter::f32, s.source(), o), other(sinter::f32, s.source(), o);
    auto const model = net.build(dense(net, net.input("image", pixels.dims()), true)).value();
    auto const shuffle = other.build(shuffled(other, other.input("image", pixels.dims()))).value();
    std::atomic<int> wrong{0};
    std::vector<std::thread> all;
    for (int t = 0; t < 8; ++t)
      all.emplace_back([&] {
        for (int i = 0; i < 20; ++i) {
          if (run(model, pixels, wanted.dims()) != wanted.data) ++wrong;
          if (run(shuffle, pixels, mixed.dims()) != mixed.data) ++wrong;
        }
      });
    for (std::thread& t : all) t.join();
    CHECK(wrong == 0);
  }
}

TEST_CASE("bytes that are dead may hold anything: the arena is poisoned between groups") {
  store const s = small_store();
  for (int kind = 0; kind < 3; ++kind) {
    network_builder net(sinter::f32, s.source(), quiet());
    auto const in = net.input("image", {1, 6, 5, kind == 0 ? 16 : 8});
    auto const model = net.build(kind == 0   ? fire(net, in)
                                 : kind == 1 ? dense(net, in, false)
                                             : shuffled(net, in))
                           .value();
    image const pixels = image::random(1, 6, 5, kind == 0 ? 16 : 8, 12);
    image const wanted = kind == 0   ? plain_fire(s, pixels)
                         : kind == 1 ? plain_dense(s, pixels)
                                     : plain_shuffled(s, pixels);
    std::vector<float> result(wanted.data.size());
    auto const state = std::move(sinter::detail::call_state::make(model.plan().program).value());
    sinter::named_view const views[] = {{"image", pixels.view()}};
    sinter::named_output const results[] = {{"out", sinter::view(result.data(), wanted.dims())}};
    state->accept(views, {}, results).check();
    state->settle();
    auto const& items = model.plan().program->items;
    for (int g : state->active) {
      for (std::size_t byte = 0; byte < state->arena.size(); ++byte) {
        bool alive = false;
        for (auto const& item : items)
          alive = alive || (item.first < g && g <= item.last && item.offset <= byte &&
                            byte < item.offset + item.bytes);
        if (!alive) state->arena.data()[byte] = std::byte{0xff};  // NaN in every dtype
      }
      CHECK(state->invocations[static_cast<std::size_t>(g)]->run() == sinter::code::ok);
    }
    CHECK(result == wanted.data);
    sinter::network_memory const m = model.memory();
    CHECK(m.least <= m.arena);
    CHECK(m.arena <= m.least + m.least / 4);
    CHECK(m.arena > 0);
  }
}

TEST_CASE("what does not fit is refused with a sentence, once, at build()") {
  store const s = small_store();
  auto const refused = [&](std::string_view wanted, auto&& write) {
    network_builder net(sinter::f32, s.source(), quiet());
    auto const in = net.input("image", {1, 6, 5, 8});
    net_value const v = write(net, in);
    auto const built = net.build(v);
    REQUIRE(!built.ok());
    CHECK_MESSAGE(has(built.error().message, wanted), built.error().message);
    CHECK(built.error().message.starts_with("sinter: "));
  };
  refused("no weight 'c9.",
          [](network_builder& net, net_value const& in) { return add_conv(net, "c9", conv3, in); });
  refused("block 'c1': conv2d: 'x' of 1x6x5x8 has 8 channels",
          [](network_builder& net, net_value const& in) { return add_conv(net, "c1", conv3, in); });
  refused("operand 'w' is a weight and is bound to a value",
          [](network_builder& net, net_value const& in) {
            return net.add("odd", conv3, x = in, w = in, b = net.vector("c0.bias"));
          });
  refused("is bound to a value that no builder made", [](network_builder& net, net_value const&) {
    return add_conv(net, "c0", conv3, net_value());
  });
  refused("a vector is wanted", [](network_builder& net, net_value const& in) {
    return net.add("odd", conv3, x = in, w = net.weight("c0.weight").oihw(),
                   b = net.vector("c0.weight"));
  });
  refused("extents may differ in the channels only", [](network_builder& net, net_value const& in) {
    return net.concat({in, net.input("other", {1, 6, 6, 8})});
  });
  refused("it has no such channels",
          [](network_builder& net, net_value const& in) { return net.channels(in, 4, 5); });
  refused("channels that the groups divide",
          [](network_builder& net, net_value const& in) { return net.channel_shuffle(in, 3); });
  refused("cannot be reshaped to 1x2", [](network_builder& net, net_value const& in) {
    return net.add("odd", conv3, x = in, w = net.weight("c0.weight").reshaped({1, 2}),
                   b = net.vector("c0.bias"));
  });
  refused("two inputs are named 'image'", [](network_builder& net, net_value const&) {
    return net.input("image", {1, 1, 1, 1});
  });
  refused("input 'other' is read by no block", [](network_builder& net, net_value const& in) {
    net.input("other", {1, 1, 1, 1});
    return add_conv(net, "c0", conv3, in);
  });
  network_builder net(sinter::f32, s.source(), quiet());
  auto const in = net.input("image", {1, 6, 5, 8});
  auto const model = net.build(add_conv(net, "c0", conv3, in)).value();
  image const pixels = image::random(1, 6, 5, 8, 1);
  std::vector<float> result(480);
  auto const st = model.try_call(pixels.view(), sinter::view(result.data(), {1, 6, 5, 8}));
  CHECK(has(st.error().message, "output 'out' is 1x6x5x8; 1x6x5x16 is wanted"));
}
