// Conversions: every value of the narrow formats, and f32 against the definition of rounding.
#include <doctest/doctest.h>

#include <cmath>
#include <random>

#include <sinter/core/dtype.hpp>
#include <sinter/reference/scalar.hpp>

using namespace sinter;

namespace {

float from_bits(std::uint32_t v) { return std::bit_cast<float>(v); }

// The value of a narrow format by its definition: sign, exponent, fraction.
double defined_value(std::uint32_t bits, int exponent_bits, int fraction_bits) {
  int const bias = (1 << (exponent_bits - 1)) - 1;
  bool const negative = (bits >> (exponent_bits + fraction_bits) & 1U) != 0;
  int const exponent = static_cast<int>(bits >> fraction_bits & ((1U << exponent_bits) - 1));
  auto const fraction = static_cast<double>(bits & ((1U << fraction_bits) - 1));
  double v = 0;
  if (exponent == (1 << exponent_bits) - 1) {
    v = fraction == 0 ? std::numeric_limits<double>::infinity()
                      : std::numeric_limits<double>::quiet_NaN();
  } else if (exponent == 0) {
    v = std::ldexp(fraction, 1 - bias - fraction_bits);
  } else {
    v = std::ldexp(fraction + std::ldexp(1, fraction_bits), exponent - bias - fraction_bits);
  }
  return negative ? -v : v;
}

// Is `given` v rounded to nearest even in the format? By distance to its two neighbours.
bool nearest_even(double v, std::uint32_t given, int exponent_bits, int fraction_bits) {
  std::uint32_t const sign = given >> (exponent_bits + fraction_bits)
                                          << (exponent_bits + fraction_bits);
  std::uint32_t const magnitude = given & ~sign;
  std::uint32_t const inf = ((1U << exponent_bits) - 1) << fraction_bits;
  if (std::isnan(v)) return magnitude > inf;
  if (std::signbit(v) != (sign != 0)) return false;
  double const a = std::abs(v);
  // One past the largest value counts as 2^emax+1: what infinity stands for when rounding.
  auto const value = [&](std::uint32_t m) {
    return m == inf ? std::ldexp(1, 1 << (exponent_bits - 1))
                    : defined_value(m, exponent_bits, fraction_bits);
  };
  if (magnitude > inf) return false;
  if (std::isinf(v)) return magnitude == inf;
  double const here = std::abs(a - value(magnitude));
  if (magnitude == inf && a >= value(inf)) return true;
  bool const even = magnitude % 2 == 0;
  if (magnitude > 0) {
    double const below = std::abs(a - value(magnitude - 1));
    if (below < here || (below == here && !even)) return false;
  }
  if (magnitude < inf) {
    double const above = std::abs(a - value(magnitude + 1));
    if (above < here || (above == here && !even)) return false;
  }
  return true;
}

bool bf16_right(float v) { return nearest_even(static_cast<double>(v), to_bfloat16(v).bits, 8, 7); }
bool f16_right(float v) { return nearest_even(static_cast<double>(v), to_float16(v).bits, 5, 10); }

}  // namespace

TEST_CASE("f32 to bf16: the values that others got wrong") {
  struct row {
    std::uint32_t from, to;
  };
  for (row r : {row{0x3f808000, 0x3f80}, row{0x3f818000, 0x3f82}, row{0x3f808001, 0x3f81},
                row{0x3f807fff, 0x3f80}, row{0x7f7f7fff, 0x7f7f}, row{0x7f7f8000, 0x7f80},
                row{0x7f800001, 0x7fc0}, row{0xff800001, 0xffc0}, row{0x80000000, 0x8000},
                row{0x00400000, 0x0040}, row{0x7f800000, 0x7f80}, row{0xff800000, 0xff80}}) {
    CAPTURE(r.from);
    CHECK(to_bfloat16(from_bits(r.from)).bits == r.to);
  }
}

TEST_CASE("every bf16 and f16 has its defined value and converts back to itself") {
  int wrong = 0;
  for (std::uint32_t b = 0; b < 65536; ++b) {
    bfloat16 const n{static_cast<std::uint16_t>(b)};
    float16 const h{static_cast<std::uint16_t>(b)};
    double const wanted_n = defined_value(b, 8, 7), wanted_h = defined_value(b, 5, 10);
    auto const same = [](float given, double wanted) {
      return std::isnan(wanted) ? std::isnan(given)
                                : static_cast<double>(given) == wanted &&
                                      std::signbit(given) == std::signbit(wanted);
    };
    if (!same(to_float(n), wanted_n) || !same(to_float(h), wanted_h)) ++wrong;
    // A NaN comes back quiet, with its sign and payload.
    std::uint32_t const quiet_n = std::isnan(wanted_n) ? b | 0x40U : b;
    std::uint32_t const quiet_h = std::isnan(wanted_h) ? b | 0x200U : b;
    if (to_bfloat16(to_float(n)).bits != quiet_n) ++wrong;
    if (to_float16(to_float(h)).bits != quiet_h) ++wrong;
  }
  CHECK(wrong == 0);
}

TEST_CASE("f32 rounds to the nearest bf16 and f16, ties to even") {
  int wrong = 0;
  for (std::uint32_t b = 0; b < 65536; ++b) {  // around every bf16 and its ties
    for (std::uint32_t low : {0x0000U, 0x0001U, 0x7fffU, 0x8000U, 0x8001U, 0xffffU})
      if (!bf16_right(from_bits(b << 16 | low))) ++wrong;
  }
  for (std::uint32_t b = 0; b < 65536; ++b) {  // around every f16 and its ties
    float const v = to_float(float16{static_cast<std::uint16_t>(b)});
    float const next = to_float(float16{static_cast<std::uint16_t>(b + 1)});
    float const tie = v + (next - v) / 2;
    for (float f :
         {tie, std::nextafter(tie, 0.0F), std::nextafter(tie, 1e30F), std::nextafter(tie, -1e30F)})
      if (std::isfinite(f) && !f16_right(f)) ++wrong;
  }
  std::mt19937 random(23);
  for (int i = 0; i < 2000000; ++i) {
    float const f = from_bits(static_cast<std::uint32_t>(random()));
    if (!bf16_right(f) || !f16_right(f)) ++wrong;
  }
  CHECK(wrong == 0);
}

TEST_CASE("double rounds once: not to f32 first") {
  // Just above the tie of two bf16 values, by less than f32 can hold.
  double const tie = 1 + 0x1p-8;
  CHECK(rounded(dtype::bf16, tie) == 1);
  CHECK(rounded(dtype::bf16, tie + 0x1p-40) == 1 + 0x1p-7);
  CHECK(rounded(dtype::bf16, -(tie + 0x1p-40)) == -(1 + 0x1p-7));
  CHECK(rounded(dtype::f16, 1 + 0x1p-11 + 0x1p-45) == 1 + 0x1p-10);
  CHECK(rounded(dtype::f16, 1 + 0x1p-11 - 0x1p-45) == 1);
  CHECK(std::isinf(rounded(dtype::bf16, 1e300)));
  CHECK(std::isinf(rounded(dtype::f32, 1e39)));
  CHECK(rounded(dtype::bf16, 0x1.feffffffffffp127) == 0x1.fep127);
  CHECK(std::isnan(rounded(dtype::f16, std::nan(""))));
}

TEST_CASE("integers: to nearest even, then into range, NaN is 0") {
  CHECK(rounded(dtype::s8, 2.5) == 2);
  CHECK(rounded(dtype::s8, 3.5) == 4);
  CHECK(rounded(dtype::s8, -2.5) == -2);
  CHECK(rounded(dtype::s8, 300.0) == 127);
  CHECK(rounded(dtype::s8, -1e30) == -128);
  CHECK(rounded(dtype::u8, -3.0) == 0);
  CHECK(rounded(dtype::u8, 1e9F) == 255);
  CHECK(rounded(dtype::s32, 3e9) == 2147483647);
  CHECK(rounded(dtype::s32, std::numeric_limits<double>::infinity()) == 2147483647);
  CHECK(rounded(dtype::s8, std::nan("")) == 0);
  std::int32_t element = 0;
  store(&element, dtype::s32, 0, 3e9F);
  CHECK(element == 2147483520);  // the largest float in range
}
