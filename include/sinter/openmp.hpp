// The executor for OpenMP: threads of the OpenMP runtime that this translation unit is compiled for.
//
//   #include <sinter/openmp.hpp>   // compiled with -fopenmp; CMake: link OpenMP::OpenMP_CXX
//   auto kernel = sinter::compile<sinter::f32>(chain, ..., sinter::options{
//                     .threads = 4, .executor = &sinter::openmp_threads});
//
// Opt-in: no other header includes it, and nothing else means anything else when OpenMP is on. Without OpenMP it does
// not compile. Called inside a parallel region, it runs on as many threads as OpenMP's nesting allows: by default one.
#pragma once

#if !defined(_OPENMP)
#error "sinter: sinter/openmp.hpp wants OpenMP: compile with -fopenmp, or link OpenMP::OpenMP_CXX"
#endif

#include "run/parallel.hpp"

namespace sinter::inline SINTER_ABI {

class openmp_executor final : public executor {
 public:
  void run(int tasks, task_function task, void* context) noexcept override {
#pragma omp parallel for num_threads(tasks) schedule(static, 1)
    for (int i = 0; i < tasks; ++i) task(context, i);
  }
  bool is_openmp() const noexcept override { return true; }
};

/// Has no state: one object serves every program.
inline openmp_executor openmp_threads;

}  // namespace sinter::inline SINTER_ABI
