// Case 56: a child of fork() computes what its parent did, on every backend, whatever threads the parent had: alone, in
// threads of its own, and where OpenMP is there behind a parallel region of the parent's.
#include <sys/wait.h>
#include <unistd.h>

#include "executors.hpp"
#include "helpers.hpp"

#if defined(_OPENMP)
#include <sinter/openmp.hpp>
#endif

using namespace run_test;

namespace {

/// The exit status of a child that runs f; killed where it is not done after five seconds.
template <class F>
int in_child(F f) {
  pid_t const child = fork();
  if (child == 0) {
    alarm(5);
    _exit(f() ? 0 : 1);
  }
  int how = 0;
  waitpid(child, &how, 0);
  return WIFEXITED(how) ? WEXITSTATUS(how) : 128 + WTERMSIG(how);
}

/// A product of ones, large enough to be cut for several threads.
struct ones {
  static constexpr extent size = 160;
  std::vector<float> x = std::vector<float>(size * size, 1.0F),
                     out = std::vector<float>(size * size);
  sinter::packed w;
  program p;

  explicit ones(sinter::options const& o)
      : p(compile({"matmul(x, w) | relu"}, {dims("x", {size, size}), dims("w", {size, size})}, o)) {
    w = pack(p, "w", sinter::view(x.data(), {size, size}));
  }
  bool right() {
    std::fill(out.begin(), out.end(), -1.0F);
    call_lists const lists{{{"x", sinter::view(x.data(), {size, size})}},
                           {&w},
                           {{"out", sinter::view(out.data(), {size, size})}}};
    return lists.run(p).ok() && out == std::vector<float>(out.size(), static_cast<float>(size));
  }
};

}  // namespace

TEST_CASE("case 56: a child runs its parent's programs, and compiles its own") {
  for (sinter::backend const* b : sinter::backends()) {
    CAPTURE(std::string(b->name()));
    sinter::options const o = on(b->name());
    if (!try_compile({"matmul(x, w)"}, {dims("x", {4, 4}), dims("w", {4, 4})}, o)) continue;
    ones before(o);
    REQUIRE(before.right());
    CHECK(in_child([&] { return before.right() && ones(o).right(); }) == 0);
    CHECK(before.right());
  }
}

TEST_CASE("case 56: a child runs programs of several threads") {
  threads_executor executor;
  for (sinter::backend const* b : sinter::backends()) {
    CAPTURE(std::string(b->name()));
    sinter::options o = on(b->name());
    o.threads = 3;
    o.executor = &executor;
    if (!try_compile({"matmul(x, w)"}, {dims("x", {4, 4}), dims("w", {4, 4})}, o)) continue;
    ones before(o);
    REQUIRE(before.right());
    CHECK(in_child([&] { return before.right() && ones(o).right(); }) == 0);
  }
}

#if defined(_OPENMP)
TEST_CASE("case 56: a child of a parent with OpenMP's threads computes on one") {
  for (sinter::backend const* b : sinter::backends()) {
    CAPTURE(std::string(b->name()));
    sinter::options many = on(b->name());
    many.threads = 2;
    many.executor = &sinter::openmp_threads;
    if (!try_compile({"matmul(x, w)"}, {dims("x", {4, 4}), dims("w", {4, 4})}, many)) continue;
    ones parallel(many), single(on(b->name()));
    REQUIRE(parallel.right());
    REQUIRE(single.right());
    CHECK(in_child([&] { return single.right() && ones(on(b->name())).right(); }) == 0);
    CHECK(parallel.right());
  }
}
#endif
