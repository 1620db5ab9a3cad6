#include "amx_emulator.hpp"

#include <immintrin.h>
#include <setjmp.h>
#include <signal.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <sinter/isa/detect.hpp>

#include "amx_tiles.hpp"

namespace sinter_test::amx {
namespace {

using counter = std::atomic<std::uint64_t>;
static_assert(counter::is_always_lock_free);

constinit std::array<counter, instruction_count> executed{};
constinit counter configurations{0}, signals{0}, owners{0};
constinit std::atomic<int> threads_with_tiles{0};

struct thread_state {
  tile_file tiles;
  std::uint64_t owner = 0;         ///< whose call this is; 0: nobody's in particular
  std::uint64_t config_owner = 0;  ///< who loaded or last looked at the configuration
  sigjmp_buf* catcher = nullptr;
  fault caught;
};
// initial-exec: part of the thread from its start, so that no first access allocates in a handler.
[[gnu::tls_model("initial-exec")]] constinit thread_local thread_state self{};

// ---- faults

class sentence {
 public:
  sentence& add(std::string_view text) {
    std::size_t const n = (std::min)(text.size(), sizeof text_ - length_);
    std::memcpy(text_ + length_, text.data(), n);
    length_ += n;
    return *this;
  }
  sentence& add_hex(std::uintptr_t value) {
    char digits[2 * sizeof value];
    std::size_t n = 0;
    do digits[n++] = "0123456789abcdef"[value % 16];
    while ((value /= 16) != 0);
    while (n > 0) add({&digits[--n], 1});
    return *this;
  }
  [[noreturn]] void abort() {
    add("\n");
    [[maybe_unused]] auto const written = ::write(STDERR_FILENO, text_, length_);
    std::abort();
  }

 private:
  char text_[400];
  std::size_t length_ = 0;
};

constexpr std::string_view text_of(fault_kind kind) {
  switch (kind) {
    case fault_kind::none:
      return "no fault";
    case fault_kind::undefined:
      return "#UD";
    case fault_kind::protection:
      return "#GP";
    case fault_kind::refused:
      return "not emulated";
    case fault_kind::strict:
      return "strict mode";
  }
  return "";
}

[[noreturn]] void raise_fault(fault const& f) {
  self.caught = f;
  if (self.catcher != nullptr) siglongjmp(*self.catcher, 1);
  sentence s;
  s.add("sinter: the emulated ").add(name_of(f.what)).add(" at 0x").add_hex(f.at);
  s.add(" faults (").add(text_of(f.kind)).add("): ").add(f.reason).abort();
}

// ---- one instruction

/// General registers as the kernel saved them, by their number in an instruction.
class registers {
 public:
  explicit registers(void* context)
      : saved_(static_cast<ucontext_t*>(context)->uc_mcontext.gregs) {}

  std::uintptr_t next() const { return static_cast<std::uintptr_t>(saved_[REG_RIP]); }
  void go_to(std::uintptr_t code) { saved_[REG_RIP] = static_cast<greg_t>(code); }
  std::uintptr_t general(int number) const {
    static constexpr int places[] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP,
                                     REG_RSI, REG_RDI, REG_R8,  REG_R9,  REG_R10, REG_R11,
                                     REG_R12, REG_R13, REG_R14, REG_R15};
    return static_cast<std::uintptr_t>(saved_[places[number]]);
  }
  std::uintptr_t stride(address const& a) const {
    return a.index < 0 ? 0 : general(a.index) << a.scale;
  }
  /// Without the index, which is a tile's stride.
  std::uintptr_t begin(address const& a, std::uintptr_t behind) const {
    std::uintptr_t const base = a.next ? behind : a.base >= 0 ? general(a.base) : 0;
    return base + static_cast<std::uintptr_t>(std::intptr_t{a.displacement});
  }

 private:
  greg_t* saved_;
};

outcome execute(decoded const& d, registers const& regs) {
  tile_file& tiles = self.tiles;
  std::uintptr_t const begin =
      regs.begin(d.memory, regs.next() + static_cast<std::uintptr_t>(d.length));
  std::uintptr_t const stride = regs.stride(d.memory);
  switch (d.what) {
    case instruction::ldtilecfg:
      return tiles.load_configuration(reinterpret_cast<void const*>(begin + stride));
    case instruction::sttilecfg:
      tiles.store_configuration(reinterpret_cast<void*>(begin + stride));
      return {};
    case instruction::tilerelease:
      tiles.release();
      return {};
    case instruction::tilezero:
      return tiles.zero(d.tile);
    case instruction::tileloadd:
    case instruction::tileloaddt1:
      return tiles.load(d.tile, begin, stride);
    case instruction::tilestored:
      return tiles.store(d.tile, begin, stride);
    default:
      return tiles.multiply(d.what, d.tile, d.first, d.second);
  }
}

/// Strict mode, for an instruction that is allowed otherwise.
outcome check_owner(decoded const& d) {
  form const f = row_of(d.what).operands;
  bool const uses_tiles = f != form::configuration && f != form::nothing;
  if (!uses_tiles || !self.tiles.configured() || self.config_owner == self.owner) return {};
  return {fault_kind::strict, "it relies on a configuration that another owner loaded"};
}
void note_owner(decoded const& d, bool configured_before) {
  bool const configured = self.tiles.configured();
  if (row_of(d.what).operands == form::configuration) self.config_owner = self.owner;
  if (d.what == instruction::ldtilecfg && configured) ++configurations;
  if (configured != configured_before) threads_with_tiles += configured ? 1 : -1;
}

/// Executes the AMX instruction at RIP and steps over it; false if there is none.
bool step(registers regs) {
  decoded const d = decode(reinterpret_cast<std::uint8_t const*>(regs.next()));
  if (!d.is_amx) return false;
  outcome done{d.fault, d.reason};
  bool const configured = self.tiles.configured();
  if (done.ok()) done = check_owner(d);
  if (done.ok()) done = execute(d, regs);
  if (!done.ok()) raise_fault({done.kind, d.what, done.reason, regs.next()});
  note_owner(d, configured);
  executed[static_cast<std::size_t>(d.what)].fetch_add(1, std::memory_order_relaxed);
  regs.go_to(regs.next() + static_cast<std::uintptr_t>(d.length));
  return true;
}

// ---- the handler

struct sigaction before {};  ///< written while the handler is not installed

void pass_on(int number, siginfo_t* info, void* context) {
  if ((before.sa_flags & SA_SIGINFO) != 0) return before.sa_sigaction(number, info, context);
  bool const sent = info->si_code <= 0;  // by kill() and the like
  if (before.sa_handler == SIG_IGN && sent) return;
  if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN)
    return before.sa_handler(number);
  // The default action: on the return from here the instruction is met again, or the signal is.
  struct sigaction by_default {};
  by_default.sa_handler = SIG_DFL;
  ::sigaction(number, &by_default, nullptr);
  if (sent) ::raise(number);
}

void on_sigill(int number, siginfo_t* info, void* context) {
  if (info->si_code <= 0 || !step(registers(context))) return pass_on(number, info, context);
  signals.fetch_add(1, std::memory_order_relaxed);
  while (step(registers(context))) {
  }
}

constinit std::mutex installing;
int installed = 0;

void install() {
  std::lock_guard const lock(installing);
  if (installed++ > 0) return;
  ::sigaction(SIGILL, nullptr, &before);
  struct sigaction ours = before;  // its mask, and its stack
  ours.sa_flags = SA_SIGINFO | (before.sa_flags & SA_ONSTACK);
  ours.sa_sigaction = on_sigill;
  ::sigaction(SIGILL, &ours, nullptr);
}
void uninstall() {
  std::lock_guard const lock(installing);
  if (--installed > 0) return;
  struct sigaction found {};
  ::sigaction(SIGILL, &before, &found);
  if ((found.sa_flags & SA_SIGINFO) == 0 || found.sa_sigaction != on_sigill)
    sentence()
        .add("sinter: the handler of SIGILL was replaced during the life of an amx::emulator")
        .abort();
}

// ---- what CPU this is

struct answer {
  mode how;
  char const* why;
};
answer const& machine() {
  static answer const found = []() -> answer {
    sinter::cpu_source const& cpu = sinter::host_cpu();
    if (!sinter::detect(cpu).has(sinter::feature::amx_tile)) {
      if (!tile_file::can_multiply())
        return {mode::unavailable, "sinter: AMX is not emulated: this CPU lacks AVX2 or FMA"};
      return {mode::emulated, "sinter: AMX is emulated: this CPU has none"};
    }
    // LDTILECFG would not trap there, so the other instructions could not be emulated.
    if (cpu.request_amx() != 0)
      return {mode::unavailable, "sinter: this CPU has AMX, but this process may not use it"};
    return {mode::native, "sinter: AMX is native"};
  }();
  return found;
}

class amx_cpu final : public sinter::cpu_source {
 public:
  sinter::cpuid_words cpuid(std::uint32_t leaf, std::uint32_t subleaf) const override {
    sinter::cpu_source const& host = sinter::host_cpu();
    std::uint32_t const highest = host.cpuid(0, 0).eax;
    sinter::cpuid_words words;
    if (leaf <= highest || leaf >= 0x80000000U) words = host.cpuid(leaf, subleaf);
    if (leaf == 0) words.eax = (std::max)(highest, 0x1eU);
    if (leaf == 7 && subleaf == 0) words.edx |= 1U << 22 | 1U << 24 | 1U << 25;
    // 8 tiles of 16 rows of 64 bytes; a multiplier of K = 16 and N = 64.
    if (leaf == 0x1d && subleaf == 0) words = {1, 0, 0, 0};
    if (leaf == 0x1d && subleaf == 1) words = {1024U << 16 | 8192, 8U << 16 | 64, 16, 0};
    if (leaf == 0x1e) words = {0, 64U << 8 | 16, 0, 0};
    return words;
  }
  std::uint64_t xcr0() const override { return sinter::host_cpu().xcr0() | sinter::xcr0_amx; }
  int request_amx() const override { return 0; }
};

}  // namespace

emulator::emulator() : how_(machine().how), why_(machine().why) {
  if (how_ == mode::emulated) install();
}
emulator::~emulator() {
  if (how_ == mode::emulated) uninstall();
}

std::uint64_t counts::products() const {
  std::uint64_t n = 0;
  for (instruction_row const& row : instruction_table)
    if (row.operands == form::product) n += (*this)[row.code];
  return n;
}
counts operator-(counts a, counts const& b) {
  for (std::size_t i = 0; i < instruction_count; ++i) a.of[i] -= b.of[i];
  a.configurations -= b.configurations;
  a.signals -= b.signals;
  return a;
}
counts counted() {
  counts now;
  for (std::size_t i = 0; i < instruction_count; ++i) now.of[i] = executed[i];
  now.configurations = configurations;
  now.signals = signals;
  return now;
}

bool tiles_configured() { return self.tiles.configured(); }
int configured_threads() { return threads_with_tiles; }

strict_call::strict_call() : outer_(self.owner), configured_before_(threads_with_tiles) {
  self.owner = ++owners;
}
strict_call::~strict_call() {
  bool const mine = self.tiles.configured() && self.config_owner == self.owner;
  self.owner = outer_;
  if (mine || threads_with_tiles > configured_before_)
    sentence().add("sinter: tiles are still configured at the end of an amx::strict_call").abort();
}

fault catch_fault(void (*f)(void*), void* argument) {
  sigjmp_buf here;
  sigjmp_buf* const outer = self.catcher;
  unsigned const mxcsr = _mm_getcsr();
  self.caught = {};
  self.catcher = &here;
  if (sigsetjmp(here, 1) == 0) f(argument);
  self.catcher = outer;
  _mm_setcsr(mxcsr);
  return self.caught;
}

sinter::cpu_source const& cpu_with_amx() {
  static constexpr amx_cpu extended;
  if (machine().how == mode::native) return sinter::host_cpu();
  return extended;
}

}  // namespace sinter_test::amx
