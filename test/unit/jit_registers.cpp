// Leases: a register has one holder at a time and comes back by itself.
#include <doctest/doctest.h>

#include <sinter/jit/eltwise.hpp>
#include <sinter/jit/registers.hpp>
#include <utility>

using namespace sinter;
using namespace sinter::jit;

TEST_CASE("a lease takes the lowest free register and gives it back at the end of its scope") {
  register_pool pool(set_of_range(3, 2));
  CHECK(pool.count() == 2);
  {
    register_lease const a(pool);
    register_lease const b(pool);
    CHECK(a.index() == 3);
    CHECK(b.index() == 4);
    CHECK(pool.count() == 0);
  }
  CHECK(pool.count() == 2);
  register_lease const named(pool, 4);
  CHECK(named.index() == 4);
  CHECK(!pool.has(4));
  CHECK(pool.has(3));
}

TEST_CASE("a lease that is moved gives its register back once") {
  register_pool pool(set_of(7));
  {
    register_lease a(pool);
    register_lease const b(std::move(a));
    CHECK(b.index() == 7);
    CHECK(pool.count() == 0);
  }
  CHECK(pool.count() == 1);
}

TEST_CASE("sets reach to the last register") {
  CHECK(set_of_range(0, 32) == 0xffffffffU);
  CHECK(set_of_range(16, 16) == 0xffff0000U);
  CHECK(set_of_range(5, 0) == 0);
}

// The budget, at compile time: an accumulator, three arguments and the hungriest emitter fit
// whatever else is spilled.
static_assert(1 + 3 + most_temporaries(isa::avx2) <= vector_count_of(isa::avx2));
static_assert(1 + 3 + most_temporaries(isa::avx512) <= vector_count_of(isa::avx512));
