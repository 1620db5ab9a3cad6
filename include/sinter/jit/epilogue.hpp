// The epilogue: walks the steps after a chain's anchor over an accumulator_block, then stores the outputs.
//
// It knows values, not sums: where the accumulators came from is the tile kernel's business. Steps are independent per
// element, so the walk is vector by vector: for each accumulator register the whole sequence is emitted, temporaries
// come from registers that are free (more of them as accumulators are stored), and a core that renames registers
// overlaps one vector's chain with the next one's. Read jit/eltwise.hpp for the emitters.
#pragma once

#include "../base/status.hpp"
#include "../plan/chain.hpp"
#include "accumulator_block.hpp"
#include "assembler.hpp"

namespace sinter::inline SINTER_ABI::jit {

class epilogue {
 public:
  /// Yes, or what no epilogue can do, in a sentence. `anchor` is the step whose value the accumulators hold; -1 where
  /// there is none (a chain of pointwise steps only: the accumulators are then mere working registers).
  static verdict supports(chain const& c, int anchor);

  /// Only where supports() says yes. Keeps its own copy of what it needs.
  epilogue(chain const& c, int anchor);

  /// Operand i is read by a step of this epilogue, so its block_access must be filled.
  bool reads(int operand) const;

  /// Scratch memory that emit() may use for any block; 0 for most chains.
  int stack_bytes(isa level) const;

  /// Emits everything: steps, conversion, stores. The accumulators hold the anchor's sums (f32). Afterwards they,
  /// every register of the free sets and the flags hold anything; all other registers are as before. The direction
  /// flag, MXCSR and memory outside outputs and scratch are not touched. Constants go
  /// to the assembler's pool.
  void emit(assembler& a, accumulator_block const& block) const;
};

}  // namespace sinter::inline SINTER_ABI::jit
