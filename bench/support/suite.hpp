// Groups of contenders that do the same work, measured in turn: A B A B, and never all of A before all of B.
//
//   contender  one way to do the work; its loop() is the body of a Google Benchmark
//   group      contenders of one problem, one of which the others are compared with
//   sources()  who makes groups: each file of ops/ and blocks/ adds a function before main
//
// Google Benchmark measures one group at a time, its repetitions in random order, so that whatever slows the machine
// down meets all contenders alike. A time is the median over repetitions, of processor time.
#pragma once

#include <benchmark/benchmark.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <sinter/core/dtype.hpp>

namespace sinter_bench {

class contender {
 public:
  explicit contender(std::string name) : name_(std::move(name)) {}
  contender(contender const&) = delete;
  contender& operator=(contender const&) = delete;
  virtual ~contender() = default;

  /// `for (auto _ : state) work();`
  virtual void loop(benchmark::State& state) = 0;
  /// One time, outside of any measurement: its result is compared with the others'.
  virtual void once() = 0;
  /// What it runs, in a word or two: "brg_matmul:avx512_core_bf16".
  virtual std::string detail() const { return {}; }

  std::string const& name() const noexcept { return name_; }

 private:
  std::string name_;
};

/// work() is called once in each iteration.
template <class Work>
class simple_contender final : public contender {
 public:
  simple_contender(std::string name, std::string detail, Work work)
      : contender(std::move(name)), detail_(std::move(detail)), work_(std::move(work)) {}
  void loop(benchmark::State& state) override {
    for (auto _ : state) work_();
  }
  void once() override { work_(); }
  std::string detail() const override { return detail_; }

 private:
  std::string detail_;
  Work work_;
};
template <class Work>
std::unique_ptr<contender> make_contender(std::string name, std::string detail, Work work) {
  return std::make_unique<simple_contender<Work>>(std::move(name), std::move(detail),
                                                  std::move(work));
}

/// What takes part in one group. The first contender is what the others are compared with.
struct line_up {
  std::vector<std::unique_ptr<contender>> contenders;
  /// Who does not take part, and why.
  struct absence {
    std::string name, reason;
  };
  std::vector<absence> absent;
  /// What the model of AMX says of a product that tiles could compute; empty: of this one it says nothing.
  std::string model;
  std::string wrong;  ///< who computes something else than the first contender; empty: nobody
  /// A rule of dispatch that is under test, and whom it takes; empty: none.
  std::string rule, chosen;
  /// The steps after the contraction alone, by the code that `issue_bound_of` runs: with the multiply-adds at the
  /// ceiling's rate they bound its time where both want the same ports.
  std::unique_ptr<contender> steps;
  std::string issue_bound_of;
  double flops = 0;  ///< of one call
  double bytes = 0;  ///< that one call has to read and write at least; 0: no ceiling is printed
  int copies = 1;    ///< of all memory, taken in turn
  sinter::dtype type = sinter::dtype::f32;  ///< what the multiply-adds read
};

/// A difference that is promised: contender minus baseline, in nanoseconds or as a part of the baseline, whichever
/// allows more. `absolute`: the contender's own time, in nanoseconds.
struct promise {
  std::string contender;
  double nanoseconds = 0;
  double part = 0;
  bool absolute = false;
};

/// warm: every call uses the same memory. cold: calls take in turn as many copies of it as the last-level cache cannot
/// hold. none: what is measured is no call of a kernel.
enum class memory : unsigned char { warm, cold, none };

struct group {
  std::string name;   ///< "ops/matmul/bert_base.ffn_up/128x3072x768/bf16"
  std::string table;  ///< lines of one table have this in common: "ops/matmul bf16"
  std::function<line_up()> prepare;
  std::vector<promise> promises = {};
  int repetitions = 0;  ///< 0: as many as usual
  memory where = memory::warm;

  /// The name with the memory's: ".../bf16/warm".
  std::string full_name() const;
  std::string full_table() const;
};

/// What the command line says that groups are made from.
struct selection {
  bool quick = false;                 ///< a few problems of each kind
  bool all = false;                   ///< every problem, large ones too
  bool rules = false;                 ///< the rules of dispatch are judged
  std::vector<std::string> backends;  ///< of Sinter; empty: all of this build but the reference
  std::vector<std::string> peers;     ///< other libraries; empty: all of this build; "none"
  // A problem of the user's own; empty: the suite's.
  std::string chain;
  std::string shape;
  std::string weight;
  std::string precision = "f32";
};

using source = void (*)(selection const&, std::vector<group>&);
std::vector<source>& sources();
/// `static bool const added = add_source(&f);`
bool add_source(source s);

struct run_settings {
  std::string filter;          ///< a regular expression over the names of groups
  std::string json;            ///< a file for Google Benchmark's JSON; empty: none
  std::string machine = "{}";  ///< the machine's record for that file
  bool list = false;
};
/// Measures, prints a line for each group as it ends and a summary at the end. False: something did not run.
bool run_suite(std::vector<group> const& groups, run_settings const& settings);

}  // namespace sinter_bench
