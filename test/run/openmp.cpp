// The executor for OpenMP: threads that are really there, nesting, and what oneDNN does with the count.
#include <omp.h>
#include <sinter/openmp.hpp>

#include <atomic>
#include <cstring>
#include <fstream>

#include "helpers.hpp"

using namespace run_test;

namespace {

/// Threads of this process, OpenMP's pool included.
int threads_alive() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.rfind("Threads:", 0) == 0) return std::atoi(line.c_str() + 8);
  return -1;
}

sinter::options with_openmp(int threads, std::string_view backend) {
  sinter::options o = on(backend);
  o.threads = threads;
  o.executor = &sinter::openmp_threads;
  return o;
}

/// x . w + b, 96 x 64 x 80: rows of x are 1, 2, 3, ..., w is 1, b is -1.
struct product {
  static constexpr extent m = 96, k = 64, n = 80;
  std::vector<float> x, b, out;
  sinter::packed w;
  call_lists lists;

  static sinter::result<program> make(sinter::options const& o) {
    return try_compile({"matmul(x, w) | add b:vector"}, {dims("x", {m, k}), dims("w", {k, n})}, o);
  }
  explicit product(program const& p) : x(m * k), b(n, -1.0F), out(m * n, -5.0F) {
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i / k + 1);
    std::vector<float> const ones(k * n, 1.0F);
    w = pack(p, "w", sinter::view(ones.data(), {k, n}));
    lists = {{{"x", sinter::view(x.data(), {m, k})}, {"b", sinter::as_view(b)}},
             {&w},
             {{"out", sinter::view(out.data(), {m, n})}}};
  }
  product(product const&) = delete;
  product& operator=(product const&) = delete;
  bool right() const {
    for (std::size_t i = 0; i < out.size(); ++i)
      if (out[i] != static_cast<float>(i / n + 1) * k - 1) return false;
    return true;
  }
};

}  // namespace

TEST_CASE("one thread is one thread, whatever OpenMP's count is") {
  omp_set_num_threads(3);
  int const before = threads_alive();
  for (sinter::backend const* b : sinter::backends()) {
    CAPTURE(std::string(b->name()));
    sinter::options o = with_openmp(1, b->name());
    auto const p = product::make(o);
    REQUIRE(p);
    product call(*p);
    REQUIRE(call.lists.run(*p));
    call.lists.bind(*p).value()();
    CHECK(call.right());
    CHECK(threads_alive() == before);
    CHECK(omp_get_max_threads() == 3);
  }
}

TEST_CASE("tasks run on OpenMP's threads, each once") {
  for (int tasks : {1, 2, 5, 9}) {
    struct seen {
      std::atomic<int> times[9] = {};
      std::atomic<int> team{0};
    } s;
    sinter::openmp_threads.run(
        tasks,
        [](void* context, int i) noexcept {
          auto& mine = *static_cast<seen*>(context);
          ++mine.times[i];
          mine.team = omp_get_num_threads();
        },
        &s);
    for (int i = 0; i < 9; ++i) CHECK(s.times[i] == (i < tasks ? 1 : 0));
    CHECK(s.team == tasks);
  }
}

TEST_CASE("two threads compute what one does, on every backend") {
  for (sinter::backend const* b : sinter::backends()) {
    CAPTURE(std::string(b->name()));
    for (int threads : {1, 2, 4}) {
      auto const p = product::make(with_openmp(threads, b->name()));
      REQUIRE(p);
      product call(*p);
      omp_set_num_threads(3);
      REQUIRE(call.lists.run(*p));
      CHECK(call.right());
      call.out.assign(call.out.size(), -5.0F);
      call.lists.bind(*p).value()();
      CHECK(call.right());
      CHECK(omp_get_max_threads() == 3);  // as it was
    }
  }
}

TEST_CASE("oneDNN has the threads of OpenMP, and explain() says what that means") {
  auto const p = product::make(with_openmp(2, "onednn"));
  if (!p) return;  // not in this build
  CHECK(
      (*p)->explain().find("threads: 2 of OpenMP; onednn gives the same bits for one count only") !=
      std::string::npos);
}

TEST_CASE("calls inside of a parallel region of the user's") {
  for (sinter::backend const* b : sinter::backends()) {
    CAPTURE(std::string(b->name()));
    auto const p = product::make(with_openmp(2, b->name()));
    REQUIRE(p);
    std::atomic<int> right{0}, callers{0};
#pragma omp parallel num_threads(3)
    {
      product call(*p);
      ++callers;
      bool ok = true;
      for (int i = 0; i < 5; ++i) {
        call.out.assign(call.out.size(), -5.0F);
        ok = call.lists.run(*p).ok() && call.right() && ok;
      }
      if (ok) ++right;
    }
    CHECK(callers == 3);
    CHECK(right == callers);
  }
}
