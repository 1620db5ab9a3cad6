// What one thread's call needs: invocations, an arena, the views of the moment. accept() checks everything, settle()
// puts the pointers in, run() computes.
//
// accept() writes nothing but this state, so a refused call leaves no trace in the user's memory. After the first
// call none of the three allocates, unless dynamic extents outgrow the arena. A group whose outputs have no element is
// not run: nothing is read or written for it. Read run/program_core_impl.hpp next.
#pragma once

#include <chrono>
#include <cstdio>
#include <memory>
#include <vector>

#include "../base/array_view.hpp"
#include "../plan/resolve.hpp"
#include "aliasing.hpp"
#include "program_core.hpp"
#include "program_plan.hpp"
#include "team.hpp"

namespace sinter::inline SINTER_ABI::detail {

struct call_state {
  std::shared_ptr<program_plan const> plan;
  std::vector<std::unique_ptr<invocation>> invocations;  ///< one per group
  team workers;                                          ///< beside the caller, where wanted
  std::vector<int> active;                               ///< groups that have something to compute
  std::vector<problem> shapes;  ///< one per group, where the program is dynamic
  std::vector<arena_item> items;
  std::vector<int> order;
  buffer arena;
  // As bound last: by slot, weights by use. `seen` counts views per slot during accept().
  std::vector<tensor_view> inputs;
  std::vector<output_view> outputs;
  std::vector<void const*> weights;
  std::vector<extent> input_bytes, output_bytes;  ///< from the first to one past the last element
  std::vector<call_args> args;                    ///< what each invocation was pointed at
  std::vector<shape> dims;   ///< of the dynamic inputs; empty where they follow from others (flat)
  bool resolved = false;     ///< `shapes` are those of `dims`
  bool fresh = true;         ///< nothing was pointed at anything since the shapes are what they are
  std::vector<packed> held;  ///< packs that a bound call keeps alive
  std::vector<unsigned char> seen;

  problem const& problem_of(int g) const {
    return shapes.empty() ? plan->group(g).problem : shapes[at(g)];
  }
  tensor_desc const& input_desc(int slot) const {
    input_slot const& s = plan->inputs[at(slot)];
    return problem_of(s.group).operands[at(s.operand)];
  }
  tensor_desc const& output_desc(int slot) const {
    output_slot const& s = plan->outputs[at(slot)];
    return problem_of(s.group).outputs[at(s.output)];
  }

  static result<std::unique_ptr<call_state>> make(std::shared_ptr<program_plan const> plan);
  status accept(program_core::views operands, program_core::packs packs,
                program_core::outputs results);
  void settle() noexcept;
  code run() noexcept;
  /// The invocation that is all there is to run; null where it is none, several, shared by workers, or each call is to
  /// be logged.
  invocation* only() const noexcept {
    return active.size() == 1 && plan->said.verbose < 2 && !workers.shares(active[0])
               ? invocations[at(active[0])].get()
               : nullptr;
  }

 private:
  status take_views(program_core::views operands, program_core::outputs results);
  status take_weight(weight_use const& use, program_core::packs packs, void const*& data) const;
  status resolve_shapes();
  status resolve_group(int g);
  status plan_again();
  status check_all() const;
  status check_apart() const;
  void measure();
  void find_active() noexcept;
  void* arena_at(int item, std::size_t offset = 0) noexcept {
    return arena.data() == nullptr ? nullptr : arena.data() + items[at(item)].offset + offset;
  }
  void const* address_of(place const& from) noexcept {
    switch (from.from) {
      case source::input:
        return inputs[at(from.index)].data;
      case source::weight:
        return weights[at(from.index)];
      case source::constant:
        return plan->constants[at(from.index)];
      default:
        return arena_at(from.index, from.offset);
    }
  }
  shape item_dims(int item) const {
    item_maker const& m = plan->makers[at(item)];
    return m.dims(shapes[at(m.group)].outputs[at(m.output)].dims);
  }
  status settle_items(int g);
  bool computes(int g) const noexcept;
  code run_group(int g) noexcept;
  code run_logged(int g) noexcept;
};

inline failure no_memory(std::size_t arena_bytes) {
  return {code::out_of_memory, join({"sinter: no memory for an arena of ", arena_bytes, " bytes"})};
}

inline result<std::unique_ptr<call_state>> call_state::make(
    std::shared_ptr<program_plan const> plan) {
  auto s = std::make_unique<call_state>();
  for (int g = 0; g < static_cast<int>(plan->groups.size()); ++g) {
    kernel const* const runs = plan->runs(g);
    auto made = runs != nullptr ? runs->make_invocation() : idle_invocation::make();
    if (!made) return made.error();
    s->invocations.push_back(std::move(*made));
    if (plan->dynamic) s->shapes.push_back(plan->group(g).problem);
  }
  if (status st = s->workers.hire(*plan); !st.ok()) return st.error();
  s->active.reserve(plan->groups.size());
  s->items = plan->items;
  s->order.resize(s->items.size());
  s->arena = buffer(plan->arena_bytes);
  if (s->arena.failed()) return no_memory(plan->arena_bytes);
  s->inputs.resize(plan->inputs.size());
  s->outputs.resize(plan->outputs.size());
  s->weights.resize(plan->weight_uses.size());
  s->input_bytes.resize(plan->inputs.size());
  s->output_bytes.resize(plan->outputs.size());
  s->args.resize(plan->groups.size());
  if (plan->dynamic) s->dims.resize(plan->inputs.size());
  s->seen.resize(plan->inputs.size() + plan->outputs.size());
  s->plan = std::move(plan);
  if (!s->plan->dynamic) s->measure();
  return s;
}

/// Every operand and output once, by name.
inline status call_state::take_views(program_core::views operands, program_core::outputs results) {
  std::fill(seen.begin(), seen.end(), static_cast<unsigned char>(0));
  for (std::size_t i = 0; i < operands.size(); ++i) {
    std::string_view const name = operands[i].name;
    int const slot = find_named(plan->inputs, name, i);
    if (slot < 0 && find_named(plan->weights, name) >= 0)
      return bad({"weight ", in_quotes(name),
                  " is given as a view; pack() it and give the packed weights"});
    if (slot < 0)
      return bad({in_quotes(name), " is no operand; there are ", list_names(plan->inputs)});
    if (seen[at(slot)]++ != 0) return bad({"operand ", in_quotes(name), " is given twice"});
    inputs[at(slot)] = operands[i].view;
  }
  for (std::size_t i = 0; i < results.size(); ++i) {
    int const slot = find_named(plan->outputs, results[i].name, i);
    if (slot < 0)
      return bad(
          {in_quotes(results[i].name), " is no output; there are ", list_names(plan->outputs)});
    if (seen[plan->inputs.size() + at(slot)]++ != 0)
      return bad({"output ", in_quotes(results[i].name), " is given twice"});
    outputs[at(slot)] = results[i].view;
  }
  for (std::size_t i = 0; i < seen.size(); ++i) {
    if (seen[i] != 0) continue;
    bool const input = i < plan->inputs.size();
    return bad(
        {(input ? "operand " : "output "),
         in_quotes(input ? plan->inputs[i].name : plan->outputs[i - plan->inputs.size()].name),
         " is not given"});
  }
  return {};
}

/// The data of one weight in the layout that one kernel wants.
inline status call_state::take_weight(weight_use const& use, program_core::packs packs,
                                      void const*& data) const {
  name_text const& name = plan->weights[at(use.slot)].name;
  packed_weight const* found = nullptr;
  packed_weight const* other = nullptr;
  for (packed const* p : packs) {
    packed::entry const* const e = p->find(name);
    if (e == nullptr) continue;
    for (packed_weight const& w : e->layouts) {
      if (w.layout_key != use.layout_key) {
        other = &w;
        continue;
      }
      if (found != nullptr)
        return bad({"weight ", in_quotes(name), " is in two of the packs that are given"});
      found = &w;
    }
  }
  if (found != nullptr) {
    data = found->data();
    return {};
  }
  if (other != nullptr)
    return bad({"weight ", in_quotes(name), " was packed for another kernel: its layout is '",
                other->layout_key, "', and '", use.layout_key,
                "' is wanted; pack it with this program"});
  return bad({"weight ", in_quotes(name), " is in none of the packs that are given"});
}

inline status call_state::accept(program_core::views operands, program_core::packs packs,
                                 program_core::outputs results) {
  if (status st = take_views(operands, results); !st.ok()) return st;
  for (std::size_t i = 0; i < plan->weight_uses.size(); ++i)
    if (status st = take_weight(plan->weight_uses[i], packs, weights[i]); !st.ok()) return st;
  if (plan->dynamic)
    if (status st = resolve_shapes(); !st.ok()) return st;
  if (status st = check_all(); !st.ok()) return st;
  return check_apart();
}

/// Extents of this call, group after group. Nothing is done where they are those of the call before.
inline status call_state::resolve_shapes() {
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    input_slot const& s = plan->inputs[i];
    tensor_desc const& d = plan->group(s.group).problem.operands[at(s.operand)];
    if (!is_dynamic(d.dims)) continue;
    shape const now = inputs[i].flat ? shape{} : inputs[i].dims;
    resolved = resolved && dims[i] == now;
    dims[i] = now;
    if (resolved) continue;
    if (auto fits = resolved_operand(s.name, d, now); !fits) return fits.error();
  }
  if (resolved) return {};
  for (int g = 0; g < static_cast<int>(shapes.size()); ++g)
    if (status st = resolve_group(g); !st.ok()) return st;
  if (status st = plan_again(); !st.ok()) return st;
  measure();
  resolved = fresh = true;
  return {};
}

inline void call_state::measure() {
  for (std::size_t i = 0; i < inputs.size(); ++i)
    input_bytes[i] = byte_span(input_desc(static_cast<int>(i)));
  for (std::size_t i = 0; i < outputs.size(); ++i)
    output_bytes[i] = byte_span(output_desc(static_cast<int>(i)));
}

inline status call_state::resolve_group(int g) {
  group_plan const& group = plan->group(g);
  shape actual[max_operands];
  for (int i = 0; i < group.operands.ssize(); ++i) {
    place const from = group.operands[i];
    if (!is_dynamic(group.problem.operands[at(i)].dims)) continue;
    if (from.from == source::arena || from.from == source::strip) {
      // A view of the item differs from it in extents that are fixed.
      shape const item = item_dims(from.index);
      actual[i] = group.problem.operands[at(i)].dims;
      for (int j = 0; j < actual[i].ssize(); ++j)
        if (actual[i][j] == dynamic) actual[i][j] = item[j];
    } else if (from.from == source::input) {
      bool const settled = dims[at(from.index)].empty() && plan->inputs[at(from.index)].group < g;
      actual[i] = settled ? input_desc(from.index).dims : dims[at(from.index)];
    }
  }
  if (status st =
          resolve_into(shapes[at(g)], group.problem, array_view(actual, group.operands.size()));
      !st.ok())
    return st;
  return settle_items(g);
}

/// The sizes of the items that group g writes to, and that it fits those that others began.
inline status call_state::settle_items(int g) {
  group_plan const& group = plan->group(g);
  for (int i = 0; i < group.outputs.ssize(); ++i) {
    place const to = group.outputs[i];
    if (to.from != source::arena) continue;
    item_maker const& maker = plan->makers[at(to.index)];
    tensor_desc const& made = shapes[at(g)].outputs[at(i)];
    shape const item = item_dims(to.index);
    if (maker.group != g && maker.dims(made.dims) != item)
      return bad({"a part of a concat is ", to_string(made.dims),
                  " in this call, and the whole is ", to_string(item),
                  "; extents may differ in the channels only"});
    extent const bytes = checked_mul(element_count(item), size_of(made.type));
    if (bytes < 0) return bad("the intermediates of this call have more than 2^63 - 1 bytes");
    items[at(to.index)].bytes = static_cast<std::size_t>(bytes);
  }
  return {};
}

inline status call_state::plan_again() {
  std::size_t const bytes = plan_arena(items, order);
  if (bytes == arena_overflow)
    return bad("the intermediates of this call have more than 2^63 - 1 bytes");
  if (bytes <= arena.size()) return {};
  buffer bigger(bytes);
  if (bigger.failed()) return no_memory(bytes);
  arena = std::move(bigger);
  return {};
}

inline status call_state::check_all() const {
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (status st =
            check_view("operand", plan->inputs[i].name, input_desc(static_cast<int>(i)), inputs[i]);
        !st.ok())
      return st;
  for (std::size_t i = 0; i < outputs.size(); ++i)
    if (status st = check_view("output", plan->outputs[i].name, output_desc(static_cast<int>(i)),
                               outputs[i]);
        !st.ok())
      return st;
  return {};
}

/// No output shares an element with an operand or another output, but for the pair that in_place names.
inline status call_state::check_apart() const {
  for (std::size_t o = 0; o < outputs.size(); ++o) {
    auto const meets = [&](void const* data, extent bytes, tensor_desc const& d) {
      return overlap({"", "", data, bytes}, {"", "", outputs[o].data, output_bytes[o]}) &&
             share_elements(d, data, output_desc(static_cast<int>(o)), outputs[o].data);
    };
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      bool const declared = static_cast<int>(i) == plan->in_place_input &&
                            static_cast<int>(o) == plan->in_place_output;
      if (declared && inputs[i].data != outputs[o].data && input_bytes[i] > 0)
        return bad({"operand ", in_quotes(plan->inputs[i].name),
                    " was declared to share the memory of output ",
                    in_quotes(plan->outputs[o].name), "; the same pointer is wanted for both"});
      if (!declared && meets(inputs[i].data, input_bytes[i], input_desc(static_cast<int>(i))))
        return bad({"output ", in_quotes(plan->outputs[o].name), " overlaps operand ",
                    in_quotes(plan->inputs[i].name),
                    "; separate memory is wanted, or options::in_place"});
    }
    for (std::size_t q = 0; q < o; ++q)
      if (meets(outputs[q].data, output_bytes[q], output_desc(static_cast<int>(q))))
        return bad({"output ", in_quotes(plan->outputs[o].name), " overlaps output ",
                    in_quotes(plan->outputs[q].name), "; separate memory is wanted"});
  }
  return {};
}

inline bool call_state::computes(int g) const noexcept {
  problem const& p = problem_of(g);
  for (int i = 0; i < p.chain.outputs.ssize(); ++i)
    if (element_count(p.outputs[at(i)].dims) != 0) return true;
  return false;
}

inline void call_state::find_active() noexcept {
  active.clear();
  for (int g = 0; g < static_cast<int>(plan->groups.size()); ++g)
    if (plan->runs(g) != nullptr && computes(g)) active.push_back(g);
}

/// An invocation whose pointers are those of the call before is left alone.
inline void call_state::settle() noexcept {
  if (fresh) find_active();
  for (int g : active) {
    planned_strip const* const strip = plan->strip_of(g);
    group_plan const& group = plan->group(g);
    auto const& from = strip != nullptr ? strip->operands : group.operands;
    auto const& to = strip != nullptr ? strip->outputs : group.outputs;
    call_args& now = args[at(g)];
    bool moved = fresh;
    auto const put = [&moved](auto*& where, auto* pointer) {
      moved = moved || where != pointer;
      where = pointer;
    };
    for (int i = 0; i < from.ssize(); ++i) put(now.operands[i], address_of(from[i]));
    for (int i = 0; i < to.ssize(); ++i)
      put(now.outputs[i], to[i].from == source::output ? outputs[at(to[i].index)].data
                                                       : arena_at(to[i].index, to[i].offset));
    put(now.scratch, arena_at(group.scratch));
    now.shapes = shapes.empty() ? nullptr : &shapes[at(strip != nullptr ? strip->first : g)];
    if (!moved) continue;
    invocations[at(g)]->repoint(now);
    workers.cut(g, *invocations[at(g)], now);
  }
  fresh = false;
}

inline code call_state::run() noexcept {
  bool const logged = plan->said.verbose >= 2;
  for (int g : active)
    if (code const c = logged ? run_logged(g) : run_group(g); c != code::ok) return c;
  return code::ok;
}
inline code call_state::run_group(int g) noexcept {
  return workers.shares(g) ? workers.run(g) : invocations[at(g)]->run();
}

/// The line of SINTER_VERBOSE=2: sinter,call,backend,implementation,"problem",microseconds. Before the last group of a
/// strip, whose line has the time of all, those of the others, `strip` for `call`.
inline code call_state::run_logged(int g) noexcept {
  auto const start = std::chrono::steady_clock::now();
  code const c = run_group(g);
  double const us =
      std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count();
  planned_strip const* const strip = plan->strip_of(g);
  for (int i = strip != nullptr ? strip->first : g; i < g; ++i)
    print_line("strip", plan->group(i).chosen, problem_of(i), 0);
  print_line("call", plan->group(g).chosen, problem_of(g), us);
  return c;
}

}  // namespace sinter::inline SINTER_ABI::detail
