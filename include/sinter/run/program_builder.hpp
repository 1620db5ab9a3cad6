// Groups -> program_plan: joins the groups by name, makes each problem, asks dispatch for a kernel, plans the arena.
//
// Each name of the user has one role in the whole program, and one description: the first group that settles it hands
// it on to the later ones. An intermediate is dense and lives from its group to the last that reads it; a kernel's
// scratch lives while its group runs. Nothing here runs a kernel. Read run/call_state.hpp next.
#pragma once

#include <array>
#include <memory>
#include <utility>

#include "../base/array_view.hpp"
#include "program_core.hpp"
#include "program_plan.hpp"
#include "stretch_builder.hpp"
#include "strip_builder.hpp"

namespace sinter::inline SINTER_ABI::detail {

inline status check_numbers(options const& o) {
  int const n = o.threads;
  if (n < 1 || n > max_threads)
    return bad({"options::threads is ", n, "; 1 to ", max_threads, " are wanted"});
  if (n > 1 && o.executor == nullptr)
    return bad({"options::threads is ", n,
                " without an options::executor; one is wanted, since Sinter starts no threads: "
                "&sinter::openmp_threads of sinter/openmp.hpp, or your own"});
  if (o.strip_rows < 0)
    return bad({"options::strip_rows is ", o.strip_rows, "; 0 or more are wanted"});
  return {};
}

/// What the options and the environment say of the whole plan.
inline status take_options(program_plan& plan, options const& o, backend_list backends) {
  if (status st = check_numbers(o); !st.ok()) return st;
  if (o.max_isa && !row_of(*o.max_isa).used)
    return failure{code::unsupported,
                   join({"sinter: options::max_isa is ", sinter::name_of(*o.max_isa),
                         ", for which there are no kernels; SINTER_MAX_ISA's names are wanted"})};
  auto said = read_settings(o, backends);
  if (!said) return said.error();
  plan.said = *said;
  plan.numerics = o.numerics;
  plan.own_cap = o.max_isa;
  plan.threads = o.threads;
  plan.executor = o.executor;
  return {};
}

class program_builder {
 public:
  program_builder(array_view<chain const> chains, array_view<named_desc const> given,
                  options const& o, backend_list backends)
      : chains_(chains), given_(given), options_(o), backends_(backends) {}

  result<std::shared_ptr<program_plan const>> run() {
    if (chains_.empty()) return bad("a program without groups");
    if (status st = take_options(*plan_, options_, backends_); !st.ok()) return st.error();
    if (status st = check_names(); !st.ok()) return st.error();
    plan_->groups.reserve(chains_.size());
    for (std::size_t g = 0; g < chains_.size(); ++g)
      if (status st = add_group(static_cast<int>(g)); !st.ok()) return st.error();
    if (status st = plan_memory(); !st.ok()) return st.error();
    return std::shared_ptr<program_plan const>(std::move(plan_));
  }

 private:
  /// An output that later groups read.
  struct intermediate {
    name_text name;
    int group, output, item;
  };

  /// Roles of the user's names agree over all groups; `given` names each of them at most once and nothing else.
  status check_names() {
    for (std::size_t g = 0; g < chains_.size(); ++g) {
      for (operand const& o : chains_[g].operands)
        if (!o.internal)
          if (status st = check_role(o); !st.ok()) return st;
      for (output const& o : chains_[g].outputs) {
        if (o.internal) continue;
        if (find_named(plan_->outputs, o.name) >= 0)
          return bad({"two outputs are named ", in_quotes(o.name)});
        plan_->outputs.push_back(
            {o.name, static_cast<int>(g), static_cast<int>(&o - chains_[g].outputs.begin())});
      }
    }
    for (output_slot const& o : plan_->outputs)
      if (find_named(users_, o.name) >= 0)
        return bad(
            {in_quotes(o.name),
             " names an operand and an output; two names are wanted (in_place says that they "
             "share memory)"});
    for (std::size_t i = 0; i < given_.size(); ++i) {
      if (find_named(users_, given_[i].name) < 0 && find_named(plan_->outputs, given_[i].name) < 0)
        return bad({in_quotes(given_[i].name), " is described but is no operand; there are ",
                    list_names(users_)});
      for (std::size_t j = 0; j < i; ++j)
        if (given_[j].name == given_[i].name)
          return bad({"operand ", in_quotes(given_[i].name), " is described twice"});
    }
    return {};
  }
  status check_role(operand const& o) {
    int const known = find_named(users_, o.name);
    if (known < 0) {
      users_.push_back(o);
      return {};
    }
    operand const& before = users_[at(known)];
    if (before.role != o.role || before.type != o.type)
      return bad({"operand ", in_quotes(o.name), " is a ", sinter::name_of(before.role), " of ",
                  sinter::name_of(before.type), " in one group and a ", sinter::name_of(o.role),
                  " of ", sinter::name_of(o.type),
                  " in another; one role and one dtype are wanted"});
    return {};
  }

  status add_group(int g) {
    chain const& c = chains_[at(g)];
    std::array<operand_spec, max_operands> specs;
    for (int i = 0; i < c.operands.ssize(); ++i)
      if (status st = describe_operand(c.operands[i], specs[at(i)]); !st.ok()) return st;
    std::array<strides, max_outputs> output_strides;
    for (int i = 0; i < c.outputs.ssize(); ++i)
      if (int const d = find_named(given_, c.outputs[i].name); d >= 0 && !c.outputs[i].internal)
        output_strides[at(i)] = given_[at(d)].strides;
    auto in_place = in_place_operand(g);
    if (!in_place) return in_place.error();
    auto made = make_problem(c, array_view<operand_spec const>(specs.data(), c.operands.size()),
                             array_view<strides const>(output_strides.data(), c.outputs.size()),
                             options_.numerics, *in_place);
    if (!made) return made.error();
    made->max_isa = options_.max_isa;
    if (options_.threads > 1 && options_.executor->is_openmp())
      made->openmp_threads = options_.threads;
    if (status st = check_outputs(*made); !st.ok()) return st;
    auto chosen = select(*made, options_, plan_->said, backends_);
    if (!chosen) return chosen.error();
    plan_->dynamic = plan_->dynamic || is_dynamic(*made);
    plan_->groups.push_back({std::move(*made), std::move(*chosen), {}, {}, -1});
    return settle_places(g);
  }

  status describe_operand(operand const& o, operand_spec& spec) const {
    if (o.internal) {
      int const made = find_named(intermediates_, o.name);
      if (made < 0) return bad({"no earlier group makes the intermediate ", in_quotes(o.name)});
      intermediate const& from = intermediates_[at(made)];
      spec = plan_->group(from.group).problem.outputs[at(from.output)];
      return {};
    }
    int const d = find_named(given_, o.name);
    if (int const known = find_named(plan_->inputs, o.name); known >= 0) {
      input_slot const& first = plan_->inputs[at(known)];
      spec = plan_->group(first.group).problem.operands[at(first.operand)];
    } else if (int const weight = find_named(plan_->weights, o.name); weight >= 0) {
      spec = plan_->weights[at(weight)].desc;
    } else if (d >= 0 && (!given_[at(d)].dims.empty() || given_[at(d)].type)) {
      if (given_[at(d)].dims.empty() && !(o.role == role::scalar))
        return type_only(o, given_[at(d)], spec);
      spec = tensor_desc{given_[at(d)].type.value_or(o.type), given_[at(d)].dims,
                         given_[at(d)].strides};
    }
    return {};
  }
  /// A dtype without extents is only compared.
  static status type_only(operand const& o, named_desc const& given, operand_spec& spec) {
    spec.reset();
    if (*given.type == o.type) return {};
    return bad({"operand ", in_quotes(o.name), " is described as ", sinter::name_of(*given.type),
                "; ", sinter::name_of(o.type), " is wanted"});
  }

  /// What was said of the outputs fits what follows from the operands.
  status check_outputs(problem const& p) const {
    for (int i = 0; i < p.chain.outputs.ssize(); ++i) {
      output const& o = p.chain.outputs[i];
      int const d = o.internal ? -1 : find_named(given_, o.name);
      if (d < 0) continue;
      named_desc const& said = given_[at(d)];
      tensor_desc const& is = p.outputs[at(i)];
      if (said.type && *said.type != is.type)
        return bad({"output ", in_quotes(o.name), " is described as ", sinter::name_of(*said.type),
                    "; it is ", sinter::name_of(is.type)});
      if (!said.dims.empty() && !(said.dims == is.dims))
        return bad({"output ", in_quotes(o.name), " is described as ", to_string(said.dims),
                    "; it is ", to_string(is.dims)});
    }
    return {};
  }

  /// The index of options::in_place in group g if this is the group that may overwrite it: the last that reads it.
  result<int> in_place_operand(int g) {
    if (options_.in_place.empty()) return -1;
    int last = -1, index = -1;
    for (std::size_t i = 0; i < chains_.size(); ++i)
      for (int j = 0; j < chains_[i].operands.ssize(); ++j)
        if (!chains_[i].operands[j].internal && chains_[i].operands[j].name == options_.in_place) {
          last = static_cast<int>(i);
          index = j;
        }
    if (last < 0)
      return bad({"options::in_place is ", in_quotes(options_.in_place),
                  ", which is no operand; there are ", list_names(users_)});
    if (g != last || chains_[at(g)].outputs.empty()) return -1;
    output const& o = chains_[at(g)].outputs[0];
    if (o.internal)
      return bad({"operand ", in_quotes(options_.in_place),
                  " cannot share memory with an output: the last group that "
                  "reads it makes an intermediate"});
    plan_->in_place_output = find_named(plan_->outputs, o.name);
    return index;
  }

  /// Slots and arena items of the group that was added last.
  status settle_places(int g) {
    group_plan& group = plan_->groups.back();
    chain const& c = group.problem.chain;
    for (int i = 0; i < c.operands.ssize(); ++i) {
      operand const& o = c.operands[i];
      if (o.internal) {
        int const item = intermediates_[at(find_named(intermediates_, o.name))].item;
        plan_->items[at(item)].last = g;
        group.operands.push_back({source::arena, item});
      } else if (o.role == role::weight) {
        if (status st = add_weight_use(g, i); !st.ok()) return st;
        group.operands.push_back({source::weight, static_cast<int>(plan_->weight_uses.size()) - 1});
      } else {
        int slot = find_named(plan_->inputs, o.name);
        if (slot < 0) {
          slot = static_cast<int>(plan_->inputs.size());
          plan_->inputs.push_back({o.name, g, i});
          if (o.name == options_.in_place) plan_->in_place_input = slot;
        }
        group.operands.push_back({source::input, slot});
      }
    }
    for (int i = 0; i < c.outputs.ssize(); ++i) {
      output const& o = c.outputs[i];
      if (!o.internal) {
        group.outputs.push_back({source::output, find_named(plan_->outputs, o.name)});
        continue;
      }
      if (find_named(intermediates_, o.name) >= 0)
        return bad({"two groups make the intermediate ", in_quotes(o.name)});
      int const item = add_item(intermediate_bytes(group.problem.outputs[at(i)]), g);
      plan_->makers[at(item)] = {g, i, -1};
      intermediates_.push_back({o.name, g, i, item});
      group.outputs.push_back({source::arena, item});
    }
    group.scratch = add_item(group.chosen.kernel->scratch_bytes(), g);
    return {};
  }
  static std::size_t intermediate_bytes(tensor_desc const& d) {
    return is_dynamic(d.dims) ? 0 : static_cast<std::size_t>(byte_span(d));
  }
  int add_item(std::size_t bytes, int g) {
    plan_->items.push_back({bytes, g, g, 0});
    plan_->makers.emplace_back();
    return static_cast<int>(plan_->items.size()) - 1;
  }
  status add_weight_use(int g, int i) {
    group_plan const& group = plan_->group(g);
    operand const& o = group.problem.chain.operands[i];
    tensor_desc const& desc = group.problem.operands[at(i)];
    if (is_dynamic(desc.dims))
      return bad(
          {"weight ", in_quotes(o.name), " of ", to_string(desc.dims),
           " has a dynamic extent; it is packed once, so its extents are fixed (a tensor may "
           "be dynamic)"});
    int slot = find_named(plan_->weights, o.name);
    if (slot < 0) {
      slot = static_cast<int>(plan_->weights.size());
      plan_->weights.push_back({o.name, desc});
    }
    plan_->weight_uses.push_back({slot, g, i, group.chosen.kernel->layout_key(i)});
    return {};
  }

  status plan_memory() {
    strip_builder(*plan_, options_).run();
    stretch_builder(*plan_, options_).run();
    std::vector<int> order(plan_->items.size());
    plan_->arena_bytes = plan_arena(plan_->items, order);
    if (plan_->arena_bytes == arena_overflow)
      return bad("the intermediates have more than 2^63 - 1 bytes");
    return {};
  }

  array_view<chain const> chains_;
  array_view<named_desc const> given_;
  options const& options_;
  backend_list backends_;
  std::shared_ptr<program_plan> plan_ = std::shared_ptr<program_plan>(new program_plan());
  std::vector<operand> users_;  ///< the user's operands, each name once
  std::vector<intermediate> intermediates_;
};

}  // namespace sinter::inline SINTER_ABI::detail
