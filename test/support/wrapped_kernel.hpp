// The reference's kernel under another name: what backends of tests build. One overrides what it does otherwise, as a
// rule its invocation.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <sinter/backend/reference.hpp>

namespace sinter_test {

class wrapped_kernel : public sinter::kernel {
 public:
  wrapped_kernel(std::string_view backend, sinter::problem const& p)
      : backend_(backend), inner_(sinter::reference_backend().build(p).value()) {}

  std::string_view backend() const noexcept override { return backend_; }
  std::size_t scratch_bytes() const noexcept override { return inner_->scratch_bytes(); }
  std::vector<sinter::stage_note> stages() const override {
    return {{"all", std::string(backend_), {}}};
  }
  std::string layout_key(int operand) const override { return inner_->layout_key(operand); }
  sinter::result<sinter::packed_weight> pack(int operand,
                                             sinter::tensor_view const& v) const override {
    auto w = inner_->pack(operand, v);
    if (w) w->layout_key = layout_key(operand);
    return w;
  }
  sinter::result<std::unique_ptr<sinter::invocation>> make_invocation() const override {
    auto made = inner_->make_invocation();
    if (!made) return made.error();
    return wrap(std::move(*made));
  }

 private:
  virtual std::unique_ptr<sinter::invocation> wrap(
      std::unique_ptr<sinter::invocation> inner) const {
    return inner;
  }

  std::string_view backend_;
  std::shared_ptr<sinter::kernel const> inner_;
};

}  // namespace sinter_test
