// All 2^32 values of f32 through every unary emitter, on two threads: hours of oracle, hence with
// the long tests only. The oracle's value is computed once for all levels.
#include <doctest/doctest.h>

#include <mutex>
#include <thread>

#include "support/skip.hpp"
#include "unary_judge.hpp"

using namespace sinter;
using namespace sinter_test;

namespace {

void all_of(unary_case const& c, std::vector<isa> const& levels) {
  std::vector<pointwise_loop> loops;
  for (isa level : levels)
    loops.emplace_back(one_step(c.code, c.alpha, c.beta, {dtype::f32}, dtype::f32), level,
                       vectors_in_16(level));
  std::vector<worst> total(levels.size());
  std::mutex mutex;
  std::vector<std::thread> threads;
  for (std::uint64_t half = 0; half < 2; ++half)
    threads.emplace_back([&, half] {
      constexpr std::size_t block = 4096;
      std::vector<worst> mine(levels.size());
      std::vector<float> in(block), out(block);
      std::vector<double> want(block);
      for (std::uint64_t first = half << 31; first < (half + 1) << 31; first += block) {
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
  for (op_row const& row : op_table)
    if (row.kind == op_class::unary)
      all_of({row.code, row.alpha, row.code == op::clip ? 6 : row.beta}, levels);
}
