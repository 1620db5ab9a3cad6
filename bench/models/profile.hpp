// One call of a network, group by group: what bind() makes, taken apart so that each group can be timed in its place.
//
// Reads the library's own plan (run/network_plan.hpp) and owns a call state as a bound call does. Also what a group
// has to do at least: multiply-adds, bytes of activations and of weights.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <sinter/run/network.hpp>

namespace sinter::inline SINTER_ABI::detail {
struct call_state;
}  // namespace sinter::inline SINTER_ABI::detail

namespace sinter_bench {

class profile {
 public:
  /// Inputs are random, outputs are the profile's own.
  explicit profile(sinter::network const& net);
  ~profile();
  profile(profile const&) = delete;
  profile& operator=(profile const&) = delete;

  int count() const;
  void run_one(int i);
  void run() {
    for (int i = 0; i < count(); ++i) run_one(i);
  }

  /// As a bound call runs, by all threads of the network.
  void run_shared();

  /// The last of the groups that run together with group i, in strips or image by image: it has the time of all.
  int last_with(int i) const;
  /// How they do: "in 7 strips of 4 rows of each image"; empty where group i runs by itself.
  std::string how(int i) const;

  sinter::problem const& problem(int i) const;
  bool is_copy(int i) const;
  std::string label(int i) const;           ///< "layer1.0: conv2d | add b1:vector | relu"
  std::string extents(int i) const;         ///< of what it reads: "1x56x56x64, 64x3x3x64"
  std::string implementation(int i) const;  ///< "jit:avx512:f32:8x48"
  double flops(int i) const;
  double flops_inside(int i) const;  ///< without taps in the padding
  double activation_bytes(int i) const;
  double weight_bytes(int i) const;
  /// A linear layer: one pixel, or rows.
  bool is_linear(int i) const;

 private:
  sinter::network net_;
  std::vector<sinter::buffer> memory_;
  std::unique_ptr<sinter::detail::call_state> call_;
};

}  // namespace sinter_bench
