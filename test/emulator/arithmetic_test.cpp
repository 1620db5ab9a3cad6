// Tile products against a model that shares nothing with the emulator: TDPBF16PS in integers only,
// the integer products element by element. Where AMX is native, this holds the CPU to the model.
#include <immintrin.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include "emitted_code.hpp"

using namespace sinter_test;
using namespace sinter_test::amx;

namespace {

// ---- the model of one fused multiply-add of floats, on their bits

constexpr std::uint32_t sign_bit = 0x80000000U, infinity = 0x7f800000U, any_nan = 0x7fc00000U;
constexpr bool is_nan(std::uint32_t v) { return (v & ~sign_bit) > infinity; }
constexpr bool is_infinite(std::uint32_t v) { return (v & ~sign_bit) == infinity; }
constexpr bool is_zero(std::uint32_t v) { return (v & ~sign_bit) < 0x00800000U; }  // or denormal

/// magnitude * 2^exponent
struct number {
  bool negative;
  std::uint64_t magnitude;
  int exponent;
};
constexpr number unpack(std::uint32_t v) {
  bool const negative = (v & sign_bit) != 0;
  if (is_zero(v)) return {negative, 0, 0};
  return {negative, (v & 0x007fffffU) | 0x00800000U, static_cast<int>((v >> 23) & 255) - 150};
}
constexpr int top(number const& n) { return n.exponent + 63 - std::countl_zero(n.magnitude); }

/// Shifted so that its exponent is `exponent`; what is lost to the right stays visible in bit 0.
constexpr std::uint64_t aligned(number const& n, int exponent) {
  int const right = exponent - n.exponent;
  if (right <= 0) return n.magnitude << -right;
  if (right > 63) return n.magnitude != 0 ? 1 : 0;
  std::uint64_t const lost = n.magnitude & ((std::uint64_t{1} << right) - 1);
  return (n.magnitude >> right) | (lost != 0 ? 1U : 0U);
}

/// To 24 bits, nearest even, as if exponents had no end; then too large is infinite, too small 0.
constexpr std::uint32_t rounded(number const& n) {
  std::uint32_t const sign = n.negative ? sign_bit : 0;
  if (n.magnitude == 0) return sign;
  int exponent = top(n) - 23;
  std::uint64_t const three_more = aligned(n, exponent - 3);
  std::uint64_t mantissa = three_more >> 3;
  std::uint64_t const rest = three_more & 7;
  if (rest > 4 || (rest == 4 && (mantissa & 1) != 0)) ++mantissa;
  if (mantissa == 0x1000000) {
    mantissa >>= 1;
    ++exponent;
  }
  int const biased = exponent + 150;
  if (biased >= 255) return sign | infinity;
  if (biased <= 0) return sign;
  return sign | static_cast<std::uint32_t>(biased) << 23 |
         (static_cast<std::uint32_t>(mantissa) & 0x007fffffU);
}

constexpr std::uint32_t model_fma(std::uint32_t a, std::uint32_t b, std::uint32_t c) {
  if (is_nan(a) || is_nan(b) || is_nan(c)) return any_nan;
  std::uint32_t const product_sign = (a ^ b) & sign_bit;
  if (is_infinite(a) || is_infinite(b)) {
    if (is_zero(a) || is_zero(b)) return any_nan;
    if (is_infinite(c) && (c & sign_bit) != product_sign) return any_nan;
    return product_sign | infinity;
  }
  if (is_infinite(c)) return c;
  number const x = unpack(a), y = unpack(b), z = unpack(c);
  number const p{product_sign != 0, x.magnitude * y.magnitude, x.exponent + y.exponent};
  if (p.magnitude == 0 && z.magnitude == 0) return p.negative && z.negative ? sign_bit : 0;
  if (p.magnitude == 0) return rounded(z);
  if (z.magnitude == 0) return rounded(p);
  // The larger one's highest bit at 61: neither a sum nor what is shifted out goes wrong.
  int const exponent = (std::max)(top(p), top(z)) - 61;
  std::uint64_t const u = aligned(p, exponent), v = aligned(z, exponent);
  if (p.negative == z.negative) return rounded({p.negative, u + v, exponent});
  if (u == v) return 0;
  return rounded({u > v ? p.negative : z.negative, u > v ? u - v : v - u, exponent});
}
constexpr std::uint32_t one = 0x3f800000U;
constexpr std::uint32_t model_add(std::uint32_t a, std::uint32_t b) { return model_fma(a, one, b); }

// ---- tiles

using words = std::array<std::uint32_t, 256>;  ///< 16 rows of 16 dwords
struct operands {
  int m = 16, n = 16, k = 16;
  words sums{}, first{}, second{};
};

template <class Element>
std::array<Element, 4 / sizeof(Element)> split(std::uint32_t word) {
  return std::bit_cast<std::array<Element, 4 / sizeof(Element)>>(word);
}

std::uint32_t model_bf16(operands const& o, std::size_t m, std::size_t n) {
  std::uint32_t sum[2] = {0, 0};
  for (std::size_t k = 0; k < static_cast<std::size_t>(o.k); ++k)
    for (std::size_t i = 0; i < 2; ++i)
      sum[i] = model_fma(
          static_cast<std::uint32_t>(split<std::uint16_t>(o.first[16 * m + k])[i]) << 16,
          static_cast<std::uint32_t>(split<std::uint16_t>(o.second[16 * k + n])[i]) << 16, sum[i]);
  return model_add(o.sums[16 * m + n], model_add(sum[0], sum[1]));
}
template <class First, class Second>
std::uint32_t model_int8(operands const& o, std::size_t m, std::size_t n) {
  std::int64_t sum = static_cast<std::int32_t>(o.sums[16 * m + n]);
  for (std::size_t k = 0; k < static_cast<std::size_t>(o.k); ++k)
    for (std::size_t i = 0; i < 4; ++i)
      sum += std::int64_t{split<First>(o.first[16 * m + k])[i]} *
             std::int64_t{split<Second>(o.second[16 * k + n])[i]};
  return static_cast<std::uint32_t>(sum);  // modulo 2^32
}

struct product_kind {
  char const* name;
  void (*emit)(assembler&);
  std::uint32_t (*model)(operands const&, std::size_t, std::size_t);
};
constexpr product_kind kinds[] = {
    {"tdpbf16ps", [](assembler& a) { a.tdpbf16ps(tmm(0), tmm(1), tmm(2)); }, model_bf16},
    {"tdpbssd", [](assembler& a) { a.tdpbssd(tmm(0), tmm(1), tmm(2)); },
     model_int8<std::int8_t, std::int8_t>},
    {"tdpbsud", [](assembler& a) { a.tdpbsud(tmm(0), tmm(1), tmm(2)); },
     model_int8<std::int8_t, std::uint8_t>},
    {"tdpbusd", [](assembler& a) { a.tdpbusd(tmm(0), tmm(1), tmm(2)); },
     model_int8<std::uint8_t, std::int8_t>},
    {"tdpbuud", [](assembler& a) { a.tdpbuud(tmm(0), tmm(1), tmm(2)); },
     model_int8<std::uint8_t, std::uint8_t>},
};
product_kind const& bf16 = kinds[0];

/// Loads all three, multiplies, stores: in one trap.
words multiply(product_kind const& kind, operands const& o) {
  emitted const code([&](assembler& a) {
    a.mov(a.rax, 64);
    a.ldtilecfg(a.ptr[a.rdi]);
    a.tileloadd(tmm(0), a.ptr[a.rsi + a.rax]);
    a.tileloadd(tmm(1), a.ptr[a.rdx + a.rax]);
    a.tileloaddt1(tmm(2), a.ptr[a.rcx + a.rax]);
    kind.emit(a);
    a.tilestored(a.ptr[a.rsi + a.rax], tmm(0));
    a.tilerelease();
  });
  configuration const c = tiles_for(o.m, o.n, o.k);
  words result = o.sums;
  code(&c, result.data(), o.first.data(), o.second.data());
  return result;
}

void check(product_kind const& kind, operands const& o) {
  words const got = multiply(kind, o);
  bool const is_float = &kind == &bf16;
  int wrong = 0;
  for (std::size_t m = 0; m < 16; ++m)
    for (std::size_t n = 0; n < 16; ++n) {
      bool const inside = m < static_cast<std::size_t>(o.m) && n < static_cast<std::size_t>(o.n);
      std::uint32_t const wanted = inside ? kind.model(o, m, n) : o.sums[16 * m + n];
      std::uint32_t const given = got[16 * m + n];
      // Of a NaN only its kind is promised: quiet.
      bool const both_nan = is_float && inside && is_nan(wanted) && (given & any_nan) == any_nan;
      if (given == wanted || both_nan) continue;
      if (++wrong > 3) return;
      CAPTURE(kind.name);
      CAPTURE(m);
      CAPTURE(n);
      CAPTURE(given);
      CHECK(given == wanted);
    }
  CHECK(wrong == 0);
}

constexpr std::uint16_t bf(float v) {
  return static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(v) >> 16);
}
constexpr std::uint32_t pair(std::uint16_t even, std::uint16_t odd) {
  return even | static_cast<std::uint32_t>(odd) << 16;
}
constexpr std::uint32_t bits(float v) { return std::bit_cast<std::uint32_t>(v); }

/// One element: c + the products of two lists of pairs.
float dot(std::uint32_t c, std::initializer_list<std::uint32_t> a,
          std::initializer_list<std::uint32_t> b) {
  operands o{.m = 1, .n = 1, .k = static_cast<int>(a.size())};
  o.sums[0] = c;
  std::copy(a.begin(), a.end(), o.first.begin());
  for (std::size_t k = 0; k < b.size(); ++k) o.second[16 * k] = b.begin()[k];
  words const r = multiply(bf16, o);
  CHECK((r[0] == bf16.model(o, 0, 0) || is_nan(r[0])));
  return std::bit_cast<float>(r[0]);
}

constexpr std::uint16_t special_bf16[] = {
    0x0000, 0x8000, 0x0001, 0x807f, 0x0080, 0x8080, 0x0081, 0x00ff,  // zero, denormal, smallest
    0x3f80, 0xbf80, 0x3f81, 0x3fff, 0xbf81, 0x4040, 0x3eab, 0xc2f7,  // about 1
    0x7f7f, 0xff7f, 0x7f80, 0xff80, 0x7fc0, 0xffc1, 0x7f81, 0xffa0,  // largest, Inf, NaN
    0x5f80, 0xdf80, 0x2000, 0xa000, 0x1fff, 0x2080, 0x6080, 0x0100,  // products at both ends
};
constexpr std::uint32_t special_f32[] = {
    0x00000000U, 0x80000000U, 0x00000001U, 0x807fffffU, 0x00800000U, 0x80800000U, 0x00800001U,
    0x80ffffffU, 0x3f800000U, 0xbf800001U, 0x7f7fffffU, 0xff7fffffU, 0x7f800000U, 0xff800000U,
    0x7fc00000U, 0xff800001U, 0x7f000000U, 0xff000000U, 0x33800000U, 0xb3800001U,
};

}  // namespace

TEST_CASE("the model itself, on values known by hand") {
  auto const fma = [](float a, float b, float c) {
    return std::bit_cast<float>(model_fma(bits(a), bits(b), bits(c)));
  };
  static_assert(model_add(bits(1.5F), bits(2.25F)) == bits(3.75F));
  CHECK(fma(3, 5, 7) == 22);
  CHECK(fma(0x1p64F, 0x1p64F, -0x1p127F) == 0x1p127F);  // the product alone is infinite
  CHECK(fma(1, 0x1p-24F, 1) == 1);                      // a tie: to even
  CHECK(fma(1, 0x1p-24F, 1 + 0x1p-23F) == 1 + 0x1p-22F);
  CHECK(fma(0x1p-100F, 0x1p-60F, 1) == 1);
  CHECK(fma(-0x1p-100F, 0x1p-20F, 1) == 1);
  CHECK(fma(-1, 0x1p-25F, 1) == 1);  // below 1 the tie is at 2^-25
  CHECK(fma(-1, 0x1.8p-25F, 1) == 1 - 0x1p-24F);
  CHECK(model_fma(bits(-1.0F), bits(1.0F), bits(1.0F)) == 0);
  CHECK(model_fma(bits(-0.0F), bits(1.0F), bits(-0.0F)) == sign_bit);
  CHECK(model_fma(0x00000001U, bits(0x1p100F), 0) == 0);              // a denormal is 0
  CHECK(model_fma(bits(0x1p-100F), bits(-0x1p-27F), 0) == sign_bit);  // and so is a denormal result
  CHECK(model_fma(bits(-0x1p-100F), bits(0x1p-70F), 0x00800000U) == 0x00800000U);
  CHECK(model_fma(infinity, bits(-2.0F), bits(1.0F)) == (infinity | sign_bit));
  CHECK(is_nan(model_fma(infinity, 0, bits(1.0F))));
  CHECK(is_nan(model_fma(infinity, one, infinity | sign_bit)));
  CHECK(model_fma(bits(0x1p100F), bits(0x1p27F), bits(0x1p127F)) == infinity);
  // Against the CPU, where neither denormals nor NaN are in play.
  std::mt19937 random(5);
  for (int i = 0; i < 100000; ++i) {
    auto const value = [&] {
      return static_cast<std::uint32_t>((random() & 0x807fffffU) + ((107 + random() % 41) << 23));
    };
    std::uint32_t const a = value() & 0xffff0000U, b = value() & 0xffff0000U, c = value();
    float const exact =
        std::fma(std::bit_cast<float>(a), std::bit_cast<float>(b), std::bit_cast<float>(c));
    REQUIRE(model_fma(a, b, c) == bits(exact));
  }
}

TEST_CASE("tdpbf16ps: orders, fused products and ends of the range, by hand") {
  NEEDS_TILES();
  std::uint16_t const zero = 0, unit = bf(1);
  // The even and the odd sum meet before the accumulator does: 1 + 2^-24 is 1, then 1 - 1 is 0.
  CHECK(dot(bits(-1.0F), {pair(unit, unit)}, {pair(unit, bf(0x1p-24F))}) == 0);
  // Even products are added up apart from odd ones: each 2^-24 would be lost beside 1.
  CHECK(dot(0, {pair(unit, unit), pair(zero, unit)},
            {pair(unit, bf(0x1p-24F)), pair(zero, bf(0x1p-24F))}) == 1 + 0x1p-23F);
  // Order of K: 1 first loses both.
  CHECK(dot(0, {pair(unit, 0), pair(unit, 0), pair(unit, 0)},
            {pair(unit, 0), pair(bf(0x1p-24F), 0), pair(bf(0x1p-24F), 0)}) == 1);
  CHECK(dot(0, {pair(unit, 0), pair(unit, 0), pair(unit, 0)},
            {pair(bf(0x1p-24F), 0), pair(bf(0x1p-24F), 0), pair(unit, 0)}) == 1 + 0x1p-23F);
  // Fused: a product beyond the range does not overflow before the addition, nor does it underflow.
  std::uint16_t const huge = bf(0x1p64F), tiny = bf(0x1p-70F);
  CHECK(dot(0, {pair(bf(-0x1p63F), 0), pair(huge, 0)}, {pair(huge, 0), pair(huge, 0)}) == 0x1p127F);
  CHECK(dot(0, {pair(bf(0x1p-63F), 0), pair(bf(0x1p-64F), 0)},
            {pair(bf(0x1p-63F), 0), pair(bf(0x1p-63F), 0)}) == 0x1.8p-126F);
  CHECK(dot(bits(0x1p127F), {pair(huge, 0)}, {pair(huge, 0)}) ==
        std::numeric_limits<float>::infinity());
  // Denormal results are zero at each step: two halves of the smallest normal number are none.
  CHECK(dot(0, {pair(tiny, 0), pair(tiny, 0)}, {pair(bf(0x1p-57F), 0), pair(bf(0x1p-57F), 0)}) ==
        0);
  // Denormal inputs are zero: bf16, and the accumulator.
  CHECK(dot(0, {pair(0x007f, 0)}, {pair(bf(0x1p127F), 0)}) == 0);
  CHECK(dot(0x007fffffU, {pair(zero, zero)}, {pair(zero, zero)}) == 0);
  CHECK(dot(bits(0x1p-126F), {pair(unit, 0)}, {pair(bf(-0x1.8p-126F), 0)}) == 0);
  // Whether a result is denormal is seen after rounding, as everywhere in SSE and AVX.
  CHECK(dot(0, {pair(unit, 0), pair(bf(-0x1p-80F), 0)},
            {pair(bf(0x1p-126F), 0), pair(bf(0x1p-80F), 0)}) == 0x1p-126F);
  // The sums begin at +0, so -0 in the accumulator does not survive.
  CHECK(!std::signbit(dot(sign_bit, {pair(0x8000, 0x8000)}, {pair(unit, unit)})));
  // Nearest even at the store: 1 + 2^-24 and 1 + 3 * 2^-24.
  CHECK(dot(bits(1), {pair(unit, 0)}, {pair(bf(0x1p-24F), 0)}) == 1);
  CHECK(dot(bits(1), {pair(unit, 0)}, {pair(bf(0x1.8p-23F), 0)}) == 1 + 0x1p-22F);
  // NaN and infinity.
  std::uint16_t const inf = 0x7f80, quiet = 0x7fc0, signalling = 0x7f81;
  CHECK(std::isnan(dot(0, {pair(inf, 0)}, {pair(zero, zero)})));
  CHECK(std::isnan(dot(0, {pair(inf, inf)}, {pair(unit, bf(-1))})));
  CHECK(std::isnan(dot(infinity, {pair(inf, 0)}, {pair(bf(-1), 0)})));
  for (std::uint16_t nan : {quiet, signalling}) {
    CHECK(std::isnan(dot(0, {pair(nan, 0)}, {pair(zero, zero)})));
    CHECK(std::isnan(dot(0, {pair(0, unit)}, {pair(0, nan)})));
  }
  CHECK(std::isnan(dot(0x7f800001U, {pair(zero, zero)}, {pair(zero, zero)})));
  CHECK(std::isinf(dot(0, {pair(inf, 0)}, {pair(bf(0x1p-100F), 0)})));
}

TEST_CASE("tdpbf16ps: every pair of special values with every special accumulator") {
  NEEDS_TILES();
  std::size_t const specials = std::size(special_bf16), sums = std::size(special_f32);
  for (bool odd : {false, true})
    for (std::size_t row = 0; row < specials; row += 16)
      for (std::size_t column = 0; column < specials; column += 16)
        for (std::size_t c = 0; c < sums; ++c) {
          operands o{.m = 16, .n = 16, .k = 1};
          for (std::size_t i = 0; i < 16; ++i) {
            o.first[16 * i] = odd ? pair(0, special_bf16[row + i]) : pair(special_bf16[row + i], 0);
            o.second[i] =
                odd ? pair(0, special_bf16[column + i]) : pair(special_bf16[column + i], 0);
          }
          o.sums.fill(special_f32[c]);
          check(bf16, o);
        }
}

TEST_CASE("tdpbf16ps: random values of many kinds and shapes") {
  NEEDS_TILES();
  std::mt19937 random(20);
  for (int round = 0; round < 240; ++round) {
    operands o;
    if (round % 3 != 0)
      o = {.m = 1 + static_cast<int>(random() % 16),
           .n = 1 + static_cast<int>(random() % 16),
           .k = 1 + static_cast<int>(random() % 16)};
    auto const specials = std::size(special_bf16);
    auto const element = [&]() -> std::uint16_t {
      auto const any = static_cast<std::uint16_t>(random());
      switch (round % 6) {
        case 0:  // any bits at all
          return any;
        case 1:  // near 1
          return static_cast<std::uint16_t>((any & 0x807f) | (0x3f80 - 0x80 * (random() % 4)));
        case 2:  // products about the smallest normal number
          return static_cast<std::uint16_t>((any & 0x807f) | (0x80 * (60 + random() % 8)));
        case 3:  // products about the largest
          return static_cast<std::uint16_t>((any & 0x807f) | (0x80 * (188 + random() % 5)));
        case 4:  // few values, so that sums cancel
          return static_cast<std::uint16_t>((any & 0x8000) | (0x3f80 + 0x80 * (random() % 2)));
        default:  // now and then a special one
          return random() % 8 == 0 ? special_bf16[random() % specials]
                                   : static_cast<std::uint16_t>((any & 0x807f) | 0x3f80);
      }
    };
    for (std::uint32_t& v : o.first) v = pair(element(), element());
    for (std::uint32_t& v : o.second) v = pair(element(), element());
    for (std::uint32_t& v : o.sums) v = pair(static_cast<std::uint16_t>(random()), element());
    check(bf16, o);
  }
}

TEST_CASE("integer products: extremes, wrap-around, random values and shapes, all four signs") {
  NEEDS_TILES();
  constexpr std::uint32_t extremes[] = {0x80808080U, 0x7f7f7f7fU, 0xffffffffU,
                                        0x00000000U, 0x807fff01U, 0x01ff7f80U};
  std::mt19937 random(8);
  for (product_kind const& kind : kinds) {
    if (&kind == &bf16) continue;
    for (std::uint32_t a : extremes)
      for (std::uint32_t b : extremes)
        for (std::uint32_t c : {0U, 0x7fffffffU, 0x80000000U, 0xffffffffU}) {
          operands o;
          o.first.fill(a);
          o.second.fill(b);
          o.sums.fill(c);
          check(kind, o);
        }
    for (int round = 0; round < 60; ++round) {
      operands o;
      if (round % 3 != 0)
        o = {.m = 1 + static_cast<int>(random() % 16),
             .n = 1 + static_cast<int>(random() % 16),
             .k = 1 + static_cast<int>(random() % 16)};
      for (words* w : {&o.sums, &o.first, &o.second})
        for (std::uint32_t& v : *w) v = static_cast<std::uint32_t>(random());
      check(kind, o);
    }
  }
}

TEST_CASE("tdpbf16ps neither reads nor writes MXCSR") {
  NEEDS_TILES();
  std::mt19937 random(3);
  operands o;
  for (std::uint32_t& v : o.first)
    v = pair(static_cast<std::uint16_t>(0x3f00 + random() % 256), 0x0001);
  for (std::uint32_t& v : o.second)
    v = pair(static_cast<std::uint16_t>(0x3f00 + random() % 256), 0x0180);
  for (std::uint32_t& v : o.sums) v = 0x3f800000U + static_cast<std::uint32_t>(random() % 1000);
  unsigned const usual = _mm_getcsr();
  // Rounding to nearest, down, up and to zero; denormals kept or not; invalid unmasked.
  for (unsigned mode : {0x1f80U, 0x3f80U, 0x5f80U, 0x7f80U, 0xffc0U, 0x1f00U, 0x0000U}) {
    _mm_setcsr(mode);
    words const got = multiply(bf16, o);
    unsigned const after = _mm_getcsr();
    _mm_setcsr(usual);
    CHECK(after == mode);
    for (std::size_t i = 0; i < 256; ++i) REQUIRE(got[i] == bf16.model(o, i / 16, i % 16));
  }
}
