// Where intermediates and scratch lie in one arena: interval first-fit.
//
// Time is the index of the group that runs. An item lives from the group that makes it through the last one that reads
// it; two items may share bytes only if no group needs both. The biggest items are placed first, each at the lowest
// offset that is free over its whole life. The planner knows sizes and times only, no tensors; it allocates nothing,
// so a call with dynamic extents can plan again.
#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>

#include "../base/array_view.hpp"
#include "../core/buffer.hpp"

namespace sinter::inline SINTER_ABI {

struct arena_item {
  std::size_t bytes = 0;
  int first = 0;           ///< the group that writes it
  int last = 0;            ///< the last group that needs it, `first` or later
  std::size_t offset = 0;  ///< the answer, a multiple of buffer_alignment
};

/// What plan_arena() gives for a size that no memory can have.
inline constexpr std::size_t arena_overflow = (std::numeric_limits<std::size_t>::max)();

/// Sets the offset of each item and gives the arena's size in bytes. `order` is working memory: as many ints as items.
inline std::size_t plan_arena(array_view<arena_item> items, array_view<int> order) {
  constexpr std::size_t limit =
      static_cast<std::size_t>((std::numeric_limits<std::ptrdiff_t>::max)());
  for (std::size_t i = 0; i < items.size(); ++i) order[i] = static_cast<int>(i);
  auto const at = [items](int i) -> arena_item& { return items[static_cast<std::size_t>(i)]; };
  std::sort(order.begin(), order.end(), [&](int a, int b) {
    return at(a).bytes != at(b).bytes ? at(a).bytes > at(b).bytes : a < b;
  });

  std::size_t total = 0;
  for (std::size_t placed = 0; placed < items.size(); ++placed) {
    arena_item& item = at(order[placed]);
    item.offset = 0;
    if (item.bytes == 0) continue;
    if (item.bytes > limit) return arena_overflow;
    // Each collision moves the item past the one that it met, so the loop ends after at most `placed` moves.
    for (bool moved = true; moved;) {
      moved = false;
      for (int other : order.first(placed)) {
        arena_item const& o = at(other);
        bool const together = o.first <= item.last && item.first <= o.last;
        if (!together || o.bytes == 0) continue;
        if (o.offset < item.offset + item.bytes && item.offset < o.offset + o.bytes) {
          item.offset = round_up(o.offset + o.bytes, buffer_alignment);
          moved = true;
        }
      }
    }
    if (item.offset > limit - item.bytes) return arena_overflow;
    total = (std::max)(total, item.offset + item.bytes);
  }
  return total;
}

/// What no plan can go below: the most bytes that are alive at one time.
inline std::size_t least_arena(array_view<arena_item const> items) {
  int end = 0;
  for (arena_item const& i : items) end = (std::max)(end, i.last + 1);
  std::size_t most = 0;
  for (int time = 0; time < end; ++time) {
    std::size_t alive = 0;
    for (arena_item const& i : items)
      if (i.first <= time && time <= i.last) alive += round_up(i.bytes, buffer_alignment);
    most = (std::max)(most, alive);
  }
  return most;
}

}  // namespace sinter::inline SINTER_ABI
