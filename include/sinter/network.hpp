// Networks: many blocks compiled into one program with one arena, weights by name.
//
//   #include <sinter/network.hpp>
//   sinter::network_builder net(sinter::bf16, weights);
//
// Beside the umbrella and not in it, since who calls single chains should not compile this. With SINTER_EXTERN_BACKENDS
// the definitions are in the translation unit that includes backends.hpp. The guide is docs/networks.md.
#pragma once

#include "sinter.hpp"

#if !SINTER_EXTERN_BACKENDS
#include "run/network_impl.hpp"
#endif
#include "run/network_builder.hpp"
