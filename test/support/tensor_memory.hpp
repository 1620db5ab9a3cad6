// The memory of one tensor under guard pages: patterns of values in, gaps that hold NaN or
// canaries, values out.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include <sinter/plan/layout.hpp>
#include <sinter/reference/scalar.hpp>

#include "guard_buffer.hpp"

namespace sinter_test {
using namespace sinter;

enum class pattern : unsigned char {
  integers,  ///< -3 .. 3: sums are exact on every path
  fine,      ///< +-(1 + k 2^-9): not exact in bf16, so a missing or second rounding shows
  uniform,   ///< [-1, 1)
  nan_rows,  ///< uniform; in a tensor every third index of the last axis but one holds NaN
  specials,  ///< uniform, one in eight is an infinity, -0, NaN, a denormal or huge
};
inline constexpr pattern all_patterns[] = {pattern::integers, pattern::fine, pattern::uniform,
                                           pattern::nan_rows, pattern::specials};

class pattern_source {
 public:
  pattern_source(pattern what, std::uint64_t seed) : what_(what), random_(seed) {}

  /// `row`: the index of the last axis but one. `is_tensor`: not a weight, vector or scalar.
  double next(extent row, bool is_tensor) {
    switch (what_) {
      case pattern::integers:
        return static_cast<double>(static_cast<int>(random_() % 7) - 3);
      case pattern::fine: {
        double const v = 1 + static_cast<double>(random_() % 8) * 0x1p-9;
        return random_() % 2 == 0 ? v : -v;
      }
      case pattern::uniform:
        break;
      case pattern::nan_rows:
        if (is_tensor && row % 3 == 1) return std::numeric_limits<double>::quiet_NaN();
        break;
      case pattern::specials: {
        constexpr double inf = std::numeric_limits<double>::infinity();
        constexpr double list[] = {
            inf, -inf, -0.0, 0.0, std::numeric_limits<double>::quiet_NaN(), 0x1p-130, 1e30, -1e30};
        if (random_() % 8 == 0) return list[random_() % 8];
        break;
      }
    }
    return static_cast<double>(random_() % 65536) * 0x1p-15 - 1;
  }

 private:
  pattern what_;
  std::mt19937_64 random_;
};

/// Calls f(index, offset) for each element of a tensor in logical order.
template <class F>
void for_each_element(shape const& dims, strides const& s, F&& f) {
  extent const count = element_count(dims);
  shape index = dims;
  for (extent& e : index) e = 0;
  for (extent n = 0; n < count; ++n) {
    extent offset = 0;
    for (int i = 0; i < index.ssize(); ++i) offset += index[i] * s[i];
    f(index, offset);
    for (int i = index.ssize() - 1; i >= 0 && ++index[i] == dims[i]; --i) index[i] = 0;
  }
}

class tensor_memory {
 public:
  tensor_memory() = default;
  tensor_memory(tensor_desc const& d, placement where)
      : desc_(d),
        memory_(static_cast<std::size_t>(detail::byte_span(d)), where,
                static_cast<std::size_t>(size_of(d.type))) {}

  /// Gaps become NaN (all bits set), elements the pattern's values rounded to the dtype.
  void fill(pattern_source& values, bool is_tensor) {
    std::memset(memory_.data(), 0xff, memory_.size());
    for_each_element(desc_.dims, desc_.strides, [&](shape const& index, extent offset) {
      extent const row = index.ssize() >= 2 ? index[index.ssize() - 2] : 0;
      store(memory_.data(), desc_.type, offset, values.next(row, is_tensor));
    });
  }
  /// The same with these values, in logical order.
  void fill(std::vector<double> const& values) {
    std::memset(memory_.data(), 0xff, memory_.size());
    std::size_t n = 0;
    for_each_element(desc_.dims, desc_.strides, [&](shape const&, extent offset) {
      store(memory_.data(), desc_.type, offset, values.at(n++));
    });
  }
  /// What is in it, in logical order.
  std::vector<double> numbers() const {
    std::vector<double> values;
    for_each_element(desc_.dims, desc_.strides, [&](shape const&, extent offset) {
      values.push_back(load<double>(memory_.data(), desc_.type, offset));
    });
    return values;
  }
  /// Every byte becomes the canary: what an output starts with.
  void poison() { std::memset(memory_.data(), guard_buffer::canary, memory_.size()); }

  /// Bytes outside and in the gaps hold what fill() or poison() left.
  bool gaps_intact(unsigned char gap) const {
    if (!memory_.intact()) return false;
    std::vector<bool> used(memory_.size(), false);
    auto const size = static_cast<std::size_t>(size_of(desc_.type));
    for_each_element(desc_.dims, desc_.strides, [&](shape const&, extent offset) {
      for (std::size_t b = 0; b < size; ++b)
        used[static_cast<std::size_t>(offset) * size + b] = true;
    });
    for (std::size_t i = 0; i < used.size(); ++i)
      if (!used[i] && memory_.data()[i] != std::byte{gap}) return false;
    return true;
  }

  void* data() { return memory_.data(); }
  tensor_desc const& desc() const { return desc_; }
  std::vector<std::byte> bytes() const { return {memory_.data(), memory_.data() + memory_.size()}; }

 private:
  tensor_desc desc_;
  guard_buffer memory_;
};

}  // namespace sinter_test
