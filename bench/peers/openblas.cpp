// OpenBLAS: sgemm, and loops behind it. A convolution gathers its patches into rows first (im2col), but for 1x1 ones.
#include <cblas.h>
#include <string.h>

#include "peer_steps.hpp"

namespace sinter_bench {
namespace {

/// Rows of kernel_h * kernel_w * channels numbers, one for each pixel of the output.
void gather(peer_part const& p, float* rows) {
  auto const& g = p.image;
  std::size_t const pixel = static_cast<std::size_t>(g.channels) * sizeof(float);
  for (long image = 0; image < g.images; ++image)
    for (long oy = 0; oy < g.out_height; ++oy)
      for (long ox = 0; ox < g.out_width; ++ox)
        for (long ky = 0; ky < g.kernel_h; ++ky) {
          long const y = oy * g.stride[0] - g.begin[0] + ky * g.dilation[0];
          for (long kx = 0; kx < g.kernel_w; ++kx, rows += g.channels) {
            long const x = ox * g.stride[1] - g.begin[1] + kx * g.dilation[1];
            if (y < 0 || y >= g.height || x < 0 || x >= g.width)
              memset(rows, 0, pixel);
            else
              memcpy(rows, p.x + ((image * g.height + y) * g.width + x) * g.channels, pixel);
          }
        }
}

class openblas final : public peer_work {
 public:
  explicit openblas(peer_part const& p) : p_(p) {
    if (p.what != peer_part::kind::convolution) return;
    p_.batch = 1;
    p_.m = p.rows;
    p_.n = p.columns;
    p_.k = p.image.kernel_h * p.image.kernel_w * p.image.channels;
    p_.transposed_weight = true;
    if (!p.image.is_product()) patches_.resize(static_cast<std::size_t>(p_.m * p_.k));
  }
  void run() override {
    if (!patches_.empty()) gather(p_, patches_.data());
    float const* const x = patches_.empty() ? p_.x : patches_.data();
    for (long i = 0; i < p_.batch; ++i) {
      cblas_sgemm(CblasRowMajor, CblasNoTrans, p_.transposed_weight ? CblasTrans : CblasNoTrans,
                  static_cast<int>(p_.m), static_cast<int>(p_.n), static_cast<int>(p_.k), 1,
                  x + i * p_.m * p_.k, static_cast<int>(p_.k), p_.w + i * p_.n * p_.k,
                  static_cast<int>(p_.transposed_weight ? p_.k : p_.n), 0, p_.out + i * p_.m * p_.n,
                  static_cast<int>(p_.n));
      apply_rows(p_, 0, i * p_.m, p_.m);
    }
  }

 private:
  peer_part p_;
  std::vector<float> patches_;
};

}  // namespace

std::string openblas_version() {
  std::string const all = openblas_get_config();  // "OpenBLAS 0.3.21 NO_LAPACKE DYNAMIC_ARCH ..."
  return all.substr(0, all.find(' ', all.find(' ') + 1)) + " (" + openblas_get_corename() + ")";
}

std::unique_ptr<peer_work> make_openblas(peer_part const& p, std::string& why) {
  if (p.what == peer_part::kind::pointwise) why = "it has products only";
  if (p.image.groups > 1) why = "it is not asked for a convolution of groups";
  if (p.reduction != sinter::op::relu) why = "it has no reduction";
  if (why.empty()) why = steps_without_loop(p);
  openblas_set_num_threads(1);
  return why.empty() ? std::make_unique<openblas>(p) : nullptr;
}

}  // namespace sinter_bench
