// The oracle: a problem evaluated in double, rounded at the documented points only
// (docs/precision.md).
//
// Every backend is compared with this. It is derived from the chain itself, so a new op, a new
// order or a user's lambda needs nothing here. It is also the portable backend
// (backend/reference.hpp): correct everywhere, never fast.
#pragma once

#include "evaluator.hpp"

namespace sinter::inline SINTER_ABI {

/// Bytes of scratch, aligned for double, that evaluate() wants. The same for all extents.
constexpr std::size_t evaluate_scratch_bytes(chain const& c) {
  return evaluator<plain_arithmetic<double>>::scratch_numbers(c) * sizeof(double);
}

/// Computes all outputs. `operands` and `outputs` in the chain's order, laid out as the problem
/// says (no dynamic extents). Pointers of tensors without elements may be null. No allocation. With
/// parts > 1: only the rows of that part of each output.
inline void evaluate(problem const& p, void const* const* operands, void* const* outputs,
                     void* scratch, int part = 0, int parts = 1) {
  evaluator<plain_arithmetic<double>> oracle(p, operands, static_cast<double*>(scratch));
  oracle.keep_to_part(part, parts);
  oracle.run(~0U, [&](int o, value_run const& r, double const* values) {
    tensor_desc const& d = p.outputs[detail::at(o)];
    run_place const place = place_of(r, d.dims, d.strides);
    scatter(outputs[o], d.type, place.offset, place.stride, values, r.count);
  });
}

}  // namespace sinter::inline SINTER_ABI
