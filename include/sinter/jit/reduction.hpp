// Reductions of rows: what a step that reduces is accumulated in, and the code that does it.
//
// Each lane of an accumulator sums (or compares) the columns that it meets; several accumulators
// take turns, since one alone would wait for itself; at the end of the row they are merged, then
// the lanes are. Lanes beyond a tail change nothing. NaN: a sum keeps it by itself; vmaxps returns
// its second operand beside a NaN, so the largest so far stands there and a NaN of the value is put
// in by hand. argmax keeps the largest value and the column where its lane met it first; a value
// replaces it if it is not less or equal (larger, or NaN), unless the largest is NaN already.
// Knows nothing of loops and of where rows lie: jit/rows.hpp. Read jit/epilogue_walk.hpp for who
// calls accumulate().
#pragma once

#include <limits>
#include <utility>
#include <vector>

#include "../base/array_view.hpp"
#include "../core/op.hpp"
#include "eltwise_lanes.hpp"
#include "operand.hpp"

namespace sinter::inline SINTER_ABI::jit {

struct reduction_row {
  op code;
  int registers;      ///< per accumulator
  int avx2, avx512;   ///< temporaries of accumulate()
  float begins_with;  ///< leaves every value as it is
};
inline constexpr reduction_row reduction_table[] = {
    {op::row_sum, 1, 1, 0, 0},
    {op::row_mean, 1, 1, 0, 0},
    {op::row_max, 1, 2, 0, -std::numeric_limits<float>::infinity()},
    {op::argmax, 2, 2, 0, -std::numeric_limits<float>::infinity()},
};
inline constexpr int first_reduction = static_cast<int>(op::row_sum);
static_assert([] {
  int constexpr rows = sizeof(reduction_table) / sizeof(reduction_table[0]);
  for (int i = 0; i < rows; ++i)
    if (static_cast<int>(reduction_table[i].code) != i + first_reduction) return false;
  return first_reduction + rows == static_cast<int>(op::argmax) + 1;
}());
constexpr reduction_row const& reduction_of(op code) {
  return reduction_table[static_cast<int>(code) - first_reduction];
}
constexpr int reduction_temporaries(op code, isa level) {
  return has_masks(level) ? reduction_of(code).avx512 : reduction_of(code).avx2;
}

/// Emits on the registers of one reduction. `temporaries`: as many as reduction_temporaries() for
/// accumulate(), three for finish(). `mask`: AVX-512 only.
class reduction_code {
 public:
  reduction_code(assembler& a, array_view<int const> temporaries, int mask)
      : e_(a, temporaries, mask), memory_(a) {}

  void begin(op code, block_reduction const& r) {
    for (int i = 0; i < r.copies; ++i) {
      e_.set(e_.v(r.first + i), reduction_of(code).begins_with);
      if (code == op::argmax) e_.zero(e_.v(r.first_index + i));
    }
  }

  /// Takes the values x of the vector that begins `column` columns after `columns`, a register with
  /// a column's number in every lane (argmax only).
  void accumulate(op code, block_reduction const& r, int copy, int x, lane_count n, int columns,
                  int column) {
    xb::Xmm const to = e_.v(r.first + copy);
    if (code == op::argmax)
      return take_largest(to, e_.v(r.first_index + copy), e_.v(x), n, e_.v(columns), column);
    if (code == op::row_max) return take_max(to, e_.v(x), n);
    auto& a = e_.a;
    if (n.all()) return a.vaddps(to, to, e_.v(x));
    if (e_.wide()) return a.vaddps(to | assembler::mask(n.mask), to, e_.v(x));
    a.vandps(e_.t(0), e_.v(x), memory_.tail_mask(n.lanes));
    a.vaddps(to, to, e_.t(0));
  }

  /// The result, in every lane of register r.first. `count` is memory that holds the number of
  /// columns as f32.
  void finish(op code, block_reduction const& r, xb::Address const& count) {
    auto& a = e_.a;
    xb::Xmm const to = e_.v(r.first);
    if (code == op::argmax) {  // the accumulators are compared with the largest later
      a.vmovaps(e_.t(1), to);
      for (int i = 1; i < r.copies; ++i) larger(e_.t(1), e_.v(r.first + i));
      over_lanes(e_.t(1), [&](xb::Xmm const& x, xb::Xmm const& other) { larger(x, other); });
      return finish_index(r);
    }
    for (int i = 1; i < r.copies; ++i) join(code, to, e_.v(r.first + i));
    over_lanes(to, [&](xb::Xmm const& x, xb::Xmm const& other) { join(code, x, other); });
    if (code == op::row_mean) divide(to, count);
  }

  /// The results of two or four rows whose accumulators begin at first[0], first[1], ...: of row i in
  /// lane i of register first[0]; the lanes behind them repeat two, or are 0. Each is joined in the
  /// order of finish(). Not for argmax.
  void finish_rows(op code, int copies, array_view<int const> first, xb::Address const& count) {
    auto& a = e_.a;
    for (int row : first) {
      for (int i = 1; i < copies; ++i) join(code, e_.v(row), e_.v(row + i));
      xb::Ymm const half(row), upper(e_.t(0).getIdx());
      if (e_.wide()) {
        a.vextractf64x4(upper, xb::Zmm(row), 1);
        join(code, half, upper);
        a.vextractf32x4(xb::Xmm(upper.getIdx()), half, 1);
      } else {
        a.vextractf128(xb::Xmm(upper.getIdx()), half, 1);
      }
      join(code, xb::Xmm(row), xb::Xmm(upper.getIdx()));
    }
    // Of four lanes each: two rows side by side, then what is left of two or four.
    xb::Xmm const other(e_.t(0).getIdx());
    for (std::size_t i = 0; i < first.size(); i += 2) {
      xb::Xmm const row(first[i]), next(first[i + 1]);
      a.vunpckhps(other, row, next);
      a.vunpcklps(row, row, next);
      join(code, row, other);
    }
    xb::Xmm const to(first[0]), last(first[first.size() - 2]);
    a.vunpckhpd(other, to, last);
    a.vunpcklpd(to, to, last);
    join(code, to, other);
    if (code == op::row_mean) divide(to, count);
  }

 private:
  /// x = both together; not for argmax.
  void join(op code, xb::Xmm const& x, xb::Xmm const& other) {
    code == op::row_max ? larger(x, other) : e_.a.vaddps(x, x, other);
  }
  void divide(xb::Xmm const& x, xb::Address const& count) {
    xb::Xmm const by = like(x, e_.t(0));
    e_.a.vbroadcastss(by, count);
    e_.a.vdivps(x, x, by);
  }
  /// Register r, as wide as x.
  static xb::Xmm like(xb::Xmm const& x, xb::Xmm const& r) {
    if (x.isZMM()) return xb::Zmm(r.getIdx());
    return x.isYMM() ? xb::Ymm(r.getIdx()) : xb::Xmm(r.getIdx());
  }

  /// x = the larger, NaN if either is. Overwrites t(2) or the mask.
  void larger(xb::Xmm const& x, xb::Xmm const& other) {
    auto& a = e_.a;
    if (e_.wide()) {
      a.vcmpps(e_.k(), other, other, predicate(compare::unordered));
      a.vmaxps(x, other, x);
      a.vmovaps(x | e_.k(), other);
    } else {
      xb::Xmm const nan = like(x, e_.t(2));
      a.vcmpps(nan, other, other, predicate(compare::unordered));
      a.vmaxps(x, other, x);
      a.vorps(x, x, nan);  // all bits set are a NaN
    }
  }

  void take_max(xb::Xmm const& to, xb::Xmm const& x, lane_count n) {
    auto& a = e_.a;
    if (e_.wide()) {
      a.vcmpps(counted(e_.k(), n), x, x, predicate(compare::unordered));
      a.vmaxps(counted(to, n), x, to);
      return a.vmovaps(to | e_.k(), x);
    }
    xb::Xmm value = x;
    if (!n.all()) {
      value = e_.t(1);
      a.vmovups(e_.t(0), memory_.tail_mask(n.lanes));
      a.vandps(value, x, e_.t(0));
      a.vandnps(e_.t(0), e_.t(0), a.constant(reduction_of(op::row_max).begins_with));
      a.vorps(value, value, e_.t(0));
    }
    a.vcmpps(e_.t(0), value, value, predicate(compare::unordered));
    a.vmaxps(to, value, to);
    a.vorps(to, to, e_.t(0));
  }

  void take_largest(xb::Xmm const& to, xb::Xmm const& index, xb::Xmm const& x, lane_count n,
                    xb::Xmm const& columns, int column) {
    auto& a = e_.a;
    auto const step = static_cast<std::uint32_t>(column);
    if (e_.wide()) {
      a.vcmpps(counted(e_.k(), n), x, to, not_le);
      a.vcmpps(e_.k() | e_.k(), to, to, ordered);
      a.vmovaps(to | e_.k(), x);
      return a.vpaddd(index | e_.k(), columns, a.constant_bits(step));
    }
    a.vcmpps(e_.t(0), x, to, not_le);
    a.vcmpps(e_.t(1), to, to, ordered);
    a.vandps(e_.t(0), e_.t(0), e_.t(1));
    if (!n.all()) a.vandps(e_.t(0), e_.t(0), memory_.tail_mask(n.lanes));
    a.vblendvps(to, to, x, e_.t(0));
    a.vpaddd(e_.t(1), columns, a.constant_bits(step));
    a.vblendvps(index, index, e_.t(1), e_.t(0));
  }

  /// Of the lanes that hold the largest value (t(1), in every lane; if it is NaN, of those that
  /// hold a NaN) the smallest column, as f32.
  void finish_index(block_reduction const& r) {
    auto& a = e_.a;
    xb::Xmm const best = e_.v(r.first), nowhere = e_.t(0);
    for (int i = 0; i < r.copies; ++i) {
      xb::Xmm const value = e_.v(r.first + i), index = e_.v(r.first_index + i);
      a.vpaddd(index, index, first_columns());
      e_.set_bits(nowhere, 0x7fffffff);
      if (e_.wide()) {
        a.vcmpps(e_.k(), value, e_.t(1), predicate(compare::eq));
        a.vpblendmd(nowhere | e_.k(), nowhere, index);
        a.vcmpps(e_.k(), value, value, predicate(compare::unordered));
        a.vpblendmd(value | e_.k(), nowhere, index);
      } else {
        a.vcmpps(e_.t(2), value, e_.t(1), predicate(compare::eq));
        a.vcmpps(value, value, value, predicate(compare::unordered));
        a.vorps(e_.t(2), e_.t(2), value);
        a.vblendvps(value, nowhere, index, e_.t(2));
      }
      if (i > 0) a.vpminud(best, best, value);
    }
    over_lanes(best, [&](xb::Xmm const& x, xb::Xmm const& other) { a.vpminud(x, x, other); });
    a.vcvtdq2ps(best, best);
  }

  /// Joins all lanes; every lane holds the result. Overwrites t(0).
  template <class Join>
  void over_lanes(xb::Xmm const& x, Join&& join) {
    auto& a = e_.a;
    xb::Xmm const other = e_.t(0);
    if (e_.wide()) {
      for (std::uint8_t order : {std::uint8_t{0x4e}, std::uint8_t{0xb1}}) {  // quarters
        a.vshuff64x2(xb::Zmm(other.getIdx()), xb::Zmm(x.getIdx()), xb::Zmm(x.getIdx()), order);
        join(x, other);
      }
    } else {
      a.vperm2f128(xb::Ymm(other.getIdx()), xb::Ymm(x.getIdx()), xb::Ymm(x.getIdx()), 1);
      join(x, other);
    }
    for (std::uint8_t order : {std::uint8_t{0x4e}, std::uint8_t{0xb1}}) {
      a.vpermilps(other, x, order);
      join(x, other);
    }
  }

  /// 0, 1, 2, ...
  xb::Address first_columns() {
    std::vector<std::uint32_t> words;
    for (std::uint32_t i = 0; i < static_cast<std::uint32_t>(lanes_of(e_.a.level())); ++i)
      words.push_back(i);
    return e_.a.table(std::move(words));
  }
  template <class Register>
  static Register counted(Register r, lane_count n) {
    if (!n.all()) r.setOpmaskIdx(n.mask);
    return r;
  }
  static constexpr std::uint8_t predicate(compare c) { return static_cast<std::uint8_t>(c); }
  static constexpr std::uint8_t not_le = 0x16, ordered = 0x07;

  lanes e_;
  operand_code memory_;
};

}  // namespace sinter::inline SINTER_ABI::jit
