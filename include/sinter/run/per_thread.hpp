// One state per program and thread, found without a lock: what makes an unbound call safe from any thread.
//
// The program owns the states; a table of the thread says which is its own. A state is freed when the program dies or
// when the thread ends, whichever comes first; the thread's entry of a dead program goes at its next add(). Programs
// are known by a number that is never used again, so a dead program is never taken for one at the same address.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "../config.hpp"

namespace sinter::inline SINTER_ABI {

template <class State>
class per_thread {
 public:
  per_thread() : id_(next_id()), owned_(std::make_shared<owned_states>()) {}
  per_thread(per_thread const&) = delete;
  per_thread& operator=(per_thread const&) = delete;

  /// The calling thread's state, or null.
  State* find() const noexcept {
    table* const mine = thread_table();
    if (mine == nullptr) return nullptr;
    auto const at = mine->lower_bound(id_);
    return at != mine->entries.end() && at->id == id_ ? at->state : nullptr;
  }

  /// Gives the calling thread its state; only where find() has none.
  State& add(std::unique_ptr<State> state) const {
    State& added = *state;
    {
      std::lock_guard const lock(owned_->guard);
      owned_->states.push_back(std::move(state));
    }
    // A thread that is already past its table (in the destructor of another thread_local) is not entered anywhere:
    // its state lives as long as the program.
    if (table* const mine = thread_table()) {
      std::erase_if(mine->entries, [](entry const& e) { return e.owner.expired(); });
      mine->entries.insert(mine->lower_bound(id_), {id_, &added, owned_});
    }
    return added;
  }

  /// States that are alive, of all threads.
  std::size_t size() const {
    std::lock_guard const lock(owned_->guard);
    return owned_->states.size();
  }

 private:
  struct owned_states {
    std::mutex guard;
    std::vector<std::unique_ptr<State>> states;

    void drop(State const* state) {
      std::lock_guard const lock(guard);
      std::erase_if(states, [state](auto const& owned) { return owned.get() == state; });
    }
  };
  struct entry {
    std::uint64_t id;
    State* state;
    std::weak_ptr<owned_states> owner;
  };
  struct table {
    std::vector<entry> entries;  ///< by id
    bool* gone;

    explicit table(bool* flag) : gone(flag) {}
    table(table const&) = delete;
    table& operator=(table const&) = delete;
    ~table() {
      *gone = true;
      for (entry const& e : entries)
        if (auto const owner = e.owner.lock()) owner->drop(e.state);
    }
    auto lower_bound(std::uint64_t id) {
      return std::lower_bound(entries.begin(), entries.end(), id,
                              [](entry const& e, std::uint64_t wanted) { return e.id < wanted; });
    }
  };

  static std::uint64_t next_id() {
    static std::atomic<std::uint64_t> last{0};
    return ++last;
  }
  static table* thread_table() noexcept {
    thread_local bool gone = false;
    if (gone) return nullptr;
    thread_local table mine(&gone);
    return &mine;
  }

  std::uint64_t id_;
  std::shared_ptr<owned_states> owned_;
};

}  // namespace sinter::inline SINTER_ABI
