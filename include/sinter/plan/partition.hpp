// Graph -> plan: cuts an expression into the largest legal groups, from structure alone, in a constant expression.
//
//   constexpr auto plan = sinter::partition(expr);
//   static_assert(plan.group_count() == 2);
//
// The rules: each contraction opens a group. A pointwise step goes to the latest group that it reads from, so it costs
// no pass of its own; so does a pooling, unless that group has one, and one that reads no group opens its own. What reads
// a value behind a pooling and one before it is a group of its own: their extents differ. A step that reads no contraction's value sinks into the one group that reads it, unless it feeds
// a contraction there or several groups read it: then it is a group of its own. So is what reads a reduction and would
// sink into a contraction's group: its rows need not be as long. A value that another group reads is stored once per
// dtype: as the operand's dtype where a contraction reads it, as the src dtype where it is a let, and in f32 otherwise,
// so that a cut never adds a rounding point. Groups are in an order in which they can run.
#pragma once

#include "flatten.hpp"

namespace sinter::inline SINTER_ABI {

namespace detail {

/// Where each step goes. Works on any chain-like graph.
template <graph_size Size>
class partitioner {
 public:
  static constexpr std::size_t capacity = Size.steps > 0 ? static_cast<std::size_t>(Size.steps) : 1;

  constexpr explicit partitioner(graph<Size> const& source_graph) : graph_(source_graph) {
    follow_contractions();
    place_the_rest();
    put_in_order();
  }
  constexpr int group_of(int step) const { return group_[step]; }
  constexpr int group_count() const { return count_; }

 private:
  /// A contraction opens a group; what reads from groups joins the latest of them.
  constexpr void follow_contractions() {
    group_.resize(static_cast<std::size_t>(graph_.steps.ssize()), -1);
    inline_vector<bool, capacity> pooled;  // behind the pooling of its group
    inline_vector<bool, capacity> pools;   // of a group: it has a pooling
    pooled.resize(static_cast<std::size_t>(graph_.steps.ssize()));
    pools.resize(static_cast<std::size_t>(graph_.steps.ssize()));
    for (int i = 0; i < graph_.steps.ssize(); ++i) {
      step const& s = graph_.steps[i];
      if (s.contraction >= 0) {
        group_[i] = count_++;
        continue;
      }
      int latest = -1;
      for (value_ref a : s.args)
        if (a.kind == value_kind::step && group_[int{a.index}] > latest)
          latest = group_[int{a.index}];
      bool behind = false, before = false;
      for (value_ref a : s.args) {
        if (a.kind != value_kind::step || latest < 0 || group_[int{a.index}] != latest) continue;
        (pooled[int{a.index}] ? behind : before) = true;
      }
      bool const opens = s.pooling >= 0 ? latest < 0 || pools[latest] : behind && before;
      group_[i] = opens ? count_++ : latest;
      pooled[i] = s.pooling >= 0 || (behind && !opens);
      if (s.pooling >= 0) pools[group_[i]] = true;
    }
  }
  /// Last first: a step without a contraction before it sinks into its only reader's group, or opens one. Before a
  /// pooling or behind it, not both.
  constexpr void place_the_rest() {
    int const contractions = count_;
    inline_vector<bool, capacity> reads_rows;  // a reduction comes before it, or it is one
    for (step const& s : graph_.steps) {
      bool found = is_reduction(s.code);
      for (value_ref a : s.args)
        found = found || (a.kind == value_kind::step && reads_rows[int{a.index}]);
      reads_rows.push_back(found);
    }
    inline_vector<bool, capacity> feeds_pooling;
    feeds_pooling.resize(static_cast<std::size_t>(graph_.steps.ssize()));
    for (int i = graph_.steps.ssize() - 1; i >= 0; --i) {
      if (group_[i] >= 0) continue;
      int reader = -1;
      bool alone = true, pooled = false, plain = false;
      for (int j = i + 1; j < graph_.steps.ssize(); ++j)
        for (int a = 0; a < 3; ++a) {
          if (!(graph_.steps[j].args[a] == step_ref(i))) continue;
          if (graph_.steps[j].contraction >= 0 || (reader >= 0 && reader != group_[j]))
            alone = false;
          reader = group_[j];
          (graph_.steps[j].pooling >= 0 || feeds_pooling[j] ? pooled : plain) = true;
        }
      if (pooled && plain) alone = false;
      if (reads_rows[i] && reader < contractions) alone = false;
      feeds_pooling[i] = pooled && alone;
      group_[i] = alone && reader >= 0 ? reader : count_++;
    }
  }
  /// Renumbers the groups so that each comes after those that it reads.
  constexpr void put_in_order() {
    if (capacity == 1 || in_order()) return;  // one step: and g++ 12 would warn of index 1 below
    inline_vector<int, capacity> number;
    number.resize(static_cast<std::size_t>(count_), -1);
    int next = 0;
    while (next < count_) {
      int ready = -1;
      for (int g = 0; g < count_ && ready < 0; ++g)
        if (number[g] < 0 && inputs_numbered(g, number)) ready = g;
      if (ready < 0) break;
      number[ready] = next++;
    }
    for (int& g : group_) g = number[g];
  }
  constexpr bool in_order() const {
    for (int i = 0; i < graph_.steps.ssize(); ++i)
      for (value_ref a : graph_.steps[i].args)
        if (a.kind == value_kind::step && group_[int{a.index}] > group_[i]) return false;
    return true;
  }
  constexpr bool inputs_numbered(int g, inline_vector<int, capacity> const& number) const {
    for (int i = 0; i < graph_.steps.ssize(); ++i) {
      if (group_[i] != g) continue;
      for (value_ref a : graph_.steps[i].args)
        if (a.kind == value_kind::step && group_[int{a.index}] != g &&
            number[group_[int{a.index}]] < 0)
          return false;
    }
    return true;
  }

  graph<Size> const& graph_;
  inline_vector<int, capacity> group_;
  int count_ = 0;
};

}  // namespace detail

/// A partitioned expression. group(i) is a chain: plain data with ==, text() and a hash (plan/text.hpp).
template <graph_size Size>
class plan {
 public:
  constexpr plan(graph<Size> const& source_graph, precision const& dtypes) : graph_(source_graph) {
    graph_.precision = dtypes;
    assign_types();
    if (graph_.broken != fault::none) return;
    detail::partitioner<Size> const parts(graph_);
    group_count_ = parts.group_count();
    for (int i = 0; i < graph_.steps.ssize(); ++i) group_of_.push_back(parts.group_of(i));
    if (!groups_fit()) graph_.broken = fault::group_too_long;
  }

  constexpr int group_count() const { return group_count_; }
  constexpr fault broken() const { return graph_.broken; }
  constexpr graph<Size> const& source() const { return graph_; }

  /// Group i, in the order in which they run.
  constexpr chain group(int i) const {
    chain c;
    c.precision = graph_.precision;
    inline_vector<std::int16_t, detail::partitioner<Size>::capacity> local;
    local.resize(static_cast<std::size_t>(graph_.steps.ssize()), std::int16_t{-1});
    for (int s = 0; s < graph_.steps.ssize(); ++s)
      if (group_of_[s] == i) {
        local[s] = static_cast<std::int16_t>(c.steps.ssize());
        c.steps.push_back(translated(c, graph_.steps[s], i, local));
      }
    for (int s = 0; s < graph_.steps.ssize(); ++s)
      if (group_of_[s] == i) add_outputs(c, s, i, local[s]);
    return c;
  }

 private:
  /// dtypes of the operands, from the precision: by what a contraction reads, then by role.
  constexpr void assign_types() {
    precision const& p = graph_.precision;
    for (graph_operand& o : graph_.operands) o.type = o.role == role::tensor ? p.residual : p.bias;
    for (step const& s : graph_.steps) {
      if (s.contraction < 0) continue;
      for (int a = 0; a < 2; ++a)
        if (s.args[a].kind == value_kind::operand)
          graph_.operands[int{s.args[a].index}].type = operand_type(s, a);
    }
  }
  constexpr dtype operand_type(step const& reader, int argument) const {
    value_ref const v = reader.args[argument];
    bool const packed =
        v.kind == value_kind::operand && graph_.operands[int{v.index}].role == role::weight;
    return packed ? graph_.precision.weight : graph_.precision.src;
  }
  /// What the value of step s is stored as for a step of another group that reads it.
  constexpr dtype stored_type(int s, step const& reader, int argument) const {
    if (reader.contraction >= 0) return operand_type(reader, argument);
    return graph_.steps[s].rounded ? graph_.precision.src : dtype::f32;
  }
  constexpr name_text stored_name(int s, dtype type) const {
    name_text name;
    for (let_entry const& l : graph_.lets)
      if (l.value == step_ref(s)) name = l.name;
    if (name.empty()) {
      name.append("%");
      name.append_number(s);
    }
    if (type != (graph_.steps[s].rounded ? graph_.precision.src : dtype::f32)) {
      name.append(".");
      name.append(name_of(type));
    }
    return name;
  }

  template <class Local>
  constexpr step translated(chain& c, step s, int group, Local const& local) const {
    step const original = s;
    if (s.contraction >= 0) {
      c.contractions.push_back(graph_.contractions[int{original.contraction}]);
      s.contraction = static_cast<std::int16_t>(c.contractions.ssize() - 1);
    }
    if (s.pooling >= 0) {
      c.poolings.push_back(graph_.poolings[int{original.pooling}]);
      s.pooling = static_cast<std::int16_t>(c.poolings.ssize() - 1);
    }
    for (int a = 0; a < 3; ++a) {
      value_ref const v = original.args[a];
      if (v.kind == value_kind::constant)
        s.args[a] = constant_ref(constant_index(c, graph_.constants[int{v.index}]));
      if (v.kind == value_kind::operand)
        s.args[a] = operand_ref(operand_index(c, external(graph_.operands[int{v.index}])));
      if (v.kind != value_kind::step) continue;
      if (group_of_[int{v.index}] == group) {
        s.args[a] = step_ref(local[int{v.index}]);
      } else {
        dtype const type = stored_type(int{v.index}, original, a);
        s.args[a] = operand_ref(
            operand_index(c, {stored_name(int{v.index}, type), role::tensor, type, true, shape{}}));
      }
    }
    return s;
  }
  static constexpr operand external(graph_operand const& o) {
    return {o.name, o.role, o.type, false, o.static_dims};
  }
  static constexpr int operand_index(chain& c, operand const& o) {
    for (int i = 0; i < c.operands.ssize(); ++i)
      if (c.operands[i].name == o.name) return i;
    c.operands.push_back(o);
    return c.operands.ssize() - 1;
  }
  static constexpr int constant_index(chain& c, float v) {
    for (int i = 0; i < c.constants.ssize(); ++i)
      if (std::bit_cast<std::uint32_t>(c.constants[i]) == std::bit_cast<std::uint32_t>(v)) return i;
    c.constants.push_back(v);
    return c.constants.ssize() - 1;
  }

  /// An index is stored as it is, whatever the precision of other outputs.
  constexpr dtype output_type(int s) const {
    return graph_.steps[s].code == op::argmax ? dtype::f32 : graph_.precision.dst;
  }
  constexpr void add_outputs(chain& c, int s, int group, std::int16_t local) const {
    for (graph_output const& o : graph_.outputs)
      if (o.value == step_ref(s))
        c.outputs.push_back({o.name, step_ref(local), output_type(s), false});
    for (int reader = s + 1; reader < graph_.steps.ssize(); ++reader) {
      if (group_of_[reader] == group) continue;
      for (int a = 0; a < 3; ++a) {
        if (!(graph_.steps[reader].args[a] == step_ref(s))) continue;
        dtype const type = stored_type(s, graph_.steps[reader], a);
        output const o{stored_name(s, type), step_ref(local), type, true};
        bool known = false;
        for (output const& other : c.outputs) known = known || other == o;
        if (!known) c.outputs.push_back(o);
      }
    }
  }

  struct group_load {
    int steps = 0, reads = 0, stores = 0;
  };
  /// Is there room in a chain for each group? Reads are counted once for each argument, and once more for each
  /// operand only where that bound is passed: a group of that size is rare.
  constexpr bool groups_fit() const {
    inline_vector<group_load, detail::partitioner<Size>::capacity> loads;
    loads.resize(static_cast<std::size_t>(group_count_));
    inline_vector<std::uint8_t, detail::partitioner<Size>::capacity> stored;  // bit: dtype
    stored.resize(static_cast<std::size_t>(graph_.steps.ssize()));
    for (int s = 0; s < graph_.steps.ssize(); ++s) {
      group_load& load = loads[group_of_[s]];
      ++load.steps;
      for (int a = 0; a < 3; ++a) {
        value_ref const v = graph_.steps[s].args[a];
        if (v.kind == value_kind::none) continue;
        bool const inside = v.kind == value_kind::step && group_of_[int{v.index}] == group_of_[s];
        if (inside) continue;
        ++load.reads;
        if (v.kind != value_kind::step) continue;
        auto const bit = static_cast<std::uint8_t>(
            1U << static_cast<int>(stored_type(v.index, graph_.steps[s], a)));
        if ((stored[int{v.index}] & bit) == 0) ++loads[group_of_[int{v.index}]].stores;
        stored[int{v.index}] = static_cast<std::uint8_t>(stored[int{v.index}] | bit);
      }
    }
    for (graph_output const& o : graph_.outputs) ++loads[group_of_[int{o.value.index}]].stores;
    for (int i = 0; i < group_count_; ++i) {
      if (loads[i].steps > max_steps || loads[i].stores > max_outputs) return false;
      if (loads[i].reads > max_operands && !reads_fit(i)) return false;
    }
    return true;
  }
  constexpr bool reads_fit(int group) const {
    int operands = 0, constants = 0;
    for (int s = 0; s < graph_.steps.ssize(); ++s)
      for (int a = 0; a < 3 && group_of_[s] == group; ++a) {
        value_ref const v = graph_.steps[s].args[a];
        bool const outside = v.kind == value_kind::operand || v.kind == value_kind::constant ||
                             (v.kind == value_kind::step && group_of_[int{v.index}] != group);
        if (outside && first_read(group, s, a))
          ++(v.kind == value_kind::constant ? constants : operands);
      }
    return operands <= max_operands && constants <= max_constants;
  }
  constexpr bool first_read(int group, int s, int argument) const {
    value_ref const v = graph_.steps[s].args[argument];
    for (int earlier = 0; earlier <= s; ++earlier)
      for (int a = 0; a < (earlier == s ? argument : 3) && group_of_[earlier] == group; ++a)
        if (graph_.steps[earlier].args[a] == v) return false;
    return true;
  }

  graph<Size> graph_;
  inline_vector<int, detail::partitioner<Size>::capacity> group_of_;
  int group_count_ = 0;
};

/// The plan of an expression. In a constant expression a broken rule stops the compiler at a function whose name is
/// the sentence; elsewhere it is raised as an exception.
template <chain_expression E>
constexpr plan<graph_size_of<E>> partition(E const& e, precision const& p = f32) {
  plan<graph_size_of<E>> const result(flatten(e), p);
  require_no_fault(result.broken());
  return result;
}

}  // namespace sinter::inline SINTER_ABI
