// The walk of an epilogue over one block: which register holds which value, and when.
//
// A value lives in a register from its step to its last reader; a step works in place on its first
// argument if that dies there, else on a copy. The same rules, without code, give the number of
// registers that a chain needs. A block that leaves fewer free ones lets its last accumulators wait
// in scratch memory; they come back when their turn is, and by then registers of stored
// accumulators are free. Addresses are kept in general registers as far as there are any and formed
// anew for each access beyond that. Knows nothing of how the sums were made.
#pragma once

#include <array>
#include <vector>

#include "../base/array_view.hpp"
#include "../plan/chain.hpp"
#include "eltwise.hpp"
#include "epilogue_needs.hpp"
#include "operand.hpp"

namespace sinter::inline SINTER_ABI::jit {

class epilogue_walk {
 public:
  epilogue_walk(assembler& a, chain const& c, int anchor, accumulator_block const& block)
      : a_(a),
        chain_(c),
        anchor_(anchor),
        block_(block),
        memory_(a),
        vectors_(block.free_vectors),
        masks_(block.free_masks),
        general_(block.free_general),
        scratch_(general_),
        needed_(epilogue_needs(c, anchor, block.level)) {
    for (int i = anchor; i < c.steps.ssize(); ++i)
      if (i >= 0) last_.at(static_cast<std::size_t>(i)) = last_reader(c, i);
  }

  void run() {
    prepare_masks();
    prepare_pointers();
    int const total = block_.rows * block_.vectors;
    int const waiting = put_aside(total);
    int nth = 0;
    for (int row = 0; row < block_.rows; ++row) {
      for (int vector = 0; vector < block_.vectors; ++vector, ++nth) {
        int const own = block_.register_of(row, vector);
        if (nth >= total - waiting) {
          vectors_.take(own);
          if (anchor_ >= 0) a_.vmovups(a_.vec(own), waiting_place(total - 1 - nth));
        }
        one_vector(row, vector, own);
        vectors_.give(own);
      }
      if (row + 1 < block_.rows) next_row();
    }
  }

 private:
  /// How an operand or output is addressed: by a register that moves from row to row, or anew each
  /// time.
  struct pointer {
    block_access access;
    bool used = false;
    int reg = -1;  ///< holds the address of (row, 0), or of (0, 0) where rows are a static offset
    bool moves = false;
  };

  // ---- before the first vector ---------------------------------------------------------------

  void prepare_masks() {
    if (!a_.masks()) return;
    tail_mask_ = block_.tail_mask;
    if (block_.tail_lanes != 0 && tail_mask_ < 0) {
      tail_mask_ = masks_.take();
      xb::Reg32 const r = assembler::general(scratch_.index()).cvt32();
      a_.mov(r, (1U << block_.tail_lanes) - 1U);
      a_.kmovd(assembler::mask(tail_mask_), r);
    }
    mask_ = masks_.take();
  }

  void prepare_pointers() {
    for (int i = 0; i < chain_.operands.ssize(); ++i) {
      bool used = false;
      for (int s = anchor_ + 1; s < chain_.steps.ssize(); ++s)
        for (value_ref v : chain_.steps[s].args) used = used || v == operand_ref(i);
      pointers_.push_back({used ? block_.operands[i] : block_access{}, used});
    }
    for (block_access const& access : block_.outputs) pointers_.push_back({access, true});
    for (pointer& p : pointers_) {
      if (!p.used || p.access.vector >= 0) continue;
      bool const dynamic_rows = block_.rows > 1 && !fits(p.access.row_stride);
      if (p.access.origin_register >= 0 && !dynamic_rows) {
        p.reg = p.access.origin_register;
      } else if (general_.count() > 0) {
        p.reg = general_.take();
        p.moves = dynamic_rows;
        load_origin(assembler::general(p.reg), p.access);
      }
    }
  }

  /// Rows can be reached by a displacement.
  bool fits(extent stride) const {
    constexpr extent limit = (std::numeric_limits<std::int32_t>::max)() / 64;
    return stride != dynamic && stride >= -limit && stride <= limit;
  }
  xb::Address frame_at(std::int32_t offset) {
    return a_.qword[assembler::at(block_.frame, offset)];
  }
  void load_origin(xb::Reg64 const& r, block_access const& access) {
    access.origin_register >= 0 ? a_.mov(r, assembler::general(access.origin_register))
                                : a_.mov(r, frame_at(access.origin_at));
  }
  void add_stride(xb::Reg64 const& r, block_access const& access) {
    if (access.row_stride == dynamic) return a_.add(r, frame_at(access.stride_at));
    xb::Reg64 const s = assembler::general(scratch_.index());
    a_.mov(s, static_cast<std::uint64_t>(access.row_stride));
    a_.add(r, s);
  }
  void next_row() {
    for (pointer const& p : pointers_)
      if (p.moves) add_stride(assembler::general(p.reg), p.access);
  }

  // ---- accumulators that wait ----------------------------------------------------------------

  xb::Address waiting_place(int i) {
    return a_.ptr[assembler::at(block_.stack_register,
                                block_.stack_at + i * vector_bytes_of(block_.level))];
  }
  /// Stores as many of the last accumulators as registers are missing, and frees theirs. Gives
  /// their number.
  int put_aside(int total) {
    int waiting = 0;
    for (int nth = total - 1; nth > 0 && vectors_.count() < needed_; --nth, ++waiting) {
      int const own = block_.register_of(nth / block_.vectors, nth % block_.vectors);
      if (anchor_ >= 0) a_.vmovups(waiting_place(waiting), a_.vec(own));
      vectors_.give(own);
    }
    return waiting;
  }

  // ---- one vector ----------------------------------------------------------------------------

  void one_vector(int row, int vector, int own) {
    row_ = row;
    vector_ = vector;
    own_ = own;
    own_used_ = anchor_ >= 0;
    if (anchor_ >= 0) {
      held_[index(anchor_)] = own;
      if (chain_.steps[anchor_].rounded) round(chain_.precision.src, own);
    }
    for (int i = anchor_ + 1; i < chain_.steps.ssize(); ++i)
      if (!is_unread(chain_, i)) one_step(i);
    store_outputs();
  }

  void one_step(int i) {
    step const& s = chain_.steps[i];
    step_needs const n = needs_of(chain_, i, block_.level);
    if (is_reduction(s.code)) return reduce(i, n);
    int const first = n.swapped ? 1 : 0;
    int const second = 1 - first;
    int x = -1;
    std::array<int, 3> loaded{-1, -1, -1};
    if (n.in_place || n.swapped) {
      x = held_[index(s.args[first].index)];
    } else {
      x = take();
      bring(x, s.args[0]);
    }
    if (arity_of(s) == 3) {
      int const b = in_register(s.args[1], loaded[1]), c = in_register(s.args[2], loaded[2]);
      with_temporaries(n.temporaries, [&](eltwise_code& e, auto) { e.ternary(s.code, x, b, c); });
    } else if (arity_of(s) == 2) {
      value_ref const v = s.args[second];
      if (eltwise_of(s.code).memory && reads_as_memory(v)) {
        xb::Address const b = v.kind == value_kind::constant
                                  ? a_.constant(chain_.constants[int{v.index}])
                                  : operand_memory(v.index);
        with_temporaries(n.temporaries, [&](eltwise_code& e, auto) { e.binary(s.code, x, b); });
      } else {
        int const b = in_register(v, loaded[1]);
        with_temporaries(n.temporaries,
                         [&](eltwise_code& e, auto) { e.binary(s.code, x, a_.vec(b)); });
      }
    } else if (s.code == op::cast) {
      round(s.to, x);
    } else {
      with_temporaries(n.temporaries, [&](eltwise_code& e, auto) {
        e.unary(s.code, s.alpha, s.beta, x, only_stored_as_bf16(i));
      });
    }
    for (int r : loaded)
      if (r >= 0) give(r);
    if (s.rounded) round(chain_.precision.src, x);
    held_[index(i)] = x;
    release_arguments(i, x);
    if (last_[index(i)] == i) {
      give(x);
      held_[index(i)] = -1;
    }
  }

  /// A reduction takes the values of this vector; its result comes after the row.
  void reduce(int i, step_needs const& n) {
    value_ref const v = chain_.steps[i].args[0];
    block_reduction const* r = block_.reductions.begin();
    while (r->step != i) ++r;
    int loaded = -1;
    int const x = in_register(v, loaded);
    std::array<int, 2> t{};
    for (int j = 0; j < n.temporaries; ++j) t[index(j)] = take();
    reduction_code(a_, t, mask_)
        .accumulate(chain_.steps[i].code, *r, vector_ % r->copies, x, count(), block_.columns,
                    vector_ * block_.lanes());
    for (int j = 0; j < n.temporaries; ++j) give(t[index(j)]);
    if (loaded >= 0) give(loaded);
    release_arguments(i, -1);
  }

  bool only_stored_as_bf16(int i) const {
    for (output const& o : chain_.outputs)
      if (o.value == step_ref(i) && o.type != dtype::bf16) return false;
    return chain_.uses(step_ref(i)) == 0 && !chain_.steps[i].rounded;
  }

  /// Gives back what step i, whose own value is in x, was the last to read.
  void release_arguments(int i, int x) {
    step const& s = chain_.steps[i];
    for (int j = 0; j < arity_of(s); ++j) {
      value_ref const v = s.args[j];
      if (v.kind != value_kind::step || last_[index(v.index)] != i || held_[index(v.index)] < 0)
        continue;
      if (held_[index(v.index)] != x) give(held_[index(v.index)]);
      held_[index(v.index)] = -1;
    }
  }

  void store_outputs() {
    for (int o = 0; o < chain_.outputs.ssize(); ++o) {
      output const& out = chain_.outputs[o];
      int const value = out.value.index;
      bool again = false;
      for (int later = o + 1; later < chain_.outputs.ssize(); ++later)
        again = again || chain_.outputs[later].value == out.value;
      int x = held_[index(value)];
      if (again) {
        int const copy = take();
        a_.vmovaps(a_.vec(copy), a_.vec(x));
        x = copy;
      }
      block_access const& access = block_.outputs[o];
      with_temporaries(operand_code::store_temporaries(access.type, block_.level),
                       [&](eltwise_code&, auto temporaries) {
                         memory_.store(access.type, x,
                                       where(pointers_[index(chain_.operands.ssize() + o)]),
                                       count(), temporaries, mask_);
                       });
      give(x);
      if (!again) held_[index(value)] = -1;
    }
  }

  // ---- registers -----------------------------------------------------------------------------

  static std::size_t index(int i) { return static_cast<std::size_t>(i); }

  /// The accumulator's own register is never in the pool while its vector is worked on, so it is
  /// handed out here.
  int take() {
    if (own_used_) return vectors_.take();
    own_used_ = true;
    return own_;
  }
  void give(int r) {
    if (r == own_)
      own_used_ = false;
    else
      vectors_.give(r);
  }

  template <class F>
  void with_temporaries(int n, F&& f) {
    std::array<int, 8> t{};
    for (int i = 0; i < n; ++i) t[index(i)] = take();
    array_view<int const> const all(t.data(), index(n));
    eltwise_code e(a_, all, mask_);
    f(e, all);
    for (int i = 0; i < n; ++i) give(t[index(i)]);
  }
  void round(dtype t, int x) {
    with_temporaries(temporaries_of(op::cast, block_.level), [&](eltwise_code&, auto temporaries) {
      memory_.round(t, x, temporaries, mask_);
    });
  }

  // ---- arguments -----------------------------------------------------------------------------

  lane_count count() const {
    return block_.has_tail(vector_) ? lane_count{block_.tail_lanes, tail_mask_} : lane_count{};
  }

  /// A memory operand of an arithmetic instruction reads a full vector: f32, unit columns, no tail;
  /// or one element.
  bool reads_as_memory(value_ref v) const {
    if (v.kind == value_kind::constant) return true;
    if (v.kind != value_kind::operand) return false;
    block_access const& access = block_.operands[int{v.index}];
    if (access.type != dtype::f32 || access.vector >= 0) return false;
    return access.across == columns::unit ? count().all() : a_.masks();
  }
  xb::Address operand_memory(int i) {
    place const p = where(pointers_[index(i)]);
    xb::RegExp const e = assembler::at(p.base, p.offset);
    return block_.operands[i].across == columns::unit ? a_.ptr[e] : a_.ptr_b[e];
  }

  /// x = the value.
  void bring(int x, value_ref v) {
    if (v.kind == value_kind::step) return a_.vmovaps(a_.vec(x), a_.vec(held_[index(v.index)]));
    if (v.kind == value_kind::constant)
      return lanes(a_, {}, mask_).set(a_.vec(x), chain_.constants[int{v.index}]);
    block_access const& access = block_.operands[int{v.index}];
    if (access.vector >= 0) return a_.vmovaps(a_.vec(x), a_.vec(access.vector));
    place const p = where(pointers_[index(v.index)]);
    access.across == columns::unit ? memory_.load(access.type, x, p, count())
                                   : memory_.broadcast(access.type, x, p);
  }
  /// The register that holds the value; one that is taken for it is put into `taken`.
  int in_register(value_ref v, int& taken) {
    if (v.kind == value_kind::step) return held_[index(v.index)];
    if (v.kind == value_kind::operand && block_.operands[int{v.index}].vector >= 0)
      return block_.operands[int{v.index}].vector;
    taken = take();
    bring(taken, v);
    return taken;
  }

  /// The address of this vector's first element. Good until the next call.
  place where(pointer const& p) {
    extent const row = p.moves ? 0 : row_ * (fits(p.access.row_stride) ? p.access.row_stride : 0);
    int const column =
        p.access.offset +
        (p.access.across == columns::unit ? vector_ * block_.lanes() * size_of(p.access.type) : 0);
    auto const offset = static_cast<std::int32_t>(row + column);
    if (p.reg >= 0) return {p.reg, offset};
    xb::Reg64 const r = assembler::general(scratch_.index());
    if (fits(p.access.row_stride) || row_ == 0) {
      load_origin(r, p.access);
      return {scratch_.index(), offset};
    }
    if (p.access.row_stride == dynamic)
      a_.imul(r, frame_at(p.access.stride_at), row_);
    else
      a_.mov(r, static_cast<std::uint64_t>(p.access.row_stride * row_));
    p.access.origin_register >= 0 ? a_.add(r, assembler::general(p.access.origin_register))
                                  : a_.add(r, frame_at(p.access.origin_at));
    return {scratch_.index(), column};
  }

  assembler& a_;
  chain const& chain_;
  int anchor_;
  accumulator_block const& block_;
  operand_code memory_;
  register_pool vectors_, masks_, general_;
  register_lease scratch_;
  int needed_;
  int tail_mask_ = -1, mask_ = -1;
  std::vector<pointer> pointers_;
  std::array<int, max_steps> last_{};
  std::array<int, max_steps> held_{};
  int row_ = 0, vector_ = 0, own_ = 0;
  bool own_used_ = false;
};

}  // namespace sinter::inline SINTER_ABI::jit
