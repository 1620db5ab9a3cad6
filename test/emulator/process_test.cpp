// The emulator as a guest of a process: the handlers around it, how it ends a process, strict mode,
// and what makes the library believe in AMX.
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <sinter/isa/detect.hpp>
#include <thread>

#include "emitted_code.hpp"

using namespace sinter_test;
using namespace sinter_test::amx;

namespace {

/// Runs f in a child process; how it ended, and what it wrote to stderr.
struct ending {
  bool exited = false;
  int status = 0;  ///< exit code, or the signal that ended it
  std::string text;
};
template <class F>
ending in_child(F&& f) {
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  pid_t const child = ::fork();
  if (child == 0) {
    ::dup2(ends[1], STDERR_FILENO);
    for (int s : {SIGILL, SIGABRT, SIGSEGV}) ::signal(s, SIG_DFL);  // not those of doctest
    f();
    ::_exit(0);
  }
  ::close(ends[1]);
  ending e;
  char buffer[512];
  for (ssize_t n; (n = ::read(ends[0], buffer, sizeof buffer)) > 0;)
    e.text.append(buffer, static_cast<std::size_t>(n));
  ::close(ends[0]);
  int how = 0;
  ::waitpid(child, &how, 0);
  e.exited = WIFEXITED(how);
  e.status = e.exited ? WEXITSTATUS(how) : WTERMSIG(how);
  return e;
}

}  // namespace

TEST_CASE("a fault that nobody catches ends the process with a sentence") {
  NEEDS_EMULATION_IN_CHILD();
  ending const e = in_child([] {
    emulator const inner;
    emitted([](assembler& a) { a.tilezero(tmm(0)); })();
  });
  CHECK(!e.exited);
  CHECK(e.status == SIGABRT);
  CHECK(e.text.find("sinter: the emulated tilezero at 0x") == 0);
  CHECK(e.text.find(" faults (#UD): tiles are not configured\n") != std::string::npos);
}

TEST_CASE("a SIGILL that is not from AMX goes to the handler before; without one, it kills") {
  NEEDS_EMULATION_IN_CHILD();
  static auto const ud2 = [] { asm volatile("ud2"); };
  static int handler_calls;
  handler_calls = 0;
  ending e = in_child([] {
    struct sigaction mine {};
    mine.sa_flags = SA_SIGINFO;
    mine.sa_sigaction = [](int, siginfo_t* info, void*) {
      auto const* const code = static_cast<std::uint8_t const*>(info->si_addr);
      ::_exit(code[0] == 0x0f && code[1] == 0x0b ? 42 : 1);
    };
    ::sigaction(SIGILL, &mine, nullptr);
    emulator const inner;
    load_configuration(plain());  // it is the emulator's handler that runs
    if (!tiles_configured()) ::_exit(2);
    ud2();
  });
  CHECK(e.exited);
  CHECK(e.status == 42);

  // A handler of one argument, and a signal that is sent: by raise(), though RIP may be anywhere.
  e = in_child([] {
    ::signal(SIGILL, [](int number) { handler_calls += number == SIGILL ? 1 : 100; });
    emulator const inner;
    ::raise(SIGILL);
    ::raise(SIGILL);
    ::_exit(handler_calls);
  });
  CHECK(e.status == 2);

  // One that is sent while RIP is at an AMX instruction: the handler has it, then it is executed.
  e = in_child([] {
    ::signal(SIGILL, [](int) { ++handler_calls; });
    emulator const inner;
    emitted const code([](assembler& a) {
      a.ldtilecfg(a.ptr[a.rdi]);
      a.mov(a.edi, a.esi);
      a.mov(a.esi, SIGILL);
      a.mov(a.eax, SYS_kill);
      a.syscall();
      a.tilerelease();
    });
    configuration const c = plain();
    counts const before = counted();
    code(&c, std::size_t{static_cast<unsigned>(::getpid())});
    ::_exit(handler_calls == 1 && (counted() - before)[instruction::tilerelease] == 1 ? 0 : 1);
  });
  CHECK(e.exited);
  CHECK(e.status == 0);

  e = in_child([] {
    emulator const inner;
    ud2();
  });
  CHECK(!e.exited);
  CHECK(e.status == SIGILL);
  e = in_child([] {
    emulator const inner;
    ::raise(SIGILL);
  });
  CHECK(!e.exited);
  CHECK(e.status == SIGILL);

  // Ignored: one that is sent is; one that is met cannot be.
  e = in_child([] {
    ::signal(SIGILL, SIG_IGN);
    emulator const inner;
    ::raise(SIGILL);
    ::_exit(7);
  });
  CHECK(e.exited);
  CHECK(e.status == 7);
  e = in_child([] {
    ::signal(SIGILL, SIG_IGN);
    emulator const inner;
    ud2();
  });
  CHECK(!e.exited);
  CHECK(e.status == SIGILL);
}

TEST_CASE("the handler lives as long as the last emulator, and then the one before is back") {
  NEEDS_EMULATION_IN_CHILD();
  ending e = in_child([] {
    struct sigaction then {};
    struct sigaction now {};
    then.sa_handler = [](int) { ::_exit(9); };
    then.sa_flags = SA_RESTART;
    ::sigaction(SIGILL, &then, nullptr);
    {
      emulator const one;
      {
        emulator const two;
        load_configuration(plain());
      }
      release_tiles();
    }
    ::sigaction(SIGILL, nullptr, &now);
    if (now.sa_handler != then.sa_handler || (now.sa_flags & SA_RESTART) == 0) ::_exit(1);
    load_configuration(plain());  // nobody emulates it now
    ::_exit(2);
  });
  CHECK(e.exited);
  CHECK(e.status == 9);

  e = in_child([] {
    emulator const one;
    ::signal(SIGILL, SIG_DFL);
  });
  CHECK(e.status == SIGABRT);
  CHECK(e.text ==
        "sinter: the handler of SIGILL was replaced during the life of an amx::emulator\n");
}

TEST_CASE("strict mode: a call loads or looks at a configuration before it relies on it") {
  NEEDS_EMULATION();
  configuration const c = plain();
  emitted const use([](assembler& a) { a.tilezero(tmm(0)); });
  char const* const reason = "it relies on a configuration that another owner loaded";
  load_configuration(c);
  use();  // outside of strict mode everything is one owner's
  {
    strict_call const call;
    check_fault(catch_fault([&] { use(); }), fault_kind::strict, instruction::tilezero, reason);
    emitted const product([](assembler& a) { a.tdpbf16ps(tmm(0), tmm(1), tmm(2)); });
    CHECK(catch_fault([&] { product(); }).kind == fault_kind::strict);
    stored_configuration();  // who looked at it may go on with it
    CHECK(catch_fault([&] { use(); }).kind == fault_kind::none);
    load_configuration(c);
    use();
    {
      strict_call const other;
      CHECK(catch_fault([&] { use(); }).kind == fault_kind::strict);
      load_configuration(c);
      use();
      stored_configuration();
      release_tiles();
    }
    // The other one released: that is #UD, as on a CPU. Had it loaded its own, it is strict mode's.
    check_fault(catch_fault([&] { use(); }), fault_kind::undefined, instruction::tilezero,
                "tiles are not configured");
    load_configuration(c);
    {
      strict_call const other;
      load_configuration(c);
      release_tiles();
    }
    CHECK(catch_fault([&] { use(); }).kind == fault_kind::undefined);
    CHECK(!tiles_configured());
  }
  CHECK(configured_threads() == 0);
}

TEST_CASE("strict mode: tiles that stay configured end the process") {
  NEEDS_EMULATION_IN_CHILD();
  std::string const sentence =
      "sinter: tiles are still configured at the end of an amx::strict_call\n";
  ending e = in_child([] {
    emulator const tiles;
    strict_call const call;
    load_configuration(plain());
    release_tiles();
  });
  CHECK(e.exited);
  CHECK(e.status == 0);
  e = in_child([] {
    emulator const tiles;
    strict_call const call;
    load_configuration(plain());
  });
  CHECK(e.status == SIGABRT);
  CHECK(e.text == sentence);
  // What an outer call has configured may stay, but not if the inner one replaced it.
  e = in_child([] {
    emulator const tiles;
    load_configuration(plain());
    { strict_call const call; }
    ::_exit(5);
  });
  CHECK(e.exited);
  CHECK(e.status == 5);
  e = in_child([] {
    emulator const tiles;
    load_configuration(plain());
    strict_call const call;
    load_configuration(plain());
  });
  CHECK(e.text == sentence);
  // Another thread's tiles, though the thread has ended.
  e = in_child([] {
    emulator const tiles;
    strict_call const call;
    std::thread([] { load_configuration(plain()); }).join();
    if (tiles_configured() || configured_threads() != 1) ::_exit(1);
  });
  CHECK(e.status == SIGABRT);
  CHECK(e.text == sentence);
}

TEST_CASE("with cpu_with_amx() the library believes in AMX, and SINTER_MAX_ISA still caps") {
  NEEDS_TILES();
  using sinter::feature;
  sinter::features const real = sinter::detect(sinter::host_cpu());
  sinter::features const with = sinter::detect(cpu_with_amx());
  CHECK(with == (real | sinter::features{feature::amx_tile, feature::amx_bf16, feature::amx_int8}));
  {
    sinter::cpu_override const cpu(cpu_with_amx());
    CHECK(sinter::detected_isa() == with);
    CHECK(static_cast<bool>(sinter::amx_permission()));
    bool const vectors = sinter::runs(real, sinter::isa::avx512_bf16);
    CHECK((sinter::best_isa(sinter::detected_isa()) == sinter::isa::amx) == vectors);
    auto const capped = sinter::current_isa(sinter::isa::avx512_bf16);
    REQUIRE(capped);
    CHECK(!capped->has(feature::amx_tile));
  }
  if (tiles.how() == mode::emulated) CHECK(!sinter::detected_isa().has(feature::amx_tile));
}
