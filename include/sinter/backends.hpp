// The backends that are compiled in, and the definitions that need them.
//
// sinter.hpp includes this under plain -I; with SINTER_EXTERN_BACKENDS one translation unit does (src/backends.cpp),
// and no other sees dnnl.hpp or xbyak.h. Dispatch asks in the order of its rules, then of the table below.
#pragma once

#include "config.hpp"

#if SINTER_WITH_JIT
#include "backend/jit.hpp"
#endif
#if SINTER_WITH_ONEDNN
#include "backend/onednn.hpp"
#endif
#include "backend/reference.hpp"
#include "run/program_core_impl.hpp"
#if SINTER_EXTERN_BACKENDS
#include "run/network_impl.hpp"  // in a header-only build: sinter/network.hpp
#endif

namespace sinter::inline SINTER_ABI {

SINTER_API backend_list backends() {
#if SINTER_WITH_JIT
  static jit_backend const jit;
#endif
#if SINTER_WITH_ONEDNN
  static onednn_backend const onednn;
#endif
  static reference_backend const reference;
  static backend const* const table[] = {
#if SINTER_WITH_JIT
    &jit,
#endif
#if SINTER_WITH_ONEDNN
    &onednn,
#endif
    &reference,
  };
  return table;
}

}  // namespace sinter::inline SINTER_ABI
