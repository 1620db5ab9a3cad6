// What a chain asks of an epilogue, seen from the chain alone: who reads a value last, which steps
// work in place, how many vector registers are in use at a time.
//
// The walk (jit/epilogue_walk.hpp) emits by these rules, so what is counted here is what it takes.
#pragma once

#include "../plan/chain.hpp"
#include "eltwise.hpp"
#include "operand.hpp"
#include "reduction.hpp"

namespace sinter::inline SINTER_ABI::jit {

/// What the emission of one step needs, seen from the chain alone.
struct step_needs {
  bool in_place = false;  ///< works on the register of its first argument
  bool swapped = false;  ///< works on its second one: add and mul whose first argument does not die
  int loads = 0;  ///< arguments (beside the one worked on) that may want a register of their own
  int temporaries = 0;
};

constexpr int last_reader(chain const& c, int value) {
  for (output const& o : c.outputs)
    if (o.value == step_ref(value)) return c.steps.ssize();
  int last = value;
  for (int i = 0; i < c.steps.ssize(); ++i)
    for (value_ref v : c.steps[i].args)
      if (v == step_ref(value)) last = i;
  return last;
}
/// A step that was left over where others took its place: no code is made for it.
constexpr bool is_unread(chain const& c, int i) {
  return last_reader(c, i) == i && !is_reduction(c.steps[i].code);
}
constexpr int arity_of(step const& s) { return row_of(s.code).arity; }
/// Step i is the last reader of its argument j, and reads it once.
constexpr bool dies_at(chain const& c, int i, int j) {
  step const& s = c.steps[i];
  if (s.args[j].kind != value_kind::step || last_reader(c, s.args[j].index) != i) return false;
  int reads = 0;
  for (int k = 0; k < arity_of(s); ++k) reads += s.args[k] == s.args[j] ? 1 : 0;
  return reads == 1;
}

constexpr step_needs needs_of(chain const& c, int i, isa level) {
  step const& s = c.steps[i];
  step_needs n;
  if (is_reduction(s.code)) {
    n.loads = s.args[0].kind != value_kind::step ? 1 : 0;
    n.temporaries = reduction_temporaries(s.code, level);
    return n;
  }
  n.in_place = dies_at(c, i, 0);
  n.swapped = !n.in_place && (s.code == op::add || s.code == op::mul) && dies_at(c, i, 1);
  for (int j = 0; j < arity_of(s); ++j)
    if (j != (n.swapped ? 1 : 0) && s.args[j].kind != value_kind::step) ++n.loads;
  n.temporaries = temporaries_of(s.code, level);
  if (s.rounded) n.temporaries = n.temporaries > 2 ? n.temporaries : 2;
  return n;
}

/// Vector registers that the walk wants beside the accumulator it is at.
constexpr int epilogue_needs(chain const& c, int anchor, isa level) {
  int most = 0, live = anchor >= 0 ? 1 : 0;
  if (anchor >= 0 && c.steps[anchor].rounded) most = 1 + temporaries_of(op::cast, level);
  for (int i = anchor + 1; i < c.steps.ssize(); ++i) {
    if (is_unread(c, i)) continue;
    step_needs const n = needs_of(c, i, level);
    bool const works_on_argument = n.in_place || n.swapped;
    int const made = works_on_argument || is_reduction(c.steps[i].code) ? 0 : 1;
    int const now = live + made + n.loads + n.temporaries;
    most = now > most ? now : most;
    live += made;
    for (int v = anchor < 0 ? 0 : anchor; v < i; ++v) {
      bool read = false;
      for (int j = 0; j < arity_of(c.steps[i]); ++j)
        read = read || c.steps[i].args[j] == step_ref(v);
      bool const worked_on = works_on_argument && c.steps[i].args[n.swapped ? 1 : 0] == step_ref(v);
      if (read && !worked_on && last_reader(c, v) == i) --live;
    }
  }
  for (output const& o : c.outputs) {
    int const now =
        live + 1 +
        operand_code::store_temporaries(o.type, level);  // 1: an output stored in two dtypes
    most = now > most ? now : most;
  }
  return most > 0 ? most - 1 : 0;
}

}  // namespace sinter::inline SINTER_ABI::jit
