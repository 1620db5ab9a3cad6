// A compiled program without any expression type: what compile(), pack(), bind() and call come down to.
//
//   program_core  immutable, shared by threads: the groups, a kernel for each, the plan of the arena
//   packed        weights in the layouts of the kernels that they were packed for; immutable, co-owned, shareable
//   bound         one thread's call with everything validated: operator() costs one indirect call
//
// Operands are known by name. Everything is validated before anything is written; a sentence says what does not fit.
// Declarations only: the definitions are in run/program_core_impl.hpp, which backends.hpp includes.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "../backend/backend.hpp"
#include "../base/array_view.hpp"
#include "../expr/node.hpp"
#include "../plan/chain.hpp"
#include "options.hpp"

namespace sinter::inline SINTER_ABI {

/// What compile() is told of an operand or an output. No dims: they follow from the others (an output's always do, and
/// may be left away). No strides: dense. No dtype: the chain's.
struct named_desc {
  name_text name;
  shape dims;
  sinter::strides strides;
  std::optional<dtype> type;
};
struct named_view {
  std::string_view name;
  tensor_view view;
};
struct named_output {
  std::string_view name;
  output_view view;
};

class program_core;

namespace detail {
struct program_plan;
struct call_state;
code run_all(call_state* state) noexcept;
}  // namespace detail

/// Packed weights by name. A copy shares them. Empty by default.
class packed {
 public:
  struct entry {
    name_text name;
    std::vector<packed_weight> layouts;  ///< one per layout key that the program's kernels want
  };

  packed() = default;
  explicit packed(std::vector<entry> entries)
      : entries_(
            std::shared_ptr<std::vector<entry> const>(new std::vector<entry>(std::move(entries)))) {
  }

  array_view<entry const> entries() const noexcept {
    return entries_ ? array_view<entry const>(*entries_) : array_view<entry const>();
  }
  entry const* find(std::string_view name) const noexcept {
    for (entry const& e : entries())
      if (e.name == name) return &e;
    return nullptr;
  }

 private:
  std::shared_ptr<std::vector<entry> const> entries_;
};

/// A call with its operands. Serves one thread at a time; may outlive the program that made it. The memory behind the
/// views must live as long as it is called.
class bound {
 public:
  bound(bound&&) noexcept;
  bound& operator=(bound&&) noexcept;
  ~bound();

  /// Computes the outputs. Raises where a library underneath fails.
  void operator()() {
    if (code const c = run(); c != code::ok) [[unlikely]]
      failed(c);
  }
  /// The same without an exception: code::ok, or what failed.
  code run() noexcept { return only_ != nullptr ? only_->run() : detail::run_all(state_.get()); }

  /// Swaps the pointer of an operand or an output: `call.repoint(x = p)`, also where p is a view. Null and misaligned
  /// pointers, another dtype and, of a view, other extents and strides are refused; nothing else is checked again, and
  /// that outputs overlap nothing is now the caller's promise. A view without extents has those that were bound.
  template <class Name, class Void>
  status repoint(binding<Name, Void> const& given) {
    return repoint(Name::view, given.view);
  }
  status repoint(std::string_view name, tensor_view const& view);
  status repoint(std::string_view name, output_view const& view);
  /// The same with the dtype that was bound. Pointers to const are for operands only.
  status repoint(std::string_view name, void const* data);
  status repoint(std::string_view name, void* data);

 private:
  friend class program_core;
  explicit bound(std::unique_ptr<detail::call_state> state) noexcept;
  [[noreturn]] void failed(code c) const;

  invocation* only_ = nullptr;  ///< the one thing to run, where there is just one
  std::unique_ptr<detail::call_state> state_;
};

class program_core {
 public:
  using views = array_view<named_view const>;
  using outputs = array_view<named_output const>;
  using packs = array_view<packed const* const>;

  explicit program_core(std::shared_ptr<detail::program_plan const> plan);
  ~program_core();
  program_core(program_core const&) = delete;
  program_core& operator=(program_core const&) = delete;

  /// Groups of the plan, and kernels that run: more where a group was split.
  int group_count() const noexcept;
  int kernel_count() const noexcept;
  /// For people: the plan, what was chosen and why, what was refused and why.
  std::string explain() const;
  /// Description of an operand or output as compiled; a sentence for a name that the program does not have.
  result<tensor_desc> describe(std::string_view name) const;

  /// Packs some or all of the weights, from any strides, in f32 (rounded to nearest even) or the chain's weight dtype.
  result<packed> pack(views weights) const;
  /// Validates everything once. Every operand exactly once: weights in one of the packs, all others as a view.
  result<bound> bind(views operands, packs weights, outputs results) const;
  /// One call, from any thread. Validates like bind(); allocates at the thread's first call only, and where dynamic
  /// extents grow beyond those of the thread's earlier calls.
  status run(views operands, packs weights, outputs results) const;
  /// Allocates what the calling thread's first call would.
  status warm_up() const;

 private:
  struct calls;
  std::shared_ptr<detail::program_plan const> plan_;
  std::unique_ptr<calls> calls_;
};

/// Compiles groups, each after those that it reads. Operands and outputs with internal == true are joined by name;
/// the others belong to the user. `given` may describe operands and outputs of the user.
result<std::shared_ptr<program_core const>> make_program(array_view<chain const> groups,
                                                         array_view<named_desc const> given,
                                                         options const& chosen = {});
/// The same with other backends than those of this build, in order of preference.
result<std::shared_ptr<program_core const>> make_program(array_view<chain const> groups,
                                                         array_view<named_desc const> given,
                                                         options const& chosen,
                                                         array_view<backend const* const> backends);

/// What the process has done so far.
struct counters {
  std::uint64_t programs = 0;  ///< compiled
  std::uint64_t kernels = 0;   ///< built, one per group
  std::uint64_t packs = 0;     ///< weights brought into a layout
  std::uint64_t states = 0;    ///< call states made: one per bind and one per program and thread
};
counters read_counters() noexcept;

}  // namespace sinter::inline SINTER_ABI
