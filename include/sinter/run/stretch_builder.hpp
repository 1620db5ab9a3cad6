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
#include "stretch.hpp"
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
      draft_ = std::shared_ptr<stretch_plan>(new stretch_plan());
      weight_bytes_ = 0;
      int next = g;
      while (next < groups && take(next)) next = members().back().last + 1;
      // Fewer where they have too many operands or outputs together.
      while (members().size() > 1 && !try_settle()) members().pop_back();
      g = members().empty() ? last_with(g) + 1 : members().back().last + 1;
    }
  }

 private:
  std::vector<stretch_member>& members() { return draft_->members; }
  /// The last group of what runs at the time of group g: a group, or those of a strip.
  int last_with(int g) const {
    planned_strip const* const s = plan_.strip_of(g);
    return s != nullptr ? s->last : g;
  }
  /// The first and the last group that read or write each arena item.
  void find_users() {
    first_user_.assign(plan_.items.size(), -1);
    last_user_.assign(plan_.items.size(), -1);
    for (int g = 0; g < static_cast<int>(plan_.groups.size()); ++g) {
      for (place const& p : plan_.group(g).operands) use(p, g);
      for (place const& p : plan_.group(g).outputs) use(p, g);
    }
  }
  void use(place const& p, int g) {
    if (p.from != source::arena) return;
    if (first_user_[at(p.index)] < 0) first_user_[at(p.index)] = g;
    last_user_[at(p.index)] = g;
  }

  // ---- which groups

  /// Adds group g, or the strip that begins there, to the stretch if it can be, and is wanted there; if not, notes why.
  bool take(int g) {
    stretch_member m;
    m.first = g;
    m.last = last_with(g);
    m.domain = plan_.group(m.last).problem.domain;
    if (m.domain.empty() || m.domain[0] == 1) return false;
    std::string why = why_not(m);
    if (why.empty()) why = why_unwanted(m);
    if (why.empty()) {
      planned_strip const* const s = plan_.strip_of(g);
      row_range const image{0, m.domain[1]};
      auto by_rows =
          (s != nullptr ? s->kernel : plan_.group(g).chosen.kernel)->by_rows(array_view(&image, 1));
      if (by_rows) {
        m.kernel = std::move(*by_rows);
        weight_bytes_ = facts_of(m).all_weight_bytes;
        members().push_back(std::move(m));
        return true;
      }
      why = without_prefix(by_rows.error().message);
    }
    plan_.groups[at(g)].whole = std::move(why);
    return false;
  }
  std::string why_unwanted(stretch_member const& m) {
    stretch_rule const& rule = stretch_rule_for(facts_of(m));
    std::string text = text_of_rule(rule.name, rule.reason, options_);
    if (options_.stretches == strip_policy::by_rule && !rule.joins) return text;
    because_ = std::move(text);
    return {};
  }
  std::string why_not(stretch_member const& m) {
    for (int g = m.first; g <= m.last; ++g) {
      group_plan const& group = plan_.group(g);
      problem const& p = group.problem;
      if (!are_images(p.domain)) return not_images(p.domain);
      if (!members().empty() && p.domain[0] != members()[0].domain[0])
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

  stretch_facts facts_of(stretch_member const& m) const {
    stretch_facts f;
    f.images = m.domain[0];
    f.threads = plan_.threads;
    for (int g = m.first; g <= m.last; ++g) {
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

  // ---- the stretch of the members at hand

  /// False, and nothing done, where they have too many operands or outputs.
  bool try_settle() {
    planned_strip s;
    s.first = members().front().first;
    s.last = members().back().last;
    draft_->items.clear();
    draft_->work = 0;
    inner_.assign(plan_.items.size(), -1);
    for (int i = 0; i < static_cast<int>(members().size()); ++i)
      if (!give_places(s, i)) return false;
    for (int i = 0; i < static_cast<int>(members().size()); ++i)
      draft_->items.push_back({members()[at(i)].kernel->scratch_bytes(), i, i, 0});
    std::vector<int> order(draft_->items.size());
    draft_->scratch_bytes = plan_arena(draft_->items, order);
    draft_->constants = plan_.constants;
    s.kernel = std::shared_ptr<kernel const>(new stretch_kernel(draft_));
    s.how = "image by image";
    s.held = "an image";
    s.why = options_.stretches == strip_policy::always ? "by options::stretches" : because_;
    settle(std::move(s));
    return true;
  }
  bool is_inner(planned_strip const& s, place const& p) const {
    return p.from == source::arena && s.first <= first_user_[at(p.index)] &&
           last_user_[at(p.index)] <= s.last;
  }

  bool give_places(planned_strip& s, int index) {
    stretch_member& m = members()[at(index)];
    planned_strip const* const strip = plan_.strip_of(m.first);
    group_plan const& group = plan_.group(m.first);
    m.operands = strip != nullptr ? strip->operands : group.operands;
    m.outputs = strip != nullptr ? strip->outputs : group.outputs;
    for (int g = m.first; g <= m.last; ++g) draft_->work += work_of_image(plan_.group(g).problem);
    bool fits = true;
    for (place& p : m.operands)
      fits = fits && (settled_inside(s, p, index) || settled_in(s.operands, p, source::input));
    for (place& p : m.outputs)
      fits = fits && (settled_inside(s, p, index) || settled_in(s.outputs, p, source::output));
    return fits;
  }
  /// Constants, and what only members read and write.
  bool settled_inside(planned_strip const& s, place& p, int member) {
    if (p.from == source::constant) return true;
    if (!is_inner(s, p)) return false;
    int& item = inner_[at(p.index)];
    if (item < 0) {
      item = static_cast<int>(draft_->items.size());
      draft_->items.push_back({bytes_of_image(p.index), member, member, 0});
    }
    p.index = item;
    draft_->items[at(item)].last = member;
    return true;
  }
  /// One of the stretch's own operands or outputs, each once. False: there is no room.
  template <class Places>
  static bool settled_in(Places& own, place& p, source from) {
    place const base{p.from, p.index, 0};
    int i = 0;
    while (i < own.ssize() && (own[i].from != base.from || own[i].index != base.index)) ++i;
    if (i == own.ssize() && own.full()) return false;
    if (i == own.ssize()) own.push_back(base);
    p = {from, i, p.from == source::arena ? p.offset : 0};
    return true;
  }
  std::size_t bytes_of_image(int item) const {
    item_maker const& m = plan_.makers[at(item)];
    tensor_desc const& made = plan_.group(m.group).problem.outputs[at(m.output)];
    shape dims = m.dims(made.dims);
    if (dims[0] != dynamic) return plan_.items[at(item)].bytes / static_cast<std::size_t>(dims[0]);
    dims[0] = 1;
    return static_cast<std::size_t>(element_count(dims) * size_of(made.type));
  }

  /// The stretch is part of the plan: what is inside it has no bytes, and its scratch is that of all.
  void settle(planned_strip s) {
    int const index = static_cast<int>(plan_.strips.size());
    for (int g = s.first; g <= s.last; ++g) {
      group_plan& group = plan_.groups[at(g)];
      (group.strip >= 0 ? plan_.strips[at(group.strip)].within : group.strip) = index;
      group.whole.clear();
      plan_.items[at(group.scratch)].bytes = g == s.last ? s.kernel->scratch_bytes() : 0;
      for (place& p : group.operands) settle_place(p, s);
      for (place& p : group.outputs) settle_place(p, s);
    }
    plan_.strips.push_back(std::move(s));
  }
  void settle_place(place& p, planned_strip const& s) {
    if (p.from != source::arena) return;
    arena_item& item = plan_.items[at(p.index)];
    if (is_inner(s, p)) {
      item.bytes = 0;
      p.from = source::strip;
    } else {
      item.first = (std::min)(item.first, s.first);
      item.last = (std::max)(item.last, s.last);
    }
  }

  program_plan& plan_;
  options const& options_;
  std::vector<int> first_user_, last_user_;  ///< of the arena's items
  std::vector<int> inner_;                   ///< of the arena's items: those of the stretch
  std::shared_ptr<stretch_plan> draft_;
  std::string because_;  ///< the rule that took the last member
  extent weight_bytes_ = 0;
};

}  // namespace sinter::inline SINTER_ABI::detail
