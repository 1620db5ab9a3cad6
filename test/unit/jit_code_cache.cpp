// The cache: bounded, one generation per key, failures forgotten, whatever the threads do.
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <sinter/jit/code_cache.hpp>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

using namespace sinter;
using namespace sinter::jit;

namespace {
using cache = code_cache<int>;
auto making(int v) {
  return [v]() -> result<cache::value> { return std::make_shared<int const>(v); };
}
}  // namespace

TEST_CASE("equal keys give the same object; the least recently used goes first") {
  cache c(2);
  auto const a = c.get("a", making(1)).value();
  auto const b = c.get("b", making(2)).value();
  CHECK(c.get("a", making(7)).value() == a);
  CHECK(*c.get("c", making(3)).value() == 3);  // b goes
  CHECK(c.get("a", making(8)).value() == a);
  CHECK(*c.get("b", making(4)).value() == 4);  // made anew; c goes
  CHECK(*b == 2);                              // what is held stays
  cache_counters const n = c.counters();
  CHECK(n.hits == 2);
  CHECK(n.generated == 4);
  CHECK(n.evicted == 2);
  CHECK(n.entries == 2);
  CHECK(n.failed == 0);
  c.clear();
  CHECK(c.counters().entries == 0);
}

TEST_CASE("keys are compared by value, every byte of them") {
  cache c(8);
  CHECK(*c.get(std::string("k\0a", 3), making(1)).value() == 1);
  CHECK(*c.get(std::string("k\0b", 3), making(2)).value() == 2);
  CHECK(*c.get(std::string("k"), making(3)).value() == 3);
}

TEST_CASE("a failure and an exception leave no trace") {
  cache c(4);
  auto const failed = c.get("k", []() -> result<cache::value> {
    return failure{code::system, "sinter: no"};
  });
  REQUIRE(!failed);
  CHECK(failed.error().message == "sinter: no");
  CHECK_THROWS_AS(static_cast<void>(c.get(
                      "k", []() -> result<cache::value> { throw std::runtime_error("thrown"); })),
                  std::runtime_error);
  CHECK(c.counters().entries == 0);
  CHECK(c.counters().failed == 2);
  CHECK(*c.get("k", making(5)).value() == 5);
  CHECK(c.counters().generated == 1);
}

TEST_CASE("threads that want one key at the same time wait for one generation") {
  cache c(16);
  std::atomic<int> made{0};
  std::vector<std::thread> threads;
  std::vector<cache::value> got(8);
  for (std::size_t i = 0; i < got.size(); ++i)
    threads.emplace_back([&, i] {
      got[i] = c.get("k", [&]() -> result<cache::value> {
                  std::this_thread::sleep_for(std::chrono::milliseconds(20));
                  return std::make_shared<int const>(++made);
                }).value();
    });
  for (std::thread& t : threads) t.join();
  CHECK(made == 1);
  for (auto const& v : got) CHECK(v == got[0]);
}

TEST_CASE("a waiting thread tries again when the one it waits for fails") {
  cache c(16);
  std::atomic<int> tries{0}, failures{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 6; ++i)
    threads.emplace_back([&] {
      auto const r = c.get("k", [&]() -> result<cache::value> {
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
        if (++tries <= 3) return failure{code::system, "sinter: not yet"};
        return std::make_shared<int const>(9);
      });
      if (!r) ++failures;
    });
  for (std::thread& t : threads) t.join();
  CHECK(tries == 4);
  CHECK(failures == 3);
  CHECK(c.counters().entries == 1);
}

TEST_CASE("many threads, few places, some failures: every answer is right") {
  cache c(5);
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      unsigned state = t + 1;
      for (int i = 0; i < 5000; ++i) {
        state = state * 1664525U + 1013904223U;
        int const key = static_cast<int>(state >> 24) % 20;
        bool const fails = (state >> 8) % 7 == 0;
        auto const r = c.get(std::to_string(key), [&]() -> result<cache::value> {
          if (fails) return failure{code::system, "sinter: no"};
          return std::make_shared<int const>(key);
        });
        if (r && **r != key) ++wrong;
      }
    });
  for (std::thread& t : threads) t.join();
  CHECK(wrong == 0);
  CHECK(c.counters().entries <= 5);
}
