// The portable backend: every valid problem, on every CPU, by the oracle itself. The backend of
// last resort.
//
// Weights are packed to dense row-major order in the chain's dtype. A kernel is its problem; an
// invocation is a set of pointers. Results are those of reference/evaluate.hpp: double inside,
// rounded where docs/precision.md says.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "../plan/text.hpp"
#include "../plan/view_check.hpp"
#include "../reference/evaluate.hpp"
#include "backend.hpp"
#include "one_image.hpp"

namespace sinter::inline SINTER_ABI {

/// Copies a view of any strides to dense row-major memory of dtype `to`, rounding to nearest even.
inline void copy_dense(void* out, dtype to, tensor_view const& source) {
  extent const count = element_count(source.dims);
  shape index = source.dims;
  for (extent& e : index) e = 0;
  for (extent n = 0; n < count; ++n) {
    extent offset = 0;
    for (int i = 0; i < index.ssize(); ++i) offset += index[i] * source.strides[i];
    store(out, to, n, load<double>(source.data, source.type, offset));
    for (int i = index.ssize() - 1; i >= 0 && ++index[i] == source.dims[i]; --i) index[i] = 0;
  }
}

class reference_kernel final : public kernel,
                               public std::enable_shared_from_this<reference_kernel> {
 public:
  explicit reference_kernel(problem p) : problem_(std::move(p)) {}

  std::string_view backend() const noexcept override { return "reference"; }
  std::size_t scratch_bytes() const noexcept override {
    return evaluate_scratch_bytes(problem_.chain);
  }
  std::vector<stage_note> stages() const override {
    return {{std::string(text(problem_.chain).view()), "reference", {}}};
  }
  std::string layout_key(int operand) const override {
    tensor_desc const& d = problem_.operands[detail::at(operand)];
    return detail::join({"reference ", to_string(d.dims), " ", name_of(d.type)});
  }
  result<packed_weight> pack(int operand, tensor_view const& source) const override {
    tensor_desc const& d = problem_.operands[detail::at(operand)];
    if (is_dynamic(d.dims))
      return failure{code::unsupported,
                     detail::join({"sinter: weight '", problem_.chain.operands[operand].name,
                                   "' has dynamic extents and cannot be packed"})};
    tensor_view from = source;
    if (from.flat && element_count(from.dims) == element_count(d.dims)) {
      from.dims = d.dims;
      from.strides = dense_strides(d.dims);
    }
    bool const from_f32 = is_floating(d.type) && from.type == dtype::f32;
    tensor_desc const wanted{from_f32 ? dtype::f32 : d.type, d.dims, from.strides};
    if (status st = check_view("weight", problem_.chain.operands[operand].name, wanted, from);
        !st.ok())
      return st.error();
    auto const bytes =
        static_cast<std::size_t>(element_count(d.dims)) * static_cast<std::size_t>(size_of(d.type));
    auto storage = std::shared_ptr<buffer>(new buffer(bytes));
    if (storage->failed())
      return failure{code::out_of_memory,
                     detail::join({"sinter: no memory for ", bytes, " bytes of packed weights"})};
    copy_dense(storage->data(), d.type, from);
    return packed_weight{std::move(storage), layout_key(operand)};
  }
  result<std::shared_ptr<kernel const>> by_rows(array_view<row_range const> ranges) const override {
    return detail::by_images(problem_, ranges,
                             [](problem const& one) -> result<std::shared_ptr<kernel const>> {
                               return std::shared_ptr<kernel const>(new reference_kernel(one));
                             });
  }
  /// Inline here too: a first virtual function that is not would put the vtable into every object.
  inline result<std::unique_ptr<invocation>> make_invocation() const override;

  sinter::problem const& described() const noexcept { return problem_; }

 private:
  problem problem_;
};

class reference_invocation final : public invocation {
 public:
  explicit reference_invocation(std::shared_ptr<reference_kernel const> k) noexcept
      : invocation(&execute), kernel_(std::move(k)) {}
  void repoint(call_args const& args) noexcept override {
    args_ = args;
    parts_ = 1;
  }

  /// By rows of the outputs. An output that shares memory with an operand is written after outputs of other extents
  /// were made from it: such work is not cut.
  int cut(int wanted) noexcept override {
    problem const& p = current();
    double elements = 0;
    extent rows = 0;
    for (int i = 0; i < p.chain.outputs.ssize(); ++i) {
      shape const& dims = p.outputs[detail::at(i)].dims;
      if (p.in_place >= 0 && !(dims == p.outputs[0].dims)) return parts_ = 1;
      elements += static_cast<double>(element_count(dims));
      rows = (std::max)(rows,
                        dims.empty() || dims.back() == 0 ? 1 : element_count(dims) / dims.back());
    }
    constexpr double products_per_element = 1000;  // everything is slow here
    extent const most = worthwhile_parts(elements * products_per_element, wanted);
    return parts_ = static_cast<int>(std::clamp(rows, extent{1}, most));
  }
  code run_part(int part) noexcept override { return compute(part, parts_); }

 private:
  static code execute(invocation& base) noexcept {
    return static_cast<reference_invocation const&>(base).compute(0, 1);
  }
  problem const& current() const noexcept {
    return args_.shapes != nullptr ? *args_.shapes : kernel_->described();
  }
  code compute(int part, int parts) const noexcept {
    evaluate(current(), args_.operands, args_.outputs, args_.scratch, part, parts);
    return code::ok;
  }

  std::shared_ptr<reference_kernel const> kernel_;
  call_args args_;
  int parts_ = 1;
};

inline result<std::unique_ptr<invocation>> reference_kernel::make_invocation() const {
  return std::unique_ptr<invocation>(new reference_invocation(shared_from_this()));
}

class reference_backend final : public backend {
 public:
  std::string_view name() const noexcept override { return "reference"; }
  verdict supports(problem const&) const noexcept override { return verdict::yes(); }
  result<std::shared_ptr<kernel const>> build(problem const& p) const override {
    return std::shared_ptr<kernel const>(new reference_kernel(p));
  }
};

}  // namespace sinter::inline SINTER_ABI
