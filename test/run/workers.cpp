// Several threads within one call: the same bits for every count and every executor, each part once, scratch for each
// worker, barriers between groups, several callers at once, failures.
#include <algorithm>
#include <atomic>
#include <mutex>
#include <thread>

#include "executors.hpp"
#include "helpers.hpp"

using namespace run_test;

namespace {

/// What the invocations of one kernel did.
struct record {
  std::mutex guard;
  std::vector<int> parts;            ///< in the order in which they were computed
  std::vector<void const*> scratch;  ///< with which scratch
  std::atomic<int> begun{0};
  int whole_runs = 0, cuts = 0;
  int wanted = 0;
};

/// A backend whose work falls into as many parts as the test says. Its arithmetic is that of the reference backend, made by
/// part 0 alone.
class parted_backend final : public sinter::backend {
 public:
  explicit parted_backend(int parts) : parts_(parts) {}
  int fails_at = -1;
  int meets = 0;  ///< a part waits until so many are being computed
  mutable record seen;

  std::string_view name() const noexcept override { return "parted"; }
  sinter::verdict supports(sinter::problem const&) const noexcept override {
    return sinter::verdict::yes();
  }
  sinter::result<std::shared_ptr<sinter::kernel const>> build(
      sinter::problem const& p) const override {
    return std::shared_ptr<sinter::kernel const>(std::make_shared<parted_kernel>(*this, p));
  }

 private:
  class parted_invocation final : public sinter::invocation {
   public:
    parted_invocation(parted_backend const& b, std::unique_ptr<sinter::invocation> inner)
        : invocation(&run_all), from_(b), inner_(std::move(inner)) {}
    void repoint(sinter::call_args const& args) noexcept override {
      args_ = args;
      cut_ = false;
      inner_->repoint(args);
    }
    int cut(int wanted) noexcept override {
      std::lock_guard const lock(from_.seen.guard);
      from_.seen.wanted = wanted;
      ++from_.seen.cuts;
      cut_ = true;
      return from_.parts_;
    }
    sinter::code run_part(int part) noexcept override {
      {
        std::lock_guard const lock(from_.seen.guard);
        from_.seen.parts.push_back(cut_ ? part : -1);
        from_.seen.scratch.push_back(args_.scratch);
      }
      ++from_.seen.begun;
      while (from_.seen.begun < from_.meets) std::this_thread::yield();
      if (part == from_.fails_at) return sinter::code::system;
      return part == 0 ? inner_->run() : sinter::code::ok;
    }

   private:
    static sinter::code run_all(invocation& self) noexcept {
      auto& me = static_cast<parted_invocation&>(self);
      ++me.from_.seen.whole_runs;
      return me.inner_->run();
    }
    parted_backend const& from_;
    std::unique_ptr<sinter::invocation> inner_;
    sinter::call_args args_;
    bool cut_ = false;
  };

  class parted_kernel final : public sinter_test::wrapped_kernel {
   public:
    parted_kernel(parted_backend const& b, sinter::problem const& p)
        : wrapped_kernel("parted", p), from_(b) {}

   private:
    std::unique_ptr<sinter::invocation> wrap(
        std::unique_ptr<sinter::invocation> inner) const override {
      return std::make_unique<parted_invocation>(from_, std::move(inner));
    }
    parted_backend const& from_;
  };

  int parts_;
};

/// "square(x)" on 8 numbers.
struct squares {
  std::vector<float> x{1, 2, 3, 4, 5, 6, 7, 8};
  std::vector<float> out = std::vector<float>(8, -1.0F);
  call_lists lists{{{"x", sinter::as_view(x)}}, {}, {{"out", sinter::as_view(out)}}};

  static program make(parted_backend const& b, sinter::options const& o) {
    return try_compile_on({&b}, {"square(x:tensor) -> out=%0"}, {dims("x", {8})}, o).value();
  }
  bool right() const { return out[0] == 1.0F && out[7] == 64.0F; }
};

// ---- whole programs

struct program_case {
  std::vector<std::string> groups;
  std::vector<sinter::named_desc> given;
};

/// All operands that the program wants, filled with the same random numbers for the same seed, and the bytes of its output.
class filled_call {
 public:
  filled_call(program const& p, std::vector<std::string> const& groups, unsigned seed) {
    for (std::string const& text : groups) chains_.push_back(parsed(text));
    for (sinter::chain const& c : chains_)
      for (sinter::operand const& o : c.operands)
        if (!o.internal) add(p, o, seed);
    sinter::tensor_desc const d = p->describe("out").value();
    bytes_.resize(static_cast<std::size_t>(sinter::element_count(d.dims) * sinter::size_of(d.type)),
                  0xcd);
    lists.outputs.push_back({"out", {bytes_.data(), d.type, d.dims, d.strides, false}});
    for (sinter::packed const& w : packs_) lists.packs.push_back(&w);
  }
  filled_call(filled_call const&) = delete;
  filled_call& operator=(filled_call const&) = delete;

  std::vector<unsigned char> const& bytes() const { return bytes_; }
  void forget() { std::fill(bytes_.begin(), bytes_.end(), static_cast<unsigned char>(0xcd)); }

  call_lists lists;

 private:
  void add(program const& p, sinter::operand const& o, unsigned seed) {
    sinter::tensor_desc const d = p->describe(o.name).value();
    auto const count = static_cast<std::size_t>(sinter::element_count(d.dims));
    memory_.emplace_back(count * 4 + 4);
    std::uint32_t state = seed + static_cast<std::uint32_t>(memory_.size());
    for (std::size_t i = 0; i < count; ++i) {
      state = state * 1664525U + 1013904223U;
      sinter::store(memory_.back().data(), d.type, static_cast<extent>(i),
                    static_cast<double>(state >> 8) / (1 << 23) - 1);
    }
    sinter::tensor_view const v{memory_.back().data(), d.type, d.dims, d.strides, false};
    if (o.role != sinter::role::weight)
      lists.operands.push_back({o.name, v});
    else
      packs_.push_back(pack(p, o.name, v));
  }

  std::vector<sinter::chain> chains_;  ///< names point into them
  std::vector<sinter::buffer> memory_;
  std::vector<sinter::packed> packs_;
  std::vector<unsigned char> bytes_;
};

/// The bits of one thread, whatever the count, the executor, and the form of the call.
void check_same_bits(program_case const& c, std::string_view backend,
                     std::optional<sinter::isa> cap = std::nullopt) {
  INFO(c.groups[0], " on ", std::string(backend));
  std::vector<unsigned char> expected;
  for (int threads : {1, 2, 3, 5, 8})
    for (sinter::executor* e : every_executor()) {
      sinter::options o = with_threads(threads, *e);
      o.backend = backend;
      o.max_isa = cap;
      auto made = try_compile(c.groups, c.given, o);
      if (!made) return;  // no such backend here, or not for this
      filled_call call(*made, c.groups, 7);
      REQUIRE(call.lists.run(*made));
      if (expected.empty()) expected = call.bytes();
      INFO(threads, " threads");
      CHECK((call.bytes() == expected));
      auto bound = call.lists.bind(*made);
      REQUIRE(bound);
      for (int i = 0; i < 2; ++i) {
        call.forget();
        (*bound)();
        CHECK((call.bytes() == expected));
      }
    }
}

}  // namespace

TEST_CASE("each part is computed once, by workers with scratch of their own") {
  for (sinter::executor* e : every_executor()) {
    parted_backend const b(13);
    squares mine;
    program const p = squares::make(b, with_threads(4, *e));
    auto call = mine.lists.bind(p).value();
    call();
    CHECK(mine.right());
    CHECK(b.seen.wanted >= 8);
    CHECK(b.seen.whole_runs == 0);
    std::vector<int> parts = b.seen.parts;
    std::sort(parts.begin(), parts.end());
    REQUIRE(parts.size() == 13);
    for (int i = 0; i < 13; ++i) CHECK(parts[static_cast<std::size_t>(i)] == i);
    std::vector<void const*> scratch = b.seen.scratch;
    std::sort(scratch.begin(), scratch.end());
    auto const different = std::unique(scratch.begin(), scratch.end()) - scratch.begin();
    CHECK(different <= 4);
  }
}

TEST_CASE("workers that run at once have different scratch") {
  threads_executor e;
  parted_backend b(2);
  b.meets = 2;
  squares mine;
  program const p = squares::make(b, with_threads(2, e));
  mine.lists.bind(p).value()();
  CHECK(mine.right());
  REQUIRE(b.seen.scratch.size() == 2);
  CHECK(b.seen.scratch[0] != b.seen.scratch[1]);
  CHECK(b.seen.scratch[0] != nullptr);
  CHECK(b.seen.scratch[1] != nullptr);
}

TEST_CASE("work of one part stays on the caller's thread, and no executor is asked") {
  counting_executor counts;
  parted_backend const b(1);
  squares mine;
  program const p = squares::make(b, with_threads(4, counts));
  REQUIRE(mine.lists.run(p));
  mine.lists.bind(p).value()();
  CHECK(mine.right());
  CHECK(b.seen.whole_runs == 2);
  CHECK(counts.calls == 0);
}

TEST_CASE("an executor is asked for at most as many tasks as there are threads and parts") {
  for (int threads : {2, 3, 8})
    for (int parts : {2, 5, 40}) {
      counting_executor counts;
      parted_backend const b(parts);
      squares mine;
      program const p = squares::make(b, with_threads(threads, counts));
      REQUIRE(mine.lists.run(p));
      CHECK(counts.calls == 1);
      CHECK(counts.largest == std::min(threads, parts));
    }
}

TEST_CASE("a worker is pointed at the operands once for each change of a pointer") {
  backwards_executor e;
  parted_backend const b(8);
  squares mine;
  program const p = squares::make(b, with_threads(2, e));
  auto call = mine.lists.bind(p).value();
  for (int i = 0; i < 5; ++i) call();
  CHECK(b.seen.cuts == 2);  // the caller's at bind, the worker's at the first call
  std::vector<float> twos(8, 2.0F);
  REQUIRE(call.repoint("x", twos.data()));
  call();
  CHECK(mine.out[7] == 4.0F);
  CHECK(b.seen.cuts == 4);
  CHECK(std::count(b.seen.parts.begin(), b.seen.parts.end(), -1) == 0);
}

TEST_CASE("a part that fails fails the call") {
  for (sinter::executor* e : every_executor())
    for (int part : {0, 3, 6}) {
      parted_backend b(7);
      b.fails_at = part;
      squares mine;
      program const p = squares::make(b, with_threads(3, *e));
      check_sentence(mine.lists.run(p).error().message, {"parted", "failed"});
      CHECK(mine.lists.bind(p)->run() == sinter::code::system);
    }
}

TEST_CASE("the same bits for every count: matmul") {
  std::optional<sinter::isa> const levels[] = {std::nullopt, sinter::isa::avx512,
                                               sinter::isa::avx2};
  for (auto const& level : levels)
    for (std::string const precision : {" [f32]", " [bf16]"}) {
      auto const check = [&](std::string const& text, std::vector<sinter::named_desc> given) {
        check_same_bits({{text + precision}, std::move(given)}, "jit", level);
      };
      check("matmul(x, w) | add b:vector | gelu_tanh",
            {dims("x", {1, 601}), dims("w", {601, 999})});
      check("matmul(x, w) | add b:vector | relu", {dims("x", {7, 300}), dims("w", {300, 1030})});
      check("matmul(x, w) | add b:vector | relu", {dims("x", {203, 131}), dims("w", {131, 197})});
      check("matmul(x, w) | add r:tensor", {dims("x", {2011, 67}), dims("w", {67, 31})});
      check("matmul(x, w, transposed_src) | add b:vector",
            {dims("x", {301, 190}), dims("w", {301, 77})});
      // A second operand that is no weight: read in place, packed by rows, packed by columns, shared by a batch.
      check("matmul(x, y:tensor) | add b:vector", {dims("x", {5, 512}), dims("y", {512, 1000})});
      check("matmul(x, y:tensor)", {dims("x", {200, 129}), dims("y", {129, 333})});
      check("matmul(x, y:tensor, transposed_weight)",
            {dims("x", {5, 77, 64}), dims("y", {5, 129, 64})});
      check("matmul(x, y:tensor) | relu", {dims("x", {3, 2, 45, 80}), dims("y", {2, 80, 97})});
    }
}

TEST_CASE("the same bits for every count: convolutions and rows") {
  for (std::string_view const backend : {"jit", "reference"}) {
    extent const size = backend == "jit" ? 27 : 6;
    check_same_bits({{"conv2d(x, w, pad=1) | add b:vector | relu"},
                     {dims("x", {2, size, size + 2, 24}), dims("w", {40, 3, 3, 24})}},
                    backend);
    check_same_bits({{"conv2d(x, w, stride=2) | add b:vector [bf16]"},
                     {dims("x", {1, 2 * size + 1, 2 * size, 33}), dims("w", {65, 1, 1, 33})}},
                    backend);
    check_same_bits({{"add(x:tensor, r:tensor) | gelu_erf"}, {dims("x", {40 * size, 100})}},
                    backend);
  }
  check_same_bits({{"matmul(x, w) | add b:vector | gelu_tanh [bf16]"},
                   {dims("x", {67, 30}), dims("w", {30, 41})}},
                  "reference");
}

TEST_CASE("groups follow one another, whatever the executor") {
  program_case const mlp{
      {"matmul(x, w) | add b:vector | relu -> ~h=%2",
       "matmul(~h:tensor, v) | add c:vector | relu -> ~i=%2",
       "matmul(~i:tensor, u) | add r:tensor -> out=%1"},
      {dims("x", {150, 90}), dims("w", {90, 210}), dims("v", {210, 130}), dims("u", {130, 170})}};
  check_same_bits(mlp, "jit");
}

TEST_CASE("dynamic extents: the cut follows the call") {
  threads_executor e;
  for (int threads : {1, 2, 5}) {
    sinter::options o = with_threads(threads, e);
    program const p = compile({"matmul(x, w) | relu -> ~h=%1", "square(~h:tensor) -> out=%0"},
                              {dims("x", {sinter::dynamic, 64}), dims("w", {64, 96})}, o);
    std::vector<float> const ws(64 * 96, 1.0F);
    sinter::packed const w = pack(p, "w", sinter::view(ws.data(), {64, 96}));
    for (extent m : {1, 300, 7, 0, 299, 1, 1000}) {
      std::vector<float> x(static_cast<std::size_t>(m) * 64), out(static_cast<std::size_t>(m) * 96);
      for (extent i = 0; i < m; ++i)
        x[static_cast<std::size_t>(i) * 64] = static_cast<float>(i % 100);
      call_lists const lists{{{"x", sinter::view(x.data(), {m, 64})}},
                             {&w},
                             {{"out", sinter::view(out.data(), {m, 96})}}};
      REQUIRE(lists.run(p));
      bool right = true;
      for (extent i = 0; i < m; ++i) {
        float const v = static_cast<float>((i % 100) * (i % 100));
        right = right && out[static_cast<std::size_t>(i) * 96] == v &&
                out[static_cast<std::size_t>(i) * 96 + 95] == v;
      }
      CHECK_MESSAGE(right, m);
    }
  }
}

TEST_CASE("eight callers share one program, each with two workers") {
  std::vector<std::string> const groups = {"matmul(x, w) | add b:vector | relu -> ~h=%2",
                                           "matmul(~h:tensor, v) -> out=%0"};
  threads_executor e;
  program const p =
      compile(groups, {dims("x", {64, 100}), dims("w", {100, 150}), dims("v", {150, 70})},
              with_threads(2, e));
  std::atomic<int> wrong{0};
  std::vector<std::thread> callers;
  for (unsigned t = 0; t < 8; ++t)
    callers.emplace_back([&, t] {
      filled_call call(p, groups, t);
      if (!call.lists.run(p)) ++wrong;
      std::vector<unsigned char> const expected = call.bytes();
      auto bound = call.lists.bind(p);
      for (int i = 0; i < 10; ++i) {
        call.forget();
        bool const ok = i % 2 == 0 ? call.lists.run(p).ok() : bound->run() == sinter::code::ok;
        if (!ok || call.bytes() != expected) ++wrong;
      }
    });
  for (std::thread& t : callers) t.join();
  CHECK(wrong == 0);
}

TEST_CASE("explain() says what threads do") {
  backwards_executor e;
  parted_backend const b(3);
  CHECK(squares::make(b, with_threads(4, e))
            ->explain()
            .find("threads: up to 4, the same bits for every count") != std::string::npos);
  CHECK(squares::make(b, with_threads(1, e))->explain().find("threads:") == std::string::npos);
  sinter::options o = with_threads(4, e);
  o.backend = "onednn";
  o.numerics = sinter::numerics::peer;
  if (auto const p = try_compile({"matmul(x, w)"}, {dims("x", {3, 4}), dims("w", {4, 5})}, o))
    CHECK((*p)->explain().find("threads: 1 of 4: onednn takes its threads from OpenMP") !=
          std::string::npos);
}
