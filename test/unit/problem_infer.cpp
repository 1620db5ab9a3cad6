// What make_problem() infers: extents of outputs and of operands that are not described.
#include <doctest/doctest.h>

#include <sinter/plan/resolve.hpp>

#include "problem_text.hpp"

using namespace sinter_test;

namespace {

shape output_dims(std::string_view text, std::vector<operand_spec> const& specs) {
  return problem_of(text, specs).value().outputs[0].dims;
}

}  // namespace

TEST_CASE("matmul: plain, transposed, batched, batches broadcast on either side") {
  CHECK(output_dims("matmul(x, w)", {dims({2, 3}), dims({3, 4})}) == shape{2, 4});
  CHECK(output_dims("matmul(x, w, transposed_src)", {dims({3, 2}), dims({3, 4})}) == shape{2, 4});
  CHECK(output_dims("matmul(x, w, transposed_weight)", {dims({2, 3}), dims({4, 3})}) ==
        shape{2, 4});
  CHECK(output_dims("matmul(x, w, transposed_src, transposed_weight)",
                    {dims({3, 2}), dims({4, 3})}) == shape{2, 4});
  CHECK(output_dims("matmul(x, w)", {dims({7, 2, 3}), dims({3, 4})}) == shape{7, 2, 4});
  CHECK(output_dims("matmul(x, w)", {dims({2, 3}), dims({7, 3, 4})}) == shape{7, 2, 4});
  CHECK(output_dims("matmul(x, w:tensor)", {dims({5, 1, 2, 3}), dims({7, 3, 4})}) ==
        shape{5, 7, 2, 4});
  CHECK(output_dims("matmul(x, w)", {dims({0, 3}), dims({3, 4})}) == shape{0, 4});
  CHECK(output_dims("matmul(x, w)", {dims({2, 0}), dims({0, 4})}) == shape{2, 4});
  CHECK(output_dims("matmul(x, w)", {dims({0, 2, 3}), dims({1, 3, 4})}) == shape{0, 2, 4});
}

TEST_CASE("convolutions of one to three axes") {
  CHECK(output_dims("conv1d(x, w, pad_begin=1, pad_end=2)", {dims({1, 64, 3}), dims({5, 4, 3})}) ==
        shape{1, 64, 5});
  CHECK(output_dims("conv2d(x, w, stride=2, pad=1)",
                    {dims({1, 56, 56, 64}), dims({128, 3, 3, 64})}) == shape{1, 28, 28, 128});
  CHECK(output_dims("conv2d(x, w, stride=3x1, pad_begin=0x1, pad_end=0)",
                    {dims({1, 67, 4, 32}), dims({48, 1, 1, 32})}) == shape{1, 23, 5, 48});
  CHECK(output_dims("conv2d(x, w, dilation=2, pad=2, groups=4)",
                    {dims({1, 5, 5, 4}), dims({4, 3, 3, 1})}) == shape{1, 5, 5, 4});
  CHECK(output_dims("conv3d(x, w)", {dims({2, 4, 5, 6, 1}), dims({3, 2, 3, 4, 1})}) ==
        shape{2, 3, 3, 3, 3});
  CHECK(output_dims("conv2d(x, w)", {dims({0, 5, 5, 4}), dims({4, 3, 3, 4})}) == shape{0, 3, 3, 4});
}

TEST_CASE("operands that are not described follow from their role") {
  problem const p = problem_of("conv2d(x, w) | add b:vector | add r:tensor | mul s:scalar [bf16]",
                               {dims({2, 4, 4, 8}, {}, dtype::bf16), dims({16, 1, 1, 8})})
                        .value();
  CHECK(p.operands[2] == dense_desc(dtype::f32, {16}));
  CHECK(p.operands[3] == dense_desc(dtype::bf16, {2, 4, 4, 16}));
  CHECK(p.operands[4] == dense_desc(dtype::f32, {}));
  CHECK(p.operands[1] == dense_desc(dtype::bf16, {16, 1, 1, 8}));  // described as f32: packed
  CHECK(p.outputs[0] == dense_desc(dtype::bf16, {2, 4, 4, 16}));
  CHECK(p.domain == shape{2, 4, 4, 16});

  CHECK(output_dims("add(x:tensor, b:vector) | mul r:tensor", {dims({2, 3}), nothing, dims({3})}) ==
        shape{2, 3});
  CHECK(output_dims("add(x:tensor, r:tensor)", {dims({4, 1}), dims({1, 5})}) == shape{4, 5});
  CHECK(output_dims("add(x:tensor, r:tensor)", {nothing, dims({6})}) == shape{6});
  CHECK(output_dims("add(x:tensor, 1)", {dims({})}) == shape{});
  // Static extents stand for a description.
  CHECK(output_dims("matmul(x[2x3], w[3x4])", {}) == shape{2, 4});
  CHECK(output_dims("matmul(x[?x3], w[3x4])", {dims({9, 3})}) == shape{9, 4});
}

TEST_CASE("steps before an anchor have their own extents") {
  problem const p = problem_of("add(x:tensor, q:tensor) | mul v:vector | matmul(%1, w) | add %2",
                               {dims({2, 3}), nothing, nothing, dims({3, 4})})
                        .value();
  CHECK(p.operands[1].dims == shape{2, 3});
  CHECK(p.operands[2].dims == shape{3});
  CHECK(p.domain == shape{2, 4});
  CHECK(value_dims(p, step_ref(1)) == shape{2, 3});
  CHECK(value_dims(p, step_ref(3)) == shape{2, 4});
  CHECK(value_dims(p, operand_ref(3)) == shape{3, 4});
  // An operand-only value after an anchor keeps its own extents.
  problem const q = problem_of("matmul(x, w) | mul(b:vector, s:scalar) | add(%0, %1)",
                               {dims({2, 3}), dims({3, 4})})
                        .value();
  CHECK(value_dims(q, step_ref(1)) == shape{4});
  CHECK(value_dims(q, step_ref(2)) == shape{2, 4});
}

TEST_CASE("two contractions in one chain") {
  problem const p = problem_of("matmul(x, w) | add b:vector | relu | matmul(%2, v) | add r:tensor",
                               {dims({5, 3}), dims({3, 7}), nothing, dims({7, 2})})
                        .value();
  CHECK(p.operands[2].dims == shape{7});
  CHECK(p.operands[4].dims == shape{5, 2});
  CHECK(p.domain == shape{5, 2});
  CHECK(value_dims(p, step_ref(2)) == shape{5, 7});
}

TEST_CASE("sizes whose products pass 2^31 are right") {
  problem const p =
      problem_of("matmul(x, w)", {dims({1LL << 20, 1}), dims({1, 1LL << 20})}).value();
  CHECK(element_count(p.outputs[0].dims) == 1LL << 40);
  CHECK(p.outputs[0].strides == strides{1LL << 20, 1});
}

TEST_CASE("strides of axes of extent 1 do not change a problem") {
  auto const with = [](extent junk) {
    return problem_of(
               "matmul(x, w) | add r:tensor",
               {dims({1, 5}, {junk, 1}), dims({5, 1}, {1, junk}), dims({1, 1}, {junk, junk})},
               {{junk, junk}})
        .value();
  };
  problem const first = with(1);
  for (extent junk : {extent{0}, extent{7}, extent{-1}, detail::max_extent}) {
    CAPTURE(junk);
    CHECK(with(junk) == first);
    CHECK(hash(with(junk)) == hash(first));
  }
}

TEST_CASE("dynamic extents: inferred, resolved, checked again") {
  problem const p =
      problem_of("matmul(x, w) | add b:vector | add r:tensor", {dims({dynamic, 8}), dims({8, 5})})
          .value();
  CHECK(is_dynamic(p));
  CHECK(p.domain == shape{dynamic, 5});
  CHECK(p.outputs[0].strides.empty());
  CHECK(p.operands[3].dims == shape{dynamic, 5});
  for (extent m : {extent{0}, extent{1}, extent{7}}) {
    std::vector<shape> const actual{{m, 8}};
    problem const q = resolve(p, actual).value();
    CHECK_FALSE(is_dynamic(q));
    CHECK(q ==
          problem_of("matmul(x, w) | add b:vector | add r:tensor", {dims({m, 8}), dims({8, 5})})
              .value());
  }
  // In place, one after the other, as a call does it.
  problem again = p;
  for (extent m : {extent{3}, extent{9}}) {
    std::vector<shape> const actual{{m, 8}, {}, {}, {m, 5}};
    CHECK(resolve_into(again, p, actual).ok());
    CHECK(again.outputs[0].dims == shape{m, 5});
  }
  auto const refused = [&](std::vector<shape> const& actual) {
    return resolve(p, actual).error().message;
  };
  CHECK(refused({}) == "sinter: the extents of operand 'x' of matmul are not given");
  CHECK(refused({{4, 9}}) == "sinter: operand 'x' of 4x9; ?x8 is wanted, a number for each ?");
  CHECK(refused({{4, 8}, {8, 6}}) == "sinter: operand 'w' of 8x6; 8x5 is wanted");
  CHECK(refused({{4, 8}, {}, {}, {3, 5}}) ==
        "sinter: 'r' of 3x5 does not broadcast with the result of step 0 (matmul), 4x5 so far; "
        "extents must be "
        "equal or 1, aligned at the last axis");

  problem const image = problem_of("conv2d(x, w, stride=2, pad=1)",
                                   {dims({dynamic, dynamic, dynamic, 3}), dims({8, 3, 3, 3})})
                            .value();
  CHECK(image.outputs[0].dims == shape{dynamic, dynamic, dynamic, 8});
  std::vector<shape> const one{{2, 9, 7, 3}};
  CHECK(resolve(image, one).value().outputs[0].dims == shape{2, 5, 4, 8});
}

TEST_CASE("a reduction leaves one value of each row, which broadcasts back") {
  CHECK(output_dims("row_sum(x:tensor)", {dims({2, 3})}) == shape{2, 1});
  CHECK(output_dims("argmax(x:tensor)", {dims({7})}) == shape{1});
  CHECK(output_dims("row_max(x:tensor) | add b:vector", {dims({2, 3}), nothing}) == shape{2, 3});
  CHECK(output_dims("row_max(x:tensor) | add 1", {dims({2, 4, 0})}) == shape{2, 4, 1});
  CHECK(output_dims("matmul(x, w) | row_mean", {dims({7, 2, 3}), dims({3, 4})}) == shape{7, 2, 1});
  CHECK(output_dims("conv2d(x, w) | row_max", {dims({1, 5, 5, 4}), dims({8, 1, 1, 4})}) ==
        shape{1, 5, 5, 1});
  CHECK(output_dims("row_sum(x:tensor) | matmul(%0, w)", {dims({2, 3}), dims({1, 4})}) ==
        shape{2, 4});

  problem const p =
      problem_of(
          "matmul(x, w) | row_max | sub(%0, %1) | add r:tensor | argmax -> out=%3, top=%1, "
          "index=%4",
          {dims({5, 3}), dims({3, 4})})
          .value();
  CHECK(p.domain == shape{5, 4});
  CHECK(p.operands[2] == dense_desc(dtype::f32, {5, 4}));  // as the domain
  CHECK(p.outputs[0].dims == shape{5, 4});
  CHECK(p.outputs[1].dims == shape{5, 1});
  CHECK(p.outputs[2].dims == shape{5, 1});
  CHECK(value_dims(p, step_ref(1)) == shape{5, 1});
  CHECK(value_dims(p, step_ref(2)) == shape{5, 4});
  // A row or a column of extents of its own.
  CHECK(problem_of("matmul(x, w) | row_max | mul r:tensor",
                   {dims({5, 3}), dims({3, 4}), dims({5, 1})})
            .value()
            .outputs[0]
            .dims == shape{5, 1});
}

TEST_CASE("reductions with dynamic extents, rows of dynamic length too") {
  problem const p = problem_of("matmul(x, w) | row_max | sub(%0, %1) | exp | row_sum | div(%3, %4)",
                               {dims({dynamic, 8}), dims({8, 5})})
                        .value();
  CHECK(p.outputs[0].dims == shape{dynamic, 5});
  CHECK(value_dims(p, step_ref(1)) == shape{dynamic, 1});
  std::vector<shape> const six{{6, 8}};
  CHECK(resolve(p, six).value().outputs[0].dims == shape{6, 5});

  problem const rows = problem_of("row_max(x:tensor) | sub(x:tensor, %0) -> top=%0, out=%1",
                                  {dims({dynamic, dynamic})})
                           .value();
  CHECK(rows.outputs[0].dims == shape{dynamic, 1});
  CHECK(rows.outputs[1].dims == shape{dynamic, dynamic});
  for (extent n : {0, 1, 9}) {
    std::vector<shape> const actual{{3, n}};
    problem const q = resolve(rows, actual).value();
    CHECK(q.outputs[0].dims == shape{3, 1});
    CHECK(q.outputs[1].dims == shape{3, n});
  }
  // Refused when the extent is known.
  problem const index = problem_of("argmax(x:tensor)", {dims({dynamic, dynamic})}).value();
  std::vector<shape> const long_rows{{1, (extent{1} << 24) + 1}};
  CHECK(resolve(index, long_rows).error().message ==
        "sinter: argmax of 'x' of 1x16777217; a last axis of at most 16777216 is wanted, so that "
        "f32 holds each index");
}

TEST_CASE("an operand declared in place") {
  problem const p = problem_of("matmul(x, w) | add r:tensor",
                               {dims({2, 3}), dims({3, 4}), dims({2, 4}, {9, 1})}, {{9, 1}}, 2)
                        .value();
  CHECK(p.in_place == 2);
}
