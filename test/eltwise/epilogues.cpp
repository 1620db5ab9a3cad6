// Epilogues of random chains against plain float arithmetic: steps that IEEE defines bit by bit, so
// results are equal bit by bit whatever the values. Blocks of every form, operands of every kind at
// guard pages, gaps full of NaN, few or many free registers. The seed is printed with a failure.
#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <random>
#include <sinter/isa/detect.hpp>
#include <sinter/reference/scalar.hpp>

#include "block_trial.hpp"
#include "pointwise_loop.hpp"
#include "support/skip.hpp"

using namespace sinter;
using namespace sinter_test;

namespace {

using random_source = std::mt19937;
int pick(random_source& g, int low, int high) {
  return std::uniform_int_distribution(low, high)(g);
}
bool chance(random_source& g, int percent) { return pick(g, 1, 100) <= percent; }

constexpr op exact_ops[] = {op::relu,   op::leaky_relu, op::clip,   op::abs, op::neg,   op::sqrt,
                            op::square, op::round,      op::linear, op::add, op::add,   op::mul,
                            op::sub,    op::div,        op::min,    op::max, op::eq,    op::ne,
                            op::lt,     op::le,         op::gt,     op::ge,  op::prelu, op::select,
                            op::fma,    op::cast,       op::add,    op::mul};

/// A chain: operands 0 and 1 make the sums, the rest are read by steps after.
chain random_chain(random_source& g, std::vector<trial_access> const& operands,
                   std::vector<trial_access> const& outputs, bool anchored) {
  chain c;
  c.precision.src = dtype::bf16;
  for (trial_access const& t : operands) {
    operand o;
    o.name = "o";
    o.type = t.type;
    c.operands.push_back(o);
  }
  c.constants.push_back(0.375F);
  c.constants.push_back(-2);
  if (anchored) {
    step anchor;
    anchor.code = op::matmul;
    anchor.args[0] = operand_ref(0);
    anchor.args[1] = operand_ref(1);
    anchor.contraction = 0;
    anchor.rounded = chance(g, 15);
    c.contractions.push_back({});
    c.steps.push_back(anchor);
  }
  int const steps = pick(g, anchored ? 0 : 1, 10);
  for (int i = 0; i < steps; ++i) {
    step s;
    s.code = exact_ops[pick(g, 0, static_cast<int>(std::size(exact_ops)) - 1)];
    s.alpha = row_of(s.code).params > 0 ? -1.5F : 0;
    s.beta = row_of(s.code).params > 1 ? 4.25F : 0;
    s.to = chance(g, 50) ? dtype::bf16 : dtype::f16;
    s.rounded = chance(g, 10);
    for (int j = 0; j < row_of(s.code).arity; ++j) {
      int const from = pick(g, 0, 9);
      if (from <= 5 && !c.steps.empty())
        s.args[j] = step_ref(chance(g, 60) ? c.steps.ssize() - 1 : pick(g, 0, c.steps.ssize() - 1));
      else if (from == 6)
        s.args[j] = constant_ref(pick(g, 0, 1));
      else
        s.args[j] = operand_ref(pick(g, anchored ? 2 : 0, c.operands.ssize() - 1));
    }
    c.steps.push_back(s);
  }
  for (std::size_t o = 0; o < outputs.size(); ++o)
    c.outputs.push_back({"out",
                         step_ref(o == 0 ? c.steps.ssize() - 1 : pick(g, 0, c.steps.ssize() - 1)),
                         outputs[o].type, false});
  return c;
}

float evaluate(step const& s, float a, float b, float c) {
  if (s.code == op::cast) return round_to(s.to, a);
  float r = 0;
  visit_pointwise(s.code, [&]<op Code>() { r = meaning<Code>(a, b, c, s.alpha, s.beta); });
  return r;
}

/// All values of the chain for one element.
std::vector<float> values_at(chain const& c, float sum, std::vector<trial_array> const& operands,
                             int row, int column) {
  std::vector<float> values;
  for (int i = 0; i < c.steps.ssize(); ++i) {
    step const& s = c.steps[i];
    float args[3] = {0, 0, 0};
    for (int j = 0; j < row_of(s.code).arity && s.contraction < 0; ++j) {
      auto const n = static_cast<std::size_t>(s.args[j].index);
      args[j] = s.args[j].kind == value_kind::operand    ? operands[n].at(row, column)
                : s.args[j].kind == value_kind::constant ? c.constants[n]
                                                         : values[n];
    }
    float v = s.contraction >= 0 ? sum : evaluate(s, args[0], args[1], args[2]);
    if (s.rounded) v = round_to(c.precision.src, v);
    values.push_back(v);
  }
  return values;
}

/// Flushed values: vcvtneps2bf16 makes 0 of a denormal, and what is computed from it differs.
bool has_denormal(std::vector<float> const& values) {
  for (float v : values)
    if (v != 0 && std::abs(v) < 0x1p-126F) return true;
  return false;
}

trial_access random_access(random_source& g) {
  trial_access t;
  t.type = dtype{static_cast<unsigned char>(pick(g, 0, 2))};
  t.per_row = chance(g, 60);
  t.per_column = chance(g, 70);
  t.gap = pick(g, 0, 1) * pick(g, 1, 9);
  t.dynamic_stride = chance(g, 40);
  t.in_register = chance(g, 40);
  return t;
}

trial_layout random_layout(random_source& g, isa level) {
  trial_layout l;
  l.level = level;
  bool const anchored = chance(g, 80);
  l.anchor = anchored ? 0 : -1;
  l.vectors = pick(g, 1, 3);
  int const registers = jit::vector_count_of(level);
  l.rows = pick(g, 1, (registers - 2) / l.vectors);
  if (chance(g, 50)) l.rows = pick(g, 1, 3);
  l.first = pick(g, 0, registers - l.rows * l.vectors);
  if (chance(g, 70)) l.tail = pick(g, 1, jit::lanes_of(level) - 1);
  l.mask_given = chance(g, 50);
  l.free_general = pick(g, 1, 8);
  for (int i = pick(g, 3, 5); i > 0; --i) l.operands.push_back(random_access(g));
  for (int i = pick(g, 1, 2); i > 0; --i) {
    trial_access t = random_access(g);
    t.per_row = t.per_column = true;
    l.outputs.push_back(t);
  }
  return l;
}

float telling(random_source& g) {
  constexpr float special[] = {0.0F,
                               -0.0F,
                               1,
                               -1,
                               std::numeric_limits<float>::infinity(),
                               -std::numeric_limits<float>::infinity(),
                               std::numeric_limits<float>::quiet_NaN(),
                               1 + 0x1p-9F};
  if (chance(g, 8)) return special[pick(g, 0, 7)];
  return static_cast<float>(pick(g, -4096, 4096)) / 64;
}

void one_trial(unsigned seed, isa level) {
  random_source g(seed);
  trial_layout l = random_layout(g, level);
  chain const c = random_chain(g, l.operands, l.outputs, l.anchor >= 0);
  verdict const willing = jit::epilogue::supports(c, l.anchor, level);
  if (!willing) {  // only for want of registers
    REQUIRE(jit::epilogue_needs(c, l.anchor, level) + 1 > jit::vector_count_of(level));
    return;
  }
  int const registers = jit::vector_count_of(level), accumulators = l.rows * l.vectors;
  int const least = std::max(0, jit::epilogue_needs(c, l.anchor, level) + 1 - accumulators);
  l.free_vectors = chance(g, 50) ? registers - accumulators
                                 : std::min(registers - accumulators, least + pick(g, 0, 2));
  if (least > registers - accumulators) return;

  std::vector<trial_array> operands, outputs;
  for (trial_access const& t : l.operands) {
    operands.emplace_back(t, l, all_placements[pick(g, 0, 2)]);
    operands.back().fill([&] { return telling(g); });
  }
  for (trial_access const& t : l.outputs) outputs.emplace_back(t, l, all_placements[pick(g, 0, 2)]);
  int const lanes = jit::lanes_of(level);
  std::vector<float> sums(static_cast<std::size_t>(l.rows * l.vectors * lanes));
  for (float& s : sums) s = telling(g);

  block_trial trial(c, l);
  trial.run(sums, operands, outputs);
  CHECK(trial.changed() == "");
  int wrong = 0;
  for (int r = 0; r < l.rows; ++r)
    for (int n = 0; n < l.columns(); ++n) {
      std::vector<float> const values =
          values_at(c, sums[static_cast<std::size_t>(r * l.vectors * lanes + n)], operands, r, n);
      if (level == isa::avx512_bf16 && has_denormal(values)) continue;
      for (std::size_t o = 0; o < outputs.size(); ++o) {
        float const want =
            round_to(c.outputs[o].type, values[static_cast<std::size_t>(c.outputs[o].value.index)]);
        float const got = outputs[o].at(r, n);
        bool const denormal = level == isa::avx512_bf16 && want != 0 && std::abs(want) < 0x1p-126F;
        if (std::isnan(want) ? !std::isnan(got)
                             : !denormal && std::bit_cast<std::uint32_t>(want) !=
                                                std::bit_cast<std::uint32_t>(got))
          ++wrong;
      }
    }
  CHECK(wrong == 0);
  for (trial_array const& o : outputs) CHECK(o.intact());
}

}  // namespace

TEST_CASE("random chains over random blocks, at guard pages") {
  if (levels_here().empty()) SINTER_SKIP("this CPU has no AVX2");
  for (isa level : levels_here())
    for (unsigned seed = 1; seed <= 2500; ++seed) {
      CAPTURE(seed);
      CAPTURE(std::string(name_of(level)));
      one_trial(seed, level);
    }
}

TEST_CASE("every tail of every dtype ends at a guard page") {
  if (levels_here().empty()) SINTER_SKIP("this CPU has no AVX2");
  for (isa level : levels_here())
    for (dtype type : {dtype::f32, dtype::bf16, dtype::f16})
      for (int n = 1; n <= jit::lanes_of(level); ++n)
        for (bool per_column : {true, false}) {
          trial_layout l;
          l.level = level;
          l.tail = n % jit::lanes_of(level);
          l.first = 3;
          l.free_vectors = 4;
          l.free_general = 3;
          trial_access t;
          t.type = type;
          t.per_column = per_column;
          l.operands = {{}, {}, t};
          l.outputs = {t};
          l.outputs[0].per_column = true;
          random_source g(static_cast<unsigned>(n));
          std::vector<trial_array> operands, outputs;
          for (trial_access const& a : l.operands) operands.emplace_back(a, l, placement::end);
          outputs.emplace_back(l.outputs[0], l, placement::end);
          int next = 0;
          operands[2].fill([&] { return static_cast<float>(++next); });
          chain c;
          for (trial_access const& a : l.operands) {
            operand o;
            o.type = a.type;
            c.operands.push_back(o);
          }
          step anchor;
          anchor.code = op::matmul;
          anchor.contraction = 0;
          c.contractions.push_back({});
          c.steps.push_back(anchor);
          step add;
          add.code = op::add;
          add.args[0] = step_ref(0);
          add.args[1] = operand_ref(2);
          c.steps.push_back(add);
          c.outputs.push_back({"out", step_ref(1), type, false});
          block_trial trial(c, l);
          std::vector<float> const sums(static_cast<std::size_t>(jit::lanes_of(level)), 0.5F);
          trial.run(sums, operands, outputs);
          for (int i = 0; i < n; ++i)
            CHECK(outputs[0].at(0, i) == 0.5F + static_cast<float>(per_column ? i + 1 : 1));
          CHECK(outputs[0].intact());
          CHECK(trial.changed() == "");
        }
}

TEST_CASE("a let that only outputs of its own dtype read is rounded by their stores") {
  auto const code_bytes = [](isa level, bool let, std::initializer_list<dtype> outputs) {
    chain c;
    c.precision.src = dtype::bf16;
    c.operands.resize(2);
    step s;
    s.code = op::matmul;
    s.contraction = 0;
    c.contractions.push_back({});
    c.steps.push_back(s);
    s = {};
    s.code = op::relu;
    s.args[0] = step_ref(0);
    s.rounded = let;
    c.steps.push_back(s);
    trial_layout l;
    l.level = level;
    l.free_vectors = 4;
    l.free_general = 4;
    l.operands.resize(2);
    for (dtype t : outputs) {
      c.outputs.push_back({"out", step_ref(1), t, false});
      l.outputs.push_back({.type = t});
    }
    return block_trial(c, l).code_bytes();
  };
  for (isa level : levels_here()) {
    CHECK(code_bytes(level, true, {dtype::bf16}) == code_bytes(level, false, {dtype::bf16}));
    CHECK(code_bytes(level, true, {dtype::f32}) > code_bytes(level, false, {dtype::f32}));
    CHECK(code_bytes(level, true, {dtype::bf16, dtype::f32}) >
          code_bytes(level, false, {dtype::bf16, dtype::f32}));
  }
}

TEST_CASE("what no epilogue can do is refused with a sentence") {
  chain c;
  operand o;
  o.name = "q";
  o.type = dtype::s8;
  c.operands.push_back(o);
  step s;
  s.code = op::relu;
  s.args[0] = operand_ref(0);
  c.steps.push_back(s);
  c.outputs.push_back({"out", step_ref(0), dtype::f32, false});
  CHECK(jit::epilogue::supports(c, -1).reason ==
        "sinter: operand 'q' is s8; generated epilogues read f32, bf16 and f16");
  c.operands[0].type = dtype::f32;
  CHECK(jit::epilogue::supports(c, -1));
  c.outputs[0].type = dtype::u8;
  CHECK(jit::epilogue::supports(c, -1).reason ==
        "sinter: output 'out' is u8; generated epilogues write f32, bf16 and f16");
  c.outputs[0].type = dtype::f32;
  // Sixteen values at a time: v0 ... v15 are all read again by a chain of additions from the last
  // to the first.
  c.steps.clear();
  for (int i = 0; i < 16; ++i) {
    s.code = op::abs;
    s.args[0] = operand_ref(0);
    c.steps.push_back(s);
  }
  for (int i = 0; i < 16; ++i) {
    s.code = op::sub;
    s.args[0] = step_ref(c.steps.ssize() - 1);
    s.args[1] = step_ref(15 - i);
    c.steps.push_back(s);
  }
  c.outputs[0].value = step_ref(31);
  CHECK(jit::epilogue::supports(c, -1, isa::avx2).reason.find("avx2 has 16 vector registers") !=
        std::string::npos);
  CHECK(jit::epilogue::supports(c, -1, isa::avx512));
}
