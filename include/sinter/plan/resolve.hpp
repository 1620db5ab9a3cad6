// Puts the extents of one call into a problem with dynamic ones, and checks everything again.
//
// This runs in calls, so it allocates nothing unless it refuses. What follows from the given
// extents (vectors, residuals without a description, outputs) follows as in make_problem().
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "../base/array_view.hpp"
#include "problem.hpp"

namespace sinter::inline SINTER_ABI {
namespace detail {

/// What make_problem() is told of an operand; `given` is empty where the call says nothing of it.
inline result<operand_spec> resolved_operand(std::string_view name, tensor_desc const& d,
                                             shape const& given) {
  auto const refuse = [&](std::string const& wanted) {
    return bad(
        {"operand ", in_quotes(name), " of ", to_string(given), "; ", to_string(d.dims), wanted});
  };
  if (!is_dynamic(d.dims)) {
    if (!given.empty() && !(given == d.dims)) return refuse(" is wanted");
    return operand_spec(d);
  }
  if (given.empty()) return operand_spec();
  bool fits = given.size() == d.dims.size() && !is_dynamic(given);
  for (int j = 0; fits && j < given.ssize(); ++j)
    fits = d.dims[j] == dynamic || d.dims[j] == given[j];
  if (!fits) return refuse(" is wanted, a number for each ?");
  tensor_desc now{d.type, given, strides_of_call(given, d.strides)};
  if (status st = complete_layout("operand", name, now); !st.ok()) return st.error();
  return operand_spec(now);
}

}  // namespace detail

/// `dims[i]` belongs to operand i; empty where the operand keeps what it has, or follows from
/// others. `into` must be a copy of p, or what an earlier resolve made of one.
inline status resolve_into(problem& into, problem const& p, array_view<shape const> dims) {
  std::array<operand_spec, max_operands> operands;
  std::array<strides, max_outputs> output_strides;
  for (int i = 0; i < p.chain.operands.ssize(); ++i) {
    shape const given = detail::at(i) < dims.size() ? dims[detail::at(i)] : shape{};
    result<operand_spec> spec =
        detail::resolved_operand(p.chain.operands[i].name, p.operands[detail::at(i)], given);
    if (!spec.ok()) return spec.error();
    operands[detail::at(i)] = spec.value();
  }
  for (int i = 0; i < p.chain.outputs.ssize(); ++i)
    output_strides[detail::at(i)] = p.outputs[detail::at(i)].strides;
  if (status st = detail::problem_builder(into, true).run(operands, output_strides); !st.ok())
    return st;
  for (int i = 0; i < p.chain.operands.ssize(); ++i)
    if (is_dynamic(into.operands[detail::at(i)].dims))
      return detail::bad({"operand ", detail::in_quotes(p.chain.operands[i].name), " of ",
                          to_string(into.operands[detail::at(i)].dims),
                          "; the extents of this call are wanted"});
  return {};
}

inline result<problem> resolve(problem const& p, array_view<shape const> dims) {
  problem copy = p;
  if (status st = resolve_into(copy, p, dims); !st.ok()) return st.error();
  return copy;
}

}  // namespace sinter::inline SINTER_ABI
