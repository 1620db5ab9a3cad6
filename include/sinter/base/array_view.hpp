// A view of elements in a row: pointer and number, nothing owned.
//
// What std::span would be, without its constructors' ranges concepts: those cost every file that has the backends in it
// a tenth of its compile time (./run bench compile_time). Anything with data() and size(), std::span too, converts.
#pragma once

#include <cstddef>

#include "../config.hpp"

namespace sinter::inline SINTER_ABI {

template <class T>
class array_view {
 public:
  constexpr array_view() : data_(nullptr), size_(0) {}
  constexpr array_view(T* data, std::size_t size) : data_(data), size_(size) {}
  template <std::size_t N>
  constexpr array_view(T (&array)[N]) : data_(array), size_(N) {}  // NOLINT: implicit on purpose
  template <class Container>
  requires requires(Container& given) { static_cast<T*>(given.data()); }
  constexpr array_view(Container&& given)  // NOLINT: implicit on purpose
      : data_(given.data()), size_(given.size()) {}

  constexpr T* data() const noexcept { return data_; }
  constexpr std::size_t size() const noexcept { return size_; }
  constexpr bool empty() const noexcept { return size_ == 0; }
  constexpr T* begin() const noexcept { return data_; }
  constexpr T* end() const noexcept { return data_ + size_; }
  constexpr T& operator[](std::size_t i) const { return data_[i]; }
  constexpr T& back() const { return data_[size_ - 1]; }
  constexpr array_view first(std::size_t count) const { return {data_, count}; }

 private:
  T* data_;
  std::size_t size_;
};

}  // namespace sinter::inline SINTER_ABI
