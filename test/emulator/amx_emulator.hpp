// AMX on a CPU without it, for tests: a SIGILL handler that does what the tile instructions do.
//
//   amx::emulator const tiles;                          // as long as it lives
//   if (!tiles.usable()) SINTER_SKIP(tiles.why());
//   sinter::cpu_override const cpu(amx::cpu_with_amx());  // the library believes in AMX
//   amx::counts const before = amx::counted();
//   {
//     amx::strict_call const call;                      // ends the process if tiles stay configured
//     kernel(...);
//   }
//   CHECK((amx::counted() - before).products() == 8);
//
// Each AMX instruction arrives as SIGILL; the handler executes it and those that follow directly,
// and steps over them. Any other SIGILL goes to the handler that was there before. Tiles belong to
// a thread. Where the CPU has AMX and the operating system grants it, nothing is installed, how()
// is `native`, and nothing is counted. An instruction that would raise #UD or #GP ends the process
// with a sentence, or ends the function that catch_fault() runs.
//
// Unlike Linux on a real AMX CPU: a new thread starts without configuration, a forked child keeps
// the tiles of its parent, and a signal handler sees the tiles of the code that it interrupts. A
// handler that runs AMX instructions itself is not supported while the emulator executes one.
// Everything in the handler is async-signal-safe: no allocation, no lock. Read amx_tiles.hpp for
// the instructions, amx_decode.hpp for their bytes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <sinter/isa/cpu_source.hpp>

#include "amx_decode.hpp"

namespace sinter_test::amx {

enum class mode : unsigned char {
  emulated,
  native,       ///< the CPU has AMX, and this process may use it
  unavailable,  ///< why() says what is missing
};

/// Installs the handler, unless an emulator is already installed; the last one takes it away. A
/// handler for SIGILL that is installed meanwhile must be gone by then.
class emulator {
 public:
  emulator();
  emulator(emulator const&) = delete;
  emulator& operator=(emulator const&) = delete;
  ~emulator();

  mode how() const { return how_; }
  bool usable() const { return how_ != mode::unavailable; }
  /// One sentence: emulated, native, or why not.
  char const* why() const { return why_; }

 private:
  mode how_;
  char const* why_;
};

/// Executed in this process since it began, all threads together.
struct counts {
  std::array<std::uint64_t, instruction_count> of{};
  std::uint64_t configurations = 0;  ///< LDTILECFG that left tiles configured
  std::uint64_t signals = 0;         ///< traps that these instructions took

  std::uint64_t operator[](instruction i) const { return of[static_cast<std::size_t>(i)]; }
  /// Tile products: TDPBF16PS and the four TDPB..D.
  std::uint64_t products() const;
  friend counts operator-(counts a, counts const& b);
  friend bool operator==(counts const&, counts const&) = default;
};
counts counted();

/// Whether this thread has tiles configured now.
bool tiles_configured();
/// How many threads have, those that ended with configured tiles included.
int configured_threads();

/// Strict mode: what this thread runs during its life is one owner's call. It must load, or at
/// least store and so look at, a configuration before it uses tiles: what another owner loaded
/// before or meanwhile (an outer or inner strict_call, or code outside of all) is a fault of kind
/// strict. And at its end no thread may have tiles configured that had none at its beginning: the
/// process ends with a sentence; check tiles_configured() before where a test is to go on.
class strict_call {
 public:
  strict_call();
  strict_call(strict_call const&) = delete;
  strict_call& operator=(strict_call const&) = delete;
  ~strict_call();

 private:
  std::uint64_t outer_;
  int configured_before_;
};

struct fault {
  fault_kind kind = fault_kind::none;
  instruction what = instruction::count_;
  char const* reason = "";
  std::uintptr_t at = 0;  ///< address of the instruction
};

/// Runs f(); the first fault that an AMX instruction of this thread raises ends it there, by
/// siglongjmp: objects of f() are not destroyed. Gives that fault, or one of kind none.
fault catch_fault(void (*f)(void*), void* argument);
template <class F>
fault catch_fault(F&& f) {
  auto* const callable = &f;
  return catch_fault([](void* p) { (**static_cast<decltype(callable)*>(p))(); },
                     const_cast<void*>(static_cast<void const*>(&callable)));
}

/// This CPU as if it had AMX-TILE, AMX-BF16 and AMX-INT8, and an operating system that grants
/// them: for sinter::cpu_override. Where it is native, the CPU as it is.
sinter::cpu_source const& cpu_with_amx();

}  // namespace sinter_test::amx
