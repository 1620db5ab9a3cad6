// One state per program and thread, found without a lock: what makes an unbound call safe from any thread.
//
// The program owns the states; a table of the thread says which is its own. A state is freed when the program dies or
// when the thread ends, whichever comes first; the thread's entry of a dead program goes at its next add(). Programs
// are known by a number that is never used again, so a dead program is never taken for one at the same address.
#pragma once

#include <atomic>
#include <cstddef>
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
  per_thread() : id_(next_id()), owned_(std::shared_ptr<owned_states>(new owned_states())) {}
  per_thread(per_thread const&) = delete;
  per_thread& operator=(per_thread const&) = delete;

  /// The calling thread's state, or null.
  State* find() const noexcept {
    table* const mine = thread_table();
    if (mine == nullptr) return nullptr;
    std::size_t const at = mine->lower_bound(id_);
    return at < mine->entries.size() && mine->entries[at].id == id_ ? mine->entries[at].state
                                                                    : nullptr;
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
      mine->forget_dead();
      mine->enter({id_, &added, owned_});
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
      for (auto& owned : states)
        if (owned.get() == state) {
          std::swap(owned, states.back());
          states.pop_back();
          return;
        }
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
    /// Index of the first entry that is not before `id`.
    std::size_t lower_bound(std::uint64_t id) const {
      std::size_t first = 0, count = entries.size();
      while (count > 0) {
        std::size_t const half = count / 2;
        bool const before = entries[first + half].id < id;
        first = before ? first + half + 1 : first;
        count = before ? count - half - 1 : half;
      }
      return first;
    }
    void enter(entry e) {
      entries.push_back(std::move(e));
      for (std::size_t i = entries.size() - 1; i > 0 && entries[i].id < entries[i - 1].id; --i)
        std::swap(entries[i], entries[i - 1]);
    }
    void forget_dead() {
      std::size_t alive = 0;
      for (entry& e : entries)
        if (!e.owner.expired()) std::swap(entries[alive++], e);
      while (entries.size() > alive) entries.pop_back();
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
