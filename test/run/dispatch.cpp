// Which backend is chosen, what is said about it, and what the environment may ask for.
#include <filesystem>
#include <fstream>
#include <sstream>

#include <fcntl.h>
#include <unistd.h>

#include "helpers.hpp"

using namespace run_test;

namespace {

constexpr char const* product = "matmul(x, w) | relu";
std::vector<sinter::named_desc> const given = {dims("x", {2, 3}), dims("w", {3, 4})};

/// What a piece of code prints on stderr.
template <class F>
std::string stderr_of(F&& f) {
  std::fflush(stderr);
  std::FILE* const file = std::tmpfile();
  int const before = dup(2);
  dup2(fileno(file), 2);
  f();
  std::fflush(stderr);
  dup2(before, 2);
  close(before);
  std::rewind(file);
  std::string text;
  for (int c = std::fgetc(file); c != EOF; c = std::fgetc(file)) text += static_cast<char>(c);
  std::fclose(file);
  return text;
}
int lines_of(std::string const& text) {
  int n = 0;
  for (char c : text) n += c == '\n' ? 1 : 0;
  return n;
}

}  // namespace

TEST_CASE("the first willing backend is taken; refusals are kept, late ones too") {
  fake_backend unwilling, late, third, never;
  unwilling.title = "unwilling";
  unwilling.refuses = true;
  late.title = "late";
  late.fails = true;
  third.title = "third";
  never.title = "never";
  sinter::options o;
  caught_warnings const warnings;
  program const p =
      try_compile_on({&unwilling, &late, &third, &never}, {product}, given, o).value();
  std::string const text = p->explain();
  INFO(text);
  CHECK(text.find("backend: third") != std::string::npos);
  CHECK(text.find("refused by unwilling: the fake backend does not feel like it") !=
        std::string::npos);
  CHECK(text.find("refused by late: the fake backend fell over while building") !=
        std::string::npos);
  CHECK(text.find("never") == std::string::npos);
  CHECK(text.find("matmul(x, w) | relu") != std::string::npos);
  CHECK(text.find("x:2x3:f32") != std::string::npos);
  CHECK(text.find("1 group, 1 kernel") != std::string::npos);
  CHECK(text.find("ISA: " + std::string(sinter::name_of(
                                sinter::best_isa(sinter::detected_isa())))) != std::string::npos);
  CHECK(warnings.all().empty());  // not reference code, not split

  auto none = try_compile_on({&unwilling, &late}, {product}, given, o);
  REQUIRE_FALSE(none);
  CHECK(none.error().what == sinter::code::unsupported);
  check_sentence(none.error().message,
                 {"unwilling: the fake", "late: the fake", "matmul(x, w) | relu"});
}

TEST_CASE("fallback: allowed, warned of, or a failure with the reasons") {
  fake_backend unwilling, slow;
  unwilling.refuses = true;
  slow.title = "slow";
  slow.implementation = "gemm:ref";
  std::vector<sinter::backend const*> const list = {&unwilling, &slow};
  sinter::options o;
  {
    caught_warnings const warnings;
    REQUIRE(try_compile_on(list, {product}, given, o));
    REQUIRE(warnings.all().size() == 1);
    check_sentence(warnings.all()[0],
                   {"falls back", "slow", "gemm:ref", "fake: the fake backend does not feel"});
  }
  o.on_fallback = sinter::policy::allow;
  {
    caught_warnings const warnings;
    REQUIRE(try_compile_on(list, {product}, given, o));
    CHECK(warnings.all().empty());
  }
  o.on_fallback = sinter::policy::error;
  caught_warnings const warnings;
  auto refused = try_compile_on(list, {product}, given, o);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().what == sinter::code::unsupported);
  check_sentence(refused.error().message, {"falls back", "does not feel like it"});
  CHECK(warnings.all().empty());

  // The reference backend is a fallback unless it was asked for by name.
  CHECK_FALSE(try_compile_on({sinter::backends().back()}, {product}, given, o));
  o.backend = "reference";
  CHECK(try_compile_on({sinter::backends().back()}, {product}, given, o));
}

TEST_CASE("split: allowed, warned of, or a failure; kernel_count tells") {
  fake_backend splits;
  splits.stages = 3;
  sinter::options o;
  {
    caught_warnings const warnings;
    program const p = try_compile_on({&splits}, {product}, given, o).value();
    CHECK(p->group_count() == 1);
    CHECK(p->kernel_count() == 3);
    CHECK(p->explain().find("split off: the fake backend likes it so") != std::string::npos);
    REQUIRE(warnings.all().size() == 1);
    check_sentence(warnings.all()[0], {"3 kernels", "fake", "likes it so"});
  }
  o.on_split = sinter::policy::error;
  auto refused = try_compile_on({&splits}, {product}, given, o);
  REQUIRE_FALSE(refused);
  check_sentence(refused.error().message, {"3 kernels", "likes it so"});
}

TEST_CASE("a warning goes to stderr by default, as one line") {
  fake_backend splits;
  splits.stages = 2;
  std::string const said =
      stderr_of([&] { REQUIRE(try_compile_on({&splits}, {product}, given, sinter::options{})); });
  CHECK(lines_of(said) == 1);
  CHECK(said.starts_with("sinter: "));
}

TEST_CASE("SINTER_BACKEND chooses, options::backend beats it, wrong words are refused") {
  fake_backend jit, onednn;
  jit.title = "jit";
  onednn.title = "onednn";
  std::vector<sinter::backend const*> const list = {&jit, &onednn};
  auto const chosen = [&](sinter::options const& o) {
    auto p = try_compile_on(list, {product}, given, o);
    REQUIRE(p);
    return (*p)->explain().find("backend: jit") != std::string::npos ? "jit" : "onednn";
  };
  CHECK(chosen({}) == std::string("jit"));
  {
    environment const e("SINTER_BACKEND", "onednn");
    CHECK(chosen({}) == std::string("onednn"));
    sinter::options o;
    o.backend = "jit";
    CHECK(chosen(o) == std::string("jit"));
    onednn.refuses = true;  // the one that was asked for is not replaced in silence
    auto refused = try_compile_on(list, {product}, given, {});
    REQUIRE_FALSE(refused);
    check_sentence(refused.error().message, {"SINTER_BACKEND", "onednn: the fake"});
  }
  {
    environment const e("SINTER_BACKEND", "reference");
    auto refused = try_compile_on(list, {product}, given, {});
    REQUIRE_FALSE(refused);
    CHECK(refused.error().what == sinter::code::bad_environment);
    check_sentence(refused.error().message, {"SINTER_BACKEND", "'reference'", "jit, onednn"});
  }
  CHECK(chosen({}) == std::string("jit"));  // read at each compile
}

TEST_CASE(
    "environment values that are not understood are refused at compile, whatever the options say") {
  for (auto const& [name, value, wanted] :
       {std::tuple{"SINTER_BACKEND", "OneDNN", "onednn"},
        std::tuple{"SINTER_MAX_ISA", "avx3", "avx512"},
        std::tuple{"SINTER_MAX_ISA", " avx2", "avx2"}, std::tuple{"SINTER_VERBOSE", "3", "2"},
        std::tuple{"SINTER_VERBOSE", "yes", "0"}}) {
    environment const e(name, value);
    sinter::options o = on_reference();
    o.max_isa = sinter::isa::avx2;
    auto refused = try_compile({product}, given, o);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().what == sinter::code::bad_environment);
    check_sentence(refused.error().message, {name, std::string("'") + value + "'", wanted});
  }
  environment const empty("SINTER_VERBOSE", "");
  CHECK(try_compile({product}, given));
}

TEST_CASE("case 62: the cap of a program beats the environment's, and explain() logs it") {
  std::string const found = std::string(sinter::name_of(sinter::best_isa(sinter::detected_isa())));
  auto const isa_line = [](program const& p) {
    std::string const text = p->explain();
    auto const at = text.find("ISA: ");
    return text.substr(at, text.find('\n', at) - at);
  };
  environment const e("SINTER_MAX_ISA", "avx2");
  program const capped = compile({product}, given);
  CHECK(isa_line(capped) == "ISA: " + found + " found, capped at avx2 by SINTER_MAX_ISA");
  sinter::options o = on_reference();
  o.max_isa = sinter::isa::avx512;
  program const own = compile({product}, given, o);
  CHECK(isa_line(own) == "ISA: " + found + " found, capped at avx512 by options::max_isa");
  CHECK(sinter::current_isa().value() == sinter::cap(sinter::detected_isa(), sinter::isa::avx2));
  CHECK(sinter::current_isa(o.max_isa).value() ==
        sinter::cap(sinter::detected_isa(), sinter::isa::avx512));
}

TEST_CASE("SINTER_VERBOSE: a CSV line for each compile, at 2 for each call") {
  float const x[6] = {}, w[12] = {};
  float out[8];
  auto const session = [&] {
    program const p = compile({product}, given);
    sinter::packed const weights = pack(p, "w", sinter::view(w, {3, 4}));
    call_lists const lists{
        {{"x", sinter::view(x, {2, 3})}}, {&weights}, {{"out", sinter::view(out, {2, 4})}}};
    lists.run(p).check();
    auto call = lists.bind(p);
    REQUIRE(call);
    (*call)();
    (*call)();
  };
  CHECK(stderr_of(session).empty());
  std::string const line =
      "reference,reference,\"matmul(x, w) | relu; x:2x3:f32 w:3x4:f32 -> out:2x4:f32\",";
  {
    environment const e("SINTER_VERBOSE", "1");
    std::string const said = stderr_of(session);
    INFO(said);
    CHECK(lines_of(said) == 1);
    CHECK(said.starts_with("sinter,compile," + line));
  }
  environment const e("SINTER_VERBOSE", "2");
  std::string const said = stderr_of(session);
  INFO(said);
  CHECK(lines_of(said) == 4);
  CHECK(said.find("\nsinter,call," + line) != std::string::npos);
}

TEST_CASE("describe() tells extents and strides as compiled") {
  program const p = compile({product}, given);
  CHECK(p->describe("x")->dims == shape{2, 3});
  CHECK(p->describe("w")->dims == shape{3, 4});
  CHECK(p->describe("out")->strides == sinter::strides{4, 1});
  check_sentence(p->describe("nobody").error().message, {"'nobody'"});
}
