// The cache of generated kernels: bounded, least recently used out first, keyed by value, one
// generation per key.
//
// A key is every byte that the code depends on and no dynamic extent; equal keys get the same
// object. Whoever asks for a key that another thread is generating waits for it. A generation that
// fails, by an error or by an exception, leaves no trace: the next caller (or a waiting one) tries
// again. Values are co-owned, so eviction ends no kernel that a program holds. Knows nothing of
// what it stores.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "../base/status.hpp"

namespace sinter::inline SINTER_ABI::jit {

struct cache_counters {
  std::uint64_t hits = 0;       ///< found, ready
  std::uint64_t generated = 0;  ///< made and kept
  std::uint64_t waited = 0;     ///< times that a caller waited for another thread's generation
  std::uint64_t failed = 0;     ///< generations that gave an error or threw
  std::uint64_t evicted = 0;
  std::size_t entries = 0;  ///< ready ones now
};

namespace detail {

/// The cache without the type of its values.
class untyped_cache {
 public:
  using value = std::shared_ptr<void const>;
  using maker = result<value> (*)(void* context);

  explicit untyped_cache(std::size_t capacity) : capacity_(capacity > 0 ? capacity : 1) {}
  untyped_cache(untyped_cache const&) = delete;
  untyped_cache& operator=(untyped_cache const&) = delete;

  result<value> get(std::string const& key, maker make, void* context) {
    {
      std::unique_lock lock(mutex_);
      for (entry* found = find(key); found != nullptr; found = find(key)) {
        if (found->made) {
          ++counters_.hits;
          found->used = ++clock_;
          return found->made;
        }
        ++counters_.waited;
        std::uint32_t const seen = ended_.load();
        lock.unlock();
        ended_.wait(seen);
        lock.lock();
      }
      entries_.push_back({hash_of(key), ++clock_, key, nullptr});
    }
    attempt guard{*this, key};
    result<value> made = make(context);
    if (made) guard.keep(*made);
    return made;
  }

  cache_counters counters() const {
    std::lock_guard const lock(mutex_);
    cache_counters c = counters_;
    c.entries = ready_;
    return c;
  }

  void clear() {
    std::lock_guard const lock(mutex_);
    trim(0);
  }

 private:
  struct entry {
    std::size_t hash;
    std::uint64_t used;  ///< the clock when it was asked for last
    std::string key;
    value made;  ///< null while it is being generated
  };

  /// Takes the entry out again unless something is kept: also on the way of an exception.
  struct attempt {
    untyped_cache& cache;
    std::string const& key;
    bool kept = false;

    void keep(value const& v) {
      std::lock_guard const lock(cache.mutex_);
      entry& at = *cache.find(key);
      at.made = v;
      at.used = ++cache.clock_;
      ++cache.ready_;
      ++cache.counters_.generated;
      cache.trim(cache.capacity_);
      kept = true;
    }
    ~attempt() {
      if (!kept) {
        std::lock_guard const lock(cache.mutex_);
        cache.erase(*cache.find(key));
        ++cache.counters_.failed;
      }
      ++cache.ended_;
      cache.ended_.notify_all();
    }
  };

  static std::size_t hash_of(std::string_view key) { return std::hash<std::string_view>()(key); }
  entry* find(std::string_view key) {
    std::size_t const hash = hash_of(key);
    for (entry& e : entries_)
      if (e.hash == hash && e.key == key) return &e;
    return nullptr;
  }
  void erase(entry& e) {
    std::swap(e, entries_.back());
    entries_.pop_back();
  }
  /// Drops the ready entries that were not asked for the longest until `limit` are left.
  void trim(std::size_t limit) {
    while (ready_ > limit) {
      entry* oldest = nullptr;
      for (entry& e : entries_)
        if (e.made && (oldest == nullptr || e.used < oldest->used)) oldest = &e;
      erase(*oldest);
      --ready_;
      ++counters_.evicted;
    }
  }

  std::size_t const capacity_;
  mutable std::mutex mutex_;
  std::atomic<std::uint32_t> ended_{
      0};                       ///< generations; a condition variable costs an includer 0.1 s
  std::vector<entry> entries_;  ///< in no order: some hundreds, found by their hashes
  std::uint64_t clock_ = 0;
  std::size_t ready_ = 0;
  cache_counters counters_;
};

}  // namespace detail

template <class Value>
class code_cache {
 public:
  using value = std::shared_ptr<Value const>;

  explicit code_cache(std::size_t capacity) : cache_(capacity) {}

  /// The value of `key`; make(), which gives a result<value>, is called without a lock and only if
  /// nobody else made it or is about to. It must not ask this cache for the same key.
  template <class Make>
  result<value> get(std::string const& key, Make const& make) {
    // The context is const again inside.
    auto found = cache_.get(key, &made_by<Make>, const_cast<Make*>(&make));  // NOLINT
    if (!found) return found.error();
    return std::static_pointer_cast<Value const>(*found);
  }

  cache_counters counters() const { return cache_.counters(); }
  /// Forgets every ready entry; the counters stay.
  void clear() { cache_.clear(); }

 private:
  template <class Make>
  static result<detail::untyped_cache::value> made_by(void* make) {
    result<value> made = (*static_cast<Make const*>(make))();
    if (!made) return made.error();
    return detail::untyped_cache::value(*made);
  }

  detail::untyped_cache cache_;
};

}  // namespace sinter::inline SINTER_ABI::jit
