// Post-ops: every row of the op table, every order of several, constants on either side, what splits a chain and why.
#include "onednn_support.hpp"

using namespace sinter_test;

namespace {

/// One step of each row, as text behind an anchor; a second value is an operand.
std::string step_text(op code) {
  std::string const name(name_of(code));
  switch (code) {
    case op::leaky_relu:
      return name + "(0.125)";
    case op::elu:
      return name + "(0.5)";
    case op::clip:
      return name + "(-0.75, 1.5)";
    case op::swish:
      return name + "(1.5)";
    case op::softplus:
      return name + "(2)";
    case op::pow:
      return name + "(0.5, 2)";
    case op::linear:
      return name + "(0.75, -1)";
    case op::cast:
      return name + "<f32>";
    case op::select:
      return name + " r:tensor, q:tensor";
    case op::fma:
      return name + " b:vector, r:tensor";
    default:
      return row_of(code).kind == op_class::binary ? name + " r:tensor" : name;
  }
}

bool is_said(op code) {
  onednn::form const f = onednn::post_op_row_of(code).as;
  return f == onednn::form::eltwise || f == onednn::form::binary || code == op::cast;
}

}  // namespace

TEST_CASE("every row of the op table behind a matmul and a convolution, peer and strict") {
  for (numerics n : {numerics::peer, numerics::strict})
    for (int i = 0; i < op_count; ++i) {
      op const code = static_cast<op>(i);
      if (is_contraction(code) || is_pooling(code)) continue;
      for (std::string_view precision : {"", " [bf16]"}) {
        // 16 channels: comparisons are kept from tails
        std::string const tail = " | " + step_text(code) + std::string(precision);
        problem const m = problem_of("matmul(x, w)" + tail, {{5, 6}, {6, 16}}, {}, n);
        problem const c = problem_of("conv2d(x, w)" + tail, {{1, 3, 3, 8}, {16, 2, 2, 8}}, {}, n);
        check_right(m);
        check_right(c);
        check_right(problem_of("matmul(x, w)" + tail, {{5, 6}, {6, 7}}, {}, n));
        if (n == numerics::peer && is_said(code)) {
          check_fused(m);
          check_fused(c);
        }
      }
    }
}

TEST_CASE("a second value may be a vector, a scalar, a constant, and stand on the left") {
  for (int i = 0; i < op_count; ++i) {
    op const code = static_cast<op>(i);
    if (row_of(code).kind != op_class::binary) continue;
    std::string const name(name_of(code));
    for (std::string_view precision : {"", " [bf16]"}) {
      for (std::string_view value : {"b:vector", "s:scalar", "-2", "0", "r:tensor"}) {
        std::string const v(value);
        problem const right = problem_of(
            "matmul(x, w) | " + name + " " + v + std::string(precision), {{5, 6}, {6, 16}});
        check_right(right);
        check_right(
            problem_of("matmul(x, w) | " + name + "(" + v + ", %0)" + std::string(precision),
                       {{5, 6}, {6, 16}}));
        if (code != op::prelu || value != "r:tensor") check_fused(right);
      }
    }
  }
  check_fused(problem_of("matmul(x, w) | sub(b:vector, %0)", {{5, 6}, {6, 7}}));
  check_fused(problem_of("matmul(x, w) | sub(3, %0)", {{5, 6}, {6, 7}}));
  check_fused(problem_of("matmul(x, w) | fma 2, 0.5", {{5, 6}, {6, 7}}));
}

TEST_CASE("pairs and triples of steps run in written order") {
  std::vector<std::string> const steps = {
      "relu",  "clip(-0.75, 1.5)", "gelu_tanh",   "sigmoid", "tanh",
      "add 2", "mul b:vector",     "add r:tensor"};
  onednn_backend const b;
  std::uint64_t seed = 0;
  auto const check_one = [&](std::string const& tail, std::string_view precision) {
    // a name is bound once: a chain that says b or r twice reads the same operand twice
    problem const p = problem_of("matmul(x, w)" + tail + std::string(precision), {{5, 7}, {7, 3}});
    outcome const r = run_problem(
        b, p, {++seed, all_placements[seed % 3], all_patterns[seed % 3], onednn_accuracy});
    CHECK_MESSAGE(r.ok(), r.text);
    CHECK_MESSAGE(stages_of(p).size() == 1, text(p));
  };
  for (std::string_view precision : {"", " [bf16]"})
    for (std::string const& first : steps)
      for (std::string const& second : steps) {
        check_one(" | " + first + " | " + second, precision);
        for (std::string const& third : steps)
          check_one(" | " + first + " | " + second + " | " + third, precision);
      }
}

TEST_CASE("add then sigmoid is not sigmoid then add") {
  // No products: K = 2 of zeros times ones.
  onednn_backend const b;
  for (auto [chain, wanted] : {std::pair{"matmul(x, w) | add 2 | sigmoid", 0.880797F},
                               std::pair{"matmul(x, w) | sigmoid | add 2", 2.5F}}) {
    problem const p = problem_of(chain, {{5, 2}, {2, 3}});
    auto const k = b.build(p).value();
    std::vector<float> const zeros(10, 0.0F), ones(6, 1.0F);
    std::vector<float> out(15, -1.0F);
    auto const packed = k->pack(1, view(ones.data(), {2, 3})).value();
    buffer scratch(k->scratch_bytes());
    call_args args;
    args.operands[0] = zeros.data();
    args.operands[1] = packed.data();
    args.outputs[0] = out.data();
    args.scratch = scratch.data();
    auto const call = k->make_invocation().value();
    call->repoint(args);
    REQUIRE(call->run() == code::ok);
    for (float v : out) CHECK(v == doctest::Approx(wanted).epsilon(1e-6));
  }
}

TEST_CASE("fused bf16 rounds once") {
  onednn_backend const b;
  problem const p = problem_of("matmul(x, w) | add r:tensor [bf16]", {{1, 2}, {2, 16}});
  auto const k = b.build(p).value();
  std::vector<bfloat16> const src{to_bfloat16(1), to_bfloat16(1)};
  std::vector<bfloat16> weight(32, to_bfloat16(1)), residual(16, to_bfloat16(1)), out(16);
  std::fill(weight.begin(), weight.begin() + 16,
            to_bfloat16(256));  // the sum is 257, which bf16 does not have
  auto const packed = k->pack(1, view(weight.data(), {2, 16})).value();
  buffer scratch(k->scratch_bytes());
  call_args args;
  args.operands[0] = src.data();
  args.operands[1] = packed.data();
  args.operands[2] = residual.data();
  args.outputs[0] = out.data();
  args.scratch = scratch.data();
  auto const call = k->make_invocation().value();
  call->repoint(args);
  REQUIRE(call->run() == code::ok);
  for (bfloat16 v : out) CHECK(to_float(v) == 258);
}

TEST_CASE("what post-ops cannot say is split off, and the note says where and why") {
  struct row {
    std::string_view chain;
    std::string_view first, why;
  };
  row const rows[] = {
      {"matmul(x, w) | sigmoid | mul(%0, %1)", "matmul",
       "the value of step 0 (matmul) is read more than once"},
      {"matmul(x, w) | tanh | select r:tensor, q:tensor", "matmul | tanh",
       "step 2 (select): no post-op says it"},
      {"matmul(x, w) | div(b:vector, %0)", "matmul",
       "step 1 (div): no post-op divides by the running value"},
      {"matmul(x, w) | tanh | eq r:tensor", "matmul | tanh",
       "step 2 (eq): oneDNN fails at it where the channels are no multiple of 16"},
      {"matmul(x, w) | fma b:vector, r:tensor", "matmul",
       "step 1 (fma): no post-op rounds a product and a sum of operands once"},
      {"matmul(x, w) | cast<bf16> | tanh", "matmul",
       "step 1 (cast): it rounds in the middle of the group"},
      {"let matmul(x, w) | tanh [bf16]", "matmul",
       "the value of step 0 (matmul) is rounded to bf16"},
      {"matmul(x, w) | tanh -> out=%1, second=%0", "matmul",
       "the value of step 0 (matmul) is also an output"},
  };
  for (row const& r : rows) {
    problem const p = problem_of(r.chain, {{5, 6}, {6, 7}});
    check_right(p);
    std::vector<stage_note> const stages = stages_of(p);
    REQUIRE_MESSAGE(stages.size() == 2, r.chain);
    CHECK(stages[0].what == r.first);
    CHECK(stages[0].why == "");
    CHECK(stages[1].implementation == "pass");
    CHECK(stages[1].why == r.why);
  }
}

TEST_CASE("the list has an end: 33 post-ops are split after 32") {
  std::string chain = "matmul(x, w)";
  for (int i = 0; i < 33; ++i) chain += i % 2 == 0 ? " | mul 0.5" : " | add 1";
  problem const p = problem_of(chain, {{3, 4}, {4, 5}});
  check_right(p);
  REQUIRE(stages_of(p).size() == 2);
  CHECK(stages_of(p)[1].why == "step 33 (mul): oneDNN takes 32 post-ops and not more");
}

TEST_CASE("chains without a contraction are one primitive too") {
  for (std::string_view precision : {"", " [bf16]"})
    for (shape const& d :
         {shape{17}, shape{4, 5}, shape{3, 4, 5}, shape{16, 14, 1, 1}, shape{1, 1}}) {
      std::string const p(precision);
      check_fused(problem_of("relu(x:tensor) | add y:tensor" + p, {d, d}));
      check_fused(
          problem_of("mul(x:tensor, b:vector) | tanh | sub y:tensor" + p, {d, {d.back()}, d}));
      check_fused(problem_of("sigmoid(x:tensor) | mul x:tensor" + p, {d}));
    }
  check_right(problem_of("tanh(x:tensor) | add r:tensor", {{16, 14, 1}, {14, 1}}));
  verdict const v =
      onednn_backend().supports(problem_of("relu(x:tensor)", {{4, 5}}, {}, numerics::strict));
  CHECK_FALSE(v);
  CHECK(v.reason.starts_with(
      "sinter: the oneDNN backend finds nothing to begin with: step 0 (relu): "));
}

TEST_CASE("reductions are done in a pass, after one primitive for what comes before") {
  std::string const softmax = "row_max | sub(%1, %2) | exp | row_sum | div(%4, %5)";
  for (std::string_view precision : {"", " [bf16]"}) {
    problem const p = problem_of(
        "matmul(x, w) | add b:vector | " + softmax + std::string(precision), {{5, 8}, {8, 300}});
    check_right(p);
    std::vector<stage_note> const stages = stages_of(p);
    REQUIRE(stages.size() == 2);
    CHECK(stages[0].what == "matmul | add");
    CHECK(!is_reference_code(stages[0].implementation));
    CHECK(stages[1].what == "row_max | sub | exp | row_sum | div");
    CHECK(stages[1].implementation == "pass");
    CHECK(stages[1].why == "the value of step 1 (add) is read more than once");
  }
  problem const mean = problem_of("conv2d(x, w, pad=1) | row_mean", {{1, 5, 5, 8}, {16, 3, 3, 8}});
  check_right(mean);
  CHECK(stages_of(mean).back().why == "step 1 (row_mean): no post-op reduces rows");
  // Two outputs, one of them reduced; a residual after the rows; in place.
  check_right(problem_of("matmul(x, w) | row_max | argmax(%0) | sub(%0, %1) -> out=%3, index=%2",
                         {{5, 8}, {8, 16}}));
  check_right(problem_of("matmul(x, w) | add r:tensor | row_mean | sub(%1, %2)", {{5, 8}, {8, 16}},
                         {}, numerics::peer, 2));
  // Sums over nothing, rows of nothing, no rows.
  check_right(problem_of("matmul(x, w) | add b:vector | row_sum", {{3, 0}, {0, 4}}));
  check_right(problem_of("matmul(x, w) | row_max", {{3, 2}, {2, 0}}));
  check_right(problem_of("matmul(x, w) | row_max", {{0, 2}, {2, 4}}));
  // Nothing to begin with: another backend does it.
  CHECK(onednn_backend()
            .supports(problem_of("row_max(x:tensor) | sub(x:tensor, %0)", {{5, 8}}))
            .reason ==
        "sinter: the oneDNN backend finds nothing to begin with: step 0 (row_max): "
        "no post-op reduces rows");
}
