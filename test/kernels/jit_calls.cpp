// What generated code leaves behind: registers, stack, flags and upper halves after a call; memory and maps after ten
// thousand shapes, after a generator that fails, and on a host that forbids executable memory.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <unistd.h>

#include <sinter/backend/jit.hpp>
#include <sinter/plan/parse.hpp>
#include <sinter/run/dispatch.hpp>
#include <sinter/run/program_core.hpp>

#include "support/forbid_code.hpp"
#include "support/levels.hpp"
#include "support/row_chains.hpp"
#include "support/skip.hpp"
#include "support/tensor_memory.hpp"

using namespace sinter;
using sinter_test::implementation_prefix;
using sinter_test::jit_levels;

namespace {

problem problem_of(std::string const& text, std::vector<shape> const& dims) {
  chain const c = parse_chain(text).value();
  std::vector<operand_spec> specs(c.operands.size());
  for (std::size_t i = 0; i < dims.size(); ++i)
    specs[i] = tensor_desc{c.operands[static_cast<int>(i)].type, dims[i], {}};
  return make_problem(c, specs).value();
}

/// A kernel with operands of its own, ready to run.
class ready_call {
 public:
  explicit ready_call(problem const& p) : problem_(p), operands_(problem_) {
    kernel_ = jit_backend{}.build(problem_).value();
    args_ = operands_.args();
    for (int i = 0; i < problem_.chain.operands.ssize(); ++i)
      if (problem_.chain.operands[i].role == role::weight) {
        packed_.push_back(kernel_->pack(i, operands_.view(i)).value());
        args_.operands[i] = packed_.back().data();
      }
    scratch_ = buffer(kernel_->scratch_bytes());
    args_.scratch = scratch_.data();
    call_ = kernel_->make_invocation().value();
    call_->repoint(args_);
  }
  invocation& call() { return *call_; }
  call_args const& args() const { return args_; }
  kernel const& built() const { return *kernel_; }
  std::string implementation() const { return kernel_->stages()[0].implementation; }

 private:
  problem problem_;
  sinter::detail::scratch_operands operands_;
  std::shared_ptr<kernel const> kernel_;
  std::vector<packed_weight> packed_;
  buffer scratch_;
  call_args args_;
  std::unique_ptr<invocation> call_;
};

/// What a call may change and must not, by bit.
enum changed : std::uint64_t {
  rbx,
  rbp,
  r12,
  r13,
  r14,
  r15,
  direction,
  mxcsr,
  stack_pointer,
  stack
};
constexpr char const* changed_names[] = {
    "rbx", "rbp", "r12", "r13", "r14", "r15", "the direction flag", "MXCSR", "rsp", "the stack"};

/// Generated code around a call: known values in every register and stack slot that belongs to the caller, ones in the
/// upper halves of the vector registers.
class guarded_call {
 public:
  guarded_call() {
    namespace xb = jit::xb;
    isa const level = runs(detected_isa(), isa::avx512) ? isa::avx512 : isa::avx2;
    jit::assembler a(level);
    auto const g = [](int i) { return jit::assembler::general(i); };
    auto const word = [&](int r) {
      return 0x1111111111111111U * static_cast<std::uint64_t>(r + 1);
    };
    for (int r : kept) a.push(g(r));
    a.sub(g(4), frame_bytes);
    for (int i = 0; i < slots; ++i) {
      a.mov(g(0), word(i));
      a.mov(a.ptr[jit::assembler::at(4, 8 * i)], g(0));
    }
    a.mov(g(0), address_of(&before_.rsp));
    a.mov(a.ptr[g(0)], g(4));
    a.mov(g(0), address_of(&before_.mxcsr));
    a.stmxcsr(a.ptr[g(0)]);
    for (int i = 0; i < vectors; ++i) {
      if (level == isa::avx512)
        a.vpternlogd(xb::Zmm(i), xb::Zmm(i), xb::Zmm(i), 0xff);
      else
        a.vpcmpeqd(xb::Ymm(i), xb::Ymm(i), xb::Ymm(i));
    }
    for (int r : kept) a.mov(g(r), word(r));
    a.call(g(6));

    a.xor_(xb::Reg32(0), xb::Reg32(0));
    auto const unless =
        [&](void (jit::assembler::*jump)(xb::Label const&, xb::CodeGenerator::LabelType),
            changed bit) {
          xb::Label same;
          (a.*jump)(same, xb::CodeGenerator::T_AUTO);
          a.or_(g(0), std::uint32_t{1} << bit);
          a.L(same);
        };
    for (int i = 0; i < 6; ++i) {
      a.mov(g(1), word(kept[i]));
      a.cmp(g(1), g(kept[i]));
      unless(&jit::assembler::je, static_cast<changed>(i));
    }
    a.pushfq();
    a.pop(g(1));
    a.test(xb::Reg32(1), 0x400);
    unless(&jit::assembler::jz, direction);
    a.mov(g(1), address_of(&before_.rsp));
    a.cmp(g(4), a.ptr[g(1)]);
    unless(&jit::assembler::je, stack_pointer);
    for (int i = 0; i < slots; ++i) {
      a.mov(g(1), word(i));
      a.cmp(g(1), a.ptr[jit::assembler::at(4, 8 * i)]);
      unless(&jit::assembler::je, stack);
    }
    a.mov(g(1), address_of(&after_mxcsr_));
    a.stmxcsr(a.ptr[g(1)]);
    a.mov(g(1), address_of(lanes_.data()));
    for (int i = 0; i < vectors; ++i) a.vmovups(a.ptr[jit::assembler::at(1, 64 * i)], a.vec(i));
    a.vzeroupper();
    a.add(g(4), frame_bytes);
    for (int i = 6; i-- > 0;) a.pop(g(kept[i]));
    a.ret();
    code_ = jit::code_memory::process().publish(a.finish().value()).value();
  }

  /// Runs f(argument); the names of what it changed, and vectors whose upper halves it left dirty.
  std::string run(void (*f)(void*), void* argument) {
    std::fill(lanes_.begin(), lanes_.end(), 0U);
    using entry = std::uint64_t (*)(void*, void (*)(void*));
    std::uint64_t bits = code_->entry<entry>()(argument, f);
    // The lower bits remember that something was inexact.
    if (((before_.mxcsr ^ after_mxcsr_) & 0xffc0U) != 0) bits |= std::uint64_t{1} << mxcsr;
    std::string text;
    for (std::size_t i = 0; i < std::size(changed_names); ++i)
      if ((bits >> i & 1) != 0) text += std::string(changed_names[i]) + "; ";
    for (int i = 0; i < vectors; ++i)
      for (int lane = 4; lane < 16; ++lane)
        if (lanes_[static_cast<std::size_t>(16 * i + lane)] != 0) {
          text += "upper half of vector " + std::to_string(i) + "; ";
          break;
        }
    return text;
  }
  /// A whole call; each of its parts; where there are rows of images, the first ones.
  std::string run(invocation& call) {
    std::string harm = run([](void* p) { static_cast<invocation*>(p)->run(); }, &call);
    int const parts = call.cut(3);
    std::pair<invocation*, int> part{&call, 0};
    for (; part.second < parts; ++part.second)
      harm += run(
          [](void* p) {
            auto const& [c, i] = *static_cast<std::pair<invocation*, int>*>(p);
            c->run_part(i);
          },
          &part);
    return harm;
  }
  std::string run_rows(invocation& call, call_args const& at) {
    std::pair<invocation*, call_args const*> given{&call, &at};
    return run(
        [](void* p) {
          auto const& [c, a] = *static_cast<std::pair<invocation*, call_args const*>*>(p);
          if (c->run_rows(*a, 0, {0, 2}) != code::ok) FAIL("no rows");
        },
        &given);
  }

 private:
  static constexpr int kept[] = {3, 5, 12, 13, 14, 15};
  static constexpr int slots = 15, frame_bytes = 8 * slots,
                       vectors = 16;  // rsp stays a multiple of 16

  template <class T>
  static std::uint64_t address_of(T* p) {
    return static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(p));
  }

  struct {
    std::uint64_t rsp = 0;
    std::uint32_t mxcsr = 0;
  } before_;
  std::uint32_t after_mxcsr_ = 0;
  std::array<std::uint32_t, 16 * vectors> lanes_{};
  std::shared_ptr<jit::machine_code const> code_;
};

struct sample {
  std::string chain;
  std::vector<shape> dims;
};

/// One of each way through the backend: tiles and tails, copies and panels made in the call, every kind of kernel.
std::vector<sample> samples() {
  std::vector<sample> list = {
      {"matmul(x, w)", {{1, 1}, {1, 1}}},
      {"matmul(x, w) | add b:vector | gelu_tanh", {{16, 64}, {64, 64}}},
      {"matmul(x, w) | tanh | add r:tensor", {{11, 5}, {5, 40}}},
      {"matmul(x, w, transposed_src)", {{5, 11}, {5, 40}}},
      {"matmul(x, w:tensor)", {{3, 50, 9}, {3, 9, 70}}},
      {"matmul(x, w:tensor, transposed_weight)", {{50, 9}, {70, 9}}},
      {"conv2d(x, w) | relu", {{1, 9, 7, 20}, {33, 1, 1, 20}}},
      {"conv2d(x, w, pad=1) | add b:vector | relu", {{2, 9, 7, 16}, {40, 3, 3, 16}}},
      {"conv2d(x, w, stride=2, pad=3) | add b:vector | relu", {{1, 20, 20, 3}, {24, 7, 7, 3}}},
      {"conv2d(x, w, pad=1, groups=2) | relu", {{1, 6, 6, 32}, {64, 3, 3, 16}}},
      {"conv2d(x, w, pad=1, groups=8) | relu", {{1, 6, 6, 32}, {32, 3, 3, 4}}},
      {"conv2d(x, w, pad=1, groups=24) | add b:vector | relu", {{1, 9, 9, 24}, {24, 3, 3, 1}}},
      {"add(x, y:tensor) | gelu_erf", {{7, 41}, {7, 41}}},
  };
  // Lines of few channels, quads, strides, wide kernels; depthwise with taps of every kind.
  list.push_back({"conv2d(x, w, stride=2) | relu", {{1, 9, 7, 20}, {33, 1, 1, 20}}});
  list.push_back(
      {"conv2d(x, w, stride=2, pad=1, groups=8) | relu", {{1, 9, 9, 32}, {32, 3, 3, 4}}});
  list.push_back({"conv2d(x, w, stride=4, pad=2) | relu", {{1, 35, 35, 3}, {20, 11, 11, 3}}});
  list.push_back({"conv2d(x, w, pad=2, dilation=2) | swish", {{2, 9, 12, 8}, {18, 3, 3, 8}}});
  list.push_back({"conv2d(x, w, stride=2, pad=2, groups=40)", {{2, 9, 9, 40}, {40, 5, 5, 1}}});
  list.push_back({"conv2d(x, w, pad=1, dilation=2, groups=17)", {{1, 12, 9, 17}, {17, 3, 3, 1}}});
  // Windows: of an operand, behind a convolution in blocks, behind a depthwise one; means of images.
  for (std::string const pooling : {" | max_pool(kernel=3, stride=2, pad=1)",
                                    " | avg_pool(kernel=2) | relu", " | global_avg_pool"})
    for (auto const& [head, dims] :
         {std::pair<std::string, std::vector<shape>>{"relu(x:tensor)", {{1, 9, 9, 24}}},
          {"conv2d(x, w, pad=1) | relu", {{1, 9, 9, 16}, {24, 3, 3, 16}}},
          {"conv2d(x, w, pad=1, groups=24)", {{1, 9, 9, 24}, {24, 3, 3, 1}}}})
      list.push_back({head + pooling, dims});
  list.push_back({"max_pool(x:tensor, kernel=3, stride=2, pad=1)", {{2, 9, 8, 40}}});
  list.push_back({"global_avg_pool(x:tensor)", {{2, 9, 8, 40}}});
  // Reductions: of an operand, behind a product, behind convolutions.
  for (std::string const& rows : {sinter_test::softmax, sinter_test::log_softmax,
                                  sinter_test::layer_norm, sinter_test::rms_norm}) {
    list.push_back({rows, {{7, 41}}});
    list.push_back({sinter_test::behind_product("matmul(x, w)", rows), {{9, 13}, {13, 70}}});
    list.push_back(
        {sinter_test::behind_product("conv2d(x, w, pad=1)", rows), {{1, 5, 6, 8}, {20, 3, 3, 8}}});
    list.push_back({sinter_test::behind_product("conv2d(x, w, groups=24)", rows),
                    {{1, 5, 6, 24}, {24, 3, 3, 1}}});
  }
  list.push_back({"argmax(x:tensor)", {{7, 41}}});
  list.push_back({"matmul(x, w) | argmax", {{9, 13}, {13, 70}}});
  // Each emitter, behind a product and alone.
  for (op_row const& row : op_table) {
    std::string const name(row.name);
    if (row.kind == op_class::unary) {
      list.push_back({"matmul(x, w) | " + name, {{11, 5}, {5, 40}}});
      list.push_back({"linear(x:tensor, 1, 0) | " + name, {{7, 41}}});
    } else if (row.kind == op_class::binary) {
      list.push_back({"matmul(x, w) | " + name + " r:tensor", {{11, 5}, {5, 40}}});
    } else if (row.kind == op_class::ternary) {
      list.push_back({"matmul(x, w) | " + name + " b:vector, r:tensor", {{11, 5}, {5, 40}}});
    }
  }
  std::string residuals = "matmul(x, w)", many = residuals;
  for (int i = 0; i < 9; ++i) residuals += " | add r" + std::to_string(i) + ":tensor";
  for (int i = 0; i < 12; ++i) many += i % 2 == 0 ? " | gelu_erf" : " | mish";
  list.push_back({residuals, {{11, 5}, {5, 40}}});
  list.push_back({many, {{11, 9}, {9, 50}}});
  return list;
}

}  // namespace

TEST_CASE("the guard sees what it is there for") {
  if (jit_levels().empty()) SINTER_SKIP("this CPU has no AVX2");
  guarded_call guard;
  CHECK(guard.run([](void*) {}, nullptr).find("upper half of vector 0; ") == 0);
  auto const one = [&](auto const& emit) {
    jit::assembler a(isa::avx2);
    a.vzeroupper();
    emit(a);
    a.ret();
    auto const code = jit::code_memory::process().publish(a.finish().value()).value();
    return guard.run(code->entry<void (*)(void*)>(), nullptr);
  };
  auto const g = [](int i) { return jit::assembler::general(i); };
  CHECK(one([](jit::assembler&) {}).empty());
  CHECK(one([&](jit::assembler& a) { a.inc(g(13)); }) == "r13; ");
  CHECK(one([&](jit::assembler& a) { a.mov(a.ptr[g(4) + 16], g(1)); }) == "the stack; ");
  CHECK(one([](jit::assembler& a) {
          a.vpcmpeqd(jit::xb::Ymm(9), jit::xb::Ymm(9), jit::xb::Ymm(9));
        }) == "upper half of vector 9; ");
  std::uint32_t toward_zero = 0x7f80, usual = 0x1f80;
  CHECK(one([&](jit::assembler& a) {
          a.mov(g(0), reinterpret_cast<std::uintptr_t>(&toward_zero));
          a.ldmxcsr(a.ptr[g(0)]);
        }) == "MXCSR; ");
  one([&](jit::assembler& a) {
    a.mov(g(0), reinterpret_cast<std::uintptr_t>(&usual));
    a.ldmxcsr(a.ptr[g(0)]);
  });
}

TEST_CASE(
    "a call leaves registers, stack, flags and upper halves as they were, whatever it computes") {
  if (jit_levels().empty()) SINTER_SKIP("this CPU has no AVX2");
  guarded_call guard;
  int ran = 0, ran_rows = 0;
  for (isa level : jit_levels())
    for (sample const& s : samples())
      for (std::string_view precision : {"", " [bf16]", " [f16]"}) {
        problem p = problem_of(s.chain + std::string(precision), s.dims);
        p.max_isa = level;
        if (!jit_backend{}.supports(p)) continue;
        ready_call call(p);
        std::string const harm = guard.run(call.call());
        CHECK_MESSAGE(harm.empty(), call.implementation(), " ", text(p), ": ", harm);
        ++ran;
        row_range const first[] = {{0, 2}};
        auto const rows = call.built().by_rows(first);
        if (p.domain.ssize() != 4 || !rows) continue;
        auto const by_rows = (*rows)->make_invocation().value();
        by_rows->repoint(call.args());
        std::string const more = guard.run_rows(*by_rows, call.args());
        CHECK_MESSAGE(more.empty(), "rows of ", call.implementation(), " ", text(p), ": ", more);
        ++ran_rows;
      }
  CHECK(ran >= 300 * static_cast<int>(jit_levels().size()));
  CHECK(ran_rows >= 20 * static_cast<int>(jit_levels().size()));
}

namespace {

std::size_t resident_kib() {
  std::ifstream file("/proc/self/statm");
  std::size_t size = 0, resident = 0;
  file >> size >> resident;
  return resident * static_cast<std::size_t>(sysconf(_SC_PAGESIZE)) / 1024;
}
/// What AddressSanitizer keeps of freed memory: quarantine_size_mb.
#if defined(__SANITIZE_ADDRESS__)
constexpr std::size_t quarantine_kib = 256 * 1024;
#else
constexpr std::size_t quarantine_kib = 0;
#endif
std::size_t count_maps() {
  std::ifstream file("/proc/self/maps");
  std::size_t lines = 0;
  for (std::string line; std::getline(file, line);) ++lines;
  return lines;
}

}  // namespace

TEST_CASE("ten thousand random shapes keep memory bounded") {
  if (jit_levels().empty()) SINTER_SKIP("this CPU has no AVX2");
  std::mt19937 random(20260731);
  auto const upto = [&](int n) {
    return static_cast<extent>(1 + random() % static_cast<unsigned>(n));
  };
  std::vector<isa> const all = jit_levels();
  auto const builds = [&](int count) {
    for (int i = 0; i < count; ++i) {
      std::string const step = i % 3 == 0 ? "" : i % 3 == 1 ? " | add b:vector | relu" : " | tanh";
      std::string const precision = i % 2 == 0 ? "" : " [bf16]";
      extent const k = upto(3000), n = upto(200);
      problem p = problem_of("matmul(x, w)" + step + precision, {{upto(100), k}, {k, n}});
      p.max_isa = all[static_cast<std::size_t>(i) % all.size()];
      REQUIRE(jit_backend{}.build(p).ok());
    }
  };
  builds(3000);
  std::size_t const resident = resident_kib(), lines = count_maps();
  builds(7000);
  jit::cache_counters const c = jit::process_cache().counters();
  CHECK(c.entries <= 1024);
  CHECK(c.evicted > 4000);
  // 1024 kernels of a few KiB each: the cache's keys and code were all there after 3000 builds.
  CHECK(resident_kib() < resident + 8 * 1024 + quarantine_kib);
  CHECK(count_maps() < lines + 32);
  CHECK(jit::code_memory::process().used().regions <= 1024 * 16 / 128);
}

TEST_CASE("a generator that fails or throws leaves cache, memory and maps as they were") {
  if (jit_levels().empty()) SINTER_SKIP("this CPU has no AVX2");
  using made = result<std::shared_ptr<jit::machine_code const>>;
  auto const state = [] {
    auto const used = jit::code_memory::process().used();
    return std::tuple(jit::process_cache().counters().entries, used.regions, used.bytes);
  };
  auto const publish = [](int instructions) -> made {
    jit::assembler a(isa::avx2);
    for (int i = 0; i < instructions; ++i) a.nop();
    a.ret();
    auto const bytes = a.finish();
    if (!bytes) return bytes.error();
    return jit::code_memory::process().publish(*bytes);
  };
  auto const before = state();
  std::size_t const lines = count_maps();
  for (int i = 0; i < 100; ++i) {
    auto const failed = jit::process_cache().get("test: a generator", [&] {
      return publish(static_cast<int>(jit::assembler::max_code_bytes));
    });
    REQUIRE_FALSE(failed);
    CHECK(failed.error().what == code::unsupported);
    CHECK_THROWS_AS(static_cast<void>(jit::process_cache().get("test: a generator",
                                                               [&]() -> made {
                                                                 auto const lost = publish(10);
                                                                 throw std::runtime_error("late");
                                                               })),
                    std::runtime_error);
  }
  CHECK(state() == before);
  CHECK(count_maps() <= lines + 1);  // the heap may have grown
  auto const fine = jit::process_cache().get("test: a generator", [&] { return publish(10); });
  REQUIRE(fine);
  CHECK((*fine)->bytes().size() == 11);
}

TEST_CASE("the longest chains: at most 64 KiB of code, or a sentence and no trace") {
  if (jit_levels().empty()) SINTER_SKIP("this CPU has no AVX2");
  int built = 0;
  for (isa level : jit_levels())
    for (op_row const& row : op_table) {
      if (row.kind != op_class::unary) continue;
      std::string text = "matmul(x, w)";
      for (int i = 0; i < 63; ++i) text += " | " + std::string(row.name);
      problem p = problem_of(text, {{11, 9}, {9, 50}});
      p.max_isa = level;
      auto const before = jit::code_memory::process().used().bytes;
      auto const k = jit_backend{}.build(p);
      if (!k) {
        CHECK(k.error().what == code::unsupported);
        CHECK(k.error().message == "sinter: generating a kernel failed: code is too big");
        CHECK(jit::code_memory::process().used().bytes == before);
        continue;
      }
      ++built;
      CHECK(jit::code_memory::process().used().bytes <= before + jit::assembler::max_code_bytes);
    }
  CHECK(built >= 10 * static_cast<int>(jit_levels().size()));
}

namespace {
constexpr char const* forbidden_case = "child: programs on a host that forbids executable memory";
}

TEST_CASE("child: programs on a host that forbids executable memory" * doctest::skip()) {
  sinter_test::forbid_code_as_asked();
  static int warnings = 0;
  set_warning_handler([](std::string_view) { ++warnings; });
  chain const c = parse_chain("matmul(x, w) | add b:vector | relu").value();
  named_desc const given[] = {{name_text("x"), {4, 5}, {}, {}}, {name_text("w"), {5, 3}, {}, {}}};
  auto const p = make_program({&c, 1}, given);
  REQUIRE_MESSAGE(p.ok(), p.error().message);
  std::string const told = (*p)->explain();
  CHECK_MESSAGE(told.find("refused by jit: this host gives no executable memory (mprotect: ") !=
                    std::string::npos,
                told);
  CHECK(told.find("backend: jit") == std::string::npos);
  CHECK(warnings > 0);
  std::vector<float> const x(20, 1.0F), w(15, 2.0F), b(3, -1.0F);
  std::vector<float> out(12);
  named_view const weights[] = {{"w", view(w.data(), {5, 3})}};
  packed const packs = (*p)->pack(weights).value();
  packed const* const all_packs[] = {&packs};
  named_view const views[] = {{"x", view(x.data(), {4, 5})}, {"b", as_view(b)}};
  named_output const outputs[] = {{"out", view(out.data(), {4, 3})}};
  REQUIRE((*p)->run(views, all_packs, outputs).ok());
  for (float v : out) CHECK(v == 9.0F);
  options only_jit;
  only_jit.backend = "jit";
  auto const refused = make_program({&c, 1}, given, only_jit);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().message.find("this host gives no executable memory") != std::string::npos);
}

TEST_CASE("a host that forbids executable memory gets another backend: memory-deny-write-execute") {
  int const code = sinter_test::run_child("mdwe", forbidden_case);
  if (code == 77) SINTER_SKIP("this kernel has no PR_SET_MDWE");
  CHECK(code == 0);
}
TEST_CASE("a host that forbids executable memory gets another backend: seccomp") {
  int const code = sinter_test::run_child("seccomp", forbidden_case);
  if (code == 77) SINTER_SKIP("this kernel has no seccomp filters");
  CHECK(code == 0);
}

namespace {

/// The level in the name of its code.
std::string level_named(problem const& p) {
  std::string const prefix = implementation_prefix(p, *p.max_isa);  // "jit:avx2:"
  return prefix.substr(4, prefix.size() - 5);
}

}  // namespace

TEST_CASE("profiles and dumps of real kernels: level, chain and extents, at their addresses") {
  if (jit_levels().empty()) SINTER_SKIP("this CPU has no AVX2");
  std::string const map = "/tmp/perf-" + std::to_string(getpid()) + ".map";  // where perf looks
  std::string const prefix = "sinter_test_kernel_" + std::to_string(getpid()) + "_";
  setenv("SINTER_JIT_PROFILE", "perf", 1);
  setenv("SINTER_JIT_DUMP", prefix.c_str(), 1);
  std::vector<problem> problems;
  std::vector<std::shared_ptr<kernel const>> kept;
  for (isa level : jit_levels())
    for (sample const& s :
         {sample{"matmul(x, w) | elu(0.71875)", {{3, 5}, {5, 7}}},
          sample{"conv2d(x, w, pad=1) | elu(0.71875)", {{1, 6, 5, 8}, {24, 3, 3, 8}}}}) {
      problems.push_back(problem_of(s.chain, s.dims));
      problems.back().max_isa = level;
      kept.push_back(jit_backend{}.build(problems.back()).value());
    }
  unsetenv("SINTER_JIT_PROFILE");
  unsetenv("SINTER_JIT_DUMP");

  std::ifstream file(map);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  std::vector<int> found(problems.size());
  for (std::string const& line : lines) {
    CAPTURE(line);
    std::size_t address_end = 0, size_end = 0;
    auto const address = std::stoull(line, &address_end, 16);
    auto const size = std::stoull(line.substr(address_end), &size_end, 16);
    CHECK(address % 64 == 0);
    CHECK(size > 0);
    CHECK(size <= jit::assembler::max_code_bytes);
    std::string const name = line.substr(address_end + size_end);
    for (std::size_t i = 0; i < problems.size(); ++i)
      if (name == " sinter:" + level_named(problems[i]) + " " + text(problems[i])) ++found[i];
  }
  for (std::size_t i = 0; i < problems.size(); ++i)
    CHECK_MESSAGE(found[i] >= 1, name_of(*problems[i].max_isa), " ", text(problems[i]));
  std::remove(map.c_str());

  // A dump for each line of the map. (Their bytes: test/unit/jit_code_memory.cpp.)
  std::size_t dumps = 0;
  for (auto const& entry : std::filesystem::directory_iterator(".")) {
    std::string const name = entry.path().filename().string();
    if (!name.starts_with(prefix)) continue;
    ++dumps;
    CHECK(name.ends_with(".bin"));
    CHECK(name.find("elu_0_71875") != std::string::npos);
    CHECK(std::filesystem::file_size(entry) > 0);
    std::filesystem::remove(entry);
  }
  CHECK(dumps == lines.size());
}
