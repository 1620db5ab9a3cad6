// Runs of values along one axis of a tensor, and where they lie in memory: how the evaluator walks.
//
// Values only; nothing is computed here. Read reference/evaluator.hpp next.
#pragma once

#include "../plan/problem.hpp"

namespace sinter::inline SINTER_ABI {

/// A step whose values are already in memory (broadcast like an operand): the steps that lead to it
/// do not run.
struct given_value {
  int step = -1;
  void const* data = nullptr;
  tensor_desc desc;
};

/// `count` values that follow each other along `axis` of a tensor of extents dims, from the index
/// `at` on.
struct value_run {
  shape dims;
  shape at;
  int axis = -1;  ///< -1 for rank 0
  int count = 1;
};

inline constexpr int run_length = 256;

/// Place of a run in a tensor that broadcasts to the run's extents.
struct run_place {
  extent offset = 0;
  extent stride = 0;
};
inline run_place place_of(value_run const& r, shape const& dims, strides const& s) {
  run_place place;
  int const skipped = r.dims.ssize() - dims.ssize();
  for (int i = 0; i < dims.ssize(); ++i) {
    if (dims[i] == 1) continue;
    place.offset += r.at[i + skipped] * s[i];
    if (i + skipped == r.axis) place.stride = s[i];
  }
  return place;
}

}  // namespace sinter::inline SINTER_ABI
