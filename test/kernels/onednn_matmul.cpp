// Matmuls on the oneDNN backend against the oracle: layouts, batches, broadcasts, tails, empty extents.
#include "onednn_support.hpp"

using namespace sinter_test;

namespace {

constexpr std::string_view precisions[] = {"", " [bf16]", " [bf16 bf16 f32 f32 bf16 f32]"};

std::string with(std::string_view chain, std::string_view precision) {
  return std::string(chain) + std::string(precision);
}

}  // namespace

TEST_CASE("a matmul with bias, residual and relu is one primitive") {
  for (std::string_view precision : precisions)
    for (shape const& src : {shape{1, 1}, shape{7, 64}, shape{16, 33}, shape{64, 3}})
      for (extent n : {1, 2, 17, 33, 64})
        check_fused(problem_of(with("matmul(x, w) | add b:vector | add r:tensor | relu", precision),
                               {src, shape{src[1], n}}));
}

TEST_CASE("transposed operands") {
  for (std::string_view precision : precisions)
    for (extent k : {1, 5, 32, 65}) {
      check_fused(problem_of(with("matmul(x, w, transposed_src)", precision), {{k, 9}, {k, 12}}));
      check_fused(
          problem_of(with("matmul(x, w, transposed_weight)", precision), {{9, k}, {12, k}}));
      check_fused(
          problem_of(with("matmul(x, w:tensor, transposed_src, transposed_weight)", precision),
                     {{k, 9}, {12, k}}));
    }
}

TEST_CASE("leading dimensions larger than the rows, NaN in the gaps") {
  for (std::string_view precision : precisions) {
    layouts const l{{{64, 1}, {112, 1}}, {{112, 1}}};
    check_fused(problem_of(with("matmul(x, w:tensor)", precision), {{20, 36}, {36, 108}}, l));
    check_fused(problem_of(with("matmul(x, w)", precision), {{64, 239}, {239, 64}},
                           {{{240, 1}, {}}, {{65, 1}}}));
    // columns next to each other
    check_right(problem_of(with("matmul(x, w:tensor) | tanh", precision), {{20, 36}, {36, 108}},
                           {{{1, 23}, {1, 40}}, {{1, 30}}}));
    // nothing next to each other
    check_right(problem_of(with("matmul(x, w:tensor) | tanh", precision), {{5, 6}, {6, 7}},
                           {{{13, 2}, {15, 2}}, {{30, 3}}}));
  }
}

TEST_CASE("a product of one column keeps to the strides of its output") {
  for (std::string_view precision : precisions)
    check_right(problem_of(with("matmul(x, w)", precision), {{24, 3}, {3, 1}}, {{}, {{4, 1}}}));
}

TEST_CASE("strides of axes of extent 1 mean nothing") {
  constexpr extent huge = (std::numeric_limits<extent>::max)();
  for (std::string_view precision : precisions)
    for (extent m : {1, 5})
      for (extent n : {1, 5})
        for (extent k : {1, 5})
          for (extent s : {extent{0}, extent{1}, extent{7}, extent{-1}, huge}) {
            layouts l{{{m == 1 ? s : k, k == 1 ? s : 1}, {k == 1 ? s : n, n == 1 ? s : 1}},
                      {{m == 1 ? s : n, n == 1 ? s : 1}}};
            check_right(problem_of(with("matmul(x, w:tensor)", precision), {{m, k}, {k, n}}, l));
          }
}

TEST_CASE("batches, and batches that broadcast") {
  for (std::string_view precision : precisions) {
    check_fused(
        problem_of(with("matmul(x, w:tensor) | mul 0.5", precision), {{4, 7, 16}, {4, 16, 9}}));
    check_fused(problem_of(with("matmul(x, w:tensor)", precision), {{3, 1, 7, 5}, {1, 2, 5, 9}}));
    check_right(problem_of(with("matmul(x, w:tensor)", precision), {{1, 7, 5}, {4, 5, 9}}));
    check_right(problem_of(with("matmul(x, w)", precision), {{4, 7, 5}, {4, 5, 9}}));
    check_right(problem_of(with("matmul(x, w:tensor)", precision), {{3, 3, 3, 2}, {3, 3, 2, 7}},
                           {{{2, 18, 6, 1}}, {}}));  // the batch axes exchanged in memory
    check_right(problem_of(with("matmul(x, w:tensor)", precision), {{3, 2, 6}, {3, 6, 7}},
                           {{{20, 6, 1}, {50, 8, 1}}, {{40, 9, 1}}}));
  }
}

TEST_CASE("the rows of all leading axes are one axis of the primitive where memory allows it") {
  problem const p =
      problem_of("matmul(x, w) | add b:vector | add r:tensor", {{2, 3, 7, 16}, {16, 9}});
  check_fused(p);
  onednn_backend const b;
  // The layout of the weight is that of a matrix: it can be shared with a plain product.
  CHECK(b.build(p).value()->layout_key(1) ==
        b.build(problem_of("matmul(x, w) | add b:vector | add r:tensor", {{42, 16}, {16, 9}}))
            .value()
            ->layout_key(1));
}

TEST_CASE("an addend may have any extents that broadcast") {
  for (std::string_view precision : precisions) {
    for (shape const& r : {shape{4}, shape{1, 4}, shape{4, 1}, shape{1, 1}, shape{4, 4}})
      check_right(problem_of(with("matmul(x, w) | add r:tensor", precision), {{4, 8}, {8, 4}, r}));
    check_right(problem_of(with("matmul(x, w) | add r:tensor", precision), {{4, 8}, {8, 4}, {4, 4}},
                           {{{}, {}, {1, 4}}, {}}));  // transposed in memory
    for (shape const& r :
         {shape{128, 1}, shape{3, 1, 1}, shape{12}, shape{3, 1, 12}, shape{3, 128, 12}})
      check_right(
          problem_of(with("matmul(x, w) | add r:tensor", precision), {{3, 128, 5}, {5, 12}, r}));
    // gaps, and values that a stride of 0 repeats
    for (strides const& s :
         {strides{6, 1}, strides{12, 2}, strides{0, 1}, strides{5, 0}, strides{0, 0}})
      check_right(problem_of(with("matmul(x, w) | add r:tensor | tanh", precision),
                             {{4, 8}, {8, 5}, {4, 5}}, {{{}, {}, s}, {}}));
    check_right(problem_of(with("matmul(x, w) | add b:vector | tanh", precision),
                           {{4, 8}, {8, 5}, {5}}, {{{}, {}, {3}}, {}}));
  }
}

TEST_CASE("operands shorter than a vector, their last byte before an unreadable page") {
  for (std::string_view precision : precisions)
    for (extent n : {1, 2, 3, 17, 33})
      for (extent m : {1, 2, 5})
        check_fused(
            problem_of(with("matmul(x, w) | mul b:vector | add s:scalar | sub r:tensor", precision),
                       {{m, 6}, {6, n}}));
}

TEST_CASE("sums of ones are exact: accumulation is f32") {
  onednn_backend const b;
  problem const p = problem_of("matmul(x, w) [bf16 bf16 f32 f32 f32 f32]", {{1, 4096}, {4096, 1}});
  auto const k = b.build(p).value();
  std::vector<bfloat16> const ones(4096, to_bfloat16(1.0F));
  float out = 0;
  auto const packed = k->pack(1, view(ones.data(), {4096, 1})).value();
  buffer scratch(k->scratch_bytes());
  call_args args;
  args.operands[0] = ones.data();
  args.operands[1] = packed.data();
  args.outputs[0] = &out;
  args.scratch = scratch.data();
  auto const call = k->make_invocation().value();
  call->repoint(args);
  REQUIRE(call->run() == code::ok);
  CHECK(out == 4096);
}

TEST_CASE("empty extents: nothing is done, and a sum over nothing is zero") {
  for (std::string_view precision : precisions) {
    for (shape const& src : {shape{0, 8}, shape{4, 8}, shape{4, 0}, shape{0, 0}})
      for (extent n : {0, 3}) {
        if (element_count(src) != 0 && n != 0) continue;
        check_right(
            problem_of(with("matmul(x, w) | add b:vector | relu", precision), {src, {src[1], n}}));
        check_right(problem_of(
            with("matmul(x, w:tensor, transposed_weight) | add b:vector | relu", precision),
            {src, {n, src[1]}}));
      }
    check_right(problem_of(with("matmul(x, w)", precision), {{0, 4, 8}, {8, 3}}));
  }
  // Null pointers of tensors without elements are never followed.
  onednn_backend const b;
  problem const p = problem_of("matmul(x, w:tensor) | add b:vector", {{4, 0}, {0, 3}});
  auto const k = b.build(p).value();
  float const bias[] = {1, 2, 3};
  float out[12] = {};
  buffer scratch(k->scratch_bytes());
  call_args args;
  args.operands[2] = bias;
  args.outputs[0] = out;
  args.scratch = scratch.data();
  auto const call = k->make_invocation().value();
  call->repoint(args);
  REQUIRE(call->run() == code::ok);
  for (int i = 0; i < 12; ++i) CHECK(out[i] == bias[i % 3]);
}

TEST_CASE("no row sees another row's NaN, whatever K") {
  for (std::string_view precision : precisions)
    for (extent k : {2, 33, 34, 40, 47, 49, 63, 65, 97, 129})
      for (extent gap : {0, 3})
        check_right(problem_of(with("matmul(x, w)", precision), {{32, k}, {k, 64}},
                               {{{k + gap, 1}, {}}, {}}, numerics::strict));
}

TEST_CASE("mixed f32 and bf16 operands are refused: oneDNN takes them and sums something else") {
  for (extent k : {576, 577}) {
    problem const p = problem_of("matmul(x, w) [f32 bf16 f32 f32 f32 f32]", {{64, k}, {k, 64}});
    CHECK(onednn_backend().supports(p).reason ==
          "sinter: the oneDNN backend multiplies operands of one floating dtype, that of the "
          "precision; step 0 (matmul) "
          "reads f32 and bf16");
  }
  check_right(problem_of("matmul(x, w:tensor)", {{1, 1, 66}, {1, 66, 108}}, {{}, {{108, 1, 1}}}));
}

TEST_CASE(
    "an operand that shares memory with the output is added by the primitive, or read by a pass") {
  for (std::string_view precision : {"", " [bf16]"}) {
    auto const in_place = [&](std::string_view chain, extent k) {
      return problem_of(with(chain, precision), {{64, k}, {k, 32}}, {}, numerics::peer, 2);
    };
    check_fused(in_place("matmul(x, w) | add r:tensor", 16));
    check_fused(in_place("matmul(x, w) | add r:tensor | relu", 16));
    for (extent k : {2048, 4096}) {
      check_right(in_place("matmul(x, w) | mul r:tensor", k));
      check_right(in_place("matmul(x, w) | tanh | add r:tensor", k));
      check_right(in_place("matmul(x, w) | sub(r:tensor, %0)", k));
    }
    CHECK(stages_of(in_place("matmul(x, w) | mul r:tensor", 16)).size() == 2);
    problem p = problem_of(with("matmul(x, w) | add b:vector | add r:tensor", precision),
                           {{9, 6}, {6, 7}}, {}, numerics::peer, 3);
    check_fused(p);
  }
}
