// The work of one group, said as the text of chains and the extents of their operands; and who can do it.
//
// Nothing here knows an expression: a chain is read from its text form, so the command line can ask for any.
//
//   work       what is to be computed, and whether in the same memory each time (warm) or in many copies (cold)
//   workload   the valid problems of a work with memory for all that they read and write
//   ..._call   contenders that do it (sinter_call.cpp, raw_onednn.cpp, ../peers)
//   line_up_*  contenders whose results have been compared (line_up.cpp)
#pragma once

#include <cmath>
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
/// follow). Several chains are joined by ';', and by internal values of the same name:
/// "matmul(x, w1) | relu -> ~h; matmul(~h, w2)".
struct work {
  std::string chain;
  std::map<std::string, sinter::shape> extents;
  memory where = memory::warm;
};

/// The same work with a precision at the end of each chain.
work with_precision(work w, std::string const& precision);

/// One chain of a workload with the memory of one copy: what a primitive of a library computes in one call.
class work_part {
 public:
  sinter::problem const& problem() const noexcept { return *problem_; }
  void const* operand(int i) const { return operands_[static_cast<std::size_t>(i)]; }
  void* output() const noexcept { return output_; }

 private:
  friend class workload;
  sinter::problem const* problem_ = nullptr;
  std::vector<void const*> operands_;
  void* output_ = nullptr;
};

/// The valid problems of a work, with memory for each operand, internal value and output. Numbers are random in
/// [-1, 1), equal for equal works and in all copies.
class workload {
 public:
  static sinter::result<std::shared_ptr<workload>> make(work const& w);
  /// The same without any memory.
  static sinter::result<std::shared_ptr<workload>> make_problems(work const& w);
  /// The problem of a work of one chain.
  static sinter::result<sinter::problem> describe(work const& w);
  /// Copies of so many bytes that the last-level cache cannot hold half of them; nothing where more than 512 would be
  /// needed.
  static std::optional<int> cold_copies(double bytes);

  int parts() const noexcept { return static_cast<int>(problems_.size()); }
  int copies() const noexcept { return copies_; }
  /// Does the user give an operand of this name?
  bool reads(std::string const& name) const;
  sinter::problem const& problem(int part = 0) const {
    return problems_[static_cast<std::size_t>(part)];
  }
  work_part part(int part, int copy = 0) const;

  /// Of the first chain.
  void const* operand(int i) const { return part(0).operand(i); }
  sinter::tensor_view operand_view(int i) const;
  /// Of the last chain.
  sinter::tensor_desc const& output_desc() const { return problems_.back().outputs[0]; }
  void* output(int copy = 0) const { return part(parts() - 1, copy).output(); }
  sinter::output_view output_view(int copy = 0) const;
  std::size_t output_bytes() const;

  /// What the user has to give, by name: all but the internal values.
  struct given {
    sinter::operand operand;
    sinter::tensor_view view;
  };
  std::vector<given> operands_of_user(int copy = 0) const;

  /// Multiplications and additions of the contractions.
  double flops() const;
  /// Bytes of all operands and outputs; internal values are not among them.
  double bytes() const;

  /// The output as it is now.
  std::vector<float> read_output(int copy = 0) const;
  /// How far two right results may be apart where the larger one is `large` and `roundings` of them
  /// were to the output's dtype. With numbers below 1, a sum of K products in f32 is off by at most
  /// K * K units of 2^-24, whatever its order; a rounding adds one unit of the dtype.
  double tolerance(double large, int roundings) const;
  /// The same for several chains, of all values together: the length of the difference by the length of the result. A
  /// rounding changes every value by half a unit at most, and numbers at random neither favour nor damp what it
  /// changed over the values themselves.
  double relative_tolerance(bool rounds_each_step) const;

 private:
  struct cell {
    sinter::operand what;
    sinter::tensor_desc desc;
    bool is_output = false;
    std::vector<sinter::buffer> copies;
  };
  sinter::status add_problem(sinter::chain const& c,
                             std::map<std::string, sinter::shape> const& extents);
  sinter::status allocate(memory where);
  int find(sinter::operand const& what) const;

  std::vector<sinter::problem> problems_;
  std::vector<cell> cells_;
  std::vector<std::vector<int>> reads_;  ///< of each problem, by operand: a cell
  std::vector<int> writes_;              ///< of each problem: a cell
  int copies_ = 1;
};

enum class fusion : unsigned char { fused, step_by_step, fused_dynamic, in_strips, apart };

/// A bound call of Sinter on one backend. step_by_step: each step of a chain is a group of its own, the contraction
/// keeps a bias that follows it. fused_dynamic: compiled for any number of rows, or any number, height and width of
/// images. in_strips, apart: groups strip by strip wherever it can be done, or nowhere.
sinter::result<std::unique_ptr<contender>> sinter_call(std::string name,
                                                       std::shared_ptr<workload> const& load,
                                                       std::string_view backend, fusion f);

/// oneDNN's own primitive for each chain through its C API, and nothing of Sinter in its loop. step_by_step: one
/// primitive for each step, in place after the first.
sinter::result<std::unique_ptr<contender>> raw_onednn(std::string name,
                                                      std::shared_ptr<workload> const& load,
                                                      fusion f);

/// The steps after a matmul alone: the same chain with K = 0, on the JIT backend.
sinter::result<std::unique_ptr<contender>> steps_alone(work const& w);

/// Backends that take part: those selected, or all of this build but the reference.
std::vector<std::string> backends_of(selection const& s);

/// What the model of AMX (backend/jit_tiles.hpp) says of a product of two bf16 operands; empty of any other problem.
std::string tile_model_of(sinter::problem const& p);

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
  /// All that this build has of the other libraries.
  void join_peers(selection const& s);
  /// Has the issue bound of the JIT's contender printed.
  void bound_issue_of(std::string const& name, work const& w);
  line_up take() { return std::move(made_); }

 private:
  void compare(std::string const& name, workload const& load, int copy, fusion f);
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

/// Who takes part beside oneDNN's fused primitive and Sinter on each backend.
struct field {
  bool steps = false;        ///< oneDNN, one primitive for each step
  bool our_steps = false;    ///< Sinter's backends, one kernel for each step
  bool peers = false;        ///< other libraries
  bool issue_bound = false;  ///< a line says how near the JIT is to its bound
};

/// Everyone who can do the work: oneDNN's primitive first, then Sinter on each backend.
line_up everyone(work const& w, selection const& s, field f = {});
/// Sinter alone, on each backend, oneDNN first.
line_up our_backends(work const& w, selection const& s);

/// Adds groups in which everyone does the work: `like` says their name and table, and with_cold adds a second one in
/// cold memory, where the work is large enough for that.
void add_everyone(std::vector<group>& groups, group like, work const& w, selection const& s,
                  field f, bool with_cold);

}  // namespace sinter_bench
