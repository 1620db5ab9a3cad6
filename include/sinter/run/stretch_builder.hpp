// Makes stretches of a program's groups: a batch then goes through them image by image. After strips, which may be
// members.
//
// Neighbours that compute images by themselves (kernel::by_rows) and that run/stretch_rules.hpp wants together are one
// stretch, whatever they read of each other: slices of a concat, poolings, shuffles, strips. A value that only they
// read and write loses its place in the arena and has room for one image in the stretch's scratch; everything else stays
// alive until the stretch has run. Every "no" is kept for explain(). No bit changes.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "../base/join.hpp"
#include "program_plan.hpp"
#include "stretch_rules.hpp"
#include "strip_builder.hpp"

namespace sinter::inline SINTER_ABI::detail {

class stretch_builder {
 public:
  stretch_builder(program_plan& plan, options const& o) : plan_(plan), options_(o) {}

  /// Before the arena is planned.
  void run() {
    if (options_.stretches == strip_policy::never || plan_.in_place_input >= 0) return;
    find_users();
    int const groups = static_cast<int>(plan_.groups.size());
    for (int g = 0; g < groups;) {
      units_.clear();
      weight_bytes_ = 0;
      for (int next = g; next < groups && take(unit_at(next));) next = units_.back().last + 1;
      // Fewer where they have too many operands or outputs together.
      while (units_.size() > 1 && !try_settle()) units_.pop_back();
      g = (units_.empty() ? unit_at(g) : units_.back()).last + 1;
    }
  }

 private:
  /// What runs at one time: a group, or those of a strip.
  struct unit {
    int first = 0, last = 0;
    std::shared_ptr<sinter::kernel const> kernel;  ///< once it is taken, as by_rows() gave it
    inline_vector<place, max_operands> operands;
    inline_vector<place, max_outputs> outputs;
    std::string why;
  };
  /// The first and the last group that read or write an arena item.
  struct users {
    int first = -1, last = -1;
  };

  unit unit_at(int g) const {
    if (planned_strip const* const s = plan_.strip_of(g))
      return {s->first, s->last, s->kernel, s->operands, s->outputs, {}};
    group_plan const& group = plan_.group(g);
    return {g, g, group.chosen.kernel, group.operands, group.outputs, {}};
  }
  void find_users() {
    users_.resize(plan_.items.size());
    for (int g = 0; g < static_cast<int>(plan_.groups.size()); ++g) {
      for (place const& p : plan_.group(g).operands) use(p, g);
      for (place const& p : plan_.group(g).outputs) use(p, g);
    }
  }
  void use(place const& p, int g) {
    if (p.from != source::arena) return;
    users& u = users_[at(p.index)];
    if (u.first < 0) u.first = g;
    u.last = g;
  }

  // ---- which groups

  /// Adds a unit to the stretch if it can be, and is wanted there; if not, notes why.
  bool take(unit u) {
    shape const& domain = plan_.group(u.last).problem.domain;
    if (domain.empty() || domain[0] == 1) return false;
    std::string why = why_not(u);
    if (why.empty()) {
      stretch_facts const f = facts_of(u);
      stretch_rule const& rule = stretch_rule_for(f);
      u.why = text_of_rule(rule.name, rule.reason, options_);
      if (options_.stretches == strip_policy::by_rule && !rule.joins) {
        why = u.why;
      } else {
        row_range const image{0, domain[1]};
        auto by_rows = u.kernel->by_rows(array_view(&image, 1));
        if (by_rows) {
          u.kernel = std::move(*by_rows);
          weight_bytes_ = f.all_weight_bytes;
          units_.push_back(std::move(u));
          return true;
        }
        why = without_prefix(by_rows.error().message);
      }
    }
    plan_.groups[at(u.first)].whole = std::move(why);
    return false;
  }
  std::string why_not(unit const& u) const {
    for (int g = u.first; g <= u.last; ++g) {
      group_plan const& group = plan_.group(g);
      problem const& p = group.problem;
      if (!are_images(p.domain)) return not_images(p.domain);
      if (!units_.empty() && p.domain[0] != plan_.group(units_[0].last).problem.domain[0])
        return "it has another number of images";
      for (int i = 0; i < p.chain.outputs.ssize(); ++i)
        if (!are_of_batch(p.outputs[at(i)].dims, p)) return not_images(p.outputs[at(i)].dims);
      for (int i = 0; i < group.operands.ssize(); ++i)
        if (group.operands[i].from == source::arena && !are_of_batch(p.operands[at(i)].dims, p))
          return not_images(p.operands[at(i)].dims);
      for (step const& s : p.chain.steps)
        if (s.contraction >= 0 && s.args[1].kind == value_kind::operand &&
            group.operands[s.args[1].index].from == source::arena)
          return "it multiplies with a value of the program";
    }
    return {};
  }
  static bool are_images(shape const& d) {
    bool known = d.size() == 4;
    for (int i = 1; known && i < 4; ++i) known = d[i] > 0;
    return known;
  }
  static bool are_of_batch(shape const& d, problem const& p) {
    return are_images(d) && d[0] == p.domain[0];
  }
  static std::string not_images(shape const& d) {
    return join({to_string(d), " is no batch of images N,H,W,C whose extents but for N are known"});
  }

  stretch_facts facts_of(unit const& u) const {
    stretch_facts f;
    f.images = plan_.group(u.last).problem.domain[0];
    f.threads = plan_.threads;
    for (int g = u.first; g <= u.last; ++g) {
      problem const& p = plan_.group(g).problem;
      for (int i = 0; i < p.chain.operands.ssize(); ++i) {
        tensor_desc const& d = p.operands[at(i)];
        if (p.chain.operands[i].role == role::weight)
          f.weight_bytes += element_count(d.dims) * size_of(d.type);
        else if (plan_.group(g).operands[i].from != source::strip && d.dims.size() == 4)
          f.value_bytes += image_bytes(d);
      }
      for (int i = 0; i < p.chain.outputs.ssize(); ++i)
        if (plan_.group(g).outputs[i].from != source::strip)
          f.value_bytes += image_bytes(p.outputs[at(i)]);
    }
    f.all_weight_bytes = weight_bytes_ + f.weight_bytes;
    return f;
  }
  static extent image_bytes(tensor_desc const& d) {
    return d.dims[1] * d.dims[2] * d.dims[3] * size_of(d.type);
  }

  // ---- the stretch of the units at hand

  /// An arena item that only they read and write: where it is in the stretch's scratch.
  struct inner_item {
    int item;
    arena_item placed;
  };
  struct draft {
    planned_strip strip;
    std::shared_ptr<stretch_plan> plan = std::shared_ptr<stretch_plan>(new stretch_plan());
    std::vector<inner_item> inner;
  };

  /// False, and nothing done, where they have too many operands or outputs.
  bool try_settle() {
    draft d;
    d.strip.first = units_.front().first;
    d.strip.last = units_.back().last;
    for (unit const& u : units_)
      if (!add_member(d, u)) return false;
    place_inner(d);
    d.strip.kernel = std::shared_ptr<kernel const>(new stretch_kernel(d.plan));
    d.strip.how = "image by image";
    d.strip.held = "an image";
    d.strip.why =
        options_.stretches == strip_policy::always ? "by options::stretches" : units_.back().why;
    settle(std::move(d));
    return true;
  }
  bool is_inner(draft const& d, place const& p) const {
    if (p.from != source::arena) return false;
    users const& u = users_[at(p.index)];
    return d.strip.first <= u.first && u.last <= d.strip.last;
  }

  bool add_member(draft& d, unit const& u) {
    stretch_member m;
    m.kernel = u.kernel;
    m.problem = plan_.group(u.last).problem;
    m.first = u.first - d.strip.first;
    m.last = u.last - d.strip.first;
    for (int g = u.first; g <= u.last; ++g) m.work += work_of_image(plan_.group(g).problem);
    for (place const& p : u.operands) {
      m.operands.push_back(place_of(d, p, d.strip.operands, stretch_place::from::operand));
      if (m.operands.back().index < 0) return false;
    }
    for (place const& p : u.outputs) {
      m.outputs.push_back(place_of(d, p, d.strip.outputs, stretch_place::from::output));
      if (m.outputs.back().index < 0) return false;
    }
    d.plan->members.push_back(std::move(m));
    return true;
  }
  /// `given`: those of the stretch's call_args. Index -1: there is no room.
  template <class Places>
  stretch_place place_of(draft& d, place const& p, Places& given, stretch_place::from where) {
    stretch_place to;
    if (p.from == source::constant) {
      to.where = stretch_place::from::constant;
      to.constant = plan_.constants[at(p.index)];
      return to;
    }
    bool const arena = p.from == source::arena;
    to.offset = arena ? p.offset : 0;
    if (is_inner(d, p)) {
      to.where = stretch_place::from::scratch;
      to.index = inner_of(d, p.index);
      return to;
    }
    to.where = where;
    place const base{p.from, p.index, arena ? 0 : p.offset};
    for (to.index = 0; to.index < given.ssize(); ++to.index)
      if (given[to.index].from == base.from && given[to.index].index == base.index) return to;
    if (given.full())
      to.index = -1;
    else
      given.push_back(base);
    return to;
  }
  /// Its index, with the member that is being added as its last user.
  int inner_of(draft& d, int item) const {
    int const member = static_cast<int>(d.plan->members.size());
    for (std::size_t i = 0; i < d.inner.size(); ++i)
      if (d.inner[i].item == item) {
        d.inner[i].placed.last = member;
        return static_cast<int>(i);
      }
    d.inner.push_back({item, {bytes_of_image(item), member, member, 0}});
    return static_cast<int>(d.inner.size()) - 1;
  }
  std::size_t bytes_of_image(int item) const {
    item_maker const& m = plan_.makers[at(item)];
    tensor_desc const& made = plan_.group(m.group).problem.outputs[at(m.output)];
    shape dims = m.dims(made.dims);
    if (dims[0] != dynamic) return plan_.items[at(item)].bytes / static_cast<std::size_t>(dims[0]);
    dims[0] = 1;
    return static_cast<std::size_t>(element_count(dims) * size_of(made.type));
  }

  /// Values between by their lives, and the scratch of each member while it runs.
  void place_inner(draft& d) const {
    std::vector<arena_item> items;
    for (inner_item const& i : d.inner) items.push_back(i.placed);
    for (stretch_member const& m : d.plan->members) {
      int const turn = static_cast<int>(items.size() - d.inner.size());
      items.push_back({m.kernel->scratch_bytes(), turn, turn, 0});
    }
    std::vector<int> order(items.size());
    d.plan->scratch_bytes = plan_arena(items, order);
    auto const settle_place = [&](stretch_place& p) {
      if (p.where != stretch_place::from::scratch) return;
      p.image_bytes = static_cast<extent>(items[at(p.index)].bytes);
      p.offset += items[at(p.index)].offset;
    };
    std::size_t next = d.inner.size();
    for (stretch_member& m : d.plan->members) {
      m.scratch_at = items[next++].offset;
      for (stretch_place& p : m.operands) settle_place(p);
      for (stretch_place& p : m.outputs) settle_place(p);
    }
  }

  /// The stretch is part of the plan: what is inside it has no bytes, and its scratch is that of all.
  void settle(draft d) {
    int const index = static_cast<int>(plan_.strips.size());
    for (int g = d.strip.first; g <= d.strip.last; ++g) {
      group_plan& group = plan_.groups[at(g)];
      if (group.strip >= 0)
        plan_.strips[at(group.strip)].within = index;
      else
        group.strip = index;
      group.whole.clear();
      plan_.items[at(group.scratch)].bytes =
          g == d.strip.last ? d.strip.kernel->scratch_bytes() : 0;
      for (place& p : group.operands) settle_place(p, d);
      for (place& p : group.outputs) settle_place(p, d);
    }
    plan_.strips.push_back(std::move(d.strip));
  }
  void settle_place(place& p, draft const& d) {
    if (p.from != source::arena) return;
    arena_item& item = plan_.items[at(p.index)];
    if (is_inner(d, p)) {
      item.bytes = 0;
      p.from = source::strip;
    } else {
      item.first = (std::min)(item.first, d.strip.first);
      item.last = (std::max)(item.last, d.strip.last);
    }
  }

  program_plan& plan_;
  options const& options_;
  std::vector<users> users_;
  std::vector<unit> units_;
  extent weight_bytes_ = 0;
};

}  // namespace sinter::inline SINTER_ABI::detail
