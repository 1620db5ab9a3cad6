// The lattice of ISA levels: order, caps, names. All of it holds in constant expressions.
#include <doctest/doctest.h>
#include <sinter/isa/isa.hpp>

#include <string>

using sinter::feature;
using sinter::features;
using sinter::isa;

namespace {

constexpr isa every_level[] = {isa::reference, isa::avx2,     isa::avx512, isa::avx512_bf16,
                               isa::amx,       isa::amx_fp16, isa::avx10_2};
static_assert(sizeof(every_level) / sizeof(every_level[0]) == sinter::isa_count);

// The order, written out.
static_assert(includes(isa::avx2, isa::reference) && includes(isa::avx512, isa::avx2) &&
              includes(isa::avx512_bf16, isa::avx512) && includes(isa::amx, isa::avx512_bf16) &&
              includes(isa::amx_fp16, isa::amx) && includes(isa::avx10_2, isa::avx512_bf16));
static_assert(!includes(isa::avx10_2, isa::amx) && !includes(isa::amx, isa::avx10_2));
static_assert(!includes(isa::avx512, isa::avx512_bf16) && !includes(isa::reference, isa::avx2));

static_assert(sinter::features_of(isa::reference).empty());
static_assert(sinter::features_of(isa::avx2) == features{feature::avx, feature::f16c, feature::fma,
                                                         feature::avx2, feature::bmi1,
                                                         feature::bmi2});
static_assert(sinter::features_of(isa::avx512) - sinter::features_of(isa::avx2) ==
              features{feature::avx512f, feature::avx512bw, feature::avx512dq, feature::avx512vl,
                       feature::avx512cd});

constexpr bool laws_hold() {
  for (isa a : every_level) {
    if (!includes(a, a) || !sinter::allowed_under(a).includes(sinter::features_of(a))) return false;
    for (isa b : every_level) {
      if (a != b && includes(a, b) && includes(b, a)) return false;  // no two names for one level
      for (isa c : every_level) {
        if (includes(a, b) && includes(b, c) && !includes(a, c)) return false;
        features const found = sinter::features_of(c);
        features const capped = cap(found, a);
        if (!found.includes(capped)) return false;                         // takes away only
        if (cap(capped, a) != capped) return false;                        // once is enough
        if (cap(cap(found, a), b) != cap(cap(found, b), a)) return false;  // in any order
        if (includes(a, b) && !cap(found, a).includes(cap(found, b)))
          return false;  // a higher cap leaves more
        if (runs(capped, b) &&
            !(includes(c, b) && sinter::allowed_under(a).includes(sinter::features_of(b))))
          return false;
      }
    }
  }
  return true;
}
static_assert(laws_hold());

// A level that its own cap does not reach would be dead.
static_assert([] {
  for (isa level : every_level)
    if (sinter::row_of(level).used && best_isa(cap(sinter::allowed_under(level), level)) != level)
      return false;
  return true;
}());
// Levels without kernels are never chosen.
static_assert(best_isa(sinter::allowed_under(isa::amx_fp16)) == isa::amx);
static_assert(best_isa(sinter::allowed_under(isa::avx10_2)) == isa::avx512_bf16);
// AMX on a CPU without what the epilogues need is no AMX level.
static_assert(best_isa(sinter::features_of(isa::amx) - features{feature::avx512bw}) == isa::avx2);
static_assert(best_isa(sinter::features_of(isa::amx) - features{feature::avx512_bf16}) ==
              isa::avx512);
static_assert(best_isa(sinter::features_of(isa::avx512) - features{feature::bmi2}) ==
              isa::reference);

}  // namespace

TEST_CASE("isa names lead back to their levels, and nothing else does") {
  for (isa level : every_level) CHECK(sinter::isa_named(name_of(level)) == level);
  for (char const* wrong : {"", "avx", "AVX2", "avx2 ", "avx3", "amx_bf16", "avx512_core", "all"})
    CHECK_FALSE(sinter::isa_named(wrong).has_value());
}

TEST_CASE("feature names") {
  CHECK(sinter::names_of({}) == "none");
  CHECK(sinter::names_of({feature::fma, feature::avx}) == "avx fma");
}

TEST_CASE("a level says why it does not run") {
  CHECK(allows(sinter::features_of(isa::avx512), isa::avx2));
  CHECK(allows(sinter::features_of(isa::avx512), isa::avx512));
  CHECK(allows(sinter::features_of(isa::avx512), isa::amx).reason ==
        "sinter: amx wants avx512_bf16 amx_tile amx_bf16, which this CPU lacks or SINTER_MAX_ISA "
        "forbids");
  for (isa level : {isa::amx_fp16, isa::avx10_2}) {
    sinter::verdict const v = allows(sinter::allowed_under(level), level);
    CHECK(v.what == sinter::code::unsupported);
    CHECK(v.reason == "sinter: " + std::string(name_of(level)) +
                          " is known by name, but Sinter has no kernels for it");
  }
}
