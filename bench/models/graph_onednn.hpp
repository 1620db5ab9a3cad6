// A whole network through oneDNN Graph's C++ API, as a framework's fuser uses it: one graph of single operations, which the
// library cuts into partitions, compiled once, with opaque layouts between them and constant weights cached.
//
// Made from what a network_builder recorded (run/network_graph.hpp), so it has the same operations on the same extents
// by construction. Weights are made up. Slices of channels are views between graphs, as they are in a framework.
#pragma once

#include <memory>
#include <string>

#include <sinter/base/status.hpp>

namespace sinter::inline SINTER_ABI::detail {
struct network_graph;
}  // namespace sinter::inline SINTER_ABI::detail

namespace sinter_bench {

class graph_onednn {
 public:
  /// What was said last is the output.
  static sinter::result<graph_onednn> make(sinter::detail::network_graph const& network);
  graph_onednn(graph_onednn&&) noexcept;
  ~graph_onednn();

  void run();
  int partition_count() const;

 private:
  struct state;
  explicit graph_onednn(std::unique_ptr<state> s);
  std::unique_ptr<state> state_;
};

}  // namespace sinter_bench
