// The epilogue: walks the steps after a chain's anchor over an accumulator_block, then stores the
// outputs.
//
// It knows values, not sums: where the accumulators came from is the tile kernel's business. Steps
// are independent per element, so the walk is vector by vector: for each accumulator register the
// whole sequence is emitted, temporaries come from registers that are free (more of them as
// accumulators are stored), and a core that renames registers overlaps one vector's chain with the
// next one's. Outputs are stored after the last step of their vector, so an operand that lies where
// an output is written, element by element, is read before. Read jit/eltwise.hpp for the emitters,
// jit/epilogue_walk.hpp for the walk.
#pragma once

#include <algorithm>
#include <memory>
#include <utility>

#include "../base/status.hpp"
#include "../plan/chain.hpp"
#include "epilogue_spelt.hpp"
#include "epilogue_walk.hpp"

namespace sinter::inline SINTER_ABI::jit {

class epilogue {
 public:
  /// Yes, or what no epilogue can do, in a sentence. `anchor` is the step whose value the
  /// accumulators hold; -1 where there is none (a chain of pointwise steps only: the accumulators
  /// are then mere working registers).
  static verdict supports(chain const& c, int anchor, isa level = isa::avx2) {
    if (verdict v = knows_types(c, anchor); !v) return v;
    for (int i = anchor + 1; i < c.steps.ssize(); ++i)
      if (c.steps[i].contraction >= 0)
        return verdict::no("sinter: step " + std::to_string(i) +
                           " is a second contraction; a generated kernel has one");
      else if (anchor >= 0 && is_reduction(c.steps[i].code))
        return verdict::no("sinter: step " + std::to_string(i) + " (" +
                           std::string(name_of(c.steps[i].code)) +
                           ") reads whole rows; generated epilogues work value by value");
      else if (c.steps[i].code == op::cast && !is_floating(c.steps[i].to))
        return verdict::no("sinter: step " + std::to_string(i) + " casts to " +
                           std::string(name_of(c.steps[i].to)) +
                           "; generated epilogues know f32, bf16 and f16");
    for (step const& s : c.steps)
      for (value_ref v : s.args)
        if (v.kind == value_kind::step && v.index < anchor && is_after(c, anchor, s))
          return verdict::no("sinter: a step after the contraction reads a value from before it");
    if (int const needed = epilogue_needs(c, anchor, level) + 1; needed > vector_count_of(level))
      return verdict::no("sinter: the steps after the contraction keep " + std::to_string(needed) +
                         " values at a time; " + std::string(name_of(level)) + " has " +
                         std::to_string(vector_count_of(level)) + " vector registers");
    return verdict::yes();
  }

  /// The part of supports() that is about dtypes.
  static verdict knows_types(chain const& c, int anchor) {
    for (int i = 0; i < c.operands.ssize(); ++i)
      if (reads(c, anchor, i) && !is_floating(c.operands[i].type))
        return verdict::no("sinter: operand '" + std::string(c.operands[i].name.view()) + "' is " +
                           std::string(name_of(c.operands[i].type)) +
                           "; generated epilogues read f32, bf16 and f16");
    for (output const& o : c.outputs)
      if (!is_floating(o.type))
        return verdict::no("sinter: output '" + std::string(o.name.view()) + "' is " +
                           std::string(name_of(o.type)) +
                           "; generated epilogues write f32, bf16 and f16");
    return verdict::yes();
  }

  /// Only where supports() says yes. Keeps its own copy of what it needs.
  epilogue(chain const& c, int anchor) : anchor_(anchor) {
    auto own = std::shared_ptr<chain>(new chain(c));
    gelu_finder(*own, anchor).replace_all();
    leave_rounding_to_stores(*own, anchor);
    chain_ = std::move(own);
  }

  /// Operand i is read by a step of this epilogue, so its block_access must be filled.
  bool reads(int operand) const { return reads(*chain_, anchor_, operand); }

  int steps() const { return chain_->steps.ssize() - 1 - anchor_; }

  /// Scratch memory that emit() may use for any block: where vectors wait that it has no free
  /// registers beside.
  int stack_bytes(isa level) const {
    return epilogue_needs(*chain_, anchor_, level) * vector_bytes_of(level);
  }

  /// Emits everything: steps, conversion, stores. The accumulators hold the anchor's sums (f32).
  /// Afterwards they, every register of the free sets and the flags hold anything; all other
  /// registers are as before. The direction flag, MXCSR and memory outside outputs and scratch are
  /// not touched. Constants go to the assembler's pool. Free vector registers and accumulators
  /// together must be at least epilogue_needs() + 1: a kernel whose other registers are dead by now
  /// frees them all.
  void emit(assembler& a, accumulator_block const& block) const {
    epilogue_walk(a, *chain_, anchor_, block).run();
  }

 private:
  /// A let that only outputs of its own dtype read is rounded once, as it is stored.
  static void leave_rounding_to_stores(chain& c, int anchor) {
    for (int i = (std::max)(anchor, 0); i < c.steps.ssize(); ++i) {
      bool again = c.uses(step_ref(i)) == 0;
      for (output const& o : c.outputs)
        again = again && (o.value != step_ref(i) || o.type == c.precision.src);
      if (again) c.steps[i].rounded = false;
    }
  }
  static bool is_after(chain const& c, int anchor, step const& s) {
    return &s - c.steps.begin() > anchor;
  }
  static bool reads(chain const& c, int anchor, int operand) {
    for (int i = anchor + 1; i < c.steps.ssize(); ++i)
      for (value_ref v : c.steps[i].args)
        if (v == operand_ref(operand)) return true;
    return false;
  }

  std::shared_ptr<chain const> chain_;
  int anchor_;
};

}  // namespace sinter::inline SINTER_ABI::jit
