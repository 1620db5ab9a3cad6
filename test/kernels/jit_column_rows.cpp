// Generated products with one column whose rows fill the lanes (jit/column_rows.hpp) against the oracle: every level
// this CPU has, every pair of dtypes, passes of every width, and lines of the first operand that lie apart.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include <sinter/backend/jit.hpp>
#include <sinter/plan/resolve.hpp>

#include "support/check_levels.hpp"

using namespace sinter;
using namespace sinter_test;

namespace {

constexpr std::string_view precisions[] = {"",
                                           " [bf16]",
                                           " [f16]",
                                           " [bf16 bf16 f32 f32 f32 f32]",
                                           " [f32 bf16 f32 f32 f32 f32]",
                                           " [bf16 f32 f32 f32 f32 f32]"};
constexpr std::string_view this_code = ":column:rows";

check_options with(std::uint64_t seed, pattern values = pattern::integers) {
  check_options o{.seed = seed, .values = values};
  o.allowed.sum_block = jit::sum_block;
  return o;
}

std::string transposed(std::string_view precision, std::string const& steps = "",
                       std::string_view w = "w") {
  return "matmul(x, " + std::string(w) + ", transposed_src)" + steps + std::string(precision);
}

}  // namespace

TEST_CASE("rows in lanes: every width of a pass, every tail of K") {
  std::uint64_t seed = 0;
  for (std::string_view precision : precisions)
    for (extent m : {2,  3,  4,  5,  6,  7,  8,  9,   12,  15,  16,  17, 23,
                     31, 33, 47, 63, 64, 65, 71, 100, 127, 128, 129, 257})
      for (extent k : {2, 3, 4, 5, 7, 8, 9, 31})
        if ((m + k) % 3 == 0 || m < 10)
          check_levels(problem_from(transposed(precision, " | add b:vector | add r:tensor"),
                                    {{k, m}, {k, 1}}),
                       with(++seed), this_code, m <= 9);
}

TEST_CASE("rows in lanes: long sums, and their error, which grows with their blocks") {
  std::uint64_t seed = 0;
  for (std::string_view precision : precisions)
    for (extent k : {1024, 2051, 4099})
      for (extent m : {3, 70, 130})
        check_levels(problem_from(transposed(precision, " | relu"), {{k, m}, {k, 1}}),
                     with(++seed, pattern::uniform), this_code);
  for (extent k : {1025, 25088})
    for (isa level : jit_levels()) {
      problem p = problem_from(transposed("", "", "w:tensor"), {{k, 9}, {k, 1}});
      p.max_isa = level;
      std::vector<float> const terms(static_cast<std::size_t>(k * 9), 1.0F + 0x1p-7F);
      double const exact = static_cast<double>(k) * (1 + 0x1p-7) * (1 + 0x1p-7);
      double const n = accuracy{.sum_block = jit::sum_block}.additions(k) + 2;
      for (float v : run_dense<float>(p, {terms.data(), terms.data()}))
        CHECK(std::abs(static_cast<double>(v) - exact) <= n * 0x1p-24 * exact);
    }
}

TEST_CASE("rows in lanes: a row depends on its own elements only, lines apart") {
  for (std::string_view precision : precisions)
    for (extent m : {2, 7, 13, 33, 77, 150})
      for (extent gap : {0, 1, 11}) {
        check_levels(problem_from(transposed(precision), {{9, m}, {9, 1}}, {{m + gap, 1}}),
                     with(static_cast<std::uint64_t>(m), pattern::nan_rows), this_code, true);
        check_levels(
            problem_from("matmul(x, w)" + std::string(precision), {{m, 6}, {6, 1}}, {{1, m + gap}}),
            with(static_cast<std::uint64_t>(m), pattern::nan_rows), this_code, true);
      }
}

TEST_CASE("rows in lanes: layouts of the second operand") {
  std::uint64_t seed = 0;
  for (std::string_view precision : precisions)
    for (std::string_view w : {"w", "w:tensor"})
      for (extent apart : {1, 3}) {
        std::string const text = transposed(precision, "", w);
        check_levels(problem_from(text, {{21, 11}, {21, 1}}, {{}, {apart, 1}}), with(++seed),
                     this_code, true);
      }
}

TEST_CASE("rows in lanes: outputs and operands whose rows lie apart, or are one for all") {
  std::uint64_t seed = 0;
  for (std::string_view precision : {"", " [bf16]"})
    for (extent m : {3, 8, 37, 200})
      for (int which = 0; which < 8; ++which) {
        strides const of_residual = which % 2 == 0 ? strides{1, 1} : strides{5, 1};
        strides const of_output = which / 2 % 2 == 0 ? strides{1, 1} : strides{7, 1};
        shape const residual = which / 4 == 0 ? shape{m, 1} : shape{1, 1};
        check_levels(
            problem_from(transposed(precision, " | add r:tensor | mul s:tensor | tanh"),
                         {{19, m}, {19, 1}, residual, {m, 1}}, {{}, {}, of_residual}, {of_output}),
            with(++seed), this_code, true);
      }
}

TEST_CASE("rows in lanes: prelu, select, a scalar, and an output between steps") {
  std::uint64_t seed = 0;
  for (std::string_view precision : {"", " [bf16]"})
    for (std::string_view steps :
         {" | prelu s:vector | clip(-2, 3)", " | mul s:scalar | gelu_tanh -> mid=%1, out=%2",
          " | min r:tensor | select(q:tensor, %1, 2)"})
      for (extent m : {5, 21, 140})
        check_levels(problem_from(transposed(precision, std::string(steps)), {{9, m}, {9, 1}}),
                     with(++seed), this_code);
}

TEST_CASE("rows in lanes: a batch on either side, folded into the rows where lines allow it") {
  std::uint64_t seed = 0;
  struct batch {
    shape src, weight;
    strides layout;
  };
  for (std::string_view w : {"w", "w:tensor"})
    for (batch const& b : {batch{{3, 7, 5}, {3, 7, 1}, {}},
                           {{3, 7, 5}, {1, 7, 1}, {}},
                           {{1, 7, 5}, {3, 7, 1}, {}},
                           {{3, 7, 5}, {7, 1}, {}},
                           {{3, 7, 5}, {7, 1}, {5, 15, 1}},  // rows of all matrices side by side
                           {{3, 7, 5}, {7, 1}, {6, 18, 1}},  // or nearly so
                           {{3, 7, 5}, {7, 1}, {0, 5, 1}},   // one matrix for all
                           {{3, 7, 1}, {7, 1}, {1, 3, 1}},   // one row each
                           {{3, 7, 1}, {7, 1}, {40, 5, 1}},
                           {{3, 7, 1}, {7, 1}, {0, 5, 1}},
                           {{2, 1, 7, 5}, {3, 7, 1}, {}}})
      for (int addend = 0; addend < 4; ++addend) {
        std::string const text = transposed("", "", w);
        shape dims = problem_from(text, {b.src, b.weight}).domain;
        if (addend % 2 == 1) dims[dims.ssize() - 2] = 1;
        if (addend / 2 == 1) dims[0] = 1;
        for (std::string_view precision : {"", " [bf16]"})
          check_levels(problem_from(transposed(precision, " | add r:tensor | relu", w),
                                    {b.src, b.weight, dims}, {b.layout}),
                       with(++seed), this_code, true);
      }
}

TEST_CASE("rows in lanes: one kernel serves every number of rows") {
  jit_backend const jit;
  for (std::string_view precision : precisions)
    for (isa level : jit_levels()) {
      problem wanted = problem_from(transposed(precision, " | add r:tensor | gelu_tanh"),
                                    {{37, dynamic}, {37, 1}});
      wanted.max_isa = level;
      auto const k = jit.build(wanted);
      REQUIRE_MESSAGE(k.ok(), k.error().message);
      CHECK((*k)->stages()[0].implementation.ends_with(this_code));
      auto const before = jit::process_cache().counters().generated;
      for (extent m : {0, 1, 2, 7, 8, 15, 16, 17, 33, 64, 127, 130, 512}) {
        shape const dims[] = {{37, m}};
        auto const p = resolve(wanted, dims);
        REQUIRE_MESSAGE(p.ok(), p.error().message);
        outcome const r =
            check_kernel(**k, *p, with(static_cast<std::uint64_t>(m + 1), pattern::uniform), true);
        CHECK_MESSAGE(r.ok(), r.text);
      }
      CHECK(jit::process_cache().counters().generated == before);
    }
}

TEST_CASE("rows in lanes: parts and levels leave the bits of the whole") {
  std::mt19937_64 random(3);
  for (std::string_view precision : {"", " [bf16 bf16 f32 f32 f32 f32]"})
    for (extent m : {1003, 2049}) {
      std::vector<float> x(static_cast<std::size_t>(m * 777));
      std::vector<bfloat16> narrow;
      for (float& v : x) v = static_cast<float>(random() % 20001) / 7919.0F - 1.25F;
      for (float v : x) narrow.push_back(to_bfloat16(v));
      void const* data = precision.empty() ? static_cast<void const*>(x.data()) : narrow.data();
      std::vector<float> whole;
      for (isa level : jit_levels()) {
        problem p = problem_from(transposed(precision, "", "w:tensor"), {{777, m}, {777, 1}});
        p.max_isa = level;
        for (int parts : {1, 2, 3, 7}) {
          auto const out = run_dense<float>(p, {data, data}, parts);
          if (whole.empty()) whole = out;
          CHECK(out == whole);
        }
      }
    }
}

TEST_CASE("rows in lanes: chains of any length") {
  std::string many, dear;
  for (int i = 0; i < 20; ++i) many += " | add r" + std::to_string(i) + ":tensor";
  for (int i = 0; i < 12; ++i) dear += i % 2 == 0 ? " | gelu_erf" : " | mish";
  for (std::string_view precision : {"", " [bf16]"}) {
    check_levels(problem_from(transposed(precision, many), {{9, 21}, {9, 1}}), with(1), this_code);
    check_levels(problem_from(transposed(precision, dear), {{9, 21}, {9, 1}}), with(2), this_code);
  }
}
