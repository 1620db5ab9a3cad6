// The liveness planner: items that live together never share a byte, others do, and nothing is lost.
#include <doctest/doctest.h>
#include <sinter/run/arena_plan.hpp>

#include <random>
#include <vector>

namespace {

std::size_t planned(std::vector<sinter::arena_item>& items) {
  std::vector<int> order(items.size());
  return sinter::plan_arena(items, order);
}

bool together(sinter::arena_item const& a, sinter::arena_item const& b) {
  return a.first <= b.last && b.first <= a.last;
}
bool share(sinter::arena_item const& a, sinter::arena_item const& b) {
  return a.bytes > 0 && b.bytes > 0 && a.offset < b.offset + b.bytes &&
         b.offset < a.offset + a.bytes;
}

/// The most bytes that are alive at one time, each item rounded up: no plan can do with less than the unrounded sum.
std::size_t peak(std::vector<sinter::arena_item> const& items) {
  std::size_t most = 0;
  for (sinter::arena_item const& at : items) {
    std::size_t sum = 0;
    for (sinter::arena_item const& i : items)
      if (i.first <= at.first && at.first <= i.last) sum += i.bytes;
    most = sum > most ? sum : most;
  }
  return most;
}

}  // namespace

TEST_CASE("a chain of groups needs the two biggest neighbours") {
  std::vector<sinter::arena_item> items = {{1000, 0, 1}, {2000, 1, 2}, {1000, 2, 3}, {2000, 3, 4}};
  CHECK(planned(items) == 2048 + 1000);  // 2000 at 0; 1000 on the next boundary of 64
  CHECK(items[1].offset == 0);
  CHECK(items[3].offset == 0);
  CHECK(items[0].offset == 2048);
  CHECK(items[2].offset == 2048);
}

TEST_CASE("nothing, and items without bytes") {
  std::vector<sinter::arena_item> none;
  CHECK(planned(none) == 0);
  std::vector<sinter::arena_item> items = {{0, 0, 9}, {64, 0, 9}, {0, 3, 3}};
  CHECK(planned(items) == 64);
}

TEST_CASE("sizes that no memory has are refused and do not wrap") {
  std::size_t const half = static_cast<std::size_t>((std::numeric_limits<std::ptrdiff_t>::max)());
  std::vector<sinter::arena_item> one = {{half + 1, 0, 0}};
  CHECK(planned(one) == sinter::arena_overflow);
  std::vector<sinter::arena_item> two = {{half, 0, 1}, {64, 1, 1}};
  CHECK(planned(two) == sinter::arena_overflow);
  std::vector<sinter::arena_item> apart = {{half, 0, 0}, {64, 1, 1}};
  CHECK(planned(apart) == half);
}

TEST_CASE("random lives: disjoint where alive together, aligned, reproducible, within the sum") {
  std::mt19937 random(20240611);
  for (int round = 0; round < 300; ++round) {
    CAPTURE(round);
    std::vector<sinter::arena_item> items(1 + random() % 24);
    std::size_t sum = 0;
    for (sinter::arena_item& i : items) {
      i.bytes = random() % 5 == 0 ? 0 : random() % 5000;
      i.first = static_cast<int>(random() % 12);
      i.last = i.first + static_cast<int>(random() % 4);
      sum += sinter::round_up(i.bytes, sinter::buffer_alignment);
    }
    std::vector<sinter::arena_item> again = items;
    std::size_t const total = planned(items);
    CHECK(total == planned(again));
    CHECK(total <= sum);
    CHECK(total >= peak(items));
    for (std::size_t a = 0; a < items.size(); ++a) {
      CHECK(items[a].offset % sinter::buffer_alignment == 0);
      CHECK(items[a].offset + items[a].bytes <= total);
      CHECK(items[a].offset == again[a].offset);
      for (std::size_t b = 0; b < a; ++b)
        if (together(items[a], items[b])) CHECK_FALSE(share(items[a], items[b]));
    }
  }
}
