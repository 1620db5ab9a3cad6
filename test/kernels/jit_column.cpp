// Generated products with one column (jit/column.hpp) against the oracle: every level this CPU has, every pair of
// dtypes, tiles of every number of rows, tails of K, and rows that lie apart.
#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include <sinter/backend/jit.hpp>
#include <sinter/plan/resolve.hpp>

#include "support/check_levels.hpp"
#include "support/skip.hpp"

using namespace sinter;
using namespace sinter_test;

namespace {

constexpr std::string_view precisions[] = {"",
                                           " [bf16]",
                                           " [f16]",
                                           " [bf16 bf16 f32 f32 f32 f32]",
                                           " [f32 bf16 f32 f32 f32 f32]",
                                           " [bf16 f32 f32 f32 f32 f32]"};

check_options with(std::uint64_t seed, pattern values = pattern::integers) {
  check_options o{.seed = seed, .values = values};
  o.allowed.sum_block = jit::sum_block;
  return o;
}

}  // namespace

TEST_CASE("one column: every number of rows and every tail of K") {
  std::uint64_t seed = 0;
  for (std::string_view precision : precisions)
    for (extent m : {1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 13, 16, 17, 23, 31, 33})
      for (extent k : {0, 1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 33, 63, 64, 65, 100, 129, 300})
        if ((m + k) % 3 == 0 || k < 4 || m < 3)
          check_levels(
              problem_from("matmul(x, w) | add b:vector | add r:tensor" + std::string(precision),
                           {{m, k}, {k, 1}}),
              with(++seed), ":column", m <= 9);
}

TEST_CASE("one column: more rows than wait at a time, and sums of blocks") {
  std::uint64_t seed = 0;
  for (std::string_view precision : precisions) {
    for (extent m : {127, 128, 129, 250, 1001})
      check_levels(
          problem_from("matmul(x, w) | gelu_tanh" + std::string(precision), {{m, 37}, {37, 1}}),
          with(++seed, pattern::uniform), ":column");
    for (extent k : {1024, 4099, 8200, 16391, 70001})
      for (extent m : {1, 2, 5})
        check_levels(problem_from("matmul(x, w) | relu" + std::string(precision), {{m, k}, {k, 1}}),
                     with(++seed, pattern::uniform), ":column");
  }
}

// Equal terms lose the same part of a unit in the last place in each addition to a sum of one size.
TEST_CASE("one column: the error of a long sum grows with its blocks, not with K") {
  for (std::string_view precision : {"", " [bf16 bf16 f32 f32 f32 f32]"})
    for (extent k : {1025, 4103, 25088, 200000})
      for (extent m : {1, 2, 4, 8})
        for (isa level : jit_levels()) {
          problem p =
              problem_from("matmul(x, w:tensor)" + std::string(precision), {{m, k}, {k, 1}});
          p.max_isa = level;
          float const term = 1.0F + 0x1p-7F;
          std::vector<float> const wide(static_cast<std::size_t>(m * k), term);
          std::vector<bfloat16> const narrow(wide.size(), to_bfloat16(term));
          void const* data =
              precision.empty() ? static_cast<void const*>(wide.data()) : narrow.data();
          double const exact = static_cast<double>(k) * (1 + 0x1p-7) * (1 + 0x1p-7);
          double const n = accuracy{.sum_block = jit::sum_block}.additions(k) + 2;
          for (float v : run_dense<float>(p, {data, data}))
            CHECK(std::abs(static_cast<double>(v) - exact) <= n * 0x1p-24 * exact);
        }
}

TEST_CASE("one column: a row depends on its own elements only") {
  for (std::string_view precision : precisions)
    for (extent k : {7, 33, 40, 63, 65, 129})
      for (extent gap : {0, 1, 11})
        check_levels(problem_from("matmul(x, w)" + std::string(precision), {{13, k}, {k, 1}},
                                  {{k + gap, 1}}),
                     with(static_cast<std::uint64_t>(k), pattern::nan_rows), ":column", true);
}

TEST_CASE("one column: layouts of the second operand, and a first one that is no rows") {
  std::uint64_t seed = 0;
  for (std::string_view precision : precisions)
    for (bool transposed : {false, true})
      for (std::string_view w : {"w", "w:tensor"})
        for (extent apart : {1, 3}) {
          std::string const text = "matmul(x, " + std::string(w) +
                                   (transposed ? ", transposed_weight)" : ")") +
                                   std::string(precision);
          shape const dims = transposed ? shape{1, 21} : shape{21, 1};
          strides const layout = transposed ? strides{64, apart} : strides{apart, 1};
          check_levels(problem_from(text, {{11, 21}, dims}, {{}, layout}), with(++seed), ":column",
                       true);
        }
  for (std::string_view precision : {"", " [bf16]"}) {
    // Neither rows nor columns of the first operand are dense: panels.
    check_levels(
        problem_from("matmul(x, w)" + std::string(precision), {{11, 21}, {21, 1}}, {{64, 3}}),
        with(++seed), "x");
    check_levels(
        problem_from("matmul(x, w, transposed_src)" + std::string(precision), {{21, 1}, {21, 1}}),
        with(++seed), ":column");
  }
}

TEST_CASE("one column: outputs and operands whose rows lie apart, or are one for all") {
  std::uint64_t seed = 0;
  for (std::string_view precision : {"", " [bf16]"})
    for (extent m : {1, 3, 8, 37, 200})
      for (int which = 0; which < 8; ++which) {
        strides const of_residual = which % 2 == 0 ? strides{1, 1} : strides{5, 1};
        strides const of_output = which / 2 % 2 == 0 ? strides{1, 1} : strides{7, 1};
        shape const residual = which / 4 == 0 ? shape{m, 1} : shape{1, 1};
        check_levels(
            problem_from(
                "matmul(x, w) | add r:tensor | mul s:tensor | tanh" + std::string(precision),
                {{m, 19}, {19, 1}, residual, {m, 1}}, {{}, {}, of_residual}, {of_output}),
            with(++seed), ":column", true);
      }
}

TEST_CASE("one column: a batch on either side, and addends that see it") {
  std::uint64_t seed = 0;
  for (std::string_view w : {"w", "w:tensor"})
    for (auto const& [src, weight] : {std::pair{shape{3, 5, 7}, shape{3, 7, 1}},
                                      {shape{3, 5, 7}, shape{1, 7, 1}},
                                      {shape{1, 5, 7}, shape{3, 7, 1}},
                                      {shape{3, 5, 7}, shape{7, 1}},
                                      {shape{2, 1, 5, 7}, shape{3, 7, 1}},
                                      {shape{4, 1, 37}, shape{4, 37, 1}},
                                      {shape{4, 1, 7}, shape{7, 1}}})
      for (int addend = 0; addend < 4; ++addend) {
        std::string const text = "matmul(x, " + std::string(w) + ")";
        shape dims = problem_from(text, {src, weight}).domain;
        if (addend % 2 == 1) dims[dims.ssize() - 2] = 1;
        if (addend / 2 == 1) dims[0] = 1;
        for (std::string_view precision : {"", " [bf16]"})
          check_levels(problem_from(text + " | add r:tensor | relu" + std::string(precision),
                                    {src, weight, dims}),
                       with(++seed), ":column", true);
      }
}

TEST_CASE("one column: one kernel serves every number of rows") {
  jit_backend const jit;
  for (std::string_view precision : precisions)
    for (isa level : jit_levels()) {
      problem wanted =
          problem_from("matmul(x, w) | add r:tensor | gelu_tanh" + std::string(precision),
                       {{dynamic, 37}, {37, 1}});
      wanted.max_isa = level;
      auto const k = jit.build(wanted);
      REQUIRE_MESSAGE(k.ok(), k.error().message);
      CHECK((*k)->stages()[0].implementation.ends_with(":column"));
      auto const before = jit::process_cache().counters().generated;
      for (extent m : {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 15, 16, 17, 33, 127, 130, 512}) {
        shape const dims[] = {{m, 37}};
        auto const p = resolve(wanted, dims);
        REQUIRE_MESSAGE(p.ok(), p.error().message);
        outcome const r =
            check_kernel(**k, *p, with(static_cast<std::uint64_t>(m + 1), pattern::uniform), true);
        CHECK_MESSAGE(r.ok(), r.text);
      }
      CHECK(jit::process_cache().counters().generated == before);
    }
}

TEST_CASE("one column: parts leave the bits of the whole") {
  std::mt19937_64 random(3);
  for (isa level : jit_levels())
    for (std::string_view precision : {"", " [bf16 bf16 f32 f32 f32 f32]"})
      for (extent m : {1003, 2049}) {
        problem p =
            problem_from("matmul(x, w:tensor)" + std::string(precision), {{m, 777}, {777, 1}});
        p.max_isa = level;
        std::vector<float> x(static_cast<std::size_t>(m * 777));
        std::vector<bfloat16> narrow;
        for (float& v : x) v = static_cast<float>(random() % 20001) / 7919.0F - 1.25F;
        for (float v : x) narrow.push_back(to_bfloat16(v));
        void const* data = precision.empty() ? static_cast<void const*>(x.data()) : narrow.data();
        auto const whole = run_dense<float>(p, {data, data});
        for (int parts : {2, 3, 7}) CHECK(run_dense<float>(p, {data, data}, parts) == whole);
      }
}

TEST_CASE("one column: pairs of bf16 and widened bf16 give the same bits") {
  if (jit_levels().back() != isa::avx512_bf16) SINTER_SKIP("this CPU has no AVX512-BF16");
  std::mt19937_64 random(1);
  for (extent k : {1, 2, 3, 64, 77, 500, 20001})
    for (extent m : {1, 2, 3, 8, 11}) {
      std::vector<bfloat16> x(static_cast<std::size_t>(m * k)), w(static_cast<std::size_t>(k));
      for (std::vector<bfloat16>* v : {&x, &w})
        for (bfloat16& e : *v)
          e = {static_cast<std::uint16_t>(random() % 0x2000 + 0x3000 + random() % 2 * 0x8000)};
      std::vector<std::vector<float>> out;
      for (isa level : {isa::avx512, isa::avx512_bf16}) {
        problem p =
            problem_from("matmul(x, w:tensor) [bf16 bf16 f32 f32 f32 f32]", {{m, k}, {k, 1}});
        p.max_isa = level;
        out.push_back(run_dense<float>(p, {x.data(), w.data()}));
      }
      CHECK(out[0] == out[1]);
    }
}

TEST_CASE("one column: chains of any length, and an output that shares memory with an operand") {
  std::string many = "matmul(x, w)", dear = many;
  for (int i = 0; i < 20; ++i) many += " | add r" + std::to_string(i) + ":tensor";
  for (int i = 0; i < 12; ++i) dear += i % 2 == 0 ? " | gelu_erf" : " | mish";
  for (std::string_view precision : {"", " [bf16]"}) {
    check_levels(problem_from(many + std::string(precision), {{21, 9}, {9, 1}}), with(1));
    check_levels(problem_from(dear + std::string(precision), {{21, 9}, {9, 1}}), with(2));
    chain const c =
        parse_chain("matmul(x, w) | add r:tensor | tanh" + std::string(precision)).value();
    std::vector<operand_spec> specs(c.operands.size());
    specs[0] = dense_desc(c.operands[0].type, {19, 6});
    specs[1] = dense_desc(c.operands[1].type, {6, 1});
    specs[2] = dense_desc(c.operands[2].type, {19, 1});
    auto const p = make_problem(c, specs, {}, numerics::strict, 2);
    REQUIRE_MESSAGE(p.ok(), p.error().message);
    check_levels(*p, with(3), ":column", true);
  }
}

TEST_CASE("one column: code stays small, whatever K and the rows are") {
  jit_backend const jit;
  std::string text = "matmul(x, w) | add b:vector";
  for (int i = 0; i < 12; ++i) text += i % 2 == 0 ? " | gelu_erf" : " | mish";
  for (isa level : jit_levels())
    for (std::string_view precision : precisions)
      for (extent k : {64, 16391, 1000003}) {
        problem p = problem_from(text + std::string(precision), {{dynamic, k}, {k, 1}});
        p.max_isa = level;
        jit::process_cache().clear();
        auto const before = jit::code_memory::process().used().bytes;
        auto const built = jit.build(p);
        REQUIRE_MESSAGE(built.ok(), built.error().message);
        CHECK(jit::code_memory::process().used().bytes - before <= 32 * 1024);
      }
}
