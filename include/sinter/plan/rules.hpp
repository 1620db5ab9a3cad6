// The structural rules of an expression, each with its refusal sentence: ONE table.
//
// They need no extents, so they hold (or not) when the expression is written. partition() in a constant expression
// stops the compiler at a function named like the sentence; compile() checks the structure in a static_assert-like
// constant and the numbers (stride, clip bounds) when it runs. What depends on extents is in plan/validate.hpp.
#pragma once

#include <string>

#include "../base/status.hpp"
#include "chain.hpp"

namespace sinter::inline SINTER_ABI {

enum class fault : unsigned char {
  none,
  contraction_reused,
  let_undefined,
  let_redefined,
  let_unused,
  leaf_disagrees,
  weight_outside_contraction,
  vector_in_contraction,
  nothing_to_do,
  group_too_long,
  clip_bounds,
  conv_attributes,
  pool_attributes,
  vector_pooled,
  static_window,
  static_rank,
  static_shapes,
  output_redefined,
  scalar_reduced,
  hole_outside_map,
  count_
};

struct fault_row {
  fault what;
  std::string_view sentence;
};

inline constexpr fault_row fault_table[] = {
    {fault::none, ""},
    {fault::contraction_reused,
     "sinter: the same contraction is used twice: name its value with let<\"h\">(...) and refer to "
     "let<\"h\">"},
    {fault::let_undefined,
     "sinter: a let name is read before it is defined: let<\"h\">(expr) or define(h = expr, ...) "
     "comes first"},
    {fault::let_redefined, "sinter: one let name is defined twice with different expressions"},
    {fault::let_unused, "sinter: a let is defined and never read"},
    {fault::leaf_disagrees, "sinter: one operand name is used with two roles or two static shapes"},
    {fault::weight_outside_contraction,
     "sinter: a weight is the second operand of a contraction; an operand of pointwise steps is a "
     "tensor, vector or scalar"},
    {fault::vector_in_contraction,
     "sinter: the operands of a contraction are tensors and weights, not a vector, scalar or "
     "number"},
    {fault::nothing_to_do, "sinter: an output is an operand as it came: nothing is computed"},
    {fault::group_too_long,
     "sinter: one group has more than 64 steps, 32 operands, 32 constants or 4 outputs"},
    {fault::clip_bounds, "sinter: clip wants a low bound that is not above the high one"},
    {fault::conv_attributes,
     "sinter: a convolution wants strides, dilations and groups of at least 1, pads of at least 0, "
     "and one number for all spatial axes or one for each"},
    {fault::pool_attributes,
     "sinter: a pooling wants a kernel and strides of at least 1, pads of at least 0 that are less "
     "than the kernel, and one number for both spatial axes or one for each"},
    {fault::vector_pooled,
     "sinter: a pooling reads an image, N,H,W,C, not a vector, scalar or number"},
    {fault::static_window,
     "sinter: a pooling wants an image of static rank 4, N,H,W,C, at least as large with its "
     "padding as the window"},
    {fault::static_rank,
     "sinter: an operand of a contraction has the wrong static rank: matmul wants 2 or more, "
     "conv1d 3, conv2d 4, conv3d 5"},
    {fault::static_shapes,
     "sinter: the static shapes of the operands of a step do not fit each other"},
    {fault::output_redefined, "sinter: two outputs have the same name"},
    {fault::scalar_reduced,
     "sinter: a reduction reads rows along the last axis, and a scalar has none"},
    {fault::hole_outside_map, "sinter: the parameter of a lambda is used outside of its map()"},
};
static_assert([] {
  for (int i = 0; i < static_cast<int>(fault::count_); ++i)
    if (static_cast<int>(fault_table[i].what) != i) return false;
  return true;
}());
constexpr std::string_view sentence_of(fault f) {
  return fault_table[static_cast<int>(f)].sentence;
}

// Not constexpr on purpose: in a constant expression the compiler stops here and prints the name.
namespace stop {
[[noreturn]] inline void raise_fault(fault f) {
  raise({code::bad_argument, std::string(sentence_of(f))});
}
// clang-format off
[[noreturn]] inline void sinter_the_same_contraction_is_used_twice_name_its_value_with_let() { raise_fault(fault::contraction_reused); }
[[noreturn]] inline void sinter_a_let_name_is_read_before_it_is_defined() { raise_fault(fault::let_undefined); }
[[noreturn]] inline void sinter_one_let_name_is_defined_twice_with_different_expressions() { raise_fault(fault::let_redefined); }
[[noreturn]] inline void sinter_a_let_is_defined_and_never_read() { raise_fault(fault::let_unused); }
[[noreturn]] inline void sinter_one_operand_name_is_used_with_two_roles_or_two_static_shapes() { raise_fault(fault::leaf_disagrees); }
[[noreturn]] inline void sinter_a_weight_is_the_second_operand_of_a_contraction_and_nothing_else() { raise_fault(fault::weight_outside_contraction); }
[[noreturn]] inline void sinter_the_operands_of_a_contraction_are_tensors_and_weights() { raise_fault(fault::vector_in_contraction); }
[[noreturn]] inline void sinter_an_output_is_an_operand_as_it_came_nothing_is_computed() { raise_fault(fault::nothing_to_do); }
[[noreturn]] inline void sinter_one_group_has_too_many_steps_operands_constants_or_outputs() { raise_fault(fault::group_too_long); }
[[noreturn]] inline void sinter_clip_wants_a_low_bound_that_is_not_above_the_high_one() { raise_fault(fault::clip_bounds); }
[[noreturn]] inline void sinter_a_convolution_wants_stride_dilation_groups_of_at_least_1_and_pad_of_at_least_0() { raise_fault(fault::conv_attributes); }
[[noreturn]] inline void sinter_a_pooling_wants_kernel_and_stride_of_at_least_1_and_pad_of_at_least_0_below_the_kernel() { raise_fault(fault::pool_attributes); }
[[noreturn]] inline void sinter_a_pooling_reads_an_image_not_a_vector_scalar_or_number() { raise_fault(fault::vector_pooled); }
[[noreturn]] inline void sinter_a_pooling_wants_an_image_of_static_rank_4_at_least_as_large_as_the_window() { raise_fault(fault::static_window); }
[[noreturn]] inline void sinter_an_operand_of_a_contraction_has_the_wrong_static_rank() { raise_fault(fault::static_rank); }
[[noreturn]] inline void sinter_the_static_shapes_of_the_operands_of_a_step_do_not_fit() { raise_fault(fault::static_shapes); }
[[noreturn]] inline void sinter_two_outputs_have_the_same_name() { raise_fault(fault::output_redefined); }
[[noreturn]] inline void sinter_a_reduction_reads_rows_along_the_last_axis_and_a_scalar_has_none() { raise_fault(fault::scalar_reduced); }
[[noreturn]] inline void sinter_the_parameter_of_a_lambda_is_used_outside_of_its_map() { raise_fault(fault::hole_outside_map); }
// clang-format on
}  // namespace stop

/// Does nothing for fault::none; otherwise a compile error in a constant expression, an exception elsewhere.
constexpr void require_no_fault(fault f) {
  switch (f) {
    case fault::none:
    case fault::count_:
      return;
    case fault::contraction_reused:
      stop::sinter_the_same_contraction_is_used_twice_name_its_value_with_let();
    case fault::let_undefined:
      stop::sinter_a_let_name_is_read_before_it_is_defined();
    case fault::let_redefined:
      stop::sinter_one_let_name_is_defined_twice_with_different_expressions();
    case fault::let_unused:
      stop::sinter_a_let_is_defined_and_never_read();
    case fault::leaf_disagrees:
      stop::sinter_one_operand_name_is_used_with_two_roles_or_two_static_shapes();
    case fault::weight_outside_contraction:
      stop::sinter_a_weight_is_the_second_operand_of_a_contraction_and_nothing_else();
    case fault::vector_in_contraction:
      stop::sinter_the_operands_of_a_contraction_are_tensors_and_weights();
    case fault::nothing_to_do:
      stop::sinter_an_output_is_an_operand_as_it_came_nothing_is_computed();
    case fault::group_too_long:
      stop::sinter_one_group_has_too_many_steps_operands_constants_or_outputs();
    case fault::clip_bounds:
      stop::sinter_clip_wants_a_low_bound_that_is_not_above_the_high_one();
    case fault::conv_attributes:
      stop::sinter_a_convolution_wants_stride_dilation_groups_of_at_least_1_and_pad_of_at_least_0();
    case fault::pool_attributes:
      stop::
          sinter_a_pooling_wants_kernel_and_stride_of_at_least_1_and_pad_of_at_least_0_below_the_kernel();
    case fault::vector_pooled:
      stop::sinter_a_pooling_reads_an_image_not_a_vector_scalar_or_number();
    case fault::static_window:
      stop::sinter_a_pooling_wants_an_image_of_static_rank_4_at_least_as_large_as_the_window();
    case fault::static_rank:
      stop::sinter_an_operand_of_a_contraction_has_the_wrong_static_rank();
    case fault::static_shapes:
      stop::sinter_the_static_shapes_of_the_operands_of_a_step_do_not_fit();
    case fault::output_redefined:
      stop::sinter_two_outputs_have_the_same_name();
    case fault::scalar_reduced:
      stop::sinter_a_reduction_reads_rows_along_the_last_axis_and_a_scalar_has_none();
    case fault::hole_outside_map:
      stop::sinter_the_parameter_of_a_lambda_is_used_outside_of_its_map();
  }
}

/// clip's bounds; anything else passes.
constexpr fault fault_of_step(step const& s) {
  return s.code == op::clip && !(s.alpha <= s.beta) ? fault::clip_bounds : fault::none;
}

constexpr fault fault_of_attrs(op code, contraction_attrs const& a) {
  bool ok = a.groups >= 1;
  for (int i = 0; i < spatial_rank(code); ++i)
    ok = ok && a.stride[i] >= 1 && a.dilation[i] >= 1 && a.pad_begin[i] >= 0 && a.pad_end[i] >= 0;
  return ok ? fault::none : fault::conv_attributes;
}

/// Padding stays below the kernel, so that each window sees the image.
constexpr fault fault_of_window(op code, pool_attrs const& a) {
  bool ok = true;
  for (int i = 0; i < 2 && code != op::global_avg_pool; ++i)
    ok = ok && a.kernel[i] >= 1 && a.stride[i] >= 1 && a.pad_begin[i] >= 0 && a.pad_end[i] >= 0 &&
         a.pad_begin[i] < a.kernel[i] && a.pad_end[i] < a.kernel[i];
  return ok ? fault::none : fault::pool_attributes;
}

}  // namespace sinter::inline SINTER_ABI
