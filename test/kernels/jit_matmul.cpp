// Generated matmul kernels against the oracle: every level this CPU has (the lower ones by the problem's cap), every
// precision, layout and number of rows, each operand at guard pages; and the faults that others had.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include <sinter/backend/jit.hpp>
#include <sinter/plan/resolve.hpp>

#include "support/check_levels.hpp"
#include "support/random_chain.hpp"
#include "support/skip.hpp"

using namespace sinter;
using namespace sinter_test;

namespace {

constexpr std::string_view precisions[] = {"", " [bf16]", " [f16]", " [bf16 bf16 f32 f32 f32 f32]",
                                           " [f32 bf16 f32 f32 f32 f32]"};

/// AMX tiles add all products of a sum to one accumulator.
bool adds_in_blocks(problem const& p, isa level) {
  jit::matmul_operands const o = jit::operands_of(p.chain);
  auto const type = [&](int i) { return p.operands[static_cast<std::size_t>(i)].type; };
  return jit::product_for(level, type(o.src), type(o.weight)) != jit::product::bf16_tiles;
}

/// An emitter's short form stands where its value is only stored as bf16; oracle bounds count in units of 8 * 2^-24.
accuracy promised(problem const& p, isa level) {
  accuracy a;
  a.sum_block = adds_in_blocks(p, level) ? jit::sum_block : 0;
  for (step const& s : p.chain.steps)
    if (s.contraction < 0 && jit::has_masks(level) && p.outputs[0].type == dtype::bf16)
      a.scale = std::max(a.scale, jit::eltwise_of(s.code).error.for_bf16 * 0x1p21);
  return a;
}

/// Runs on every level, from both ends of a page; every kernel must be of the level that was asked for.
void check_all(problem p, check_options options = {}) {
  jit_backend const jit;
  for (isa level : jit_levels()) {
    p.max_isa = level;
    auto const k = jit.build(p);
    REQUIRE_MESSAGE(k.ok(), k.error().message);
    CHECK((*k)->stages()[0].implementation.starts_with(implementation_prefix(p, level)));
    options.allowed = promised(p, level);
    for (placement where : all_placements) {
      options.where = where;
      outcome const r = check_kernel(**k, p, options);
      CHECK_MESSAGE(r.ok(), name_of(level), ": ", r.text);
    }
  }
}

std::vector<float> run_f32(problem const& p, std::vector<std::vector<float>> const& operands) {
  std::vector<void const*> data;
  for (auto const& o : operands) data.push_back(o.data());
  return run_dense<float>(p, data);
}
/// The product of x and w, both rounded to the problem's dtype: f32 or bf16.
std::vector<float> run_rounded(problem const& p, std::vector<float> const& x,
                               std::vector<float> const& w) {
  if (p.operands[0].type == dtype::f32) return run_f32(p, {x, w});
  std::vector<bfloat16> narrow_x, narrow_w;
  for (float v : x) narrow_x.push_back(to_bfloat16(v));
  for (float v : w) narrow_w.push_back(to_bfloat16(v));
  return run_dense<float>(p, {narrow_x.data(), narrow_w.data()});
}

}  // namespace

TEST_CASE("random matmul chains agree with the oracle on every level") {
  random_options o;
  o.conv = o.pointwise = false;
  o.max_extent = 70;
  o.precisions.assign(std::begin(precisions), std::end(precisions));
  jit_backend const jit;
  int taken = 0, refused = 0;
  for (std::uint64_t seed = 1; seed <= 1500; ++seed) {
    random_case c = make_random_case(seed, o);
    for (isa level : jit_levels()) {
      c.p.max_isa = level;
      check_options options{.seed = seed,
                            .where = all_placements[seed % std::size(all_placements)],
                            .values = all_patterns[seed / 4 % std::size(all_patterns)]};
      // VDPBF16PS takes a denormal for zero, so an infinity times one is NaN: docs/precision.md. See the next case.
      if (includes(level, isa::avx512_bf16) && c.p.operands[0].type == dtype::bf16 &&
          options.values == pattern::specials)
        options.values = pattern::nan_rows;
      options.allowed = promised(c.p, level);
      outcome const r = run_problem(jit, c.p, options);
      r.supported ? ++taken : ++refused;
      if (r.supported)
        CHECK_MESSAGE(r.ok(), name_of(level), ": ", r.text);
      else
        CHECK(r.text.starts_with("sinter: "));
    }
  }
  CHECK(taken > refused);
}

// On normal numbers, zeros and infinities the widening path gives the bits of VDPBF16PS: the odd product first.
TEST_CASE("bf16 pairs and widened bf16 give the same bits") {
  if (jit_levels().back() != isa::avx512_bf16) SINTER_SKIP("this CPU has no AVX512-BF16");
  std::mt19937_64 random(1);
  for (extent k : {1, 2, 3, 64, 77, 500})
    for (extent m : {1, 2, 3, 8, 11})
      for (bool infinities : {false, true}) {
        std::vector<std::vector<float>> out;
        std::vector<bfloat16> x(static_cast<std::size_t>(m * k)),
            w(static_cast<std::size_t>(k * 40));
        for (std::vector<bfloat16>* v : {&x, &w})
          for (bfloat16& e : *v) {
            e = {static_cast<std::uint16_t>(random() % 0x4000 + 0x2000 +
                                            random() % 2 * 0x8000)};  // 2^-63 to 2^65
            if (infinities && random() % 16 == 0)
              e.bits = static_cast<std::uint16_t>(random() % 2 * 0x8000 + 0x7f80);
            if (random() % 16 == 0) e.bits = 0;
          }
        for (isa level : {isa::avx512, isa::avx512_bf16}) {
          problem p =
              problem_from("matmul(x, w:tensor) [bf16 bf16 f32 f32 f32 f32]", {{m, k}, {k, 40}});
          p.max_isa = level;
          out.push_back(run_dense<float>(p, {x.data(), w.data()}));
        }
        for (std::size_t i = 0; i < out[0].size(); ++i)
          CHECK((std::isnan(out[0][i]) ? std::isnan(out[1][i]) : out[0][i] == out[1][i]));
      }
}

TEST_CASE("every M, N and K up to two tiles and a rest") {
  std::uint64_t seed = 0;
  for (std::string_view precision : precisions)
    for (extent m : {1, 2, 3, 4, 5, 7, 8, 9, 12, 13, 16, 17, 23})
      for (extent n : {1, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 65})
        check_all(problem_from("matmul(x, w) | add b:vector" + std::string(precision),
                               {{m, (m * 7 + n * 3) % 71}, {(m * 7 + n * 3) % 71, n}}),
                  {.seed = ++seed, .values = pattern::integers});
}

TEST_CASE("K of any size, in code of bounded size") {
  std::uint64_t seed = 0;
  for (std::string_view precision : precisions)
    for (extent k :
         {0, 1, 2, 3, 7, 8, 9, 15, 16, 17, 33, 127, 128, 1000, 1024, 1025, 1031, 1553, 4097})
      for (extent m : {1, 2, 8, 11})
        check_all(problem_from("matmul(x, w) | relu" + std::string(precision), {{m, k}, {k, 19}}),
                  {.seed = ++seed});
}

// Equal terms lose the same part of a unit in the last place in each addition to a sum of one size, so a single
// accumulator of so many is off by more than blocks of them may be.
TEST_CASE("the error of a long sum grows with its blocks, not with K") {
  for (std::string_view precision : {"", " [bf16 bf16 f32 f32 f32 f32]"})
    for (extent k : {1025, 2048, 4103, 25088})
      for (extent m : {1, 2, 5, 8})
        for (std::string_view weight : {"w", "w:tensor"})
          for (isa level : jit_levels()) {
            problem p =
                problem_from("matmul(x, " + std::string(weight) + ")" + std::string(precision),
                             {{m, k}, {k, 33}});
            if (!adds_in_blocks(p, level)) continue;
            p.max_isa = level;
            float const term = 1.0F + 0x1p-7F;
            std::vector<float> const out =
                run_rounded(p, std::vector<float>(static_cast<std::size_t>(m * k), term),
                            std::vector<float>(static_cast<std::size_t>(k * 33), term));
            double const exact = static_cast<double>(k) * (1 + 0x1p-7) * (1 + 0x1p-7);
            double const n = accuracy{.sum_block = jit::sum_block}.additions(k) + 2;
            for (float v : out)
              CHECK(std::abs(static_cast<double>(v) - exact) <= n * 0x1p-24 * exact);
          }
}

TEST_CASE("more rows than one block takes, in place and copied") {
  for (std::string_view precision : precisions) {
    check_all(problem_from("matmul(x, w) | add r:tensor" + std::string(precision),
                           {{70, 9001}, {9001, 3}, {70, 3}}),
              {.seed = 1, .values = pattern::integers});
    check_all(problem_from("matmul(x, w) | add r:tensor" + std::string(precision),
                           {{2, 35, 20011}, {20011, 3}, {2, 35, 1}}),
              {.seed = 2, .values = pattern::integers});
  }
}

// A row may depend on its own row only: what stands beside a row, or in a gap, is never multiplied, not even by zero.
TEST_CASE("rows of NaN and gaps of NaN stay where they are") {
  for (std::string_view precision : precisions)
    for (extent k : {33, 34, 40, 47, 48, 49, 63, 65, 95, 97, 129, 1301})
      for (extent gap : {0, 1, 11})
        check_all(problem_from("matmul(x, w)" + std::string(precision), {{9, k}, {k, 64}},
                               {{k + gap, 1}}),
                  {.seed = static_cast<std::uint64_t>(k), .values = pattern::nan_rows});
  check_all(problem_from("matmul(x, w:tensor) [bf16]", {{3, 32, 33}, {3, 33, 64}}),
            {.values = pattern::nan_rows});
}

TEST_CASE("rows of infinities stay where they are, and the clean row counts its ones") {
  float const inf = std::numeric_limits<float>::infinity();
  for (isa level : jit_levels())
    for (std::string_view precision : {"", " [bf16 bf16 f32 f32 f32 f32]"})
      for (extent k : {33, 34, 47, 48, 63, 65, 129, 1301})
        for (std::string_view weight : {"w", "w:tensor"}) {
          problem p = problem_from(
              "matmul(x, " + std::string(weight) + ")" + std::string(precision), {{9, k}, {k, 64}});
          p.max_isa = level;
          std::vector<float> x(static_cast<std::size_t>(9 * k), inf),
              w(static_cast<std::size_t>(k * 64), 1.0F);
          std::fill_n(x.begin(), k, 1.0F);
          std::vector<float> const out = run_rounded(p, x, w);
          for (std::size_t i = 0; i < out.size(); ++i)
            CHECK(out[i] == (i < 64 ? static_cast<float>(k) : inf));
        }
}

TEST_CASE("leading dimensions and transposed operands, first and second") {
  for (std::string_view precision : precisions)
    for (bool tensor : {false, true})
      for (int layout = 0; layout < 4; ++layout) {
        bool const ts = layout % 2 != 0, tw = layout / 2 != 0;
        std::string const text = std::string("matmul(x, w") + (tensor ? ":tensor" : "") +
                                 (ts ? ", transposed_src" : "") +
                                 (tw ? ", transposed_weight" : "") + ")" + std::string(precision);
        check_all(problem_from(
            text, {ts ? shape{36, 20} : shape{20, 36}, tw ? shape{108, 36} : shape{36, 108}},
            {{64, 1}, {112, 1}}, {{112, 1}}));
        check_all(problem_from(
            text, {ts ? shape{36, 20} : shape{20, 36}, tw ? shape{108, 36} : shape{36, 108}},
            {{1, 40}, {1, 120}}));
      }
}

TEST_CASE("strides of axes of extent 1 mean nothing") {
  constexpr extent nonsense[] = {0, 1, 7, -1, std::numeric_limits<extent>::max()};
  for (extent m : {1, 5})
    for (extent n : {1, 5})
      for (extent k : {1, 5})
        for (extent s : nonsense) {
          auto const layout = [&](extent rows, extent columns) {
            return strides{rows == 1 ? s : columns == 1 ? 1 : columns, columns == 1 ? s : 1};
          };
          check_all(problem_from("matmul(x, w:tensor) | add r:tensor", {{m, k}, {k, n}, {m, n}},
                                 {layout(m, k), layout(k, n), layout(m, n)}, {layout(m, n)}));
        }
}

// Order of steps, and addends of every shape: M = N hides a bias taken for a column.
TEST_CASE("steps in written order and addends where they belong") {
  std::vector<float> const zero(16, 0.0F);
  problem p = problem_from("matmul(x, w) | add 2 | sigmoid", {{4, 4}, {4, 4}});
  CHECK(run_f32(p, {zero, zero})[5] == doctest::Approx(0.880797));
  p = problem_from("matmul(x, w) | sigmoid | add 2", {{4, 4}, {4, 4}});
  CHECK(run_f32(p, {zero, zero})[5] == 2.5F);
  std::vector<float> const addend{0, 10, 20, 30};
  for (shape const& dims : {shape{4}, shape{1, 4}, shape{4, 1}, shape{1, 1}}) {
    p = problem_from("matmul(x, w) | add r:tensor", {{4, 4}, {4, 4}, dims});
    std::vector<float> const out = run_f32(p, {zero, zero, addend});
    for (std::size_t i = 0; i < 16; ++i) {
      std::size_t const at = dims == shape{4, 1} ? i / 4 : dims == shape{1, 1} ? 0 : i % 4;
      CHECK(out[i] == addend[at]);
    }
  }
  for (shape const& dims :
       {shape{128, 1}, shape{32, 1, 1}, shape{12}, shape{32, 128, 12}, shape{32, 1, 12}})
    check_all(problem_from("matmul(x, w) | add r:tensor", {{32, 128, 3}, {3, 12}, dims}));
}

TEST_CASE("pairs of steps in every order") {
  constexpr char const* steps[] = {"relu", "clip(-0.5, 0.75)", "gelu_tanh", "sigmoid",
                                   "tanh", "add 0.5",          "mul -2",    "add r:tensor"};
  for (char const* first : steps)
    for (char const* second : steps) {
      std::string const a = first, b = second;
      std::string const text =
          "matmul(x, w) | " + a + " | " + (a == b && a == "add r:tensor" ? "add r2:tensor" : b);
      check_all(problem_from(text, {{5, 3}, {3, 7}}));
      check_all(problem_from(text + " [bf16]", {{9, 3}, {3, 37}}));
    }
}

TEST_CASE("a batch on either side, and addends that see it") {
  std::uint64_t seed = 0;
  for (std::string_view w : {"w", "w:tensor"})
    for (auto const& [src, weight] : {std::pair{shape{3, 5, 7}, shape{3, 7, 9}},
                                      {shape{3, 5, 7}, shape{1, 7, 9}},
                                      {shape{1, 5, 7}, shape{3, 7, 9}},
                                      {shape{3, 5, 7}, shape{7, 9}},
                                      {shape{2, 1, 5, 7}, shape{3, 7, 9}},
                                      {shape{2, 3, 5, 7}, shape{2, 1, 7, 9}},
                                      {shape{4, 1, 7}, shape{7, 9}},
                                      {shape{2, 3, 1, 7}, shape{7, 40}}})
      for (int addend = 0; addend < 4; ++addend) {
        problem p = problem_from("matmul(x, " + std::string(w) + ")", {src, weight});
        shape dims = p.domain;
        if (addend % 2 == 1) dims[dims.ssize() - 2] = 1;
        if (addend / 2 == 1) dims[0] = 1;
        for (std::string_view precision : {"", " [bf16]"})
          check_all(problem_from("matmul(x, " + std::string(w) + ") | add r:tensor | relu" +
                                     std::string(precision),
                                 {src, weight, dims}),
                    {.seed = ++seed});
      }
}

TEST_CASE("extents of zero: nothing is done, or the steps alone") {
  for (std::string_view precision : {"", " [bf16]"})
    for (std::string_view transposed : {"", ", transposed_src, transposed_weight"}) {
      bool const t = !transposed.empty();
      auto const run = [&](extent m, extent k, extent n) {
        check_all(problem_from("matmul(x, w" + std::string(transposed) + ") | add b:vector | relu" +
                                   std::string(precision),
                               {t ? shape{k, m} : shape{m, k}, t ? shape{n, k} : shape{k, n}}));
      };
      run(0, 4, 3);
      run(4, 4, 0);
      run(4, 0, 3);
      run(0, 0, 0);
    }
  check_all(problem_from("matmul(x, w:tensor)", {{0, 2, 3}, {0, 3, 4}}));
  problem const p = problem_from("matmul(x, w) | add b:vector | relu", {{2, 0}, {0, 3}});
  CHECK(run_f32(p, {{}, {}, {1, -2, 3}}) == std::vector<float>{1, 0, 3, 1, 0, 3});
}

// Panels: every row of B is found, whatever its place in a pair, a panel or a tail.
TEST_CASE("one-hot rows pick rows of B") {
  for (std::string_view precision : precisions)
    for (std::string_view w : {"w", "w:tensor"})
      for (bool transposed : {false, true})
        for (extent n : {5, 31, 50})
          check_all(
              problem_from("matmul(x, " + std::string(w) +
                               (transposed ? ", transposed_weight)" : ")") + std::string(precision),
                           {{13, 13}, transposed ? shape{n, 13} : shape{13, n}}),
              {.values = pattern::integers});
  problem p = problem_from("matmul(x, w)", {{13, 13}, {13, 50}});
  std::vector<float> one_hot(13 * 13, 0.0F), b(13 * 50);
  for (std::size_t i = 0; i < 13; ++i) one_hot[i * 14] = 1;
  for (std::size_t i = 0; i < b.size(); ++i) b[i] = static_cast<float>(i / 50 * 100 + i % 50);
  CHECK(run_f32(p, {one_hot, b}) == b);
}

TEST_CASE("a second operand that is no weight is packed in the call, whatever its extents") {
  std::uint64_t seed = 0;
  for (std::string_view precision : precisions)
    for (std::string_view transposed : {"", ", transposed_weight"})
      for (extent k : {1, 2, 15, 16, 17, 31, 32, 33, 50, 64, 67})
        for (extent n : {1, 15, 16, 17, 31, 32, 33, 49, 64, 81})
          check_all(problem_from("matmul(x, w:tensor" + std::string(transposed) + ")" +
                                     std::string(precision),
                                 {{17, k}, transposed.empty() ? shape{k, n} : shape{n, k}}),
                    {.seed = ++seed, .values = pattern::integers});
}

TEST_CASE("sums of bf16 are f32: 4096 ones are 4096") {
  for (isa level : jit_levels())
    for (extent m : {1, 3, 9}) {
      problem p = problem_from("matmul(x, w) [bf16 bf16 f32 f32 f32 f32]", {{m, 4096}, {4096, 33}});
      p.max_isa = level;
      std::vector<bfloat16> const ones(static_cast<std::size_t>(4096 * 33), to_bfloat16(1));
      std::vector<float> const out = run_dense<float>(p, {ones.data(), ones.data()});
      CHECK(out == std::vector<float>(out.size(), 4096.0F));
    }
}

TEST_CASE("one kernel serves every number of rows") {
  jit_backend const jit;
  for (std::string_view precision : precisions)
    for (isa level : jit_levels()) {
      chain const c = parse_chain("matmul(x, w) | add b:vector | add r:tensor | gelu_tanh" +
                                  std::string(precision))
                          .value();
      std::vector<operand_spec> specs(c.operands.size());
      specs[0] = tensor_desc{c.operands[0].type, {dynamic, 37}, {}};
      specs[1] = dense_desc(c.operands[1].type, {37, 45});
      auto wanted = make_problem(c, specs);
      REQUIRE_MESSAGE(wanted.ok(), wanted.error().message);
      wanted->max_isa = level;
      auto const k = jit.build(*wanted);
      REQUIRE_MESSAGE(k.ok(), k.error().message);
      for (extent m : {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 13, 15, 16, 17, 31, 33, 70, 512}) {
        shape const dims[] = {{m, 37}};
        auto const p = resolve(*wanted, dims);
        REQUIRE_MESSAGE(p.ok(), p.error().message);
        check_options o{.seed = static_cast<std::uint64_t>(m + 1)};
        o.allowed = promised(*p, level);
        outcome const r = check_kernel(**k, *p, o, true);
        CHECK_MESSAGE(r.ok(), r.text);
      }
    }
}

TEST_CASE("code does not grow with K or N, and stays small for long chains") {
  jit_backend const jit;
  std::string text = "matmul(x, w) | add b:vector";
  for (int i = 0; i < 12; ++i) text += i % 2 == 0 ? " | gelu_erf" : " | mish";
  for (isa level : jit_levels())
    for (std::string_view precision : {"", " [bf16]"}) {
      std::size_t sizes[4] = {};
      std::string implementations[4];
      for (int i = 0; i < 4; ++i) {
        extent const k = std::array{2048, 4096, 16384, 65536}[static_cast<std::size_t>(i)];
        problem p = problem_from(text + std::string(precision), {{128, k}, {k, 16384}});
        p.max_isa = level;
        jit::process_cache().clear();
        auto const before = jit::code_memory::process().used().bytes;
        auto const k_built = jit.build(p);
        REQUIRE_MESSAGE(k_built.ok(), k_built.error().message);
        sizes[i] = jit::code_memory::process().used().bytes - before;
        implementations[i] = (*k_built)->stages()[0].implementation;
        CHECK(sizes[i] <= 64 * 1024);
        CHECK(sizes[i] <= sizes[0] + 64);
        CHECK(implementations[i] == implementations[0]);
      }
    }
}

TEST_CASE("one build serves every number of rows, and the calls build nothing") {
  jit_backend const jit;
  chain const c = parse_chain("matmul(x, w) | add b:vector | gelu_tanh").value();
  std::vector<operand_spec> specs(c.operands.size());
  specs[0] = tensor_desc{dtype::f32, {dynamic, 19}, {}};
  specs[1] = dense_desc(dtype::f32, {19, 23});
  auto const wanted = make_problem(c, specs).value();
  jit::process_cache().clear();
  auto const before = jit::process_cache().counters().generated;
  auto const k = jit.build(wanted);
  REQUIRE(k.ok());
  CHECK(jit::process_cache().counters().generated == before + 1);
  for (extent m = 0; m <= 512; m += m < 70 ? 1 : 61) {
    shape const dims[] = {{m, 19}};
    outcome const r =
        check_kernel(**k, resolve(wanted, dims).value(), {.values = pattern::integers}, true);
    CHECK_MESSAGE(r.ok(), r.text);
  }
  CHECK(jit::process_cache().counters().generated == before + 1);
}

TEST_CASE("code is generated once and shared by all shapes that it serves") {
  jit_backend const jit;
  auto const generated = [] { return jit::process_cache().counters().generated; };
  auto const before = generated();
  problem first = problem_from("matmul(x, w) | add b:vector | elu(0.3125)", {{16, 21}, {21, 64}});
  REQUIRE(jit.build(first).ok());
  CHECK(generated() == before + 1);
  for (auto const& [m, n, text] : {std::tuple{32, 64, "matmul(x, w) | add b:vector | elu(0.3125)"},
                                   {16, 128, "matmul(y, v) | add c:vector | elu(0.3125)"}}) {
    REQUIRE(jit.build(problem_from(text, {{m, 21}, {21, n}})).ok());
    CHECK(generated() == before + 1);
  }
  REQUIRE(jit.build(problem_from("matmul(x, w) | add b:vector | elu(0.25)", {{16, 21}, {21, 64}}))
              .ok());
  CHECK(generated() == before + 2);
}

TEST_CASE("a chain too long for one copy per row gets its epilogue in a loop") {
  std::string text = "matmul(x, w)";
  for (int i = 0; i < 12; ++i) text += i % 2 == 0 ? " | gelu_erf" : " | mish";
  for (std::string_view precision : {"", " [bf16]"})
    check_all(problem_from(text + std::string(precision), {{11, 9}, {9, 50}}),
              {.values = pattern::integers});
  std::string many = "matmul(x, w)";
  for (int i = 0; i < 20; ++i) many += " | add r" + std::to_string(i) + ":tensor";
  check_all(problem_from(many, {{11, 9}, {9, 50}}));
}

TEST_CASE("an operand that shares memory with the output") {
  for (std::string_view precision : {"", " [bf16]"}) {
    chain const c =
        parse_chain("matmul(x, w) | add r:tensor | tanh" + std::string(precision)).value();
    std::vector<operand_spec> specs(c.operands.size());
    specs[0] = dense_desc(c.operands[0].type, {19, 6});
    specs[1] = dense_desc(c.operands[1].type, {6, 41});
    specs[2] = dense_desc(c.operands[2].type, {19, 41});
    auto const p = make_problem(c, specs, {}, numerics::strict, 2);
    REQUIRE_MESSAGE(p.ok(), p.error().message);
    check_all(*p);
  }
}

namespace {

/// Calls generated code with known values in every register that it must keep. Bits of the answer: 0 to 5 rbx, rbp, r12 to
/// r15; 6 the direction flag; 7 MXCSR.
std::uint64_t what_a_call_changes(jit::matmul_entry entry, jit::matmul_frame* frame) {
  namespace xb = jit::xb;
  jit::assembler a(isa::avx2);
  int const kept[] = {3, 5, 12, 13, 14, 15};
  auto const g = [](int i) { return jit::assembler::general(i); };
  for (int r : kept) a.push(g(r));
  a.sub(g(4), 24);
  a.vzeroupper();
  a.stmxcsr(a.ptr[g(4)]);
  for (int r : kept) a.mov(g(r), 0x1111111111111111U * static_cast<std::uint64_t>(r));
  a.call(g(6));
  a.xor_(xb::Reg32(0), xb::Reg32(0));
  for (int i = 0; i < 6; ++i) {
    xb::Label same;
    a.mov(g(1), 0x1111111111111111U * static_cast<std::uint64_t>(kept[i]));
    a.cmp(g(1), g(kept[i]));
    a.je(same);
    a.or_(g(0), std::uint32_t{1} << i);
    a.L(same);
  }
  xb::Label forward, same_mxcsr;
  a.pushfq();
  a.pop(g(1));
  a.test(xb::Reg32(1), 0x400);
  a.jz(forward);
  a.or_(g(0), 0x40);
  a.L(forward);
  a.stmxcsr(a.ptr[g(4) + 4]);
  a.mov(xb::Reg32(1), a.ptr[g(4)]);
  a.xor_(xb::Reg32(1), a.ptr[g(4) + 4]);
  a.test(xb::Reg32(1), 0xffc0);  // the lower bits remember that something was inexact
  a.je(same_mxcsr);
  a.or_(g(0), 0x80);
  a.L(same_mxcsr);
  a.add(g(4), 24);
  for (int i = 6; i-- > 0;) a.pop(g(kept[i]));
  a.ret();
  auto const code = jit::code_memory::process().publish(a.finish().value());
  REQUIRE(code.ok());
  using caller = std::uint64_t (*)(jit::matmul_frame*, jit::matmul_entry);
  return (*code)->entry<caller>()(frame, entry);
}

}  // namespace

TEST_CASE("a call keeps registers, direction flag and MXCSR") {
  for (isa level : jit_levels())
    for (auto const& [residuals, n] :
         {std::pair{0, 40}, {1, 40}, {3, 40}, {9, 40}, {0, 1}, {3, 1}, {9, 1}}) {
      std::string text = "matmul(x, w)";
      for (int i = 0; i < residuals; ++i) text += " | add r" + std::to_string(i) + ":tensor";
      bool const tiles = includes(level, isa::amx);
      text += tiles ? " | tanh [bf16 bf16 f32 f32 f32 f32]" : " | tanh";
      problem p = problem_from(text, {{11, 5}, {5, n}});
      p.max_isa = level;
      auto const built = jit::build_matmul(p, level);
      REQUIRE_MESSAGE(built.ok(), built.error().message);
      jit::matmul_plan const& plan = (*built)->plan;
      buffer memory((*built)->frame_bytes), panels(static_cast<std::size_t>(plan.packed_bytes()));
      auto const count = static_cast<std::size_t>(11 * n);
      std::vector<float> x(11 * 5, 0.5F), w(5 * 40, 0.25F), tensor(count, 1.0F), out(count);
      std::vector<bfloat16> const narrow(11 * 5, to_bfloat16(0.5F));
      if (plan.column())
        jit::copy_matrix(panels.data(), plan.shape.b, {w.data(), dtype::f32, 1, 1}, 5, 1);
      else
        jit::pack_panels(plan.panels(), panels.data(), {w.data(), dtype::f32, 40, 1});
      auto& frame = *new (memory.data()) jit::matmul_frame;
      frame.a = tiles ? static_cast<void const*>(narrow.data()) : x.data();
      frame.lda = 5 * size_of(p.operands[0].type);
      frame.rows = 11;
      frame.b = panels.data();
      frame.full_panels = plan.panels().full_panels();
      frame.full_panel_bytes = plan.panels().panel_bytes(jit::tile_vectors);
      jit::row_split const split = jit::split_rows(11, plan.tile_rows());
      frame.blocks = split.blocks;
      frame.low_blocks = split.low_blocks;
      frame.high = split.high;
      for (int i = 0; i < plan.accesses.ssize(); ++i) {
        frame.accesses[i].origin = plan.accesses[i].output ? out.data() : tensor.data();
        frame.accesses[i].row_stride = n * 4;
      }
      std::optional<jit::tile_scope> scope;
      if (tiles)
        scope.emplace(*reinterpret_cast<jit::amx_memory*>(memory.data() + (*built)->amx_at));
      CHECK(what_a_call_changes((*built)->code->entry<jit::matmul_entry>(), &frame) == 0);
      float const wanted = std::tanh(0.625F + static_cast<float>(residuals));
      for (float v : out) CHECK(v == doctest::Approx(wanted));
    }
}

TEST_CASE("what is refused is refused with a sentence") {
  jit_backend const jit;
  auto const refused = [&](problem const& p, std::string_view part) {
    verdict const v = jit.supports(p);
    CHECK_FALSE(v);
    CHECK_MESSAGE(v.reason.find(part) != std::string::npos, v.reason);
    CHECK(v.reason.starts_with("sinter: "));
  };
  refused(problem_from("matmul(x, w)", {{4, 4}, {4, 4}}, {}, {{1, 4}}),
          "the stride 4 along its last axis");
  refused(problem_from("matmul(x, w) | add r:tensor", {{4, 4}, {4, 4}, {4, 4}}, {{}, {}, {1, 4}}),
          "operand 'r'");
  problem p = problem_from("matmul(x, w)", {{4, 4}, {4, 4}});
  p.max_isa = isa::reference;
  refused(p, "AVX2");
}
