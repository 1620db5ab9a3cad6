// The oneDNN backend: what it takes, and which kernel serves it.
//
// onednn_schedule.hpp finds the stages of a chain: yes means that oneDNN has accepted them. A chain with a pooling is
// cut in two by onednn_pooled.hpp; any other is a kernel of onednn_kernel.hpp.
#pragma once

#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "onednn_pooled.hpp"

namespace sinter::inline SINTER_ABI {

/// sinter::backend for oneDNN. Has no state: every object of it is the same.
class onednn_backend final : public backend {
 public:
  std::string_view name() const noexcept override { return "onednn"; }

  verdict supports(problem const& p) const noexcept override {
    auto const made = build(p);
    return made.ok() ? verdict::yes() : verdict::no(made.error().message, made.error().what);
  }

  result<std::shared_ptr<kernel const>> build(problem const& p) const override {
    if (verdict v = within_cap(p); !v) return failure{v.what, v.reason};
    if (p.chain.pooling() >= 0) return onednn::build_pooled(p);
    return onednn::build_plain(p);
  }

 private:
  static verdict within_cap(problem const& p) {
    std::optional<isa> cap = p.max_isa;
    if (!cap)
      if (auto const level = max_isa(); level.ok()) cap = *level;
    return cap ? onednn::keeps_to(*cap) : verdict::yes();
  }
};

}  // namespace sinter::inline SINTER_ABI
