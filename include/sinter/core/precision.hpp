// A precision says the dtype of each role once for a whole chain: compile<sinter::bf16>(...).
//
// It is a structural value, so a user writes an own one as a constant and passes it the same way:
//   constexpr sinter::precision mine{.src = dtype::bf16, .weight = dtype::bf16, .dst = dtype::f32};
// Rounding points follow from expression + precision alone; docs/precision.md lists them.
#pragma once

#include "dtype.hpp"

namespace sinter::inline SINTER_ABI {

struct precision {
  dtype src = dtype::f32;       ///< tensors that a contraction reads; let values are rounded to it
  dtype weight = dtype::f32;    ///< weights, after pack()
  dtype acc = dtype::f32;       ///< accumulation: f32 (s32 for integer src and weight)
  dtype bias = dtype::f32;      ///< vectors and scalars
  dtype residual = dtype::f32;  ///< tensors that only pointwise steps read
  dtype dst = dtype::f32;       ///< outputs
  friend constexpr bool operator==(precision const&, precision const&) = default;
};

inline constexpr precision f32{};
inline constexpr precision bf16{dtype::bf16, dtype::bf16, dtype::f32,
                                dtype::f32,  dtype::bf16, dtype::bf16};
inline constexpr precision f16{dtype::f16, dtype::f16, dtype::f32,
                               dtype::f32, dtype::f16, dtype::f16};

/// What special values do. strict: the rules of docs/precision.md hold on every backend and path.
/// peer: a backend's own answers for NaN and infinities hold; ordinary values are the same.
enum class numerics : unsigned char { strict, peer };

}  // namespace sinter::inline SINTER_ABI
