// Joins neighbouring groups of a program to strips, after dispatch has chosen their kernels.
//
// A group joins the one before it where it alone reads a value of that one, row by row, and both kernels can compute
// rows by themselves. What is stored between them then loses its place in the arena; everything else that the groups
// read and write stays alive until the strip has run. Whether it is worth it, run/strip_rules.hpp says. Every "no" is
// kept for explain(). The plan, its rounding points and its numbers stay what they are.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "../base/join.hpp"
#include "program_plan.hpp"
#include "strip_rules.hpp"

namespace sinter::inline SINTER_ABI::detail {

/// Why a rule of strips or stretches decided, for explain().
inline std::string text_of_rule(std::string_view name, std::string_view reason, options const& o) {
  return join(
      {"rule '", name, "': ", reason, o.tune ? " (options::tune measures kernels only)" : ""});
}

class strip_builder {
 public:
  strip_builder(program_plan& plan, options const& o) : plan_(plan), options_(o) {}

  /// Before the arena is planned.
  void run() {
    if (options_.strips == strip_policy::never) return;
    int const groups = static_cast<int>(plan_.groups.size());
    for (int first = 0; first < groups;) {
      int last = first;
      while (last + 1 < groups && follows(last + 1)) ++last;
      cut(first, last);
      first = last + 1;
    }
  }

 private:
  /// The value that two neighbouring groups pass on.
  struct link {
    int output = -1, item = -1;
  };

  static bool is_image(shape const& d) {
    bool known = d.size() == 4;
    for (int i = 1; known && i < 4; ++i) known = d[i] > 0;
    return known;
  }
  static bool is_dense(tensor_desc const& d) {
    if (is_dynamic(d.dims)) return d.strides.empty();
    return d.strides.empty() || same_layout(d.dims, d.strides, dense_strides(d.dims));
  }

  /// The one output of group g - 1 that group g reads.
  link link_to(int g) const {
    link found;
    group_plan const& from = plan_.group(g - 1);
    for (int o = 0; o < from.outputs.ssize(); ++o)
      for (place const& p : plan_.group(g).operands)
        if (from.outputs[o].from == source::arena && p.from == source::arena &&
            p.index == from.outputs[o].index)
          found = {o, p.index};
    return found;
  }

  /// Can group g run in a strip with the one before it? If not, and it reads that one's value, it notes why.
  bool follows(int g) {
    link const l = link_to(g);
    if (l.item < 0) return false;
    std::string const why = why_not(g, l);
    plan_.groups[at(g)].apart = why;
    return why.empty();
  }
  std::string why_not(int g, link const& l) const {
    group_plan const& from = plan_.group(g - 1);
    group_plan const& to = plan_.group(g);
    tensor_desc const& made = from.problem.outputs[at(l.output)];
    if (plan_.in_place_input >= 0) return "options::in_place is given";
    for (int other = 0; other < static_cast<int>(plan_.groups.size()); ++other)
      if (std::string why = shared(other, g, l); !why.empty()) return why;
    if (!is_image(made.dims) || !is_image(from.problem.domain) || !is_image(to.problem.domain))
      return join({"the value between is ", to_string(made.dims),
                   "; images N,H,W,C whose extents but for N are known are wanted"});
    if (from.problem.chain.pooling() >= 0 || to.problem.chain.pooling() >= 0)
      return "a pooling has blocks of its own";
    if (!is_dense(made)) return "the value between is a part of a wider one";
    for (int i = 0; i < to.operands.ssize(); ++i)
      if (to.operands[i].from == source::arena && to.operands[i].index == l.item &&
          (!(to.problem.operands[at(i)].dims == made.dims) ||
           !is_dense(to.problem.operands[at(i)])))
        return "the value between is read with other extents";
    return why_no_window(to.problem, g, l);
  }
  /// Why the item is not theirs alone, as group `other` has it.
  std::string shared(int other, int g, link const& l) const {
    group_plan const& group = plan_.group(other);
    for (int o = 0; o < group.outputs.ssize(); ++o)
      if (group.outputs[o].from == source::arena && group.outputs[o].index == l.item &&
          (other != g - 1 || o != l.output || group.outputs[o].offset != 0))
        return "the value between is a part of a wider one";
    if (other == g) return {};
    for (place const& p : group.operands)
      if (p.from == source::arena && p.index == l.item)
        return join({"group ", other, " reads the value between as well"});
    return {};
  }
  std::string why_no_window(problem const& p, int g, link const& l) const {
    chain const& c = p.chain;
    int const anchor = c.anchor();
    if (anchor >= 0 && c.steps[anchor].code != op::conv2d)
      return join({sinter::name_of(c.steps[anchor].code), " is no conv2d"});
    for (int i = 0; i < c.operands.ssize(); ++i)
      if (reads(g, i, l.item) && anchor >= 0 && c.steps[anchor].args[1] == operand_ref(i))
        return "the value between is a weight of the second";
    for (int i = 0; i < c.operands.ssize(); ++i) {
      shape const& d = p.operands[at(i)].dims;
      bool const source = anchor >= 0 && c.steps[anchor].args[0] == operand_ref(i);
      if (reads(g, i, l.item) && !source && (d[0] != p.domain[0] || d[1] != p.domain[1]))
        return "one row between is read for several";
    }
    return anchor > 0 ? "steps stand before the second one's contraction" : "";
  }
  bool reads(int g, int operand, int item) const {
    place const& p = plan_.group(g).operands[operand];
    return p.from == source::arena && p.index == item;
  }

  /// Which rows of the value from before the problem wants: those that its convolution's taps meet, its own for all
  /// other steps.
  strip_window window_of(int g, link const& l) const {
    problem const& p = plan_.group(g).problem;
    chain const& c = p.chain;
    strip_window w;
    w.height = plan_.group(g - 1).problem.outputs[at(l.output)].dims[1];
    int const anchor = c.anchor();
    for (int i = 0; i < c.operands.ssize(); ++i) {
      if (!reads(g, i, l.item) || anchor < 0 || !(c.steps[anchor].args[0] == operand_ref(i)))
        continue;
      contraction_attrs const& a = c.attrs(c.steps[anchor]);
      shape const& weight = p.operands[at(c.steps[anchor].args[1].index)].dims;
      w.stride = a.stride[0];
      w.pad = a.pad_begin[0];
      w.reach = (weight[1] - 1) * a.dilation[0] + 1;
      for (step const& s : c.steps)
        for (value_ref v : s.args)
          if (&s != &c.steps[anchor] && v == operand_ref(i))
            w.reach = (std::max)(w.reach, w.pad + 1);  // row r itself too: the stride is 1
    }
    return w;
  }

  /// Groups first to last, each of which can follow the one before it: one strip, or cut where least is passed on.
  void cut(int first, int last) {
    if (first >= last) return;
    if (last - first < max_strip_members && try_join(first, last)) return;
    int at_least = last;
    for (int g = last; g > first; --g)
      if (bytes_between(g) < bytes_between(at_least)) at_least = g;
    cut(first, at_least - 1);
    cut(at_least, last);
  }
  /// Of one image, from group g - 1 to group g.
  extent bytes_between(int g) const {
    tensor_desc const& d = plan_.group(g - 1).problem.outputs[at(link_to(g).output)];
    return d.dims[1] * d.dims[2] * d.dims[3] * size_of(d.type);
  }

  /// Makes groups first to last a strip, if all kernels can and the rules or the options want it.
  bool try_join(int first, int last) {
    auto plan = std::shared_ptr<strip_plan>(new strip_plan());
    strip_facts facts;
    facts.images = plan_.group(last).problem.domain[0];
    planned_strip s;
    s.first = first;
    s.last = last;
    for (int g = first + 1; g <= last; ++g)
      if (int const from = read_besides(first, g); from >= 0)
        return no(last, join({"group ", g, " reads another value of group ", from}));
    for (int g = first; g <= last; ++g)
      if (!add_member(*plan, s, facts, g))
        return no(last, "they have too many operands or outputs");
    plan->height = plan_.group(last).problem.domain[1];
    plan->cut(strip_budget, options_.strip_rows);
    facts.strip_bytes = plan->bytes_of(plan->rows);
    strip_rule const& rule = strip_rule_for(facts);
    std::string const because = text_of_rule(rule.name, rule.reason, options_);
    if (options_.strips == strip_policy::by_rule && !rule.joins) return no(last, because);
    for (int i = 0; i < plan->size(); ++i) {
      strip_member& m = plan->members[at(i)];
      auto by_rows = m.kernel->by_rows(plan->ranges_of(i));
      if (!by_rows) return no(last, without_prefix(by_rows.error().message));
      m.kernel = std::move(*by_rows);
    }
    plan->place();
    s.why = options_.strips == strip_policy::always ? "by options::strips" : because;
    s.how = join({"in ", plan->strips(), " strips of ", plan->rows, " rows of each image"});
    s.held = "a strip";
    s.kernel = std::shared_ptr<kernel const>(new strip_kernel(plan));
    settle(std::move(s));
    return true;
  }
  /// The group of the strip, from `first` on, of which group g reads a value that is not the one between; -1: none. Rows
  /// of such a value would be wanted that are not made yet.
  int read_besides(int first, int g) const {
    int const between = link_to(g).item;
    for (int from = first; from < g; ++from)
      for (place const& made : plan_.group(from).outputs)
        for (place const& p : plan_.group(g).operands)
          if (made.from == source::arena && p.from == source::arena && p.index == made.index &&
              (from < g - 1 || p.index != between))
            return from;
    return -1;
  }
  bool no(int g, std::string why) {
    plan_.groups[at(g)].apart = std::move(why);
    return false;
  }

  bool add_member(strip_plan& plan, planned_strip& s, strip_facts& facts, int g) const {
    group_plan const& group = plan_.group(g);
    link const before = g > s.first ? link_to(g) : link{};
    link const behind = g < s.last ? link_to(g + 1) : link{};
    strip_member m;
    m.kernel = group.chosen.kernel;
    m.problem = group.problem;
    for (int i = 0; i < group.operands.ssize(); ++i) {
      if (before.item >= 0 && reads(g, i, before.item)) {
        m.operands.push_back(-1);
        continue;
      }
      if (s.operands.full()) return false;
      m.operands.push_back(s.operands.ssize());
      s.operands.push_back(group.operands[i]);
      if (group.problem.chain.operands[i].role == role::weight)
        facts.weight_bytes += byte_span(group.problem.operands[at(i)]);
    }
    for (int o = 0; o < group.outputs.ssize(); ++o) {
      if (o == behind.output) {
        m.outputs.push_back(-1);
        continue;
      }
      if (s.outputs.full()) return false;
      m.outputs.push_back(s.outputs.ssize());
      s.outputs.push_back(group.outputs[o]);
    }
    if (before.item >= 0) m.window = window_of(g, before);
    for (contraction_attrs const& a : group.problem.chain.contractions)
      facts.depthwise = facts.depthwise || a.groups == group.problem.domain[3];
    if (behind.item >= 0) {
      tensor_desc const& d = group.problem.outputs[at(behind.output)];
      m.height = d.dims[1];
      m.row_bytes = d.dims[2] * d.dims[3] * size_of(d.type);
      facts.between_bytes += m.height * m.row_bytes;
    }
    plan.members.push_back(std::move(m));
    return true;
  }

  /// The strip is part of the plan: its values between have no bytes, and its scratch is that of all.
  void settle(planned_strip s) {
    for (int g = s.first; g <= s.last; ++g) {
      group_plan& group = plan_.groups[at(g)];
      group.strip = static_cast<int>(plan_.strips.size());
      plan_.items[at(group.scratch)].bytes = g == s.last ? s.kernel->scratch_bytes() : 0;
      for (place const& p : group.operands) keep_alive(p, s);
      for (place const& p : group.outputs) keep_alive(p, s);
      if (g == s.first) continue;
      group.apart.clear();
      link const l = link_to(g);
      plan_.items[at(l.item)].bytes = 0;
      plan_.groups[at(g - 1)].outputs[l.output].from = source::strip;
      for (place& p : group.operands)
        if (p.from == source::arena && p.index == l.item) p.from = source::strip;
    }
    plan_.strips.push_back(std::move(s));
  }
  void keep_alive(place const& p, planned_strip const& s) {
    if (p.from != source::arena) return;
    arena_item& item = plan_.items[at(p.index)];
    item.first = (std::min)(item.first, s.first);
    item.last = (std::max)(item.last, s.last);
  }

  program_plan& plan_;
  options const& options_;
};

}  // namespace sinter::inline SINTER_ABI::detail
