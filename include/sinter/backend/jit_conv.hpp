// The JIT backend's conv2d: which problems it takes, how one is built.
#pragma once

#include <memory>

#include "../isa/isa.hpp"
#include "backend.hpp"

namespace sinter::inline SINTER_ABI::jit {

inline verdict supports_conv(problem const&, isa) {
  return verdict::no("sinter: jit: conv2d is not generated");
}

/// Only where supports_conv() says yes.
inline result<std::shared_ptr<kernel const>> build_conv(problem const& p, isa level) {
  verdict const v = supports_conv(p, level);
  return failure{v.what, v.reason};
}

}  // namespace sinter::inline SINTER_ABI::jit
