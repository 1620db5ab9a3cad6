// A strip: some rows of an image taken through several kernels one after another, while a near cache holds them.
//
// The last member's rows are cut evenly. Each member before it makes the rows that the next one reads, of which those
// that the strip above has made already are kept; so a value between two members is never whole in memory. Values and
// arithmetic only: which groups become members is run/strip_builder.hpp's business, how a strip runs
// backend/strip.hpp's.
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "backend.hpp"

namespace sinter::inline SINTER_ABI {

/// Multiply-adds of one image, about.
inline double work_of_image(problem const& p) noexcept {
  shape const& d = p.domain;
  double terms = 1;
  if (int const anchor = p.chain.anchor(); anchor >= 0) {
    shape const& w = p.operands[detail::at(p.chain.steps[anchor].args[1].index)].dims;
    terms = static_cast<double>(w[1] * w[2] * w[3]);
  }
  return terms * static_cast<double>(d[1] * d[2] * d[3]);
}

/// The most kernels that run in one strip.
inline constexpr int max_strip_members = 4;

/// Which rows of what it reads a row of a member wants: `reach` rows from row * stride - pad on, of an image of
/// `height` rows.
struct strip_window {
  extent stride = 1, pad = 0, reach = 1, height = 1;

  row_range reads(row_range r) const noexcept {
    if (r.count() == 0) return {};
    return {std::clamp(r.first * stride - pad, extent{0}, height),
            std::clamp((r.last - 1) * stride - pad + reach, extent{0}, height)};
  }
};

struct strip_member {
  std::shared_ptr<sinter::kernel const> kernel;  ///< as by_rows() gave it
  sinter::problem problem;
  /// Of its operands and outputs: the place in the strip's call_args, or -1 for the value between it and a neighbour.
  std::vector<int> operands, outputs;
  strip_window window;      ///< on the value that the member before makes
  extent row_bytes = 0;     ///< of the value that it makes for the next one
  extent height = 0;        ///< rows of that
  extent held_rows = 0;     ///< the most that are needed at once
  std::size_t held_at = 0;  ///< where they are in scratch
};

struct strip_plan {
  std::vector<strip_member> members;
  extent height = 0;  ///< rows of an image of the last member
  extent rows = 1;    ///< of a strip
  std::size_t scratch_bytes = 0;

  int size() const noexcept { return static_cast<int>(members.size()); }
  extent strips() const noexcept { return (height + rows - 1) / rows; }
  strip_member const& member(int i) const { return members[static_cast<std::size_t>(i)]; }

  /// The rows that each member has to give for strip n: needed[i] of member i.
  void rows_of(extent n, row_range (&needed)[max_strip_members]) const noexcept {
    int const last = size() - 1;
    needed[last] = {n * rows, (std::min)((n + 1) * rows, height)};
    for (int i = last; i > 0; --i) needed[i - 1] = member(i).window.reads(needed[i]);
  }

  /// The rows that member i computes for the strips: all that are needed where work begins, the new ones where it goes
  /// on from the strip above. Each once.
  std::vector<row_range> ranges_of(int i) const {
    std::vector<row_range> ranges;
    auto const add = [&](row_range r) {
      bool known = r.count() == 0;
      for (row_range const& other : ranges)
        known = known || (other.first == r.first && other.last == r.last);
      if (!known) ranges.push_back(r);
    };
    extent above = 0;
    for (extent n = 0; n < strips(); ++n) {
      row_range needed[max_strip_members];
      rows_of(n, needed);
      add(needed[i]);
      add({(std::max)(above, needed[i].first), needed[i].last});
      above = needed[i].last;
    }
    return ranges;
  }

  /// Bytes of the values between members that a strip of so many rows holds.
  extent bytes_of(extent wanted_rows) {
    rows = wanted_rows;
    extent bytes = 0;
    for (int i = 0; i + 1 < size(); ++i) {
      extent most = 0;
      for (extent n = 0; n < strips(); ++n) {
        row_range needed[max_strip_members];
        rows_of(n, needed);
        most = (std::max)(most, needed[i].count());
      }
      members[static_cast<std::size_t>(i)].held_rows = most;
      bytes += most * member(i).row_bytes;
    }
    return bytes;
  }

  /// Cuts an image into strips of equal size, as few as hold `budget` bytes or less; `forced` rows where that is not 0.
  void cut(extent budget, extent forced) {
    extent count = forced > 0 ? (height + forced - 1) / forced : 1;
    auto const even = [&] { return forced > 0 ? forced : (height + count - 1) / count; };
    while (bytes_of((std::max)(extent{1}, even())) > budget && forced == 0 && count < height)
      ++count;
  }

  /// Where everything is in scratch, after the kernels are known.
  void place() {
    std::size_t own = 0;
    for (strip_member const& m : members) own = (std::max)(own, m.kernel->scratch_bytes());
    scratch_bytes = round_up(own, buffer_alignment);
    for (int i = 0; i + 1 < size(); ++i) {
      strip_member& m = members[static_cast<std::size_t>(i)];
      m.held_at = scratch_bytes;
      scratch_bytes +=
          round_up(static_cast<std::size_t>(m.held_rows * m.row_bytes), buffer_alignment);
    }
  }
};

}  // namespace sinter::inline SINTER_ABI
