// The cache of generated kernels: bounded, least recently used out first, keyed by value, one
// generation per key.
//
// A key is every byte that the code depends on and no dynamic extent; equal keys get the same
// object. Whoever asks for a key that another thread is generating waits for it. A generation that
// fails, by an error or by an exception, leaves no trace: the next caller (or a waiting one) tries
// again. Values are co-owned, so eviction ends no kernel that a program holds. Knows nothing of
// what it stores.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>

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

template <class Value>
class code_cache {
 public:
  using value = std::shared_ptr<Value const>;

  explicit code_cache(std::size_t capacity) : capacity_(capacity > 0 ? capacity : 1) {}
  code_cache(code_cache const&) = delete;
  code_cache& operator=(code_cache const&) = delete;

  /// The value of `key`; make(), which gives a result<value>, is called without a lock and only if
  /// nobody else made it or is about to. It must not ask this cache for the same key.
  template <class Make>
  result<value> get(std::string const& key, Make&& make) {
    {
      std::unique_lock lock(mutex_);
      for (auto found = index_.find(key); found != index_.end(); found = index_.find(key)) {
        if (found->second->made) {
          ++counters_.hits;
          entries_.splice(entries_.begin(), entries_, found->second);
          return found->second->made;
        }
        ++counters_.waited;
        changed_.wait(lock);
      }
      entries_.push_front({key, nullptr});
      index_.emplace(key, entries_.begin());
    }
    attempt guard{*this, key};
    result<value> made = std::forward<Make>(make)();
    if (made) guard.keep(*made);
    return made;
  }

  cache_counters counters() const {
    std::lock_guard const lock(mutex_);
    cache_counters c = counters_;
    c.entries = ready_;
    return c;
  }

  /// Forgets every ready entry; the counters stay.
  void clear() {
    std::lock_guard const lock(mutex_);
    trim(0);
  }

 private:
  struct entry {
    std::string key;
    value made;  ///< null while it is being generated
  };

  /// Takes the entry out again unless something is kept: also on the way of an exception.
  struct attempt {
    code_cache& cache;
    std::string const& key;
    bool kept = false;

    void keep(value const& v) {
      std::lock_guard const lock(cache.mutex_);
      auto const at = cache.index_.find(key)->second;
      at->made = v;
      cache.entries_.splice(cache.entries_.begin(), cache.entries_, at);
      ++cache.ready_;
      ++cache.counters_.generated;
      cache.trim(cache.capacity_);
      kept = true;
    }
    ~attempt() {
      if (!kept) {
        std::lock_guard const lock(cache.mutex_);
        auto const at = cache.index_.find(key);
        cache.entries_.erase(at->second);
        cache.index_.erase(at);
        ++cache.counters_.failed;
      }
      cache.changed_.notify_all();
    }
  };

  /// Drops ready entries from the old end until `limit` are left.
  void trim(std::size_t limit) {
    for (auto it = entries_.end(); ready_ > limit && it != entries_.begin();) {
      --it;
      if (!it->made) continue;
      index_.erase(it->key);
      it = entries_.erase(it);
      --ready_;
      ++counters_.evicted;
    }
  }

  std::size_t const capacity_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::list<entry> entries_;  ///< the most recently used first
  std::unordered_map<std::string, typename std::list<entry>::iterator> index_;
  std::size_t ready_ = 0;
  cache_counters counters_;
};

}  // namespace sinter::inline SINTER_ABI::jit
