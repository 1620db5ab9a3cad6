// Every emitter against the oracle: all bf16 values, a dense sample of f32 and every exponent with
// its neighbours; in the long test all 2^32 values. The largest error of each is printed as a row
// of docs/precision.md's table.
#include <doctest/doctest.h>
#include <immintrin.h>

#include <sinter/plan/parse.hpp>
#include "support/skip.hpp"

#include "unary_judge.hpp"

using namespace sinter;
using namespace sinter_test;

namespace {

/// The defaults of each row, and what its parameters can do besides.
std::vector<unary_case> unary_cases() {
  std::vector<unary_case> cases;
  for (op_row const& row : op_table)
    if (row.kind == op_class::unary && row.code != op::clip)
      cases.push_back({row.code, row.alpha, row.beta});
  for (unary_case c : std::initializer_list<unary_case>{{op::clip, 0, 6},
                                                        {op::clip, -1.5F, 2},
                                                        {op::clip, 2, 2},
                                                        {op::leaky_relu, -0.5F},
                                                        {op::leaky_relu, 0},
                                                        {op::leaky_relu, 2},
                                                        {op::elu, 0.5F},
                                                        {op::elu, -1},
                                                        {op::swish, 1.702F},
                                                        {op::swish, -1},
                                                        {op::swish, 0},
                                                        {op::softplus, 2},
                                                        {op::softplus, -1},
                                                        {op::softplus, 0.5F},
                                                        {op::hardswish, 0.2F, 0.5F},
                                                        {op::hardswish, -0.25F, 0.5F},
                                                        {op::hardsigmoid, 0.2F, 0.5F},
                                                        {op::linear, 2, 3},
                                                        {op::linear, 0, 1},
                                                        {op::linear, -1.5F, 0.25F},
                                                        {op::pow, 1, 2},
                                                        {op::pow, 2, 3},
                                                        {op::pow, 1, 0.5F},
                                                        {op::pow, 1, -1},
                                                        {op::pow, 1, -0.5F},
                                                        {op::pow, 1, 2.5F},
                                                        {op::pow, 3, 0},
                                                        {op::pow, 1, 11},
                                                        {op::pow, 1, -3},
                                                        {op::pow, 1, -9},
                                                        {op::pow, 1, 8},
                                                        {op::pow, 1, 0.1F},
                                                        {op::pow, -2, 100.5F},
                                                        {op::pow, 1, 3001},
                                                        {op::pow, 1, 1e30F},
                                                        {op::pow, 1, -2.5F},
                                                        {op::pow, 1, -1.0F / 3},
                                                        {op::pow, 2, 9}})
    cases.push_back(c);
  return cases;
}

/// Runs the emitter over bits first, first + stride, ... (count of them, in f32).
void sweep(unary_case const& c, pointwise_loop const& loop, std::uint32_t first,
           std::uint32_t stride, std::size_t count, worst& w) {
  constexpr std::size_t block = 4096;
  std::vector<float> in(block), out(block);
  std::vector<double> want(block);
  for (std::size_t done = 0; done < count; done += block) {
    for (std::size_t i = 0; i < block; ++i)
      in[i] = std::bit_cast<float>(first + static_cast<std::uint32_t>(done + i) * stride);
    loop.run({in.data()}, {out.data()}, block / 16);
    exact(c, in, want);
    for (std::size_t i = 0; i < block; ++i) judge(c, in[i], out[i], want[i], w);
  }
}

std::vector<float> edges() {
  std::vector<float> v;
  for (std::uint32_t sign : {0U, 0x80000000U})
    for (std::uint32_t exponent = 0; exponent <= 255; ++exponent)
      for (std::uint32_t fraction :
           {0U, 1U, 2U, 0x3fffffU, 0x400000U, 0x400001U, 0x7ffffeU, 0x7fffffU})
        v.push_back(std::bit_cast<float>(sign | (exponent << 23) | fraction));
  for (double x : {88.0, 88.72283, 88.7229, 87.33654, 89.0, 90.0, 103.97, 104.0, 9.01, 1e4, 0.36,
                   3.0, 2.9999, 10.8, 10.9, 13.0, 14.5, 5.0, 1.0})
    for (double s : {1.0, -1.0}) v.push_back(static_cast<float>(s * x));
  while (v.size() % 16 != 0) v.push_back(0);
  return v;
}

}  // namespace

TEST_CASE("unary emitters: a dense sample of f32, every exponent") {
  if (levels_here().empty()) SINTER_SKIP("this CPU has no AVX2");
  for (isa level : levels_here()) {
    if (level == isa::avx512_bf16) continue;  // the same code as avx512
    for (unary_case const& c : unary_cases()) {
      pointwise_loop const loop(one_step(c.code, c.alpha, c.beta, {dtype::f32}, dtype::f32), level,
                                vectors_in_16(level));
      worst w;
      sweep(c, loop, 0, 4099, std::size_t{1} << 20, w);
      std::vector<float> const in = edges();
      std::vector<float> out(in.size());
      loop.run({in.data()}, {out.data()}, in.size() / 16);
      for (std::size_t i = 0; i < in.size(); ++i) judge(c, in[i], out[i], exact(c, in[i]), w);
      report(c, level, w);
    }
  }
}

namespace {

/// Results stored as bf16: half a unit of bf16 (2^15 units of f32) and the emitter's own error.
struct bf16_judge {
  unary_case c;
  isa level;
  int wrong = 0;
  std::string first;

  void operator()(float x, float got, double want) {
    jit::error_bound const bound = jit::eltwise_of(c.code).error;
    bool right = false;
    if (std::isnan(want) || std::isnan(got)) {
      right = std::isnan(want) && std::isnan(got);
    } else {
      double own = below(c, x) ? static_cast<double>(bound.relative) * 0x1p24 + 4
                               : static_cast<double>(bound.ulp);
      if (jit::has_masks(level)) own = std::max(own, static_cast<double>(bound.for_bf16) * 0x1p24);
      right = ulps(got, want) <= 0x8000 + own;
      bool const flushes = includes(level, isa::avx512_bf16);
      if (flushes && std::abs(want) < 0x1p-126 * (1 + 0x1p-9))
        right = right || got == 0 || std::abs(got) == 0x1p-126F;
      if (got == 0) right = right && std::signbit(got) == std::signbit(want);
    }
    if (!right && wrong++ == 0)
      first =
          std::to_string(x) + ": " + std::to_string(got) + " instead of " + std::to_string(want);
  }
};

}  // namespace

TEST_CASE("unary emitters: all bf16 inputs, bf16 outputs") {
  if (levels_here().empty()) SINTER_SKIP("this CPU has no AVX2");
  std::vector<bfloat16> in(65536), out(65536);
  for (std::size_t i = 0; i < in.size(); ++i) in[i].bits = static_cast<std::uint16_t>(i);
  for (isa level : levels_here())
    for (unary_case const& c : unary_cases()) {
      pointwise_loop const loop(one_step(c.code, c.alpha, c.beta, {dtype::bf16}, dtype::bf16),
                                level, vectors_in_16(level));
      loop.run({in.data()}, {out.data()}, in.size() / 16);
      bf16_judge judge{c, level, 0, {}};
      for (std::size_t i = 0; i < in.size(); ++i)
        judge(to_float(in[i]), to_float(out[i]), exact(c, to_float(in[i])));
      CHECK_MESSAGE(judge.wrong == 0, title(c, level), " wrong ", judge.wrong, " times, first at ",
                    judge.first);
    }
}

TEST_CASE("short forms for bf16 stores: a dense sample of f32") {
  if (levels_here().empty()) SINTER_SKIP("this CPU has no AVX2");
  for (isa level : levels_here())
    for (op_row const& row : op_table) {
      if (row.kind != op_class::unary || jit::eltwise_of(row.code).error.for_bf16 == 0) continue;
      unary_case const c{row.code, row.alpha, row.beta};
      pointwise_loop const loop(one_step(c.code, c.alpha, c.beta, {dtype::f32}, dtype::bf16), level,
                                vectors_in_16(level));
      constexpr std::size_t count = std::size_t{1} << 21;
      std::vector<float> in(count);
      std::vector<bfloat16> out(count);
      for (std::size_t i = 0; i < count; ++i)
        in[i] = std::bit_cast<float>(static_cast<std::uint32_t>(i) * 2039U);
      loop.run({in.data()}, {out.data()}, count / 16);
      bf16_judge judge{c, level, 0, {}};
      for (std::size_t i = 0; i < count; ++i) judge(in[i], to_float(out[i]), exact(c, in[i]));
      CHECK_MESSAGE(judge.wrong == 0, title(c, level), " wrong ", judge.wrong, " times, first at ",
                    judge.first);
    }
}

namespace {

/// gelu_tanh in steps.
constexpr char const* spelt_out[] = {
    "mul(x, x) | mul(%0, x) | mul(%1, 0.044715) | add(x, %2) | mul(%3, 0.79788456) | tanh | "
    "add(%5, 1) | mul(x, 0.5) | mul(%7, %6)",
    "square(x) | mul(%0, 0.03567741) | add(%1, 0.79788456) | mul(%2, x) | tanh | mul(%4, 0.5) | "
    "add(%5, 0.5) | mul(%6, x)",
    "square(x) | mul(%0, x) | fma(%1, 0.044715, x) | mul(%2, 0.7978845) | tanh | mul(x, 0.5) | "
    "fma(%4, %5, %5)",
    "neg(x) | square(%0) | mul(%1, %0) | linear(%2, 0.044715, 0) | sub(%3, x) | "
    "linear(%4, -0.79788456, 0) | tanh | linear(%6, 0.5, 0.5) | mul(%7, x)"};
/// Nearly so: another constant, another power, a part that is rounded or read elsewhere.
constexpr char const* not_quite[] = {
    "mul(x, x) | mul(%0, x) | mul(%1, 0.0447) | add(x, %2) | mul(%3, 0.79788456) | tanh | "
    "add(%5, 1) | mul(x, 0.5) | mul(%7, %6)",
    "mul(x, x) | mul(%0, %0) | mul(%1, 0.044715) | add(x, %2) | mul(%3, 0.79788456) | tanh | "
    "add(%5, 1) | mul(x, 0.5) | mul(%7, %6)",
    "mul(x, x) | mul(%0, x) | mul(%1, 0.044715) | add(x, %2) | mul(%3, 0.79788456) | tanh | "
    "add(%5, 1) | cast<bf16> | mul(x, 0.5) | mul(%8, %7)",
    "mul(x, x) | mul(%0, x) | mul(%1, 0.044715) | add(x, %2) | mul(%3, 0.79788456) | tanh | "
    "add(%5, 1) | mul(x, 0.5) | mul(%7, %6) | mul(%8, %5)"};

}  // namespace

TEST_CASE("gelu_tanh spelt out costs what the op costs and gives what it gives; NaN of -Inf") {
  if (levels_here().empty()) SINTER_SKIP("this CPU has no AVX2");
  constexpr std::size_t count = std::size_t{1} << 17;
  std::vector<float> in(count);
  for (std::size_t i = 0; i < count; ++i)
    in[i] = std::bit_cast<float>(static_cast<std::uint32_t>(i) << 15 | 0x1234U);
  in[7] = -std::numeric_limits<float>::infinity();
  in[8] = -3e38F;
  for (isa level : levels_here())
    for (char const* precision : {" [f32]", " [f32 f32 f32 f32 f32 bf16]"}) {
      auto const compute = [&](std::string const& text, std::size_t& bytes) {
        chain const c = parse_chain(text + precision).value();
        pointwise_loop const loop(c, level, vectors_in_16(level));
        bytes = loop.code_bytes();
        std::vector<float> out(count);
        std::vector<bfloat16> narrow(count);
        bool const wide = c.outputs[0].type == dtype::f32;
        loop.run({in.data()}, {wide ? static_cast<void*>(out.data()) : narrow.data()}, count / 16);
        for (std::size_t i = 0; i < count && !wide; ++i) out[i] = to_float(narrow[i]);
        return out;
      };
      std::size_t op_bytes = 0, bytes = 0;
      std::vector<float> const want = compute("gelu_tanh(x)", op_bytes);
      for (char const* text : spelt_out) {
        CAPTURE(std::string(text));
        CAPTURE(std::string(name_of(level)));
        std::vector<float> const got = compute(text, bytes);
        CHECK(bytes <= op_bytes);
        CHECK(std::isnan(got[7]));
        int wrong = 0;
        for (std::size_t i = 0; i < count; ++i)
          if (i != 7 &&
              std::bit_cast<std::uint32_t>(got[i]) != std::bit_cast<std::uint32_t>(want[i]))
            ++wrong;
        CHECK(wrong == 0);
      }
      for (char const* text : not_quite) {
        CAPTURE(std::string(text));
        compute(text, bytes);
        CHECK(bytes > op_bytes);
      }
    }
}

namespace {

double exact(op code, float x, float y, float z) {
  double r = 0;
  visit_pointwise(code, [&]<op Code>() {
    r = meaning<Code>(static_cast<double>(x), static_cast<double>(y), static_cast<double>(z), 0.0,
                      0.0);
  });
  return r;
}

/// Every pair (triple) of these meets every lane.
std::vector<float> telling_values() {
  float const inf = std::numeric_limits<float>::infinity(),
              nan = std::numeric_limits<float>::quiet_NaN();
  return {0.0F,      -0.0F,      1,   -1,   2,   0.5F, -3.25F, 1 + 0x1p-9F, 1e30F, -1e30F,
          0x1p-149F, -0x1p-130F, inf, -inf, nan, -nan, 7};
}

}  // namespace

TEST_CASE(
    "binary and ternary emitters: every combination of telling values, f32 and bf16 arguments") {
  if (levels_here().empty()) SINTER_SKIP("this CPU has no AVX2");
  std::vector<float> const v = telling_values();
  std::vector<float> a, b, c;
  for (float x : v)
    for (float y : v)
      for (float z : v) a.push_back(x), b.push_back(y), c.push_back(z);
  for (std::uint32_t i = 0; a.size() % 16 != 0 || i < 4096; ++i) {  // and ordinary numbers
    a.push_back(static_cast<float>(static_cast<int>(i * 2654435761U)) * 0x1p-20F);
    b.push_back(static_cast<float>(static_cast<int>(i * 40503U + 77)) * 0x1p-10F);
    c.push_back(static_cast<float>(static_cast<int>(i * 2246822519U)) * 0x1p-25F);
  }
  for (dtype type : {dtype::f32, dtype::bf16}) {
    std::vector<float> wide_b = b;
    std::vector<bfloat16> narrow_b;
    for (float& y : wide_b) {
      y = round_to(type, y);
      narrow_b.push_back(to_bfloat16(y));
    }
    void const* const b_data =
        type == dtype::f32 ? static_cast<void const*>(wide_b.data()) : narrow_b.data();
    for (isa level : levels_here()) {
      for (op_row const& row : op_table) {
        if (row.kind != op_class::binary && row.kind != op_class::ternary) continue;
        std::vector<dtype> types(static_cast<std::size_t>(row.arity), dtype::f32);
        types[1] = type;
        pointwise_loop const loop(one_step(row.code, 0, 0, types, dtype::f32), level,
                                  vectors_in_16(level));
        std::vector<float> out(a.size());
        std::vector<void const*> in{a.data(), b_data};
        if (row.arity == 3) in.push_back(c.data());
        loop.run(in, {out.data()}, a.size() / 16);
        int wrong = 0;
        std::string first;
        for (std::size_t i = 0; i < a.size(); ++i) {
          auto const want = static_cast<float>(exact(row.code, a[i], wide_b[i], c[i]));
          bool const same = std::isnan(want) ? std::isnan(out[i])
                                             : std::bit_cast<std::uint32_t>(want) ==
                                                   std::bit_cast<std::uint32_t>(out[i]);
          if (!same && wrong++ == 0)
            first = std::to_string(a[i]) + ", " + std::to_string(wide_b[i]) + ", " +
                    std::to_string(c[i]) + ": " + std::to_string(out[i]) + " instead of " +
                    std::to_string(want);
        }
        CHECK_MESSAGE(wrong == 0, name_of(row.code), " ", name_of(level), " wrong ", wrong,
                      " times, first at ", first);
      }
    }
  }
}

TEST_CASE("stores and casts: every bf16 tie, f16, NaN payloads, denormals") {
  if (levels_here().empty()) SINTER_SKIP("this CPU has no AVX2");
  std::vector<float> in;
  for (std::uint32_t high = 0; high <= 0xffff; ++high)
    for (std::uint32_t low : {0U, 1U, 0x7fffU, 0x8000U, 0x8001U, 0xffffU})
      in.push_back(std::bit_cast<float>((high << 16) | low));
  for (std::uint32_t i = 0; i <= 0xffff; ++i) {  // binary16 values, ties between them, neighbours
    float const x = to_float(float16{static_cast<std::uint16_t>(i)});
    auto const bits = std::bit_cast<std::uint32_t>(x);
    for (std::uint32_t low : {0U, 0xfffU, 0x1000U, 0x1001U})
      in.push_back(std::bit_cast<float>(bits | low));
  }
  std::size_t const n = in.size();
  REQUIRE(n % 16 == 0);
  for (isa level : levels_here()) {
    for (dtype type : {dtype::bf16, dtype::f16}) {
      bool const flushes = type == dtype::bf16 && includes(level, isa::avx512_bf16);
      std::vector<std::uint16_t> stored(n);
      std::vector<float> cast(n);
      pointwise_loop const store(one_step(op::abs, 0, 0, {dtype::f32}, type), level,
                                 vectors_in_16(level));
      store.run({in.data()}, {stored.data()}, n / 16);
      chain c = one_step(op::cast, 0, 0, {dtype::f32}, dtype::f32);
      c.steps[0].to = type;
      pointwise_loop const round(c, level, vectors_in_16(level));
      round.run({in.data()}, {cast.data()}, n / 16);
      int wrong = 0;
      for (std::size_t i = 0; i < n; ++i) {
        float const want = round_to(type, in[i]);
        float const got =
            type == dtype::bf16 ? to_float(bfloat16{stored[i]}) : to_float(float16{stored[i]});
        auto const same = [&](float g, float w) {
          if (std::isnan(w)) return std::isnan(g);
          if (flushes && std::abs(in[i]) < 0x1p-126F)
            return g == 0 && std::signbit(g) == std::signbit(w);
          return std::bit_cast<std::uint32_t>(g) == std::bit_cast<std::uint32_t>(w);
        };
        if (!same(got, std::abs(want)) || !same(cast[i], want)) ++wrong;
      }
      CHECK_MESSAGE(wrong == 0, name_of(type), " ", name_of(level), " wrong ", wrong, " times");
    }
  }
}

TEST_CASE("the rounding mode and flushing of the caller are kept, and results stay close") {
  if (levels_here().empty()) SINTER_SKIP("this CPU has no AVX2");
  std::vector<float> in;
  for (int i = 0; i < 4096; ++i) in.push_back(static_cast<float>(i - 2048) / 128);
  in[5] = std::numeric_limits<float>::quiet_NaN();
  unsigned const before = _mm_getcsr();
  constexpr unsigned flags = 0x3f, modes = 0xe040, toward_zero = 0x6000, up = 0x4000,
                     flush = 0x8040;
  for (isa level : levels_here())
    for (unary_case const& c : unary_cases())
      for (unsigned mode : {toward_zero | flush, up}) {
        pointwise_loop const loop(one_step(c.code, c.alpha, c.beta, {dtype::f32}, dtype::f32),
                                  level, vectors_in_16(level));
        std::vector<float> out(in.size());
        unsigned const set = ((before & ~modes) | mode) & ~flags;
        _mm_setcsr(set);
        loop.run({in.data()}, {out.data()}, in.size() / 16);
        unsigned const after = _mm_getcsr();
        _mm_setcsr(before);
        CHECK(set == (after & ~flags));
        int wrong = 0;
        for (std::size_t i = 0; i < in.size(); ++i) {
          double const want = exact(c, in[i]), got = static_cast<double>(out[i]);
          bool const close = std::isnan(want) ? std::isnan(got)
                             : !(std::abs(want) < 0x1p127)
                                 ? std::copysign(got, want) == got && std::abs(got) > 0x1p126
                                 : std::abs(got - want) <= 0x1p-9 * std::abs(want) + 0x1p-20;
          wrong += close ? 0 : 1;
        }
        CHECK_MESSAGE(wrong == 0, title(c, level), " mode ", mode, " wrong ", wrong, " times");
      }
}
