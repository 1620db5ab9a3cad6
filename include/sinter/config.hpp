// Sinter configuration: the version, what is compiled in, and the inline namespace that encodes both.
//
// Two translation units that disagree about what is compiled in must not share inline functions (the one-definition
// rule), so every setting that changes a definition is part of the name of the inline namespace: a disagreement is a
// link error and never undefined behaviour. This header includes nothing; every other one includes it.
//
// SINTER_WITH_ONEDNN    0 or 1: backend/onednn.hpp is part of the program (link libdnnl 3.4 or newer)
// SINTER_WITH_JIT       0 or 1: the Xbyak backend is part of the program (Xbyak 7 or newer on the include path)
// SINTER_EXTERN_BACKENDS 0 or 1: the backends are compiled in one translation unit (CMake target sinter::backends)
//                       instead of inline in each; sinter.hpp then stays free of dnnl and xbyak
#pragma once

#define SINTER_VERSION_MAJOR 0
#define SINTER_VERSION_MINOR 1
#define SINTER_VERSION_PATCH 0

#ifndef SINTER_WITH_ONEDNN
#define SINTER_WITH_ONEDNN 0
#endif
#ifndef SINTER_WITH_JIT
#define SINTER_WITH_JIT 0
#endif
#ifndef SINTER_EXTERN_BACKENDS
#define SINTER_EXTERN_BACKENDS 0
#endif

#if !defined(__cplusplus) || \
    (__cplusplus < 202002L && !(defined(_MSVC_LANG) && _MSVC_LANG >= 202002L))
#error "sinter: C++20 is wanted (-std=c++20)"
#endif

#if defined(__cpp_exceptions) || defined(__EXCEPTIONS)
#define SINTER_EXCEPTIONS 1
#else
#define SINTER_EXCEPTIONS 0
#endif

#define SINTER_DETAIL_PASTE(major, minor, onednn, jit, ext, exc) \
  v##major##_##minor##_d##onednn##_j##jit##_x##ext##_e##exc
#define SINTER_DETAIL_ABI(major, minor, onednn, jit, ext, exc) \
  SINTER_DETAIL_PASTE(major, minor, onednn, jit, ext, exc)
/// The inline namespace: version, oneDNN, JIT, external backends, exceptions. Used as `namespace sinter::inline SINTER_ABI {`.
#define SINTER_ABI                                                                  \
  SINTER_DETAIL_ABI(SINTER_VERSION_MAJOR, SINTER_VERSION_MINOR, SINTER_WITH_ONEDNN, \
                    SINTER_WITH_JIT, SINTER_EXTERN_BACKENDS, SINTER_EXCEPTIONS)

/// Functions that need a backend: inline in a header-only build, defined once in sinter::backends otherwise.
#if SINTER_EXTERN_BACKENDS
#define SINTER_API
#else
#define SINTER_API inline
#endif

namespace sinter::inline SINTER_ABI {

struct version {
  int major, minor, patch;
};
inline constexpr version library_version{SINTER_VERSION_MAJOR, SINTER_VERSION_MINOR,
                                         SINTER_VERSION_PATCH};

}  // namespace sinter::inline SINTER_ABI
