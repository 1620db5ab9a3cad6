// check_view(): every way in which a view can be wrong, and those in which it may differ.
#include <doctest/doctest.h>

#include <array>
#include <vector>

#include <sinter/plan/view_check.hpp>

using namespace sinter;

namespace {

std::string refused(tensor_desc const& wanted, tensor_view const& given) {
  status const st = check_view("operand", "x", wanted, given);
  return st.ok() ? std::string() : st.error().message;
}

}  // namespace

TEST_CASE("views that fit") {
  std::array<float, 24> data{};
  CHECK(refused(dense_desc(dtype::f32, {2, 3}), view(data.data(), {2, 3})).empty());
  CHECK(refused({dtype::f32, {2, 3}, {8, 1}}, view(data.data(), {2, 3}, {8, 1})).empty());
  // A contiguous range fits by its number of elements.
  CHECK(refused(dense_desc(dtype::f32, {4, 6}), as_view(data)).empty());
  CHECK(refused(dense_desc(dtype::f32, {24}), as_view(data)).empty());
  // Strides of axes of extent 1 do not count.
  CHECK(refused(dense_desc(dtype::f32, {1, 3}), view(data.data(), {1, 3}, {-7, 1})).empty());
  // A single element is a scalar whatever its rank.
  CHECK(refused(dense_desc(dtype::f32, {}), view(data.data(), {1, 1})).empty());
  CHECK(refused(dense_desc(dtype::f32, {}), view(data.data(), {})).empty());
  // No elements: no pointer.
  CHECK(refused(dense_desc(dtype::f32, {0, 3}), view(static_cast<float const*>(nullptr), {0, 3}))
            .empty());
}

TEST_CASE("views that do not fit") {
  std::array<float, 24> data{};
  tensor_desc const wanted = dense_desc(dtype::f32, {2, 3});
  CHECK(refused(wanted, view(static_cast<float const*>(nullptr), {2, 3})) ==
        "sinter: operand 'x' is a null pointer; 6 elements are wanted");
  CHECK(refused(dense_desc(dtype::bf16, {2, 3}), view(data.data(), {2, 3})) ==
        "sinter: operand 'x' is f32; bf16 is wanted");
  CHECK(refused(wanted, view(data.data(), {6})) ==
        "sinter: operand 'x' has rank 1 (6); rank 2 (2x3) is wanted");
  CHECK(refused(wanted, view(data.data(), {3, 2})) == "sinter: operand 'x' is 3x2; 2x3 is wanted");
  CHECK(refused(wanted, view(data.data(), {2, 3}, {4, 1})) ==
        "sinter: operand 'x' has the strides (4, 1); (3, 1) are wanted (compile for these strides, "
        "or copy)");
  CHECK(refused(wanted, as_view(data)) ==
        "sinter: operand 'x' has 24 elements; 6 are wanted for 2x3");
  CHECK(refused({dtype::f32, {4, 6}, {1, 4}}, as_view(data)) ==
        "sinter: operand 'x' is a contiguous range; a view with the strides (1, 4) is wanted");
  CHECK(refused(dense_desc(dtype::f32, {}), view(data.data(), {2})) ==
        "sinter: operand 'x' has rank 1 (2); rank 0 (scalar) is wanted");
  tensor_view odd = view(data.data(), {2, 3});
  odd.data = static_cast<unsigned char const*>(odd.data) + 2;
  CHECK(refused(wanted, odd) ==
        "sinter: operand 'x' is not aligned for f32: its address is not a multiple of 4");
  odd.type = dtype::bf16;
  CHECK(refused(dense_desc(dtype::bf16, {2, 3}), odd).empty());
  odd.data = static_cast<unsigned char const*>(odd.data) + 1;
  CHECK(refused(dense_desc(dtype::bf16, {2, 3}), odd) ==
        "sinter: operand 'x' is not aligned for bf16: its address is not a multiple of 2");
}

TEST_CASE("byte ranges overlap or not") {
  std::array<float, 8> data{};
  tensor_desc const half = dense_desc(dtype::f32, {4});
  auto const at = [&](std::size_t i) { return range_of("operand", "x", half, data.data() + i); };
  CHECK(overlap(at(0), at(0)));
  CHECK(overlap(at(0), at(3)));
  CHECK(overlap(at(3), at(0)));
  CHECK_FALSE(overlap(at(0), at(4)));
  CHECK_FALSE(overlap(range_of("operand", "x", dense_desc(dtype::f32, {0}), data.data()), at(0)));
}
