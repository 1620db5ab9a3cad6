// What another library is asked to compute: one chain in f32 as plain numbers and pointers.
//
// Files of this folder that call a library are compiled with -march=native -O3 -ffast-math, as its users would, and
// include no more of the suite than this header and peer_steps.hpp. peer_calls.hpp makes parts of a workload's chains.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <sinter/core/op.hpp>

namespace sinter_bench {

/// A step on the value before it, and what else it reads.
struct peer_step {
  enum class other : unsigned char { nothing, number, columns, all };
  sinter::op code = sinter::op::relu;
  float alpha = 0, beta = 0;
  other reads = other::nothing;
  float number = 0;
  float const* operand = nullptr;  ///< one per column, or as many as values
};

/// x[batch, m, k] * w[k, n] or w[batch, k, n] (transposed_weight: n before k), or an image [images, height, width,
/// channels] by a filter [out, kernel_h, kernel_w, channels / groups]; then the steps. All dense.
struct peer_part {
  enum class kind : unsigned char { product, convolution, pointwise };
  kind what = kind::pointwise;
  long rows = 0, columns = 0;  ///< of the values that the steps see
  float const* x = nullptr;
  float const* w = nullptr;
  float* out = nullptr;
  std::vector<peer_step> steps;
  /// row_sum, row_mean or row_max of the steps' values; relu: none.
  sinter::op reduction = sinter::op::relu;

  long batch = 1, m = 0, n = 0, k = 0;
  bool transposed_weight = false;
  bool constant_weight = false;  ///< may be packed outside the call

  struct image {
    long images = 0, height = 0, width = 0, channels = 0;
    long out_height = 0, out_width = 0, out_channels = 0;
    long kernel_h = 1, kernel_w = 1, groups = 1;
    long stride[2] = {1, 1}, dilation[2] = {1, 1}, begin[2] = {0, 0}, end[2] = {0, 0};
    /// A product of pixels and filter.
    bool is_product() const {
      return kernel_h == 1 && kernel_w == 1 && groups == 1 && stride[0] == 1 && stride[1] == 1 &&
             begin[0] == 0 && begin[1] == 0 && end[0] == 0 && end[1] == 0;
    }
  } image;
};

class peer_work {
 public:
  peer_work() = default;
  peer_work(peer_work const&) = delete;
  peer_work& operator=(peer_work const&) = delete;
  virtual ~peer_work() = default;
  virtual void run() = 0;
};

/// The work, or null and `why` as a clause: "it has no convolution".
using make_peer = std::unique_ptr<peer_work> (*)(peer_part const& part, std::string& why);

std::unique_ptr<peer_work> make_loops(peer_part const& part, std::string& why);
std::unique_ptr<peer_work> make_eigen(peer_part const& part, std::string& why);
std::unique_ptr<peer_work> make_openblas(peer_part const& part, std::string& why);
std::unique_ptr<peer_work> make_libxsmm(peer_part const& part, std::string& why);
std::unique_ptr<peer_work> make_xnnpack(peer_part const& part, std::string& why);

std::string loops_version();
std::string eigen_version();
std::string openblas_version();
std::string libxsmm_version();
std::string xnnpack_version();

}  // namespace sinter_bench
