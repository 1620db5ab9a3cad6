// ops/overhead: what a bound call on the oneDNN backend adds to the raw primitive's execute. Plain products, so that
// both run the same oneDNN implementation.
//
// The raw side sets OpenMP's count to 1 once, before its loop. Sinter's side finds the count as the process has it and
// keeps each of its calls on the caller's thread: that is part of what is measured.
#include "support/work.hpp"

namespace sinter_bench {
namespace {

// At most 60 ns, or 3% where that is more, and at 1x1x1 60 ns alone.
constexpr double most_nanoseconds = 60, most_part = 0.03;

void add(selection const&, std::vector<group>& groups) {
  for (int size : {1, 64}) {
    for (std::string const precision : {"f32", "bf16"}) {
      std::string const extent = std::to_string(size);
      group g;
      g.name = "ops/overhead/" + extent + "x" + extent + "x" + extent + "/" + precision;
      g.table = "ops/overhead " + precision;
      work const w{"matmul(x, w) [" + precision + "]", {{"x", {size, size}}, {"w", {size, size}}}};
      g.prepare = [w] {
        selection only_onednn;
        only_onednn.backends = {"onednn"};
        return everyone(w, only_onednn);
      };
      g.promises = {{"onednn", most_nanoseconds, size == 1 ? 0 : most_part}};
      g.repetitions = 31;
      groups.push_back(std::move(g));
    }
  }
}

bool const added = add_source(&add);

}  // namespace
}  // namespace sinter_bench
