// Executors as users might write them, the awkward ones included.
#pragma once

#include <sinter/run/parallel.hpp>

#include <atomic>
#include <thread>
#include <vector>

namespace run_test {

/// One thread, the last task first.
class backwards_executor final : public sinter::executor {
 public:
  void run(int tasks, task_function task, void* context) noexcept override {
    for (int i = tasks - 1; i >= 0; --i) task(context, i);
  }
};

/// A thread for each task.
class threads_executor final : public sinter::executor {
 public:
  void run(int tasks, task_function task, void* context) noexcept override {
    std::vector<std::thread> threads;
    for (int i = 1; i < tasks; ++i) threads.emplace_back([=] { task(context, i); });
    task(context, 0);
    for (std::thread& t : threads) t.join();
  }
};

/// Two threads whatever is asked for, neither the caller's.
class two_threads_executor final : public sinter::executor {
 public:
  void run(int tasks, task_function task, void* context) noexcept override {
    std::atomic<int> next{0};
    auto const work = [&] {
      for (int i = next++; i < tasks; i = next++) task(context, i);
    };
    std::thread a(work), b(work);
    a.join();
    b.join();
  }
};

/// Breaks the contract: every other task is left out, the first too.
class forgetful_executor final : public sinter::executor {
 public:
  void run(int tasks, task_function task, void* context) noexcept override {
    for (int i = 1; i < tasks; i += 2) task(context, i);
  }
};

/// Counts what it is asked for.
class counting_executor final : public sinter::executor {
 public:
  int calls = 0, largest = 0;
  void run(int tasks, task_function task, void* context) noexcept override {
    ++calls;
    largest = largest < tasks ? tasks : largest;
    for (int i = 0; i < tasks; ++i) task(context, i);
  }
};

inline std::vector<sinter::executor*> every_executor() {
  static backwards_executor backwards;
  static threads_executor threads;
  static two_threads_executor two;
  static forgetful_executor forgetful;
  return {&backwards, &threads, &two, &forgetful};
}

}  // namespace run_test
