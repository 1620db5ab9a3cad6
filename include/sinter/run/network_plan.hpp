// A network once it is built: its program_plan, what its groups are called, its weights, and figures for explain().
//
// Immutable after network_planner. Read run/network_impl.hpp next.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "network.hpp"
#include "network_weights.hpp"
#include "program_plan.hpp"

namespace sinter::inline SINTER_ABI::detail {

struct network_plan {
  std::shared_ptr<program_plan const> program;
  std::shared_ptr<program_core const> core;
  std::vector<std::string> labels;  ///< of the groups
  std::string cpu;                  ///< the instructions that the weights are packed for
  network_weights weights;
  network_memory memory;
  int kernels = 0;  ///< built; groups with equal problems share one
  int copies = 0;
  double milliseconds = 0, packing_milliseconds = 0;
};

}  // namespace sinter::inline SINTER_ABI::detail
