// The element types and their conversions to and from float: bit exact, usable in constant expressions.
//
// Rounding is to nearest, ties to even, in one step from the source. A NaN keeps its sign and top payload bits and is
// made quiet. bf16 and f16 denormals are kept here; docs/precision.md says which machine instructions flush them.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include "../config.hpp"

namespace sinter::inline SINTER_ABI {

enum class dtype : unsigned char { f32, bf16, f16, s32, s8, u8 };

struct dtype_row {
  dtype type;
  std::string_view name;
  int bytes;
  bool floating;
  int whole_bits;  ///< whole numbers below 2^whole_bits are exact
};
inline constexpr dtype_row dtype_table[] = {
    {dtype::f32, "f32", 4, true, 24}, {dtype::bf16, "bf16", 2, true, 8},
    {dtype::f16, "f16", 2, true, 11}, {dtype::s32, "s32", 4, false, 31},
    {dtype::s8, "s8", 1, false, 7},   {dtype::u8, "u8", 1, false, 8},
};
static_assert([] {
  for (int i = 0; i < 6; ++i)
    if (static_cast<int>(dtype_table[i].type) != i) return false;
  return true;
}());

constexpr dtype_row const& row_of(dtype t) { return dtype_table[static_cast<int>(t)]; }
constexpr std::string_view name_of(dtype t) { return row_of(t).name; }
constexpr int size_of(dtype t) { return row_of(t).bytes; }
constexpr bool is_floating(dtype t) { return row_of(t).floating; }
/// So many whole numbers, from 0 on, are exact in it.
constexpr std::int64_t whole_numbers(dtype t) { return std::int64_t{1} << row_of(t).whole_bits; }

/// Storage of one bfloat16: the upper half of an IEEE binary32.
struct bfloat16 {
  std::uint16_t bits = 0;
  friend constexpr bool operator==(bfloat16, bfloat16) = default;
};
/// Storage of one IEEE binary16.
struct float16 {
  std::uint16_t bits = 0;
  friend constexpr bool operator==(float16, float16) = default;
};

constexpr float to_float(bfloat16 v) { return std::bit_cast<float>(std::uint32_t{v.bits} << 16); }

constexpr bfloat16 to_bfloat16(float v) {
  auto const bits = std::bit_cast<std::uint32_t>(v);
  if ((bits & 0x7fffffffU) > 0x7f800000U) return {static_cast<std::uint16_t>((bits >> 16) | 0x40U)};
  return {static_cast<std::uint16_t>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16)};
}

constexpr float to_float(float16 v) {
  std::uint32_t const sign = (v.bits & 0x8000U) << 16;
  std::uint32_t const exponent = (v.bits >> 10) & 31U;
  std::uint32_t const fraction = v.bits & 0x3ffU;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000U | (fraction << 13));
  if (exponent == 0) {
    float const magnitude = static_cast<float>(fraction) * 0x1p-24F;
    return sign != 0 ? -magnitude : magnitude;
  }
  return std::bit_cast<float>(sign | ((exponent + 112U) << 23) | (fraction << 13));
}

constexpr float16 to_float16(float v) {
  auto const bits = std::bit_cast<std::uint32_t>(v);
  std::uint32_t const sign = (bits >> 16) & 0x8000U;
  std::uint32_t const magnitude = bits & 0x7fffffffU;
  if (magnitude > 0x7f800000U)
    return {static_cast<std::uint16_t>(sign | 0x7e00U | ((magnitude >> 13) & 0x3ffU))};
  if (magnitude >= 0x477ff000U)
    return {static_cast<std::uint16_t>(sign | 0x7c00U)};  // rounds to 2^16
  if (magnitude >= 0x38800000U) {                         // at least 2^-14: a normal binary16
    std::uint32_t const rounded = magnitude + 0xfffU + ((magnitude >> 13) & 1U);
    return {static_cast<std::uint16_t>(sign | ((rounded - 0x38000000U) >> 13))};
  }
  if (magnitude < 0x33000000U) return {static_cast<std::uint16_t>(sign)};  // below half of 2^-24
  std::uint32_t const shift = 126U - (magnitude >> 23);  // 14 (2^-15) to 24 (2^-25)
  std::uint32_t const significand = (magnitude & 0x7fffffU) | 0x800000U;
  std::uint32_t const half = 1U << (shift - 1);
  std::uint32_t const rounded = (significand + half - 1 + ((significand >> shift) & 1U)) >> shift;
  return {static_cast<std::uint16_t>(sign | rounded)};
}

/// The dtype of a C++ element type: dtype_of<float> == dtype::f32. Not defined for a type that Sinter does not know.
template <class T>
struct dtype_trait {};
template <>
struct dtype_trait<float> : std::integral_constant<dtype, dtype::f32> {};
template <>
struct dtype_trait<bfloat16> : std::integral_constant<dtype, dtype::bf16> {};
template <>
struct dtype_trait<float16> : std::integral_constant<dtype, dtype::f16> {};
template <>
struct dtype_trait<std::int32_t> : std::integral_constant<dtype, dtype::s32> {};
template <>
struct dtype_trait<std::int8_t> : std::integral_constant<dtype, dtype::s8> {};
template <>
struct dtype_trait<std::uint8_t> : std::integral_constant<dtype, dtype::u8> {};

template <class T>
concept element = requires {
  dtype_trait<std::remove_cv_t<T>>::value;
};
template <element T>
inline constexpr dtype dtype_of = dtype_trait<std::remove_cv_t<T>>::value;

/// The element at index i of an array of dtype t, as a float (exact but for s32 beyond 2^24).
inline float load_as_float(void const* base, dtype t, std::int64_t i) {
  switch (t) {
    case dtype::f32:
      return static_cast<float const*>(base)[i];
    case dtype::bf16:
      return to_float(static_cast<bfloat16 const*>(base)[i]);
    case dtype::f16:
      return to_float(static_cast<float16 const*>(base)[i]);
    case dtype::s32:
      return static_cast<float>(static_cast<std::int32_t const*>(base)[i]);
    case dtype::s8:
      return static_cast<float>(static_cast<std::int8_t const*>(base)[i]);
    case dtype::u8:
      return static_cast<float>(static_cast<std::uint8_t const*>(base)[i]);
  }
  return 0;
}

/// v rounded to dtype t (nearest even) and widened again; floating dtypes only.
constexpr float round_to(dtype t, float v) {
  if (t == dtype::bf16) return to_float(to_bfloat16(v));
  if (t == dtype::f16) return to_float(to_float16(v));
  return v;
}

}  // namespace sinter::inline SINTER_ABI
