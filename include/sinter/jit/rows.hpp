// The row kernel: a chain without a contraction in generated code, row after row, pass after pass.
//
// The number of rows, of columns and all strides are read from a frame that C++ fills; the code
// depends on the plan's chains, the dtypes, and below AVX-512 on the columns of the last vector.
// Per row: the scalars of each level, its pass, the reductions that the pass fed. Where rows are
// short and all is known, several of them are computed side by side, and the rest one by one.
// Batches and folding are backend/jit_rows.hpp's business. Read jit/rows_frame.hpp and
// jit/rows_pass.hpp next.
#pragma once

#include <cstddef>

#include "rows_pass.hpp"

namespace sinter::inline SINTER_ABI::jit {

class rows_generator {
 public:
  /// `accesses`: the operands and outputs of the whole chain that the plan's stages name.
  rows_generator(assembler& a, rows_shape const& s, rows_plan const& plan,
                 epilogue_accesses const& accesses)
      : at_(a, s, plan, accesses), a_(a) {}

  void emit() {
    for (int i : callee_saved) a_.push(g(i));
    if (a_.masks()) {
      if (at_.shape.tail_lanes != 0)
        a_.kmovq(assembler::mask(rows_places::tail), at_.field(offsetof(rows_frame, tail_mask)));
      a_.mov(counter().cvt32(), 1);
      a_.kmovd(assembler::mask(rows_places::one_lane), counter().cvt32());
    }
    for (int i = 0; i < at_.accesses.ssize(); ++i) {
      a_.mov(counter(),
             at_.field(rows_places::access_field(i, offsetof(rows_frame::access, origin))));
      a_.mov(at_.field(rows_places::at_field(i)), counter());
    }
    if (at_.shape.together > 1) emit_rows(offsetof(rows_frame, groups), at_.shape.together);
    emit_rows(offsetof(rows_frame, rows), 1);
    a_.vzeroupper();
    for (std::size_t i = std::size(callee_saved); i-- > 0;) a_.pop(g(callee_saved[i]));
    a_.ret();
  }

 private:
  static constexpr int callee_saved[] = {3, 5, 12, 13, 14, 15};

  static xb::Reg64 g(int i) { return assembler::general(i); }
  xb::Reg64 counter() const { return g(rows_places::counter); }

  /// As often as the frame's field says: `rows` rows.
  void emit_rows(std::size_t count, int rows) {
    xb::Label again, done;
    a_.mov(counter(), at_.field(count));
    a_.test(counter(), counter());
    a_.jz(done, xb::CodeGenerator::T_NEAR);
    a_.mov(at_.field(offsetof(rows_frame, rows_left)), counter());
    a_.align(32);
    a_.L(again);
    for (row_level const& l : at_.plan.levels) {
      for (row_stage const& s : l.scalars) emit_scalars(s, rows);
      if (!l.pass.chain.steps.empty()) rows_pass(at_, l.pass, rows).emit();
    }
    for (int row = 0; row < rows; ++row) store_scalars(row);
    advance(rows);
    a_.dec(at_.field(offsetof(rows_frame, rows_left)));
    a_.jnz(again, xb::CodeGenerator::T_NEAR);
    a_.L(done);
  }

  /// All rows in the lanes of one vector, unless an operand has another value for each of them.
  void emit_scalars(row_stage const& s, int rows) {
    bool alike = rows > 1;
    for (row_value const& v : s.reads)
      alike = alike && (v.home == row_home::scalar || !at_.accesses[at_.access_of(v)].moves);
    for (int row = 0; row < (alike ? 1 : rows); ++row) {
      accumulator_block block = at_.new_block(1, 0);
      for (row_value const& v : s.reads)
        block.operands.push_back(alike && v.home == row_home::scalar
                                     ? at_.scalar_access(v.index, 0, columns::unit)
                                     : at_.fixed_access(v, row));
      // Row after row: a vector covers the scalars of later ones.
      for (row_value const& v : s.writes)
        block.outputs.push_back(at_.scalar_access(v.index, row, columns::unit));
      epilogue(s.chain, -1).emit(a_, block);
    }
  }
  void store_scalars(int row) {
    operand_code memory(a_);
    for (auto const& [output, scalar] : at_.plan.scalar_outputs) {
      row_value const to{row_home::output, output};
      int const i = at_.access_of(to);
      int const temporaries[] = {1, 2};
      a_.mov(g(0), at_.field(rows_places::at_field(i)));
      memory.load(dtype::f32, 0, {rows_places::frame, at_.scalar_at(scalar, row)}, {});
      memory.store(at_.accesses[i].type, 0, {0, at_.row_offset(to, row)},
                   {1, rows_places::one_lane}, temporaries, rows_places::scratch_mask);
    }
  }
  void advance(int rows) {
    for (int i = 0; i < at_.accesses.ssize(); ++i) {
      if (!at_.accesses[i].moves) continue;
      xb::Address const at = at_.field(rows_places::at_field(i));
      if (rows > 1) {
        a_.add(at, immediate(rows * at_.shape.strides[i]));
        continue;
      }
      a_.mov(counter(),
             at_.field(rows_places::access_field(i, offsetof(rows_frame::access, row_stride))));
      a_.add(at, counter());
    }
  }

  rows_places at_;
  assembler& a_;
};

}  // namespace sinter::inline SINTER_ABI::jit
