// Extents that leaves say in their types (tensor<"x", 1, 56, 56, 64>), followed through a graph: do they fit?
//
// What is not known stays unknown and is checked by make_problem() (problem.hpp), which gives a sentence with names.
#pragma once

#include "contraction_shape.hpp"
#include "graph.hpp"
#include "pool_shape.hpp"

namespace sinter::inline SINTER_ABI {
namespace detail {

/// The extents of a value as far as the leaves' types say them.
struct known_shape {
  bool known = false;
  shape dims;
};

template <graph_size Size>
class static_shape_check {
 public:
  constexpr explicit static_shape_check(graph<Size> const& source_graph) : graph_(source_graph) {
    for (step const& s : graph_.steps) {
      known_shape const made = s.contraction >= 0 ? contracted(s)
                               : s.pooling >= 0   ? pooled(s)
                                                  : combined(s);
      shapes_.push_back(made);
    }
  }
  /// static_rank, static_shapes, static_window, or none.
  constexpr fault found() const { return found_; }

 private:
  constexpr known_shape of(value_ref v) const {
    if (v.kind == value_kind::step) return shapes_[int{v.index}];
    if (v.kind != value_kind::operand) return {v.kind == value_kind::constant, {}};
    graph_operand const& o = graph_.operands[int{v.index}];
    return {!o.static_dims.empty() || o.role == role::scalar, o.static_dims};
  }
  constexpr known_shape contracted(step const& s) {
    known_shape const src = of(s.args[0]), weight = of(s.args[1]);
    if (!rank_fits(s.code, src) || !rank_fits(s.code, weight)) {
      report(fault::static_rank);
      return {};
    }
    if (!src.known || !weight.known) return {};
    contraction_shape const r =
        shape_of(s.code, graph_.contractions[int{s.contraction}], src.dims, weight.dims);
    if (!r.fits) report(fault::static_shapes);
    return {r.fits, r.dims};
  }
  constexpr known_shape pooled(step const& s) {
    known_shape const image = of(s.args[0]);
    if (!image.known) return {};
    pooled_shape const r = shape_of(s.code, graph_.poolings[int{s.pooling}], image.dims);
    if (!r.fits) report(fault::static_window);
    return {r.fits, r.dims};
  }
  static constexpr bool rank_fits(op code, known_shape const& s) {
    return !s.known ||
           (code == op::matmul ? s.dims.ssize() >= 2 : s.dims.ssize() == spatial_rank(code) + 2);
  }
  /// A vector widens a reduced value only, so one without extents leaves the others known.
  constexpr known_shape combined(step const& s) {
    known_shape result{true, {}};
    bool vector_read = false;
    for (value_ref a : s.args) {
      if (a.kind == value_kind::none) continue;
      known_shape const read = of(a);
      if (!read.known && a.kind == value_kind::operand &&
          graph_.operands[int{a.index}].role == role::vector) {
        vector_read = true;
        continue;
      }
      broadcast_result const both = broadcast(result.dims, read.dims);
      if (result.known && read.known && !both.fits) report(fault::static_shapes);
      result.known = result.known && read.known && both.fits;
      result.dims = both.dims;
    }
    bool const may_widen = vector_read && !result.dims.empty() && result.dims.back() == 1;
    if (may_widen || (is_reduction(s.code) && result.dims.empty())) return {};
    if (is_reduction(s.code)) result.dims = reduced_shape(result.dims);
    return result;
  }

  constexpr void report(fault f) {
    if (found_ == fault::none) found_ = f;
  }

  graph<Size> const& graph_;
  inline_vector<known_shape, static_cast<std::size_t>(Size.steps)> shapes_;
  fault found_ = fault::none;
};

}  // namespace detail
}  // namespace sinter::inline SINTER_ABI
