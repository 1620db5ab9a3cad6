// Generated poolings against the oracle: every level this CPU has (the lower ones by the problem's cap), windows,
// channels and precisions, alone, behind convolutions and pointwise steps, each operand at guard pages.
#include <doctest/doctest.h>

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include <sinter/backend/jit.hpp>
#include <sinter/plan/resolve.hpp>

#include "support/check_backend.hpp"
#include "support/levels.hpp"
#include "support/random_chain.hpp"
#include "support/skip.hpp"

using namespace sinter;
using namespace sinter_test;

namespace {

constexpr std::string_view precisions[] = {"", " [bf16]", " [f16]", " [bf16 bf16 f32 f32 f32 f32]"};

/// VDPBF16PS takes denormals for zero, so infinity times one is NaN there and infinity elsewhere.
bool flushes(isa level, chain const& c) {
  return c.anchor() >= 0 && includes(level, isa::avx512_bf16) && c.precision.src == dtype::bf16;
}

/// Runs on every level; every kernel must be of the level that was asked for and pool.
void check_all(problem p, check_options options = {}) {
  pattern const wanted = options.values;
  for (isa level : jit_levels()) {
    p.max_isa = level;
    auto const k = jit_backend().build(p);
    REQUIRE_MESSAGE(k.ok(), k.error().message);
    std::string const name = (*k)->stages()[0].implementation;
    CHECK(name.starts_with(implementation_prefix(p, level)));
    CHECK(name.find("_pool") != std::string::npos);
    options.values =
        wanted == pattern::specials && flushes(level, p.chain) ? pattern::nan_rows : wanted;
    options.where = all_placements[options.seed % std::size(all_placements)];
    outcome const r = check_kernel(**k, p, options);
    CHECK_MESSAGE(r.ok(), name_of(level), ": ", r.text);
  }
}

class draw {
 public:
  explicit draw(std::uint64_t seed) : random_(seed) {}
  extent below(extent n) { return static_cast<extent>(random_() % static_cast<std::uint64_t>(n)); }
  extent of(std::initializer_list<extent> list) { return list.begin()[random_() % list.size()]; }

 private:
  std::mt19937_64 random_;
};

/// A window that fits an image of at least 5 x 5.
std::string any_window(draw& next) {
  extent const kh = 1 + next.below(5), kw = 1 + next.below(5);
  auto const pair = [](extent a, extent b) { return detail::join({a, "x", b}); };
  std::string const window = detail::join(
      {"kernel=", pair(kh, kw), ", stride=", pair(1 + next.below(3), 1 + next.below(3)),
       ", pad_begin=", pair(next.below(kh), next.below(kw)),
       ", pad_end=", pair(next.below(kh), next.below(kw)), next.below(2) == 0 ? ", ceil" : ""});
  switch (next.below(5)) {
    case 0:
      return "global_avg_pool";
    case 1:
      return "avg_pool(" + window + ")";
    case 2:
      return "avg_pool(" + window + ", exclude_pad)";
    default:
      return "max_pool(" + window + ")";
  }
}
/// The same as the first step, of operand x.
std::string of_x(std::string const& pooling) {
  std::size_t const open = pooling.find('(');
  if (open == std::string::npos) return pooling + "(x:tensor)";
  return pooling.substr(0, open + 1) + "x:tensor, " + pooling.substr(open + 1);
}

}  // namespace

TEST_CASE("poolings of an operand: windows, channels, precisions, steps behind") {
  constexpr std::string_view tails[] = {"", " | relu", " | mul b:vector | add r:tensor",
                                        " | let mul 0.5 | sub %0 | max s:scalar"};
  for (std::uint64_t seed = 0; seed < 96; ++seed) {
    draw next(seed);
    extent const c = next.of({1, 3, 8, 15, 16, 17, 31, 33, 64, 65, 100, 130});
    shape const x{1 + next.below(2), 5 + next.below(8), 5 + next.below(9), c};
    std::string const chain =
        detail::join({of_x(any_window(next)), tails[seed % 4], precisions[seed / 4 % 4]});
    CAPTURE(chain);
    check_all(problem_from(chain, {x}),
              {.seed = seed, .values = all_patterns[seed % std::size(all_patterns)]});
  }
}

TEST_CASE("NaN stays in its window and channel, zeros of either sign, infinities") {
  for (std::string_view window : {"max_pool(x:tensor, kernel=3, stride=2, pad=1)",
                                  "avg_pool(x:tensor, kernel=2)", "global_avg_pool(x:tensor)"})
    for (std::string_view precision : precisions)
      for (pattern values : {pattern::specials, pattern::nan_rows})
        for (std::uint64_t seed = 0; seed < 3; ++seed)
          check_all(problem_from(std::string(window) + std::string(precision), {{2, 6, 7, 37}}),
                    {.seed = seed, .values = values});
}

TEST_CASE("strides of images: gaps, and channels that do not lie side by side are refused") {
  std::string const chain = "max_pool(x:tensor, kernel=2) | add r:tensor";
  check_all(problem_from(chain, {{2, 6, 6, 5}, {2, 3, 3, 5}}, {{400, 60, 7, 1}, {3, 1, 0, 0}}));
  check_all(problem_from(chain, {{1, 6, 6, 19}, {1, 3, 3, 19}}, {{}, {171, 57, 19, 1}},
                         {{1000, 100, 25, 1}}));
  verdict const v =
      jit_backend().supports(problem_from(chain, {{1, 6, 6, 5}, {}}, {{180, 6, 1, 36}}));
  CHECK(v.reason == "sinter: jit: operand 'x' has the stride 36 along its last axis; 1 is wanted");
}

TEST_CASE("poolings behind convolutions: blocks, padding, residuals, what is exact in 16 bits") {
  constexpr std::string_view middle[] = {"", " | add b:vector | relu", " | add r:tensor | relu",
                                         " | let relu"};
  constexpr std::string_view tails[] = {"", " | relu", "", " | mul q:tensor"};
  for (std::uint64_t seed = 0; seed < 64; ++seed) {
    draw next(seed + 1000);
    bool const depthwise = next.below(4) == 0;
    extent const out = next.of({8, 16, 24, 64, 72}), in = depthwise ? out : next.of({3, 8, 16});
    extent const k = next.of({1, 3, 5, 7}), stride = 1 + next.below(2), pad = next.below(k / 2 + 1);
    extent const h = 12 + next.below(20);
    shape const x{1 + next.below(2), h, 11 + next.below(9), in};
    std::string const conv =
        detail::join({"conv2d(x, w, stride=", stride, ", pad=", pad,
                      depthwise ? detail::join({", groups=", out}) : std::string(), ")"});
    std::string const chain = detail::join({conv, middle[seed % 4], " | ", any_window(next),
                                            tails[seed / 2 % 4], precisions[seed / 4 % 4]});
    CAPTURE(chain);
    CAPTURE(to_string(x));
    check_all(problem_from(chain, {x, {out, k, k, depthwise ? 1 : in}}),
              {.seed = seed, .values = all_patterns[seed % std::size(all_patterns)]});
  }
}

TEST_CASE("many blocks: rows are kept from one to the next, and every cut gives the same bits") {
  struct wide {
    std::string chain;
    shape x, w;
  };
  for (wide const& v :
       {wide{"conv2d(x, w, stride=2, pad=3) | add b:vector | relu | max_pool(kernel=3, stride=2, "
             "pad=1)",
             {1, 90, 90, 3},
             {64, 7, 7, 3}},
        wide{"conv2d(x, w, pad=1) | relu | avg_pool(kernel=3, stride=1, pad=1, exclude_pad)",
             {2, 40, 40, 16},
             {64, 3, 3, 16}},
        wide{"conv2d(x, w) | relu | max_pool(kernel=3, stride=2, ceil) [bf16]",
             {1, 41, 41, 16},
             {128, 1, 1, 16}},
        wide{"conv2d(x, w, pad=1) | relu | global_avg_pool", {3, 5, 5, 256}, {72, 3, 3, 256}}}) {
    CAPTURE(v.chain);
    problem const p = problem_from(v.chain, {v.x, v.w});
    check_all(p, {.seed = 3});
    auto const k = jit_backend().build(p).value();
    auto const run = [&](int parts) {
      std::vector<std::vector<float>> memory;
      call_args args;
      packed_weight weight;
      std::mt19937 random(7);
      for (int i = 0; i < p.chain.operands.ssize(); ++i) {
        tensor_desc const& d = p.operands[static_cast<std::size_t>(i)];
        memory.emplace_back(static_cast<std::size_t>(element_count(d.dims)));
        for (float& f : memory.back()) f = static_cast<float>(random() % 64) / 64 - 0.4F;
        if (d.type == dtype::bf16)
          for (std::size_t n = 0; n < memory.back().size(); ++n) {
            bfloat16 const b = to_bfloat16(static_cast<float>(random() % 64) / 64 - 0.4F);
            std::memcpy(reinterpret_cast<std::byte*>(memory.back().data()) + 2 * n, &b, 2);
          }
        args.operands[i] = memory.back().data();
        if (p.chain.operands[i].role != role::weight) continue;
        weight = k->pack(i, {memory.back().data(), d.type, d.dims, d.strides, false}).value();
        args.operands[i] = weight.data();
      }
      std::vector<std::byte> out(static_cast<std::size_t>(detail::byte_span(p.outputs[0])));
      buffer scratch(k->scratch_bytes());
      args.outputs[0] = out.data();
      args.scratch = scratch.data();
      auto call = k->make_invocation().value();
      call->repoint(args);
      if (parts == 1) {
        call->run();
      } else {
        int const made = call->cut(parts);
        for (int i = made; i-- > 0;) call->run_part(i);
      }
      return out;
    };
    auto const whole = run(1);
    for (int parts : {2, 3, 5, 16}) CHECK(run(parts) == whole);
  }
}

TEST_CASE("pointwise steps before a window, values from before it stored once") {
  for (std::string_view chain :
       {"mul(x:tensor, b:vector) | add c:vector | relu | avg_pool(kernel=2)",
        "abs(x:tensor) | max_pool(kernel=3, stride=1, pad=1) | sub r:tensor | relu",
        "relu(x:tensor) | max_pool(kernel=2) -> out=%1, whole=%0",
        "relu(x:tensor) | mul %0 | global_avg_pool | mul b:vector"})
    for (std::string_view precision : precisions)
      check_all(problem_from(std::string(chain) + std::string(precision), {{2, 40, 40, 35}}),
                {.seed = 5});
  check_all(problem_from("conv2d(x, w) | let relu | max_pool(kernel=2) -> whole=%1, out=%2 [bf16]",
                         {{2, 20, 20, 16}, {64, 3, 3, 16}}));
}

TEST_CASE("dynamic batch, height and, of an operand, width: one kernel for all") {
  struct dynamic_case {
    std::string chain;
    shape x, w;
    std::vector<shape> calls;
  };
  for (dynamic_case const& v : {dynamic_case{"max_pool(x:tensor, kernel=3, stride=2, pad=1) | relu",
                                             {dynamic, dynamic, dynamic, 24},
                                             {},
                                             {{1, 7, 9, 24}, {3, 3, 2, 24}}},
                                dynamic_case{"global_avg_pool(x:tensor)",
                                             {dynamic, dynamic, dynamic, 24},
                                             {},
                                             {{1, 7, 9, 24}, {3, 1, 1, 24}}},
                                dynamic_case{"conv2d(x, w, pad=1) | relu | max_pool(kernel=2)",
                                             {dynamic, dynamic, 30, 8},
                                             {32, 3, 3, 8},
                                             {{1, 9, 30, 8}, {2, 60, 30, 8}}},
                                dynamic_case{"conv2d(x, w, pad=1) | relu | global_avg_pool",
                                             {dynamic, 6, 6, 8},
                                             {32, 3, 3, 8},
                                             {{1, 6, 6, 8}, {5, 6, 6, 8}}}}) {
    CAPTURE(v.chain);
    std::vector<shape> given{v.x};
    if (!v.w.empty()) given.push_back(v.w);
    problem const p = problem_from(v.chain, given);
    auto const k = jit_backend().build(p);
    REQUIRE_MESSAGE(k.ok(), k.error().message);
    for (shape const& dims : v.calls) {
      std::vector<shape> const all{dims};
      problem const of_call = resolve(p, all).value();
      outcome const r = check_kernel(**k, of_call, {.seed = 2}, true);
      CHECK_MESSAGE(r.ok(), r.text);
    }
  }
  verdict const v = jit_backend().supports(
      problem_from("conv2d(x, w) | max_pool(kernel=2)", {{1, 8, dynamic, 8}, {16, 3, 3, 8}}));
  CHECK(
      v.reason ==
      "sinter: jit: a pooling of a value of 1x6x?x16 that is made in blocks wants a width, and for "
      "the mean of an image a height, that is known");
}

TEST_CASE("what is not generated is refused") {
  CHECK(jit_backend()
            .supports(problem_from("relu(x:tensor) | max_pool(kernel=2) -> whole=%0, out=%1",
                                   {{1, 5, 4, 8}}))
            .reason ==
        "sinter: jit: a value from before a pooling that is stored too, and of which its windows "
        "may see only a part");
  CHECK(jit_backend()
            .supports(problem_from("matmul(x, w) | max_pool(kernel=2)", {{1, 4, 4, 8}, {8, 8}}))
            .reason == "sinter: jit: a pooling behind matmul is not generated");
  CHECK_FALSE(
      jit_backend().supports(problem_from("global_avg_pool(x:tensor) | row_max", {{1, 4, 4, 8}})));
}
