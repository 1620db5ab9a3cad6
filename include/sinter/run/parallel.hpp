// Where the threads of one call come from: an executor of the user's. Sinter starts none.
//
// A program with options::threads = N hands an executor at most N tasks for each group that is worth it, and waits.
// Each task is a worker with mutable memory of its own; workers pull the numbers of parts from a counter until none is
// left, and there are more parts than workers, so that a slow core takes fewer. Which worker computes a part changes
// no bit of it. sinter/openmp.hpp has an executor for OpenMP. Read run/team.hpp next.
#pragma once

#include "../config.hpp"

namespace sinter::inline SINTER_ABI {

/// Runs tasks. Must outlive the programs and bound calls that name it, and be callable from as many threads at once as
/// call them.
///
///   struct my_executor final : sinter::executor {
///     void run(int tasks, task_function task, void* context) noexcept override {
///       my_pool.for_each(tasks, [=](int i) { task(context, i); });  // returns when all have returned
///     }
///   };
class executor {
 public:
  using task_function = void (*)(void* context, int index) noexcept;

  /// Calls task(context, i) once for each i in [0, tasks), and returns when all have returned. In any order, on any
  /// threads, the caller's included: one thread may run them all, one after the other. What the caller wrote before is
  /// visible to the tasks, and what they wrote to the caller after. A task waits for no other, calls no executor and
  /// throws nothing; run() may not throw either: an exception that leaves it ends the program.
  virtual void run(int tasks, task_function task, void* context) noexcept = 0;

  /// Are the threads those of OpenMP, so that a library underneath which uses it by itself may have as many? oneDNN is
  /// one; with any other executor it stays on the caller's thread.
  virtual bool is_openmp() const noexcept { return false; }

 protected:
  ~executor() = default;
};

}  // namespace sinter::inline SINTER_ABI
