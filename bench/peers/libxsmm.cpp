// libxsmm: its small kernels on tiles of the output with a packed weight, and loops over a tile while it is in a cache.
//
// libxsmm's matrices have columns first, so a tile of out is computed as out^T = w^T * x^T.
#include <libxsmm.h>

#include <algorithm>

#include "peer_steps.hpp"

namespace sinter_bench {
namespace {

// 64 columns are four vectors of AVX-512; 32 rows of them with their part of w (K of 512 at most) stay in L2.
constexpr long tile_columns = 64, tile_rows = 32, tile_depth = 512;

class products final : public peer_work {
 public:
  explicit products(peer_part const& p) : p_(p) {
    packed_.resize(static_cast<std::size_t>(p.k * p.n));
    float* to = packed_.data();
    for (long c = 0; c < p.n; c += tile_columns)
      for (long k = 0; k < p.k; ++k)
        for (long i = c; i < std::min(p.n, c + tile_columns); ++i)
          *to++ = p.transposed_weight ? p.w[i * p.k + k] : p.w[k * p.n + i];
    for (int last_columns = 0; last_columns < 2; ++last_columns)
      for (int last_rows = 0; last_rows < 2; ++last_rows)
        for (int last_depth = 0; last_depth < 2; ++last_depth)
          for (int more = 0; more < 2; ++more)
            kernels_[last_columns][last_rows][last_depth][more] =
                dispatch(extent(p.n, tile_columns, last_columns), extent(p.m, tile_rows, last_rows),
                         extent(p.k, tile_depth, last_depth), more);
  }
  bool made() const { return complete_; }

  void run() override {
    for (long c = 0; c < p_.n; c += tile_columns) {
      long const columns = std::min(tile_columns, p_.n - c);
      for (long r = 0; r < p_.m; r += tile_rows) {
        long const rows = std::min(tile_rows, p_.m - r);
        float* const out = p_.out + r * p_.n + c;
        for (long k = 0; k < p_.k; k += tile_depth) {
          long const depth = std::min(tile_depth, p_.k - k);
          kernels_[columns < tile_columns][rows < tile_rows][depth < tile_depth][k > 0](
              packed_.data() + c * p_.k + k * columns, p_.x + r * p_.k + k, out);
        }
        for (long i = 0; i < rows; ++i) apply_row(p_, 0, out + i * p_.n, r + i, c, columns);
      }
    }
  }

 private:
  /// Of whole tiles, or of what is left behind them; 0 where there is none.
  static long extent(long all, long tile, int last) {
    return last != 0 ? all % tile : all >= tile ? tile : 0;
  }
  libxsmm_smmfunction dispatch(long columns, long rows, long depth, int more) {
    if (columns == 0 || rows == 0 || depth == 0) return nullptr;
    auto const lda = static_cast<libxsmm_blasint>(columns);
    auto const ldb = static_cast<libxsmm_blasint>(p_.k), ldc = static_cast<libxsmm_blasint>(p_.n);
    float const alpha = 1, beta = static_cast<float>(more);
    libxsmm_smmfunction const f = libxsmm_smmdispatch(
        static_cast<libxsmm_blasint>(columns), static_cast<libxsmm_blasint>(rows),
        static_cast<libxsmm_blasint>(depth), &lda, &ldb, &ldc, &alpha, &beta, nullptr, nullptr);
    complete_ = complete_ && f != nullptr;
    return f;
  }

  peer_part p_;
  std::vector<float> packed_;
  libxsmm_smmfunction kernels_[2][2][2][2] = {};
  bool complete_ = true;
};

}  // namespace

std::string libxsmm_version() {
  return std::string("libxsmm " LIBXSMM_VERSION " (") + libxsmm_get_target_arch() + ")";
}

std::unique_ptr<peer_work> make_libxsmm(peer_part const& part, std::string& why) {
  peer_part p = part;
  if (p.what == peer_part::kind::convolution && p.image.is_product()) {
    p.what = peer_part::kind::product;
    p.m = p.rows;
    p.n = p.columns;
    p.k = p.image.channels;
    p.transposed_weight = true;
  }
  if (p.what == peer_part::kind::convolution) why = "it is asked for products only";
  if (p.what == peer_part::kind::pointwise) why = "it has products only";
  if (p.batch > 1 || !p.constant_weight) why = "it is asked for packed weights only";
  if (why.empty()) why = steps_without_loop(p);
  if (!why.empty()) return nullptr;
  auto made = std::make_unique<products>(p);
  if (!made->made()) {
    why = "it makes no kernel of these extents";
    return nullptr;
  }
  return made;
}

}  // namespace sinter_bench
