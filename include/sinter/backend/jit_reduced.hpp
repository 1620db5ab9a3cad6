// The JIT backend's reductions behind a product: two kernels, block by block.
//
// The product writes a block of the values that the reductions want; the row kernel reads it while
// it is warm and writes what is left of the outputs. One schedule, one stage: nothing is rounded at
// the cut. A call is cut in parts between blocks, which are the same for every number of parts, so
// that each row is summed as in the whole call. Here is what a matmul and a convolution have in
// common; where blocks lie is the business of backend/jit_matmul_rows.hpp and
// backend/jit_conv_rows.hpp, how the chain is cut backend/jit_rows_cut.hpp's.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "../plan/text.hpp"
#include "backend.hpp"
#include "jit_rows.hpp"
#include "jit_rows_cut.hpp"

namespace sinter::inline SINTER_ABI::jit {

/// The immutable side, but for the blocks.
struct reduced_code {
  problem wanted;
  std::shared_ptr<kernel const> product, rows;
  std::size_t live_bytes = 0;  ///< of all live values of a block

  std::size_t product_scratch() const { return round_up(product->scratch_bytes(), 64); }
  std::size_t rows_scratch() const { return round_up(rows->scratch_bytes(), 64); }
  std::size_t scratch_bytes() const { return product_scratch() + rows_scratch() + live_bytes; }
};

/// Where a block begins: operands and outputs of the whole chain as steps read and write them, and
/// the product's own operands.
struct block_pointers {
  void const* operands[max_operands] = {};
  void* outputs[max_outputs] = {};
  void const *src = nullptr, *weight = nullptr;
};

/// Invocations of both halves.
struct reduced_halves {
  std::unique_ptr<invocation> product, rows;
};

class reduced_invocation : public invocation {
 public:
  sinter::code run_part(int part) noexcept override {
    return run_units(units_ * part / parts_, units_ * (part + 1) / parts_);
  }

 protected:
  reduced_invocation(std::shared_ptr<reduced_code const> built, reduced_halves halves)
      : invocation(&run_all), built_(std::move(built)), halves_(std::move(halves)) {}

  /// Points both halves to one block.
  virtual void point(extent unit) noexcept = 0;

  void begin(call_args const& args) noexcept {
    args_ = args;
    whole_ = args.shapes != nullptr ? args.shapes : &built_->wanted;
    parts_ = 1;
  }
  void set_units(extent units) noexcept {
    units_ = units;
    if (units_ == 1) point(0);
  }
  int cut_units(double multiply_adds, int wanted) noexcept {
    extent const most = worthwhile_parts(multiply_adds, wanted);
    parts_ = static_cast<int>(std::clamp(units_, extent{1}, most));
    return parts_;
  }

  void point_halves(rows_cut const& block, block_pointers const& at) noexcept {
    matmul_operands const own = operands_of(block.product.chain);
    call_args product, rows;
    std::copy(std::begin(at.operands), std::end(at.operands), std::begin(product.operands));
    product.operands[own.src] = at.src;
    product.operands[own.weight] = at.weight;
    auto* const scratch = static_cast<std::byte*>(args_.scratch);
    product.scratch = scratch;
    rows.scratch = scratch + built_->product_scratch();
    std::byte* const live = scratch + built_->product_scratch() + built_->rows_scratch();
    auto const live_at = [&](int from) {
      return live + static_cast<std::size_t>(-1 - from) * block.live_bytes();
    };
    for (int i = 0; i < block.product.chain.outputs.ssize(); ++i) {
      int const from = block.product_outputs[detail::at(i)];
      product.outputs[i] = from < 0 ? live_at(from) : at.outputs[from];
    }
    for (int i = 0; i < block.rows.chain.operands.ssize(); ++i) {
      int const from = block.row_operands[detail::at(i)];
      rows.operands[i] = from < 0 ? live_at(from) : at.operands[from];
    }
    for (int i = 0; i < block.rows.chain.outputs.ssize(); ++i)
      rows.outputs[i] = at.outputs[block.row_outputs[detail::at(i)]];
    product.shapes = &block.product;
    rows.shapes = &block.rows;
    halves_.product->repoint(product);
    halves_.rows->repoint(rows);
  }
  static void const* moved(void const* p, extent bytes) noexcept {
    return p == nullptr ? p : static_cast<std::byte const*>(p) + bytes;
  }
  static void* moved(void* p, extent bytes) noexcept {
    return p == nullptr ? p : static_cast<std::byte*>(p) + bytes;
  }

  std::shared_ptr<reduced_code const> built_;
  call_args args_;
  problem const* whole_ = nullptr;
  extent units_ = 0;  ///< blocks of the call

 private:
  static sinter::code run_all(invocation& self) noexcept {
    auto& me = static_cast<reduced_invocation&>(self);
    return me.run_units(0, me.units_);
  }
  sinter::code run_units(extent first, extent end) noexcept {
    for (extent unit = first; unit < end; ++unit) {
      if (units_ > 1) point(unit);
      if (sinter::code const c = halves_.product->run(); c != sinter::code::ok) return c;
      if (sinter::code const c = halves_.rows->run(); c != sinter::code::ok) return c;
    }
    return sinter::code::ok;
  }

  reduced_halves halves_;
  int parts_ = 1;
};

class reduced_kernel : public kernel {
 public:
  std::string_view backend() const noexcept override { return "jit"; }
  std::size_t scratch_bytes() const noexcept override { return built_->scratch_bytes(); }
  std::vector<stage_note> stages() const override {
    stage_note const product = built_->product->stages()[0];
    return {{std::string(text(built_->wanted.chain).view()),
             product.implementation + " + " + built_->rows->stages()[0].implementation,
             {},
             product.note}};
  }
  /// That of the product alone; a weight of several matrices is not one that has one.
  std::string layout_key(int operand) const override {
    shape const& dims = built_->wanted.operands[detail::at(operand)].dims;
    bool const several =
        dims.ssize() > 2 &&
        built_->wanted.chain.steps[built_->wanted.chain.anchor()].code == op::matmul;
    return built_->product->layout_key(operand) +
           (several ? " of " + to_string(dims) : std::string());
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
    return join({std::move(*product), std::move(*rows)});
  }

 protected:
  explicit reduced_kernel(std::shared_ptr<reduced_code const> built) : built_(std::move(built)) {}
  virtual std::unique_ptr<invocation> join(reduced_halves halves) const = 0;

  std::shared_ptr<reduced_code const> built_;
};

/// Kernels of both halves. build_product(problem) makes that of a chain without reductions.
template <class BuildProduct>
result<std::shared_ptr<reduced_code const>> build_reduced(problem const& p, rows_cut const& cut,
                                                          isa level, BuildProduct&& build_product) {
  auto built = std::shared_ptr<reduced_code>(new reduced_code());
  built->wanted = p;
  built->live_bytes = static_cast<std::size_t>(cut.live) * cut.live_bytes();
  result<std::shared_ptr<kernel const>> product = build_product(cut.product);
  if (!product) return product.error();
  built->product = std::move(*product);
  auto rows = build_rows(cut.rows, level);
  if (!rows) return rows.error();
  built->rows = std::move(*rows);
  return std::shared_ptr<reduced_code const>(std::move(built));
}

}  // namespace sinter::inline SINTER_ABI::jit
