// All 2^32 floats to bf16 and f16, against rounding by the definition in integer arithmetic.
#include <doctest/doctest.h>

#include <sinter/core/dtype.hpp>

using namespace sinter;

namespace {

/// |v| rounded to a format of `fraction` bits below the leading one and least exponent `low`, by
/// comparing the cut part with one half in 64-bit integers. Gives the magnitude bits of the narrow
/// format.
std::uint32_t rounded_bits(std::uint32_t magnitude, int fraction, int bias, std::uint32_t inf) {
  int const exponent = static_cast<int>(magnitude >> 23);
  std::uint64_t const significand =
      exponent == 0 ? magnitude & 0x7fffffU : (magnitude & 0x7fffffU) | 0x800000U;
  int const e = exponent == 0 ? -126 : exponent - 127;  // value = significand * 2^(e - 23)
  int const least = 1 - bias;
  int const unit = (e > least ? e : least) - fraction;  // exponent of the last place
  int const shift = unit - (e - 23);
  if (shift > 40) return 0;
  std::uint64_t const whole = significand >> shift;
  std::uint64_t const cut = significand - (whole << shift);
  std::uint64_t const half = std::uint64_t{1} << (shift - 1);
  std::uint64_t const n = whole + (cut > half || (cut == half && whole % 2 == 1) ? 1 : 0);
  int const field =
      (e > least ? e : least) + bias - 1;  // n holds the leading one of a normal value
  std::uint64_t const bits = n + (static_cast<std::uint64_t>(field) << fraction);
  return bits >= inf ? inf : static_cast<std::uint32_t>(bits);
}

}  // namespace

TEST_CASE("all floats to bf16 and f16") {
  std::uint64_t wrong = 0;
  for (std::uint64_t n = 0; n < (std::uint64_t{1} << 32); ++n) {
    auto const bits = static_cast<std::uint32_t>(n);
    std::uint32_t const magnitude = bits & 0x7fffffffU, sign = bits >> 31 << 15;
    float const v = std::bit_cast<float>(bits);
    std::uint32_t bf = 0, h = 0;
    if (magnitude > 0x7f800000U) {
      bf = (bits >> 16) | 0x40U;
      h = sign | 0x7e00U | (magnitude >> 13 & 0x3ffU);
    } else if (magnitude == 0x7f800000U) {
      bf = sign | 0x7f80U;
      h = sign | 0x7c00U;
    } else {
      bf = sign | rounded_bits(magnitude, 7, 127, 0x7f80);
      h = sign | rounded_bits(magnitude, 10, 15, 0x7c00);
    }
    if (to_bfloat16(v).bits != bf || to_float16(v).bits != h) ++wrong;
  }
  CHECK(wrong == 0);
}
