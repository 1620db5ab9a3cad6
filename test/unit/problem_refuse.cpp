// What make_problem() and parse_chain() refuse, word for word: a sentence is part of the interface.
#include <doctest/doctest.h>

#include "problem_text.hpp"

using namespace sinter_test;

namespace {

bool begins(std::string const& text, std::string const& with) { return text.rfind(with, 0) == 0; }

}  // namespace

TEST_CASE("matmul: ranks and extents that do not fit") {
  CHECK(refusal("matmul(x, w)", {dims({2, 3}), dims({4, 5})}) ==
        "sinter: matmul: K is 3 in 'x' of 2x3 and 4 in 'w' of 4x5");
  CHECK(refusal("matmul(x, w, transposed_src)", {dims({2, 3}), dims({3, 5})}) ==
        "sinter: matmul: K is 2 in 'x' of 2x3 and 3 in 'w' of 3x5");
  CHECK(refusal("matmul(x, w)", {dims({3}), dims({3, 5})}) ==
        "sinter: matmul wants operands of rank 2 or more; given are 'x' of 3 and 'w' of 3x5");
  CHECK(refusal("matmul(x, w)", {dims({2, 2, 3}), dims({4, 3, 5})}) ==
        "sinter: matmul: the batch extents of 'x' of 2x2x3 and 'w' of 4x3x5 do not broadcast");
  CHECK(refusal("matmul(x, w)", {nothing, dims({3, 5})}) ==
        "sinter: the extents of operand 'x' of matmul are not given");
  CHECK(refusal("matmul(x, w)", {dims({2, dynamic}), dims({3, 5})}) ==
        "sinter: matmul: K is dynamic in 'x' of 2x? and 3 in 'w' of 3x5");
}

TEST_CASE("convolution: ranks, channels, groups, kernels") {
  CHECK(refusal("conv2d(x, w)", {dims({1, 5, 4}), dims({8, 3, 3, 4})}) ==
        "sinter: conv2d wants a source and a weight of rank 4; given are 'x' of 1x5x4 and 'w' of "
        "8x3x3x4");
  CHECK(refusal("conv2d(x, w)", {dims({1, 5, 5, 4}), dims({8, 3, 3, 3})}) ==
        "sinter: conv2d: 'x' of 1x5x5x4 has 4 channels and 'w' of 8x3x3x3 wants 3 in each of 1 "
        "groups");
  CHECK(refusal("conv2d(x, w, groups=3)", {dims({1, 5, 5, 6}), dims({8, 3, 3, 2})}) ==
        "sinter: conv2d: 'w' of 8x3x3x2 has 8 output channels, not a multiple of the 3 groups");
  CHECK(refusal("conv2d(x, w, dilation=2, pad=1)", {dims({1, 2, 9, 4}), dims({8, 3, 3, 4})}) ==
        "sinter: conv2d: the kernel of 'w' of 8x3x3x4 spans 5 on axis 1, more than the 4 of 'x' of "
        "1x2x9x4 with "
        "its padding");
  CHECK(refusal("conv1d(x, w)", {dims({1, 2, 4}), dims({8, 0, 4})}) ==
        "sinter: conv1d: 'w' of 8x0x4 has a kernel of extent 0");
  CHECK(begins(refusal("conv1d(x, w)", {dims({1, 2, dynamic}), dims({8, 1, 4})}),
               "sinter: conv1d has a dynamic extent among the channels of 'x' of 1x2x?"));
}

TEST_CASE("convolution: attributes") {
  CHECK(refusal("conv2d(x, w, stride=0)", {}) ==
        "sinter: conv2d has the stride 0; 1 or more is wanted");
  CHECK(refusal("conv2d(x, w, stride=-1)", {}) ==
        "sinter: conv2d has the stride -1; 1 or more is wanted");
  CHECK(refusal("conv2d(x, w, dilation=0)", {}) ==
        "sinter: conv2d has the dilation 0; 1 or more is wanted (1 is dense)");
  CHECK(refusal("conv2d(x, w, pad=-1)", {}) ==
        "sinter: conv2d has the padding -1, -1; 0 or more is wanted");
  CHECK(refusal("conv2d(x, w, groups=0)", {}) ==
        "sinter: conv2d has 0 groups; 1 or more is wanted");
}

TEST_CASE("parameters") {
  CHECK(begins(refusal("clip(x:tensor, 2, 1)", {dims({2})}), "sinter: clip has the bounds 2"));
  CHECK(refusal("clip(x:tensor, 1, 1)", {dims({2})}).empty());
  CHECK(refusal("softplus(x:tensor, 0)", {dims({2})}) ==
        "sinter: softplus has alpha 0; any other value is wanted");
  CHECK(refusal("leaky_relu(x:tensor, #7fc00000)", {dims({2})}) ==
        "sinter: leaky_relu has a parameter that is NaN");
}

TEST_CASE("broadcasting") {
  CHECK(refusal("add(x:tensor, r:tensor)", {dims({2, 3}), dims({2, 4})}) ==
        "sinter: 'r' of 2x4 does not broadcast with 'x', 2x3 so far; extents must be equal or 1, "
        "aligned at the "
        "last axis");
  CHECK(refusal("matmul(x, w) | add r:tensor", {dims({1, 3}), dims({3, 4}), dims({5, 4})}) ==
        "sinter: 'r' of 5x4 would widen the result of step 0 (matmul) of 1x4; it must broadcast to "
        "that");
  CHECK(refusal("matmul(x, w) | add r:tensor", {dims({2, 3}), dims({3, 4}), dims({1, 2, 4})}) ==
        "sinter: 'r' of 1x2x4 would widen the result of step 0 (matmul) of 2x4; it must broadcast "
        "to that");
  CHECK(begins(refusal("add(x:tensor, r:tensor)", {dims({dynamic, 3}), dims({2, 3})}),
               "sinter: 'r' of 2x3 does not broadcast with 'x', ?x3 so far"));
  CHECK(refusal("matmul(x, w) | matmul(y, v) | add(%0, %1)",
                {dims({2, 3}), dims({3, 4}), dims({2, 3}), dims({3, 1})}) ==
        "sinter: the result of step 1 (matmul) of 2x1 does not broadcast with the result of step 0 "
        "(matmul), 2x4 "
        "so far; extents must be equal or 1, aligned at the last axis");
}

TEST_CASE("reductions") {
  CHECK(refusal("row_sum(s:scalar) | add x:tensor", {dims({}), dims({2})}) ==
        "sinter: row_sum of 's' of scalar; a value with a last axis is wanted");
  CHECK(refusal("row_max(1) | add x:tensor", {dims({2})}) ==
        "sinter: row_max of a constant of scalar; a value with a last axis is wanted");
  CHECK(refusal("add(x:tensor, 1) | argmax", {dims({})}) ==
        "sinter: argmax of the result of step 0 (add) of scalar; a value with a last axis is "
        "wanted");
  CHECK(refusal("argmax(x:tensor)", {dims({1, (extent{1} << 24) + 1})}) ==
        "sinter: argmax of 'x' of 1x16777217; a last axis of at most 16777216 is wanted, so that "
        "f32 holds each index");
  CHECK(refusal("argmax(x:tensor)", {dims({1, extent{1} << 24})}).empty());
  CHECK(refusal("row_max(x:tensor)", {dims({1, (extent{1} << 24) + 1})}).empty());
  // Stored or rounded to less than f32, an index has to fit there too.
  operand_spec const wide = dims({1, 257}, {}, dtype::bf16);
  CHECK(refusal("argmax(x:tensor) [bf16]", {wide}) ==
        "sinter: argmax of 'x' of 1x257; a last axis of at most 256 is wanted, so that bf16 holds "
        "each index");
  CHECK(refusal("argmax(x:tensor) -> out:f32 [bf16]", {wide}).empty());
  CHECK(begins(refusal("let argmax(x:tensor) | add 1 -> out:f32 [bf16]", {wide}),
               "sinter: argmax of 'x' of 1x257; a last axis of at most 256"));
  CHECK(refusal("argmax(x:tensor) [bf16]", {dims({1, 256}, {}, dtype::bf16)}).empty());
  // All values of a group broadcast to one domain, those before a reduction too.
  CHECK(refusal("row_max(x:tensor) | mul y:tensor", {dims({2, 3}), dims({2, 4})}) ==
        "sinter: 'y' of 2x4 does not broadcast with 'x', 2x3 so far; extents must be equal or 1, "
        "aligned at the last axis");
  CHECK(refusal("matmul(x, w) | row_max | mul y:tensor",
                {dims({2, 3}), dims({3, 4}), dims({5, 2, 1})}) ==
        "sinter: 'y' of 5x2x1 would widen the result of step 0 (matmul) of 2x4; it must broadcast "
        "to that");
  CHECK(refusal("matmul(x, w) | row_max | add r:tensor", {dims({2, 3}), dims({3, 4}), dims({2, 1})},
                {}, 2)
            .empty());
  CHECK(refusal("matmul(x, w) | row_max | add(%0, %1) | add r:tensor",
                {dims({2, 3}), dims({3, 4}), dims({2, 1})}, {}, 2) ==
        "sinter: operand 'r' cannot share memory with output 'out': dtype, extents and strides "
        "must be the same, and are f32 2x1 (1, 1) and f32 2x4 (4, 1)");
}

TEST_CASE("roles") {
  CHECK(refusal("matmul(x, w) | add b:vector", {dims({2, 3}), dims({3, 4}), dims({1})}) ==
        "sinter: vector operand 'b' of 1; one value for each of the 4 indices of the last axis of "
        "2x4 is wanted");
  CHECK(refusal("matmul(x, w) | add b:vector", {dims({2, 3}), dims({3, 4}), dims({1, 4})}) ==
        "sinter: vector operand 'b' of 1x4; one value for each of the 4 indices of the last axis "
        "of 2x4 is wanted");
  CHECK(refusal("add(x:tensor, b:vector)", {dims({}), nothing}) ==
        "sinter: vector operand 'b' meets values of rank 0; they have no last axis");
  CHECK(refusal("add(x:tensor, s:scalar)", {dims({3}), dims({2})}) ==
        "sinter: scalar operand 's' of 2; a single element is wanted");
  CHECK(refusal("add(x:tensor, s:scalar)", {dims({3}), dims({1, 1})}).empty());
  CHECK(refusal("add(x:tensor, b:vector)", {nothing, dims({3})}) ==
        "sinter: the extents of operand 'x' are not given and follow from no other");
}

TEST_CASE("dtypes and declared extents") {
  CHECK(refusal("matmul(x, w) [bf16]", {dims({2, 3}), dims({3, 4})}) ==
        "sinter: operand 'x' is described as f32; bf16 is wanted");
  CHECK(refusal("matmul(x, w)", {dims({2, 3}), dims({3, 4}, {}, dtype::bf16)}) ==
        "sinter: operand 'w' is described as bf16; f32 is wanted");
  CHECK(refusal("matmul(x[2x3], w)", {dims({5, 3}), dims({3, 4})}) ==
        "sinter: operand 'x' of 5x3 was declared with the extents 2x3");
}

TEST_CASE("extents and strides that are wrong in themselves") {
  constexpr extent huge = detail::max_extent;
  CHECK(refusal("relu(x:tensor)", {dims({-2, 3})}) ==
        "sinter: operand 'x' has the extent -2 on axis 0; an extent is 0 or more");
  CHECK(refusal("relu(x:tensor)", {dims({1LL << 32, 1LL << 31})}) ==
        "sinter: operand 'x' of extents 4294967296x2147483648 has more than 2^63 - 1 bytes");
  CHECK(refusal("relu(x:tensor)", {dims({2, 3}, {3})}) ==
        "sinter: operand 'x' has 1 strides for the extents 2x3; one for each axis is wanted");
  CHECK(refusal("relu(x:tensor)", {dims({2, 3}, {-3, 1})}) ==
        "sinter: operand 'x' has the stride -3 on axis 0; a stride is 0 or more");
  CHECK(refusal("relu(x:tensor)", {dims({3, 2}, {huge / 2, 1})}) ==
        "sinter: operand 'x' of extents 3x2 with strides (4611686018427387903, 1) reaches further "
        "than 2^63 - 1 "
        "bytes");
  CHECK(refusal("relu(x:tensor)", {dims({2, dynamic, 4}, {100, 8, 1})}) ==
        "sinter: operand 'x' has dynamic extents and the strides (100, 8, 1); that of an axis "
        "before a dynamic one follows from the axes behind it and is given as -1");
  CHECK(refusal("relu(x:tensor)", {dims({2, dynamic, 4}, {dynamic, 8, 1})}).empty());
  CHECK(refusal("relu(x:tensor)", {dims({dynamic, 4}, {8, 1})}).empty());
  CHECK(begins(refusal("matmul(x, w)", {dims({1LL << 31, 1}), dims({1, 1LL << 31})}),
               "sinter: the result of matmul of 2147483648x2147483648 has more than"));
  CHECK(refusal("relu(x:tensor)", {dims({4, 0, 1LL << 62})}).empty());  // no elements, no reach
}

TEST_CASE("output strides") {
  CHECK(refusal("relu(x:tensor)", {dims({2, 3})}, {{2, 1}}) ==
        "sinter: output 'out' of 2x3 has the strides (2, 1), with which elements share memory or "
        "interleave");
  CHECK(refusal("relu(x:tensor)", {dims({2, 3})}, {{0, 1}}) ==
        "sinter: output 'out' of 2x3 has the strides (0, 1), with which elements share memory or "
        "interleave");
  CHECK(refusal("relu(x:tensor)", {dims({2, 3})}, {{1, 2}}).empty());
  CHECK(refusal("relu(x:tensor)", {dims({1, 3})}, {{0, 1}}).empty());
  CHECK(refusal("relu(x:tensor)", {dims({2, 3}, {0, 1})})
            .empty());  // an input may be spread by stride 0
}

TEST_CASE("in place") {
  std::vector<operand_spec> const square{dims({4, 4}), dims({4, 4}), dims({4, 4})};
  CHECK(refusal("matmul(x, w) | add r:tensor", square, {}, 2).empty());
  CHECK(refusal("matmul(x, w) | add r:tensor", square, {}, 0) ==
        "sinter: operand 'x' cannot share memory with output 'out': a contraction or a pooling "
        "reads each of "
        "its elements more "
        "than once");
  CHECK(refusal("matmul(x, w) | add r:tensor", square, {{8, 1}}, 2) ==
        "sinter: operand 'r' cannot share memory with output 'out': dtype, extents and strides "
        "must be the same, "
        "and are f32 4x4 (4, 1) and f32 4x4 (8, 1)");
  CHECK(refusal("matmul(x, w) | add b:vector", {dims({4, 4}), dims({4, 4})}, {}, 2) ==
        "sinter: operand 'b' cannot share memory with output 'out': its role is vector");
  CHECK(refusal("relu(x:tensor) | matmul(%0, w)", {dims({4, 4}), dims({4, 4})}, {}, 0) ==
        "sinter: operand 'x' cannot share memory with output 'out': a contraction or a pooling "
        "reads each of "
        "its elements more "
        "than once");
  CHECK(refusal("relu(x:tensor)", {dims({4})}, {}, 5) ==
        "sinter: in_place names an operand that the chain does not have");
}

TEST_CASE("chains that are not well formed") {
  CHECK(begins(refusal("relu", {}),
               "sinter: step 0 (relu) reads a value that is not defined before it"));
  CHECK(begins(refusal("add(x:tensor, %1)", {}),
               "sinter: step 0 (add) reads a value that is not defined"));
  chain c = parse_chain("add(x:tensor, 1)").value();
  c.operands.push_back(operand{"y", role::tensor, dtype::f32, false, {}});
  CHECK(make_problem(c, {}).error().message == "sinter: operand 'y' is not read by any step");
  c.operands.resize(1);
  c.outputs[0].value = operand_ref(0);
  CHECK(make_problem(c, {}).error().message == "sinter: output 'out' is not the result of a step");
  c.outputs.clear();
  CHECK(make_problem(c, {}).error().message == "sinter: a chain without outputs");
  CHECK(make_problem(chain{}, {}).error().message == "sinter: a chain without steps");
}
