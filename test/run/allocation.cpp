// After a thread's first call, or warm_up(), a call allocates nothing. Counted by the program's own operator new.
#include <new>

#include "counting_new.hpp"
#include "executors.hpp"
#include "helpers.hpp"

using namespace run_test;

namespace {

template <class F>
long allocations_of(F&& f) {
  long const before = allocation_count();
  f();
  return allocation_count() - before;
}

}  // namespace

TEST_CASE("the counter counts") {
  CHECK(allocations_of([] { ::operator delete(::operator new(1)); }) == 1);
  CHECK(allocations_of([] { sinter::buffer const b(100); }) == 1);
}

TEST_CASE("static extents: no allocation in bound and unbound calls") {
  for (sinter::options const& o : {on_reference(), on("")}) {
    program const p = compile(
        {"matmul(x, w) | add b:vector | relu -> ~h=%2", "add(~h:tensor, r:tensor) -> out=%0"},
        {dims("x", {8, 16}), dims("w", {16, 32})}, o);
    INFO(p->explain());
    std::vector<float> const xs(128, 1.0F), ws(512, 1.0F), bs(32, 0.0F), rs(256, 0.0F);
    std::vector<float> out(256);
    sinter::packed const w = pack(p, "w", sinter::view(ws.data(), {16, 32}));
    call_lists const lists{{{"x", sinter::view(xs.data(), {8, 16})},
                            {"b", sinter::as_view(bs)},
                            {"r", sinter::view(rs.data(), {8, 32})}},
                           {&w},
                           {{"out", sinter::view(out.data(), {8, 32})}}};
    p->warm_up().check();
    bool ok = true;
    CHECK(allocations_of([&] { ok = p->warm_up().ok() && ok; }) == 0);
    CHECK(allocations_of([&] {
            for (int i = 0; i < 100; ++i) ok = lists.run(p).ok() && ok;
          }) == 0);
    CHECK(ok);
    CHECK(out[255] == 16.0F);
    auto call = lists.bind(p).value();
    call();
    CHECK(allocations_of([&] {
            for (int i = 0; i < 100; ++i) {
              call();
              ok = call.repoint("x", xs.data()).ok() && ok;
            }
          }) == 0);
    CHECK(ok);
  }
}

TEST_CASE("strips: no allocation, whatever the number of images was before") {
  sinter::options o = quiet();
  o.backend = "jit";
  o.strips = sinter::strip_policy::always;
  o.strip_rows = 2;
  program const p =
      compile({"conv2d(x, w1) | relu -> ~h", "conv2d(~h, w2, pad=1, groups=16) -> out"},
              {dims("x", {sinter::dynamic, 16, 8, 4}), dims("w1", {16, 1, 1, 4}),
               dims("w2", {16, 3, 3, 1})},
              o);
  INFO(p->explain());
  REQUIRE(p->explain().find(" strips of 2 rows") != std::string::npos);
  std::vector<float> const xs(3 * 16 * 8 * 4, 1.0F), w1(16 * 4, 1.0F), w2(16 * 9, 1.0F);
  std::vector<float> out(3 * 16 * 8 * 16);
  sinter::packed const packed1 = pack(p, "w1", sinter::view(w1.data(), {16, 1, 1, 4}));
  sinter::packed const packed2 = pack(p, "w2", sinter::view(w2.data(), {16, 3, 3, 1}));
  auto const of_images = [&](extent images) {
    return call_lists{{{"x", sinter::view(xs.data(), {images, 16, 8, 4})}},
                      {&packed1, &packed2},
                      {{"out", sinter::view(out.data(), {images, 16, 8, 16})}}};
  };
  call_lists const most = of_images(3), few = of_images(1);
  bool ok = most.run(p).ok();
  CHECK(allocations_of([&] {
          for (int i = 0; i < 100; ++i) ok = few.run(p).ok() && most.run(p).ok() && ok;
        }) == 0);
  CHECK(ok);
  CHECK(out[8 * 16 + 16] == 4.0F * 9);  // row 1, column 1: all nine taps see the image
}

TEST_CASE("dynamic extents: no allocation unless they grow") {
  program const p = compile({"matmul(x, w) | relu -> ~h=%1", "square(~h:tensor) -> out=%0"},
                            {{"x", {sinter::dynamic, 16}, {}, {}}, dims("w", {16, 32})});
  std::vector<float> const xs(64 * 16, 1.0F), ws(512, 1.0F);
  std::vector<float> out(64 * 32);
  sinter::packed const w = pack(p, "w", sinter::view(ws.data(), {16, 32}));
  bool ok = true;
  auto const run = [&](extent m) {
    sinter::named_view const x[] = {{"x", sinter::view(xs.data(), {m, 16})}};
    sinter::named_output const y[] = {{"out", sinter::view(out.data(), {m, 32})}};
    sinter::packed const* const packs[] = {&w};
    ok = p->run(x, packs, y).ok() && ok;
  };
  run(32);
  CHECK(allocations_of([&] {
          for (extent m : {1, 32, 7, 0, 31}) run(m);
        }) == 0);
  CHECK(allocations_of([&] { run(64); }) == 1);  // the arena
  CHECK(allocations_of([&] {
          run(33);
          run(64);
        }) == 0);
  CHECK(ok);
  CHECK(out[64 * 32 - 1] == 256.0F);
}

TEST_CASE("several threads: no allocation after warm_up() or bind()") {
  backwards_executor e;
  for (sinter::options o : {on_reference(), on("")}) {
    o.threads = 3;
    o.executor = &e;
    program const p = compile(
        {"matmul(x, w) | relu -> ~h=%1", "matmul(~h:tensor, y:tensor) -> out=%0"},
        {{"x", {sinter::dynamic, 64}, {}, {}}, dims("w", {64, 96}), dims("y", {96, 40})}, o);
    std::vector<float> const xs(90 * 64, 1.0F), ws(64 * 96, 1.0F), ys(96 * 40, 1.0F);
    std::vector<float> out(90 * 40);
    sinter::packed const w = pack(p, "w", sinter::view(ws.data(), {64, 96}));
    auto const lists = [&](extent m) {
      return call_lists{
          {{"x", sinter::view(xs.data(), {m, 64})}, {"y", sinter::view(ys.data(), {96, 40})}},
          {&w},
          {{"out", sinter::view(out.data(), {m, 40})}}};
    };
    call_lists const large = lists(90), small = lists(33);
    REQUIRE(large.run(p));  // the arena grows to what 90 rows want
    auto call = large.bind(p).value();
    bool ok = true;
    CHECK(allocations_of([&] {
            for (int i = 0; i < 20; ++i) {
              ok = (i % 2 == 0 ? large : small).run(p).ok() && ok;
              call();
              ok = call.repoint("x", xs.data()).ok() && ok;
            }
          }) == 0);
    CHECK(ok);
    CHECK(out[90 * 40 - 1] == 64.0F * 96.0F);
  }
}
