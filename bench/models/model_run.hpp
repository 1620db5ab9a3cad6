// One network in one precision: its contenders in turn, and its groups one by one.
//
//   raw           its groups as raw oneDNN primitives in the best layouts (raw_layers.hpp): what the others are
//                 compared with
//   sinter        the network of examples/models
//   graph         the same network through oneDNN Graph (graph_onednn.hpp)
//   two_threads   sinter by as many threads as were asked for ("threads4" with four)
//   whole_batch   of a batch: sinter without stretches, each group for all images before the next one
//   one_by_one    sinter's network for one image, called for each image of the batch
//
// They take turns, A B C A B C. Times are processor time, as in the rest of the suite; with several threads everything is
// elapsed time. Group by group, sinter and raw take turns in the same way.
#pragma once

#include <map>
#include <string>
#include <vector>

#include <sinter/core/shape.hpp>

#include "support/record.hpp"

namespace sinter_bench {

struct model_settings {
  std::vector<std::string> models;
  std::vector<std::string> precisions{"f32", "bf16"};
  int rounds = 9, groups = 8, threads = 1;
  sinter::extent batch = 1;
  bool own_batches = false;  ///< each network's batch is TorchBench's
  bool raw = true, graph = true;
  std::string json_file;

  sinter::extent batch_of(std::string const& model) const;
};

struct group_row {
  std::string label, extents, implementation, raw_implementation;
  double ms = 0, raw_ms = 0, roofline_ms = 0, flops = 0, bytes = 0;
  bool linear = false, copy = false;
};

struct model_row {
  std::string model, precision;
  sinter::extent batch = 1;
  int threads = 1;
  std::vector<std::string> order;                      ///< of the contenders, raw first
  std::map<std::string, std::vector<double>> ms;       ///< of a call, by contender: every round
  std::map<std::string, std::string> details, absent;  ///< by contender
  double flops = 0, bytes = 0, peak = 0;
  double window_flops = 0, window_ms = 0;  ///< without linear layers
  double bound_ms =
      0;  ///< no implementation by direct convolution takes less: docs/benchmarking.md
  double arena = 0, intermediates = 0, least = 0;
  int copies = 0;
  std::vector<group_row> groups;

  /// "models/networks/resnet50/batch8/f32"
  std::string name() const;
  /// The median; 0 where the contender is not there.
  double median_ms(std::string const& contender) const;
  double part_of_peak() const;
  double window_part_of_peak() const;
};

model_row run_model(std::string const& name, std::string const& precision,
                    model_settings const& settings, machine_record const& machine);

/// Is there an executor for more than one thread in this build?
bool has_threads();

}  // namespace sinter_bench
