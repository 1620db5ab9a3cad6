// What the kernels of a matmul have in common: what their code depends on, the frame through which
// C++ drives it, and the code that stands on the frame's fields.
//
// A kernel walks tiles of rows. In the frame are the operands' addresses, the tiles of a call, and
// where each operand of the epilogue has its row 0; origins stand in registers as far as there are
// any and move down as rows are done. Knows nothing of how sums are made. Read jit/matmul.hpp
// (columns in the lanes) and jit/column.hpp (one column, K in the lanes) next.
#pragma once

#include "../core/buffer.hpp"
#include "epilogue.hpp"
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
  bool column = false;       ///< jit/column.hpp, which reads these dtypes:
  dtype a = dtype::f32, b = dtype::f32;
  extent k = 0;
  friend bool operator==(matmul_shape const&, matmul_shape const&) = default;
};

/// The argument of a kernel: filled by C++, its last part written by the kernel itself.
/// matmul_frame_bytes() long.
struct matmul_frame {
  void const* a = nullptr;
  std::int64_t lda = 0;  ///< bytes from row to row
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
      : a_(a), s_(s), accesses_(accesses), epilogue_(e) {
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

  // at = origin + column * size, or the origin itself where all columns share an element.
  void load_origins() {
    if (!accesses_.empty()) a_.mov(g(r.count), field(offsetof(matmul_frame, column)));
    for (int i = 0; i < accesses_.ssize(); ++i) {
      xb::Reg64 const to = g(i < origins_in_registers() ? origin_registers[i] : r.a1);
      a_.mov(to, field(access_field(i, offsetof(matmul_frame::access, origin))));
      if (accesses_[i].across == columns::unit)
        a_.lea(to, a_.ptr[to + g(r.count) * size_of(accesses_[i].type)]);
      if (i >= origins_in_registers()) a_.mov(field(at_field(i)), to);
    }
  }
  /// Origins move down by so many rows; -1: by matmul_frame::rows_taken.
  void advance_rows(int rows) {
    for (int i = 0; i < accesses_.ssize(); ++i) {
      if (!accesses_[i].moves) continue;
      xb::Address const stride = field(access_field(i, offsetof(matmul_frame::access, row_stride)));
      bool const held = i < origins_in_registers();
      if (held && rows == 1) {
        a_.add(g(origin_registers[i]), stride);
        continue;
      }
      if (rows < 0) {
        a_.mov(g(r.count), field(offsetof(matmul_frame, rows_taken)));
        a_.imul(g(r.count), stride);
      } else if (rows == 1) {
        a_.mov(g(r.count), stride);
      } else {
        a_.imul(g(r.count), stride, rows);
      }
      held ? a_.add(g(origin_registers[i]), g(r.count)) : a_.add(field(at_field(i)), g(r.count));
    }
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

  register_set all_vectors() const { return has_masks(s_.level) ? ~register_set{0} : 0xffffU; }

  // One row of values in registers first, first + 1, ...
  void emit_epilogue(int first, int vectors, int tail_lanes, register_set free) {
    accumulator_block block;
    block.level = s_.level;
    block.rows = 1;
    block.vectors = vectors;
    block.first = first;
    block.tail_lanes = tail_lanes;
    block.tail_mask = has_masks(s_.level) && tail_lanes > 0 ? lanes_mask : -1;
    block.frame = frame;
    block.stack_register = frame;
    block.stack_at = static_cast<int>(offsetof(matmul_frame, scratch));
    block.free_vectors = free;
    block.free_masks = has_masks(s_.level) ? 0x3eU : 0;
    block.free_general = free_general;
    for (int i = 0; i < accesses_.ssize(); ++i) {
      bool const held = i < origins_in_registers();
      block.place(accesses_[i], held ? origin_registers[i] : -1,
                  held ? -1 : static_cast<std::int32_t>(at_field(i)));
    }
    epilogue_.emit(a_, block);
  }

  assembler& a_;
  matmul_shape s_;
  epilogue_accesses accesses_;
  epilogue const& epilogue_;
  int most_rows_ = 0, least_rows_ = 1;

 private:
  static constexpr int origin_registers[] = {6, 3, 5, 12, 13, 14, 15};
  static constexpr int callee_saved[] = {3, 5, 12, 13, 14, 15};
  static constexpr register_set free_general = 1U << 1 | 1U << 2 | 1U << 8;

  static std::size_t access_field(int i, std::size_t member) {
    return offsetof(matmul_frame, accesses) +
           static_cast<std::size_t>(i) * sizeof(matmul_frame::access) + member;
  }
  static std::size_t at_field(int i) { return access_field(i, offsetof(matmul_frame::access, at)); }

  bool takes_ldb() const { return s_.direct_panel || s_.column; }
  int origins_in_registers() const {
    int const all = takes_ldb() ? 6 : 7;
    return accesses_.ssize() < all ? accesses_.ssize() : all;
  }
  bool uses(int general_register) const {
    for (int i = 0; i < origins_in_registers(); ++i)
      if (origin_registers[i] == general_register) return true;
    return takes_ldb() && general_register == r.ldb;
  }
};

}  // namespace sinter::inline SINTER_ABI::jit
