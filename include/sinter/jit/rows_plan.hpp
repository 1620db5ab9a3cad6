// The plan of a row kernel: a chain without a contraction, cut into passes over the columns of a
// row.
//
// A value is wide (one element per column) or a scalar of its row: what a reduction makes, what has
// one column, what follows from these alone. A pass walks the columns once; a reduction is ready
// after the pass that makes its argument, so what reads it belongs to the next level. Level by
// level a row is computed so: the scalars of the level, each once, then its pass. A wide value is
// made in the first pass that wants it. Later passes find it in the kept values (f32, one row long,
// in a cache) or make it again where that is one cheap step on an operand. Each pass and each group
// of scalars is a chain of its own, for the same epilogue as behind a product. Values only; the
// code is jit/rows.hpp's.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "../base/join.hpp"
#include "../base/status.hpp"
#include "epilogue_needs.hpp"

namespace sinter::inline SINTER_ABI::jit {

/// Where a value lies that a stage reads or writes.
enum class row_home : unsigned char {
  operand,  ///< operand of the whole chain
  output,   ///< output of the whole chain
  kept,     ///< a wide value between two passes
  scalar,   ///< a scalar of the row
};
struct row_value {
  row_home home = row_home::operand;
  int index = 0;
  friend bool operator==(row_value const&, row_value const&) = default;
};

/// A chain of its own: pointwise steps and reductions.
struct row_stage {
  struct reduction {
    int step = 0;    ///< of this stage's chain
    int scalar = 0;  ///< where its result goes
    bool rounded = false;
  };
  sinter::chain chain;
  inline_vector<row_value, max_operands> reads;  ///< one per operand of the chain
  inline_vector<row_value, max_outputs> writes;  ///< one per output
  inline_vector<reduction, max_steps> reductions;
};

struct row_level {
  std::vector<row_stage> scalars;
  row_stage pass;  ///< without steps: there is none
};

struct rows_plan {
  struct scalar_output {
    int output = 0, scalar = 0;
  };
  std::vector<row_level> levels;
  int kept = 0, scalars = 0;
  std::vector<scalar_output> scalar_outputs;

  bool reduces() const {
    for (row_level const& l : levels)
      if (!l.pass.reductions.empty()) return true;
    return false;
  }
};

/// Of operands: bit i.
using operand_set = std::uint32_t;

class rows_planner {
 public:
  /// `wide`: the operands with an element for each column. `keep`: values may be kept from pass to
  /// pass; otherwise they are made again. `in_place`: output 0 overwrites an operand, so it is
  /// stored in the last pass.
  rows_planner(chain const& c, operand_set wide, bool keep, bool in_place)
      : c_(c), wide_operands_(wide), keep_(keep), in_place_(in_place) {}

  /// The plan, or the limit that the chain passes.
  result<rows_plan> make() {
    find_levels();
    find_places();
    find_scalars();
    plan_.levels.resize(static_cast<std::size_t>(levels_));
    for (int level = levels_ - 1; level >= 0; --level) find_members(level);
    for (int level = 0; level < levels_; ++level) {
      make_scalars(level);
      make_pass(level);
    }
    for (int o = 0; o < c_.outputs.ssize(); ++o)
      if (int const v = c_.outputs[o].value.index; !of(v).wide)
        plan_.scalar_outputs.push_back({o, of(v).scalar});
    if (!too_much_.empty()) return failure{code::unsupported, too_much_};
    return std::move(plan_);
  }

 private:
  struct fact {
    bool wide = false;
    int level = 0;   ///< everything that it reads is ready
    int ready = 0;   ///< the first level that may read it
    int place = -1;  ///< wide: the pass that makes it first; -1: nobody wants it
    int scalar = -1, kept = -1;
    std::uint64_t passes = 0;  ///< wide: that make it
  };
  fact& of(int step) { return facts_[static_cast<std::size_t>(step)]; }

  bool is_wide(value_ref v) {
    if (v.kind == value_kind::operand) return (wide_operands_ >> v.index & 1U) != 0;
    return v.kind == value_kind::step && of(v.index).wide;
  }
  /// A reduction of a wide value; that of a scalar is the scalar itself, or column 0.
  bool reduces(int i) { return is_reduction(c_.steps[i].code) && is_wide(c_.steps[i].args[0]); }

  void find_levels() {
    for (int i = 0; i < c_.steps.ssize(); ++i) {
      fact& f = of(i);
      for (value_ref v : c_.steps[i].args) {
        if (v.kind == value_kind::step) f.level = (std::max)(f.level, of(v.index).ready);
        f.wide = f.wide || is_wide(v);
      }
      f.ready = f.level + (reduces(i) ? 1 : 0);
      f.wide = f.wide && !reduces(i);
      levels_ = (std::max)(levels_, f.ready + 1);
      if (f.wide || reduces(i)) last_pass_ = (std::max)(last_pass_, f.level);
    }
  }

  int pass_of_output(int o) {
    return in_place_ && o == 0 ? last_pass_ : of(c_.outputs[o].value.index).level;
  }
  /// Each value is made where its first reader is; readers come after it in the chain.
  void find_places() {
    auto const wanted = [&](value_ref v, int pass) {
      if (v.kind != value_kind::step || !of(v.index).wide) return;
      int& place = of(v.index).place;
      place = place < 0 ? pass : (std::min)(place, pass);
    };
    for (int o = 0; o < c_.outputs.ssize(); ++o) wanted(c_.outputs[o].value, pass_of_output(o));
    for (int i = c_.steps.ssize() - 1; i >= 0; --i)
      for (value_ref v : c_.steps[i].args) {
        if (reduces(i)) wanted(v, of(i).level);
        if (of(i).wide && of(i).place >= 0) wanted(v, of(i).place);
      }
  }
  void find_scalars() {
    for (int i = 0; i < c_.steps.ssize(); ++i)
      if (!of(i).wide) of(i).scalar = plan_.scalars++;
  }

  /// Is making value v again as good as loading it?
  bool is_made_again(int v) {
    if (!keep_) return true;
    step const& s = c_.steps[v];
    if (s.rounded || (s.code != op::add && s.code != op::sub && s.code != op::mul)) return false;
    for (value_ref a : s.args)
      if (a.kind == value_kind::step && of(a.index).wide) return false;
    return true;
  }
  /// A pass wants value v: it makes it, or an earlier one keeps it.
  void want(value_ref v, int pass) {
    if (v.kind != value_kind::step || !of(v.index).wide) return;
    fact& f = of(v.index);
    if (f.place == pass || is_made_again(v.index))
      f.passes |= std::uint64_t{1} << pass;
    else if (f.kept < 0)
      f.kept = plan_.kept++;
  }
  void find_members(int pass) {
    std::uint64_t const bit = std::uint64_t{1} << pass;
    for (int o = 0; o < c_.outputs.ssize(); ++o)
      if (pass_of_output(o) == pass) want(c_.outputs[o].value, pass);
    for (int i = c_.steps.ssize() - 1; i >= 0; --i) {
      if (of(i).kept >= 0 && of(i).place == pass) of(i).passes |= bit;
      bool const here = reduces(i) ? of(i).level == pass : (of(i).passes & bit) != 0;
      if (here)
        for (value_ref v : c_.steps[i].args) want(v, pass);
    }
  }

  // ---- the chains of stages --------------------------------------------------------------------

  void begin(row_stage& s) {
    s.chain.constants = c_.constants;
    s.chain.precision = c_.precision;
    local_.fill(-1);
  }
  value_ref read(row_stage& s, row_value what, dtype type) {
    for (int i = 0; i < s.reads.ssize(); ++i)
      if (s.reads[i] == what) return operand_ref(i);
    if (s.reads.full()) {
      refuse("reads", max_operands);
      return operand_ref(0);
    }
    operand o;
    o.type = type;
    s.chain.operands.push_back(o);
    s.reads.push_back(what);
    return operand_ref(s.reads.ssize() - 1);
  }
  value_ref argument(row_stage& s, value_ref v) {
    if (v.kind == value_kind::operand)
      return read(s, {row_home::operand, v.index}, c_.operands[int{v.index}].type);
    if (v.kind != value_kind::step) return v;
    if (int const local = local_[static_cast<std::size_t>(v.index)]; local >= 0)
      return step_ref(local);
    fact const& f = of(v.index);
    return f.wide ? read(s, {row_home::kept, f.kept}, dtype::f32)
                  : read(s, {row_home::scalar, f.scalar}, dtype::f32);
  }
  void append(row_stage& s, int i) {
    step copy = c_.steps[i];
    for (value_ref& v : copy.args) v = argument(s, v);
    local_[static_cast<std::size_t>(i)] = s.chain.steps.ssize();
    s.chain.steps.push_back(copy);
  }
  void write(row_stage& s, row_value what, int step, dtype type) {
    if (s.writes.full()) return refuse("writes", max_outputs);
    output o;
    o.value = step_ref(step);
    o.type = type;
    s.chain.outputs.push_back(o);
    s.writes.push_back(what);
  }
  void refuse(std::string_view does, int limit) {
    too_much_ =
        sinter::detail::join({"sinter: jit: a pass over the columns ", does, " more than ", limit,
                              " values; let fewer of them live from one reduction to the next"});
  }

  void make_pass(int pass) {
    row_stage& s = plan_.levels[static_cast<std::size_t>(pass)].pass;
    begin(s);
    for (int i = 0; i < c_.steps.ssize(); ++i) {
      if (reduces(i) && of(i).level == pass) {
        append(s, i);
        s.chain.steps.back().rounded = false;
        s.reductions.push_back({s.chain.steps.ssize() - 1, of(i).scalar, c_.steps[i].rounded});
      } else if ((of(i).passes >> pass & 1U) != 0) {
        append(s, i);
        if (of(i).kept >= 0 && of(i).place == pass)
          write(s, {row_home::kept, of(i).kept}, s.chain.steps.ssize() - 1, dtype::f32);
      }
    }
    for (int o = 0; o < c_.outputs.ssize(); ++o) {
      output const& out = c_.outputs[o];
      if (of(out.value.index).wide && pass_of_output(o) == pass)
        write(s, {row_home::output, o}, stored(s, out.value), out.type);
    }
  }
  /// The step of a stage that holds a value to be stored; one that an earlier pass kept is loaded.
  int stored(row_stage& s, value_ref v) {
    int const local = local_[static_cast<std::size_t>(v.index)];
    if (local >= 0) return local;
    if (s.chain.steps.full()) {
      refuse("computes", max_steps);
      return 0;
    }
    step load;
    load.code = op::cast;
    load.args[0] = argument(s, v);
    s.chain.steps.push_back(load);
    return s.chain.steps.ssize() - 1;
  }

  /// The scalars of a level in one chain, or, where too many of them are read elsewhere, in chains
  /// of one step.
  void make_scalars(int level) {
    std::vector<int> steps;
    for (int i = 0; i < c_.steps.ssize(); ++i)
      if (!of(i).wide && !reduces(i) && of(i).level == level) steps.push_back(i);
    std::vector<row_stage>& stages = plan_.levels[static_cast<std::size_t>(level)].scalars;
    int read_elsewhere = 0;
    for (int i : steps) read_elsewhere += is_read_outside(i, level) ? 1 : 0;
    bool const together = read_elsewhere <= max_outputs;
    for (int i : steps) {
      if (stages.empty() || !together) begin(stages.emplace_back());
      row_stage& s = stages.back();
      append(s, i);
      if (is_reduction(c_.steps[i].code)) as_reduced_scalar(s.chain.steps.back());
      if (!together || is_read_outside(i, level))
        write(s, {row_home::scalar, of(i).scalar}, s.chain.steps.ssize() - 1, dtype::f32);
    }
  }
  bool is_read_outside(int scalar, int level) {
    for (output const& o : c_.outputs)
      if (o.value == step_ref(scalar)) return true;
    for (int i = 0; i < c_.steps.ssize(); ++i)
      for (value_ref v : c_.steps[i].args)
        if (v == step_ref(scalar) && (of(i).wide || of(i).level != level)) return true;
    return false;
  }
  /// One column is its own sum, mean and maximum; the largest is in column 0, and a < a is 0 for
  /// NaN as well.
  static void as_reduced_scalar(step& s) {
    bool const index = s.code == op::argmax;
    s.code = index ? op::lt : op::cast;
    s.to = dtype::f32;
    if (index) s.args[1] = s.args[0];
  }

  chain const& c_;
  operand_set wide_operands_;
  bool keep_, in_place_;
  int levels_ = 1, last_pass_ = 0;
  std::array<fact, max_steps> facts_;
  std::array<int, max_steps> local_{};
  rows_plan plan_;
  std::string too_much_;
};

}  // namespace sinter::inline SINTER_ABI::jit
