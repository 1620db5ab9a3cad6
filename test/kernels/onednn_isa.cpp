// Case 62: oneDNN keeps to SINTER_MAX_ISA, which is handed to it before its first use; a cap that comes later is
// refused with a sentence, and generated code keeps to it. What a process's oneDNN may use is set once, so each of
// these is a process of its own.
#include <cstdlib>
#include <string>

#include <sinter/run/dispatch.hpp>
#include <sinter/run/program_core.hpp>

#include "onednn_support.hpp"
#include "support/forbid_code.hpp"
#include "support/skip.hpp"

using namespace sinter_test;

namespace {

constexpr char const* asked = "SINTER_TEST_ISA";
constexpr char const* capped_case = "child: oneDNN under a cap from the environment";
constexpr char const* late_case = "child: a cap that comes after oneDNN's first use";

result<std::shared_ptr<program_core const>> made(options const& o) {
  static chain const c = parse_chain("matmul(x, w) | add b:vector | relu").value();
  static named_desc const given[] = {{name_text("x"), {4, 5}, {}, {}},
                                     {name_text("w"), {5, 3}, {}, {}}};
  return make_program({&c, 1}, given, o);
}

/// Ones, twos and -1: nine everywhere.
void check_result(program_core const& p) {
  std::vector<float> const x(20, 1.0F), w(15, 2.0F), b(3, -1.0F);
  std::vector<float> out(12);
  named_view const weights[] = {{"w", view(w.data(), {5, 3})}};
  packed const packs = p.pack(weights).value();
  packed const* const all_packs[] = {&packs};
  named_view const views[] = {{"x", view(x.data(), {4, 5})}, {"b", as_view(b)}};
  named_output const outputs[] = {{"out", view(out.data(), {4, 3})}};
  REQUIRE(p.run(views, all_packs, outputs).ok());
  for (float v : out) CHECK(v == 9.0F);
}

options on(std::string_view name) {
  options o;
  o.backend = name;
  o.numerics = numerics::peer;
  return o;
}

}  // namespace

TEST_CASE("child: oneDNN under a cap from the environment" * doctest::skip()) {
  isa const level = std::string(std::getenv(asked)) == "avx2" ? isa::avx2 : isa::avx512;
  auto const p = made(on("onednn"));
  REQUIRE_MESSAGE(p.ok(), p.error().message);
  check_result(**p);
  auto const used = static_cast<unsigned>(dnnl_get_effective_cpu_isa());
  CHECK((used & ~static_cast<unsigned>(onednn::cpu_isa_of(level))) == 0);
  std::string const told = (*p)->explain();
  CHECK_MESSAGE(told.find("capped at " + std::string(name_of(level)) + " by SINTER_MAX_ISA") !=
                    std::string::npos,
                told);
  // Its own name for the code says what it may use: "brgemm:avx2".
  if (level == isa::avx2) CHECK_MESSAGE(told.find(":avx512") == std::string::npos, told);
  // A program's own cap above the environment's is kept to by all.
  options higher = on("onednn");
  higher.max_isa = isa::avx512_bf16;
  CHECK(made(higher).ok());
}

TEST_CASE("child: a cap that comes after oneDNN's first use" * doctest::skip()) {
  auto const first = made(on("onednn"));
  REQUIRE_MESSAGE(first.ok(), first.error().message);
  setenv("SINTER_MAX_ISA", "avx2", 1);
  auto const late = made(on("onednn"));
  REQUIRE_FALSE(late.ok());
  CHECK_MESSAGE(late.error().message.find(
                    "the oneDNN of this process may use more than the cap avx2 allows; "
                    "SINTER_MAX_ISA must say it before oneDNN's first use") != std::string::npos,
                late.error().message);
  check_result(**first);  // what was compiled before is as it was
#if SINTER_WITH_JIT
  options any;
  any.on_fallback = policy::allow;
  auto const other = made(any);
  REQUIRE_MESSAGE(other.ok(), other.error().message);
  std::string const told = (*other)->explain();
  CHECK_MESSAGE(told.find("[jit:avx2:") != std::string::npos, told);
  check_result(**other);
#endif
}

TEST_CASE("case 62: SINTER_MAX_ISA is oneDNN's cap too, from its first use on") {
  if (!runs(detected_isa(), isa::avx512)) SINTER_SKIP("this CPU has no AVX-512: no cap to tell");
  for (char const* level : {"avx2", "avx512"}) {
    setenv("SINTER_MAX_ISA", level, 1);
    CHECK(run_child(asked, level, capped_case) == 0);
    unsetenv("SINTER_MAX_ISA");
  }
}

TEST_CASE(
    "case 62: a cap that comes after oneDNN's first use is refused, and generated code keeps to "
    "it") {
  if (!runs(detected_isa(), isa::avx512)) SINTER_SKIP("this CPU has no AVX-512: no cap to tell");
  CHECK(run_child(asked, "late", late_case) == 0);
}
