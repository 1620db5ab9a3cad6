// Problems from text: the chain's text form and one description per operand.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <sinter/plan/parse.hpp>

namespace sinter_test {
using namespace sinter;

/// f32 (or `type`) with these extents; `at` the strides where they are not dense.
inline operand_spec dims(shape const& d, strides const& at = {}, dtype type = dtype::f32) {
  return tensor_desc{type, d, at};
}
inline constexpr auto nothing = std::nullopt;

inline result<problem> problem_of(std::string_view text, std::vector<operand_spec> const& specs,
                                  std::vector<strides> const& outputs = {}, int in_place = -1) {
  result<chain> const c = parse_chain(text);
  if (!c.ok()) return c.error();
  return make_problem(c.value(), specs, outputs, numerics::strict, in_place);
}
/// The sentence of the refusal; empty if there is none.
inline std::string refusal(std::string_view text, std::vector<operand_spec> const& specs,
                           std::vector<strides> const& outputs = {}, int in_place = -1) {
  result<problem> const p = problem_of(text, specs, outputs, in_place);
  return p.ok() ? std::string() : p.error().message;
}

}  // namespace sinter_test
