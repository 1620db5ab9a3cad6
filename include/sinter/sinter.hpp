// Sinter: chains of neural-network operations written as C++ expressions, run as fused kernels.
//
//   constexpr auto x = sinter::tensor<"x">;
//   constexpr auto w = sinter::weight<"w">;
//   constexpr auto b = sinter::vector<"b">;
//   auto kernel = sinter::compile<sinter::bf16>(sinter::relu(sinter::matmul(x, w) + b), x.dims(32, 512), w.dims(512, 64));
//
// The umbrella: everything that chains need; networks are in sinter/network.hpp. With SINTER_EXTERN_BACKENDS (CMake
// target sinter::backends) it is free of dnnl.hpp and xbyak.h. The tutorial is docs/tutorial.md.
#pragma once

#include "config.hpp"

// The backends first: the name sinter::out must not stand before their local variables (-Wshadow).
#if !SINTER_EXTERN_BACKENDS
#include "backends.hpp"
#endif
#include "core/tensor_view.hpp"
#include "run/program.hpp"
