// The matmul kernel: the loops around a tile in generated code, and the frame through which C++
// drives it.
//
// For each panel of the second operand, for each tile of rows: K loop, epilogue. All extents but K
// and the width of the last panel are read from the frame, so one kernel serves every M and N,
// every stride, and M known only at the call. What is in the cache key (matmul_shape and the
// epilogue's chain) is what the code depends on, nothing else. Batches, copies of operands and
// blocks of rows that fit a cache are backend/jit_matmul.hpp's business.
//
// The epilogue is emitted row by row, and tiles with fewer rows enter it further down. Where
// registers are few, or the chain so long that its code would not fit, the sums wait in the frame
// and one row's code runs in a loop.
#pragma once

#include "../core/buffer.hpp"
#include "epilogue.hpp"
#include "registers.hpp"
#include "tile_avx2.hpp"
#include "tile_avx512.hpp"

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
  // Written by the kernel.
  std::int64_t panels_left = 0, column = 0, blocks_left = 0, rows_left = 0, spilled = 0;
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

class matmul_generator {
 public:
  matmul_generator(assembler& a, matmul_shape const& s, epilogue_accesses const& accesses,
                   epilogue const& e)
      : a_(a), s_(s), accesses_(accesses), epilogue_(e) {
    for (int i = 1; i <= tile_rows(s_.level); ++i)
      if (occurs(i)) most_rows_ = i;
    while (least_rows_ < most_rows_ && !occurs(least_rows_)) ++least_rows_;
  }

  /// False where an epilogue for each row would not fit: that is known after the first one.
  bool emit() {
    for (int i : callee_saved)
      if (uses(i)) a_.push(g(i));
    a_.mov(g(r.lda), field(offsetof(matmul_frame, lda)));
    if (most_rows_ >= 4) a_.lea(g(r.lda3), a_.ptr[g(r.lda) + g(r.lda) * 2]);
    if (s_.direct_panel) a_.mov(g(r.ldb), field(offsetof(matmul_frame, ldb)));
    a_.mov(g(r.scratch), field(offsetof(matmul_frame, b)));
    a_.mov(field(offsetof(matmul_frame, panel)), g(r.scratch));
    a_.mov(field(offsetof(matmul_frame, column)), 0);
    xb::Label end;
    if (s_.full_panels) emit_full_panels();
    if (s_.full_panels && s_.tail_columns > 0) {
      a_.cmp(field(offsetof(matmul_frame, tail_panel)), 0);
      a_.je(end, xb::CodeGenerator::T_NEAR);
    }
    if (s_.tail_columns > 0) emit_tail_panel();
    a_.L(end);
    a_.vzeroupper();
    for (std::size_t i = std::size(callee_saved); i-- > 0;)
      if (uses(callee_saved[i])) a_.pop(g(callee_saved[i]));
    a_.ret();
    return fits_;
  }

 private:
  // rdi holds the frame throughout. Origins stand in registers as far as there are any.
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
  static constexpr int origin_registers[] = {6, 3, 5, 12, 13, 14, 15};
  static constexpr int callee_saved[] = {3, 5, 12, 13, 14, 15};
  static constexpr register_set free_general = 1U << 1 | 1U << 2 | 1U << 8;

  static xb::Reg64 g(int i) { return assembler::general(i); }
  xb::Address field(std::size_t offset) const { return a_.qword[g(frame) + offset]; }
  static std::size_t access_field(int i, std::size_t member) {
    return offsetof(matmul_frame, accesses) +
           static_cast<std::size_t>(i) * sizeof(matmul_frame::access) + member;
  }
  static std::size_t at_field(int i) { return access_field(i, offsetof(matmul_frame::access, at)); }
  static int stack_at() { return static_cast<int>(offsetof(matmul_frame, scratch)); }

  int origins_in_registers() const {
    int const all = s_.direct_panel ? 6 : 7;
    return accesses_.ssize() < all ? accesses_.ssize() : all;
  }
  bool uses(int general_register) const {
    for (int i = 0; i < origins_in_registers(); ++i)
      if (origin_registers[i] == general_register) return true;
    return s_.direct_panel && general_register == r.ldb;
  }

  void emit_full_panels() {
    xb::Label again, done;
    a_.mov(g(r.count), field(offsetof(matmul_frame, full_panels)));
    a_.test(g(r.count), g(r.count));
    a_.jz(done, xb::CodeGenerator::T_NEAR);
    a_.mov(field(offsetof(matmul_frame, panels_left)), g(r.count));
    a_.L(again);
    emit_panel(tile_vectors, 0);
    a_.mov(g(r.count), field(offsetof(matmul_frame, full_panel_bytes)));
    a_.add(field(offsetof(matmul_frame, panel)), g(r.count));
    a_.add(field(offsetof(matmul_frame, column)), immediate(tile_columns(s_.level)));
    a_.dec(field(offsetof(matmul_frame, panels_left)));
    a_.jnz(again, xb::CodeGenerator::T_NEAR);
    a_.L(done);
  }
  void emit_tail_panel() {
    int const lanes = lanes_of(s_.level), valid = s_.tail_columns % lanes;
    if (has_masks(s_.level)) {
      if (valid > 0) set_mask(lanes_mask, valid);
      if (s_.direct_panel) set_mask(columns_mask, s_.tail_columns);
    }
    emit_panel((s_.tail_columns + lanes - 1) / lanes, valid);
  }
  void set_mask(int mask, int bits) {
    a_.mov(xb::Reg32(r.count), (std::uint64_t{1} << bits) - 1);
    a_.kmovd(assembler::mask(mask), xb::Reg32(r.count));
  }

  // All rows of one panel.
  void emit_panel(int vectors, int tail_lanes) {
    emit_origins();
    a_.mov(g(r.a0), field(offsetof(matmul_frame, a)));
    a_.mov(g(block_count), field(offsetof(matmul_frame, blocks)));
    xb::Label next_block;
    a_.align(32);
    a_.L(next_block);
    a_.mov(g(r.b), field(offsetof(matmul_frame, panel)));
    if (s_.looped_epilogue)
      emit_tiles_looped(vectors, tail_lanes);
    else
      emit_tiles(vectors, tail_lanes);
    a_.dec(g(block_count));
    a_.jnz(next_block, xb::CodeGenerator::T_NEAR);
  }

  // at = origin + column * size, or the origin itself where all columns share an element.
  void emit_origins() {
    if (!accesses_.empty()) a_.mov(g(r.count), field(offsetof(matmul_frame, column)));
    for (int i = 0; i < accesses_.ssize(); ++i) {
      xb::Reg64 const to = g(i < origins_in_registers() ? origin_registers[i] : r.a1);
      a_.mov(to, field(access_field(i, offsetof(matmul_frame::access, origin))));
      if (accesses_[i].across == columns::unit)
        a_.lea(to, a_.ptr[to + g(r.count) * size_of(accesses_[i].type)]);
      if (i >= origins_in_registers()) a_.mov(field(at_field(i)), to);
    }
  }
  void advance_row() {
    for (int i = 0; i < accesses_.ssize(); ++i) {
      if (!accesses_[i].moves) continue;
      xb::Address const stride = field(access_field(i, offsetof(matmul_frame::access, row_stride)));
      if (i < origins_in_registers()) {
        a_.add(g(origin_registers[i]), stride);
      } else {
        a_.mov(g(r.count), stride);
        a_.add(field(at_field(i)), g(r.count));
      }
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
  template <class Then>
  void emit_k_loops(int vectors, int tail_lanes, Then&& then) {
    xb::Label of_rows[16];
    dispatch(of_rows);
    for (int rows = least_rows_; rows <= most_rows_; ++rows) {
      if (!occurs(rows)) continue;
      a_.L(of_rows[rows]);
      emit_tile(rows, vectors, tail_lanes);
      then(rows);
    }
  }

  // The sums of one tile; then a0 moves past its rows.
  void emit_tile(int rows, int vectors, int tail_lanes) {
    int const lanes = lanes_of(s_.level);
    tile t{s_.kind, rows, vectors, s_.k, s_.direct, s_.direct_panel, vectors * lanes};
    if (tail_lanes > 0) t.columns -= lanes - tail_lanes;
    t.half_tail = fills_half(s_.level, tail_lanes);
    if (has_masks(s_.level))
      emit_sums(tile_avx512(a_, t, r), rows);
    else
      emit_sums(tile_avx2(a_, t, r), rows);
    a_.imul(g(r.count), g(r.lda), rows);
    a_.add(g(r.a0), g(r.count));
  }
  template <class Tile>
  void emit_sums(Tile t, int rows) {
    t.clear();
    if (rows > 4) a_.lea(g(r.a1), a_.ptr[g(r.a0) + g(r.lda) * 4]);
    std::int32_t const advanced = t.multiply();
    if (advanced != 0) a_.sub(g(r.a0), immediate(advanced));
    t.merge();
  }

  void emit_tiles(int vectors, int tail_lanes) {
    xb::Label of_rows[16];
    emit_k_loops(vectors, tail_lanes, [&](int rows) {
      if (rows != most_rows_) a_.jmp(of_rows[rows], xb::CodeGenerator::T_NEAR);
    });
    register_set const accumulators = set_of_range(0, tile_rows(s_.level) * tile_vectors);
    std::size_t const begin = a_.getSize();
    for (int rows = most_rows_; rows > 0; --rows) {
      if (rows == most_rows_ - 1 &&
          begin + (a_.getSize() - begin) * rows_of_code(vectors) > a_.max_code_bytes)
        fits_ = false;
      if (!fits_) return;
      a_.L(of_rows[rows]);
      int const first = accumulator_of(s_.level, rows, 0, 0);
      emit_epilogue(first, vectors, tail_lanes,
                    (all_vectors() & ~accumulators) | set_of_range(0, first));
      advance_row();
    }
  }

  // How often the epilogue of one row stands in all panels together, if it is that of `vectors`
  // vectors.
  std::size_t rows_of_code(int vectors) const {
    int const tail = (s_.tail_columns + lanes_of(s_.level) - 1) / lanes_of(s_.level);
    return static_cast<std::size_t>(most_rows_ * ((s_.full_panels ? tile_vectors : 0) + tail) /
                                    vectors);
  }

  // The sums go to the frame, then row by row through one copy of the epilogue.
  void emit_tiles_looped(int vectors, int tail_lanes) {
    xb::Label rows_stored, next_row;
    int const vector_bytes = vector_bytes_of(s_.level);
    emit_k_loops(vectors, tail_lanes, [&](int rows) {
      for (int i = 0; i < rows; ++i)
        for (int j = 0; j < vectors; ++j)
          a_.vmovups(a_.ptr[g(frame) + offsetof(matmul_frame, spill) +
                            bytes((i * vectors + j) * vector_bytes)],
                     a_.vec(accumulator_of(s_.level, rows, i, j)));
      a_.mov(field(offsetof(matmul_frame, rows_left)), immediate(rows));
      if (rows != most_rows_) a_.jmp(rows_stored, xb::CodeGenerator::T_NEAR);
    });
    a_.L(rows_stored);
    a_.lea(g(r.count), a_.ptr[g(frame) + offsetof(matmul_frame, spill)]);
    a_.mov(field(offsetof(matmul_frame, spilled)), g(r.count));
    a_.L(next_row);
    a_.mov(g(r.count), field(offsetof(matmul_frame, spilled)));
    for (int j = 0; j < vectors; ++j)
      a_.vmovups(a_.vec(j), a_.ptr[g(r.count) + bytes(j * vector_bytes)]);
    emit_epilogue(0, vectors, tail_lanes, all_vectors() & ~set_of_range(0, vectors));
    advance_row();
    a_.add(field(offsetof(matmul_frame, spilled)), immediate(vectors * vector_bytes));
    a_.dec(field(offsetof(matmul_frame, rows_left)));
    a_.jnz(next_row, xb::CodeGenerator::T_NEAR);
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
    block.stack_at = stack_at();
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
  bool fits_ = true;
};

}  // namespace sinter::inline SINTER_ABI::jit
