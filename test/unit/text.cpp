// The text form: printed at compile time, read back, hashed; numbers that survive the round trip.
#include <doctest/doctest.h>

#include <random>
#include <set>
#include <string>

#include "problem_text.hpp"
#include "support/random_chain.hpp"

using namespace sinter_test;

namespace {

constexpr chain example() {
  chain c;
  c.operands = {operand{"x", role::tensor, dtype::f32, false, {}},
                operand{"w", role::weight, dtype::f32, false, {}},
                operand{"b", role::vector, dtype::f32, false, {}}};
  contraction_attrs a;
  a.stride[0] = a.stride[1] = 2;
  a.pad_begin[0] = a.pad_begin[1] = a.pad_end[0] = a.pad_end[1] = 1;
  c.contractions.push_back(a);
  c.constants.push_back(1.702F);
  step s;
  s.code = op::conv2d;
  s.contraction = 0;
  s.args[0] = operand_ref(0);
  s.args[1] = operand_ref(1);
  c.steps.push_back(s);
  s = step{};
  s.code = op::add;
  s.args[0] = step_ref(0);
  s.args[1] = operand_ref(2);
  c.steps.push_back(s);
  s.code = op::mul;
  s.args[0] = step_ref(1);
  s.args[1] = constant_ref(0);
  c.steps.push_back(s);
  s.code = op::clip;
  s.beta = 6;
  s.args[0] = step_ref(2);
  s.args[1] = value_ref{};
  c.steps.push_back(s);
  c.outputs.push_back({"out", step_ref(3), dtype::f32, false});
  return c;
}

// What users write.
static_assert(text(example()) ==
              "conv2d(x, w, stride=2, pad=1) | add b:vector | mul 1.702 | clip(0, 6)");
static_assert(hash(example()) == hash(example()));
static_assert(example() == example());
static_assert(text<32>(example()) == "conv2d(x, w, stride=2, pad=1)...");

static_assert(to_text(0.1F) == "0.1" && to_text(-0.0F) == "-0" && to_text(1e-7F) == "1e-7");
static_assert(to_text(16777216.0F) == "16777216" && to_text(3.0F) == "3" &&
              to_text(-1.5F) == "-1.5");
static_assert(parse_float("1.702)").value == 1.702F && parse_float("1.702)").used == 5);
static_assert(parse_float("x").used == 0 && parse_float("info:tensor").used == 0);

}  // namespace

TEST_CASE("text that reads back as itself") {
  for (std::string_view t :
       {"matmul(x, w)", "matmul(x, w, transposed_src, transposed_weight) | relu [bf16]",
        "conv2d(x, w, stride=2, pad=1) | add b:vector | add r:tensor | relu",
        "conv3d(x, w, stride=1x2x3, pad_begin=0x1x2, pad_end=2x1x0, dilation=2, groups=4)",
        "conv1d(~%3.bf16, w) -> ~h", "matmul(x, w:tensor) | mul 1.702 | sigmoid | mul(%0, %2)",
        "add(x:tensor[2x?x3], 2) | let cast<bf16> | select(%0, %1, -0)",
        "linear(x:tensor, 1, 0) | relu | clip(%0, -1, 1) | swish | fma b:vector:bf16, s:scalar | "
        "pow(0.5, "
        "2)",
        "matmul(x, w) | relu -> h=%0, out=%1:f32 [f16]",
        "matmul(x, w) | relu -> ~h=%0, ~%1.bf16=%1 [f16]",
        "matmul(x, w) | relu [bf16 bf16 f32 f32 f32 s8]",
        "add(x:tensor, inf) | mul -inf | max #7fc00001"}) {
    CAPTURE(t);
    result<chain> const c = parse_chain(t);
    REQUIRE(c.ok());
    CHECK(text(c.value()) == t);
  }
}

TEST_CASE("random chains: text, parser, ==, hash agree") {
  std::set<std::uint64_t> hashes;
  std::set<std::string> texts;
  for (std::uint64_t seed = 0; seed < 2000; ++seed) {
    chain const c = make_random_case(seed).p.chain;
    std::string const t(text<4096>(c).view());
    CAPTURE(t);
    result<chain> const back = parse_chain(t);
    REQUIRE(back.ok());
    REQUIRE(back.value() == c);
    REQUIRE(hash(back.value()) == hash(c));
    hashes.insert(hash(c));
    texts.insert(t);
  }
  CHECK(hashes.size() == texts.size());
}

TEST_CASE("every field of a chain counts for == and hash") {
  chain const base = parse_chain("conv2d(x, w, pad=1) | add 0.5 | clip(0, 6) | relu").value();
  auto const differs = [&](auto change) {
    chain other = base;
    change(other);
    return !(other == base) && hash(other) != hash(base);
  };
  CHECK(differs([](chain& c) { c.steps[3].code = op::abs; }));
  CHECK(differs([](chain& c) { c.steps[3].rounded = true; }));
  CHECK(differs([](chain& c) { c.steps[3].to = dtype::bf16; }));
  CHECK(differs([](chain& c) { c.steps[3].args[0] = step_ref(0); }));
  CHECK(differs([](chain& c) { c.steps[2].alpha = -0.0F; }));  // by bits: 0 is not -0
  CHECK(differs([](chain& c) { c.steps[2].beta = 5; }));
  CHECK(differs([](chain& c) { c.constants[0] = 0.25F; }));
  CHECK(differs([](chain& c) { c.contractions[0].pad_end[1] = 0; }));
  CHECK(differs([](chain& c) { c.contractions[0].groups = 2; }));
  CHECK(differs([](chain& c) { c.contractions[0].transposed_weight = true; }));
  CHECK(differs([](chain& c) { c.operands[0].name = "y"; }));
  CHECK(differs([](chain& c) { c.operands[0].role = role::weight; }));
  CHECK(differs([](chain& c) { c.operands[0].type = dtype::bf16; }));
  CHECK(differs([](chain& c) { c.operands[0].internal = true; }));
  CHECK(differs([](chain& c) { c.operands[0].static_dims = {1, 2, 3, 4}; }));
  CHECK(differs([](chain& c) { c.outputs[0].type = dtype::bf16; }));
  CHECK(differs([](chain& c) { c.outputs[0].value = step_ref(2); }));
  CHECK(differs([](chain& c) { c.precision.dst = dtype::bf16; }));
  chain nan = base;
  nan.constants[0] = std::numeric_limits<float>::quiet_NaN();
  chain const same_nan = nan;
  CHECK(same_nan == nan);
}

TEST_CASE("every field of a problem counts for == and hash") {
  problem const base =
      problem_of("matmul(x, w) | add r:tensor", {dims({2, 3}), dims({3, 4})}).value();
  auto const differs = [&](problem const& other) {
    return !(other == base) && hash(other) != hash(base);
  };
  problem other = base;
  other.numerics = numerics::peer;
  CHECK(differs(other));
  other = base;
  other.in_place = 2;
  CHECK(differs(other));
  other = base;
  other.max_isa = isa::avx2;
  CHECK(differs(other));
  CHECK(differs(
      problem_of("matmul(x, w) | add r:tensor", {dims({2, 3}, {4, 1}), dims({3, 4})}).value()));
  CHECK(differs(
      problem_of("matmul(x, w) | add r:tensor", {dims({2, 3}), dims({3, 4})}, {{5, 1}}).value()));
  CHECK(text(base) == "matmul(x, w) | add r:tensor; x:2x3:f32 w:3x4:f32 r:2x4:f32 -> out:2x4:f32");
  CHECK(text(problem_of("matmul(x, w) [bf16]", {dims({dynamic, 3}, {}, dtype::bf16), dims({3, 4})},
                        {})
                 .value()) == "matmul(x, w) [bf16]; x:?x3:bf16 w:3x4:bf16 -> out:?x4:bf16");
  CHECK(text(problem_of("relu(x:tensor)", {dims({2, 3}, {8, 1})}, {}, -1).value()) ==
        "relu(x:tensor); x:2x3:f32/8,1 -> out:2x3:f32");
}

TEST_CASE("what is not understood is refused with the place") {
  auto const refused = [](std::string_view t) {
    result<chain> const c = parse_chain(t);
    return c.ok() ? std::string("understood") : c.error().message;
  };
  CHECK(refused("foo(x)") ==
        "sinter: chain text: the name of an op is wanted at character 0, given is 'foo(x)'");
  CHECK(refused("matmul(x") == "sinter: chain text: ',' is wanted at character 8, given is ''");
  CHECK(refused("matmul(x, w) |") ==
        "sinter: chain text: a step is wanted at character 14, given is ''");
  CHECK(refused("relu(x:tensor) zz") ==
        "sinter: chain text: the end is wanted at character 15, given is 'zz'");
  CHECK(refused("matmul(x, w, stride=2)") ==
        "sinter: chain text: an attribute of a matmul is wanted at character 20, given is '2)'");
  CHECK(refused("conv2d(x, w, stride=1x2x3)") ==
        "sinter: chain text: ')' is wanted at character 23, given is 'x3)'");
  CHECK(refused("conv3d(x, w, stride=1x2)") ==
        "sinter: chain text: one number, or one for each axis is wanted at character 23, given is "
        "')'");
  CHECK(refused("cast<f99>(x:tensor)") ==
        "sinter: chain text: a dtype is wanted at character 5, given is 'f99>(x:tensor)'");
  CHECK(refused("") == "sinter: chain text: a step is wanted at character 0, given is ''");
  CHECK(refused("relu(x:tensor) [q8]") ==
        "sinter: chain text: a dtype is wanted at character 16, given is 'q8]'");
  std::string many = "relu(x:tensor)";
  for (int i = 0; i < max_steps; ++i) many += " | relu";
  CHECK(refused(many).find("a chain of at most 64 steps") != std::string::npos);
}

TEST_CASE("numbers survive print and read") {
  std::mt19937 random(7);
  int wrong = 0;
  for (int i = 0; i < 300000; ++i) {
    auto const bits =
        i < 512 ? static_cast<std::uint32_t>(i) << 23 : static_cast<std::uint32_t>(random());
    float const v = std::bit_cast<float>(bits);
    number_text const t = to_text(v);
    parsed_float const back = parse_float(t);
    if (back.used != t.size() || !same_bits(back.value, v)) ++wrong;
    if (v == v && t.view()[0] != '#' && std::strtof(std::string(t.view()).c_str(), nullptr) != v)
      ++wrong;
  }
  CHECK(wrong == 0);
}
