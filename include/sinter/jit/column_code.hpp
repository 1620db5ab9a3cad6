// What both kernels of one column have in common: sums that wait in the frame, their epilogue, and
// the loop over long sums.
//
// Sums of rows stand side by side in the frame until there are some vectors of them; then the
// epilogue takes them, rows in its lanes, or one by one where rows of an output or operand are not
// side by side (matmul_frame::rows_at_once). Knows nothing of how sums are made. Read jit/column.hpp
// (K in the lanes) and jit/column_rows.hpp (rows in the lanes) next.
#pragma once

#include "matmul_frame.hpp"
#include "operand.hpp"

namespace sinter::inline SINTER_ABI::jit {

/// AVX2: longer chains stand there for eight rows and for one, not for four.
inline constexpr int column_copied_steps = 8;

class column_code : protected matmul_frame_code {
 protected:
  /// `s.a` and `s.b` are floating dtypes.
  column_code(assembler& a, matmul_shape const& s, epilogue_accesses const& accesses,
              epilogue const& e)
      : matmul_frame_code(a, s, along_rows(accesses), e), memory_(a), rows_(a, {}, r) {}

  // Sums of blocks, a vector for each accumulator; then sums of rows, and room for the largest tile.
  static constexpr int sums_bytes = sizeof(matmul_frame::spill) / 2;
  static constexpr int sums_at = static_cast<int>(offsetof(matmul_frame, spill)) + sums_bytes;

  /// No sums wait.
  void begin_sums() {
    a_.lea(g(r.count), a_.ptr[g(frame) + bytes(sums_at)]);
    a_.mov(field(offsetof(matmul_frame, spilled)), g(r.count));
  }

  /// `round` so often, each of so many terms of every accumulator. Long sums in blocks, as those of
  /// tiles are (sum_block); the first block may be shorter.
  template <class Round>
  void emit_rounds(extent rounds, int terms, int accumulators, Round&& round) {
    extent const in_block = sum_block / terms;
    extent const blocks = (rounds + in_block - 1) / in_block;
    xb::Label next, done;
    if (blocks > 1) {
      for (int i = 0; i < accumulators; ++i) a_.vmovups(block_sum(i), a_.vec(i));
      a_.mov(field(offsetof(matmul_frame, blocks_left)), static_cast<std::uint32_t>(blocks));
    }
    a_.mov(g(r.count), static_cast<std::uint64_t>(rounds - (blocks - 1) * in_block));
    a_.align(32);
    a_.L(next);
    round();
    a_.dec(g(r.count));
    a_.jnz(next, xb::CodeGenerator::T_NEAR);
    if (blocks <= 1) return;
    for (int i = 0; i < accumulators; ++i) a_.vaddps(a_.vec(i), a_.vec(i), block_sum(i));
    a_.dec(field(offsetof(matmul_frame, blocks_left)));
    a_.jz(done, xb::CodeGenerator::T_NEAR);
    for (int i = 0; i < accumulators; ++i) a_.vmovups(block_sum(i), a_.vec(i));
    clear(accumulators);
    a_.mov(g(r.count), static_cast<std::uint64_t>(in_block));
    a_.jmp(next, xb::CodeGenerator::T_NEAR);
    a_.L(done);
  }
  void clear(int accumulators) {
    for (int i = 0; i < accumulators; ++i) a_.vxorps(xb::Xmm(i), xb::Xmm(i), xb::Xmm(i));
  }

  /// All sums that wait.
  void emit_epilogues() {
    a_.mov(g(r.count), field(offsetof(matmul_frame, spilled)));
    a_.lea(g(r.b), a_.ptr[g(frame) + bytes(sums_at)]);
    a_.mov(field(offsetof(matmul_frame, spilled)), g(r.b));
    a_.sub(g(r.count), g(r.b));
    a_.shr(g(r.count), 2);
    a_.mov(field(offsetof(matmul_frame, rows_left)), g(r.count));
    if (has_masks(s_.level)) return emit_masked_epilogue();
    emit_epilogue_of(8);
    if (!s_.looped_epilogue) emit_epilogue_of(4);
    emit_epilogue_of(1);
  }

  operand_code memory_;
  tile_loop rows_;

 private:
  static epilogue_accesses along_rows(epilogue_accesses accesses) {
    for (epilogue_access& a : accesses) a.across = a.moves ? columns::unit : columns::broadcast;
    return accesses;
  }
  xb::Address block_sum(int i) const {
    return a_.ptr[g(frame) + bytes(r.block_sums + i * vector_bytes_of(s_.level))];
  }
  void load_sums() {
    a_.mov(g(r.count), field(offsetof(matmul_frame, spilled)));
    a_.vmovups(a_.vec(0), a_.ptr[g(r.count)]);
  }
  void emit_masked_epilogue() {
    xb::Label next;
    a_.L(next);
    a_.mov(g(r.count), field(offsetof(matmul_frame, rows_left)));
    a_.cmp(g(r.count), field(offsetof(matmul_frame, rows_at_once)));
    a_.cmova(g(r.count), field(offsetof(matmul_frame, rows_at_once)));
    a_.mov(field(offsetof(matmul_frame, rows_taken)), g(r.count));
    a_.mov(xb::Reg32(r.b), 0xffffffffU);
    a_.bzhi(xb::Reg32(r.b), xb::Reg32(r.b), xb::Reg32(r.count));
    a_.kmovd(assembler::mask(lanes_mask), xb::Reg32(r.b));
    load_sums();
    emit_epilogue(0, 1, 1, all_vectors_of(s_.level) & ~set_of(0));
    advance_rows(-1);
    a_.mov(g(r.count), field(offsetof(matmul_frame, rows_taken)));
    a_.sub(field(offsetof(matmul_frame, rows_left)), g(r.count));
    a_.lea(g(r.count), a_.ptr[g(r.count) * 4]);
    a_.add(field(offsetof(matmul_frame, spilled)), g(r.count));
    a_.cmp(field(offsetof(matmul_frame, rows_left)), 0);
    a_.jne(next, xb::CodeGenerator::T_NEAR);
  }
  /// As often as there are so many rows.
  void emit_epilogue_of(int rows) {
    xb::Label next, end;
    if (rows > 1) {
      a_.cmp(field(offsetof(matmul_frame, rows_at_once)), immediate(rows));
      a_.jb(end, xb::CodeGenerator::T_NEAR);
    }
    a_.L(next);
    a_.cmp(field(offsetof(matmul_frame, rows_left)), immediate(rows));
    a_.jb(end, xb::CodeGenerator::T_NEAR);
    load_sums();
    emit_epilogue(0, 1, rows % lanes_of(s_.level), all_vectors_of(s_.level) & ~set_of(0));
    advance_rows(rows);
    a_.add(field(offsetof(matmul_frame, spilled)), immediate(4 * rows));
    a_.sub(field(offsetof(matmul_frame, rows_left)), immediate(rows));
    a_.jmp(next, xb::CodeGenerator::T_NEAR);
    a_.L(end);
  }
};

}  // namespace sinter::inline SINTER_ABI::jit
