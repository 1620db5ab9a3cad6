// Reductions, and what is made of them, against loops over plain rows.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "oracle.hpp"
#include "problem_text.hpp"

using namespace sinter_test;

namespace {

constexpr double inf = std::numeric_limits<double>::infinity();
double const not_a_number = std::numeric_limits<double>::quiet_NaN();

/// The four reductions of one row.
struct reduced_row {
  double sum, mean, max, index;
};
reduced_row reduce(std::vector<double> const& row) {
  given_tensor const x{{1, static_cast<extent>(row.size())}, row};
  auto const results = evaluate_all(
      "row_sum(x:tensor) | row_mean(x:tensor) | row_max(x:tensor) | argmax(x:tensor) -> a=%0, "
      "b=%1, "
      "c=%2, d=%3",
      {x});
  return {results[0].at(0), results[1].at(0), results[2].at(0), results[3].at(0)};
}

}  // namespace

TEST_CASE("reductions of one row: ties, NaN, infinities, no values, one value") {
  reduced_row const plain = reduce({3, -1, 5, 5, 2});
  CHECK(plain.sum == 14);
  CHECK(plain.mean == doctest::Approx(2.8));
  CHECK(plain.max == 5);
  CHECK(plain.index == 2);  // the first of two

  reduced_row const one = reduce({-7});
  CHECK((one.sum == -7 && one.mean == -7 && one.max == -7 && one.index == 0));

  reduced_row const none = reduce({});
  CHECK((none.sum == 0 && std::isnan(none.mean) && none.max == -inf && none.index == 0));

  reduced_row const low = reduce({-inf, -inf, -inf});
  CHECK((low.sum == -inf && low.mean == -inf && low.max == -inf && low.index == 0));
  CHECK(reduce({-inf, -3, -inf}).index == 1);
  CHECK(reduce({1, inf, inf}).index == 1);
  CHECK(std::isnan(reduce({1, inf, -inf}).sum));

  // The first NaN is the largest, wherever the largest number stands.
  for (std::vector<double> const& row :
       {std::vector<double>{9, not_a_number, 1, not_a_number, inf}, {0, not_a_number, 9}}) {
    reduced_row const r = reduce(row);
    CHECK((std::isnan(r.sum) && std::isnan(r.mean) && std::isnan(r.max) && r.index == 1));
  }
}
