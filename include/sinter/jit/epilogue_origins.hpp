// Where a tile kernel keeps the addresses of its epilogue's operands and outputs: the first ones in general registers,
// the others in its frame; and the block of one row that the epilogue is handed.
//
// Every tile kernel walks over rows or pixels and goes row by row through its epilogue. A frame has an array `accesses`,
// whose elements say at least where an operand's first element is (`origin`) and where it is by now (`at`, written by the
// kernel where no register is left), and bytes of `scratch` for the epilogue. The steps in between (row, pixel, line,
// window) are members of the frame's own. Knows no tile. Read a tile kernel next: jit/matmul.hpp is the plainest.
#pragma once

#include "../base/array_view.hpp"
#include "accumulator_block.hpp"
#include "assembler.hpp"
#include "registers.hpp"

namespace sinter::inline SINTER_ABI::jit {

/// What a kernel lays down once.
struct origin_layout {
  int frame = -1;                   ///< the general register that holds the frame
  array_view<int const> registers;  ///< general ones, for the accesses that come first
  int spare = -1;      ///< a general register that nobody needs while origins are set or moved
  int tail_mask = -1;  ///< AVX-512: the mask register of the last vector's lanes
  register_set free_masks = 0;  ///< AVX-512: what the epilogue may overwrite
  register_set free_general = 0;
  // Offsets in the frame, and of the members of an access.
  std::size_t accesses = 0, access_bytes = 0, origin = 0, at = 0, scratch = 0;

  template <class Frame>
  static constexpr origin_layout of() {
    using access = typename Frame::access;
    origin_layout l;
    l.accesses = offsetof(Frame, accesses);
    l.access_bytes = sizeof(access);
    l.origin = offsetof(access, origin);
    l.at = offsetof(access, at);
    l.scratch = offsetof(Frame, scratch);
    return l;
  }
};

class epilogue_origins {
 public:
  epilogue_origins(assembler& a, epilogue_accesses const& accesses, origin_layout const& layout)
      : a_(a), accesses_(accesses), at_(layout) {}

  epilogue_accesses const& accesses() const { return accesses_; }
  /// How many addresses stand in registers.
  int held() const {
    int const most = static_cast<int>(at_.registers.size());
    return accesses_.ssize() < most ? accesses_.ssize() : most;
  }
  std::size_t field_of(int i, std::size_t member) const {
    return at_.accesses + static_cast<std::size_t>(i) * at_.access_bytes + member;
  }

  /// Saves the registers of origins, all of which are the caller's.
  void push() const {
    for (int i = 0; i < held(); ++i) a_.push(g(at_.registers[index(i)]));
  }
  void pop() const {
    for (int i = held(); i-- > 0;) a_.pop(g(at_.registers[index(i)]));
  }

  /// Each address becomes what the field `from` of its access says, plus `column` (a general register; -1: none) elements
  /// where columns have elements of their own.
  void set(std::size_t from, int column = -1) const {
    for (int i = 0; i < accesses_.ssize(); ++i) {
      xb::Reg64 const to = g(register_or_spare(i));
      a_.mov(to, field(field_of(i, from)));
      if (column >= 0 && accesses_[i].across == columns::unit)
        a_.lea(to, a_.ptr[to + g(column) * size_of(accesses_[i].type)]);
      keep(i);
    }
  }
  /// The address of access i is in register_or_spare(i).
  int register_or_spare(int i) const { return i < held() ? at_.registers[index(i)] : at_.spare; }
  void keep(int i) const {
    if (i >= held()) a_.mov(field(field_of(i, at_.at)), g(at_.spare));
  }

  /// to = the address of access i.
  void load(xb::Reg64 const& to, int i) const {
    i < held() ? a_.mov(to, g(at_.registers[index(i)])) : a_.mov(to, field(field_of(i, at_.at)));
  }

  /// To the next row, pixel, window: by the field `stride` of each access that moves. Or by `rows` of them; -1: by as
  /// many as the frame's field `count` says.
  void advance(std::size_t stride, int rows = 1, std::size_t count = 0) const {
    xb::Reg64 const by = g(at_.spare);
    for (int i = 0; i < accesses_.ssize(); ++i) {
      if (!accesses_[i].moves) continue;
      xb::Address const bytes = field(field_of(i, stride));
      if (i < held() && rows == 1) {
        a_.add(g(at_.registers[index(i)]), bytes);
        continue;
      }
      if (rows < 0) {
        a_.mov(by, field(count));
        a_.imul(by, bytes);
      } else if (rows == 1) {
        a_.mov(by, bytes);
      } else {
        a_.imul(by, bytes, rows);
      }
      if (i < held())
        a_.add(g(at_.registers[index(i)]), by);
      else
        a_.add(field(field_of(i, at_.at)), by);
    }
  }

  /// One row of values in registers first, first + 1, ..., with its operands where the addresses are now.
  accumulator_block row(isa level, int first, int vectors, int tail_lanes,
                        register_set free_vectors) const {
    accumulator_block block;
    block.level = level;
    block.rows = 1;
    block.vectors = vectors;
    block.first = first;
    block.tail_lanes = tail_lanes;
    block.tail_mask = has_masks(level) && tail_lanes > 0 ? at_.tail_mask : -1;
    block.frame = block.stack_register = at_.frame;
    block.stack_at = static_cast<std::int32_t>(at_.scratch);
    block.free_vectors = free_vectors;
    block.free_masks = has_masks(level) ? at_.free_masks : 0;
    block.free_general = at_.free_general;
    for (int i = 0; i < accesses_.ssize(); ++i)
      if (i < held())
        block.place(accesses_[i], at_.registers[index(i)], -1);
      else
        block.place(accesses_[i], -1, static_cast<std::int32_t>(field_of(i, at_.at)));
    return block;
  }

 private:
  static std::size_t index(int i) { return static_cast<std::size_t>(i); }
  static xb::Reg64 g(int i) { return assembler::general(i); }
  xb::Address field(std::size_t offset) const { return a_.qword[g(at_.frame) + offset]; }

  assembler& a_;
  epilogue_accesses accesses_;
  origin_layout at_;
};

}  // namespace sinter::inline SINTER_ABI::jit
