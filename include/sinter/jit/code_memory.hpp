// Executable memory: regions that many kernels share, never writable and executable at once.
//
// A kernel is added by building the whole region anew in fresh writable pages, closing them (read +
// execute) and moving them over the old ones in one system call. No page is ever both writable and
// executable, none is writable by another address, and code that runs in the region meanwhile goes
// on: its bytes are the same before and after, and an access in between waits in the kernel. Pages
// are private and anonymous, so fork() is no special case and perf's map works. One region is one
// mapping; the last kernel of a region takes the mapping with it. Whoever holds a machine_code owns
// its bytes: neither eviction from a cache nor the end of static storage takes code away that may
// run. Read jit/code_cache.hpp next.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "../base/array_view.hpp"
#include "../base/status.hpp"
#include "../core/buffer.hpp"
#include "code_notes.hpp"

#if !defined(__linux__) || !defined(__x86_64__)
#error "sinter: the JIT backend is written for Linux on x86-64; build with SINTER_WITH_JIT=0"
#endif

namespace sinter::inline SINTER_ABI::jit {

class code_memory;

/// One kernel's code, executable. Co-owned by everyone who may run it.
class machine_code {
 public:
  machine_code(std::shared_ptr<code_memory> owner, std::byte const* entry, std::size_t bytes)
      : owner_(std::move(owner)), entry_(entry), bytes_(bytes) {}
  machine_code(machine_code const&) = delete;
  machine_code& operator=(machine_code const&) = delete;
  ~machine_code();

  array_view<std::byte const> bytes() const noexcept { return {entry_, bytes_}; }
  /// The entry as a function pointer: code.entry<void (*)(args const*)>().
  template <class F>
  F entry() const noexcept {
    return reinterpret_cast<F>(reinterpret_cast<std::uintptr_t>(entry_));
  }

 private:
  std::shared_ptr<code_memory> owner_;
  std::byte const* entry_;
  std::size_t bytes_;
};

class code_memory : public std::enable_shared_from_this<code_memory> {
 public:
  static constexpr std::size_t region_bytes = 128 * 1024;

  /// A memory of its own (tests); everything else uses process().
  static std::shared_ptr<code_memory> create() {
    return std::shared_ptr<code_memory>(new code_memory);
  }
  static code_memory& process() {
    static std::shared_ptr<code_memory> const memory = create();
    return *memory;
  }

  code_memory(code_memory const&) = delete;
  code_memory& operator=(code_memory const&) = delete;

  /// May this process make code executable? Tried once, with a page of its own.
  static verdict const& allowed() {
    static verdict const answer = probe();
    return answer;
  }

  /// Copies `code` (position independent, at most a region) to executable memory. `name` is what
  /// dumps and profiles call it (jit/code_notes.hpp).
  result<std::shared_ptr<machine_code const>> publish(array_view<std::byte const> code,
                                                      std::string_view name = "kernel") {
    auto placed = add(code);
    if (placed) note_code(name, (*placed)->bytes());
    return placed;
  }

  struct usage {
    std::size_t regions = 0;
    std::size_t bytes = 0;  ///< of code, rounded up to cache lines
  };
  usage used() const {
    std::lock_guard const lock(mutex_);
    usage u{regions_.size(), 0};
    for (region const& r : regions_) {
      u.bytes += region_bytes;
      for (hole const& h : r.holes) u.bytes -= h.bytes;
    }
    return u;
  }

 private:
  friend class machine_code;
  static constexpr std::size_t granule = 64;
  static constexpr int breakpoint = 0xcc;  ///< fills what is no kernel

  struct hole {
    std::size_t offset, bytes;
  };
  struct region {
    std::byte* base;  ///< null until the first kernel is placed
    std::vector<hole>
        holes;  ///< sorted by offset, never adjacent; has room for one more than there are kernels
    std::size_t kernels = 0;
  };

  code_memory() = default;

  static failure refused(char const* call, int error) {
    return {error == ENOMEM ? code::out_of_memory : code::unsupported,
            "sinter: this host gives no executable memory (" + std::string(call) + ": " +
                std::generic_category().message(error) + "), so no code can be generated"};
  }

  static verdict probe() {
    auto const page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    void* const p = mmap(nullptr, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) return verdict::no(refused("mmap", errno).message);
    std::memset(p, breakpoint, page);
    int const error = mprotect(p, page, PROT_READ | PROT_EXEC) == 0 ? 0 : errno;
    munmap(p, page);
    return error == 0 ? verdict::yes() : verdict::no(refused("mprotect", error).message);
  }

  result<std::shared_ptr<machine_code const>> add(array_view<std::byte const> code) {
    std::size_t const bytes = round_up(code.size() > 0 ? code.size() : 1, granule);
    if (bytes > region_bytes)
      return failure{code::unsupported, "sinter: a kernel of " + std::to_string(code.size()) +
                                            " bytes is larger than a region of executable memory"};
    std::lock_guard const lock(mutex_);
    for (region& r : regions_)
      for (std::size_t i = 0; i < r.holes.size(); ++i)
        if (r.holes[i].bytes >= bytes) return place(r, i, bytes, code);
    regions_.push_back({nullptr, {{0, region_bytes}}, 0});
    auto placed = place(regions_.back(), 0, bytes, code);
    if (!placed) regions_.pop_back();
    return placed;
  }

  /// Rebuilds the region with `code` in the hole. On failure everything is as before.
  result<std::shared_ptr<machine_code const>> place(region& r, std::size_t index, std::size_t bytes,
                                                    array_view<std::byte const> code) {
    std::size_t const offset = r.holes[index].offset;
    r.holes.reserve(r.kernels + 2);  // so that release() allocates nothing
    void* const fresh =
        mmap(nullptr, region_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (fresh == MAP_FAILED) return refused("mmap", errno);
    auto* const to = static_cast<std::byte*>(fresh);
    std::size_t from = 0;  // between holes: kernels
    for (hole const& h : r.holes) {
      if (h.offset > from) std::memcpy(to + from, r.base + from, h.offset - from);
      from = h.offset + h.bytes;
      // The last hole's pages stay untouched, so that they cost nothing.
      if (from < region_bytes) std::memset(to + h.offset, breakpoint, h.bytes);
    }
    if (from < region_bytes) std::memcpy(to + from, r.base + from, region_bytes - from);
    std::memset(to + offset, breakpoint, bytes);
    if (!code.empty()) std::memcpy(to + offset, code.data(), code.size());

    char const* call = "mprotect";
    bool done = mprotect(fresh, region_bytes, PROT_READ | PROT_EXEC) == 0;
    if (done && r.base != nullptr) {
      call = "mremap";
      done = mremap(fresh, region_bytes, region_bytes, MREMAP_MAYMOVE | MREMAP_FIXED, r.base) !=
             MAP_FAILED;
    }
    if (!done) {
      failure const why = refused(call, errno);
      munmap(fresh, region_bytes);
      return why;
    }
    if (r.base == nullptr) r.base = to;
    auto made = std::shared_ptr<machine_code const>(
        new machine_code(shared_from_this(), r.base + offset, code.size()));
    ++r.kernels;
    hole& h = r.holes[index];
    h.offset += bytes;
    h.bytes -= bytes;
    if (h.bytes == 0) r.holes.erase(r.holes.begin() + static_cast<std::ptrdiff_t>(index));
    return made;
  }

  void release(std::byte const* entry, std::size_t size) noexcept {
    std::size_t const bytes = round_up(size > 0 ? size : 1, granule);
    std::lock_guard const lock(mutex_);
    for (std::size_t i = 0; i < regions_.size(); ++i) {
      region& r = regions_[i];
      if (entry < r.base || entry >= r.base + region_bytes) continue;
      auto const offset = static_cast<std::size_t>(entry - r.base);
      auto next = r.holes.begin();
      while (next != r.holes.end() && next->offset < offset) ++next;
      auto at = r.holes.insert(next, {offset, bytes});
      --r.kernels;
      if (at + 1 != r.holes.end() && at->offset + at->bytes == (at + 1)->offset) {
        at->bytes += (at + 1)->bytes;
        r.holes.erase(at + 1);
      }
      if (at != r.holes.begin() && (at - 1)->offset + (at - 1)->bytes == at->offset) {
        (at - 1)->bytes += at->bytes;
        r.holes.erase(at);
      }
      if (r.holes.size() == 1 && r.holes[0].bytes == region_bytes) {
        munmap(r.base, region_bytes);
        regions_.erase(regions_.begin() + static_cast<std::ptrdiff_t>(i));
      }
      return;
    }
  }

  mutable std::mutex mutex_;
  std::vector<region> regions_;
};

inline machine_code::~machine_code() { owner_->release(entry_, bytes_); }

}  // namespace sinter::inline SINTER_ABI::jit
