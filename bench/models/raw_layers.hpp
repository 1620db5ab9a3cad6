// The groups of a network as raw oneDNN primitives, one behind the other: the floor of what oneDNN can do.
//
// Each group becomes one fused primitive (post-ops; a pooling, or a batch norm before a convolution, is one of its own)
// in the layouts that it likes best, for all of its tensors: both the library's choice and N,H,W,C are tried, and the
// faster one stays. No reorder, no concat, no split and no shuffle is counted. Values are made up and flow through a
// few buffers in turn, which are as warm as an arena is. Knows problems, no network.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include <sinter/base/status.hpp>
#include <sinter/plan/problem.hpp>

namespace sinter_bench {

class raw_layers {
 public:
  /// A problem that oneDNN's primitives cannot say is refused.
  static sinter::result<raw_layers> make(std::span<sinter::problem const* const> groups);
  raw_layers(raw_layers&&) noexcept;
  ~raw_layers();

  int count() const;
  void run_one(int i);
  void run() {
    for (int i = 0; i < count(); ++i) run_one(i);
  }
  std::string implementation(int i) const;

 private:
  struct state;
  explicit raw_layers(std::unique_ptr<state> s);
  std::unique_ptr<state> state_;
};

}  // namespace sinter_bench
