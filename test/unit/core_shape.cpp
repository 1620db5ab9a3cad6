// Broadcasting, strides and extents: the table at compile time and the same calls at run time.
#include <doctest/doctest.h>

#include <sinter/plan/layout.hpp>

using namespace sinter;

namespace {

struct pair_row {
  extent a, b, result;  // result -1: does not fit
};
constexpr pair_row pairs[] = {{1, 5, 5},
                              {5, 1, 5},
                              {5, 5, 5},
                              {1, 1, 1},
                              {0, 1, 0},
                              {1, 0, 0},
                              {2, 3, -1},
                              {0, 5, -1},
                              {dynamic, 1, dynamic},
                              {1, dynamic, dynamic},
                              {dynamic, dynamic, dynamic},
                              {dynamic, 5, -1}};

// The pair on each axis of a rank-3 shape whose other axes are 7, and with missing leading axes.
constexpr bool table_holds() {
  for (pair_row const& r : pairs) {
    if (broadcast_extent(r.a, r.b) != r.result) return false;
    for (int axis = 0; axis < 3; ++axis) {
      shape a{7, 7, 7}, b{7, 7, 7}, wanted{7, 7, 7};
      a[axis] = r.a;
      b[axis] = r.b;
      wanted[axis] = r.result;
      broadcast_result const whole = broadcast(a, b);
      if (whole.fits != (r.result != -1)) return false;
      if (whole.fits && !(whole.dims == wanted)) return false;
      if (broadcasts_to(a, b) != (r.a == r.b || r.a == 1)) return false;
      shape tail;  // b without its leading axes: they count as 1
      for (int i = axis; i < 3; ++i) tail.push_back(b[i]);
      broadcast_result const ranks = broadcast(a, tail), swapped = broadcast(tail, a);
      if (ranks.fits != (r.result != -1) || swapped.fits != ranks.fits) return false;
      if (ranks.fits && (!(ranks.dims == wanted) || !(swapped.dims == wanted))) return false;
    }
  }
  return true;
}
static_assert(table_holds());

static_assert(broadcast(shape{}, shape{2, 3}).dims == shape{2, 3});
static_assert(broadcast(shape{3}, shape{2, 1}).dims == shape{2, 3});
static_assert(broadcasts_to(shape{1, 1, 3}, shape{2, 3}) &&
              !broadcasts_to(shape{2, 1, 3}, shape{2, 3}));
static_assert(!broadcasts_to(shape{2, 3}, shape{3}));
static_assert(element_count(shape{}) == 1 && element_count(shape{3, 0, 5}) == 0);
static_assert(element_count(shape{1LL << 32, 1LL << 32}) == -1);
static_assert(element_count(shape{0, 1LL << 62, 1LL << 62}) == 0);
static_assert(element_count(shape{1LL << 16, 1LL << 16, 8}) == 1LL << 35);
static_assert(dense_strides(shape{2, 3, 4}) == strides{12, 4, 1});
static_assert(dense_strides(shape{2, 0, 4}) == strides{4, 4, 1});
static_assert(conv_extent(64, 4, 1, 1, 1, 2) == 64 && conv_extent(67, 1, 3, 1, 0, 0) == 23);
static_assert(conv_extent(2, 4, 1, 1, 0, 0) == 0 && conv_extent(3, 3, 2, 2, 0, 0) == 0);
static_assert(conv_extent(detail::max_extent, 1, 1, 1, 1, 0) == -1);

}  // namespace

TEST_CASE("the broadcast table at run time") { CHECK(table_holds()); }

TEST_CASE("reach and bytes are counted in 63 bits") {
  using detail::reach;
  CHECK(reach({2, 3}, {10, 1}) == 12);
  CHECK(reach({1, 1}, {detail::max_extent, detail::max_extent}) == 0);
  CHECK(reach({0, 5}, {detail::max_extent, 1}) == 0);
  CHECK(reach({3}, {detail::max_extent}) == -1);
  CHECK(reach({2, 2}, {detail::max_extent, detail::max_extent}) == -1);
  CHECK(detail::byte_span({dtype::f32, {2, 3}, {10, 1}}) == 52);
  CHECK(detail::byte_span({dtype::f32, {2}, {detail::max_extent / 2}}) == -1);
}

TEST_CASE("elements that share memory or interleave are found") {
  using detail::elements_distinct;
  CHECK(elements_distinct({2, 3}, {3, 1}));
  CHECK(elements_distinct({2, 3}, {1, 2}));
  CHECK(elements_distinct({2, 3}, {100, 7}));
  CHECK_FALSE(elements_distinct({2, 3}, {2, 1}));
  CHECK_FALSE(elements_distinct({2, 3}, {0, 1}));
  CHECK_FALSE(elements_distinct({4}, {0}));
  CHECK_FALSE(elements_distinct({3, 2}, {2, 3}));  // interleaved
  CHECK(elements_distinct({1, 3}, {0, 1}));
  CHECK(elements_distinct({0, 3}, {0, 0}));
}

TEST_CASE("strides of axes of extent 1 mean nothing") {
  using detail::meaningful_strides;
  for (extent junk : {extent{0}, extent{1}, extent{7}, extent{-1}, detail::max_extent}) {
    CAPTURE(junk);
    CHECK(meaningful_strides({1, 5}, {junk, 1}) == strides{5, 1});
    CHECK(meaningful_strides({5, 1}, {1, junk}) == strides{1, 1});
    CHECK(meaningful_strides({1, 1}, {junk, junk}) == strides{1, 1});
    CHECK(meaningful_strides({1, 4, 5, 3}, {junk, 5, 1, 20}) == strides{60, 5, 1, 20});
    CHECK(detail::same_layout({1, 5}, {junk, 1}, {5, 1}));
  }
}
