// Which backend is chosen, what is said about it, and what the environment may ask for.
#include <atomic>
#include <chrono>
#include <thread>

#include <fcntl.h>
#include <unistd.h>

#include "executors.hpp"
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
bool has(std::string const& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}
int lines_of(std::string const& text) {
  int n = 0;
  for (char c : text) n += c == '\n' ? 1 : 0;
  return n;
}

/// A backend whose kernels take a given time, and which counts what is asked of it.
class timed_backend final : public sinter::backend {
 public:
  timed_backend(std::string name, std::chrono::microseconds time)
      : name_(std::move(name)), time_(time) {}

  std::string implementation = "fake";
  bool unpackable = false;
  mutable std::atomic<int> built{0}, calls{0};

  std::string_view name() const noexcept override { return name_; }
  sinter::verdict supports(sinter::problem const&) const noexcept override {
    return sinter::verdict::yes();
  }
  sinter::result<std::shared_ptr<sinter::kernel const>> build(
      sinter::problem const& p) const override {
    ++built;
    return std::shared_ptr<sinter::kernel const>(std::make_shared<timed_kernel>(*this, p));
  }

 private:
  class timed_invocation final : public sinter::invocation {
   public:
    timed_invocation(timed_backend const& b, std::unique_ptr<sinter::invocation> inner)
        : invocation(&run_timed), backend_(b), inner_(std::move(inner)) {}
    void repoint(sinter::call_args const& args) noexcept override { inner_->repoint(args); }

   private:
    static sinter::code run_timed(invocation& self) noexcept {
      auto& me = static_cast<timed_invocation&>(self);
      auto const end = std::chrono::steady_clock::now() + me.backend_.time_;
      ++me.backend_.calls;
      sinter::code const c = me.inner_->run();
      while (std::chrono::steady_clock::now() < end) {
      }
      return c;
    }
    timed_backend const& backend_;
    std::unique_ptr<sinter::invocation> inner_;
  };

  class timed_kernel final : public sinter::kernel {
   public:
    timed_kernel(timed_backend const& b, sinter::problem const& p)
        : backend_(b), inner_(sinter::reference_backend().build(p).value()) {}
    std::string_view backend() const noexcept override { return backend_.name(); }
    std::size_t scratch_bytes() const noexcept override { return inner_->scratch_bytes(); }
    std::vector<sinter::stage_note> stages() const override {
      return {{"all", backend_.implementation, {}}};
    }
    std::string layout_key(int operand) const override { return inner_->layout_key(operand); }
    sinter::result<sinter::packed_weight> pack(int operand,
                                               sinter::tensor_view const& v) const override {
      if (backend_.unpackable)
        return sinter::failure{sinter::code::unsupported, "sinter: this weight cannot be packed"};
      return inner_->pack(operand, v);
    }
    sinter::result<std::unique_ptr<sinter::invocation>> make_invocation() const override {
      auto inner = inner_->make_invocation();
      if (!inner) return inner.error();
      return std::unique_ptr<sinter::invocation>(
          std::make_unique<timed_invocation>(backend_, std::move(*inner)));
    }

   private:
    timed_backend const& backend_;
    std::shared_ptr<sinter::kernel const> inner_;
  };

  std::string name_;
  std::chrono::microseconds time_;
};

sinter::options tuned() {
  sinter::options o = quiet();
  o.tune = true;
  return o;
}

sinter::problem problem_of(std::string_view chain,
                           std::vector<std::pair<std::string_view, shape>> const& extents,
                           sinter::numerics n = sinter::numerics::strict) {
  sinter::chain const c = parsed(chain);
  std::vector<sinter::operand_spec> specs(c.operands.size());
  for (int i = 0; i < c.operands.ssize(); ++i)
    for (auto const& [name, dims] : extents)
      if (c.operands[i].name == name)
        specs[static_cast<std::size_t>(i)] = sinter::tensor_desc{c.operands[i].type, dims, {}};
  return sinter::make_problem(c, specs, {}, n).value();
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

TEST_CASE("a refusal names its backend once") {
  fake_backend jit;
  jit.title = "jit";
  jit.refuses = true;
  jit.refusal = "sinter: jit: this is not generated";
  auto none = try_compile_on({&jit}, {product}, given, sinter::options{});
  REQUIRE_FALSE(none);
  CHECK(has(none.error().message, ": jit: this is not generated"));
  CHECK_FALSE(has(none.error().message, "jit: jit"));
  program const p =
      try_compile_on({&jit, sinter::backends().back()}, {product}, given, quiet()).value();
  CHECK(has(p->explain(), "  refused by jit: this is not generated\n"));
}

TEST_CASE("what is partly reference code is taken only where no other backend is willing") {
  fake_backend part, whole;
  part.title = "part";
  part.implementation = "pass:ref";
  whole.title = "whole";
  {
    program const p = try_compile_on({&part, &whole}, {product}, given, {}).value();
    INFO(p->explain());
    CHECK(has(p->explain(), "backend: whole"));
    CHECK(has(p->explain(), "refused by part: a part of the chain would run as reference code"));
  }
  whole.refuses = true;
  program const p = try_compile_on({&part, &whole}, {product}, given, quiet()).value();
  CHECK(has(p->explain(), "backend: part (fallback)"));
  CHECK(has(p->explain(), "refused by whole: the fake"));
  CHECK_FALSE(has(p->explain(), "refused by part"));
}

TEST_CASE("the table: every rule has a name of its own and a reason, the last one always holds") {
  std::size_t const rules = std::size(sinter::dispatch_table);
  for (std::size_t i = 0; i < rules; ++i) {
    sinter::dispatch_rule const& r = sinter::dispatch_table[i];
    CAPTURE(std::string(r.name));
    CHECK_FALSE(r.reason.empty());
    CHECK(r.reason.find('\n') == std::string_view::npos);
    CHECK(r.order[0] != r.order[1]);
    for (std::string_view b : r.order) CHECK((b == "jit" || b == "onednn"));
    for (std::size_t j = 0; j < i; ++j) CHECK(sinter::dispatch_table[j].name != r.name);
  }
  CHECK(sinter::dispatch_table[rules - 1].holds(sinter::problem_facts{}));
}

TEST_CASE("the facts of a problem: its class, rows, columns, terms, level") {
  using sinter::work_class;
  auto const facts = [](sinter::problem const& p) { return sinter::facts_of(p); };
  auto f = facts(problem_of("matmul(x, w) | relu [bf16]", {{"x", {4, 5, 7}}, {"w", {7, 3}}}));
  CHECK(f.kind == work_class::matmul);
  CHECK(f.src == sinter::dtype::bf16);
  CHECK(f.rows == 20);
  CHECK(f.columns == 3);
  CHECK(f.terms == 7);
  CHECK(f.packed);
  CHECK_FALSE(facts(problem_of("matmul(x, w:tensor)", {{"x", {5, 7}}, {"w", {7, 3}}})).packed);
  f = facts(problem_of("matmul(x, w)", {{"x", {sinter::dynamic, 7}}, {"w", {7, 3}}},
                       sinter::numerics::peer));
  CHECK(f.rows == -1);
  CHECK(f.numerics == sinter::numerics::peer);
  f = facts(problem_of("matmul(x, w, transposed_weight)", {{"x", {1, 7}}, {"w", {3, 7}}}));
  CHECK(f.terms == 7);
  CHECK(f.columns == 3);
  auto const conv = [&](std::string_view chain, shape const& x, shape const& w) {
    return facts(problem_of(chain, {{"x", x}, {"w", w}}));
  };
  f = conv("conv2d(x, w, stride=2, pad=1)", {2, 8, 8, 16}, {32, 3, 3, 16});
  CHECK(f.kind == work_class::dense_conv);
  CHECK(f.rows == 2 * 4 * 4);
  CHECK(f.columns == 32);
  CHECK(f.terms == 9 * 16);
  CHECK(conv("conv2d(x, w)", {1, 8, 8, 3}, {32, 3, 3, 3}).kind == work_class::image_conv);
  f = conv("conv2d(x, w, groups=4)", {1, 8, 8, 16}, {32, 3, 3, 4});
  CHECK(f.kind == work_class::grouped_conv);
  CHECK(f.columns == 8);
  CHECK(conv("conv2d(x, w, groups=16)", {1, 8, 8, 16}, {16, 3, 3, 1}).kind ==
        work_class::depthwise_conv);
  CHECK(conv("conv1d(x, w)", {1, 8, 16}, {32, 3, 16}).kind == work_class::other_conv);
  CHECK(facts(problem_of("relu(x)", {{"x", {3, 4}}})).kind == work_class::pointwise);
  CHECK_FALSE(facts(problem_of("relu(x)", {{"x", {3, 4}}})).dear_steps);
  CHECK(facts(problem_of("relu(x) | tanh", {{"x", {3, 4}}})).dear_steps);
  environment const e("SINTER_MAX_ISA", "reference");
  CHECK(facts(problem_of("relu(x)", {{"x", {3, 4}}})).level == sinter::isa::reference);
}

// The figures behind these are of machines capped to a level: docs/benchmarking.md.
TEST_CASE(
    "below AVX512-BF16 oneDNN is asked first where generated code was measured to be slower") {
  using sinter::isa, sinter::work_class, sinter::dtype, sinter::numerics;
  auto const first = [](sinter::problem_facts const& f) { return sinter::rule_for(f).order[0]; };
  // Never under strict rules: oneDNN would leave steps to others.
  for (numerics n : {numerics::strict, numerics::peer})
    for (isa level : {isa::avx2, isa::avx512, isa::avx512_bf16}) {
      bool const peer = n == numerics::peer;
      sinter::problem_facts f{
          .kind = work_class::matmul, .level = level, .numerics = n, .rows = 64};
      f.columns = 1;
      CHECK(first(f) == "jit");
      f.packed = false;
      CHECK(first(f) == "jit");
      f.packed = true;
      f.src = dtype::bf16;
      f.columns = 64;
      CHECK(first(f) == "jit");
      f.packed = false;
      CHECK(first(f) == (peer && level == isa::avx2 ? "onednn" : "jit"));
      f = {.kind = work_class::grouped_conv, .level = level, .numerics = n};
      for (sinter::extent channels : {8, 16, 32}) {
        f.columns = channels;
        CHECK(first(f) == "jit");
      }
    }
  sinter::problem_facts image{
      .kind = work_class::dense_conv, .rows = 784, .columns = 144, .terms = 24};
  for (isa level : {isa::avx2, isa::avx512})
    for (numerics n : {numerics::strict, numerics::peer}) {
      image.level = level;
      image.numerics = n;
      CHECK(first(image) == (level == isa::avx2 && n == numerics::peer ? "onednn" : "jit"));
    }
  image.kind = work_class::image_conv;  // n is peer
  image.level = isa::avx2;
  image.terms = 27;
  CHECK(first(image) == "onednn");
  image.terms = 147;
  CHECK(first(image) == "jit");
}

TEST_CASE("the rule that holds says who is asked first, and explain() quotes it") {
  timed_backend jit("jit", {}), onednn("onednn", {}), other("other", {});
  std::vector<sinter::backend const*> const list = {&other, &onednn, &jit};
  sinter::problem_facts const facts =
      sinter::facts_of(problem_of(product, {{"x", {2, 3}}, {"w", {3, 4}}}));
  sinter::dispatch_rule const& rule = sinter::rule_for(facts);
  program const p = try_compile_on(list, {product}, given, quiet()).value();
  INFO(p->explain());
  CHECK(has(p->explain(), "backend: " + std::string(rule.order[0]) + ","));
  CHECK(has(p->explain(),
            "chosen: rule '" + std::string(rule.name) + "': " + std::string(rule.reason) + "\n"));
  CHECK(other.built == 0);
  // What no rule names comes last, in the order of the list.
  program const last = try_compile_on({&other}, {product}, given, quiet()).value();
  CHECK(has(last->explain(), "backend: other"));
  environment const e("SINTER_BACKEND", "onednn");
  CHECK(has(try_compile_on(list, {product}, given, quiet()).value()->explain(),
            "chosen: by SINTER_BACKEND\n"));
}

TEST_CASE("threads that oneDNN has no part of go to generated code, where there is work to cut") {
  timed_backend jit("jit", {}), onednn("onednn", {});
  std::vector<sinter::backend const*> const list = {&onednn, &jit};
  auto const chosen = [&](sinter::extent rows, sinter::executor* executor) {
    sinter::options o = quiet();
    o.numerics = sinter::numerics::peer;
    o.threads = executor != nullptr ? 4 : 1;
    o.executor = executor;
    return try_compile_on(list, {"relu(x)"}, {dims("x", {rows, 768})}, o).value()->explain();
  };
  class openmp_like final : public sinter::executor {
   public:
    void run(int tasks, task_function task, void* context) noexcept override {
      for (int i = 0; i < tasks; ++i) task(context, i);
    }
    bool is_openmp() const noexcept override { return true; }
  } openmp;
  backwards_executor own;
  CHECK(has(chosen(512, nullptr), "backend: onednn"));
  CHECK(has(chosen(512, &openmp), "backend: onednn"));
  CHECK(has(chosen(512, &own), "backend: jit"));
  CHECK(has(chosen(512, &own), "rule 'threads of another executor'"));
  CHECK(has(chosen(2, &own), "backend: onednn"));  // too small to be cut

  auto const facts = [](std::string_view chain, shape const& a, shape const& b) {
    return sinter::facts_of(problem_of(chain, {{"x", a}, {"w", b}}), 4);
  };
  CHECK(facts("matmul(x, w)", {64, 128}, {128, 256}).multiply_adds == 64.0 * 128 * 256);
  CHECK(facts("matmul(x, w)", {64, 128}, {128, 256}).cut_among_lent_threads());
  CHECK_FALSE(facts("matmul(x, w)", {16, 16}, {16, 16}).cut_among_lent_threads());
  CHECK(facts("matmul(x, w)", {sinter::dynamic, 16}, {16, 16}).cut_among_lent_threads());
  CHECK(facts("conv2d(x, w, groups=4)", {1, 8, 8, 16}, {32, 1, 1, 4}).multiply_adds ==
        64.0 * 32 * 4);
}

TEST_CASE("tune: the fastest is taken and remembered, with the figures") {
  sinter::forget_tuning();
  timed_backend slow("slow", std::chrono::microseconds(300));
  timed_backend fast("fast", std::chrono::microseconds(30));
  std::vector<sinter::backend const*> const list = {&slow, &fast};
  auto const before = sinter::tune_counters();
  program const p = try_compile_on(list, {product}, given, tuned()).value();
  INFO(p->explain());
  CHECK(has(p->explain(), "backend: fast"));
  CHECK(has(p->explain(), "chosen: tuned: fast, slow 3"));
  CHECK(has(p->explain(), " us, fast 3"));
  CHECK(slow.built == 1);
  CHECK(fast.built == 1);
  int const slow_calls = slow.calls, fast_calls = fast.calls;
  CHECK(slow_calls >= 15);
  CHECK(fast_calls >= 15);

  // Measured once: the second program asks the winner alone and runs nothing.
  program const again = try_compile_on(list, {product}, given, tuned()).value();
  CHECK(again->explain().substr(again->explain().find("chosen")) ==
        p->explain().substr(p->explain().find("chosen")));
  CHECK(slow.calls == slow_calls);
  CHECK(fast.calls == fast_calls);
  CHECK(slow.built == 1);
  auto const after = sinter::tune_counters();
  CHECK(after.generated == before.generated + 1);
  CHECK(after.hits == before.hits + 1);

  // Another problem is measured by itself; without tune the list's order counts.
  std::vector<sinter::named_desc> const larger = {dims("x", {3, 3}), dims("w", {3, 4})};
  CHECK(try_compile_on(list, {product}, larger, tuned()));
  CHECK(slow.calls > slow_calls);
  CHECK(has(try_compile_on(list, {product}, given, quiet()).value()->explain(), "backend: slow"));

  // A tuned program computes what any other does.
  float const x[6] = {1, 2, 3, -1, 0, 2}, w[12] = {1, 0, 0, 1, 0, 1, 0, 1, 0, 0, 1, 1};
  float out[8];
  sinter::packed const weights = pack(p, "w", sinter::view(w, {3, 4}));
  call_lists const lists{
      {{"x", sinter::view(x, {2, 3})}}, {&weights}, {{"out", sinter::view(out, {2, 4})}}};
  lists.run(p).check();
  CHECK(std::vector<float>(out, out + 8) == std::vector<float>{1, 2, 3, 6, 0, 0, 2, 1});
}

TEST_CASE("tune: who cannot be called is refused, what is reference code is not measured") {
  sinter::forget_tuning();
  timed_backend broken("broken", {}), partly("partly", {});
  timed_backend sound("sound", std::chrono::microseconds(50));
  broken.unpackable = true;
  partly.implementation = "pass:ref";
  program const p = try_compile_on({&broken, &partly, &sound}, {product}, given, tuned()).value();
  INFO(p->explain());
  CHECK(has(p->explain(), "backend: sound"));
  CHECK(has(p->explain(), "refused by broken: this weight cannot be packed"));
  CHECK(partly.calls == 0);

  auto none = try_compile_on({&broken}, {product}, given, tuned());
  CHECK(none);  // the only one is not measured
  timed_backend second("second", {});
  second.unpackable = true;
  none = try_compile_on({&broken, &second}, {product}, given, tuned());
  REQUIRE_FALSE(none);
  check_sentence(none.error().message, {"no kernel could be tuned", "cannot be packed"});
  second.unpackable = false;  // the failure was not remembered
  CHECK(try_compile_on({&broken, &second}, {product}, given, tuned()));

  std::vector<sinter::named_desc> const open = {dims("x", {sinter::dynamic, 3}), dims("w", {3, 4})};
  auto refused = try_compile_on({&sound}, {product}, open, tuned());
  REQUIRE_FALSE(refused);
  CHECK(refused.error().what == sinter::code::unsupported);
  check_sentence(refused.error().message, {"options::tune", "dynamic", "without tune"});
}

TEST_CASE("tune: threads that want one problem measure it once; a slow kernel is not repeated") {
  sinter::forget_tuning();
  timed_backend slow("slow", std::chrono::milliseconds(60)), fast("fast", {});
  std::vector<sinter::backend const*> const list = {&slow, &fast};
  auto const before = sinter::tune_counters();
  std::vector<std::thread> threads;
  std::atomic<int> right{0};
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      auto const p = try_compile_on(list, {product}, given, tuned());
      if (p && has((*p)->explain(), "backend: fast")) ++right;
    });
  for (std::thread& t : threads) t.join();
  CHECK(right == 4);
  CHECK(sinter::tune_counters().generated == before.generated + 1);
  CHECK(slow.calls == 3);  // to find pages, to estimate, one round
}

TEST_CASE("tune: this build's own backends") {
  sinter::forget_tuning();
  std::vector<sinter::named_desc> const sizes = {dims("x", {16, 24}), dims("w", {24, 20})};
  for (char const* chain :
       {"matmul(x, w) | add b:vector", "matmul(x, w) | add b:vector [bf16]",
        "matmul(x, w) | add b:vector [f16]", "matmul(x, w) | relu | add r:tensor"}) {
    CAPTURE(chain);
    auto const p = try_compile({chain}, sizes, tuned());
    REQUIRE(p);
    INFO((*p)->explain());
    CHECK(has((*p)->explain(), "chosen: tuned: "));
    CHECK(has((*p)->explain(), "backend: reference,") == (sinter::backends().size() == 1));
  }
}
