// The row kernel: a chain without a contraction in generated code, row after row, pass after pass.
//
// The number of rows, of columns and all strides are read from a frame that C++ fills; the code
// depends on the plan's chains, the dtypes, and below AVX-512 on the columns of the last vector.
// Per row: the scalars of each level, its pass (blocks of several vectors, single ones, the tail),
// the reductions that the pass fed. Scalars of a row stand in the frame as whole vectors, wide
// values between passes in memory that the caller gives. Every step is emitted by the epilogue, as
// behind a product. Batches and folding are backend/jit_rows.hpp's business.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>
#include <vector>

#include "../core/buffer.hpp"
#include "epilogue.hpp"
#include "matmul.hpp"
#include "rows_plan.hpp"

namespace sinter::inline SINTER_ABI::jit {

inline constexpr int max_kept = 16;
/// Vectors of a block: enough independent sums for the latency of an addition.
inline constexpr int row_unroll = 4;

/// What the code depends on beside the plan.
struct rows_shape {
  isa level = isa::avx2;
  int unroll = row_unroll;
  /// Columns of a partial vector at the end of a row; 0: there is none. From AVX-512 on any number:
  /// the frame's mask says how many.
  int tail_lanes = 0;
};

/// The argument of a kernel. rows_frame_bytes() long.
struct rows_frame {
  std::int64_t rows = 0;
  std::int64_t blocks = 0, singles = 0;  ///< vectors of a row: whole blocks, the rest
  std::uint64_t tail_mask = 0;           ///< of a partial vector's columns; 0: none follows
  float columns = 0;
  // Written by the kernel.
  std::int64_t rows_left = 0;

  struct access {
    void const* origin = nullptr;  ///< of row 0, column 0
    std::int64_t row_stride = 0;   ///< bytes
    void const* at = nullptr;      ///< of this row; written by the kernel
  };
  access accesses[max_operands + max_outputs];
  void* kept[max_kept] = {};
  void const* cursors[max_operands + max_outputs] = {};  ///< written by the kernel
  alignas(64) std::byte scalars[64];  ///< as many vectors as the plan has scalars
};

using rows_entry = void (*)(rows_frame*);

inline std::size_t rows_frame_bytes(rows_plan const& plan) {
  return offsetof(rows_frame, scalars) + 64 * static_cast<std::size_t>(plan.scalars + 1);
}

/// Vector registers of the reductions of one pass.
struct reduction_registers {
  int copies = 0;  ///< accumulators of each; 0: they do not fit
  int reserved = 0;
  bool numbers_columns = false;
};
inline reduction_registers registers_of(row_stage const& s, isa level) {
  reduction_registers r;
  int each = 0;
  for (auto const& red : s.reductions) {
    op const code = s.chain.steps[red.step].code;
    each += reduction_of(code).registers;
    r.numbers_columns = r.numbers_columns || code == op::argmax;
  }
  if (each == 0) return r;
  int const needed = (std::max)(epilogue_needs(s.chain, -1, level) + 1, row_unroll);
  int const free = vector_count_of(level) - needed - (r.numbers_columns ? 1 : 0);
  r.copies = (std::min)(row_unroll, free / each);
  r.reserved = r.copies * each + (r.numbers_columns ? 1 : 0);
  return r;
}

/// Yes, or which limit of the generator the plan passes.
inline verdict rows_supported(rows_plan const& plan, isa level) {
  if (plan.kept > max_kept)
    return verdict::no(sinter::detail::join(
        {"sinter: jit: ", plan.kept, " values wait for a reduction; at most ", max_kept, " may"}));
  for (row_level const& l : plan.levels) {
    for (row_stage const& s : l.scalars)
      if (verdict v = epilogue::supports(s.chain, -1, level); !v) return v;
    if (verdict v = epilogue::supports(l.pass.chain, -1, level); !v) return v;
    if (!l.pass.reductions.empty() && registers_of(l.pass, level).copies == 0)
      return verdict::no(sinter::detail::join({"sinter: jit: ", l.pass.reductions.size(),
                                               " reductions in one pass; ", name_of(level),
                                               " has not enough vector registers"}));
  }
  return verdict::yes();
}

class rows_generator {
 public:
  /// `accesses`: the operands and outputs of the whole chain that the plan's stages name.
  rows_generator(assembler& a, rows_shape const& s, rows_plan const& plan,
                 epilogue_accesses const& accesses)
      : a_(a), s_(s), plan_(plan), accesses_(accesses) {}

  void emit() {
    for (int i : callee_saved) a_.push(g(i));
    if (a_.masks()) {
      if (s_.tail_lanes != 0)
        a_.kmovq(assembler::mask(tail), field(offsetof(rows_frame, tail_mask)));
      a_.mov(xb::Reg32(counter), 1);
      a_.kmovd(assembler::mask(one_lane), xb::Reg32(counter));
    }
    for (int i = 0; i < accesses_.ssize(); ++i) {
      a_.mov(g(counter), field(access_field(i, offsetof(rows_frame::access, origin))));
      a_.mov(field(at_field(i)), g(counter));
    }
    a_.mov(g(counter), field(offsetof(rows_frame, rows)));
    a_.mov(field(offsetof(rows_frame, rows_left)), g(counter));
    xb::Label next_row;
    a_.align(32);
    a_.L(next_row);
    for (row_level const& l : plan_.levels) {
      for (row_stage const& s : l.scalars) emit_scalars(s);
      emit_pass(l.pass);
    }
    store_scalars();
    advance_row();
    a_.dec(field(offsetof(rows_frame, rows_left)));
    a_.jnz(next_row, xb::CodeGenerator::T_NEAR);
    a_.vzeroupper();
    for (std::size_t i = std::size(callee_saved); i-- > 0;) a_.pop(g(callee_saved[i]));
    a_.ret();
  }

 private:
  static constexpr int frame = 7, counter = 1;
  static constexpr int cursor_registers[] = {6, 8, 9, 10, 11, 3, 5, 12, 13, 14, 15};
  static constexpr int callee_saved[] = {3, 5, 12, 13, 14, 15};
  static constexpr register_set free_general = 1U << 0 | 1U << 2;
  static constexpr int tail = 7, one_lane = 6;  // masks

  /// An address that moves along the columns of a row.
  struct cursor {
    row_value what;
    int reg = -1;  ///< or, if -1, cursors[slot]
    int slot = 0;
    int element_bytes = 4;
  };

  static xb::Reg64 g(int i) { return assembler::general(i); }
  xb::Address field(std::size_t offset) const { return a_.qword[g(frame) + offset]; }
  static std::size_t access_field(int i, std::size_t member) {
    return offsetof(rows_frame, accesses) +
           static_cast<std::size_t>(i) * sizeof(rows_frame::access) + member;
  }
  static std::size_t at_field(int i) { return access_field(i, offsetof(rows_frame::access, at)); }
  static std::size_t cursor_field(int slot) {
    return offsetof(rows_frame, cursors) + static_cast<std::size_t>(slot) * sizeof(void*);
  }
  static std::int32_t scalar_at(int i) {
    return static_cast<std::int32_t>(offsetof(rows_frame, scalars)) + 64 * i;
  }
  register_set all_vectors() const { return a_.masks() ? ~register_set{0} : 0xffffU; }

  int access_of(row_value v) const {
    bool const output = v.home == row_home::output;
    int i = 0;
    while (accesses_[i].output != output || accesses_[i].index != v.index) ++i;
    return i;
  }

  // ---- scalars of a row -----------------------------------------------------------------------

  static block_access scalar_access(int i, columns across) {
    block_access to;
    to.across = across;
    to.origin_register = frame;
    to.offset = scalar_at(i);
    return to;
  }
  /// One value for all columns.
  block_access fixed_access(row_value v) const {
    if (v.home == row_home::scalar) return scalar_access(v.index, columns::broadcast);
    int const i = access_of(v);
    block_access to;
    to.type = accesses_[i].type;
    to.across = accesses_[i].across;
    to.origin_at = static_cast<std::int32_t>(at_field(i));
    return to;
  }
  accumulator_block new_block(int vectors, register_set reserved) const {
    accumulator_block block;
    block.level = s_.level;
    block.rows = 1;
    block.vectors = vectors;
    block.frame = frame;
    block.free_vectors = all_vectors() & ~set_of_range(0, vectors) & ~reserved;
    block.free_masks = a_.masks() ? 0x3eU : 0;
    block.free_general = free_general;
    return block;
  }

  void emit_scalars(row_stage const& s) {
    accumulator_block block = new_block(1, 0);
    for (row_value const& v : s.reads) block.operands.push_back(fixed_access(v));
    for (row_value const& v : s.writes)
      block.outputs.push_back(scalar_access(v.index, columns::unit));
    epilogue(s.chain, -1).emit(a_, block);
  }

  void store_scalars() {
    operand_code memory(a_);
    for (auto const& [output, scalar] : plan_.scalar_outputs) {
      int const i = access_of({row_home::output, output});
      int const temporaries[] = {1, 2};
      a_.mov(g(0), field(at_field(i)));
      memory.load(dtype::f32, 0, {frame, scalar_at(scalar)}, {});
      memory.store(accesses_[i].type, 0, {0, 0}, {1, one_lane}, temporaries, 1);
    }
  }
  void advance_row() {
    for (int i = 0; i < accesses_.ssize(); ++i) {
      if (!accesses_[i].moves) continue;
      a_.mov(g(counter), field(access_field(i, offsetof(rows_frame::access, row_stride))));
      a_.add(field(at_field(i)), g(counter));
    }
  }

  // ---- a pass over the columns -----------------------------------------------------------------

  void emit_pass(row_stage const& s) {
    if (s.chain.steps.empty()) return;
    stage_ = &s;
    load_cursors();
    begin_reductions();
    hold_scalars();
    emit_loop(offsetof(rows_frame, blocks), s_.unroll);
    if (s_.unroll > 1) emit_loop(offsetof(rows_frame, singles), 1);
    emit_tail();
    finish_reductions();
  }

  bool moves_along_columns(row_value v) const {
    if (v.home == row_home::scalar) return false;
    return v.home == row_home::kept || accesses_[access_of(v)].across == columns::unit;
  }
  void load_cursors() {
    cursors_.clear();
    for (row_value const& v : stage_->reads)
      if (moves_along_columns(v)) add_cursor(v);
    for (row_value const& v : stage_->writes)
      if (moves_along_columns(v)) add_cursor(v);
  }
  void add_cursor(row_value v) {
    cursor c{v, -1, static_cast<int>(cursors_.size()), 4};
    std::size_t from =
        offsetof(rows_frame, kept) + static_cast<std::size_t>(v.index) * sizeof(void*);
    if (v.home != row_home::kept) {
      int const i = access_of(v);
      from = at_field(i);
      c.element_bytes = size_of(accesses_[i].type);
    }
    if (cursors_.size() < std::size(cursor_registers)) {
      c.reg = cursor_registers[cursors_.size()];
      a_.mov(g(c.reg), field(from));
    } else {
      a_.mov(g(0), field(from));
      a_.mov(field(cursor_field(c.slot)), g(0));
    }
    cursors_.push_back(c);
  }
  block_access cursor_access(row_value v) const {
    block_access to;
    if (v.home != row_home::kept) to.type = accesses_[access_of(v)].type;
    for (cursor const& c : cursors_) {
      if (!(c.what == v)) continue;
      to.origin_register = c.reg;
      to.origin_at = static_cast<std::int32_t>(cursor_field(c.slot));
    }
    return to;
  }

  void emit_loop(std::size_t count, int vectors) {
    xb::Label again, done;
    a_.mov(g(counter), field(count));
    a_.test(g(counter), g(counter));
    a_.jz(done, xb::CodeGenerator::T_NEAR);
    a_.align(16);
    a_.L(again);
    emit_block(vectors, 0);
    int const columns = vectors * lanes_of(s_.level);
    for (cursor const& c : cursors_) {
      std::uint32_t const step = immediate(columns * c.element_bytes);
      c.reg >= 0 ? a_.add(g(c.reg), step) : a_.add(field(cursor_field(c.slot)), step);
    }
    if (registers_.numbers_columns)
      a_.vpaddd(a_.vec(columns_register()), a_.vec(columns_register()),
                a_.constant_bits(immediate(columns)));
    a_.dec(g(counter));
    a_.jnz(again, xb::CodeGenerator::T_NEAR);
    a_.L(done);
  }
  void emit_tail() {
    if (s_.tail_lanes == 0) return;
    xb::Label done;
    a_.cmp(field(offsetof(rows_frame, tail_mask)), 0);
    a_.je(done, xb::CodeGenerator::T_NEAR);
    emit_block(1, s_.tail_lanes);
    a_.L(done);
  }
  void emit_block(int vectors, int tail_lanes) {
    int const first = vector_count_of(s_.level) - reserved_;
    accumulator_block block = new_block(vectors, set_of_range(first, reserved_));
    block.tail_lanes = tail_lanes;
    block.tail_mask = a_.masks() && tail_lanes != 0 ? tail : -1;
    for (int i = 0; i < stage_->reads.ssize(); ++i) {
      row_value const v = stage_->reads[i];
      block.operands.push_back(moves_along_columns(v) ? cursor_access(v) : fixed_access(v));
      block.operands.back().vector = held_[static_cast<std::size_t>(i)];
    }
    for (row_value const& v : stage_->writes) block.outputs.push_back(cursor_access(v));
    block.reductions = reductions_;
    block.columns = columns_register();
    epilogue(stage_->chain, -1).emit(a_, block);
  }

  /// What is the same for all columns goes to registers that nothing else wants: a load less in
  /// each vector.
  void hold_scalars() {
    held_.fill(-1);
    reserved_ = registers_.reserved;
    int const needed = (std::max)(epilogue_needs(stage_->chain, -1, s_.level) + 1, s_.unroll);
    operand_code memory(a_);
    for (int i = 0; i < stage_->reads.ssize(); ++i) {
      row_value const v = stage_->reads[i];
      if (moves_along_columns(v) || reserved_ + needed >= vector_count_of(s_.level)) continue;
      int const to = vector_count_of(s_.level) - ++reserved_;
      held_[static_cast<std::size_t>(i)] = to;
      if (v.home == row_home::scalar) {
        memory.broadcast(dtype::f32, to, {frame, scalar_at(v.index)});
      } else {
        a_.mov(g(0), field(at_field(access_of(v))));
        memory.broadcast(accesses_[access_of(v)].type, to, {0, 0});
      }
    }
  }

  // ---- reductions ------------------------------------------------------------------------------

  /// The highest register, where columns are numbered.
  int columns_register() const {
    return registers_.numbers_columns ? vector_count_of(s_.level) - 1 : -1;
  }
  op code_of(row_stage::reduction const& r) const { return stage_->chain.steps[r.step].code; }

  void begin_reductions() {
    registers_ = registers_of(*stage_, s_.level);
    reductions_.clear();
    int next = vector_count_of(s_.level) - registers_.reserved;
    auto const take = [&] { return std::exchange(next, next + registers_.copies); };
    for (auto const& r : stage_->reductions) {
      block_reduction to;
      to.step = r.step;
      to.copies = registers_.copies;
      to.first = take();
      if (code_of(r) == op::argmax) to.first_index = take();
      reductions_.push_back(to);
      reduction_code(a_, {}, scratch_mask).begin(code_of(r), to);
    }
    if (registers_.numbers_columns) lanes(a_, {}, scratch_mask).zero(a_.vec(columns_register()));
  }
  void finish_reductions() {
    int const temporaries[] = {0, 1, 2};
    for (int i = 0; i < reductions_.ssize(); ++i) {
      row_stage::reduction const& r = stage_->reductions[i];
      int const sum = reductions_[i].first;
      reduction_code(a_, temporaries, scratch_mask)
          .finish(code_of(r), reductions_[i],
                  a_.ptr[assembler::at(frame, offsetof(rows_frame, columns))]);
      if (r.rounded) operand_code(a_).round(plan_precision(), sum, temporaries, scratch_mask);
      a_.vmovups(a_.ptr[assembler::at(frame, scalar_at(r.scalar))], a_.vec(sum));
    }
  }
  dtype plan_precision() const { return stage_->chain.precision.src; }

  static constexpr int scratch_mask = 1;

  assembler& a_;
  rows_shape s_;
  rows_plan const& plan_;
  epilogue_accesses accesses_;
  row_stage const* stage_ = nullptr;
  std::vector<cursor> cursors_;
  reduction_registers registers_;
  int reserved_ = 0;                      ///< the last vector registers
  std::array<int, max_operands> held_{};  ///< of each value that the stage reads
  inline_vector<block_reduction, max_steps> reductions_;
};

}  // namespace sinter::inline SINTER_ABI::jit
