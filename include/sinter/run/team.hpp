// The workers of one call: mutable memory for each, and the counter that they pull parts from.
//
// Worker 0 has the call's own invocations and scratch, the others have theirs here, all made with the call's state. An
// invocation of another worker is pointed at the operands by the task that first needs it, so a group whose pointers
// stay pays once, and an executor that runs all tasks on one thread pays for one worker. A group is a barrier: its
// tasks have returned before the next one starts. Knows groups by number, nothing of names and shapes.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "program_plan.hpp"

namespace sinter::inline SINTER_ABI::detail {

class team {
 public:
  /// Makes all workers; none where the program runs on one thread.
  status hire(program_plan const& plan);

  /// After `first`, the call's own invocation of group g, was pointed at `args`; both stay where they are.
  void cut(int g, invocation& first, call_args const& args) noexcept;
  /// Is there work of group g for more than one worker?
  bool shares(int g) const noexcept { return !jobs_.empty() && jobs_[at(g)].parts > 1; }
  /// Computes group g, which it shares, and waits.
  code run(int g) noexcept;

 private:
  /// More parts than workers, so that a slow one takes fewer: a part is about an eighth of the work of two threads.
  static constexpr int parts_per_worker = 4;

  struct job {
    invocation* first = nullptr;
    call_args const* args = nullptr;
    int parts = 1;
    std::uint64_t version = 0;
  };
  struct worker {
    std::vector<std::unique_ptr<invocation>>
        invocations;                     ///< by group; null where work is never cut, or another's
    std::vector<std::uint64_t> pointed;  ///< the version of each job
    buffer scratch;
  };
  struct shared_work {
    team& all;
    int group;
    std::atomic<code> outcome{code::ok};
    alignas(64) std::atomic<int> next{0};
  };

  int size() const noexcept { return static_cast<int>(workers_.size()) + 1; }
  int wanted_parts() const noexcept { return size() * parts_per_worker; }
  static void pull(void* context, int index) noexcept;
  invocation& pointed_invocation(int index, int g) noexcept;

  executor* executor_ = nullptr;
  std::vector<job> jobs_;
  std::vector<worker> workers_;  ///< from worker 1 on
};

inline status team::hire(program_plan const& plan) {
  if (plan.threads < 2) return {};
  executor_ = plan.executor;
  jobs_.resize(plan.groups.size());
  std::size_t scratch = 0;
  int const groups = static_cast<int>(plan.groups.size());
  auto const shared = [&plan](int g) {
    kernel const* const k = plan.runs(g);
    return k != nullptr && k->own_threads() == 0 ? k : nullptr;
  };
  for (int g = 0; g < groups; ++g)
    if (kernel const* const k = shared(g)) scratch = (std::max)(scratch, k->scratch_bytes());
  for (int i = 1; i < plan.threads; ++i) {
    worker w;
    for (int g = 0; g < groups; ++g) {
      w.invocations.emplace_back();
      kernel const* const k = shared(g);
      if (k == nullptr) continue;
      auto made = k->make_invocation();
      if (!made) return made.error();
      w.invocations.back() = std::move(*made);
    }
    w.pointed.resize(plan.groups.size());
    w.scratch = buffer(scratch);
    if (w.scratch.failed())
      return failure{code::out_of_memory,
                     join({"sinter: no memory for the scratch of ", plan.threads, " workers"})};
    workers_.push_back(std::move(w));
  }
  return {};
}

inline void team::cut(int g, invocation& first, call_args const& args) noexcept {
  if (workers_.empty() || workers_.front().invocations[at(g)] == nullptr) return;
  job& j = jobs_[at(g)];
  j = {&first, &args, first.cut(wanted_parts()), j.version + 1};
}

inline code team::run(int g) noexcept {
  shared_work work{*this, g};
  executor_->run((std::min)(size(), jobs_[at(g)].parts), &pull, &work);
  pull(&work, 0);  // what an executor left out; nothing, as a rule
  return work.outcome.load(std::memory_order_relaxed);
}

inline void team::pull(void* context, int index) noexcept {
  auto& work = *static_cast<shared_work*>(context);
  int const parts = work.all.jobs_[at(work.group)].parts;
  int part = work.next.fetch_add(1, std::memory_order_relaxed);
  if (part >= parts) return;
  invocation& mine = work.all.pointed_invocation(index, work.group);
  for (; part < parts; part = work.next.fetch_add(1, std::memory_order_relaxed))
    if (code const c = mine.run_part(part); c != code::ok)
      work.outcome.store(c, std::memory_order_relaxed);
}

inline invocation& team::pointed_invocation(int index, int g) noexcept {
  job const& j = jobs_[at(g)];
  if (index == 0) return *j.first;
  worker& w = workers_[at(index - 1)];
  invocation& mine = *w.invocations[at(g)];
  if (w.pointed[at(g)] != j.version) {
    call_args args = *j.args;
    args.scratch = w.scratch.data();
    mine.repoint(args);
    mine.cut(wanted_parts());
    w.pointed[at(g)] = j.version;
  }
  return mine;
}

}  // namespace sinter::inline SINTER_ABI::detail
