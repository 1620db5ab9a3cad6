// Definitions of run/program_core.hpp: pack, bind, call, explain. Included by backends.hpp and by nothing else.
//
// In a header-only build these are inline functions, with SINTER_EXTERN_BACKENDS they are compiled in one translation
// unit. No backend is named here: run/dispatch.hpp's table knows them.
#pragma once

#include <atomic>

#include "../base/array_view.hpp"
#include "../base/join.hpp"
#include "call_state.hpp"
#include "per_thread.hpp"
#include "program_builder.hpp"
#include "program_core.hpp"

namespace sinter::inline SINTER_ABI {
namespace detail {

/// What read_counters() reads.
struct process_counters {
  std::atomic<std::uint64_t> programs{0}, kernels{0}, packs{0}, states{0};
};
inline process_counters counted;

SINTER_API code run_all(call_state* state) noexcept {
  return state != nullptr ? state->run() : code::bad_argument;
}

inline result<std::unique_ptr<call_state>> make_state(
    std::shared_ptr<program_plan const> const& plan) {
  auto made = call_state::make(plan);
  if (made) ++counted.states;
  return made;
}

/// What went wrong in a call: the library underneath says no more than a code.
inline failure call_failure(program_plan const& plan, code c) {
  std::string backends;
  for (group_plan const& g : plan.groups) {
    std::string const name(g.chosen.kernel->backend());
    if (backends.find(name) == std::string::npos)
      backends += join({backends.empty() ? "" : ", ", name});
  }
  return {c, join({"sinter: a kernel failed while it ran (", backends,
                   "); the outputs are undefined"})};
}

}  // namespace detail

SINTER_API counters read_counters() noexcept {
  return {detail::counted.programs, detail::counted.kernels, detail::counted.packs,
          detail::counted.states};
}

// ---- bound

SINTER_API bound::bound(std::unique_ptr<detail::call_state> state) noexcept
    : only_(state->only()), state_(std::move(state)) {}
SINTER_API bound::bound(bound&& other) noexcept
    : only_(std::exchange(other.only_, nullptr)), state_(std::move(other.state_)) {}
SINTER_API bound& bound::operator=(bound&& other) noexcept {
  std::swap(only_, other.only_);
  std::swap(state_, other.state_);
  return *this;
}
SINTER_API bound::~bound() = default;

SINTER_API void bound::failed(code c) const {
  if (!state_)
    raise({c, "sinter: this bound call was moved from; call the one that it was moved to"});
  raise(detail::call_failure(*state_->plan, c));
}

namespace detail {
/// What repoint() was given, with the extents that were bound where it has none.
inline tensor_view as_bound(tensor_desc const& d, tensor_view view) {
  if (!view.dims.empty()) return view;
  return {view.data, view.type, d.dims, d.strides, false};
}
}  // namespace detail

SINTER_API status bound::repoint(std::string_view name, tensor_view const& view) {
  if (!state_) return detail::bad("this bound call was moved from");
  detail::call_state& s = *state_;
  int const slot = detail::find_named(s.plan->inputs, name);
  if (slot < 0) {
    if (detail::find_named(s.plan->outputs, name) >= 0)
      return detail::bad(
          {"output ", detail::in_quotes(name), " is repointed to what may not be written"});
    return detail::bad({detail::in_quotes(name), " cannot be repointed; there are ",
                        detail::list_names(s.plan->inputs)});
  }
  tensor_desc const& d = s.input_desc(slot);
  if (status st = check_view("operand", name, d, detail::as_bound(d, view)); !st.ok()) return st;
  s.inputs[detail::at(slot)].data = view.data;
  s.settle();
  return {};
}

SINTER_API status bound::repoint(std::string_view name, output_view const& view) {
  if (!state_) return detail::bad("this bound call was moved from");
  detail::call_state& s = *state_;
  int const slot = detail::find_named(s.plan->outputs, name);
  if (slot < 0) return repoint(name, tensor_view(view));
  tensor_desc const& d = s.output_desc(slot);
  if (status st = check_view("output", name, d, detail::as_bound(d, view)); !st.ok()) return st;
  s.outputs[detail::at(slot)].data = view.data;
  s.settle();
  return {};
}

SINTER_API status bound::repoint(std::string_view name, void const* data) {
  if (!state_) return detail::bad("this bound call was moved from");
  int const slot = detail::find_named(state_->plan->inputs, name);
  dtype const type = slot < 0 ? dtype::f32 : state_->input_desc(slot).type;
  return repoint(name, tensor_view{data, type, {}, {}, false});
}
SINTER_API status bound::repoint(std::string_view name, void* data) {
  if (!state_) return detail::bad("this bound call was moved from");
  int const slot = detail::find_named(state_->plan->outputs, name);
  if (slot < 0) return repoint(name, static_cast<void const*>(data));
  return repoint(name, output_view{data, state_->output_desc(slot).type, {}, {}, false});
}

// ---- program_core

struct program_core::calls {
  per_thread<detail::call_state> states;
};

SINTER_API program_core::program_core(std::shared_ptr<detail::program_plan const> plan)
    : plan_(std::move(plan)), calls_(std::make_unique<calls>()) {}
SINTER_API program_core::~program_core() = default;

SINTER_API int program_core::group_count() const noexcept {
  return static_cast<int>(plan_->groups.size());
}
SINTER_API int program_core::kernel_count() const noexcept {
  std::size_t n = 0;
  for (detail::group_plan const& g : plan_->groups) n += g.chosen.stages.size();
  return static_cast<int>(n);
}

SINTER_API result<tensor_desc> program_core::describe(std::string_view name) const {
  if (int const i = detail::find_named(plan_->inputs, name); i >= 0) {
    detail::input_slot const& s = plan_->inputs[detail::at(i)];
    return plan_->group(s.group).problem.operands[detail::at(s.operand)];
  }
  if (int const i = detail::find_named(plan_->outputs, name); i >= 0) {
    detail::output_slot const& s = plan_->outputs[detail::at(i)];
    return plan_->group(s.group).problem.outputs[detail::at(s.output)];
  }
  if (int const i = detail::find_named(plan_->weights, name); i >= 0)
    return plan_->weights[detail::at(i)].desc;
  return detail::bad({detail::in_quotes(name), " is no operand or output of this program"});
}

namespace detail {

/// A weight's view checked: any strides, f32 or the weight's dtype. Gives it with real strides.
inline result<tensor_view> check_weight(weight_slot const& w, tensor_view given) {
  bool const rounds = given.type == dtype::f32 && is_floating(w.desc.type);
  if (given.type != w.desc.type && !rounds)
    return bad({"weight ", in_quotes(w.name), " is ", sinter::name_of(given.type), "; ",
                sinter::name_of(w.desc.type),
                (is_floating(w.desc.type) && w.desc.type != dtype::f32 ? " or f32 is wanted"
                                                                       : " is wanted")});
  tensor_desc wanted{given.type, w.desc.dims, {}};
  if (!given.flat && given.dims == wanted.dims) wanted.strides = given.strides;
  if (status st = complete_layout("weight", w.name, wanted); !st.ok()) return st.error();
  if (status st = check_view("weight", w.name, wanted, given); !st.ok()) return st.error();
  return tensor_view{given.data, given.type, wanted.dims, wanted.strides, false};
}

/// One weight in every layout that the program's kernels want, each once.
inline result<packed::entry> pack_weight(program_plan const& plan, int slot,
                                         tensor_view const& view) {
  packed::entry e{plan.weights[at(slot)].name, {}};
  for (weight_use const& use : plan.weight_uses) {
    if (use.slot != slot) continue;
    bool known = false;
    for (packed_weight const& w : e.layouts) known = known || w.layout_key == use.layout_key;
    if (known) continue;
    auto made = plan.group(use.group).chosen.kernel->pack(use.operand, view);
    if (!made) return made.error();
    e.layouts.push_back(std::move(*made));
    ++counted.packs;
  }
  return e;
}

}  // namespace detail

SINTER_API result<packed> program_core::pack(views weights) const {
  std::vector<tensor_view> checked;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    std::string_view const name = weights[i].name;
    int const slot = detail::find_named(plan_->weights, name, i);
    if (slot < 0)
      return detail::bad({detail::in_quotes(name), " is no weight; there are ",
                          detail::list_names(plan_->weights)});
    if (detail::find_named(weights.first(i), name) >= 0)
      return detail::bad({"weight ", detail::in_quotes(name), " is given twice"});
    auto view = detail::check_weight(plan_->weights[detail::at(slot)], weights[i].view);
    if (!view) return view.error();
    checked.push_back(*view);
  }
  std::vector<packed::entry> entries;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    int const slot = detail::find_named(plan_->weights, weights[i].name, i);
    auto entry = detail::pack_weight(*plan_, slot, checked[i]);
    if (!entry) return entry.error();
    entries.push_back(std::move(*entry));
  }
  return packed(std::move(entries));
}

SINTER_API result<bound> program_core::bind(views operands, packs weights, outputs results) const {
  auto state = detail::make_state(plan_);
  if (!state) return state.error();
  if (status st = (*state)->accept(operands, weights, results); !st.ok()) return st.error();
  for (packed const* p : weights) (*state)->held.push_back(*p);
  (*state)->settle();
  return bound(std::move(*state));
}

SINTER_API status program_core::run(views operands, packs weights, outputs results) const {
  detail::call_state* state = calls_->states.find();
  if (state == nullptr) {
    if (status st = warm_up(); !st.ok()) return st;
    state = calls_->states.find();
  }
  if (status st = state->accept(operands, weights, results); !st.ok()) return st;
  state->settle();
  if (code const c = state->run(); c != code::ok) [[unlikely]]
    return detail::call_failure(*plan_, c);
  return {};
}

SINTER_API status program_core::warm_up() const {
  if (calls_->states.find() != nullptr) return {};
  auto made = detail::make_state(plan_);
  if (!made) return made.error();
  calls_->states.add(std::move(*made));
  return {};
}

SINTER_API result<std::shared_ptr<program_core const>> make_program(
    array_view<chain const> groups, array_view<named_desc const> given, options const& chosen,
    array_view<backend const* const> list) {
  auto plan = detail::program_builder(groups, given, chosen, list).run();
  if (!plan) return plan.error();
  ++detail::counted.programs;
  detail::counted.kernels += (*plan)->groups.size();
  return std::shared_ptr<program_core const>(
      std::shared_ptr<program_core>(new program_core(std::move(*plan))));
}

SINTER_API result<std::shared_ptr<program_core const>> make_program(
    array_view<chain const> groups, array_view<named_desc const> given, options const& chosen) {
  return make_program(groups, given, chosen, backends());
}

// ---- explain

namespace detail {

inline std::string explain_isa(program_plan const& plan) {
  std::string const found(sinter::name_of(best_isa(detected_isa())));
  if (plan.own_cap)
    return join({"ISA: ", found, " found, capped at ", sinter::name_of(*plan.own_cap),
                 " by options::max_isa\n"});
  if (auto const cap = max_isa(); cap && *cap)
    return join(
        {"ISA: ", found, " found, capped at ", sinter::name_of(**cap), " by SINTER_MAX_ISA\n"});
  return join({"ISA: ", found, " found\n"});
}

inline std::string explain_threads(program_plan const& plan, kernel const& k) {
  if (k.own_threads() == 0)
    return join({"  threads: up to ", plan.threads, ", the same bits for every count\n"});
  if (k.own_threads() == 1)
    return join({"  threads: 1 of ", plan.threads, ": ", k.backend(),
                 " takes its threads from OpenMP, and the executor is another\n"});
  return join({"  threads: ", k.own_threads(), " of OpenMP; ", k.backend(),
               " gives the same bits for one count only\n"});
}

inline std::string explain_strip(program_plan const& plan, int g) {
  group_plan const& group = plan.group(g);
  std::string t;
  if (!group.apart.empty())
    t = join({"  not in strips with group ", g - 1, ": ", group.apart, "\n"});
  if (!group.whole.empty()) t += join({"  the whole batch at once: ", group.whole, "\n"});
  for (int i = group.strip; i >= 0; i = plan.strips[at(i)].within) {
    planned_strip const& s = plan.strips[at(i)];
    t += join({"  groups ", s.first, " to ", s.last, " run ", s.how, ", ", s.why, "\n"});
    if (g == s.last)
      t += join({"  scratch of ", s.held, ": ", s.kernel->scratch_bytes(), " bytes\n"});
  }
  return t;
}

inline std::string explain_group(program_plan const& plan, int g) {
  group_plan const& group = plan.group(g);
  selection const& s = group.chosen;
  std::string t =
      join({"group ", g, ": ", plan_text(group.problem), "\n  problem: ", text(group.problem),
            "\n  backend: ", s.kernel->backend(), s.fallback ? " (fallback)" : "", ", built in ",
            static_cast<long long>(s.microseconds), " us\n  chosen: ", s.choice, "\n"});
  for (std::size_t i = 0; i < s.stages.size(); ++i) {
    stage_note const& stage = s.stages[i];
    t += join({"  kernel ", i, ": ", stage.what, " [", stage.implementation, "]"});
    if (!stage.why.empty()) t += join({", split off: ", without_prefix(stage.why)});
    if (!stage.note.empty()) t += join({", ", without_prefix(stage.note)});
    t += "\n";
  }
  for (refused_backend const& r : s.refusals)
    t += join({"  refused by ", r.backend, ": ", without_prefix(r.reason), "\n"});
  t += explain_strip(plan, g);
  if (plan.threads > 1) t += explain_threads(plan, *s.kernel);
  t += join({"  scratch: ", s.kernel->scratch_bytes(), " bytes",
             plan.threads > 1 && s.kernel->own_threads() == 0 ? " for each thread\n" : "\n"});
  for (weight_use const& use : plan.weight_uses)
    if (use.group == g)
      t += join(
          {"  weight ", in_quotes(plan.weights[at(use.slot)].name), ": ", use.layout_key, "\n"});
  return t;
}

}  // namespace detail

SINTER_API std::string program_core::explain() const {
  std::string t = detail::join(
      {"program: ", group_count(), group_count() == 1 ? " group, " : " groups, ", kernel_count(),
       kernel_count() == 1 ? " kernel, " : " kernels, ",
       plan_->numerics == numerics::strict ? "strict" : "peer", " numerics, arena ",
       plan_->arena_bytes,
       plan_->dynamic ? " bytes and what dynamic extents want at the call\n" : " bytes\n"});
  t += detail::explain_isa(*plan_);
  for (int g = 0; g < group_count(); ++g) t += detail::explain_group(*plan_, g);
  return t;
}

}  // namespace sinter::inline SINTER_ABI
