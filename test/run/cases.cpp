// Faults of other libraries that show in whole programs, on every backend of this build: packed weights that are
// somebody else's, caps of instructions that are read too early, threads that wait for the slowest.
#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>

#include "executors.hpp"
#include "helpers.hpp"

using namespace run_test;

namespace {

// ---- Weights are known by their values, never by where they lay.

struct weight_case {
  std::string chain;
  sinter::named_desc x, w;
  extent terms;  ///< of each sum
};
std::vector<weight_case> weight_cases() {
  return {
      {"matmul(x, w) -> out=%0", dims("x", {3, 40}), dims("w", {40, 37}), 40},
      {"matmul(x, w) | relu -> out=%1", dims("x", {1, 130}), dims("w", {130, 96}), 130},
      {"conv2d(x, w) -> out=%0", dims("x", {1, 4, 5, 16}), dims("w", {24, 1, 1, 16}), 16},
      {"conv2d(x, w) -> out=%0", dims("x", {1, 4, 5, 16}), dims("w", {24, 3, 3, 16}), 144},
      {"conv2d(x, w, groups=2) -> out=%0", dims("x", {1, 4, 5, 32}), dims("w", {32, 3, 3, 16}),
       144},
      {"conv2d(x, w, groups=32) -> out=%0", dims("x", {1, 4, 5, 32}), dims("w", {32, 3, 3, 1}), 9}};
}

/// A program whose x is ones, so that weights of one value v make every output terms * v.
class ones_call {
 public:
  ones_call(program p, weight_case const& c)
      : program_(std::move(p)),
        x_(memory_of(c.x.dims)),
        out_(count_of(program_->describe("out").value()), -1.0F) {
    std::fill(x_.begin(), x_.end(), 1.0F);
    sinter::tensor_desc const d = program_->describe("out").value();
    lists_.operands.push_back({"x", sinter::view(x_.data(), c.x.dims)});
    lists_.outputs.push_back({"out", sinter::view(out_.data(), d.dims)});
  }
  /// The one value that all outputs have, or NaN.
  float with(sinter::packed const& w) {
    std::fill(out_.begin(), out_.end(), -1.0F);
    lists_.packs = {&w};
    lists_.run(program_).check();
    for (float v : out_)
      if (v != out_[0]) return std::numeric_limits<float>::quiet_NaN();
    return out_[0];
  }
  static std::vector<float> memory_of(shape const& d) {
    return std::vector<float>(static_cast<std::size_t>(sinter::element_count(d)));
  }

 private:
  static std::size_t count_of(sinter::tensor_desc const& d) {
    return static_cast<std::size_t>(sinter::element_count(d.dims));
  }
  program program_;
  std::vector<float> x_, out_;
  call_lists lists_;
};

}  // namespace

TEST_CASE("case 61: a weight at the address of another is packed anew, on every backend") {
  int ran = 0;
  for (weight_case const& c : weight_cases())
    on_each_backend({c.chain}, {c.x, c.w}, [&](program const& p) {
      INFO(c.chain);
      ones_call call(p, c);
      auto const whole = [&](double v) {
        return static_cast<float>(v * static_cast<double>(c.terms));
      };
      std::vector<float> memory = ones_call::memory_of(c.w.dims);
      auto const packed_with = [&](float v) {
        std::fill(memory.begin(), memory.end(), v);
        return pack(p, "w", sinter::view(memory.data(), c.w.dims));
      };
      auto const before = sinter::read_counters().packs;
      sinter::packed const twos = packed_with(2);
      CHECK(sinter::read_counters().packs == before + 1);
      for (int i = 0; i < 100; ++i) REQUIRE(call.with(twos) == whole(2));
      CHECK(sinter::read_counters().packs == before + 1);

      // Other weights where those lay: another layer's, or the same ones edited in place.
      sinter::packed const threes = packed_with(3);
      CHECK(call.with(threes) == whole(3));
      CHECK(call.with(twos) == whole(2));
      memory.assign(memory.size(), -1);  // what is packed does not read its source again
      CHECK(call.with(threes) == whole(3));

      // A second program of the same problem shares code and layouts, not values.
      program const other = compile({c.chain}, {c.x, c.w}, on(""));
      sinter::packed const fives = [&] {
        std::fill(memory.begin(), memory.end(), 5.0F);
        return pack(other, "w", sinter::view(memory.data(), c.w.dims));
      }();
      CHECK(ones_call(other, c).with(fives) == whole(5));
      CHECK(call.with(twos) == whole(2));
      ++ran;
    });
  CHECK(ran >= static_cast<int>(weight_cases().size()));
}

TEST_CASE("case 61: a second operand that is no weight is read anew by each call") {
  int ran = 0;
  for (extent rows : {1, 3, 70})
    on_each_backend({"matmul(x, w:tensor) -> out=%0"}, {dims("x", {rows, 40}), dims("w", {40, 37})},
                    [&](program const& p) {
                      std::vector<float> const x(static_cast<std::size_t>(rows * 40), 1.0F);
                      std::vector<float> w(40 * 37), out(static_cast<std::size_t>(rows * 37));
                      call_lists const lists{{{"x", sinter::view(x.data(), {rows, 40})},
                                              {"w", sinter::view(w.data(), {40, 37})}},
                                             {},
                                             {{"out", sinter::view(out.data(), {rows, 37})}}};
                      auto bound = lists.bind(p);
                      REQUIRE(bound);
                      for (float v : {2.0F, 3.0F, -1.0F}) {
                        std::fill(w.begin(), w.end(), v);
                        lists.run(p).check();
                        CHECK((out == std::vector<float>(out.size(), 40 * v)));
                        std::fill(w.begin(), w.end(), 2 * v);
                        (*bound)();
                        CHECK((out == std::vector<float>(out.size(), 80 * v)));
                      }
                      ++ran;
                    });
  CHECK(ran >= 3);
}

// ---- Caps.

TEST_CASE("case 62: the environment's cap is read at each compile, and a program's own beats it") {
#if SINTER_WITH_JIT
  if (!sinter::runs(sinter::detected_isa(), sinter::isa::avx512))
    return;  // one level alone: no cap to tell
  std::vector<sinter::named_desc> const given = {dims("x", {5, 40}), dims("w", {40, 37})};
  sinter::options o = quiet();
  o.backend = "jit";
  auto const level = [&](std::optional<sinter::isa> own) {
    sinter::options mine = o;
    mine.max_isa = own;
    std::string const text = compile({"matmul(x, w) -> out=%0"}, given, mine)->explain();
    auto const from = text.find("[jit:");
    REQUIRE(from != std::string::npos);
    return text.substr(from + 5, text.find(':', from + 5) - from - 5);
  };
  std::string const best = level({});
  CHECK(best != "avx2");
  for (int i = 0; i < 2; ++i) {
    {
      environment const e("SINTER_MAX_ISA", "avx2");
      CHECK(level({}) == "avx2");
      CHECK(level(sinter::isa::avx512) == "avx512");
    }
    CHECK(level({}) == best);
    CHECK(level(sinter::isa::avx2) == "avx2");
  }
#endif
}

// ---- Threads.

namespace {

/// A backend whose work falls into as many parts as are wanted. The thread that takes the first of them is slow with
/// it. Its arithmetic is the reference's, done with part 0.
class slow_backend final : public sinter::backend {
 public:
  mutable std::atomic<int> parts{0}, by_slow{0};
  mutable std::atomic<int> done{0};

  std::string_view name() const noexcept override { return "slow"; }
  sinter::verdict supports(sinter::problem const&) const noexcept override {
    return sinter::verdict::yes();
  }
  sinter::result<std::shared_ptr<sinter::kernel const>> build(
      sinter::problem const& p) const override {
    return std::shared_ptr<sinter::kernel const>(std::make_shared<slow_kernel>(*this, p));
  }

 private:
  class slow_invocation final : public sinter::invocation {
   public:
    slow_invocation(slow_backend const& b, std::unique_ptr<sinter::invocation> inner)
        : invocation([](sinter::invocation& self) noexcept {
            return static_cast<slow_invocation&>(self).inner_->run();
          }),
          from_(b),
          inner_(std::move(inner)) {}
    void repoint(sinter::call_args const& args) noexcept override { inner_->repoint(args); }
    int cut(int wanted) noexcept override { return from_.parts = wanted; }
    sinter::code run_part(int part) noexcept override {
      if (part == 0) {
        slow_ = true;
        // The others take all that is left meanwhile: with fixed shares this would wait in vain.
        auto const end = std::chrono::steady_clock::now() + std::chrono::seconds(5);
        while (from_.done < from_.parts - 1 && std::chrono::steady_clock::now() < end)
          std::this_thread::yield();
      }
      if (slow_) ++from_.by_slow;
      ++from_.done;
      return part == 0 ? inner_->run() : sinter::code::ok;
    }

   private:
    slow_backend const& from_;
    std::unique_ptr<sinter::invocation> inner_;
    bool slow_ = false;
  };

  class slow_kernel final : public sinter_test::wrapped_kernel {
   public:
    slow_kernel(slow_backend const& b, sinter::problem const& p)
        : wrapped_kernel("slow", p), from_(b) {}

   private:
    std::unique_ptr<sinter::invocation> wrap(
        std::unique_ptr<sinter::invocation> inner) const override {
      return std::make_unique<slow_invocation>(from_, std::move(inner));
    }
    slow_backend const& from_;
  };
};

}  // namespace

TEST_CASE(
    "case 70: four parts for each thread, and a slow one takes one while the others take the "
    "rest") {
  threads_executor executor;
  for (int threads : {2, 3, 8}) {
    slow_backend const b;
    std::vector<float> const x(8, 3.0F);
    std::vector<float> out(8);
    program const p = try_compile_on({&b}, {"square(x:tensor) -> out=%0"}, {dims("x", {8})},
                                     with_threads(threads, executor))
                          .value();
    call_lists const lists{{{"x", sinter::as_view(x)}}, {}, {{"out", sinter::as_view(out)}}};
    lists.run(p).check();
    CHECK(b.parts >= 4 * threads);
    CHECK(b.done == b.parts);
    CHECK(b.by_slow == 1);
    CHECK((out == std::vector<float>(8, 9.0F)));
  }
}

TEST_CASE("case 70: real kernels of some size are cut into two parts for each thread at least") {
  struct work {
    std::string chain;
    std::vector<sinter::named_desc> given;
  };
  // Enough for eight threads: 32 parts of 2^18 multiply-adds.
  std::vector<work> const list = {
      {"matmul(x, w)", {dims("x", {512, 512}), dims("w", {512, 512})}},
      {"matmul(x, w) | add b:vector | gelu_tanh [bf16]",
       {dims("x", {512, 512}), dims("w", {512, 512})}},
      {"matmul(x, w) | row_max", {dims("x", {2048, 256}), dims("w", {256, 512})}},
      {"conv2d(x, w, pad=1) | relu", {dims("x", {1, 56, 56, 64}), dims("w", {64, 3, 3, 64})}},
      {"conv2d(x, w, pad=1, groups=32)", {dims("x", {1, 56, 56, 128}), dims("w", {128, 3, 3, 4})}},
      {"conv2d(x, w, pad=1, groups=96)", {dims("x", {1, 112, 112, 96}), dims("w", {96, 3, 3, 1})}},
      {"gelu_erf(x:tensor)", {dims("x", {1024, 1024})}},
  };
  for (work const& w : list)
    for (sinter::backend const* b : sinter::backends()) {
      if (b->name() != "jit") continue;
      std::vector<sinter::operand_spec> specs;
      sinter::chain const c = parsed(w.chain);
      for (std::size_t i = 0; i < w.given.size(); ++i)
        specs.push_back(sinter::dense_desc(c.operands[static_cast<int>(i)].type, w.given[i].dims));
      sinter::problem const p = sinter::make_problem(c, specs).value();
      if (!b->supports(p)) continue;  // below AVX2
      auto const k = b->build(p).value();
      auto const call = k->make_invocation().value();
      sinter::call_args args;
      call->repoint(args);
      for (int threads : {2, 4, 8}) {
        int const parts = call->cut(4 * threads);
        CHECK_MESSAGE(parts >= 2 * threads, w.chain, " for ", threads, " threads");
        CHECK(parts <= 4 * threads);
      }
    }
}
