// The JIT backend's reductions behind a product: two kernels, block of rows by block of rows.
//
// The product writes a block of the values that the reductions want; the row kernel reads it while
// it is warm and writes what is left of the outputs. Here is the loop over batches and blocks; how
// the chain is cut is backend/jit_matmul_rows_cut.hpp's business. One schedule, one stage: nothing
// is rounded at the cut. A call is cut in parts between blocks, so that each row is summed as in
// the whole call.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "jit_matmul_rows_cut.hpp"

namespace sinter::inline SINTER_ABI::jit {

inline verdict supports_matmul_rows(problem const& p, isa level) {
  if (verdict v = detail::check_contraction(p.chain); !v) return v;
  if (verdict v = detail::check_matmul_extents(p); !v) return v;
  result<matmul_rows_cut> const cut = detail::cut_matmul_rows(p, level);
  if (!cut) return verdict::no(cut.error().message);
  if (verdict v = detail::check_matmul_rows(p, *cut); !v) return v;
  if (verdict v = supports_matmul(cut->product, level); !v) return v;
  return supports_rows(cut->rows, level);
}

/// The immutable side.
struct matmul_rows_code {
  problem wanted;
  matmul_rows_cut cut;
  std::shared_ptr<kernel const> product, rows;

  std::size_t product_scratch() const { return round_up(product->scratch_bytes(), 64); }
  std::size_t rows_scratch() const { return round_up(rows->scratch_bytes(), 64); }
  std::size_t scratch_bytes() const {
    return product_scratch() + rows_scratch() +
           static_cast<std::size_t>(cut.live) * cut.live_bytes();
  }
};

class matmul_rows_invocation final : public invocation {
 public:
  matmul_rows_invocation(std::shared_ptr<matmul_rows_code const> built,
                         std::unique_ptr<invocation> product, std::unique_ptr<invocation> rows)
      : invocation(&run_all),
        built_(std::move(built)),
        product_(std::move(product)),
        rows_(std::move(rows)),
        block_(built_->cut) {}

  void repoint(call_args const& args) noexcept override {
    args_ = args;
    whole_ = args.shapes != nullptr ? args.shapes : &built_->wanted;
    geometry_ = geometry_of(block_.layout, *whole_);
    blocks_ = (geometry_.rows + block_.block_rows - 1) / block_.block_rows;
    units_ = geometry_.empty() ? 0 : blocks_;
    for (int j = 0; j < geometry_.batch_axes; ++j) units_ *= geometry_.batch[j];
    parts_ = 1;
    if (units_ == 1) point(0);
  }

  int cut(int wanted) noexcept override {
    double const products = static_cast<double>(geometry_.rows) * static_cast<double>(units_) /
                            static_cast<double>((std::max)(blocks_, extent{1})) *
                            static_cast<double>(block_.layout.k) *
                            static_cast<double>(block_.layout.n);
    extent const most = worthwhile_parts(products, wanted);
    parts_ = static_cast<int>(std::clamp(units_, extent{1}, most));
    return parts_;
  }
  sinter::code run_part(int part) noexcept override {
    return run_units(units_ * part / parts_, units_ * (part + 1) / parts_);
  }

 private:
  static sinter::code run_all(invocation& self) noexcept {
    auto& me = static_cast<matmul_rows_invocation&>(self);
    return me.run_units(0, me.units_);
  }
  sinter::code run_units(extent first, extent end) noexcept {
    for (extent unit = first; unit < end; ++unit) {
      if (units_ > 1) point(unit);
      if (sinter::code const c = product_->run(); c != sinter::code::ok) return c;
      if (sinter::code const c = rows_->run(); c != sinter::code::ok) return c;
    }
    return sinter::code::ok;
  }

  /// Points both halves to one block.
  void point(extent unit) noexcept {
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

    void const* operands[max_operands] = {};
    void* outputs[max_outputs] = {};
    for (int i = 0; i < block_.layout.accesses.ssize(); ++i) {
      epilogue_access const& a = block_.layout.accesses[i];
      extent const bytes = offset(geometry_.accesses[i].row, geometry_.accesses[i].batch);
      if (a.output)
        outputs[a.index] = moved(args_.outputs[a.index], bytes);
      else
        operands[a.index] = moved(args_.operands[a.index], bytes);
    }
    call_args product, rows;
    std::copy(std::begin(operands), std::end(operands), std::begin(product.operands));
    int const src = block_.layout.src, weight = block_.layout.weight;
    product.operands[src] = moved(args_.operands[src], offset(geometry_.a_row, geometry_.a_batch));
    product.operands[weight] = moved(args_.operands[weight], offset(0, geometry_.b_batch));
    auto* const scratch = static_cast<std::byte*>(args_.scratch);
    product.scratch = scratch;
    rows.scratch = scratch + built_->product_scratch();
    std::byte* const live = scratch + built_->product_scratch() + built_->rows_scratch();
    auto const live_at = [&](int from) {
      return live + static_cast<std::size_t>(-1 - from) * block_.live_bytes();
    };
    for (int i = 0; i < block_.product.chain.outputs.ssize(); ++i) {
      int const from = block_.product_outputs[detail::at(i)];
      product.outputs[i] = from < 0 ? live_at(from) : outputs[from];
    }
    for (int i = 0; i < block_.rows.chain.operands.ssize(); ++i) {
      int const from = block_.row_operands[detail::at(i)];
      rows.operands[i] = from < 0 ? live_at(from) : operands[from];
    }
    for (int i = 0; i < block_.rows.chain.outputs.ssize(); ++i)
      rows.outputs[i] = outputs[block_.row_outputs[detail::at(i)]];
    product.shapes = &block_.product;
    rows.shapes = &block_.rows;
    product_->repoint(product);
    rows_->repoint(rows);
  }
  static void const* moved(void const* p, extent bytes) noexcept {
    return p == nullptr ? p : static_cast<std::byte const*>(p) + bytes;
  }
  static void* moved(void* p, extent bytes) noexcept {
    return p == nullptr ? p : static_cast<std::byte*>(p) + bytes;
  }

  std::shared_ptr<matmul_rows_code const> built_;
  std::unique_ptr<invocation> product_, rows_;
  matmul_rows_cut block_;  ///< its problems are those of the block that is computed
  call_args args_;
  problem const* whole_ = nullptr;
  matmul_geometry geometry_;
  extent blocks_ = 0, units_ = 0;
  int parts_ = 1;
};

class matmul_rows_kernel final : public kernel {
 public:
  explicit matmul_rows_kernel(std::shared_ptr<matmul_rows_code const> built)
      : built_(std::move(built)) {}

  std::string_view backend() const noexcept override { return "jit"; }
  std::size_t scratch_bytes() const noexcept override { return built_->scratch_bytes(); }
  std::vector<stage_note> stages() const override {
    return {{std::string(text(built_->wanted.chain).view()),
             built_->product->stages()[0].implementation + " + " +
                 built_->rows->stages()[0].implementation,
             {},
             built_->product->stages()[0].note}};
  }
  /// That of the product alone; a weight of several matrices is not one that has one.
  std::string layout_key(int operand) const override {
    shape const& dims = built_->wanted.operands[detail::at(operand)].dims;
    return built_->product->layout_key(operand) +
           (dims.ssize() > 2 ? " of " + to_string(dims) : std::string());
  }
  result<packed_weight> pack(int operand, tensor_view const& source) const override {
    result<packed_weight> packed = built_->product->pack(operand, source);
    if (packed) packed->layout_key = layout_key(operand);
    return packed;
  }
  result<std::unique_ptr<invocation>> make_invocation() const override {
    auto product = built_->product->make_invocation();
    if (!product) return product.error();
    auto rows = built_->rows->make_invocation();
    if (!rows) return rows.error();
    return std::unique_ptr<invocation>(
        new matmul_rows_invocation(built_, std::move(*product), std::move(*rows)));
  }

 private:
  std::shared_ptr<matmul_rows_code const> built_;
};

/// Only where supports_matmul_rows() says yes. build_product(problem) makes the kernel of a product
/// without reductions, of product_level.
template <class BuildProduct>
result<std::shared_ptr<kernel const>> build_matmul_rows(problem const& p, isa level,
                                                        isa product_level,
                                                        BuildProduct&& build_product) {
  auto built = std::shared_ptr<matmul_rows_code>(new matmul_rows_code());
  built->wanted = p;
  result<matmul_rows_cut> cut = detail::cut_matmul_rows(p, product_level);
  if (!cut) return cut.error();
  built->cut = std::move(*cut);
  result<std::shared_ptr<kernel const>> product = build_product(built->cut.product);
  if (!product) return product.error();
  built->product = std::move(*product);
  auto rows = build_rows(built->cut.rows, level);
  if (!rows) return rows.error();
  built->rows = std::move(*rows);
  return std::shared_ptr<kernel const>(new matmul_rows_kernel(std::move(built)));
}

}  // namespace sinter::inline SINTER_ABI::jit
