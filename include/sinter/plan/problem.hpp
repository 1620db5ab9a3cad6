// The problem: one chain with the run-time extents, strides and numerics that it is compiled for; the cache key.
//
// make_problem() checks everything that can be known before data is there (ranks, extents, broadcasting, strides,
// sizes) and infers the shape of each value; a problem that exists is valid, so backends check nothing twice.
// Pointers are checked at bind (run/binding.hpp). Sentences name the operand, what was given and what is wanted.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "../base/status.hpp"
#include "../core/tensor_view.hpp"
#include "../isa/isa.hpp"
#include "chain.hpp"

namespace sinter::inline SINTER_ABI {

/// dtype, extents and strides of one operand or output. Extents may be `dynamic`; strides then follow at the call.
struct tensor_desc {
  dtype type = dtype::f32;
  shape dims;
  sinter::strides strides;
  friend constexpr bool operator==(tensor_desc const&, tensor_desc const&) = default;
};

struct problem {
  sinter::chain chain;
  std::array<tensor_desc, max_operands> operands;  ///< one per chain operand, in its order
  std::array<tensor_desc, max_outputs> outputs;    ///< one per chain output
  shape domain;                                    ///< extents of the values after the anchor (of all, without one)
  sinter::numerics numerics = sinter::numerics::strict;
  /// Index of an operand that the user declared to share memory with output 0 (element by element); -1: none.
  int in_place = -1;
  /// The user's cap on instructions: backends ask current_isa(max_isa). Nothing: SINTER_MAX_ISA alone counts.
  std::optional<isa> max_isa;
  friend bool operator==(problem const&, problem const&) = default;
};

}  // namespace sinter::inline SINTER_ABI
