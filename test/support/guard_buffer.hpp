// Memory that faults when it is read or written outside: the only net under machine code made at
// run time.
//
// Data lies flush before an unreadable page, flush after one, or one element behind one (so that a
// bf16 pointer is aligned to 2 bytes only). The rest of the pages holds a canary byte that intact()
// checks.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace sinter_test {

enum class placement : unsigned char {
  end,      ///< the last byte is the last one before the guard page
  start,    ///< the first byte is the first one after the guard page
  shifted,  ///< as start, one element later
};
inline constexpr placement all_placements[] = {placement::end, placement::start,
                                               placement::shifted};

class guard_buffer {
 public:
  static constexpr unsigned char canary = 0xA5;

  guard_buffer() = default;
  /// `element` is the size of one element: bytes is a multiple of it.
  guard_buffer(std::size_t bytes, placement where, std::size_t element = 1) : bytes_(bytes) {
    page_ = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    std::size_t const shift = where == placement::shifted ? element : 0;
    inner_ = (bytes + shift + page_ - 1) / page_ * page_;
    if (inner_ == 0) inner_ = page_;
    void* const map =
        mmap(nullptr, inner_ + 2 * page_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED ||
        mprotect(static_cast<std::byte*>(map) + page_, inner_, PROT_READ | PROT_WRITE) != 0) {
      std::perror("guard_buffer");
      std::abort();
    }
    map_ = static_cast<std::byte*>(map);
    std::memset(first(), canary, inner_);
    data_ = where == placement::end ? first() + inner_ - bytes : first() + shift;
  }
  guard_buffer(guard_buffer&& other) noexcept { swap(other); }
  guard_buffer& operator=(guard_buffer&& other) noexcept {
    swap(other);
    return *this;
  }
  ~guard_buffer() {
    if (map_ != nullptr) munmap(map_, inner_ + 2 * page_);
  }

  std::byte* data() noexcept { return data_; }
  std::byte const* data() const noexcept { return data_; }
  std::size_t size() const noexcept { return bytes_; }

  /// Nothing was written beside the data.
  bool intact() const noexcept {
    for (std::byte const* p = first(); p != first() + inner_; ++p) {
      if (p == data_) p += bytes_;
      if (p == first() + inner_) break;
      if (*p != std::byte{canary}) return false;
    }
    return true;
  }

 private:
  std::byte* first() const noexcept { return map_ + page_; }
  void swap(guard_buffer& other) noexcept {
    std::swap(map_, other.map_);
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    std::swap(inner_, other.inner_);
    std::swap(page_, other.page_);
  }

  std::byte* map_ = nullptr;
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0, inner_ = 0, page_ = 0;
};

}  // namespace sinter_test
