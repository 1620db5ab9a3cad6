// The tile state of one thread and what each AMX instruction does to it: the manual's pseudo-code.
//
// Knows nothing of signals, code bytes or registers; memory is read and written at plain addresses,
// where it may fault. An operation that is not allowed changes nothing and says why. TILECFG's
// start_row is kept as the manual has it: a load or store begins there, and leaves the row there
// whose memory faulted. TDPBF16PS: for each element a sum of the even and one of the odd products,
// fused multiply-adds from +0 in the order of K, then sum + (even + odd); rounded to nearest even,
// denormals zero on the way in and out, MXCSR neither read nor written; NaN results are quiet, with
// a payload that is not promised. The integer products wrap around.
//
// Source: Intel SDM volume 2, the instructions' pages and exception classes AMX-E1 to E6.
#pragma once

#include <cstddef>
#include <cstdint>

#include "amx_decode.hpp"

namespace sinter_test::amx {

inline constexpr int tile_count = 8, max_rows = 16, max_row_bytes = 64;

/// The 64 bytes that LDTILECFG reads and STTILECFG writes.
struct configuration {
  std::uint8_t palette = 0;
  std::uint8_t start_row = 0;
  std::uint8_t reserved[14] = {};
  std::uint16_t row_bytes[8] = {};
  std::uint16_t reserved_bytes[8] = {};
  std::uint8_t rows[8] = {};
  std::uint8_t reserved_rows[8] = {};
};
static_assert(sizeof(configuration) == 64);

struct [[nodiscard]] outcome {
  fault_kind kind = fault_kind::none;
  char const* reason = "";
  bool ok() const { return kind == fault_kind::none; }
};

class tile_file {
 public:
  bool configured() const { return config_.palette == 1; }

  outcome load_configuration(void const* memory);
  void store_configuration(void* memory) const;
  void release();
  outcome zero(int tile);
  /// Row r lies at begin + r * stride, modulo 2^64.
  outcome load(int tile, std::uintptr_t begin, std::uintptr_t stride);
  outcome store(int tile, std::uintptr_t begin, std::uintptr_t stride);
  outcome multiply(instruction what, int to, int first, int second);

  /// What is needed to compute products at all, beside what every x86-64 has.
  static bool can_multiply() {
    return __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0;
  }

 private:
  outcome usable(int tile) const;
  outcome movable(int tile) const;
  outcome multipliable(int to, int first, int second) const;

  configuration config_;  ///< zeros where tiles are not configured
  // Bytes beyond a tile's rows and columns are zero: LDTILECFG zeroes all, and nothing writes there.
  alignas(64) std::uint8_t data_[tile_count][max_rows][max_row_bytes] = {};
};

}  // namespace sinter_test::amx
