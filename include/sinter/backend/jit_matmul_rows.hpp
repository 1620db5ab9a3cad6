// The JIT backend's reductions behind a matmul: the loop over batches and blocks of rows.
//
// How a block is computed is backend/jit_reduced.hpp's business, how the chain and a block's
// problems come about backend/jit_matmul_rows_cut.hpp's.
#pragma once

#include <algorithm>
#include <memory>
#include <utility>

#include "jit_matmul_rows_cut.hpp"
#include "jit_reduced.hpp"

namespace sinter::inline SINTER_ABI::jit {

inline verdict supports_matmul_rows(problem const& p, isa level) {
  if (verdict v = detail::check_contraction(p.chain); !v) return v;
  if (verdict v = detail::check_matmul_extents(p); !v) return v;
  result<matmul_rows_cut> const cut = detail::cut_matmul_rows(p, level);
  if (!cut) return verdict::no(cut.error().message);
  if (verdict v = detail::check_reduced(p, *cut); !v) return v;
  if (verdict v = supports_matmul(cut->product, level); !v) return v;
  return supports_rows(cut->rows, level);
}

class matmul_rows_invocation final : public reduced_invocation {
 public:
  /// `block`: its problems are those of the block that is computed.
  matmul_rows_invocation(std::shared_ptr<reduced_code const> built, matmul_rows_cut const& block,
                         reduced_halves halves)
      : reduced_invocation(std::move(built), std::move(halves)), block_(block) {}

  void repoint(call_args const& args) noexcept override {
    begin(args);
    geometry_ = geometry_of(block_.layout, *whole_);
    blocks_ = (geometry_.rows + block_.block_rows - 1) / block_.block_rows;
    extent units = geometry_.empty() ? 0 : blocks_;
    for (int j = 0; j < geometry_.batch_axes; ++j) units *= geometry_.batch[j];
    set_units(units);
  }

  int cut(int wanted) noexcept override {
    double const products = static_cast<double>(geometry_.rows) * static_cast<double>(units_) /
                            static_cast<double>((std::max)(blocks_, extent{1})) *
                            static_cast<double>(block_.layout.k) *
                            static_cast<double>(block_.layout.n);
    return cut_units(products, wanted);
  }

 private:
  void point(extent unit) noexcept override {
    extent const row = unit % blocks_ * block_.block_rows;
    extent index[max_batch_axes] = {};
    extent rest = unit / blocks_;
    for (int j = 0; j < geometry_.batch_axes; ++j) {
      index[j] = rest % geometry_.batch[j];
      rest /= geometry_.batch[j];
    }
    auto const offset = [&](extent row_bytes, extent const* batch) {
      extent sum = row * row_bytes;
      for (int j = 0; j < geometry_.batch_axes; ++j) sum += batch[j] * index[j];
      return sum;
    };
    detail::set_block(block_, *whole_, geometry_,
                      (std::min)(block_.block_rows, geometry_.rows - row));

    block_pointers to;
    for (int i = 0; i < block_.layout.accesses.ssize(); ++i) {
      epilogue_access const& a = block_.layout.accesses[i];
      extent const bytes = offset(geometry_.accesses[i].row, geometry_.accesses[i].batch);
      if (a.output)
        to.outputs[a.index] = moved(args_.outputs[a.index], bytes);
      else
        to.operands[a.index] = moved(args_.operands[a.index], bytes);
    }
    to.src = moved(args_.operands[block_.layout.src], offset(geometry_.a_row, geometry_.a_batch));
    to.weight = moved(args_.operands[block_.layout.weight], offset(0, geometry_.b_batch));
    point_halves(block_, to);
  }

  matmul_rows_cut block_;
  matmul_geometry geometry_;
  extent blocks_ = 0;
};

class matmul_rows_kernel final : public reduced_kernel {
 public:
  matmul_rows_kernel(std::shared_ptr<reduced_code const> built, matmul_rows_cut const& cut)
      : reduced_kernel(std::move(built)), cut_(cut) {}

 private:
  std::unique_ptr<invocation> join(reduced_halves halves) const override {
    return std::unique_ptr<invocation>(new matmul_rows_invocation(built_, cut_, std::move(halves)));
  }

  matmul_rows_cut cut_;
};

/// Only where supports_matmul_rows() says yes. build_product(problem) makes the kernel of a product
/// without reductions, of product_level.
template <class BuildProduct>
result<std::shared_ptr<kernel const>> build_matmul_rows(problem const& p, isa level,
                                                        isa product_level,
                                                        BuildProduct&& build_product) {
  result<matmul_rows_cut> cut = detail::cut_matmul_rows(p, product_level);
  if (!cut) return cut.error();
  auto built = build_reduced(p, *cut, level, build_product);
  if (!built) return built.error();
  return std::shared_ptr<kernel const>(new matmul_rows_kernel(std::move(*built), *cut));
}

}  // namespace sinter::inline SINTER_ABI::jit
