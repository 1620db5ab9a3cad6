// core/buffer.hpp: alignment, ownership, and what happens when there is no memory.
#include <doctest/doctest.h>

#include <cstdint>
#include <cstring>
#include <limits>
#include <utility>

#include <sinter/core/buffer.hpp>

namespace {

std::uintptr_t address(sinter::buffer const& b) {
  return reinterpret_cast<std::uintptr_t>(b.data());
}

}  // namespace

TEST_CASE("a buffer starts on a cache line, a large one on a huge page") {
  for (std::size_t bytes : {std::size_t{1}, std::size_t{100}, std::size_t{4096}}) {
    sinter::buffer const b(bytes);
    REQUIRE(b.data() != nullptr);
    CHECK(b.size() == bytes);
    CHECK(address(b) % sinter::buffer_alignment == 0);
  }
  sinter::buffer large(2 * sinter::huge_page + 5);
  REQUIRE(large.data() != nullptr);
  CHECK(address(large) % sinter::huge_page == 0);
  std::memset(large.data(), 1, large.size());
  CHECK(large.data()[large.size() - 1] == std::byte{1});
}

TEST_CASE("a moved buffer is owned once, whatever the sizes") {
  sinter::buffer small(64), large(2 * sinter::huge_page);
  auto const* const from = large.data();
  small = std::move(large);
  CHECK(small.data() == from);
  sinter::buffer const taken(std::move(small));
  CHECK(taken.data() == from);
  CHECK(taken.size() == 2 * sinter::huge_page);
  CHECK_FALSE(small.failed());
}

TEST_CASE("memory that cannot be had is a failed buffer; no memory is none") {
  constexpr std::size_t most = (std::numeric_limits<std::size_t>::max)();
  for (std::size_t bytes : {most, most - 63, most / 2, most / 4}) {
    sinter::buffer const b(bytes);
    CHECK(b.failed());
    CHECK(b.data() == nullptr);
  }
  sinter::buffer const nothing(0);
  CHECK_FALSE(nothing.failed());
  CHECK(nothing.data() == nullptr);
}
