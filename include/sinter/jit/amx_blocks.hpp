// What stands around a block of AMX tiles, in a matrix product and in a convolution: phases of
// blocks that share a configuration, and the way of sums from tiles to the epilogue.
//
// Rows are taken in two phases: whole blocks, then one block of what remains. So a call configures
// tiles twice at most, however many panels and lines there are, and not at all where the last call
// left what is wanted (amx_memory::configured, of the same tile_scope). Sums are stored to memory
// that stays in the first-level cache and go row by row through the epilogue, which sees an
// accumulator_block as from any other tile. One epilogue is emitted for each kind of panel and
// called from every block. The loops over panels or lines are the business of jit/matmul_amx.hpp
// and jit/conv_amx.hpp.
#pragma once

#include "epilogue.hpp"
#include "epilogue_origins.hpp"
#include "registers.hpp"
#include "tile_amx.hpp"

namespace sinter::inline SINTER_ABI::jit {

/// Where things are in the frame of a kernel.
struct amx_frame {
  origin_layout origins;
  std::size_t a = 0, lda = 0, row_stride = 0;
  std::size_t line_stride = 0;  ///< of an access; 0: there is one line
  std::size_t a_line = 0;
  std::size_t memory = 0;  ///< amx_memory
};

/// Of a frame with `a`, accesses and scratch, whose amx_memory begins `memory` bytes from its start.
template <class Frame>
amx_frame amx_frame_of(std::size_t lda, std::size_t memory) {
  using access = typename Frame::access;
  amx_frame f;
  f.origins = origin_layout::of<Frame>();
  f.a = offsetof(Frame, a);
  f.lda = lda;
  f.row_stride = offsetof(access, row_stride);
  f.memory = memory;
  return f;
}

class amx_blocks {
 public:
  static constexpr amx_registers r{.frame = 7,
                                   .a = {0, 8, 3, 5},
                                   .lda = 9,
                                   .b = {2, 12},
                                   .stride64 = 13,
                                   .stride128 = 14,
                                   .count = 1,
                                   .copied = 6,
                                   .rows_left = 11,
                                   .ahead = 15};

  amx_blocks(assembler& a, epilogue_accesses const& accesses, epilogue const& e, amx_frame const& f)
      : a_(a), epilogue_(e), f_(f), origins_(a, accesses, layout(f)) {}

  static xb::Reg64 g(int i) { return assembler::general(i); }
  xb::Address field(std::size_t offset) const { return a_.qword[g(r.frame) + offset]; }
  xb::Address own(std::size_t offset) const { return field(f_.memory + offset); }

  int memory_at() const { return static_cast<int>(f_.memory); }

  /// The kernel's entry: saved registers, masks, leading dimension.
  void enter(int tail_lanes, extent run_bytes) {
    for (int i : callee_saved) a_.push(g(i));
    set_mask(lanes_mask, tail_lanes);
    set_mask(ends_mask, static_cast<int>(run_bytes % amx_row_bytes));
    a_.mov(g(r.lda), field(f_.lda));
  }
  void leave() {
    a_.vzeroupper();
    for (std::size_t i = std::size(callee_saved); i-- > 0;) a_.pop(g(callee_saved[i]));
    a_.ret();
  }

  /// Two phases over `rows` (a field of the frame). `blocks_of(i)` is code that computes all blocks
  /// of i tiles of rows, `tiles` of them in a whole block: 1, 2 or 4.
  void phases(std::size_t rows, int tiles, xb::Label* blocks_of) {
    xb::Label rest, end;
    xb::Reg64 const n = g(r.count);
    a_.mov(n, field(rows));
    a_.shr(n, tiles == 1 ? 4 : tiles == 2 ? 5 : 6);
    a_.jz(rest, xb::CodeGenerator::T_NEAR);
    a_.mov(own(offsetof(amx_memory, blocks)), n);
    a_.mov(own(offsetof(amx_memory, block_rows)), immediate(amx_rows * tiles));
    a_.mov(own(offsetof(amx_memory, first_row)), 0);
    a_.mov(n.cvt32(), amx_rows);
    configure(tiles);
    a_.call(blocks_of[tiles]);
    a_.L(rest);
    a_.mov(n, field(rows));
    a_.mov(g(r.b[0]), n);
    a_.and_(n, immediate(amx_rows * tiles - 1));
    a_.jz(end, xb::CodeGenerator::T_NEAR);
    a_.mov(own(offsetof(amx_memory, block_rows)), n);
    a_.sub(g(r.b[0]), n);
    a_.mov(own(offsetof(amx_memory, first_row)), g(r.b[0]));
    a_.mov(own(offsetof(amx_memory, blocks)), 1);
    for (int i = tiles; i > 0; --i) {
      xb::Label fewer;
      if (i > 1) {
        a_.cmp(n, immediate(amx_rows * (i - 1)));
        a_.jbe(fewer, xb::CodeGenerator::T_NEAR);
        a_.sub(n, immediate(amx_rows * (i - 1)));
      }
      configure(i);
      a_.call(blocks_of[i]);
      if (i > 1) a_.jmp(end, xb::CodeGenerator::T_NEAR);
      a_.L(fewer);
    }
    a_.L(end);
  }

  /// All blocks of the phase at hand, for panels of vectors[0] and vectors[1] (0: one panel only)
  /// vectors; `ends` the code of their epilogues. `prepare` puts addresses of panels in registers,
  /// and what 2 x 2 blocks prefetch; `products` adds to the sums of a block.
  template <class Prepare, class Products>
  void each_block(amx_block const& b, amx_run const& run, xb::Label* const* ends, Prepare&& prepare,
                  Products&& products) {
    xb::Label again;
    amx_registers registers = r;
    if (b.rows == 1 || b.columns == 1) registers.ahead = -1;
    xb::Reg64 const a0 = g(r.a[0]), n = g(r.count);
    a_.mov(n, own(offsetof(amx_memory, blocks)));
    a_.mov(own(offsetof(amx_memory, blocks_left)), n);
    a_.mov(n, own(offsetof(amx_memory, first_row)));
    a_.mov(own(offsetof(amx_memory, row)), n);
    a_.imul(n, g(r.lda));
    a_.add(n, field(f_.a));
    if (f_.a_line != 0) {
      a_.mov(a0, own(offsetof(amx_memory, line)));
      a_.imul(a0, field(f_.a_line));
      a_.add(n, a0);
    }
    a_.mov(own(offsetof(amx_memory, a)), n);
    a_.L(again);
    a_.mov(g(r.stride64).cvt32(), 64);
    a_.mov(g(r.stride128).cvt32(), 128);
    prepare();
    a_.mov(a0, own(offsetof(amx_memory, a)));
    tile_amx tiles(a_, b, run, registers);
    tiles.clear();
    products(tiles);
    tiles.store();
    for (int q = 0; q < 2 && run.vectors[q] > 0; ++q) {
      if (q > 0) a_.add(own(offsetof(amx_memory, column)), immediate(tile_columns(a_.level())));
      a_.lea(g(sums), a_.ptr[g(r.frame) + bytes(tiles.sums_of_panel(q))]);
      a_.call(*ends[q]);
    }
    if (run.vectors[1] > 0)
      a_.sub(own(offsetof(amx_memory, column)), immediate(tile_columns(a_.level())));
    a_.add(own(offsetof(amx_memory, row)), immediate(amx_rows * b.rows));
    a_.imul(n, g(r.lda), amx_rows * b.rows);
    a_.add(own(offsetof(amx_memory, a)), n);
    a_.dec(own(offsetof(amx_memory, blocks_left)));
    a_.jnz(again, xb::CodeGenerator::T_NEAR);
  }

  /// Eight blocks of rows bring the next panel, `from` (a field) bytes behind this one: a line of each in turn for
  /// every product.
  void prefetch_at(std::size_t from) {
    xb::Reg64 const at = g(r.ahead);
    a_.mov(at, own(offsetof(amx_memory, row)));
    if (f_.a_line != 0) {
      a_.mov(g(r.count), own(offsetof(amx_memory, line)));
      a_.shl(g(r.count), 5);
      a_.add(at, g(r.count));
    }
    a_.shl(at, 3);
    a_.and_(at, 0x700);
    a_.add(at, field(from));
  }

  /// The epilogue of block_rows rows of one panel, as a function within the kernel.
  void emit_epilogue(int vectors, int tail_lanes) {
    xb::Label next_row;
    emit_origins();
    a_.mov(g(r.rows_left), own(offsetof(amx_memory, block_rows)));
    a_.align(32);
    a_.L(next_row);
    for (int j = 0; j < vectors; ++j)
      a_.vmovups(a_.vec(j), a_.ptr[g(sums) + bytes(j * amx_row_bytes)]);
    epilogue_.emit(a_, origins_.row(a_.level(), 0, vectors, tail_lanes, ~set_of_range(0, vectors)));
    origins_.advance(f_.row_stride);
    a_.add(g(sums), immediate(vectors * amx_row_bytes));
    a_.dec(g(r.rows_left));
    a_.jnz(next_row, xb::CodeGenerator::T_NEAR);
    a_.ret();
  }

 protected:
  assembler& a_;

 private:
  static constexpr int sums = 10;
  static constexpr int origin_registers[] = {6, 3, 5, 12, 13, 14, 15};
  static constexpr int callee_saved[] = {3, 5, 12, 13, 14, 15};
  static constexpr register_set free_general = 1U << 1 | 1U << 2 | 1U << 8;

  static origin_layout layout(amx_frame const& f) {
    origin_layout l = f.origins;
    l.frame = r.frame;
    l.registers = origin_registers;
    l.spare = free_register;
    l.tail_mask = lanes_mask;
    l.free_masks = set_of_range(1, 5);
    l.free_general = free_general;
    return l;
  }
  void set_mask(int mask, int bits) {
    if (bits == 0) return;
    a_.mov(g(r.count), (std::uint64_t{1} << bits) - 1);
    a_.kmovq(assembler::mask(mask), g(r.count));
  }

  /// Tiles for blocks of `rows` tiles of rows, the last of them with as many rows as `count` says.
  void configure(int rows) {
    xb::Label done;
    xb::Reg64 const last = g(r.count), wanted = g(r.b[0]);
    a_.lea(wanted, a_.ptr[last + bytes(rows << 8)]);
    a_.cmp(wanted, own(offsetof(amx_memory, configured)));
    a_.je(done, xb::CodeGenerator::T_NEAR);
    a_.mov(own(offsetof(amx_memory, configured)), wanted);
    std::size_t const palette = f_.memory + offsetof(amx_memory, palette);
    a_.vmovups(xb::Zmm(0), a_.table(amx_palette()));
    a_.vmovups(a_.ptr[g(r.frame) + palette], xb::Zmm(0));
    for (int t = 0; t < amx_tiles; ++t)
      if ((amx_block{rows, 1}.last_rows() >> t & 1U) != 0)
        a_.mov(a_.byte[g(r.frame) + palette + amx_palette_rows_at + static_cast<std::size_t>(t)],
               last.cvt8());
    a_.ldtilecfg(a_.ptr[g(r.frame) + palette]);
    a_.L(done);
  }

  // at = origin + line * line_stride + row * row_stride + column * size
  void emit_origins() {
    for (int i = 0; i < origins_.accesses().ssize(); ++i) {
      epilogue_access const& access = origins_.accesses()[i];
      xb::Reg64 const to = g(origins_.register_or_spare(i)), by = g(r.count);
      a_.mov(to, field(origins_.field_of(i, f_.origins.origin)));
      if (access.moves) {
        add_times(to, by, origins_.field_of(i, f_.row_stride), offsetof(amx_memory, row));
        if (f_.line_stride != 0)
          add_times(to, by, origins_.field_of(i, f_.line_stride), offsetof(amx_memory, line));
      }
      if (access.across == columns::unit) {
        a_.mov(by, own(offsetof(amx_memory, column)));
        a_.lea(to, a_.ptr[to + by * size_of(access.type)]);
      }
      origins_.keep(i);
    }
  }
  void add_times(xb::Reg64 const& to, xb::Reg64 const& by, std::size_t stride, std::size_t times) {
    a_.mov(by, own(times));
    a_.imul(by, field(stride));
    a_.add(to, by);
  }
  static constexpr int free_register = 8;
  epilogue const& epilogue_;
  amx_frame f_;
  epilogue_origins origins_;
};

}  // namespace sinter::inline SINTER_ABI::jit
