// A pointwise pass in float: what runs the steps that a backend could not fuse, after its own
// kernel.
//
// Given are the values of one or more steps in memory (of any dtype, any strides, broadcast like
// operands); the steps after them are computed by runs in f32 with the meanings of
// reference/scalar.hpp, strict rules included, and the outputs stored. Nothing is allocated. A
// result may differ from the double oracle by the roundings of f32: bounds in docs/precision.md.
#pragma once

#include "../base/array_view.hpp"
#include "evaluator.hpp"

namespace sinter::inline SINTER_ABI {

constexpr std::size_t pass_scratch_bytes(chain const& c) {
  return evaluator<plain_arithmetic<float>>::scratch_numbers(c) * sizeof(float);
}

/// `outputs_to_store`: a bit for each output of the chain. What those depend on must be pointwise
/// from the given values on: a contraction that is reached is summed in float, in order, which is
/// right but slow.
inline void run_pass(problem const& p, array_view<given_value const> given,
                     void const* const* operands, void* const* outputs, void* scratch,
                     unsigned outputs_to_store = ~0U) {
  evaluator<plain_arithmetic<float>> pass(p, operands, static_cast<float*>(scratch), given);
  pass.run(outputs_to_store, [&](int o, value_run const& r, float const* values) {
    tensor_desc const& d = p.outputs[detail::at(o)];
    run_place const place = place_of(r, d.dims, d.strides);
    scatter(outputs[o], d.type, place.offset, place.stride, values, r.count);
  });
}

}  // namespace sinter::inline SINTER_ABI
