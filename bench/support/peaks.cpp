// The loops behind peaks.hpp. Each function says its target itself: the rest of the program must not use what the CPU
// may not have.
#include "peaks.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>

#include <sinter/core/buffer.hpp>
#include <sinter/isa/detect.hpp>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace sinter_bench {
namespace {

#if defined(__x86_64__)

// As many accumulators as latency times throughput of any CPU asks for (Golden Cove: 4 x 2), few enough for the 16
// registers of AVX2. One asm statement holds a round: what a compiler makes of intrinsics in an array goes through the
// stack, and then memory is what is measured.
constexpr int sums = 12;

#define SINTER_BENCH_ROUND(instruction, constraint)                                               \
  asm volatile(instruction " %12, %12, %0\n\t" instruction " %12, %12, %1\n\t" instruction        \
                           " %12, %12, %2\n\t" instruction " %12, %12, %3\n\t" instruction        \
                           " %12, %12, %4\n\t" instruction " %12, %12, %5\n\t" instruction        \
                           " %12, %12, %6\n\t" instruction " %12, %12, %7\n\t" instruction        \
                           " %12, %12, %8\n\t" instruction " %12, %12, %9\n\t" instruction        \
                           " %12, %12, %10\n\t" instruction " %12, %12, %11"                      \
               : "+" constraint(s0), "+" constraint(s1), "+" constraint(s2), "+" constraint(s3),  \
                 "+" constraint(s4), "+" constraint(s5), "+" constraint(s6), "+" constraint(s7),  \
                 "+" constraint(s8), "+" constraint(s9), "+" constraint(s10), "+" constraint(s11) \
               : constraint(a))

__attribute__((target("avx512f"))) void fma_zmm(std::int64_t rounds) {
  __m512 const a = _mm512_set1_ps(0.5F);
  __m512 s0 = a, s1 = a, s2 = a, s3 = a, s4 = a, s5 = a, s6 = a, s7 = a, s8 = a, s9 = a, s10 = a,
         s11 = a;
  for (std::int64_t r = 0; r < rounds; ++r) SINTER_BENCH_ROUND("vfmadd231ps", "v");
}

__attribute__((target("avx2,fma"))) void fma_ymm(std::int64_t rounds) {
  __m256 const a = _mm256_set1_ps(0.5F);
  __m256 s0 = a, s1 = a, s2 = a, s3 = a, s4 = a, s5 = a, s6 = a, s7 = a, s8 = a, s9 = a, s10 = a,
         s11 = a;
  for (std::int64_t r = 0; r < rounds; ++r) SINTER_BENCH_ROUND("vfmadd231ps", "x");
}

__attribute__((target("avx512f"))) void dot_zmm(std::int64_t rounds) {
  __m512i const a = _mm512_set1_epi16(0x3f80);  // ones
  __m512i s0 = a, s1 = a, s2 = a, s3 = a, s4 = a, s5 = a, s6 = a, s7 = a, s8 = a, s9 = a, s10 = a,
          s11 = a;
  for (std::int64_t r = 0; r < rounds; ++r) SINTER_BENCH_ROUND("vdpbf16ps", "v");
}

#undef SINTER_BENCH_ROUND

// Streams: how many places of the memory are read in turn. Several keep more prefetchers busy, one is best in a cache.
template <int Streams>
__attribute__((target("avx512f"))) void read_zmm(void const* data, std::size_t bytes) {
  std::size_t const part = bytes / 4096 * 4096 / Streams;
  auto const* p = static_cast<char const*>(data);
  for (std::size_t at = 0; at < part; at += 256)
#pragma GCC unroll 4
    for (int s = 0; s < Streams; ++s)
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) {
        __m512i const v = _mm512_loadu_si512(p + static_cast<std::size_t>(s) * part + at +
                                             static_cast<std::size_t>(64 * i));
        asm volatile("" : : "v"(v));
      }
}
template <int Streams>
__attribute__((target("avx2"))) void read_ymm(void const* data, std::size_t bytes) {
  std::size_t const part = bytes / 4096 * 4096 / Streams;
  auto const* p = static_cast<char const*>(data);
  for (std::size_t at = 0; at < part; at += 128)
#pragma GCC unroll 4
    for (int s = 0; s < Streams; ++s)
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) {
        auto const* from =
            p + static_cast<std::size_t>(s) * part + at + static_cast<std::size_t>(32 * i);
        __m256i const v = _mm256_loadu_si256(reinterpret_cast<__m256i const*>(from));
        asm volatile("" : : "x"(v));
      }
}

#endif

double seconds_of(auto const& work) {
  auto const start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double best_of(int tries, auto const& work) {
  double best = seconds_of(work);
  for (int i = 1; i < tries; ++i) best = std::min(best, seconds_of(work));
  return best;
}

}  // namespace

arithmetic_peak peak_of(sinter::dtype t) {
#if defined(__x86_64__)
  sinter::features const f = sinter::detected_isa();
  if (t == sinter::dtype::bf16 && f.has(sinter::feature::avx512_bf16))
    return {"vdpbf16ps zmm", &dot_zmm, sums * 16 * 4.0};
  arithmetic_peak const wide{"vfmadd231ps zmm", &fma_zmm, sums * 16 * 2.0};
  arithmetic_peak const narrow{"vfmadd231ps ymm", &fma_ymm, sums * 8 * 2.0};
  if (f.has(sinter::feature::avx512f))
    return measure_flops(wide) > measure_flops(narrow) ? wide : narrow;
  if (f.has(sinter::feature::avx2)) return narrow;
#endif
  (void)t;
  return {};
}

read_peak find_read_peak(void const* data, std::size_t bytes) {
  read_peak best;
#if defined(__x86_64__)
  sinter::features const f = sinter::detected_isa();
  using way = void (*)(void const*, std::size_t);
  way const wide[] = {&read_zmm<1>, &read_zmm<2>, &read_zmm<4>};
  way const narrow[] = {&read_ymm<1>, &read_ymm<2>, &read_ymm<4>};
  double least = 0;
  auto const consider = [&](way w) {
    double const s = best_of(5, [&] { w(data, bytes); });
    if (best.run == nullptr || s < least) {
      best.run = w;
      least = s;
    }
  };
  if (f.has(sinter::feature::avx512f))
    for (way w : wide) consider(w);
  if (f.has(sinter::feature::avx2))
    for (way w : narrow) consider(w);
#endif
  (void)data;
  (void)bytes;
  return best;
}

double measure_flops(arithmetic_peak const& p) {
  if (p.run == nullptr) return 0;
  constexpr std::int64_t rounds = 20000;
  return p.flops_per_round * static_cast<double>(rounds) / best_of(15, [&] { p.run(rounds); });
}

double measure_clock() {
#if defined(__x86_64__)
  // A product waits for the one before it: 3 cycles on every CPU since Nehalem and Zen (uops.info, IMUL r64, r64).
  constexpr std::int64_t rounds = 200000, products = 8, cycles = 3;
  double const s = best_of(15, [] {
    std::int64_t v = 1;
    for (std::int64_t i = 0; i < rounds; ++i)
      asm volatile(
          "imul %0, %0\n\timul %0, %0\n\timul %0, %0\n\timul %0, %0\n\t"
          "imul %0, %0\n\timul %0, %0\n\timul %0, %0\n\timul %0, %0"
          : "+r"(v));
  });
  return static_cast<double>(rounds * products * cycles) / s;
#else
  return 0;
#endif
}

double measure_bandwidth(std::size_t bytes) {
  sinter::buffer memory(bytes);
  if (memory.failed()) return 0;
  std::memset(memory.data(), 1, bytes);
  read_peak const p = find_read_peak(memory.data(), bytes);
  if (p.run == nullptr) return 0;
  std::size_t const times = std::max<std::size_t>(1, (std::size_t{1} << 24) / bytes);
  double const s = best_of(5, [&] {
    for (std::size_t i = 0; i < times; ++i) p.run(memory.data(), bytes);
  });
  return static_cast<double>(bytes / 4096 * 4096) * static_cast<double>(times) / s;
}

}  // namespace sinter_bench
