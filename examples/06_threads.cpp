// Several threads: one program called by many at once, and one call that uses many, by an executor.
#include <atomic>
#include <cstdio>
#include <sinter/sinter.hpp>
#include <thread>
#include <vector>

constexpr auto x = sinter::tensor<"x">;
constexpr auto w = sinter::weight<"w">;
constexpr auto b = sinter::vector<"b">;
constexpr auto layer = sinter::relu(sinter::matmul(x, w) + b);

// Sinter starts no threads: whoever wants a call to use several hands it an executor. This one starts its threads
// anew for each group; a pool would have them already. For OpenMP there is sinter/openmp.hpp.
struct thread_starter final : sinter::executor {
  void run(int tasks, task_function task, void* context) noexcept override {
    std::vector<std::thread> helpers;
    for (int i = 1; i < tasks; ++i) helpers.emplace_back(task, context, i);
    task(context, 0);
    for (std::thread& helper : helpers) helper.join();
  }
};

int main() {
  constexpr int rows = 256, inner = 128, columns = 192;
  std::vector<float> input(rows * inner), weights(inner * columns), bias(columns, 1);
  for (std::size_t i = 0; i < input.size(); ++i) input[i] = static_cast<float>(i % 13) * 0.1F;
  for (std::size_t i = 0; i < weights.size(); ++i) weights[i] = static_cast<float>(i % 7) - 3.1F;
  std::vector<float> alone(rows * columns);

  auto const kernel =
      sinter::compile<sinter::f32>(layer, x.dims(rows, inner), w.dims(inner, columns));
  auto const packed = kernel.pack(w = weights);
  kernel(x = input, packed, b = bias, sinter::out = alone);

  // A program and its packed weights are immutable, so any number of threads may call it at once.
  std::atomic<int> same = 0;
  std::vector<std::thread> callers;
  for (int i = 0; i < 4; ++i)
    callers.emplace_back([&] {
      std::vector<float> mine(rows * columns);
      kernel(x = input, packed, b = bias, sinter::out = mine);
      if (mine == alone) ++same;
    });
  for (std::thread& caller : callers) caller.join();
  std::printf("%d of 4 threads have the same result\n", same.load());

  // One call on two threads. No sum is cut, so not a bit changes, whatever their number. (oneDNN takes its threads from
  // OpenMP, and none from an executor like this one: explain() says what was made of it.)
  thread_starter executor;
  auto const shared =
      sinter::compile<sinter::f32>(layer, x.dims(rows, inner), w.dims(inner, columns),
                                   sinter::options{.threads = 2, .executor = &executor});
  std::vector<float> together(rows * columns);
  shared(x = input, shared.pack(w = weights), b = bias, sinter::out = together);
  std::printf("two threads of one call: %s\n", together == alone ? "the same bits" : "DIFFERENT");
}
