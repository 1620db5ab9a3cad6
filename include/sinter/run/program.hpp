// compile() and what it gives back: the thin typed front of run/program_core.hpp.
//
//   auto kernel = sinter::compile<sinter::bf16>(chain, x.dims(1, 56, 56, 64), w.dims(64, 3, 3, 64));
//   auto packed = kernel.pack(w = filter);
//   kernel(x = image, packed, b = bias, r = skip, sinter::out = result);
//
// Its templates check names: an operand that is unknown, bound twice or not at all does not compile, and the message
// says which. Everything about values (pointers, dtypes, extents, strides, overlap) is checked when it runs.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "../plan/partition.hpp"
#include "signature.hpp"

namespace sinter::inline SINTER_ABI {

/// Weights of the names listed, packed for a program. Immutable; copies share the storage; may be used by several
/// threads, and by every program whose kernels want the same layout.
template <class... Names>
class packed_weights {
 public:
  using names = name_list<Names...>;
  explicit packed_weights(packed held) : held_(std::move(held)) {}
  packed const& held() const noexcept { return held_; }

 private:
  packed held_;
};

namespace detail {
template <class... Names>
struct named_by<packed_weights<Names...>> {
  using views = name_list<>;
  using packs = name_list<Names...>;
  using outputs = name_list<>;
};
}  // namespace detail

/// A compiled chain. Immutable, cheap to copy, may be called by several threads at once.
template <class Signature>
class program {
 public:
  explicit program(std::shared_ptr<program_core const> core) : core_(std::move(core)) {}

  /// Packs some or all of the weights: `pack(w = filter)`. From any strides, in f32 (rounded to nearest even) or in the
  /// precision's weight dtype. Later changes of the source are not seen.
  template <class... Names>
  packed_weights<Names...> pack(binding<Names, void const> const&... weights) const {
    return std::move(try_pack(weights...).value());
  }
  template <class... Names>
  result<packed_weights<Names...>> try_pack(binding<Names, void const> const&... weights) const {
    static_assert(detail::check_pack<Signature, Names...>());
    std::vector<named_view> const views{{Names::view, weights.view}...};
    result<packed> made = core_->pack(views);
    if (!made.ok()) return made.error();
    return packed_weights<Names...>(std::move(made.value()));
  }

  /// One call: each operand once, as `x = view` or inside packed weights, and each output, in any order. Allocates at
  /// the first call of a thread only.
  template <class... Arguments>
  void operator()(Arguments const&... arguments) const {
    try_call(arguments...).check();
  }
  template <class... Arguments>
  status try_call(Arguments const&... arguments) const {
    detail::call_operands<Signature, Arguments...> const operands(arguments...);
    return core_->run(operands.views(), operands.packs(), operands.outputs());
  }

  /// The same, validated once: the result is called without arguments, by one thread at a time.
  template <class... Arguments>
  bound bind(Arguments const&... arguments) const {
    return std::move(try_bind(arguments...).value());
  }
  template <class... Arguments>
  result<bound> try_bind(Arguments const&... arguments) const {
    detail::call_operands<Signature, Arguments...> const operands(arguments...);
    return core_->bind(operands.views(), operands.packs(), operands.outputs());
  }

  /// Allocates now what this thread's first call would.
  void warm_up() const { core_->warm_up().check(); }

  int group_count() const noexcept { return core_->group_count(); }
  /// Kernels that run; more than group_count() where a group was split.
  int kernel_count() const noexcept { return core_->kernel_count(); }
  /// The plan, the backend of each group with its implementation, and every refusal with its reason.
  std::string explain() const { return core_->explain(); }
  program_core const& core() const noexcept { return *core_; }

 private:
  std::shared_ptr<program_core const> core_;
};

template <class E>
using program_for = program<signature_of<E>>;

namespace detail {

inline void take(options& chosen, std::vector<named_desc>&, options const& given) {
  chosen = given;
}
template <class Name>
void take(options&, std::vector<named_desc>& described_operands, described<Name> const& d) {
  described_operands.push_back({Name::view, d.dims, d.strided ? d.strides : strides{}, d.type});
}

/// The groups of an expression, or the sentence of the rule that its numbers break.
template <class E>
result<std::vector<chain>> groups_of(E const& e, precision const& dtypes) {
  plan<graph_size_of<E>> const cut(flatten(e), dtypes);
  if (cut.broken() != fault::none)
    return failure{code::bad_argument, std::string(sentence_of(cut.broken()))};
  std::vector<chain> groups;
  for (int i = 0; i < cut.group_count(); ++i) groups.push_back(cut.group(i));
  return groups;
}

template <precision Precision, class E>
result<std::shared_ptr<program_core const>> compile_groups(E const& e,
                                                           std::vector<named_desc> const& given,
                                                           options const& chosen) {
  auto groups = groups_of(e, Precision);
  if (!groups) return groups.error();
  return make_program(*groups, given, chosen);
}

}  // namespace detail

/// Compiles an expression for a precision and for the extents of its operands:
///   compile<bf16>(expr, x.dims(1, 56, 56, 64), w.dims(64, 3, 3, 64), options{.on_fallback = policy::error})
/// Extents are wanted for the operands of contractions that have none in their types; other operands follow, unless
/// they broadcast or have strides of their own: `r.dims(1, 64)`, `x.like(view)`, `x.dims(...).channels_first()`.
template <precision Precision, chain_expression E, class... Arguments>
result<program_for<E>> try_compile(E const& e, Arguments const&... arguments) {
  constexpr bool structure_holds = (require_no_fault(structure_fault<E>), true);
  static_assert(structure_holds && detail::check_compile<signature_of<E>, Arguments...>());
  options chosen;
  std::vector<named_desc> given;
  (detail::take(chosen, given, arguments), ...);
  auto core = detail::compile_groups<Precision>(e, given, chosen);
  if (!core.ok()) return core.error();
  return program_for<E>(std::move(core.value()));
}
template <precision Precision, chain_expression E, class... Arguments>
program_for<E> compile(E const& e, Arguments const&... arguments) {
  return std::move(try_compile<Precision>(e, arguments...).value());
}

}  // namespace sinter::inline SINTER_ABI
