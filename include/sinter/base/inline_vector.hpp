// A vector and a string of fixed capacity, usable in constant expressions: what plans, chains and shapes are made of.
//
// Both are plain data: no allocation, defaulted ==, trivially copyable where T is. Elements past size() keep their
// value-initialised state, so two equal vectors are equal byte by byte as well. Overflow is a programming error that
// the caller rules out (plan/rules.hpp gives the sentence); here it stops the constant evaluation, or aborts.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <initializer_list>
#include <string_view>

#include "../config.hpp"

namespace sinter::inline SINTER_ABI {

template <class T, std::size_t Capacity>
class inline_vector {
 public:
  using value_type = T;

  constexpr inline_vector() = default;
  constexpr inline_vector(std::initializer_list<T> values) {
    for (T const& v : values) push_back(v);
  }

  static constexpr std::size_t capacity() noexcept { return Capacity; }
  constexpr std::size_t size() const noexcept { return size_; }
  constexpr int ssize() const noexcept { return static_cast<int>(size_); }
  constexpr bool empty() const noexcept { return size_ == 0; }
  constexpr bool full() const noexcept { return size_ == Capacity; }

  constexpr T& operator[](std::size_t i) noexcept { return items_[i]; }
  constexpr T const& operator[](std::size_t i) const noexcept { return items_[i]; }
  constexpr T& operator[](int i) noexcept { return items_[static_cast<std::size_t>(i)]; }
  constexpr T const& operator[](int i) const noexcept {
    return items_[static_cast<std::size_t>(i)];
  }
  constexpr T& back() noexcept { return items_[size_ - 1]; }
  constexpr T const& back() const noexcept { return items_[size_ - 1]; }

  constexpr T* begin() noexcept { return items_; }
  constexpr T* end() noexcept { return items_ + size_; }
  constexpr T const* begin() const noexcept { return items_; }
  constexpr T const* end() const noexcept { return items_ + size_; }
  constexpr T const* data() const noexcept { return items_; }
  constexpr T* data() noexcept { return items_; }

  constexpr void push_back(T const& value) {
    if (size_ >= Capacity) std::abort();
    items_[size_++] = value;
  }
  constexpr void resize(std::size_t n, T const& fill = T{}) {
    if (n > Capacity) std::abort();
    for (std::size_t i = size_; i < n; ++i) items_[i] = fill;
    for (std::size_t i = n; i < size_; ++i) items_[i] = T{};
    size_ = n;
  }
  constexpr void clear() { resize(0); }

  friend constexpr bool operator==(inline_vector const& a, inline_vector const& b) {
    if (a.size_ != b.size_) return false;
    for (std::size_t i = 0; i < a.size_; ++i)
      if (!(a.items_[i] == b.items_[i])) return false;
    return true;
  }

 private:
  std::size_t size_ = 0;
  T items_[Capacity == 0 ? 1 : Capacity]{};
};

/// A string of at most Capacity characters; longer text is cut and ends in "...".
template <std::size_t Capacity>
class inline_string {
 public:
  constexpr inline_string() = default;
  constexpr inline_string(std::string_view text) { append(text); }  // NOLINT: implicit on purpose
  constexpr inline_string(char const* text) : inline_string(std::string_view(text)) {}

  constexpr void append(std::string_view text) {
    for (char c : text) {
      if (size_ == Capacity) {
        for (std::size_t i = 0; i < 3 && i < Capacity; ++i) chars_[Capacity - 1 - i] = '.';
        return;
      }
      chars_[size_++] = c;
    }
  }
  constexpr void append_number(long long value) {
    char digits[20]{};
    int count = 0;
    bool const negative = value < 0;
    do {
      auto const digit = static_cast<int>(value % 10);
      digits[count++] = static_cast<char>('0' + (digit < 0 ? -digit : digit));
      value /= 10;
    } while (value != 0);
    if (negative) append("-");
    while (count > 0) append(std::string_view(&digits[--count], 1));
  }

  constexpr std::string_view view() const noexcept { return {chars_, size_}; }
  constexpr operator std::string_view() const noexcept {
    return view();
  }  // NOLINT: implicit on purpose
  constexpr bool empty() const noexcept { return size_ == 0; }
  constexpr std::size_t size() const noexcept { return size_; }

  friend constexpr bool operator==(inline_string const& a, inline_string const& b) {
    return a.view() == b.view();
  }
  friend constexpr bool operator==(inline_string const& a, std::string_view b) {
    return a.view() == b;
  }
  friend constexpr bool operator==(inline_string const& a, char const* b) {
    return a.view() == std::string_view(b);
  }

 private:
  std::size_t size_ = 0;
  char chars_[Capacity + 1]{};
};

}  // namespace sinter::inline SINTER_ABI
