// THE table of dispatch: named rules that say which backend is asked first for which class of problems, and why.
//
// The first rule that holds decides; its backends are asked in its order, and then whatever else the build has, in
// the order of backends(). Each reason is a measurement: `./run bench rules` measures the representatives of every
// rule on all willing backends and prints OK or contradiction beside it (bench/ops/rules.cpp). A rule knows a
// problem's class and nothing of how a backend computes; what a backend cannot do, it refuses itself. Read
// run/dispatch.hpp for what is done with the order.
#pragma once

#include <array>
#include <string_view>

#include "../backend/backend.hpp"
#include "../isa/detect.hpp"
#include "../plan/problem.hpp"

namespace sinter::inline SINTER_ABI {

/// What the rules tell apart. `pointwise` has no contraction; `dense` takes three or more channels of a convolution,
/// `image` up to four (a first layer), `grouped` some groups, `depthwise` a group for each channel.
enum class work_class : unsigned char {
  matmul,
  dense_conv,
  image_conv,
  grouped_conv,
  depthwise_conv,
  other_conv,  ///< conv1d, conv3d
  pointwise,
};

/// A problem as the rules see it.
struct problem_facts {
  work_class kind = work_class::pointwise;
  dtype src = dtype::f32;  ///< what the contraction reads
  isa level = isa::reference;
  sinter::numerics numerics = sinter::numerics::strict;
  /// Of the contraction: rows of all batches or output pixels, columns or output channels of a group, terms of each
  /// sum. -1: dynamic, or no contraction.
  extent rows = -1, columns = -1, terms = -1;
  bool packed = true;       ///< the second operand of the contraction is a weight
  bool dear_steps = false;  ///< a step takes many instructions: exponentials and their kin
  /// Of one call, from an executor that oneDNN has no part of: it would stay on the caller's thread.
  int lent_threads = 1;
  /// In the unit of worthwhile_parts(); -1: dynamic.
  double multiply_adds = -1;

  bool floating() const noexcept { return is_floating(src); }
  bool vector_times_matrix() const noexcept { return kind == work_class::matmul && rows == 1; }
  /// Worth being cut among threads that generated code gets and oneDNN does not.
  bool cut_among_lent_threads() const noexcept {
    return lent_threads > 1 &&
           (multiply_adds < 0 || worthwhile_parts(multiply_adds, lent_threads) > 1);
  }
};

struct dispatch_rule {
  std::string_view name;
  bool (*holds)(problem_facts const&) noexcept;
  std::array<std::string_view, 2> order;  ///< who is asked first
  std::string_view reason;                ///< measured, with figures
};

namespace detail {

inline work_class class_of_conv(op code, contraction_attrs const& a, extent channels) noexcept {
  if (code != op::conv2d) return work_class::other_conv;
  if (a.groups > 1)
    return channels == a.groups ? work_class::depthwise_conv : work_class::grouped_conv;
  return channels <= 4 ? work_class::image_conv : work_class::dense_conv;
}

constexpr bool is_dear(op code) noexcept {
  switch (code) {
    case op::elu:
    case op::exp:
    case op::log:
    case op::tanh:
    case op::sigmoid:
    case op::gelu_tanh:
    case op::gelu_erf:
    case op::swish:
    case op::mish:
    case op::softplus:
    case op::pow:
      return true;
    default:
      return false;
  }
}

inline extent known_product(shape const& dims, int first, int last) noexcept {
  extent product = 1;
  for (int i = first; i < last; ++i)
    product = dims[i] == dynamic || product < 0 ? -1 : product * dims[i];
  return product;
}

}  // namespace detail

/// `lent_threads`: those of an executor that is not OpenMP's.
inline problem_facts facts_of(problem const& p, int lent_threads = 1) {
  problem_facts f;
  f.lent_threads = lent_threads;
  f.numerics = p.numerics;
  f.src = p.chain.precision.src;
  if (auto const usable = current_isa(p.max_isa)) f.level = best_isa(*usable);
  for (step const& s : p.chain.steps) f.dear_steps = f.dear_steps || detail::is_dear(s.code);
  int const anchor = p.chain.anchor();
  if (anchor < 0) {
    double const steps = 4 * static_cast<double>(p.chain.steps.size());
    if (!is_dynamic(p)) f.multiply_adds = steps * static_cast<double>(element_count(p.domain));
    return f;
  }
  step const& s = p.chain.steps[anchor];
  contraction_attrs const& a = p.chain.attrs(s);
  if (s.args[1].kind == value_kind::operand)
    f.packed = p.chain.operands[int{s.args[1].index}].role == role::weight;
  shape const weight = value_dims(p, s.args[1]), source = value_dims(p, s.args[0]);
  shape const result = value_dims(p, step_ref(anchor));
  f.rows = detail::known_product(result, 0, result.ssize() - 1);
  if (s.code == op::matmul) {
    f.kind = work_class::matmul;
    f.columns = detail::known_product(result, result.ssize() - 1, result.ssize());
    int const k = weight.ssize() - (a.transposed_weight ? 1 : 2);
    f.terms = detail::known_product(weight, k, k + 1);
  } else {
    f.kind = detail::class_of_conv(s.code, a, source.back());
    f.columns = weight[0] / a.groups;
    f.terms = detail::known_product(weight, 1, weight.ssize());
  }
  if (f.rows >= 0 && f.columns >= 0 && f.terms >= 0)
    f.multiply_adds = static_cast<double>(f.rows) * static_cast<double>(f.terms) *
                      static_cast<double>(result.back());
  return f;
}

// Ratios are oneDNN 3.7's time by that of generated code, in f32 and bf16, on Zen 4 with AVX512-BF16; where a rule
// names a level, with SINTER_MAX_ISA and ONEDNN_MAX_CPU_ISA at it (docs/benchmarking.md).
// clang-format off
inline constexpr dispatch_rule dispatch_table[] = {
    {"integers",
     [](problem_facts const& f) noexcept { return !f.floating(); },
     {"onednn", "jit"}, "sums of integers are not generated"},
    {"no vector code",
     [](problem_facts const& f) noexcept { return f.level == isa::reference; },
     {"onednn", "jit"}, "nothing is generated below AVX2"},
    {"conv1d and conv3d",
     [](problem_facts const& f) noexcept { return f.kind == work_class::other_conv; },
     {"onednn", "jit"}, "they are not generated"},
    {"threads of another executor",
     [](problem_facts const& f) noexcept { return f.cut_among_lent_threads(); },
     {"jit", "onednn"}, "oneDNN takes threads from OpenMP only; two of them give generated code 1.9 times one"},
    {"large image, short sums, AVX2",
     [](problem_facts const& f) noexcept {
       extent const longest = f.kind == work_class::dense_conv ? 256 : 32;
       return (f.kind == work_class::dense_conv || f.kind == work_class::image_conv) && f.terms <= longest &&
              f.level == isa::avx2 && f.numerics == numerics::peer && f.rows >= 784 && f.columns >= 32;
     },
     {"onednn", "jit"}, "1x1 at 56x56 and 28x28: 0.90 to 0.99, 3x3 over 3 channels 0.87; strict: generated code"},
    {"depthwise convolution",
     [](problem_facts const& f) noexcept { return f.kind == work_class::depthwise_conv; },
     {"jit", "onednn"}, "1.0 (96 channels at 112x112, stride 2) to 1.76 in f32, 1.2 to 2.4 in bf16"},
    {"grouped convolution",
     [](problem_facts const& f) noexcept { return f.kind == work_class::grouped_conv; },
     {"jit", "onednn"}, "1.3 to 4.7 for groups of 4 and 8 channels, 0.97 to 2.0 for more"},
    {"first layer",
     [](problem_facts const& f) noexcept { return f.kind == work_class::image_conv; },
     {"jit", "onednn"}, "1.02 to 2.0 in f32, 1.25 to 1.8 in bf16"},
    {"convolution",
     [](problem_facts const& f) noexcept { return f.kind == work_class::dense_conv; },
     {"jit", "onednn"}, "0.97 to 1.28, most of them 1.02; in bf16 on AVX-512 2.9"},
    {"product of two tensors, AVX2",
     [](problem_facts const& f) noexcept {
       return f.kind == work_class::matmul && f.numerics == numerics::peer && f.level == isa::avx2 && !f.packed &&
              f.columns != 1;
     },
     {"onednn", "jit"}, "the second one is packed in each call: 0.37 to 1.0; strict: generated code"},
    {"row times matrix",
     [](problem_facts const& f) noexcept { return f.vector_times_matrix(); },
     {"jit", "onednn"}, "bound by reads of the weight: 1.14 to 1.57"},
    {"product",
     [](problem_facts const& f) noexcept { return f.kind == work_class::matmul; },
     {"jit", "onednn"}, "7 to 59 up to 16x16x16, 1.1 to 1.6 at 64x64x64, 0.97 to 1.3 above"},
    {"light steps alone",
     [](problem_facts const& f) noexcept {
       return f.kind == work_class::pointwise && f.numerics == numerics::peer && f.level != isa::avx2 &&
              !f.dear_steps;
     },
     {"onednn", "jit"}, "relu and an addend over 512x768: 0.84 to 0.95, on AVX2 1.15; strict: generated code"},
    {"no contraction",
     [](problem_facts const&) noexcept { return true; },
     {"jit", "onednn"}, "gelu_tanh over 128x3072: 4.1 to 4.4"},
};
// clang-format on

/// The rule that decides; the last one holds for everything.
inline dispatch_rule const& rule_for(problem_facts const& f) noexcept {
  dispatch_rule const* rule = dispatch_table;
  while (!rule->holds(f)) ++rule;
  return *rule;
}

}  // namespace sinter::inline SINTER_ABI
