// All 2^32 values of f32 through every unary emitter, a subcase for each, on two threads: hours of
// oracle, hence with the long tests only. The oracle's value is computed once for all levels.
//
// -sc=tanh computes one emitter; SINTER_TEST_SLICE=3/64 the fourth of 64 slices of the values, on
// one thread, so that a whole run can be made bit by bit.
#include <doctest/doctest.h>

#include <cstdlib>
#include <mutex>
#include <string>
#include <thread>

#include "support/skip.hpp"
#include "unary_judge.hpp"

using namespace sinter;
using namespace sinter_test;

namespace {

/// [first, end) of the patterns of f32.
struct slice {
  std::uint64_t first = 0, end = 0;
};
slice slice_of(std::uint64_t nth, std::uint64_t count) {
  constexpr std::uint64_t blocks = std::uint64_t{1} << 20;
  return {blocks * nth / count << 12, blocks * (nth + 1) / count << 12};
}

/// One for each thread.
std::vector<slice> wanted_slices() {
  char const* const text = std::getenv("SINTER_TEST_SLICE");
  if (text == nullptr) return {slice_of(0, 2), slice_of(1, 2)};
  char* rest = nullptr;
  std::uint64_t const nth = std::strtoull(text, &rest, 10);
  REQUIRE_MESSAGE(*rest == '/', "SINTER_TEST_SLICE is not like 3/64");
  std::uint64_t const count = std::strtoull(rest + 1, nullptr, 10);
  REQUIRE_MESSAGE(nth < count, "SINTER_TEST_SLICE is not like 3/64");
  return {slice_of(nth, count)};
}

void all_of(unary_case const& c, std::vector<isa> const& levels) {
  std::vector<pointwise_loop> loops;
  for (isa level : levels)
    loops.emplace_back(one_step(c.code, c.alpha, c.beta, {dtype::f32}, dtype::f32), level,
                       vectors_in_16(level));
  std::vector<worst> total(levels.size());
  std::mutex mutex;
  std::vector<std::thread> threads;
  for (slice const part : wanted_slices())
    threads.emplace_back([&, part] {
      constexpr std::size_t block = 4096;
      std::vector<worst> mine(levels.size());
      std::vector<float> in(block), out(block);
      std::vector<double> want(block);
      for (std::uint64_t first = part.first; first < part.end; first += block) {
        for (std::size_t i = 0; i < block; ++i)
          in[i] = std::bit_cast<float>(static_cast<std::uint32_t>(first + i));
        exact(c, in, want);
        for (std::size_t l = 0; l < levels.size(); ++l) {
          loops[l].run({in.data()}, {out.data()}, block / 16);
          for (std::size_t i = 0; i < block; ++i) judge(c, in[i], out[i], want[i], mine[l]);
        }
      }
      std::lock_guard const lock(mutex);
      for (std::size_t l = 0; l < levels.size(); ++l) total[l].merge(mine[l]);
    });
  for (std::thread& t : threads) t.join();
  for (std::size_t l = 0; l < levels.size(); ++l) report(c, levels[l], total[l]);
}

}  // namespace

TEST_CASE("unary emitters: all of f32") {
  std::vector<isa> levels;
  for (isa level : levels_here())
    if (level != isa::avx512_bf16) levels.push_back(level);  // the same code as avx512
  if (levels.empty()) SINTER_SKIP("this CPU has no AVX2");
  for (op_row const& row : op_table) {
    if (row.kind != op_class::unary) continue;
    SUBCASE(std::string(row.name).c_str()) {
      all_of({row.code, row.alpha, row.code == op::clip ? 6 : row.beta}, levels);
    }
  }
}
