// Generated row kernels against the oracle: chains without a contraction, reductions in every
// place, on every level this CPU has, each operand at guard pages; and the faults that others had.
#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <string>
#include <vector>

#include <sinter/backend/jit.hpp>
#include <sinter/plan/resolve.hpp>

#include "support/check_levels.hpp"
#include "support/random_chain.hpp"
#include "support/row_chains.hpp"

using namespace sinter;
using namespace sinter_test;

namespace {

constexpr std::string_view precisions[] = {"", " [bf16]", " [f16]", " [f32 f32 f32 bf16 bf16 f32]",
                                           " [bf16 bf16 f32 f32 f32 f16]"};

void check_all(problem const& p, check_options options = {}, bool everywhere = false) {
  check_levels(p, options, ":rows:", everywhere);
}

/// f32 operands in, the first output out.
std::vector<float> run_f32(problem p, std::vector<std::vector<float>> const& operands, isa level) {
  p.max_isa = level;
  std::vector<void const*> data;
  for (std::vector<float> const& values : operands) data.push_back(values.data());
  return run_dense<float>(p, data);
}

}  // namespace

TEST_CASE("random chains without a contraction agree with the oracle on every level") {
  random_options o;
  o.matmul = o.conv = false;
  o.max_extent = 40;
  o.precisions.assign(std::begin(precisions), std::end(precisions));
  jit_backend const jit;
  int taken = 0, refused = 0;
  for (std::uint64_t seed = 1; seed <= 1200; ++seed) {
    o.reductions = seed % 3 != 0;
    random_case c = make_random_case(seed, o);
    for (isa level : jit_levels()) {
      c.p.max_isa = level;
      check_options const options{.seed = seed,
                                  .where = all_placements[seed % std::size(all_placements)],
                                  .values = all_patterns[seed / 4 % std::size(all_patterns)]};
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

TEST_CASE("every number of columns up to 70, and a few larger ones") {
  std::uint64_t seed = 0;
  for (extent n = 1; n <= 70; ++n)
    for (std::string const& text :
         {softmax, layer_norm, std::string("argmax(x:tensor)"), std::string("row_max(x:tensor)"),
          std::string("relu(x:tensor) | add b:vector | mul r:tensor")}) {
      ++seed;
      check_all(
          problem_from(text + std::string(precisions[seed % std::size(precisions)]), {{3, n}}),
          {.seed = seed, .values = all_patterns[seed % std::size(all_patterns)]}, n < 20);
    }
  for (extent n : {127, 128, 129, 1000, 4095, 4096, 4111})
    for (std::string const& text : {softmax, log_softmax, layer_norm, rms_norm})
      check_all(problem_from(text, {{2, n}}), {.seed = ++seed});
}

// Identity elements stand in for the lanes beyond a row: neither a NaN in a gap nor a neighbouring
// row may be seen.
TEST_CASE("gaps of NaN and rows of NaN stay where they are") {
  for (extent n : {1, 5, 8, 13, 16, 21, 33, 70})
    for (std::string_view precision : precisions)
      for (std::string const& text :
           {softmax, layer_norm, std::string("row_sum(x:tensor)"), std::string("row_max(x:tensor)"),
            std::string("neg(x:tensor) | argmax"), std::string("exp(x:tensor) | row_sum | log")})
        check_all(problem_from(text + std::string(precision), {{4, n}}, {{n + 3, 1}}),
                  {.seed = static_cast<std::uint64_t>(n), .values = pattern::nan_rows});
}

TEST_CASE("a NaN is seen in every column") {
  float const nan = std::numeric_limits<float>::quiet_NaN();
  for (isa level : jit_levels())
    for (std::size_t n : {1U, 7U, 16U, 45U, 83U})
      for (std::size_t at = 0; at < n; ++at) {
        std::vector<float> row(n, 1.0F);
        row[at] = nan;
        row[n - 1 - at] = at % 2 == 0 ? nan : 5.0F;
        row[at] = nan;
        shape const dims{1, static_cast<extent>(n)};
        CHECK(std::isnan(run_f32(problem_from("row_max(x:tensor)", {dims}), {row}, level)[0]));
        CHECK(std::isnan(run_f32(problem_from("row_sum(x:tensor)", {dims}), {row}, level)[0]));
        std::size_t const first = at % 2 == 0 ? std::min(at, n - 1 - at) : at;
        CHECK(run_f32(problem_from("argmax(x:tensor)", {dims}), {row}, level)[0] ==
              static_cast<float>(first));
      }
}

TEST_CASE("argmax names the first of the largest, wherever they are") {
  for (isa level : jit_levels())
    for (std::size_t n : {1U, 8U, 31U, 64U, 131U, 300U})
      for (std::size_t first = 0; first<n; first += n> 64 ? 7 : 1)
        for (std::size_t step : {1U, 5U, 16U, 64U}) {
          std::vector<float> row(n, -3.0F);
          for (std::size_t i = first; i < n; i += step) row[i] = -2.0F;
          shape const dims{1, static_cast<extent>(n)};
          CHECK(run_f32(problem_from("argmax(x:tensor)", {dims}), {row}, level)[0] ==
                static_cast<float>(first));
        }
  float const low = -std::numeric_limits<float>::infinity();
  for (isa level : jit_levels())
    CHECK(run_f32(problem_from("argmax(x:tensor)", {{1, 5}}), {{low, low, low, low, low}},
                  level)[0] == 0.0F);
}

TEST_CASE("reductions in all positions") {
  std::uint64_t seed = 0;
  for (std::string const& text : {
           std::string("row_sum(x:tensor) | row_max(x) | add(%0, %1)"),
           std::string("relu(x:tensor) | row_mean | mul(%0, %1) | row_sum | sub(%2, %3)"),
           std::string("row_max(x:tensor) | argmax(%0) | row_sum(%0) | row_mean(%2) | add(x, %3)"),
           std::string("gelu_erf(x:tensor) | row_mean(x) | mul(%0, %1)"),
           std::string("row_mean(x:tensor) | sub(x, %0) | row_max | div(%1, %2) | tanh | row_sum | "
                       "fma(%4, %5, x) | argmax"),
           std::string("mul(x:tensor, s:scalar) | let row_max | sub(%0, %1) | mul(%2, s)"),
           std::string("let row_mean(x:tensor) | add r:tensor -> out=%1, mean=%0"),
           std::string("row_max(x:tensor) | sub(x, %0) | exp | row_sum | div(%2, %3) -> top=%0, "
                       "powers=%2, sum=%3, out=%4"),
           std::string("sub(x:tensor, m:tensor) | row_sum | mul m | add x"),
       })
    for (std::string_view precision : precisions)
      for (extent n : {1, 6, 16, 77})
        check_all(problem_from(text + std::string(precision), {{3, n}}),
                  {.seed = ++seed, .values = all_patterns[seed % std::size(all_patterns)]});
}

TEST_CASE("addends of every shape, batches, strides and broadcasts") {
  std::uint64_t seed = 0;
  for (std::string_view precision : precisions)
    for (shape const& r : {shape{12}, shape{1}, shape{4, 1}, shape{3, 1, 12}, shape{3, 4, 1},
                           shape{1, 4, 12}, shape{2, 1, 1, 1}, shape{2, 3, 4, 12}})
      for (std::string const& text :
           {std::string("add(x:tensor, r:tensor) | tanh"),
            std::string("add(x:tensor, r:tensor) | row_sum | mul(%0, %1)"),
            std::string("row_max(x:tensor) | mul r:tensor | add x")})
        check_all(problem_from(text + std::string(precision), {{2, 3, 4, 12}, r}),
                  {.seed = ++seed});
  std::vector<strides> const layouts[] = {
      {{200, 14, 1}, {0, 20, 1}}, {{14, 100, 1}, {13, 0, 0}}, {{24, 12, 1}, {40, 20, 0}}};
  for (auto const& layout : layouts)
    for (std::string const& text : {std::string("add(x:tensor, r:tensor) | relu"),
                                    std::string("mul(x:tensor, r:tensor) | row_mean | add r")})
      check_all(problem_from(text, {{5, 2, 12}, {5, 2, 12}}, layout, {{70, 30, 1}}),
                {.seed = ++seed}, true);
}

TEST_CASE("one kernel serves every number of rows, and of columns where masks are") {
  jit_backend const jit;
  for (isa level : jit_levels())
    for (bool columns : {false, true}) {
      if (columns && !jit::has_masks(level)) continue;
      for (std::string const& text : {softmax, layer_norm, std::string("tanh(x:tensor) | mul 3")}) {
        problem wanted = problem_from(text, {{dynamic, 3, columns ? dynamic : 37}});
        wanted.max_isa = level;
        auto const k = jit.build(wanted);
        REQUIRE_MESSAGE(k.ok(), k.error().message);
        auto const before = jit::process_cache().counters().generated;
        for (extent m : {0, 1, 2, 7})
          for (extent n : {1, 2, 15, 16, 17, 64, 100}) {
            shape const dims[] = {{m, 3, columns ? n : 37}};
            auto const p = resolve(wanted, dims);
            REQUIRE_MESSAGE(p.ok(), p.error().message);
            outcome const r = check_kernel(**k, *p, {.seed = 3}, true);
            CHECK_MESSAGE(r.ok(), r.text);
          }
        CHECK(jit::process_cache().counters().generated == before);
      }
    }
}

TEST_CASE("extents of zero") {
  for (std::string const& text :
       {std::string("relu(x:tensor)"), std::string("row_sum(x:tensor)"),
        std::string("row_max(x:tensor)"), std::string("row_mean(x:tensor)"),
        std::string("argmax(x:tensor)"), softmax})
    for (shape const& dims : {shape{0, 5}, shape{3, 0}, shape{2, 0, 4}})
      check_all(problem_from(text, {dims}));
}

TEST_CASE("rank 0 and rank 1") {
  check_all(problem_from("exp(s:scalar) | add 1", {}));
  check_all(problem_from("exp(x:tensor) | mul s:scalar", {{19}}));
  check_all(problem_from(softmax, {{19}}));
}

TEST_CASE("an operand that shares memory with the output") {
  for (std::string_view precision : {"", " [bf16 bf16 f32 f32 bf16 bf16]"})
    for (std::string const& text :
         {softmax, layer_norm, std::string("tanh(x:tensor)"),
          std::string("relu(x:tensor) | row_max(x) | sub(x, %1) -> out=%0, moved=%2"),
          std::string("let gelu_erf(x:tensor) | row_max(x) | sub(x, %1) -> out=%0, moved=%2")})
      check_all(problem_from(text + std::string(precision), {{5, 45}}, {}, {}, 0), {}, true);
}

TEST_CASE(
    "what a row is made of does not depend on its neighbours: one row at a time is the same") {
  for (isa level : jit_levels()) {
    std::vector<float> x(6 * 53);
    for (std::size_t i = 0; i < x.size(); ++i)
      x[i] = static_cast<float>(i * 37 % 101) / 25.0F - 2.0F;
    auto const together = run_f32(problem_from(softmax, {{6, 53}}), {x}, level);
    for (std::ptrdiff_t row = 0; row < 6; ++row) {
      std::vector<float> const one(x.begin() + row * 53, x.begin() + (row + 1) * 53);
      auto const alone = run_f32(problem_from(softmax, {{1, 53}}), {one}, level);
      CHECK(std::equal(alone.begin(), alone.end(), together.begin() + row * 53));
    }
  }
}

TEST_CASE("any cut of a call leaves the bits of the whole call") {
  std::vector<float> x(123000), g(120000, 0.5F);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i * 37 % 101) / 25.0F - 2.0F;
  for (isa level : jit_levels())
    for (std::string const& text : {softmax, std::string("tanh(x:tensor) | add 1"),
                                    std::string("exp(x:tensor) | mul g:vector")})
      for (shape const& dims : {shape{40, 3001}, shape{3, 20, 2000}, shape{1, 119999}}) {
        bool const gaps = dims.ssize() == 3;
        problem p = problem_from(text, {dims}, {gaps ? strides{41000, 2050, 1} : strides{}});
        p.max_isa = level;
        auto const k = jit_backend{}.build(p).value();
        buffer scratch(k->scratch_bytes());
        call_args args;
        args.operands[0] = x.data();
        args.operands[1] = g.data();
        args.scratch = scratch.data();
        auto const call = k->make_invocation();
        REQUIRE(call.ok());
        std::vector<float> whole(x.size(), 7.0F);
        args.outputs[0] = whole.data();
        (*call)->repoint(args);
        CHECK((*call)->run() == code::ok);
        for (int wanted : {1, 2, 3, 7}) {
          std::vector<float> parts(x.size(), 7.0F);
          args.outputs[0] = parts.data();
          (*call)->repoint(args);
          int const count = (*call)->cut(wanted);
          CHECK(count > (wanted > 1 && !(dims[0] == 1 && text == softmax) ? 1 : 0));
          CHECK(count <= wanted);
          for (int part = count; part-- > 0;) CHECK((*call)->run_part(part) == code::ok);
          CHECK(parts == whole);
          CHECK((*call)->run() == code::ok);
          CHECK(parts == whole);
        }
      }
}

TEST_CASE("long chains: 12 steps, and as many as a chain holds") {
  std::string text = "gelu_erf(x:tensor)";
  for (int i = 1; i < 12; ++i) text += i % 2 == 0 ? " | gelu_erf" : " | mish";
  for (std::string_view precision : precisions)
    check_all(problem_from(text + std::string(precision), {{3, 77}}),
              {.values = pattern::integers});
  std::string many = "relu(x:tensor)";
  for (int i = 0; i < 20; ++i) many += " | add r" + std::to_string(i) + ":tensor";
  check_all(problem_from(many, {{3, 77}}));
  std::string longest = "pow(x:tensor, 1, 1)";
  for (int i = 1; i < 62; ++i) longest += " | tanh";
  check_all(problem_from(longest + " | row_sum | add(x, %62)", {{3, 77}}));
}

TEST_CASE("code is shared by all numbers of rows, and of columns where rows are long") {
  jit_backend const jit;
  auto const generated = [] { return jit::process_cache().counters().generated; };
  std::string const text = "elu(x:tensor, 0.3125) | row_sum | mul(%0, %1)";
  std::string const renamed = "elu(y:tensor, 0.3125) | row_sum | mul(%0, %1)";
  REQUIRE(jit.build(problem_from(text, {{16, 64}})).ok());
  REQUIRE(jit.build(problem_from(text, {{16, 8192}})).ok());
  auto const before = generated();
  REQUIRE(jit.build(problem_from(renamed, {{5, 64}})).ok());
  REQUIRE(jit.build(problem_from(text, {{3, 5, 64}})).ok());
  REQUIRE(jit.build(problem_from(renamed, {{7, 10000}})).ok());
  CHECK(generated() == before);
  REQUIRE(jit.build(problem_from("elu(x:tensor, 0.25) | row_sum | mul(%0, %1)", {{16, 64}})).ok());
  CHECK(generated() == before + 1);
}

// ---- behind a product ------------------------------------------------------------------------

TEST_CASE("reductions behind a product") {
  std::uint64_t seed = 0;
  std::string const product = "matmul(x, w)";
  for (std::string const& text :
       {softmax, log_softmax, layer_norm, rms_norm, std::string("argmax(x:tensor)"),
        std::string("row_max(x:tensor)"), std::string("row_sum(x:tensor) | sub(x, %0) | relu")})
    for (std::string_view precision : precisions)
      for (extent m : {1, 3, 8, 70, 131})
        for (extent n : {1, 7, 40, 131})
          check_all(problem_from(behind_product(product, text) + std::string(precision),
                                 {{m, 19}, {19, n}}),
                    {.seed = ++seed,
                     .values = seed % 3 == 0 ? pattern::nan_rows
                               : seed % 2    ? pattern::integers
                                             : pattern::uniform});
}

TEST_CASE("steps before, between and after reductions, outputs before them, residuals") {
  std::uint64_t seed = 0;
  for (std::string const& text :
       {std::string("matmul(x, w) | add b:vector | add r:tensor | let gelu_erf | row_mean | "
                    "sub(%3, %4) -> hidden=%3, moved=%5"),
        std::string("matmul(x, w) | mul 0.125 | row_max | sub(%1, %2) | exp | row_sum | "
                    "div(%4, %5) -> sums=%0, top=%2, out=%6"),
        std::string("matmul(x, w) | row_sum(r:tensor) | add(%0, %1) | mul r"),
        std::string("exp(s:scalar) | matmul(x, w) | mul(%1, %0) | row_max | sub(%2, %3)"),
        std::string("matmul(x, w) | tanh | exp(%0) | square(%0) | row_sum(%1) | add(%1, %4) | "
                    "add(%2, %5) | add(%3, %6) | add(%0, %7) -> a=%0, b=%8"),
        std::string("matmul(x, w:tensor) | row_mean | mul(%0, %1)")})
    for (std::string_view precision : precisions)
      for (extent m : {5, 67})
        for (extent n : {9, 48}) {
          std::vector<shape> dims{{m, 21}, {21, n}};
          if (text.starts_with("exp(s")) dims.insert(dims.begin(), shape{});
          check_all(problem_from(text + std::string(precision), dims),
                    {.seed = ++seed, .values = all_patterns[seed % 4]});
        }
}

TEST_CASE("batches, transposed operands, strides behind a product") {
  std::uint64_t seed = 0;
  std::string const tail = " | add r:tensor | row_max | sub(%1, %2) | exp | row_sum | div(%4, %5)";
  for (auto const& [src, weight] : {std::pair{shape{3, 5, 7}, shape{3, 7, 9}},
                                    {shape{2, 3, 5, 7}, shape{2, 1, 7, 9}},
                                    {shape{2, 70, 7}, shape{7, 40}},
                                    {shape{2, 3, 1, 7}, shape{7, 40}}})
    for (std::string_view w : {"w", "w:tensor"})
      for (int addend = 0; addend < 4; ++addend)
        for (std::string_view precision : {"", " [bf16]"}) {
          std::string const text = "matmul(x, " + std::string(w) + ")";
          shape dims = problem_from(text, {src, weight}).domain;
          if (addend % 2 == 1) dims[dims.ssize() - 2] = 1;
          if (addend / 2 == 1) dims.back() = 1;
          check_all(problem_from(text + tail + std::string(precision), {src, weight, dims}),
                    {.seed = ++seed});
        }
  for (bool source : {false, true})
    for (bool weight : {false, true})
      for (std::string_view precision : precisions)
        for (auto const& layout : {std::vector<strides>{}, std::vector<strides>{{90, 1}, {90, 1}},
                                   std::vector<strides>{{1, 90}, {1, 90}}})
          check_all(
              problem_from(std::string("matmul(x, w:tensor") + (source ? ", transposed_src" : "") +
                               (weight ? ", transposed_weight" : "") + ")" + tail +
                               std::string(precision),
                           {source ? shape{20, 76} : shape{76, 20},
                            weight ? shape{30, 20} : shape{20, 30},
                            {76, 30}},
                           layout, {{41, 1}}),
              {.seed = ++seed});
}

TEST_CASE("one kernel behind a product serves every number of rows") {
  jit_backend const jit;
  for (isa level : jit_levels())
    for (std::string_view precision : {"", " [bf16]"}) {
      problem wanted = problem_from(behind_product("matmul(x, w) | add b:vector", "neg(x:tensor)") +
                                        " | row_mean | sub(%2, %3)" + std::string(precision),
                                    {{dynamic, 37}, {37, 45}});
      wanted.max_isa = level;
      auto const k = jit.build(wanted);
      REQUIRE_MESSAGE(k.ok(), k.error().message);
      auto const before = jit::process_cache().counters().generated;
      for (extent m : {0, 1, 2, 3, 7, 8, 9, 64, 65, 200}) {
        shape const dims[] = {{m, 37}};
        auto const p = resolve(wanted, dims);
        REQUIRE_MESSAGE(p.ok(), p.error().message);
        outcome const r = check_kernel(**k, *p, {.seed = static_cast<std::uint64_t>(m + 1)}, true);
        CHECK_MESSAGE(r.ok(), r.text);
      }
      CHECK(jit::process_cache().counters().generated == before);
    }
}

TEST_CASE("any cut of a product with reductions leaves the bits of the whole call") {
  std::vector<float> x(200 * 64), w(64 * 90);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i * 37 % 101) / 50.0F - 1;
  for (std::size_t i = 0; i < w.size(); ++i) w[i] = static_cast<float>(i * 41 % 103) / 51.0F - 1;
  for (isa level : jit_levels()) {
    problem p =
        problem_from("matmul(x, w:tensor) | row_max | sub(%0, %1) | exp", {{200, 64}, {64, 90}});
    p.max_isa = level;
    auto const k = jit_backend{}.build(p).value();
    buffer scratch(k->scratch_bytes());
    auto const call = k->make_invocation();
    REQUIRE(call.ok());
    std::vector<float> whole(200 * 90), parts(200 * 90);
    call_args args;
    args.operands[0] = x.data();
    args.operands[1] = w.data();
    args.outputs[0] = whole.data();
    args.scratch = scratch.data();
    (*call)->repoint(args);
    CHECK((*call)->run() == code::ok);
    args.outputs[0] = parts.data();
    (*call)->repoint(args);
    int const count = (*call)->cut(4);
    CHECK(count > 1);
    for (int part = count; part-- > 0;) CHECK((*call)->run_part(part) == code::ok);
    CHECK(parts == whole);
  }
}

TEST_CASE("extents of zero, and shared memory, behind a product") {
  for (extent m : {0, 3})
    for (extent k : {0, 3})
      for (extent n : {0, 3})
        check_all(problem_from("matmul(x, w) | add b:vector | row_sum | add(%1, %2) -> a=%2, b=%3",
                               {{m, k}, {k, n}}));
  problem const p = problem_from("matmul(x, w) | add r:tensor | row_max | sub(%1, %2) | add r",
                                 {{70, 6}, {6, 41}, {70, 41}}, {}, {}, 2);
  check_all(p, {}, true);
  verdict const v = jit_backend{}.supports(
      problem_from("matmul(x, w) | row_max | sub(%0, %1) | add r:tensor -> out=%0, moved=%3",
                   {{7, 6}, {6, 41}, {7, 41}}, {}, {}, 2));
  CHECK_FALSE(v);
  CHECK(v.reason.find("shares memory") != std::string::npos);
}

TEST_CASE("a weight behind which rows are reduced is packed as for the product alone") {
  auto const alone = jit_backend{}.build(problem_from("matmul(x, w)", {{8, 9}, {9, 40}})).value();
  auto const reduced =
      jit_backend{}.build(problem_from("matmul(x, w) | row_sum", {{99, 9}, {9, 40}})).value();
  CHECK(alone->layout_key(1) == reduced->layout_key(1));
}

TEST_CASE("what is refused is refused with a sentence") {
  jit_backend const jit;
  auto const refused = [&](problem p, std::string_view part, std::optional<isa> level = {}) {
    p.max_isa = level;
    verdict const v = jit.supports(p);
    CHECK_FALSE(v);
    CHECK_MESSAGE(v.reason.find(part) != std::string::npos, v.reason);
    CHECK(v.reason.starts_with("sinter: "));
  };
  refused(problem_from("relu(x:tensor)", {{4, 4}}, {{1, 4}}), "the stride 4 along its last axis");
  refused(problem_from("relu(x:tensor)", {{dynamic, dynamic}}), "has no masks", isa::avx2);
  refused(problem_from("relu(x:tensor) | add r:tensor -> out=%1, small=%0", {{1, 4}, {3, 4}}),
          "output 'small' of 1x4 has other rows than the operands, 3x4");
  std::string many = "tanh(x:tensor)";
  for (int i = 1; i < 6; ++i) many += " | tanh";
  many += " | row_sum";
  for (int i = 0; i < 6; ++i)
    many += " | add(%" + std::to_string(i) + ", %" + std::to_string(6 + i) + ")";
  refused(problem_from(many, {{3, 4}}), "more than 4 values");
  problem p = problem_from("relu(x:tensor)", {{3, 4}});
  p.max_isa = isa::reference;
  refused(p, "AVX2", isa::reference);
}
