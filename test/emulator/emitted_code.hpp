// Instructions from Xbyak as a function, and what the tests of the emulator do with tiles again and
// again.
#pragma once

#include <doctest/doctest.h>

#include <cstddef>
#include <cstring>
#include <memory>
#include <sinter/jit/assembler.hpp>
#include <sinter/jit/code_memory.hpp>
#include <span>
#include <string>
#include <vector>

#include "amx_emulator.hpp"
#include "amx_tiles.hpp"
#include "support/skip.hpp"

namespace sinter_test::amx {

namespace xb = sinter::jit::xb;
using sinter::jit::assembler;

inline xb::Tmm tmm(int i) { return xb::Tmm(i); }
inline xb::Reg64 reg(int i) { return xb::Reg64(i); }

/// The bytes that emit(assembler&) makes.
template <class F>
std::vector<std::uint8_t> bytes_of(F&& emit) {
  assembler a(sinter::isa::avx512);
  emit(a);
  auto const code = a.finish();
  REQUIRE(code);
  std::vector<std::uint8_t> bytes(code->size());
  std::memcpy(bytes.data(), code->data(), bytes.size());
  return bytes;
}

/// A function of up to four pointers or numbers, in rdi, rsi, rdx and rcx. What emit() makes may
/// change every register but rsp; bytes are taken as they are. `ret` is added.
class emitted {
 public:
  template <class F>
  requires std::is_invocable_v<F, assembler&>
  explicit emitted(F&& emit) {
    constexpr int kept[] = {3, 5, 12, 13, 14, 15};  // rbx, rbp, r12 to r15 are the caller's
    publish(bytes_of([&](assembler& a) {
      for (int r : kept) a.push(reg(r));
      emit(a);
      for (std::size_t i = std::size(kept); i-- > 0;) a.pop(reg(kept[i]));
      a.ret();
    }));
  }
  explicit emitted(std::vector<std::uint8_t> bytes) {
    bytes.push_back(0xc3);
    publish(bytes);
  }

  template <class... Args>
  void operator()(Args... args) const {
    memory_->template entry<void (*)(Args...)>()(args...);
  }

 private:
  void publish(std::vector<std::uint8_t> const& bytes) {
    auto placed = sinter::jit::code_memory::process().publish(std::as_bytes(std::span(bytes)));
    REQUIRE(placed);
    memory_ = *placed;
  }
  std::shared_ptr<sinter::jit::machine_code const> memory_;
};

/// Tiles for products of m x (4 k bytes) by k x n dwords: tmm0 the sums, tmm1 and tmm2 the
/// operands; all other tiles as large as can be.
inline configuration tiles_for(int m, int n, int k) {
  configuration c;
  c.palette = 1;
  for (int t = 0; t < tile_count; ++t) {
    c.rows[t] = max_rows;
    c.row_bytes[t] = max_row_bytes;
  }
  auto const set = [&](int t, int rows, int columns) {
    c.rows[t] = static_cast<std::uint8_t>(rows);
    c.row_bytes[t] = static_cast<std::uint16_t>(4 * columns);
  };
  set(0, m, n);
  set(1, m, k);
  set(2, k, n);
  return c;
}

/// All tiles as large as can be.
inline configuration plain() { return tiles_for(16, 16, 16); }

inline void load_configuration(configuration const& c) {
  static emitted const code([](assembler& a) { a.ldtilecfg(a.ptr[a.rdi]); });
  code(&c);
}
inline configuration stored_configuration() {
  static emitted const code([](assembler& a) { a.sttilecfg(a.ptr[a.rdi]); });
  configuration c;
  c.palette = c.reserved[13] = c.reserved_rows[7] = 0xee;  // to be overwritten
  code(&c);
  return c;
}
inline bool same(configuration const& a, configuration const& b) {
  return std::memcmp(&a, &b, sizeof a) == 0;
}
inline void release_tiles() {
  static emitted const code([](assembler& a) { a.tilerelease(); });
  code();
}

inline void check_fault(fault const& f, fault_kind kind, instruction what,
                        std::string const& reason) {
  CHECK(f.kind == kind);
  CHECK(f.what == what);
  CHECK(std::string(f.reason) == reason);
}

}  // namespace sinter_test::amx

// For a test that runs on a CPU with AMX as well.
#define NEEDS_TILES()                     \
  sinter_test::amx::emulator const tiles; \
  if (!tiles.usable()) SINTER_SKIP(tiles.why())
// Where AMX is native the CPU's own faults arrive, and nothing is counted.
#define NEEDS_EMULATION()                 \
  sinter_test::amx::emulator const tiles; \
  if (tiles.how() != sinter_test::amx::mode::emulated) SINTER_SKIP(tiles.why())
// The same where a child process has its own emulator, under which no other one may be installed.
#define NEEDS_EMULATION_IN_CHILD()                                            \
  if (sinter_test::amx::emulator().how() != sinter_test::amx::mode::emulated) \
  SINTER_SKIP(sinter_test::amx::emulator().why())
