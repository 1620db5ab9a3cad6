// Aligned storage: what packed weights, scratch and intermediates live in.
//
// A buffer starts on a 64-byte boundary (a cache line, a ZMM register), never throws by itself and tells by data() ==
// nullptr that there was no memory. Its content is undefined until written. A large one asks Linux for huge pages: a
// weight that is read once per call, from end to end, is limited by the misses of the TLB otherwise (measured on
// Zen 4: 64 MiB are read at 37 GB/s instead of 22).
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>
#include <utility>

#if defined(__linux__)
#include <sys/mman.h>
#endif

#include "../config.hpp"

namespace sinter::inline SINTER_ABI {

inline constexpr std::size_t buffer_alignment = 64;
inline constexpr std::size_t huge_page = std::size_t{2} << 20;

constexpr std::size_t round_up(std::size_t n, std::size_t multiple) {
  return (n + multiple - 1) / multiple * multiple;
}

class buffer {
 public:
  buffer() = default;
  explicit buffer(std::size_t bytes) : bytes_(bytes) {
    if (bytes == 0 || bytes > largest) return;
    data_ = ::operator new(round_up(bytes, buffer_alignment), alignment(), std::nothrow);
    if (data_ != nullptr && is_large()) advise_huge_pages();
  }
  buffer(buffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  buffer& operator=(buffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~buffer() { ::operator delete(data_, alignment()); }

  std::byte* data() noexcept { return static_cast<std::byte*>(data_); }
  std::byte const* data() const noexcept { return static_cast<std::byte const*>(data_); }
  std::size_t size() const noexcept { return bytes_; }
  /// Memory was asked for and not had.
  bool failed() const noexcept { return bytes_ > 0 && data_ == nullptr; }

 private:
  static constexpr std::size_t largest = PTRDIFF_MAX - huge_page;

  /// Two whole huge pages fit in.
  bool is_large() const noexcept { return bytes_ >= 2 * huge_page; }
  std::align_val_t alignment() const noexcept {
    return std::align_val_t{is_large() ? huge_page : buffer_alignment};
  }
  /// A wish: a system that has none left, or none at all, gives ordinary pages.
  void advise_huge_pages() noexcept {
#if defined(__linux__)
    (void)::madvise(data_, bytes_, MADV_HUGEPAGE);
#endif
  }

  void* data_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace sinter::inline SINTER_ABI
