// The work of one group, said as a chain's text and the extents of its operands; and who can do it.
//
// Nothing here knows an expression: a chain is read from its text form, so the command line can ask for any.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <sinter/core/buffer.hpp>
#include <sinter/plan/problem.hpp>
#include <sinter/run/program_core.hpp>

#include "suite.hpp"

namespace sinter_bench {

/// "matmul(x, w) | add b:vector | gelu_tanh [bf16]", and the extents of x and w (and of others, where they do not
/// follow).
struct work {
  std::string chain;
  std::map<std::string, sinter::shape> extents;
};

/// The valid problem of a work, with memory for each operand and output. Numbers are random in [-1, 1), equal for
/// equal works.
class workload {
 public:
  static sinter::result<std::shared_ptr<workload>> make(work const& w);
  /// The problem alone.
  static sinter::result<sinter::problem> describe(work const& w);

  sinter::problem const& problem() const noexcept { return problem_; }
  void const* operand(int i) const { return operands_[static_cast<std::size_t>(i)].data(); }
  void* output() const { return output_->data(); }
  sinter::output_view output_view() const;
  sinter::tensor_view operand_view(int i) const;

  /// Multiplications and additions of the contractions.
  double flops() const;
  /// Bytes of all operands and outputs.
  double bytes() const;

  /// The output as it is now.
  std::vector<float> read_output() const;
  /// How far two right results may be apart where the larger one is `large` and `roundings` of them
  /// were to the output's dtype. With numbers below 1, a sum of K products in f32 is off by at most
  /// K * K units of 2^-24, whatever its order; a rounding adds one unit of the dtype.
  double tolerance(double large, int roundings) const;

 private:
  sinter::problem problem_;
  std::vector<sinter::buffer> operands_;
  std::shared_ptr<sinter::buffer> output_;
};

enum class fusion : unsigned char { fused, step_by_step };

/// A bound call of Sinter on one backend. step_by_step: each step of the chain is a group of its own, the contraction
/// keeps a bias that follows it.
sinter::result<std::unique_ptr<contender>> sinter_call(std::string name,
                                                       std::shared_ptr<workload> const& load,
                                                       std::string_view backend, fusion f);

/// oneDNN's own primitive for the same chain through its C API, and nothing of Sinter in its loop. step_by_step: one
/// primitive for each step, in place after the first.
sinter::result<std::unique_ptr<contender>> raw_onednn(std::string name,
                                                      std::shared_ptr<workload> const& load,
                                                      fusion f);

/// Backends that take part: those selected, or all of this build but the reference.
std::vector<std::string> backends_of(selection const& s);

/// A line-up in which every contender has computed its result once, and been compared with the first
/// one. Steps after the contraction must not enlarge a difference much: activations, sums, products
/// with numbers below 1.
class line_up_maker {
 public:
  explicit line_up_maker(std::shared_ptr<workload> load);
  void join(std::string const& name, sinter::result<std::unique_ptr<contender>> c, fusion f);
  line_up take() { return std::move(made_); }

 private:
  void compare(std::string const& name, fusion f);
  std::shared_ptr<workload> load_;
  std::vector<float> expected_;
  double largest_ = 0;  ///< of what is expected
  line_up made_;
};

/// Everyone who can do the work: oneDNN's primitive first, then Sinter on each backend.
line_up everyone(work const& w, selection const& s);
/// Sinter alone, on each backend, oneDNN first.
line_up our_backends(work const& w, selection const& s);

}  // namespace sinter_bench
