// What the kernels of a matmul have in common: what their code depends on, the frame through which
// C++ drives it, and the code that stands on the frame's fields.
//
// A kernel walks tiles of rows. In the frame are the operands' addresses, the tiles of a call, and
// where each operand of the epilogue has its row 0; origins stand in registers as far as there are
// any and move down as rows are done. Knows nothing of how sums are made. Read jit/matmul.hpp
// (columns in the lanes) and jit/column_code.hpp (one column) next.
#pragma once

#include "../core/buffer.hpp"
#include "epilogue.hpp"
#include "epilogue_origins.hpp"
#include "registers.hpp"
#include "tile.hpp"

namespace sinter::inline SINTER_ABI::jit {

/// What the kernel's code depends on, beside the steps of the chain.
struct matmul_shape {
  isa level = isa::avx2;
  product kind = product::f32;
  bool direct = true;         ///< the first operand is read in place; see tile
  bool direct_panel = false;  ///< and the second
  bool looped_epilogue = false;
  bool full_panels = false;  ///< there are panels of tile_columns(level)
  int tail_columns = 0;      ///< of the last, narrower panel; 0: there is none
  row_counts counts = 0;     ///< tiles that occur
  int row_tiles = 0;         ///< AMX: tiles of rows in a whole block
  bool column = false;       ///< jit/column.hpp, which reads a and b
  bool column_rows = false;  ///< or jit/column_rows.hpp
  int rest_rows = 0;         ///< of it: behind the widest passes, where that is known
  dtype a = dtype::f32, b = dtype::f32;
  extent k = 0;
  friend bool operator==(matmul_shape const&, matmul_shape const&) = default;
};

/// The argument of a kernel: filled by C++, its last part written by the kernel itself.
/// matmul_frame_bytes() long.
struct matmul_frame {
  void const* a = nullptr;
  std::int64_t lda = 0;  ///< bytes from row to row; of column_rows: from k to k
  void const* b = nullptr;
  std::int64_t full_panels = 0;
  std::int64_t full_panel_bytes = 0;
  std::int64_t tail_panel = 1;              ///< 0: the last, narrower panel is left out
  std::int64_t ldb = 0;                     ///< of a direct panel
  std::int64_t blocks = 0, low_blocks = 0;  ///< row_split
  std::int64_t high = 0;
  std::int64_t rows = 0;  ///< of all blocks together
  /// Of one column: rows whose elements the epilogue may take as one vector.
  std::int64_t rows_at_once = 1;
  // Written by the kernel.
  std::int64_t panels_left = 0, column = 0, blocks_left = 0, rows_left = 0, rows_taken = 0,
               spilled = 0;
  void const* panel = nullptr;

  struct access {
    void const* origin = nullptr;  ///< of row 0, column 0
    std::int64_t row_stride = 0;   ///< bytes
    void const* at = nullptr;      ///< written by the kernel
  };
  access accesses[max_operands + max_outputs];
  alignas(64) std::byte spill[8 * tile_vectors * 64];
  std::byte scratch[64];  ///< the epilogue's, as long as it wants
};

using matmul_entry = void (*)(matmul_frame*);

inline std::size_t matmul_frame_bytes(epilogue const& e, isa level) {
  return offsetof(matmul_frame, scratch) +
         round_up(static_cast<std::size_t>(e.stack_bytes(level)) + 1, 64);
}

class matmul_frame_code {
 protected:
  matmul_frame_code(assembler& a, matmul_shape const& s, epilogue_accesses const& accesses,
                    epilogue const& e)
      : a_(a), s_(s), epilogue_(e), origins_(a, accesses, layout(s)) {
    while (s_.counts >> most_rows_ > 1) ++most_rows_;
    while (least_rows_ < most_rows_ && !occurs(least_rows_)) ++least_rows_;
  }

  // rdi holds the frame throughout.
  static constexpr int frame = 7, block_count = 11;
  static constexpr tile_registers r{.a0 = 0,
                                    .a1 = 8,
                                    .lda = 9,
                                    .lda3 = 10,
                                    .b = 2,
                                    .count = 1,
                                    .scratch = 1,
                                    .ldb = 15,
                                    .frame = frame,
                                    .block_sums = offsetof(matmul_frame, spill),
                                    .blocks_left = offsetof(matmul_frame, blocks_left)};

  static xb::Reg64 g(int i) { return assembler::general(i); }
  xb::Address field(std::size_t offset) const { return a_.qword[g(frame) + offset]; }

  void enter() {
    for (int i : callee_saved)
      if (uses(i)) a_.push(g(i));
    a_.mov(g(r.lda), field(offsetof(matmul_frame, lda)));
    if (most_rows_ >= 4) a_.lea(g(r.lda3), a_.ptr[g(r.lda) + g(r.lda) * 2]);
    if (s_.direct_panel) a_.mov(g(r.ldb), field(offsetof(matmul_frame, ldb)));
    a_.mov(field(offsetof(matmul_frame, column)), 0);
  }
  void leave() {
    a_.vzeroupper();
    for (std::size_t i = std::size(callee_saved); i-- > 0;)
      if (uses(callee_saved[i])) a_.pop(g(callee_saved[i]));
    a_.ret();
  }
  void set_mask(int mask, int bits) {
    a_.mov(xb::Reg32(r.count), (std::uint64_t{1} << bits) - 1);
    a_.kmovd(assembler::mask(mask), xb::Reg32(r.count));
  }

  void load_origins() {
    a_.mov(g(r.count), field(offsetof(matmul_frame, column)));
    origins_.set(offsetof(matmul_frame::access, origin), r.count);
  }
  /// Origins move down by so many rows; -1: by matmul_frame::rows_taken.
  void advance_rows(int rows) {
    origins_.advance(offsetof(matmul_frame::access, row_stride), rows,
                     offsetof(matmul_frame, rows_taken));
  }

  bool occurs(int rows) const { return (s_.counts >> rows & 1U) != 0; }

  // Jumps to the tile of this block's number of rows; falls through for the smallest.
  void dispatch(xb::Label* of_rows) {
    if (least_rows_ == most_rows_) return;
    a_.mov(g(r.count), field(offsetof(matmul_frame, high)));
    a_.cmp(field(offsetof(matmul_frame, low_blocks)),
           g(block_count));  // carry: not yet among the low blocks
    a_.adc(g(r.count), immediate(-1));
    for (int rows = most_rows_; rows > least_rows_; --rows) {
      if (!occurs(rows)) continue;
      a_.cmp(g(r.count), immediate(rows));
      a_.je(of_rows[rows], xb::CodeGenerator::T_NEAR);
    }
  }

  // One row of values in registers first, first + 1, ...
  void emit_epilogue(int first, int vectors, int tail_lanes, register_set free) {
    epilogue_.emit(a_, origins_.row(s_.level, first, vectors, tail_lanes, free));
  }

  assembler& a_;
  matmul_shape s_;
  epilogue const& epilogue_;
  epilogue_origins origins_;
  int most_rows_ = 0, least_rows_ = 1;

 private:
  static constexpr int origin_registers[] = {6, 3, 5, 12, 13, 14, 15};
  static constexpr int callee_saved[] = {3, 5, 12, 13, 14, 15};
  static constexpr register_set free_general = 1U << 1 | 1U << 2 | 1U << 8;

  static bool takes_ldb(matmul_shape const& s) { return s.direct_panel || s.column; }
  static origin_layout layout(matmul_shape const& s) {
    origin_layout l = origin_layout::of<matmul_frame>();
    l.frame = frame;
    l.registers =
        array_view<int const>(origin_registers).first(std::size_t{takes_ldb(s) ? 6U : 7U});
    l.spare = r.a1;
    l.tail_mask = lanes_mask;
    l.free_masks = set_of_range(1, 5);
    l.free_general = free_general;
    return l;
  }
  bool uses(int general_register) const {
    for (int i = 0; i < origins_.held(); ++i)
      if (origin_registers[i] == general_register) return true;
    return takes_ldb(s_) && general_register == r.ldb;
  }
};

}  // namespace sinter::inline SINTER_ABI::jit
