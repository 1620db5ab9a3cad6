// One epilogue on trial: a block of given sums goes in, every operand and output lies at a guard
// page, and afterwards every register that the epilogue had no right to touch, mask registers and
// general ones too, holds what it held.
#pragma once

#include <doctest/doctest.h>

#include <cstring>
#include <memory>
#include <sinter/jit/code_memory.hpp>
#include <sinter/jit/epilogue.hpp>
#include <vector>

#include "support/guard_buffer.hpp"

namespace sinter_test {
using namespace sinter;

namespace jit = sinter::jit;

/// Where one operand or output lies.
struct trial_access {
  dtype type = dtype::f32;
  bool per_row = true;     ///< has a row stride
  bool per_column = true;  ///< unit column stride; else broadcast
  int gap = 0;             ///< elements between rows
  bool dynamic_stride = false;
  bool in_register = false;  ///< the origin is in a general register
  bool used = true;
};

struct trial_layout {
  isa level = isa::avx2;
  int rows = 1, vectors = 1, tail = 0;
  int first = 0;
  bool mask_given = false;
  int free_vectors = 0;  ///< how many, beside the accumulators
  int free_general = 1;
  int anchor = 0;
  std::vector<trial_access> operands, outputs;
  int columns() const {
    return (vectors - 1) * jit::lanes_of(level) + (tail != 0 ? tail : jit::lanes_of(level));
  }
};

/// A strided array at a guard page.
class trial_array {
 public:
  trial_array(trial_access const& a, trial_layout const& l, placement where)
      : access_(a), rows_(a.per_row ? l.rows : 1), columns_(a.per_column ? l.columns() : 1) {
    stride_ = a.per_row ? columns_ + a.gap : 0;
    elements_ = static_cast<std::size_t>((rows_ - 1) * stride_ + columns_);
    auto const size = static_cast<std::size_t>(size_of(a.type));
    memory_ = guard_buffer(elements_ * size, where, size);
    std::memset(memory_.data(), guard_buffer::canary, memory_.size());
  }
  std::size_t index(int row, int column) const {
    return static_cast<std::size_t>((access_.per_row ? row : 0) * stride_ +
                                    (access_.per_column ? column : 0));
  }
  float at(int row, int column) const {
    return load_as_float(memory_.data(), access_.type, static_cast<extent>(index(row, column)));
  }
  void set(std::size_t i, float v) {
    if (access_.type == dtype::f32) reinterpret_cast<float*>(memory_.data())[i] = v;
    if (access_.type == dtype::bf16)
      reinterpret_cast<bfloat16*>(memory_.data())[i] = to_bfloat16(v);
    if (access_.type == dtype::f16) reinterpret_cast<float16*>(memory_.data())[i] = to_float16(v);
  }
  /// NaN everywhere, gaps included; then values(row, column) where elements are.
  template <class F>
  void fill(F&& values) {
    for (std::size_t i = 0; i < elements_; ++i) set(i, std::numeric_limits<float>::quiet_NaN());
    for (int r = 0; r < rows_; ++r)
      for (int c = 0; c < columns_; ++c) set(index(r, c), values());
  }
  /// Outside of the elements, nothing was written: neither between rows nor around.
  bool intact() const {
    std::vector<bool> mine(elements_);
    for (int r = 0; r < rows_; ++r)
      for (int c = 0; c < columns_; ++c) mine[index(r, c)] = true;
    auto const size = static_cast<std::size_t>(size_of(access_.type));
    for (std::size_t i = 0; i < elements_; ++i)
      for (std::size_t b = 0; b < size && !mine[i]; ++b)
        if (memory_.data()[i * size + b] != std::byte{guard_buffer::canary}) return false;
    return memory_.intact();
  }
  void* data() { return memory_.data(); }
  extent row_bytes() const { return stride_ * size_of(access_.type); }
  trial_access const& access() const { return access_; }

 private:
  trial_access access_;
  int rows_, columns_, stride_ = 0;
  std::size_t elements_ = 0;
  guard_buffer memory_;
};

/// Generated code that loads everything, runs the epilogue and dumps all registers.
class block_trial {
 public:
  block_trial(chain const& c, trial_layout const& layout)
      : layout_(layout), epilogue_(c, layout.anchor), a_(layout.level) {
    stack_bytes_ = epilogue_.stack_bytes(layout.level);
    memory_.resize(static_cast<std::size_t>(stack_at() + stack_bytes_ + 64));
    generate();
  }

  /// sums: rows x (vectors * lanes).
  void run(std::vector<float> const& sums, std::vector<trial_array>& operands,
           std::vector<trial_array>& outputs) {
    std::memcpy(memory_.data(), sums.data(), sums.size() * sizeof(float));
    std::memset(memory_.data() + pattern_at, 0x5c, 64 * 32);
    int slot = 0;
    for (auto* arrays : {&operands, &outputs})
      for (trial_array& array : *arrays) {
        void* const origin = array.data();
        std::int64_t const stride = array.row_bytes();
        std::memcpy(memory_.data() + slots_at + 16 * slot, &origin, 8);
        std::memcpy(memory_.data() + slots_at + 16 * slot + 8, &stride, 8);
        ++slot;
      }
    std::memset(memory_.data() + stack_at() + stack_bytes_, 0x77, 64);
    code_->entry<void (*)(void*)>()(memory_.data());
    for (int i = 0; i < 64; ++i)
      REQUIRE(memory_[static_cast<std::size_t>(stack_at() + stack_bytes_ + i)] == std::byte{0x77});
  }

  std::size_t code_bytes() const { return code_->bytes().size(); }

  /// Names the first register that was changed without right; empty if none was.
  std::string changed() const {
    for (int i = 0; i < jit::vector_count_of(layout_.level); ++i) {
      if ((touched_vectors_ & jit::set_of(i)) != 0) continue;
      for (int b = 0; b < jit::vector_bytes_of(layout_.level); ++b)
        if (memory_[static_cast<std::size_t>(vectors_at + 64 * i + b)] != std::byte{0x5c})
          return "vector " + std::to_string(i);
    }
    for (int i = 0; i < 16; ++i) {
      if (i == rsp || i == frame || (touched_general_ & jit::set_of(i)) != 0) continue;
      std::int64_t now = 0, want = general_pattern + i;
      std::memcpy(&now, memory_.data() + general_at + 8 * i, 8);
      for (auto const& [reg, slot] : origin_registers_)
        if (reg == i) std::memcpy(&want, memory_.data() + slots_at + 16 * slot, 8);
      if (now != want) return "general " + std::to_string(i);
    }
    for (int i = 1; i < 8 && jit::has_masks(layout_.level); ++i) {
      if ((touched_masks_ & jit::set_of(i)) != 0) continue;
      std::int64_t now = 0;
      std::memcpy(&now, memory_.data() + masks_at + 8 * i, 8);
      if (now != mask_of(i)) return "mask " + std::to_string(i);
    }
    return {};
  }

 private:
  static constexpr int rsp = 4, frame = 5, given_mask = 6;
  static constexpr int pattern_at = 4 * 16 * 32, vectors_at = pattern_at + 64 * 32,
                       general_at = vectors_at + 64 * 32, masks_at = general_at + 8 * 16,
                       slots_at = masks_at + 8 * 8;
  static constexpr int stack_at() { return slots_at + 16 * (max_operands + max_outputs); }
  static constexpr std::int64_t general_pattern = 0x1122334455667700,
                                mask_pattern = 0x0badc0de12340000;

  std::int64_t mask_of(int i) const {
    return i == given_mask && layout_.mask_given ? (1 << layout_.tail) - 1 : mask_pattern + i;
  }
  jit::xb::Address at(int offset) { return a_.ptr[jit::assembler::at(frame, offset)]; }

  void generate() {
    jit::accumulator_block block = make_block();
    for (int r : {3, 5, 12, 13, 14, 15}) a_.push(jit::assembler::general(r));
    a_.mov(jit::assembler::general(frame), a_.rdi);
    for (int i = 0; i < jit::vector_count_of(layout_.level); ++i)
      a_.vmovups(a_.vec(i), at(pattern_at + 64 * i));
    int nth = 0;
    for (int r = 0; r < layout_.rows; ++r)
      for (int v = 0; v < layout_.vectors; ++v, ++nth)
        a_.vmovups(a_.vec(block.register_of(r, v)), at(nth * jit::vector_bytes_of(layout_.level)));
    for (int i = 1; i < 8 && a_.masks(); ++i) {
      a_.mov(a_.rax, static_cast<std::uint64_t>(mask_of(i)));
      a_.kmovq(jit::assembler::mask(i), a_.rax);
    }
    for (int i = 0; i < 16; ++i)
      if (i != rsp && i != frame)
        a_.mov(jit::assembler::general(i), static_cast<std::uint64_t>(general_pattern + i));
    for (auto const& [reg, slot] : origin_registers_)
      a_.mov(jit::assembler::general(reg), at(slots_at + 16 * slot));
    epilogue_.emit(a_, block);
    for (int i = 0; i < jit::vector_count_of(layout_.level); ++i)
      a_.vmovups(at(vectors_at + 64 * i), a_.vec(i));
    for (int i = 0; i < 16; ++i) a_.mov(at(general_at + 8 * i), jit::assembler::general(i));
    for (int i = 1; i < 8 && a_.masks(); ++i)
      a_.kmovq(at(masks_at + 8 * i), jit::assembler::mask(i));
    for (int r : {15, 14, 13, 12, 5, 3}) a_.pop(jit::assembler::general(r));
    a_.vzeroupper();
    a_.ret();
    auto code = a_.finish();
    REQUIRE_MESSAGE(code, code.error().message);
    auto published = jit::code_memory::process().publish(*code);
    REQUIRE_MESSAGE(published, published.error().message);
    code_ = *published;
  }

  jit::accumulator_block make_block() {
    jit::accumulator_block b;
    b.level = layout_.level;
    b.rows = layout_.rows;
    b.vectors = layout_.vectors;
    b.first = layout_.first;
    b.row_step = layout_.vectors;
    b.tail_lanes = layout_.tail;
    b.frame = frame;
    b.stack_register = frame;
    b.stack_at = stack_at();
    jit::register_set const accumulators =
        jit::set_of_range(layout_.first, layout_.rows * layout_.vectors);
    for (int i = 0, left = layout_.free_vectors;
         i < jit::vector_count_of(layout_.level) && left > 0; ++i)
      if ((accumulators & jit::set_of(i)) == 0) b.free_vectors |= jit::set_of(i), --left;
    touched_vectors_ = accumulators | b.free_vectors;
    if (layout_.mask_given && layout_.tail != 0) b.tail_mask = given_mask;
    b.free_masks = jit::set_of(3) | jit::set_of(2);
    touched_masks_ = b.free_masks;
    // General registers from the top down are free, from the bottom up hold origins.
    int next = 0, top = 15;
    for (int left = layout_.free_general; left > 0; --top)
      if (top != rsp && top != frame) b.free_general |= jit::set_of(top), --left;
    touched_general_ = b.free_general;
    int slot = 0;
    auto const access_of = [&](trial_access const& t) {
      jit::block_access r;
      r.type = t.type;
      r.across = t.per_column ? jit::columns::unit : jit::columns::broadcast;
      int const size = size_of(t.type);
      r.row_stride = !t.per_row         ? 0
                     : t.dynamic_stride ? dynamic
                                        : ((t.per_column ? layout_.columns() : 1) + t.gap) * size;
      r.stride_at = slots_at + 16 * slot + 8;
      while (next == rsp || next == frame) ++next;
      if (t.in_register && next < top) {
        origin_registers_.push_back({next, slot});
        r.origin_register = next++;
      } else {
        r.origin_at = slots_at + 16 * slot;
      }
      ++slot;
      return r;
    };
    for (trial_access const& t : layout_.operands) b.operands.push_back(access_of(t));
    for (trial_access const& t : layout_.outputs) b.outputs.push_back(access_of(t));
    return b;
  }

  trial_layout layout_;
  jit::epilogue epilogue_;
  jit::assembler a_;
  std::shared_ptr<jit::machine_code const> code_;
  std::vector<std::byte> memory_;
  int stack_bytes_ = 0;
  std::vector<std::pair<int, int>> origin_registers_;
  jit::register_set touched_vectors_ = 0, touched_general_ = 0, touched_masks_ = 0;
};

}  // namespace sinter_test
