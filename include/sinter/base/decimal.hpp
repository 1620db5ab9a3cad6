// Floats as decimal text and back, in constant expressions: what the text form of a chain is made
// with.
//
// The shortest digits that read back as the same float are printed. Reader and printer share
// to_float(), and the printer tries its digits with it, so a round trip is exact by construction.
// NaN payloads and the rare value that no nine digits hit are written as their bits, #7fc00001.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>
#include <string_view>

#include "inline_vector.hpp"

namespace sinter::inline SINTER_ABI {

using number_text = inline_string<24>;

namespace detail {

/// digits * 10^exponent
struct decimal {
  std::uint64_t digits = 0;
  int exponent = 0;
};

/// 10^e for 0 <= e <= 66; exact up to 22.
constexpr double power_of_ten(int e) {
  double p = 1;
  for (; e >= 22; e -= 22) p *= 1e22;
  for (; e > 0; --e) p *= 10;
  return p;
}

constexpr float to_float(decimal d) {
  if (d.digits == 0 || d.exponent < -66) return 0;
  auto const digits = static_cast<double>(d.digits);
  double const v = d.exponent >= 0 ? digits * power_of_ten(d.exponent > 66 ? 66 : d.exponent)
                                   : digits / power_of_ten(-d.exponent);
  constexpr double limit = 0x1.ffffffp127;  // half way from the largest float to 2^128
  return v >= limit ? std::numeric_limits<float>::infinity() : static_cast<float>(v);
}

/// The shortest decimal that reads back as v (finite, > 0); digits 0 if nine do not suffice.
constexpr decimal shortest_decimal(float v) {
  int magnitude = -46;  // largest with 10^magnitude <= v
  while (magnitude < 38 &&
         static_cast<double>(v) >=
             (magnitude + 1 >= 0 ? power_of_ten(magnitude + 1) : 1 / power_of_ten(-magnitude - 1)))
    ++magnitude;
  for (int count = 1; count <= 9; ++count) {
    int const e = magnitude - count + 1;
    double const scaled = e >= 0 ? static_cast<double>(v) / power_of_ten(e)
                                 : static_cast<double>(v) * power_of_ten(-e);
    decimal const d{static_cast<std::uint64_t>(scaled + 0.5), e};
    if (to_float(d) == v) return d;
  }
  return {};
}

constexpr int digit_count(std::uint64_t n) {
  int count = 1;
  for (; n >= 10; n /= 10) ++count;
  return count;
}

constexpr number_text digits_text(decimal d) {
  while (d.digits % 10 == 0) {
    d.digits /= 10;
    ++d.exponent;
  }
  number_text digits, text;
  digits.append_number(static_cast<long long>(d.digits));
  int const count = digit_count(d.digits), point = count + d.exponent;  // digits before the point
  std::string_view const all = digits.view();
  if (d.exponent >= 0 && point <= 8) {
    text.append(all);
    for (int i = 0; i < d.exponent; ++i) text.append("0");
  } else if (point > 0 && point <= 8) {
    text.append(all.substr(0, static_cast<std::size_t>(point)));
    text.append(".");
    text.append(all.substr(static_cast<std::size_t>(point)));
  } else if (point <= 0 && point > -5) {
    text.append("0.");
    for (int i = point; i < 0; ++i) text.append("0");
    text.append(all);
  } else {
    text.append(all.substr(0, 1));
    if (count > 1) text.append(".");
    text.append(all.substr(1));
    text.append("e");
    text.append_number(point - 1);
  }
  return text;
}

constexpr number_text bits_text(std::uint32_t bits) {
  number_text text("#");
  for (int shift = 28; shift >= 0; shift -= 4)
    text.append(std::string_view("0123456789abcdef").substr((bits >> shift) & 15U, 1));
  return text;
}

}  // namespace detail

/// "0.5", "1.702", "-0", "1e-7", "inf", "#7fc00001".
constexpr number_text to_text(float v) {
  auto const bits = std::bit_cast<std::uint32_t>(v);
  std::uint32_t const magnitude = bits & 0x7fffffffU;
  if (magnitude > 0x7f800000U) return detail::bits_text(bits);
  number_text text;
  if ((bits >> 31) != 0) text.append("-");
  if (magnitude == 0) {
    text.append("0");
  } else if (magnitude == 0x7f800000U) {
    text.append("inf");
  } else if (detail::decimal const d = detail::shortest_decimal(std::bit_cast<float>(magnitude));
             d.digits != 0) {
    text.append(detail::digits_text(d));
  } else {
    return detail::bits_text(bits);
  }
  return text;
}

/// What parse_float() read: the value and the characters used; 0 where there is no number.
struct parsed_float {
  float value = 0;
  std::size_t used = 0;
};

namespace detail {

constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }

constexpr bool in_name(char c) {
  return is_digit(c) || c == '_' || c == '.' || c == ':' || (c >= 'a' && c <= 'z') ||
         (c >= 'A' && c <= 'Z');
}

constexpr parsed_float parse_bits(std::string_view text) {
  std::uint32_t bits = 0;
  if (text.size() < 9) return {};
  for (std::size_t i = 1; i < 9; ++i) {
    auto const digit = std::string_view("0123456789abcdef").find(text[i]);
    if (digit == std::string_view::npos) return {};
    bits = bits << 4 | static_cast<std::uint32_t>(digit);
  }
  return {std::bit_cast<float>(bits), 9};
}

}  // namespace detail

/// Reads a number at the start of text: what to_text() writes, and any decimal of up to 18 digits.
constexpr parsed_float parse_float(std::string_view text) {
  if (!text.empty() && text[0] == '#') return detail::parse_bits(text);
  std::size_t i = !text.empty() && text[0] == '-' ? 1 : 0;
  float const sign = i == 1 ? -1.0F : 1.0F;
  if (text.substr(i, 3) == "inf" && (i + 3 == text.size() || !detail::in_name(text[i + 3])))
    return {sign * std::numeric_limits<float>::infinity(), i + 3};
  detail::decimal d;
  int count = 0;
  bool point = false;
  for (; i < text.size() && (detail::is_digit(text[i]) || (text[i] == '.' && !point)); ++i) {
    if (text[i] == '.') {
      point = true;
      continue;
    }
    if (detail::digit_count(d.digits) >= 18) return {};
    d.digits = d.digits * 10 + static_cast<std::uint64_t>(text[i] - '0');
    if (point) --d.exponent;
    ++count;
  }
  if (count == 0) return {};
  if (i < text.size() && text[i] == 'e') {
    std::size_t j = i + 1;
    bool const negative = j < text.size() && text[j] == '-';
    if (negative) ++j;
    int e = 0;
    if (j == text.size() || !detail::is_digit(text[j])) return {};
    for (; j < text.size() && detail::is_digit(text[j]); ++j)
      if (e < 1000) e = e * 10 + (text[j] - '0');
    d.exponent += negative ? -e : e;
    i = j;
  }
  return {sign * detail::to_float(d), i};
}

}  // namespace sinter::inline SINTER_ABI
