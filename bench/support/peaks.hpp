// The ceilings of this machine, measured in the run that they judge: multiply-adds in registers, and reads of memory.
//
// One loop for each instruction set that the CPU has; the fastest one that computes in a dtype is its peak. A loop is
// chosen at run time, so this folder is compiled without any -march (peaks.cpp names targets function by function).
#pragma once

#include <cstddef>
#include <cstdint>

#include <sinter/core/dtype.hpp>

namespace sinter_bench {

/// Multiply-adds that depend on nothing but their own accumulator.
struct arithmetic_peak {
  char const* instruction = "";                ///< "vfmadd231ps zmm"
  void (*run)(std::int64_t rounds) = nullptr;  ///< null: no loop for this CPU
  double flops_per_round = 0;
};
/// The fastest way to multiply-add numbers of type t with sums in f32. f16 has none of its own and takes f32's.
arithmetic_peak peak_of(sinter::dtype t);

/// Reads bytes (rounded down to a multiple of 4096) once; the fastest of a few ways, tried when it is made.
struct read_peak {
  void (*run)(void const* data, std::size_t bytes) = nullptr;
};
read_peak find_read_peak(void const* data, std::size_t bytes);

/// Floating-point operations per second of one thread, the best of a few short runs.
double measure_flops(arithmetic_peak const& p);

/// Cycles per second of the core while it computes; 0 where this build has no loop for that.
double measure_clock();

/// Bytes per second of one thread that reads this many bytes again and again.
double measure_bandwidth(std::size_t bytes);

}  // namespace sinter_bench
