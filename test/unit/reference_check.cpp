// The checks that other tests rely on: they must find each kind of fault, and must not cry without
// one.
#include <doctest/doctest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <functional>

#include "problem_text.hpp"
#include "support/check_backend.hpp"

using namespace sinter_test;

namespace {

/// The reference kernel with something done to the call before or after it.
class spoiled_kernel final : public kernel {
 public:
  using spoil = std::function<void(call_args&, int run)>;
  spoiled_kernel(problem const& p, spoil before, spoil after)
      : inner_(std::make_shared<reference_kernel>(p)),
        before_(std::move(before)),
        after_(std::move(after)) {}

  std::string_view backend() const noexcept override { return "spoiled"; }
  std::size_t scratch_bytes() const noexcept override { return inner_->scratch_bytes(); }
  std::vector<stage_note> stages() const override { return {}; }
  std::string layout_key(int operand) const override { return inner_->layout_key(operand); }
  result<packed_weight> pack(int operand, tensor_view const& source) const override {
    return inner_->pack(operand, source);
  }
  result<std::unique_ptr<invocation>> make_invocation() const override {
    return std::unique_ptr<invocation>(std::make_unique<call>(*this));
  }

 private:
  class call final : public invocation {
   public:
    explicit call(spoiled_kernel const& k)
        : invocation(&execute), kernel_(k), inner_(k.inner_->make_invocation().value().release()) {}
    void repoint(call_args const& args) noexcept override { args_ = args; }
    /// Each part is all of the work.
    int cut(int wanted) noexcept override { return wanted; }

   private:
    static code execute(invocation& base) noexcept {
      auto& self = static_cast<call&>(base);
      call_args args = self.args_;
      if (self.kernel_.before_) self.kernel_.before_(args, self.runs_);
      self.inner_->repoint(args);
      code const c = self.inner_->run();
      if (self.kernel_.after_) self.kernel_.after_(args, self.runs_);
      ++self.runs_;
      return c;
    }
    spoiled_kernel const& kernel_;
    std::unique_ptr<invocation> inner_;
    call_args args_;
    int runs_ = 0;
  };
  std::shared_ptr<reference_kernel> inner_;
  spoil before_, after_;
};

float* first_output(call_args const& a) { return static_cast<float*>(a.outputs[0]); }

std::string found(spoiled_kernel::spoil before, spoiled_kernel::spoil after,
                  pattern values = pattern::uniform) {
  problem const p = problem_of("matmul(x, w) | add b:vector | relu",
                               {dims({5, 9}, {11, 1}), dims({9, 6}), nothing}, {{8, 1}})
                        .value();
  check_options o;
  o.values = values;
  outcome const r = check_kernel(spoiled_kernel(p, std::move(before), std::move(after)), p, o);
  return r.text;
}
bool holds(std::string const& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

/// How a child process that runs f ends: the signal, or 0.
template <class F>
int signal_of(F f) {
  pid_t const child = fork();
  if (child == 0) {
    for (int s : {SIGSEGV, SIGBUS, SIGABRT}) std::signal(s, SIG_DFL);
    f();
    _exit(0);
  }
  int state = 0;
  waitpid(child, &state, 0);
  return WIFSIGNALED(state) ? WTERMSIG(state) : 0;
}

}  // namespace

TEST_CASE("a kernel without a fault passes") {
  for (pattern v : all_patterns) CHECK(found({}, {}, v).empty());
}

TEST_CASE("faults are found") {
  using args = call_args&;
  // One ulp beside, where sums are exact.
  CHECK(holds(
      found(
          {}, [](args a, int) { first_output(a)[9] = std::nextafter(first_output(a)[9], 100.0F); },
          pattern::integers),
      "output 'out' [1,1]"));
  // More than the bound of uniform values.
  CHECK(holds(found({}, [](args a, int) { first_output(a)[34] += 1e-4F; }), "output 'out' [4,2]"));
  // NaN where there is a number, a number where there is NaN, an infinity.
  float const nan = std::numeric_limits<float>::quiet_NaN();
  CHECK(holds(found({}, [=](args a, int) { first_output(a)[0] = nan; }), "is nan"));
  CHECK(holds(found(
                  {}, [](args a, int) { first_output(a)[8] = 0; }, pattern::nan_rows),
              "wanted nan"));
  CHECK(holds(found({}, [](args a, int) { first_output(a)[0] = 1.0F / 0.0F; }), "is inf"));
  // An element not written holds the canary.
  CHECK_FALSE(found(
                  [](args a, int) {
                    static float lost[64];
                    a.outputs[0] = lost;
                  },
                  {})
                  .empty());
  // A gap between rows, a changed input, a second run that differs.
  CHECK(holds(found({}, [](args a, int) { first_output(a)[6] = 1; }),
              "written outside its elements"));
  CHECK(holds(found({},
                    [](args a, int run) {
                      if (run == 1)
                        const_cast<float*>(static_cast<float const*>(a.operands[0]))[0] += 1;
                    }),
              "operand 'x' was changed"));
  CHECK(holds(found({},
                    [](args a, int run) {
                      if (run == 1) first_output(a)[0] += 1;
                    }),
              "the second run"));
  CHECK(holds(found({},
                    [](args a, int run) {
                      if (run >= 2) first_output(a)[0] += 1;
                    }),
              "in 3 parts: other bits"));
  // Another bias, other weights.
  CHECK_FALSE(found(
                  [](args a, int) {
                    static float const other[6] = {9, 9, 9, 9, 9, 9};
                    a.operands[2] = other;
                  },
                  {})
                  .empty());
}

TEST_CASE("a second rounding and a truncation show in the fine pattern") {
  problem const p = problem_of("add(x:tensor, r:tensor) [bf16]",
                               {dims({40}, {}, dtype::bf16), dims({40}, {}, dtype::bf16)})
                        .value();
  auto const run = [&](std::function<float(float)> const& change) {
    check_options o;
    o.values = pattern::uniform;
    return check_kernel(
               spoiled_kernel(p, {},
                              [&](call_args& a, int) {
                                auto* y = static_cast<bfloat16*>(a.outputs[0]);
                                auto const *x = static_cast<bfloat16 const*>(a.operands[0]),
                                           *r = static_cast<bfloat16 const*>(a.operands[1]);
                                for (int i = 0; i < 40; ++i)
                                  y[i] = to_bfloat16(change(to_float(x[i]) + to_float(r[i])));
                              }),
               p, o)
        .text;
  };
  CHECK(run([](float v) { return v; }).empty());
  CHECK_FALSE(run([](float v) {
                return std::bit_cast<float>(std::bit_cast<std::uint32_t>(v) & 0xffff0000U);
              }).empty());
}

TEST_CASE("guard pages fault on both sides, at every placement") {
  for (placement where : all_placements) {
    guard_buffer b(10 * sizeof(float), where, sizeof(float));
    auto* p = reinterpret_cast<float volatile*>(b.data());
    CHECK(signal_of([&] { p[0] = p[9]; }) == 0);
    if (where == placement::end) CHECK(signal_of([&] { (void)p[10]; }) == SIGSEGV);
    if (where == placement::start) CHECK(signal_of([&] { (void)p[-1]; }) == SIGSEGV);
    if (where == placement::shifted) {
      CHECK(reinterpret_cast<std::uintptr_t>(b.data()) % 64 == sizeof(float));
      CHECK(signal_of([&] { (void)p[-2]; }) == SIGSEGV);
    }
  }
  guard_buffer none(0, placement::end);
  CHECK(none.data() != nullptr);
  CHECK(signal_of([&] { (void)*static_cast<std::byte volatile*>(none.data()); }) == SIGSEGV);
}

TEST_CASE("canaries tell of writes beside the data") {
  for (placement where : all_placements) {
    guard_buffer b(100, where, 4);
    CHECK(b.intact());
    std::memset(b.data(), 0, 100);
    CHECK(b.intact());
    if (where == placement::end)
      b.data()[-1] = std::byte{0};
    else
      b.data()[100] = std::byte{0};
    CHECK_FALSE(b.intact());
  }
}

TEST_CASE("bounds: exact where arithmetic is exact, infinite where nothing can be said") {
  auto const bound = [](std::string_view t, std::vector<float> values) {
    chain const c = parse_chain(t).value();
    operand_spec const spec[] = {tensor_desc{dtype::f32, {static_cast<extent>(values.size())}, {}}};
    problem const p = make_problem(c, spec).value();
    void const* operands[] = {values.data()};
    return detail_check::expected_outputs(p, operands, {})[0];
  };
  CHECK(bound("add(x:tensor, 1)", {2})[0].error == 0);
  CHECK(bound("add(x:tensor, 1)", {0x1p-30F})[0].error > 0);
  CHECK(bound("exp(x:tensor)", {1})[0].error > 0x1p-24);
  CHECK(bound("exp(x:tensor)", {1})[0].error < 0x1p-18);
  CHECK(bound("relu(x:tensor)", {-5})[0].error == 0);
  CHECK(std::isinf(
      bound("exp(x:tensor) | sub 2.7182817 | sqrt", {1})[0].error));  // the sign is not decided
  CHECK(bound("exp(x:tensor) | gt 2.7182817", {1})[0].error == 1);
  CHECK(bound("exp(x:tensor) | gt 2.5", {1})[0].error == 0);
  CHECK(
      std::isinf(bound("square(x:tensor) | mul 1e-30", {1e30F})[0].error));  // overflows on the way
  CHECK(std::isnan(bound("relu(x:tensor)", {std::numeric_limits<float>::quiet_NaN()})[0].value));
}
