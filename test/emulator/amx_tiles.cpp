#include "amx_tiles.hpp"

#include <immintrin.h>

#include <atomic>
#include <cstring>

namespace sinter_test::amx {
namespace {

constexpr outcome undefined(char const* reason) { return {fault_kind::undefined, reason}; }
constexpr outcome protection(char const* reason) { return {fault_kind::protection, reason}; }

bool all_zero(std::uint8_t const* bytes, std::size_t n) {
  std::uint8_t any = 0;
  for (std::size_t i = 0; i < n; ++i) any |= bytes[i];
  return any == 0;
}

/// Round to nearest even, no exception, denormals zero in and out; and back.
class tile_rounding {
 public:
  tile_rounding() : before_(_mm_getcsr()) {
    _mm_setcsr(masked | flush_to_zero | denormals_are_zero);
  }
  tile_rounding(tile_rounding const&) = delete;
  tile_rounding& operator=(tile_rounding const&) = delete;
  ~tile_rounding() { _mm_setcsr(before_); }

 private:
  static constexpr unsigned masked = 0x1f80, flush_to_zero = 0x8000, denormals_are_zero = 0x40;
  unsigned before_;
};

using tile = std::uint8_t[max_rows][max_row_bytes];
struct extents {
  int rows, steps, columns;  ///< M; K and N in dwords
};

std::uint32_t dword(tile const& t, int row, int column) {
  std::uint32_t v;
  std::memcpy(&v, &t[row][4 * column], sizeof v);
  return v;
}

// Never inlined: a call is not moved across the change of MXCSR, an operation may be.
[[gnu::target("avx2,fma"), gnu::noinline]] void multiply_bf16(tile& to, tile const& first,
                                                              tile const& second, extents e) {
  __m256i const upper = _mm256_set1_epi32(static_cast<int>(0xffff0000U));
  for (int m = 0; m < e.rows; ++m) {
    alignas(32) float sums[16];
    for (int v = 0; v < 2; ++v) {
      __m256 even = _mm256_setzero_ps(), odd = _mm256_setzero_ps();
      for (int k = 0; k < e.steps; ++k) {
        __m256i const a = _mm256_set1_epi32(static_cast<int>(dword(first, m, k)));
        __m256i b;
        std::memcpy(&b, &second[k][32 * v], sizeof b);
        even = _mm256_fmadd_ps(_mm256_castsi256_ps(_mm256_slli_epi32(a, 16)),
                               _mm256_castsi256_ps(_mm256_slli_epi32(b, 16)), even);
        odd = _mm256_fmadd_ps(_mm256_castsi256_ps(_mm256_and_si256(a, upper)),
                              _mm256_castsi256_ps(_mm256_and_si256(b, upper)), odd);
      }
      __m256 sum;
      std::memcpy(&sum, &to[m][32 * v], sizeof sum);
      _mm256_store_ps(sums + 8 * v, _mm256_add_ps(sum, _mm256_add_ps(even, odd)));
    }
    std::memcpy(to[m], sums, 4 * static_cast<std::size_t>(e.columns));  // the rest stays zero
  }
}

// Bytes 0 and 2, or 1 and 3, of each dword as words.
[[gnu::target("avx2")]] inline __m256i even_bytes(__m256i v, bool is_signed) {
  __m256i const low = _mm256_slli_epi16(v, 8);
  return is_signed ? _mm256_srai_epi16(low, 8) : _mm256_srli_epi16(low, 8);
}
[[gnu::target("avx2")]] inline __m256i odd_bytes(__m256i v, bool is_signed) {
  return is_signed ? _mm256_srai_epi16(v, 8) : _mm256_srli_epi16(v, 8);
}

struct signs {
  bool first, second;
};
// Two products of bytes are at most 2 * 255 * 255, which VPMADDWD adds without loss.
[[gnu::target("avx2")]] void multiply_int8(tile& to, tile const& first, tile const& second,
                                           extents e, signs s) {
  for (int m = 0; m < e.rows; ++m)
    for (int v = 0; v < 2; ++v) {
      __m256i sum;
      std::memcpy(&sum, &to[m][32 * v], sizeof sum);
      for (int k = 0; k < e.steps; ++k) {
        __m256i const a = _mm256_set1_epi32(static_cast<int>(dword(first, m, k)));
        __m256i b;
        std::memcpy(&b, &second[k][32 * v], sizeof b);
        sum = _mm256_add_epi32(sum,
                               _mm256_madd_epi16(even_bytes(a, s.first), even_bytes(b, s.second)));
        sum =
            _mm256_add_epi32(sum, _mm256_madd_epi16(odd_bytes(a, s.first), odd_bytes(b, s.second)));
      }
      std::memcpy(&to[m][32 * v], &sum, sizeof sum);  // columns beyond N: 0 + a * 0
    }
}

/// Which row an instruction is at must be in memory before the row is touched: that may fault.
void note_row(std::uint8_t& start_row, int row) {
  start_row = static_cast<std::uint8_t>(row);
  std::atomic_signal_fence(std::memory_order_seq_cst);
}

}  // namespace

outcome tile_file::load_configuration(void const* memory) {
  // All of it, before anything is decided: any part of it may fault.
  std::uint8_t bytes[sizeof(configuration)];
  for (std::size_t i = 0; i < sizeof bytes; ++i)
    bytes[i] = static_cast<std::uint8_t const volatile*>(memory)[i];
  configuration next;
  std::memcpy(&next, bytes, sizeof next);
  if (next.palette == 0) {
    release();
    return {};
  }
  if (next.palette != 1) return protection("a palette other than 0 and 1");
  if (!all_zero(next.reserved, sizeof next.reserved))
    return protection("reserved bytes 2 to 15 are not zero");
  for (std::uint16_t word : next.reserved_bytes)
    if (word != 0) return protection("bytes 32 to 47 are not zero: palette 1 has 8 tiles");
  if (!all_zero(next.reserved_rows, sizeof next.reserved_rows))
    return protection("bytes 56 to 63 are not zero: palette 1 has 8 tiles");
  for (int t = 0; t < tile_count; ++t) {
    if (next.row_bytes[t] > max_row_bytes) return protection("rows of more than 64 bytes");
    if (next.rows[t] > max_rows) return protection("more than 16 rows");
    if ((next.rows[t] == 0) != (next.row_bytes[t] == 0))
      return protection("one of rows and bytes of a tile is zero, and the other is not");
  }
  release();
  config_ = next;
  return {};
}

void tile_file::store_configuration(void* memory) const {
  std::memcpy(memory, &config_, sizeof config_);
}

void tile_file::release() {
  config_ = {};
  std::memset(data_, 0, sizeof data_);
}

outcome tile_file::usable(int tile) const {
  if (!configured()) return undefined("tiles are not configured");
  if (config_.rows[tile] == 0) return undefined("a tile that the configuration leaves out");
  return {};
}
outcome tile_file::movable(int tile) const {
  if (outcome const o = usable(tile); !o.ok()) return o;
  if (config_.row_bytes[tile] % 4 != 0) return undefined("rows that are no multiple of 4 bytes");
  if (config_.start_row >= config_.rows[tile])
    return undefined("start_row is not below the tile's rows");
  return {};
}
outcome tile_file::multipliable(int to, int first, int second) const {
  if (to == first || to == second || first == second)
    return undefined("two of the tiles are the same");
  for (int t : {to, first, second}) {
    if (outcome const o = usable(t); !o.ok()) return o;
    if (config_.row_bytes[t] % 4 != 0) return undefined("rows that are no multiple of 4 bytes");
  }
  if (config_.rows[to] != config_.rows[first])
    return undefined("M: the accumulator has other rows than the first operand");
  if (config_.row_bytes[to] != config_.row_bytes[second])
    return undefined("N: the accumulator has other columns than the second operand");
  if (config_.row_bytes[first] / 4 != config_.rows[second])
    return undefined("K: the first operand's columns are not the second's rows");
  return {};
}

outcome tile_file::zero(int tile) {
  if (outcome const o = usable(tile); !o.ok()) return o;
  std::memset(data_[tile], 0, sizeof data_[tile]);
  config_.start_row = 0;
  return {};
}

outcome tile_file::load(int tile, std::uintptr_t begin, std::uintptr_t stride) {
  if (outcome const o = movable(tile); !o.ok()) return o;
  for (int row = config_.start_row; row < config_.rows[tile]; ++row) {
    note_row(config_.start_row, row);
    void const* const from =
        reinterpret_cast<void const*>(begin + static_cast<std::uintptr_t>(row) * stride);
    std::memcpy(data_[tile][row], from, config_.row_bytes[tile]);
  }
  config_.start_row = 0;
  return {};
}

outcome tile_file::store(int tile, std::uintptr_t begin, std::uintptr_t stride) {
  if (outcome const o = movable(tile); !o.ok()) return o;
  for (int row = config_.start_row; row < config_.rows[tile]; ++row) {
    note_row(config_.start_row, row);
    void* const to = reinterpret_cast<void*>(begin + static_cast<std::uintptr_t>(row) * stride);
    std::memcpy(to, data_[tile][row], config_.row_bytes[tile]);
  }
  config_.start_row = 0;
  return {};
}

outcome tile_file::multiply(instruction what, int to, int first, int second) {
  if (outcome const o = multipliable(to, first, second); !o.ok()) return o;
  extents const e{config_.rows[to], config_.rows[second], config_.row_bytes[to] / 4};
  if (what == instruction::tdpbf16ps) {
    tile_rounding const rounding;
    multiply_bf16(data_[to], data_[first], data_[second], e);
  } else {
    signs const s{what == instruction::tdpbssd || what == instruction::tdpbsud,
                  what == instruction::tdpbssd || what == instruction::tdpbusd};
    multiply_int8(data_[to], data_[first], data_[second], e, s);
  }
  config_.start_row = 0;
  return {};
}

}  // namespace sinter_test::amx
