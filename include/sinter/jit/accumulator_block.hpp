// The one type where a tile kernel and an epilogue meet: where the sums are, and where the operands
// of later steps lie.
//
// A block is a tile of f32 values, rows x column vectors, held in vector registers. How the sums
// were made is unknown to the epilogue; what follows is unknown to the tile kernel. Every operand
// and output of the epilogue is seen through one rule: the element (row, column) of the block lies
// at
//     origin + row * row_stride + column * (across == unit ? size_of(type) : 0)        [bytes]
// so a residual is {stride, unit}, a bias {0, unit}, a value per row {stride, broadcast}, a scalar
// {0, broadcast}. Other column strides do not exist here: rules refuse them before. The tile kernel
// keeps each origin up to date as it moves from block to block, in a register or in a slot of its
// frame. Read jit/epilogue.hpp next.
#pragma once

#include <cstdint>

#include "../base/inline_vector.hpp"
#include "../core/dtype.hpp"
#include "../core/shape.hpp"
#include "../isa/isa.hpp"
#include "../plan/chain.hpp"

namespace sinter::inline SINTER_ABI::jit {

/// Code is generated for a level, whatever the machine has: 16 ymm on avx2; 32 zmm and 8 masks from
/// avx512 on.
constexpr bool has_masks(isa level) { return includes(level, isa::avx512); }
constexpr int lanes_of(isa level) { return has_masks(level) ? 16 : 8; }
constexpr int vector_count_of(isa level) { return has_masks(level) ? 32 : 16; }
constexpr int vector_bytes_of(isa level) { return 4 * lanes_of(level); }

enum class columns : unsigned char { unit, broadcast };

/// How the block sees one operand or output.
struct block_access {
  dtype type = dtype::f32;
  columns across = columns::unit;
  /// Bytes from row to row: 0 where the rows share one; `dynamic` where the value is read from the
  /// frame.
  extent row_stride = 0;
  /// Frame offset of the row stride (int64, bytes), where it is dynamic.
  std::int32_t stride_at = -1;
  /// Where the address of element (0, 0) is: in this general register (0 to 15), or, if -1,
  int origin_register = -1;
  std::int32_t origin_at = -1;  ///< in the frame at this offset
  std::int32_t offset = 0;      ///< bytes that are added to it
  /// An operand with one value for all rows and columns: a vector register that holds it already;
  /// -1: it is read from memory.
  int vector = -1;
};

/// What a step that reduces rows is accumulated in: jit/reduction.hpp.
struct block_reduction {
  int step = -1;
  int first = -1;        ///< vector registers first, first + 1, ...: one for each copy
  int first_index = -1;  ///< argmax: as many more
  int copies = 0;        ///< vector i of a block goes to accumulator i modulo this
};

/// One operand or output of a kernel's epilogue, before it is known where the kernel keeps its
/// address.
struct epilogue_access {
  bool output = false;
  int index = 0;  ///< among the chain's operands or outputs
  dtype type = dtype::f32;
  columns across = columns::unit;
  bool moves = false;  ///< another row or pixel may be another address
  friend bool operator==(epilogue_access const&, epilogue_access const&) = default;
};
using epilogue_accesses = inline_vector<epilogue_access, max_operands + max_outputs>;

/// Sets of registers: bit i is register i.
using register_set = std::uint32_t;
constexpr register_set all_vectors_of(isa level) {
  return has_masks(level) ? ~register_set{0} : 0xffffU;
}

struct accumulator_block {
  isa level = isa::avx2;
  int rows = 0;     ///< rows of values; one vector register holds values of one row
  int vectors = 0;  ///< column vectors per row
  /// The register of (row, vector) is first + row * row_step + vector * vector_step.
  int first = 0;
  int row_step = 1;
  int vector_step = 1;
  int tail_lanes = 0;  ///< valid lanes of the last column vector; 0: all
  /// AVX-512: a mask register that holds (1 << tail_lanes) - 1; -1: the epilogue makes one.
  int tail_mask = -1;
  /// The general register that frame offsets count from; unused where nothing is in the frame.
  int frame = -1;
  /// General register and offset of scratch memory of epilogue::stack_bytes() bytes (no alignment
  /// is needed).
  int stack_register = 4;
  std::int32_t stack_at = 0;
  /// What the epilogue may overwrite, the accumulators aside. At least one general register; any
  /// number of vector registers: where they are few, accumulators wait in the scratch memory.
  register_set free_vectors = 0;
  register_set free_masks = 0;
  register_set free_general = 0;
  /// One per operand of the chain, in its order; those that no epilogue step reads are ignored.
  inline_vector<block_access, max_operands> operands;
  /// One per output of the chain.
  inline_vector<block_access, max_outputs> outputs;
  /// One per reduction among the steps. Blocks then follow each other along a row.
  inline_vector<block_reduction, max_steps> reductions;
  int columns = -1;  ///< argmax: a vector register with the number of the block's first column

  constexpr int register_of(int row, int vector) const {
    return first + row * row_step + vector * vector_step;
  }
  /// Element (0, 0) of an operand or output lies where a general register says, or, if that is -1,
  /// the frame.
  void place(epilogue_access const& from, int origin_register, std::int32_t origin_at) {
    block_access to;
    to.type = from.type;
    to.across = from.across;
    to.origin_register = origin_register;
    to.origin_at = origin_at;
    auto const put = [&](auto& among) {
      auto const index = static_cast<std::size_t>(from.index);
      if (among.size() <= index) among.resize(index + 1);
      among[index] = to;
    };
    from.output ? put(outputs) : put(operands);
  }
  constexpr int lanes() const { return lanes_of(level); }
  constexpr bool has_tail(int vector) const { return tail_lanes != 0 && vector == vectors - 1; }
};

}  // namespace sinter::inline SINTER_ABI::jit
