// Aligned storage: what packed weights, scratch and intermediates live in.
//
// A buffer starts on a 64-byte boundary (a cache line, a ZMM register), never throws by itself and tells by data() ==
// nullptr that there was no memory. Its content is undefined until written.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <new>
#include <utility>

#include "../config.hpp"

namespace sinter::inline SINTER_ABI {

inline constexpr std::size_t buffer_alignment = 64;

constexpr std::size_t round_up(std::size_t n, std::size_t multiple) {
  return (n + multiple - 1) / multiple * multiple;
}

class buffer {
 public:
  buffer() = default;
  explicit buffer(std::size_t bytes) : bytes_(bytes) {
    if (bytes > 0)
      data_ = ::operator new(round_up(bytes, buffer_alignment), std::align_val_t{buffer_alignment}, std::nothrow);
  }
  buffer(buffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  buffer& operator=(buffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~buffer() { ::operator delete(data_, std::align_val_t{buffer_alignment}); }

  std::byte* data() noexcept { return static_cast<std::byte*>(data_); }
  std::byte const* data() const noexcept { return static_cast<std::byte const*>(data_); }
  std::size_t size() const noexcept { return bytes_; }
  /// Memory was asked for and not had.
  bool failed() const noexcept { return bytes_ > 0 && data_ == nullptr; }

 private:
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace sinter::inline SINTER_ABI
