// Case 28: one program, eight threads, own operands, a thousand calls each; states come and go with the threads.
#include <atomic>
#include <thread>

#include "helpers.hpp"

using namespace run_test;

namespace {

constexpr extent rows = 4, depth = 5, columns = 6;
constexpr int thread_count = 8, calls = 1000;

program two_groups(sinter::options const& o) {
  return compile({"matmul(x, w) | add b:vector | relu -> ~h=%2",
                  "add(~h:tensor, r:tensor) | square -> out=%1"},
                 {dims("x", {rows, depth}), dims("w", {depth, columns})}, o);
}

/// With x = seed everywhere, w = 1, b = -seed and r = 1 each element is (4 seed + 1)^2, exact in f32.
float expected(int seed) {
  auto const v = static_cast<float>(4 * seed + 1);
  return v * v;
}

struct operands {
  std::vector<float> x, b, r, out;
  call_lists lists;
  operands(int seed, sinter::packed const& w)
      : x(rows * depth, static_cast<float>(seed)),
        b(columns, -static_cast<float>(seed)),
        r(rows * columns, 1.0F),
        out(rows * columns, -1.0F) {
    lists = {{{"x", sinter::view(x.data(), {rows, depth})},
              {"b", sinter::as_view(b)},
              {"r", sinter::view(r.data(), {rows, columns})}},
             {&w},
             {{"out", sinter::view(out.data(), {rows, columns})}}};
  }
  bool right(int seed) const {
    for (float v : out)
      if (v != expected(seed)) return false;
    return true;
  }
};

void hammer(sinter::options const& o) {
  program const p = two_groups(o);
  std::vector<float> const ones(depth * columns, 1.0F);
  sinter::packed const w = pack(p, "w", sinter::view(ones.data(), {depth, columns}));
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < thread_count; ++t)
    threads.emplace_back([&, t] {
      operands mine(t + 1, w);
      if (t % 2 == 0) {
        for (int i = 0; i < calls; ++i) {
          mine.out.assign(mine.out.size(), -1.0F);
          if (!mine.lists.run(p) || !mine.right(t + 1)) ++wrong;
        }
        return;
      }
      auto call = mine.lists.bind(p);
      for (int i = 0; i < calls; ++i) {
        mine.out.assign(mine.out.size(), -1.0F);
        if (!call || call->run() != sinter::code::ok || !mine.right(t + 1)) ++wrong;
      }
    });
  for (std::thread& t : threads) t.join();
  CHECK(wrong == 0);
}

}  // namespace

TEST_CASE("eight threads share one program: the reference backend") { hammer(on_reference()); }

TEST_CASE("eight threads share one program: the backend that dispatch takes") { hammer(on("")); }

TEST_CASE("a program made in one thread is called, bound and destroyed in others") {
  program p;
  sinter::packed w;
  std::vector<float> const ones(depth * columns, 1.0F);
  std::thread([&] {
    p = two_groups(on_reference());
    w = pack(p, "w", sinter::view(ones.data(), {depth, columns}));
    operands mine(1, w);
    CHECK(mine.lists.run(p));
  }).join();
  operands mine(3, w);
  REQUIRE(mine.lists.run(p));
  CHECK(mine.right(3));
  std::thread([&] {
    auto call = mine.lists.bind(p);
    p.reset();
    mine.out.assign(mine.out.size(), -1.0F);
    REQUIRE(call);
    (*call)();
    CHECK(mine.right(3));
  }).join();
}

TEST_CASE("programs that die while threads hold states of others") {
  std::vector<float> const ones(depth * columns, 1.0F);
  for (int round = 0; round < 50; ++round) {
    program const p = two_groups(on_reference()), q = two_groups(on_reference());
    sinter::packed const w = pack(p, "w", sinter::view(ones.data(), {depth, columns}));
    operands a(2, w), b(5, w);
    REQUIRE(a.lists.run(p));
    REQUIRE(b.lists.run(q));  // equal layout keys: q takes p's pack
    std::thread([&] {
      operands c(7, w);
      CHECK(c.lists.run(q));
      CHECK(c.right(7));
    }).join();
    CHECK(a.right(2));
    CHECK(b.right(5));
  }
}
