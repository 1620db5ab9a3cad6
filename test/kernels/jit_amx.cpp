// AMX kernels, emulated or native: against the oracle and the other levels, with every operand at guard pages; how many
// tile products they take, when they configure tiles, that none stay configured, and when they are chosen at all.
//
// The kernels' own test programs run a second time with tiles alone (./run test --emulate-amx); here is what only tiles
// have, in a time that fits every run.
#include <doctest/doctest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <sinter/backend/jit.hpp>
#if SINTER_WITH_ONEDNN
#include <sinter/backend/onednn.hpp>
#endif
#include <sinter/plan/resolve.hpp>

#include "emulator/amx_emulator.hpp"
#include "emulator/amx_tiles.hpp"
#include "support/check_backend.hpp"
#include "support/levels.hpp"
#include "support/random_chain.hpp"
#include "support/skip.hpp"

using namespace sinter;
using namespace sinter_test;

// The emulator stands where doctest has put its handlers, so it begins in the case.
#define NEEDS_AMX()                              \
  amx::emulator const tiles;                     \
  if (!tiles.usable()) SINTER_SKIP(tiles.why()); \
  cpu_override const cpu(amx::cpu_with_amx());   \
  if (!runs(detected_isa(), isa::amx)) SINTER_SKIP("this CPU has no AVX512-BF16")
#define NEEDS_TILE_KERNELS() \
  NEEDS_AMX();               \
  jit::tile_override const chosen(jit::tile_choice::tiles)
// Where AMX is native nothing is counted.
#define NEEDS_COUNTS()  \
  NEEDS_TILE_KERNELS(); \
  if (tiles.how() != amx::mode::emulated) SINTER_SKIP(tiles.why())

namespace {

constexpr std::string_view bf16_to_f32 = " [bf16 bf16 f32 f32 f32 f32]";

std::shared_ptr<kernel const> built(problem const& p) {
  auto k = jit_backend{}.build(p);
  REQUIRE_MESSAGE(k.ok(), k.error().message);
  return *k;
}
std::string implementation_of(problem const& p) { return built(p)->stages()[0].implementation; }

/// Runs in strict mode; the kernel must be one of tiles.
void check(problem const& p, check_options options = {}, bool everywhere = false) {
  auto const k = built(p);
  CHECK(k->stages()[0].implementation.starts_with("jit:amx:bf16:"));
  for (std::size_t i = 0; i < (everywhere ? std::size(all_placements) : 1); ++i) {
    options.where = all_placements[(options.seed + i) % std::size(all_placements)];
    amx::strict_call const call;
    outcome const r = check_kernel(*k, p, options);
    CHECK_MESSAGE(r.ok(), r.text);
  }
}
void check(std::string const& text, std::vector<shape> const& dims, check_options options = {}) {
  check(problem_from(text, dims), options, true);
}

using numbers = std::vector<bfloat16>;

/// For each operand of p small integers, or any numbers.
std::vector<numbers> some_numbers(problem const& p, bool integers) {
  std::mt19937 random(7);
  std::vector<numbers> all(p.chain.operands.size());
  for (std::size_t i = 0; i < all.size(); ++i)
    for (extent n = element_count(p.operands[i].dims); n-- > 0;) {
      float const v = static_cast<float>(static_cast<int>(random() % 17) - 8);
      all[i].push_back(
          to_bfloat16(integers ? v : v * static_cast<float>(random() % 1000) / 999.0F));
    }
  return all;
}

/// One kernel ready to be called.
class ready {
 public:
  explicit ready(problem const& p, bool integers = true) : ready(p, some_numbers(p, integers)) {}
  ready(problem const& p, std::vector<numbers> operands, backend const& by = jit_backend())
      : p_(p), kernel_(by.build(p).value()), operands_(std::move(operands)) {
    for (std::size_t i = 0; i < operands_.size(); ++i) {
      tensor_desc const& d = p.operands[i];
      REQUIRE(d.type == dtype::bf16);
      args_.operands[i] = operands_[i].data();
      if (p.chain.operands[static_cast<int>(i)].role != role::weight) continue;
      auto w = kernel_->pack(static_cast<int>(i),
                             {operands_[i].data(), d.type, d.dims, d.strides, false});
      REQUIRE(w.ok());
      packed_.push_back(*w);
      args_.operands[i] = packed_.back().data();
    }
    out_.resize(static_cast<std::size_t>(element_count(p.outputs[0].dims)));
    args_.outputs[0] = out_.data();
    scratch_ = buffer(kernel_->scratch_bytes());
    args_.scratch = scratch_.data();
    auto made = kernel_->make_invocation();
    REQUIRE(made.ok());
    call_ = std::move(*made);
    call_->repoint(args_);
  }
  bool operator()() { return call_->run() == code::ok; }
  std::vector<float> const& run() {
    CHECK((*this)());
    return out_;
  }
  std::vector<float> const& run_in_parts(int wanted) {
    int const parts = call_->cut(wanted);
    CHECK(parts > 1);
    for (int i = parts; i-- > 0;) CHECK(call_->run_part(i) == code::ok);
    return out_;
  }

 private:
  problem p_;
  std::shared_ptr<kernel const> kernel_;
  std::vector<numbers> operands_;
  std::vector<packed_weight> packed_;
  std::vector<float> out_;
  buffer scratch_;
  std::unique_ptr<invocation> call_;
  call_args args_;
};

problem product(extent m, extent n, extent k, std::string const& w = "w") {
  return problem_from("matmul(x, " + w + ")" + std::string(bf16_to_f32), {{m, k}, {k, n}});
}
template <class F>
amx::counts counted_in(F&& f) {
  amx::counts const before = amx::counted();
  f();
  return amx::counted() - before;
}

}  // namespace

TEST_CASE("amx: tails of rows, columns and K, with every operand at guard pages") {
  NEEDS_TILE_KERNELS();
  std::uint64_t seed = 0;
  for (extent m : {1, 2, 15, 16, 17, 31, 32, 33, 48, 49, 64, 79})
    for (extent n : {1, 15, 16, 17, 31, 32, 33, 48, 50, 64, 65, 97, 113})
      check(problem_from("matmul(x, w) | add b:vector | relu [bf16]",
                         {{m, (m * 7 + n * 3) % 71}, {(m * 7 + n * 3) % 71, n}}),
            {.seed = ++seed, .values = pattern::integers});
  for (extent k : {0, 1, 2, 3, 31, 32, 33, 34, 63, 64, 65, 96, 97, 128, 320, 321, 352, 383, 1025})
    for (extent m : {7, 20, 45})
      check("matmul(x, w) | relu [bf16]", {{m, k}, {k, 40}}, {.seed = ++seed});
  for (extent m : {17, 33, 50, 63, 64, 65, 100, 130})
    for (extent k : {32, 65, 200})
      check("matmul(x, w) [bf16]", {{m, k}, {k, 11}}, {.seed = ++seed});
}

TEST_CASE("amx: NaN and infinities of a neighbour row are never multiplied, not even by zero") {
  NEEDS_TILE_KERNELS();
  for (extent k : {1, 31, 33, 40, 47, 63, 65, 95, 97})
    for (extent gap : {0, 1, 11})
      for (pattern values : {pattern::nan_rows, pattern::fine})
        check(problem_from("matmul(x, w) [bf16]", {{37, k}, {k, 64}}, {{k + gap, 1}}),
              {.seed = static_cast<std::uint64_t>(k), .values = values}, true);
  check("matmul(x, w:tensor) [bf16]", {{3, 32, 33}, {3, 33, 64}}, {.values = pattern::nan_rows});
}

TEST_CASE(
    "amx: transposed operands, leading dimensions, batches, second operands that are no weights") {
  NEEDS_TILE_KERNELS();
  std::uint64_t seed = 0;
  for (bool tensor : {false, true})
    for (int layout = 0; layout < 4; ++layout) {
      bool const ts = layout % 2 != 0, tw = layout / 2 != 0;
      std::string const text = std::string("matmul(x, w") + (tensor ? ":tensor" : "") +
                               (ts ? ", transposed_src" : "") + (tw ? ", transposed_weight" : "") +
                               ") [bf16]";
      std::vector<shape> const dims{ts ? shape{36, 20} : shape{20, 36},
                                    tw ? shape{108, 36} : shape{36, 108}};
      check(problem_from(text, dims, {{64, 1}, {112, 1}}, {{112, 1}}), {.seed = ++seed}, true);
      check(problem_from(text, dims, {{1, 40}, {1, 120}}), {.seed = ++seed}, true);
    }
  for (extent k : {1, 2, 31, 33, 64, 67})
    for (extent n : {1, 17, 32, 49, 81})
      for (bool t : {false, true})
        check(t ? "matmul(x, w:tensor, transposed_weight) [bf16]" : "matmul(x, w:tensor) [bf16]",
              {{17, k}, t ? shape{n, k} : shape{k, n}},
              {.seed = ++seed, .values = pattern::integers});
  for (std::string w : {"w", "w:tensor"})
    for (auto const& [src, weight] : {std::pair{shape{3, 5, 7}, shape{3, 7, 9}},
                                      {shape{3, 18, 40}, shape{1, 40, 33}},
                                      {shape{1, 5, 7}, shape{3, 7, 9}},
                                      {shape{2, 3, 5, 7}, shape{2, 1, 7, 9}},
                                      {shape{0, 2, 3}, shape{0, 3, 4}}})
      check("matmul(x, " + w + ") | relu [bf16]", {src, weight}, {.seed = ++seed});
}

TEST_CASE("amx: random chains agree with the oracle, split by reductions too") {
  NEEDS_TILE_KERNELS();
  random_options o;
  o.pointwise = false;
  o.max_extent = 40;
  o.precisions = {" [bf16]", bf16_to_f32};
  int tiled = 0;
  for (std::uint64_t seed = 1; seed <= 250; ++seed) {
    o.reductions = seed % 5 == 0;
    o.conv = !o.reductions && seed % 2 == 0;
    random_case c = make_random_case(seed, o);
    pattern const values = all_patterns[seed % 4];  // specials have denormals, which tiles flush
    if (!jit_backend{}.supports(c.p)) continue;
    auto const k = built(c.p);
    tiled += k->stages()[0].implementation.find("amx") != std::string::npos ? 1 : 0;
    accuracy a;
    for (step const& s : c.p.chain.steps)
      if (s.contraction < 0 && c.p.outputs[0].type == dtype::bf16)
        a.scale = std::max(a.scale, jit::eltwise_of(s.code).error.for_bf16 * 0x1p21);
    amx::strict_call const call;
    outcome const r = check_kernel(
        *k, c.p, {.seed = seed, .where = all_placements[seed % 3], .values = values, .allowed = a});
    CHECK_MESSAGE(r.ok(), r.text);
  }
  CHECK(tiled > 120);
}

TEST_CASE("amx: one kernel serves every number of rows") {
  NEEDS_TILE_KERNELS();
  for (extent n : {9, 45}) {
    chain const c =
        parse_chain("matmul(x, w) | add b:vector | add r:tensor | gelu_tanh [bf16]").value();
    std::vector<operand_spec> specs(c.operands.size());
    specs[0] = tensor_desc{dtype::bf16, {dynamic, 37}, {}};
    specs[1] = dense_desc(dtype::bf16, {37, n});
    auto wanted = make_problem(c, specs);
    REQUIRE_MESSAGE(wanted.ok(), wanted.error().message);
    auto const k = built(*wanted);
    CHECK(k->stages()[0].implementation.starts_with("jit:amx:"));
    auto const generated = jit::process_cache().counters().generated;
    for (extent m : {0, 1, 2, 7, 15, 16, 17, 31, 32, 33, 47, 48, 49, 63, 64, 65, 200}) {
      shape const dims[] = {{m, 37}};
      auto const p = resolve(*wanted, dims);
      REQUIRE_MESSAGE(p.ok(), p.error().message);
      check_options options{.seed = static_cast<std::uint64_t>(m + 1)};
      options.allowed.scale = jit::eltwise_of(op::gelu_tanh).error.for_bf16 * 0x1p21;
      amx::strict_call const call;
      outcome const r = check_kernel(*k, *p, options, true);
      CHECK_MESSAGE(r.ok(), r.text);
    }
    CHECK(jit::process_cache().counters().generated == generated);
  }
}

TEST_CASE("amx: epilogues of every length, operands beyond the registers, sums in place") {
  NEEDS_TILE_KERNELS();
  std::string text = "matmul(x, w)";
  for (int i = 0; i < 12; ++i) text += i % 2 == 0 ? " | gelu_erf" : " | mish";
  check(text + " [bf16]", {{21, 9}, {9, 50}}, {.values = pattern::integers});
  std::string many = "matmul(x, w)";
  for (int i = 0; i < 12; ++i) many += " | add r" + std::to_string(i) + ":tensor";
  check(many + " [bf16]", {{35, 9}, {9, 50}}, {.values = pattern::integers});
  check("matmul(x, w) | mul s:scalar | add c:tensor | clip(-0.5, 0.75) [bf16]",
        {{50, 40}, {40, 33}, {}, {50, 1}});
  chain const c = parse_chain("matmul(x, w) | add r:tensor | relu [bf16]").value();
  std::vector<operand_spec> specs(c.operands.size());
  specs[0] = dense_desc(dtype::bf16, {19, 6});
  specs[1] = dense_desc(dtype::bf16, {6, 41});
  specs[2] = dense_desc(dtype::bf16, {19, 41});
  auto const p = make_problem(c, specs, {}, numerics::strict, 2);
  REQUIRE_MESSAGE(p.ok(), p.error().message);
  check(*p, {}, true);
}

TEST_CASE("amx: convolutions of every kernel, stride, padding and number of channels") {
  NEEDS_TILE_KERNELS();
  std::uint64_t seed = 0;
  struct row {
    extent n, h, w, ic, oc, kernel, stride, pad, dilation;
  };
  for (row const& r : {row{1, 7, 7, 32, 32, 3, 1, 1, 1},
                       {2, 9, 40, 3, 20, 3, 2, 1, 1},
                       {1, 12, 50, 64, 17, 1, 1, 0, 1},
                       {1, 8, 8, 33, 40, 3, 1, 1, 1},
                       {1, 20, 35, 3, 64, 7, 2, 3, 1},
                       {1, 10, 34, 16, 8, 3, 1, 1, 2},
                       {1, 5, 70, 24, 65, 3, 1, 1, 1},
                       {3, 4, 4, 40, 10, 1, 2, 0, 1},
                       {2, 4, 4, 40, 97, 3, 1, 1, 1},
                       {3, 5, 3, 33, 64, 1, 2, 0, 1},
                       {1, 7, 14, 35, 160, 3, 1, 1, 1},
                       {1, 3, 3, 5, 3, 5, 1, 2, 1},
                       {1, 1, 90, 48, 16, 1, 1, 0, 1}}) {
    std::string const k = std::to_string(r.kernel), pad = std::to_string(r.pad);
    std::string const text = "conv2d(x, w, stride=" + std::to_string(r.stride) + ", pad=" + pad +
                             ", dilation=" + std::to_string(r.dilation) +
                             ") | add b:vector | relu [bf16]";
    std::vector<shape> const dims{{r.n, r.h, r.w, r.ic}, {r.oc, r.kernel, r.kernel, r.ic}};
    for (pattern values : {pattern::integers, pattern::nan_rows})
      check(text, dims, {.seed = ++seed, .values = values});
  }
}

// For a machine that is emulated as a whole (docs/how_to_add_an_isa.md): no code is generated once code has run.
TEST_CASE("amx: tails, epilogues and convolutions, all generated before the first call") {
  NEEDS_TILE_KERNELS();
  std::vector<problem> problems;
  for (extent m : {1, 16, 17, 32, 33, 49, 79})
    for (extent n : {1, 16, 17, 33, 48, 64, 65, 97})
      problems.push_back(problem_from("matmul(x, w) | add b:vector | relu [bf16]",
                                      {{m, (m * 7 + n * 3) % 71}, {(m * 7 + n * 3) % 71, n}}));
  for (extent k : {1, 31, 32, 33, 63, 64, 65, 352, 383})
    problems.push_back(problem_from("matmul(x, w) | gelu_tanh [bf16]", {{20, k}, {k, 40}}));
  for (std::string step : {"relu", "clip(-0.5, 0.75)", "sigmoid", "tanh", "mul s:scalar",
                           "add r:tensor", "swish", "elu(0.5)"})
    problems.push_back(
        problem_from("matmul(x, w) | add b:vector | " + step + " [bf16]", {{35, 40}, {40, 50}}));
  for (auto const& [src, weight, attributes] :
       {std::tuple<shape, shape, std::string>{{1, 7, 7, 32}, {32, 3, 3, 32}, "pad=1"},
        {{2, 9, 40, 3}, {20, 3, 3, 3}, "stride=2, pad=1"},
        {{1, 12, 50, 64}, {17, 1, 1, 64}, "pad=0"},
        {{1, 8, 8, 33}, {40, 3, 3, 33}, "pad=1"},
        {{1, 5, 70, 24}, {65, 3, 3, 24}, "pad=1"}})
    problems.push_back(problem_from("conv2d(x, w, " + attributes + ") | add b:vector | relu [bf16]",
                                    {src, weight}));
  std::vector<std::shared_ptr<kernel const>> kernels;
  for (problem const& p : problems) kernels.push_back(built(p));
  std::uint64_t seed = 0;
  for (std::size_t i = 0; i < problems.size(); ++i)
    for (pattern values : {pattern::integers, pattern::nan_rows}) {
      check_options o{.seed = ++seed, .where = all_placements[seed % 3], .values = values};
      for (step const& s : problems[i].chain.steps)
        if (s.contraction < 0)
          o.allowed.scale =
              std::max(o.allowed.scale, jit::eltwise_of(s.code).error.for_bf16 * 0x1p21);
      amx::strict_call const call;
      outcome const r = check_kernel(*kernels[i], problems[i], o);
      CHECK_MESSAGE(r.ok(), r.text);
    }
}

TEST_CASE("amx: integer data gives the bits of every other level and of the reference") {
  NEEDS_TILE_KERNELS();
  auto const with = [](problem p, isa level) {
    p.max_isa = level;
    return ready(p).run();
  };
  std::vector<problem> problems;
  for (auto const& [m, n, k] :
       {std::tuple<extent, extent, extent>{64, 64, 64}, {33, 50, 100}, {5, 70, 33}})
    problems.push_back(product(m, n, k));
  problems.push_back(problem_from("conv2d(x, w, pad=1)" + std::string(bf16_to_f32),
                                  {{1, 9, 20, 40}, {37, 3, 3, 40}}));
  for (problem const& p : problems) {
    std::vector<float> const tiled = with(p, isa::amx);
    for (isa level : jit_levels()) CHECK(with(p, level) == tiled);
    check(p, {.values = pattern::integers});  // the oracle's bits: integers have no bound
  }
}

TEST_CASE("amx: as many tile products as there must be, and few configurations") {
  NEEDS_COUNTS();
  auto const least = [](extent m, extent n, extent k) {
    return static_cast<std::uint64_t>((m + 15) / 16 * ((n + 15) / 16) * ((k + 31) / 32));
  };
  for (auto const& [m, n, k] : {std::tuple<extent, extent, extent>{512, 512, 512},
                                {512, 512, 32},
                                {100, 100, 100},
                                {1, 300, 64},
                                {300, 1, 64},
                                {17, 49, 33},
                                {16, 96, 64},
                                {48, 16, 64},
                                {95, 65, 1},
                                {16, 48, 320}}) {
    ready call(product(m, n, k));
    amx::counts const c = counted_in([&] {
      amx::strict_call const strict;
      CHECK(call());
    });
    CHECK(c.products() == least(m, n, k));
    CHECK(c[amx::instruction::tdpbf16ps] == c.products());
    CHECK(c.configurations >= 1);
    CHECK(c.configurations <= 2);
    CHECK(c[amx::instruction::tilerelease] == 1);
    if (m == 512 && k == 512) {
      CHECK(c.products() == 16384);
      CHECK(c.configurations == 1);
      // Each operand tile of a 2 x 2 block serves two products.
      CHECK(c[amx::instruction::tileloadd] == 16384);
      MESSAGE("512 x 512 x 512: " << c.products() << " tile products, "
                                  << c[amx::instruction::tileloadd] << " tile loads, "
                                  << c.configurations << " configuration");
    }
  }
  // So do strips of a convolution with one tile of rows, which take two panels of channels at a time where there are
  // two: 4 products of 5 loads for each of them, and 2 of 3 for a panel alone.
  ready thin(problem_from("conv2d(x, w, pad=1)" + std::string(bf16_to_f32),
                          {{1, 4, 16, 32}, {96, 3, 3, 32}}));
  amx::counts const c = counted_in([&] { CHECK(thin()); });
  CHECK(c.configurations >= 1);
  CHECK(c[amx::instruction::tileloadd] * 6 == c.products() * (5 + 3));
  // A batch that does not fold shares the configuration of its call.
  ready batch(
      problem_from("matmul(x, w:tensor)" + std::string(bf16_to_f32), {{6, 32, 32}, {6, 32, 32}}));
  CHECK(counted_in([&] { CHECK(batch()); }).configurations == 1);
}

TEST_CASE("amx: parts give the bits of the whole, and leave no tiles either") {
  NEEDS_TILE_KERNELS();
  for (problem const& p : {product(200, 300, 100), product(70, 900, 64),
                           problem_from("conv2d(x, w, pad=1)" + std::string(bf16_to_f32),
                                        {{1, 20, 20, 64}, {64, 3, 3, 64}})}) {
    ready whole(p, false), parts(p, false);
    std::vector<float> const wanted = whole.run();
    amx::strict_call const strict;
    CHECK(parts.run_in_parts(5) == wanted);
  }
}

namespace {

volatile sig_atomic_t steps = 0;

/// The instructions of f that are no tile instructions, found by the trap flag: the emulator steps over the others.
template <class F>
long other_instructions(F&& f) {
  struct sigaction mine {};
  struct sigaction before {};
  mine.sa_handler = [](int) { steps = steps + 1; };
  ::sigaction(SIGTRAP, &mine, &before);
  steps = 0;
  asm volatile("pushfq\n orq $0x100, (%%rsp)\n popfq" ::: "memory", "cc");
  f();
  asm volatile("pushfq\n andq $~0x100, (%%rsp)\n popfq" ::: "memory", "cc");
  ::sigaction(SIGTRAP, &before, nullptr);
  return steps;
}

}  // namespace

TEST_CASE("amx: at most 2.5 other instructions for each tile product of the inner loop") {
  NEEDS_COUNTS();
  struct blocking {
    extent m, n;
    double most;
  };
  for (blocking const& b :
       {blocking{32, 32, 2.5}, {16, 64, 2.5}, {16, 48, 2.5}, {64, 16, 2.5}, {48, 16, 2.5}}) {
    ready shorter(product(b.m, b.n, 32 * 32)), longer(product(b.m, b.n, 96 * 32));
    long instructions[2] = {};
    std::uint64_t products[2] = {};
    int i = 0;
    for (ready* r : {&shorter, &longer}) {
      products[i] =
          counted_in([&] { instructions[i] = other_instructions([&] { (*r)(); }); }).products();
      ++i;
    }
    double const share = static_cast<double>(instructions[1] - instructions[0]) /
                         static_cast<double>(products[1] - products[0]);
    CHECK(share <= b.most);
    CHECK(share > 0);
    extent const rows = b.m / 16, columns = b.n / 16;
    MESSAGE(rows << " x " << columns << " tiles: " << share
                 << " other instructions for each tile product");
  }
}

TEST_CASE("amx: beside another owner of tiles, in fresh threads, in many at once, after fork") {
  NEEDS_TILE_KERNELS();
  ready call(product(40, 50, 70));
  std::vector<float> const wanted = call.run();
  // Somebody's tiles of another shape: the call takes its own and leaves none.
  alignas(64) amx::configuration foreign;
  foreign.palette = 1;
  foreign.rows[0] = 3;
  foreign.row_bytes[0] = 8;
  asm volatile(".byte 0xc4, 0xe2, 0x78, 0x49, 0x07" ::"D"(&foreign) : "memory");  // LDTILECFG [rdi]
  CHECK(call.run() == wanted);
  if (tiles.how() == amx::mode::emulated) CHECK_FALSE(amx::tiles_configured());
  std::atomic<int> right = 0;
  std::vector<std::thread> pool;
  for (int i = 0; i < 4; ++i)
    pool.emplace_back([&] {
      ready mine(product(40, 50, 70));
      for (int n = 0; n < 3; ++n) right += mine.run() == wanted ? 1 : 0;
    });
  for (std::thread& t : pool) t.join();
  CHECK(right == 12);
  // An invocation that moves from thread to thread, one at a time, as a pool may have it.
  for (int i = 0; i < 3; ++i) std::thread([&] { CHECK(call.run() == wanted); }).join();
  pid_t const child = ::fork();
  if (child == 0) ::_exit(call() && call.run() == wanted && !amx::tiles_configured() ? 0 : 1);
  int how = 0;
  ::waitpid(child, &how, 0);
  CHECK(WIFEXITED(how));
  CHECK(WEXITSTATUS(how) == 0);
  CHECK(amx::configured_threads() == 0);
}

TEST_CASE("amx: an exception that passes through a call's tiles releases them") {
  NEEDS_TILE_KERNELS();
  buffer memory(sizeof(jit::amx_memory));
  auto& own = *new (memory.data()) jit::amx_memory;
  std::vector<std::uint32_t> const words = jit::amx_palette();
  std::memcpy(own.palette, words.data(), sizeof own.palette);
  bool caught = false;
  try {
    jit::tile_scope const scope(own);
    asm volatile(".byte 0xc4, 0xe2, 0x78, 0x49, 0x07" ::"D"(own.palette) : "memory");
    own.configured = 1;
    if (tiles.how() == amx::mode::emulated) CHECK(amx::tiles_configured());
    throw 1;
  } catch (int) {
    caught = true;
  }
  CHECK(caught);
  CHECK_FALSE(amx::tiles_configured());
}

#if SINTER_WITH_ONEDNN
// Where AMX is native, oneDNN has tiles of its own.
TEST_CASE("amx: in turn with oneDNN in the same thread") {
  NEEDS_TILE_KERNELS();
  problem const p = product(40, 50, 70);
  ready ours(p), theirs(p, some_numbers(p, true), onednn_backend());
  std::vector<float> const wanted = ours.run();
  for (int i = 0; i < 3; ++i) {
    CHECK(theirs.run() == wanted);
    amx::strict_call const strict;
    CHECK(ours.run() == wanted);
  }
}
#endif

namespace {

/// A CPU with AMX whose operating system answers a request for tiles with this errno.
class asked_cpu final : public cpu_source {
 public:
  explicit asked_cpu(int error) : error_(error) {}
  cpuid_words cpuid(std::uint32_t leaf, std::uint32_t subleaf) const override {
    return amx::cpu_with_amx().cpuid(leaf, subleaf);
  }
  std::uint64_t xcr0() const override { return amx::cpu_with_amx().xcr0(); }
  int request_amx() const override {
    ++asked;
    return error_;
  }
  mutable int asked = 0;

 private:
  int error_;
};

}  // namespace

TEST_CASE(
    "amx: permission is asked for at the first plan of tiles, once, and where it is refused it is "
    "AVX512-BF16") {
  amx::emulator const tiles;
  if (!tiles.usable()) SINTER_SKIP(tiles.why());
  problem const big = product(256, 256, 256);
  for (auto const& [error, sentence] : {std::pair{0, "model, not measured"},
                                        {EPERM, "not permitted"},
                                        {ENOSPC, "sigaltstack"},
                                        {EINVAL, "Linux 5.16"},
                                        {ENOSYS, "no such request"}}) {
    asked_cpu const source(error);
    cpu_override const cpu(source);
    if (!runs(detected_isa(), isa::amx)) SINTER_SKIP("this CPU has no AVX512-BF16");
    CHECK(jit_backend{}.supports(big));
    built(problem_from("matmul(x, w)", {{256, 256}, {256, 256}}));  // f32 wants no tiles
    built(product(1, 256, 256));                                    // nor does the rule here
    CHECK(source.asked == 0);
    for (int i = 0; i < 2; ++i) {
      std::vector<stage_note> const stages = built(big)->stages();
      CHECK(stages[0].implementation.starts_with(error == 0 ? "jit:amx:" : "jit:avx512_bf16:"));
      CHECK_MESSAGE(stages[0].note.find(sentence) != std::string::npos, stages[0].note);
    }
    CHECK(source.asked == 1);
    problem capped = big;
    capped.max_isa = isa::avx512_bf16;
    CHECK(implementation_of(capped).starts_with("jit:avx512_bf16:"));
    CHECK(built(capped)->stages()[0].note.empty());
  }
}

TEST_CASE("amx: the rules prefer tiles where the model says so") {
  NEEDS_AMX();
  auto const level_for = [](extent m, extent n, extent k, std::string const& w = "w") {
    return implementation_of(product(m, n, k, w)).substr(0, 8);
  };
  CHECK(level_for(512, 512, 512) == "jit:amx:");
  CHECK(level_for(16, 1024, 1024) == "jit:amx:");
  CHECK(level_for(1, 1024, 1024) == "jit:avx5");
  CHECK(level_for(4, 4, 4) == "jit:avx5");
  CHECK(level_for(8, 512, 512, "w:tensor") == "jit:avx5");
  CHECK(level_for(64, 512, 512, "w:tensor") == "jit:amx:");
  for (jit::tile_rule const& r : jit::tile_table) {
    CHECK(r.reason.starts_with("model, not measured"));
    CHECK_FALSE(r.name.empty());
  }
  jit::tile_model const m = jit::model_of({512, 512, 512, false});
  CHECK(m.tiles < m.vectors / 4);
  CHECK(m.tiles >= 16384 * 16);
}

TEST_CASE("amx: a measurement may overrule the rules: the backend has both kernels") {
  NEEDS_AMX();
  for (auto const& [m, first, other] :
       {std::tuple<extent, char const*, char const*>{64, "jit:amx:", "jit:avx512_bf16:"},
        {1, "jit:avx512_bf16:", "jit:amx:"}}) {
    problem const p = product(m, 64, 256);
    CHECK(implementation_of(p).starts_with(first));
    auto const made = jit_backend{}.build_other(p);
    REQUIRE(made);
    CHECK(made->stages()[0].implementation.starts_with(other));
    CHECK(check_kernel(*made, p, {.values = pattern::integers}).ok());
  }
  CHECK_FALSE(jit_backend{}.build_other(problem_from("matmul(x, w)", {{64, 64}, {64, 64}})));
}

TEST_CASE("amx: weights packed for pairs serve tiles where K is whole, and only there") {
  NEEDS_AMX();
  auto const key = [](extent k, jit::tile_choice c) {
    jit::tile_override const chosen(c);
    return built(product(64, 64, k))->layout_key(1);
  };
  CHECK(key(64, jit::tile_choice::tiles) == key(64, jit::tile_choice::vectors));
  CHECK(key(63, jit::tile_choice::tiles) == key(63, jit::tile_choice::vectors));
  CHECK(key(62, jit::tile_choice::tiles) != key(62, jit::tile_choice::vectors));
  CHECK(key(33, jit::tile_choice::tiles) != key(33, jit::tile_choice::vectors));
}

namespace {

/// sums (32 x 32, two vectors a row) += a (rows of k bytes) x b (panels of quads), by a block of 2 x 2 tiles.
struct integer_frame {
  void const* a;
  std::int64_t lda;
  void const* b;
  jit::amx_memory memory;
};

std::shared_ptr<jit::machine_code const> integer_kernel(jit::tile_product kind, extent k) {
  namespace j = jit;
  j::assembler a(isa::avx512);
  auto const g = [](int i) { return j::assembler::general(i); };
  j::amx_registers const r{7, {0, 8, 3, 5}, 9, {2, 12}, 13, 14, 1, 6, 11};
  int const kept[] = {3, 5, 12, 13, 14, 15};
  for (int i : kept) a.push(g(i));
  a.mov(g(r.a[0]), a.qword[g(7) + offsetof(integer_frame, a)]);
  a.mov(g(r.lda), a.qword[g(7) + offsetof(integer_frame, lda)]);
  a.mov(g(r.b[0]), a.qword[g(7) + offsetof(integer_frame, b)]);
  a.mov(g(r.stride64), 64);
  a.mov(g(r.stride128), 128);
  a.mov(g(r.count), k % 64 == 0 ? 0 : (std::uint64_t{1} << (k % 64)) - 1);
  a.kmovq(j::assembler::mask(j::ends_mask), g(r.count));
  a.ldtilecfg(a.table(j::amx_palette()));
  j::tile_amx t(
      a, {2, 2},
      {.kind = kind, .bytes = k, .memory = static_cast<int>(offsetof(integer_frame, memory))}, r);
  t.clear();
  t.multiply();
  t.store();
  a.tilerelease();
  a.vzeroupper();
  for (int i = 6; i-- > 0;) a.pop(g(kept[i]));
  a.ret();
  auto code = j::code_memory::process().publish(a.finish().value());
  REQUIRE(code.ok());
  return *code;
}

}  // namespace

namespace {

/// The same product of bytes as one of bf16, which holds every byte, on a level.
std::vector<float> in_bf16(extent k, std::vector<numbers> const& values, isa level) {
  problem p = product(32, 32, k);
  p.max_isa = level;
  return ready(p, values).run();
}

}  // namespace

// Sums below 2^24 are exact in f32 too, so products of bf16 give the same numbers on every level, and as f32 the same bits.
TEST_CASE("amx: sums of bytes are exact in s32, for each pair of signs and every tail of K") {
  NEEDS_TILE_KERNELS();
  for (jit::tile_product_row const& row : jit::tile_product_table) {
    if (row.element_bytes != 1) continue;
    bool const first_signed = row.code != jit::tile_product::u8_s8,
               second_signed = row.code != jit::tile_product::s8_u8;
    for (extent k : {1, 4, 63, 64, 65, 130, 320, 1000}) {
      std::mt19937 random(static_cast<unsigned>(k));
      std::size_t const depth = static_cast<std::size_t>(k), padded = (depth + 63) / 64 * 64;
      std::vector<std::uint8_t> x(32 * depth), w(depth * 32), panel(padded * 32, 0);
      for (auto* v : {&x, &w})
        for (std::uint8_t& e : *v) e = static_cast<std::uint8_t>(random());
      for (std::size_t i = 0; i < depth; ++i)
        for (std::size_t n = 0; n < 32; ++n) panel[i / 4 * 128 + n * 4 + i % 4] = w[i * 32 + n];
      auto const value = [](std::uint8_t e, bool is_signed) {
        return is_signed ? int{static_cast<std::int8_t>(e)} : int{e};
      };
      buffer memory(sizeof(integer_frame) + 64);
      auto& f = *new (memory.data()) integer_frame{};
      f.a = x.data();
      f.lda = k;
      f.b = panel.data();
      f.memory.block_rows = 32;
      auto const code = integer_kernel(row.code, k);
      {
        amx::strict_call const strict;
        code->entry<void (*)(integer_frame*)>()(&f);
      }
      std::vector<float> sums;
      for (std::size_t i = 0; i < 32; ++i)
        for (std::size_t n = 0; n < 32; ++n) {
          std::int32_t wanted = 0, given = 0;
          for (std::size_t d = 0; d < depth; ++d)
            wanted += value(x[i * depth + d], first_signed) * value(w[d * 32 + n], second_signed);
          std::memcpy(&given, f.memory.sums + (i * 32 + n) * 4, 4);
          CHECK(given == wanted);
          sums.push_back(static_cast<float>(given));
        }
      if (k * 255 * 128 >= 1 << 24) continue;
      std::vector<numbers> values(2);
      for (std::uint8_t e : x)
        values[0].push_back(to_bfloat16(static_cast<float>(value(e, first_signed))));
      for (std::uint8_t e : w)
        values[1].push_back(to_bfloat16(static_cast<float>(value(e, second_signed))));
      CHECK(in_bf16(k, values, isa::amx) == sums);
      for (isa level : jit_levels()) CHECK(in_bf16(k, values, level) == sums);
    }
  }
}

TEST_CASE("amx: AMX-FP16 and AVX10.2 are known by name and refused with a sentence") {
  for (isa level : {isa::amx_fp16, isa::avx10_2}) {
    verdict const v = allows(features_of(level), level);
    CHECK_FALSE(v);
    CHECK(v.reason == "sinter: " + std::string(name_of(level)) +
                          " is known by name, but Sinter has no kernels for it");
  }
}
