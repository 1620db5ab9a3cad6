// What a row kernel's code depends on, and the frame that it reads: where rows lie, how many there
// are.
//
// Scalars stand in the frame, those of rows side by side in lanes of a vector; wide values between passes in memory that
// the caller gives. Several rows may be computed side by side; then all distances between them are
// part of the code. Values and addresses only: the code is jit/rows.hpp's, the passes are
// jit/rows_pass.hpp's.
#pragma once

#include <algorithm>
#include <cstddef>

#include "../base/join.hpp"
#include "epilogue.hpp"
#include "rows_plan.hpp"
#include "tile.hpp"

namespace sinter::inline SINTER_ABI::jit {

inline constexpr int max_kept = 16;
/// Vectors of a block: enough independent sums for the latency of an addition.
inline constexpr int row_unroll = 4;
/// Rows side by side, at most: while one waits for its reduction, the others have work.
inline constexpr int most_together = 4;

/// What the code depends on beside the plan.
struct rows_shape {
  isa level = isa::avx2;
  int unroll = row_unroll;
  /// Columns of a partial vector at the end of a row; 0: there is none. From AVX-512 on any number:
  /// the frame's mask says how many.
  int tail_lanes = 0;
  /// Rows side by side. 1: there is no code for more, and what follows is not used.
  int together = 1;
  int vectors = 0;    ///< whole ones of a row
  bool tail = false;  ///< a partial one follows
  /// Bytes from row to row: of kept values, of each access.
  std::int32_t kept_bytes = 0;
  inline_vector<std::int32_t, max_operands + max_outputs> strides;
};

/// The argument of a kernel. rows_frame_bytes() long.
struct rows_frame {
  std::int64_t groups = 0;               ///< of rows side by side
  std::int64_t rows = 0;                 ///< one by one, after them
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
  alignas(64) std::byte scalars[64];                     ///< as long as the plan wants
};
/// Of a scalar: that of row i of the rows side by side stands in float i. A whole vector may be read
/// and written from there.
inline constexpr int scalar_bytes = 128;
static_assert(scalar_bytes >= 4 * most_together + 64);

using rows_entry = void (*)(rows_frame*);

inline std::size_t rows_frame_bytes(rows_plan const& plan) {
  return offsetof(rows_frame, scalars) + static_cast<std::size_t>(scalar_bytes * plan.scalars) + 64;
}

/// Vector registers of the reductions of one pass over `rows` rows. Each has as many accumulators
/// as for one row, so that a row's sums have the same order whoever is beside it.
struct reduction_registers {
  int copies = 0;  ///< accumulators of each; 0: they do not fit
  int reserved = 0;
  bool numbers_columns = false;
};
inline reduction_registers registers_of(row_stage const& s, isa level, int rows) {
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
  r.reserved = r.copies * each * rows + (r.numbers_columns ? 1 : 0);
  return r;
}

/// `rows` rows side by side have their accumulators and what is the same for all columns in
/// registers. Columns are numbered (argmax) for one row only.
inline bool fit_together(rows_plan const& plan, isa level, int rows) {
  for (row_level const& l : plan.levels) {
    row_stage const& s = l.pass;
    if (s.chain.steps.empty()) continue;
    reduction_registers const r = registers_of(s, level, rows);
    if (r.numbers_columns) return false;
    int scalars = 0;
    for (row_value const& v : s.reads) scalars += v.home == row_home::scalar ? rows : 0;
    if (epilogue_needs(s.chain, -1, level) + 1 + r.reserved + scalars > vector_count_of(level))
      return false;
  }
  return true;
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
    if (!l.pass.reductions.empty() && registers_of(l.pass, level, 1).copies == 0)
      return verdict::no(sinter::detail::join({"sinter: jit: ", l.pass.reductions.size(),
                                               " reductions in one pass; ", name_of(level),
                                               " has not enough vector registers"}));
  }
  return verdict::yes();
}

/// How the code of a kernel reaches what the frame and the caller's memory hold. `row` counts the
/// rows side by side.
class rows_places {
 public:
  rows_places(assembler& code, rows_shape const& s, rows_plan const& p,
              epilogue_accesses const& all)
      : a(code), shape(s), plan(p), accesses(all) {}

  static constexpr int frame = 7, counter = 1;                    // general registers
  static constexpr int scratch_mask = 1, one_lane = 6, tail = 7;  // masks

  assembler& a;  // NOLINT: emitters speak to it directly
  rows_shape const& shape;
  rows_plan const& plan;
  epilogue_accesses const& accesses;

  static xb::Reg64 g(int i) { return assembler::general(i); }
  xb::Address field(std::size_t offset) const { return a.qword[g(frame) + offset]; }
  static std::size_t access_field(int i, std::size_t member) {
    return offsetof(rows_frame, accesses) +
           static_cast<std::size_t>(i) * sizeof(rows_frame::access) + member;
  }
  static std::size_t at_field(int i) { return access_field(i, offsetof(rows_frame::access, at)); }
  static std::size_t cursor_field(int slot) {
    return offsetof(rows_frame, cursors) + static_cast<std::size_t>(slot) * sizeof(void*);
  }
  std::int32_t scalar_at(int i, int row) const {
    return static_cast<std::int32_t>(offsetof(rows_frame, scalars)) + scalar_bytes * i + 4 * row;
  }
  int access_of(row_value v) const {
    bool const output = v.home == row_home::output;
    int i = 0;
    while (accesses[i].output != output || accesses[i].index != v.index) ++i;
    return i;
  }
  /// Bytes from the first row to this one.
  std::int32_t row_offset(row_value v, int row) const {
    if (row == 0) return 0;
    return row * (v.home == row_home::kept ? shape.kept_bytes : shape.strides[access_of(v)]);
  }
  block_access scalar_access(int i, int row, columns across) const {
    block_access to;
    to.across = across;
    to.origin_register = frame;
    to.offset = scalar_at(i, row);
    return to;
  }
  /// One value for all columns.
  block_access fixed_access(row_value v, int row) const {
    if (v.home == row_home::scalar) return scalar_access(v.index, row, columns::broadcast);
    int const i = access_of(v);
    block_access to;
    to.type = accesses[i].type;
    to.across = accesses[i].across;
    to.origin_at = static_cast<std::int32_t>(at_field(i));
    to.offset = row_offset(v, row);
    return to;
  }
  accumulator_block new_block(int vectors, register_set reserved) const {
    accumulator_block block;
    block.level = shape.level;
    block.rows = 1;
    block.vectors = vectors;
    block.frame = frame;
    block.free_vectors = all_vectors_of(shape.level) & ~set_of_range(0, vectors) & ~reserved;
    block.free_masks = a.masks() ? 0x3eU : 0;
    block.free_general = set_of(0) | set_of(2);
    return block;
  }
};

}  // namespace sinter::inline SINTER_ABI::jit
