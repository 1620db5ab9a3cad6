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

enum class fusion : unsigned char { fused, step_by_step, fused_dynamic };

/// A bound call of Sinter on one backend. step_by_step: each step of the chain is a group of its own, the contraction
/// keeps a bias that follows it. fused_dynamic: compiled for any number of rows, or any number, height and width of
/// images.
sinter::result<std::unique_ptr<contender>> sinter_call(std::string name,
                                                       std::shared_ptr<workload> const& load,
                                                       std::string_view backend, fusion f);

/// oneDNN's own primitive for the same chain through its C API, and nothing of Sinter in its loop. step_by_step: one
/// primitive for each step, in place after the first.
sinter::result<std::unique_ptr<contender>> raw_onednn(std::string name,
                                                      std::shared_ptr<workload> const& load,
                                                      fusion f);

/// The steps after a matmul alone: the same chain with K = 0, on the JIT backend.
sinter::result<std::unique_ptr<contender>> steps_alone(work const& w);

/// Backends that take part: those selected, or all of this build but the reference.
std::vector<std::string> backends_of(selection const& s);

/// A line-up in which every contender has computed its result once, and been compared with the first
/// one. Steps after the contraction must not enlarge a difference much: activations, sums, products
/// with numbers below 1.
class line_up_maker {
 public:
  explicit line_up_maker(std::shared_ptr<workload> load);
  void join(std::string const& name, sinter::result<std::unique_ptr<contender>> c, fusion f);
  /// A contender with a workload of its own, whose operands hold the same numbers.
  void join(std::string const& name, std::shared_ptr<workload> const& load,
            sinter::result<std::unique_ptr<contender>> c, fusion f);
  /// Has the issue bound of the JIT's contender printed.
  void bound_issue_of(std::string const& name, work const& w);
  line_up take() { return std::move(made_); }

 private:
  void compare(std::string const& name, workload const& load, fusion f);
  std::shared_ptr<workload> load_;
  std::vector<float> expected_;
  double largest_ = 0;  ///< of what is expected
  line_up made_;
};

/// The line-up of a work; `join(line_up_maker&, load)` adds the contenders.
template <class Join>
line_up line_up_of(work const& w, Join const& join) {
  auto load = workload::make(w);
  if (!load.ok()) {
    line_up none;
    none.absent.push_back({"everyone", load.error().message});
    return none;
  }
  line_up_maker l(*load);
  join(l, *load);
  return l.take();
}

/// Everyone who can do the work: oneDNN's primitive first, then Sinter on each backend.
/// issue_bound: a line says how near the JIT is to its bound.
line_up everyone(work const& w, selection const& s, bool issue_bound = false);
/// Sinter alone, on each backend, oneDNN first.
line_up our_backends(work const& w, selection const& s);

}  // namespace sinter_bench
