// One pass over the columns of a row, or of several rows side by side.
//
// One row: blocks of several vectors, single ones, the tail, all counted by the frame. Several: the
// numbers are known, each vector of all rows is taken in turn, and short rows need no loop. Every
// step is emitted by the epilogue, as behind a product. What is the same for all columns, and the
// accumulators of reductions, stay in registers; reductions end as scalars of their row.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>
#include <vector>

#include "rows_frame.hpp"

namespace sinter::inline SINTER_ABI::jit {

class rows_pass {
 public:
  rows_pass(rows_places const& places, row_stage const& stage, int rows)
      : at_(places),
        a_(places.a),
        s_(places.shape),
        stage_(stage),
        rows_(rows),
        registers_(registers_of(stage, s_.level, rows)) {}

  void emit() {
    load_cursors();
    begin_reductions();
    hold_scalars();
    if (rows_ > 1) {
      emit_known();
    } else {
      emit_loop(offsetof(rows_frame, blocks), s_.unroll);
      if (s_.unroll > 1) emit_loop(offsetof(rows_frame, singles), 1);
      emit_tail();
    }
    finish_reductions();
  }

 private:
  static constexpr int cursor_registers[] = {6, 8, 9, 10, 11, 3, 5, 12, 13, 14, 15};
  /// Vectors of a row that are emitted one after the other; more take turns.
  static constexpr int most_unrolled = 8;

  /// An address that moves along the columns of a row.
  struct cursor {
    row_value what;
    int reg = -1;  ///< or, if -1, cursors[slot]
    int slot = 0;
    int element_bytes = 4;
  };

  static std::size_t index(int i) { return static_cast<std::size_t>(i); }
  static xb::Reg64 g(int i) { return assembler::general(i); }
  xb::Reg64 counter() const { return g(rows_places::counter); }

  // ---- along the columns -----------------------------------------------------------------------

  bool moves_along_columns(row_value v) const {
    if (v.home == row_home::scalar) return false;
    return v.home == row_home::kept || at_.accesses[at_.access_of(v)].across == columns::unit;
  }
  void load_cursors() {
    for (row_value const& v : stage_.reads)
      if (moves_along_columns(v)) add_cursor(v);
    for (row_value const& v : stage_.writes)
      if (moves_along_columns(v)) add_cursor(v);
  }
  void add_cursor(row_value v) {
    cursor c{v, -1, static_cast<int>(cursors_.size()), 4};
    std::size_t from = offsetof(rows_frame, kept) + index(v.index) * sizeof(void*);
    if (v.home != row_home::kept) {
      int const i = at_.access_of(v);
      from = rows_places::at_field(i);
      c.element_bytes = size_of(at_.accesses[i].type);
    }
    if (cursors_.size() < std::size(cursor_registers)) {
      c.reg = cursor_registers[cursors_.size()];
      a_.mov(g(c.reg), at_.field(from));
    } else {
      a_.mov(g(0), at_.field(from));
      a_.mov(at_.field(rows_places::cursor_field(c.slot)), g(0));
    }
    cursors_.push_back(c);
  }
  block_access cursor_access(row_value v, int row, int vector) const {
    block_access to;
    if (v.home != row_home::kept) to.type = at_.accesses[at_.access_of(v)].type;
    for (cursor const& c : cursors_) {
      if (!(c.what == v)) continue;
      to.origin_register = c.reg;
      to.origin_at = static_cast<std::int32_t>(rows_places::cursor_field(c.slot));
      to.offset = at_.row_offset(v, row) + vector * lanes_of(s_.level) * c.element_bytes;
    }
    return to;
  }
  void advance(int vectors) {
    int const columns = vectors * lanes_of(s_.level);
    for (cursor const& c : cursors_) {
      std::uint32_t const step = immediate(columns * c.element_bytes);
      c.reg >= 0 ? a_.add(g(c.reg), step)
                 : a_.add(at_.field(rows_places::cursor_field(c.slot)), step);
    }
    if (registers_.numbers_columns)
      a_.vpaddd(a_.vec(columns_register()), a_.vec(columns_register()),
                a_.constant_bits(immediate(columns)));
  }

  // ---- one row ---------------------------------------------------------------------------------

  void emit_loop(std::size_t count, int vectors) {
    xb::Label again, done;
    a_.mov(counter(), at_.field(count));
    a_.test(counter(), counter());
    a_.jz(done, xb::CodeGenerator::T_NEAR);
    a_.align(16);
    a_.L(again);
    emit_block(0, vectors, 0, 0);
    advance(vectors);
    a_.dec(counter());
    a_.jnz(again, xb::CodeGenerator::T_NEAR);
    a_.L(done);
  }
  void emit_tail() {
    if (s_.tail_lanes == 0) return;
    xb::Label done;
    a_.cmp(at_.field(offsetof(rows_frame, tail_mask)), 0);
    a_.je(done, xb::CodeGenerator::T_NEAR);
    emit_block(0, 1, s_.tail_lanes, 0);
    a_.L(done);
  }

  // ---- several rows ----------------------------------------------------------------------------

  /// Accumulators take turns as in blocks of one row, so that sums have the same order.
  void emit_known() {
    int const in_blocks = s_.vectors / row_unroll * row_unroll, rest = s_.vectors - in_blocks;
    int const step = in_blocks <= most_unrolled ? in_blocks : row_unroll;
    int const turns = step > 0 ? in_blocks / step : 0;
    if (turns > 1) {
      xb::Label again;
      a_.mov(counter(), immediate(turns));
      a_.align(16);
      a_.L(again);
      emit_vectors(0, step, true);
      advance(step);
      a_.dec(counter());
      a_.jnz(again, xb::CodeGenerator::T_NEAR);
    } else if (turns == 1) {
      emit_vectors(0, step, true);
    }
    int const first = turns == 1 ? step : 0;
    emit_vectors(first, first + rest, false);
    for (int row = 0; s_.tail && row < rows_; ++row)
      emit_block(row, 1, s_.tail_lanes, first + rest);
  }
  void emit_vectors(int first, int end, bool take_turns) {
    for (int vector = first; vector < end; ++vector)
      for (int row = 0; row < rows_; ++row) emit_block(row, 1, 0, vector, take_turns ? vector : 0);
  }

  /// Vectors of a row, the first of them `vector` vectors behind the cursors. A single one feeds the
  /// accumulator number `turn`.
  void emit_block(int row, int vectors, int tail_lanes, int vector, int turn = 0) {
    int const first = vector_count_of(s_.level) - reserved_;
    accumulator_block block = at_.new_block(vectors, set_of_range(first, reserved_));
    block.tail_lanes = tail_lanes;
    block.tail_mask = a_.masks() && tail_lanes != 0 ? rows_places::tail : -1;
    for (int i = 0; i < stage_.reads.ssize(); ++i) {
      row_value const v = stage_.reads[i];
      block.operands.push_back(moves_along_columns(v) ? cursor_access(v, row, vector)
                                                      : at_.fixed_access(v, row));
      block.operands.back().vector = held_[index(row)][index(i)];
    }
    for (row_value const& v : stage_.writes) block.outputs.push_back(cursor_access(v, row, vector));
    block.reductions = reductions_[index(row)];
    if (rows_ > 1)
      for (block_reduction& r : block.reductions) {
        r.first += turn % r.copies;
        r.copies = 1;
      }
    block.columns = columns_register();
    epilogue(stage_.chain, -1).emit(a_, block);
  }

  /// What is the same for all columns goes to registers that nothing else wants: a load less in
  /// each vector.
  void hold_scalars() {
    reserved_ = registers_.reserved;
    for (auto& row : held_) row.fill(-1);
    int const own = rows_ > 1 ? 1 : s_.unroll;
    int const needed = (std::max)(epilogue_needs(stage_.chain, -1, s_.level) + 1, own);
    operand_code memory(a_);
    for (int i = 0; i < stage_.reads.ssize(); ++i)
      for (int row = 0; row < rows_; ++row) {
        row_value const v = stage_.reads[i];
        if (moves_along_columns(v) || reserved_ + needed >= vector_count_of(s_.level)) continue;
        int const to = vector_count_of(s_.level) - ++reserved_;
        held_[index(row)][index(i)] = to;
        if (v.home == row_home::scalar) {
          memory.broadcast(dtype::f32, to, {rows_places::frame, at_.scalar_at(v.index, row)});
        } else {
          int const access = at_.access_of(v);
          a_.mov(g(0), at_.field(rows_places::at_field(access)));
          memory.broadcast(at_.accesses[access].type, to, {0, at_.row_offset(v, row)});
        }
      }
  }

  // ---- reductions ------------------------------------------------------------------------------

  /// The highest register, where columns are numbered.
  int columns_register() const {
    return registers_.numbers_columns ? vector_count_of(s_.level) - 1 : -1;
  }
  op code_of(row_stage::reduction const& r) const { return stage_.chain.steps[r.step].code; }

  void begin_reductions() {
    int next = vector_count_of(s_.level) - registers_.reserved;
    auto const take = [&] { return std::exchange(next, next + registers_.copies); };
    for (int row = 0; row < rows_; ++row)
      for (auto const& r : stage_.reductions) {
        block_reduction to;
        to.step = r.step;
        to.copies = registers_.copies;
        to.first = take();
        if (code_of(r) == op::argmax) to.first_index = take();
        reductions_[index(row)].push_back(to);
        reduction_code(a_, {}, rows_places::scratch_mask).begin(code_of(r), to);
      }
    if (registers_.numbers_columns)
      lanes(a_, {}, rows_places::scratch_mask).zero(a_.vec(columns_register()));
  }
  void finish_reductions() {
    int const temporaries[] = {0, 1, 2};
    reduction_code code(a_, temporaries, rows_places::scratch_mask);
    xb::Address const count =
        a_.ptr[assembler::at(rows_places::frame, offsetof(rows_frame, columns))];
    for (int i = 0; i < stage_.reductions.ssize(); ++i) {
      row_stage::reduction const& r = stage_.reductions[i];
      block_reduction const& from = reductions_[0][i];
      if (rows_ == 1) {
        code.finish(code_of(r), from, count);
      } else {
        inline_vector<int, most_together> first;
        for (int row = 0; row < rows_; ++row) first.push_back(reductions_[index(row)][i].first);
        code.finish_rows(code_of(r), from.copies, {first.data(), first.size()}, count);
      }
      if (r.rounded)
        operand_code(a_).round(stage_.chain.precision.src, from.first, temporaries,
                               rows_places::scratch_mask);
      a_.vmovups(a_.ptr[assembler::at(rows_places::frame, at_.scalar_at(r.scalar, 0))],
                 a_.vec(from.first));
    }
  }

  rows_places const& at_;
  assembler& a_;
  rows_shape const& s_;
  row_stage const& stage_;
  int rows_;
  reduction_registers registers_;
  std::vector<cursor> cursors_;
  int reserved_ = 0;  ///< the last vector registers
  /// The register of each value that the stage reads; of each reduction. By row.
  std::array<std::array<int, max_operands>, most_together> held_{};
  std::array<inline_vector<block_reduction, max_steps>, most_together> reductions_;
};

}  // namespace sinter::inline SINTER_ABI::jit
