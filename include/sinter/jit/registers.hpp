// Registers on loan: a pool of one class of registers, and leases that give their register back by
// themselves.
//
// A lease is the only way to name a register that somebody else may want too; so no register has
// two meanings at a time. An empty pool is a programming error (the budget below rules it out) and
// ends the process, as an index past the end of an inline_vector does.
#pragma once

#include <bit>
#include <cstdlib>
#include <utility>

#include "accumulator_block.hpp"

namespace sinter::inline SINTER_ABI::jit {

constexpr register_set set_of(int index) { return register_set{1} << index; }
/// Registers first, first + 1, ..., first + count - 1.
constexpr register_set set_of_range(int first, int count) {
  return static_cast<register_set>(((std::uint64_t{1} << count) - 1) << first);
}

class register_pool {
 public:
  constexpr explicit register_pool(register_set free) : free_(free) {}
  register_pool(register_pool const&) = delete;
  register_pool& operator=(register_pool const&) = delete;

  constexpr int count() const noexcept { return std::popcount(free_); }
  constexpr bool has(int index) const noexcept { return (free_ & set_of(index)) != 0; }

  /// The lowest free register. Without one the process ends.
  constexpr int take() {
    if (free_ == 0) std::abort();
    int const index = std::countr_zero(free_);
    free_ &= free_ - 1;
    return index;
  }
  /// This one, which must be free.
  constexpr int take(int index) {
    if (!has(index)) std::abort();
    free_ &= ~set_of(index);
    return index;
  }
  /// Puts a register in, whether it came from here or not. It must not be free already.
  constexpr void give(int index) {
    if (has(index)) std::abort();
    free_ |= set_of(index);
  }

 private:
  register_set free_;
};

/// One register of a pool, given back at the end of the scope.
class register_lease {
 public:
  constexpr explicit register_lease(register_pool& pool) : pool_(&pool), index_(pool.take()) {}
  constexpr register_lease(register_pool& pool, int index)
      : pool_(&pool), index_(pool.take(index)) {}
  constexpr register_lease(register_lease&& other) noexcept
      : pool_(std::exchange(other.pool_, nullptr)), index_(other.index_) {}
  register_lease& operator=(register_lease&&) = delete;
  constexpr ~register_lease() {
    if (pool_ != nullptr) pool_->give(index_);
  }

  constexpr int index() const noexcept { return index_; }

 private:
  register_pool* pool_;
  int index_;
};

}  // namespace sinter::inline SINTER_ABI::jit
