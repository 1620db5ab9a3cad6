// The operators that count. In a file of their own, since a compiler that inlines new beside delete calls malloc and
// free a mismatch.
#include "counting_new.hpp"

#include <dlfcn.h>
#include <execinfo.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <new>

namespace {
std::atomic<long> allocations{0};
std::atomic<long> dnnl_allocations{0};

/// Is this call made inside oneDNN's shared library, by itself or through the standard library?
bool is_from_dnnl() {
  void* frames[32];
  int const count = backtrace(frames, 32);
  for (int i = 0; i < count; ++i) {
    Dl_info info{};
    if (dladdr(frames[i], &info) != 0 && info.dli_fname != nullptr &&
        std::strstr(info.dli_fname, "libdnnl") != nullptr)
      return true;
  }
  return false;
}

void* counted(std::size_t bytes, std::size_t alignment) {
  thread_local bool counting = false;  // should backtrace() allocate, that is not counted
  if (!counting) {
    counting = true;
    ++(is_from_dnnl() ? dnnl_allocations : allocations);
    counting = false;
  }
  void* const p = std::aligned_alloc(alignment, (bytes + alignment) / alignment * alignment);
  if (p == nullptr) std::abort();
  return p;
}
constexpr std::size_t usual = 16;
std::size_t number(std::align_val_t a) { return static_cast<std::size_t>(a); }
}  // namespace

long allocation_count() { return allocations; }
long dnnl_allocation_count() { return dnnl_allocations; }

void* operator new(std::size_t n) { return counted(n, usual); }
void* operator new[](std::size_t n) { return counted(n, usual); }
void* operator new(std::size_t n, std::nothrow_t const&) noexcept { return counted(n, usual); }
void* operator new[](std::size_t n, std::nothrow_t const&) noexcept { return counted(n, usual); }
void* operator new(std::size_t n, std::align_val_t a) { return counted(n, number(a)); }
void* operator new[](std::size_t n, std::align_val_t a) { return counted(n, number(a)); }
void* operator new(std::size_t n, std::align_val_t a, std::nothrow_t const&) noexcept {
  return counted(n, number(a));
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete[](void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }
void operator delete[](void* p, std::size_t) noexcept { std::free(p); }
void operator delete(void* p, std::nothrow_t const&) noexcept { std::free(p); }
void operator delete[](void* p, std::nothrow_t const&) noexcept { std::free(p); }
void operator delete(void* p, std::align_val_t) noexcept { std::free(p); }
void operator delete[](void* p, std::align_val_t) noexcept { std::free(p); }
void operator delete(void* p, std::size_t, std::align_val_t) noexcept { std::free(p); }
void operator delete[](void* p, std::size_t, std::align_val_t) noexcept { std::free(p); }
void operator delete(void* p, std::align_val_t, std::nothrow_t const&) noexcept { std::free(p); }
