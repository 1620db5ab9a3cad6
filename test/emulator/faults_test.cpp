// What an instruction does that is not allowed, and what it does where memory faults.
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include "emitted_code.hpp"
#include "support/guard_buffer.hpp"

using namespace sinter_test;
using namespace sinter_test::amx;

namespace {

template <class F>
fault fault_of(F&& emit, void* argument = nullptr) {
  emitted const code(emit);
  fault const f = catch_fault([&] { code(argument); });
  release_tiles();
  return f;
}
template <class F>
fault fault_under(configuration const& c, F&& emit) {
  std::byte memory[1024] = {};
  emitted const code([&](assembler& a) {
    a.ldtilecfg(a.ptr[a.rdi]);
    a.mov(a.rax, 64);
    emit(a);
  });
  fault const f = catch_fault([&] { code(&c, memory); });
  release_tiles();
  return f;
}
/// A handler of SIGSEGV for a scope: it notes the address, and opens the page or jumps out.
class segv_scope {
 public:
  explicit segv_scope(bool open) {
    opens = open;
    address = nullptr;
    struct sigaction ours {};
    ours.sa_flags = SA_SIGINFO | SA_ONSTACK;
    ours.sa_sigaction = on_segv;
    ::sigaction(SIGSEGV, &ours, &before_);
  }
  ~segv_scope() { ::sigaction(SIGSEGV, &before_, nullptr); }

  /// Runs the code to its end or to its first fault.
  [[gnu::noinline]] static void run(emitted const& code, std::byte* memory) {
    if (sigsetjmp(out, 1) == 0) code(memory);
  }

  static inline std::byte* volatile address;

 private:
  static inline sigjmp_buf out;
  static void on_segv(int, siginfo_t* info, void*) {
    address = static_cast<std::byte*>(info->si_addr);
    if (!opens) siglongjmp(out, 1);
    auto const page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
    auto const start = reinterpret_cast<std::uintptr_t>(info->si_addr) / page * page;
    ::mprotect(reinterpret_cast<void*>(start), page, PROT_READ | PROT_WRITE);
  }
  static inline bool opens;
  struct sigaction before_ {};
};

}  // namespace

TEST_CASE("#GP: each configuration that LDTILECFG refuses, and tiles stay as they were") {
  NEEDS_EMULATION();
  struct wrong {
    char const* reason;
    void (*change)(configuration&);
  };
  constexpr wrong wrongs[] = {
      {"a palette other than 0 and 1", [](configuration& c) { c.palette = 2; }},
      {"a palette other than 0 and 1", [](configuration& c) { c.palette = 255; }},
      {"reserved bytes 2 to 15 are not zero", [](configuration& c) { c.reserved[0] = 1; }},
      {"reserved bytes 2 to 15 are not zero", [](configuration& c) { c.reserved[13] = 128; }},
      {"bytes 32 to 47 are not zero: palette 1 has 8 tiles",
       [](configuration& c) { c.reserved_bytes[0] = 64; }},
      {"bytes 32 to 47 are not zero: palette 1 has 8 tiles",
       [](configuration& c) { c.reserved_bytes[7] = 0x8000; }},
      {"bytes 56 to 63 are not zero: palette 1 has 8 tiles",
       [](configuration& c) { c.reserved_rows[0] = 16; }},
      {"bytes 56 to 63 are not zero: palette 1 has 8 tiles",
       [](configuration& c) { c.reserved_rows[7] = 1; }},
      {"rows of more than 64 bytes", [](configuration& c) { c.row_bytes[7] = 65; }},
      {"rows of more than 64 bytes", [](configuration& c) { c.row_bytes[0] = 0x4000; }},
      {"more than 16 rows", [](configuration& c) { c.rows[0] = 17; }},
      {"one of rows and bytes of a tile is zero, and the other is not",
       [](configuration& c) { c.rows[3] = 0; }},
      {"one of rows and bytes of a tile is zero, and the other is not",
       [](configuration& c) { c.row_bytes[4] = 0; }},
  };
  configuration const good = tiles_for(2, 3, 4);
  for (wrong const& w : wrongs) {
    configuration bad = plain();
    w.change(bad);
    load_configuration(good);
    fault const f = catch_fault([&] { load_configuration(bad); });
    check_fault(f, fault_kind::protection, instruction::ldtilecfg, w.reason);
    CHECK(same(stored_configuration(), good));
  }
  configuration unused = plain();  // both zero: the tile is left out
  unused.rows[3] = 0;
  unused.row_bytes[3] = 0;
  CHECK(catch_fault([&] { load_configuration(unused); }).kind == fault_kind::none);
  CHECK(same(stored_configuration(), unused));
  release_tiles();
}

TEST_CASE("#UD: no configuration, a tile left out, odd rows, start_row, equal tiles, M, N and K") {
  NEEDS_EMULATION();
  using enum instruction;
  constexpr auto ud = fault_kind::undefined;
  auto const load = [](assembler& a) { a.tileloadd(tmm(0), a.ptr[a.rsi + a.rax]); };
  auto const load_t1 = [](assembler& a) { a.tileloaddt1(tmm(0), a.ptr[a.rsi + a.rax]); };
  auto const store = [](assembler& a) { a.tilestored(a.ptr[a.rsi + a.rax], tmm(0)); };
  auto const zero = [](assembler& a) { a.tilezero(tmm(0)); };
  auto const product = [](assembler& a) { a.tdpbf16ps(tmm(0), tmm(1), tmm(2)); };
  auto const bytes = [](assembler& a) { a.tdpbuud(tmm(0), tmm(1), tmm(2)); };

  char const* reason = "tiles are not configured";
  check_fault(fault_of(load), ud, tileloadd, reason);
  check_fault(fault_of(load_t1), ud, tileloaddt1, reason);
  check_fault(fault_of(store), ud, tilestored, reason);
  check_fault(fault_of(zero), ud, tilezero, reason);
  check_fault(fault_of(product), ud, tdpbf16ps, reason);
  check_fault(fault_of(bytes), ud, tdpbuud, reason);

  reason = "a tile that the configuration leaves out";
  for (int left_out : {0, 1, 2}) {
    configuration c = plain();
    c.rows[left_out] = 0;
    c.row_bytes[left_out] = 0;
    check_fault(fault_under(c, product), ud, tdpbf16ps, reason);
    if (left_out != 0) continue;
    check_fault(fault_under(c, load), ud, tileloadd, reason);
    check_fault(fault_under(c, store), ud, tilestored, reason);
    check_fault(fault_under(c, zero), ud, tilezero, reason);
  }

  reason = "rows that are no multiple of 4 bytes";
  configuration odd = tiles_for(4, 4, 4);
  for (std::uint16_t& n : odd.row_bytes) n = 62;
  check_fault(fault_under(odd, load), ud, tileloadd, reason);
  check_fault(fault_under(odd, store), ud, tilestored, reason);
  check_fault(fault_under(odd, product), ud, tdpbf16ps, reason);
  CHECK(fault_under(odd, zero).kind == fault_kind::none);

  reason = "start_row is not below the tile's rows";
  configuration late = tiles_for(4, 4, 4);
  late.start_row = 4;
  check_fault(fault_under(late, load), ud, tileloadd, reason);
  check_fault(fault_under(late, store), ud, tilestored, reason);
  CHECK(fault_under(late, product).kind == fault_kind::none);
  late.start_row = 3;
  CHECK(fault_under(late, load).kind == fault_kind::none);

  reason = "two of the tiles are the same";
  auto const with = [](int to, int first, int second) {
    return [=](assembler& a) { a.tdpbssd(tmm(to), tmm(first), tmm(second)); };
  };
  check_fault(fault_under(plain(), with(3, 3, 4)), ud, tdpbssd, reason);
  check_fault(fault_under(plain(), with(3, 4, 3)), ud, tdpbssd, reason);
  check_fault(fault_under(plain(), with(4, 3, 3)), ud, tdpbssd, reason);
  CHECK(fault_under(plain(), with(4, 3, 5)).kind == fault_kind::none);

  configuration c = tiles_for(5, 6, 7);
  CHECK(fault_under(c, product).kind == fault_kind::none);
  c.rows[1] = 6;
  check_fault(fault_under(c, product), ud, tdpbf16ps,
              "M: the accumulator has other rows than the first operand");
  c = tiles_for(5, 6, 7);
  c.row_bytes[2] = 20;
  check_fault(fault_under(c, bytes), ud, tdpbuud,
              "N: the accumulator has other columns than the second operand");
  c = tiles_for(5, 6, 7);
  c.rows[2] = 8;
  check_fault(fault_under(c, product), ud, tdpbf16ps,
              "K: the first operand's columns are not the second's rows");

  check_fault(fault_of([](assembler& a) { a.tilezero(tmm(8)); }), ud, tilezero,
              "a tile beyond tmm7");
  check_fault(fault_of([](assembler& a) { a.tdpfp16ps(tmm(0), tmm(1), tmm(2)); }), ud, count_,
              "none of the twelve instructions of AMX-TILE, BF16, INT8");
  check_fault(fault_of([](assembler& a) {
                a.db(0x64);
                a.ldtilecfg(a.ptr[a.rdi]);
              }),
              fault_kind::refused, ldtilecfg, "a segment or address-size prefix");
}

TEST_CASE("a fault changes nothing, says where, and the next program runs") {
  NEEDS_EMULATION();
  configuration const c = plain();
  std::array<std::uint8_t, 1024> from{}, to{};
  from.fill(9);
  std::vector<std::uint8_t> const bytes = bytes_of([](assembler& a) {
    a.ldtilecfg(a.ptr[a.rdi]);
    a.mov(a.rax, 64);
    a.tileloadd(tmm(3), a.ptr[a.rsi + a.rax]);
    a.tdpbuud(tmm(3), tmm(3), tmm(2));
  });
  emitted const code(bytes);
  fault const f = catch_fault([&] { code(&c, from.data()); });
  CHECK(f.what == instruction::tdpbuud);
  CHECK(std::memcmp(reinterpret_cast<void const*>(f.at), &bytes[bytes.size() - 5], 5) == 0);
  CHECK(tiles_configured());
  emitted const store([](assembler& a) {
    a.mov(a.rax, 64);
    a.tilestored(a.ptr[a.rdi + a.rax], tmm(3));
    a.tilerelease();
  });
  store(to.data());
  CHECK(to == from);
  CHECK(!tiles_configured());
  // Faults nest: an inner catch ends before the outer one goes on.
  fault inner;
  fault const outer = catch_fault([&] {
    inner = catch_fault([] { emitted([](assembler& a) { a.tilezero(tmm(0)); })(); });
    emitted([](assembler& a) { a.tdpbssd(tmm(0), tmm(0), tmm(0)); })();
  });
  CHECK(inner.what == instruction::tilezero);
  CHECK(outer.what == instruction::tdpbssd);
}

TEST_CASE("memory that faults: the address is in the guard page, and start_row is the row") {
  NEEDS_EMULATION();
  constexpr std::size_t reached = 5;  // rows before the guard page
  configuration const c = plain();
  guard_buffer memory(reached * 64, placement::end);
  std::byte* const guard = memory.data() + memory.size();
  for (bool load : {true, false}) {
    load_configuration(c);
    emitted const move([&](assembler& a) {
      a.mov(a.rax, 64);
      if (load)
        a.tileloadd(tmm(2), a.ptr[a.rdi + a.rax]);
      else
        a.tilestored(a.ptr[a.rdi + a.rax], tmm(2));
    });
    {
      segv_scope const handler(false);
      segv_scope::run(move, memory.data());
    }
    CHECK(segv_scope::address >= guard);
    CHECK(segv_scope::address < guard + 64);
    configuration stopped = c;
    stopped.start_row = reached;
    CHECK(same(stored_configuration(), stopped));
    // The handler is still installed and SIGILL is not blocked: tilezero begins at row 0 again.
    emitted([](assembler& a) { a.tilezero(tmm(2)); })();
    CHECK(same(stored_configuration(), c));
    release_tiles();
  }
  // LDTILECFG too.
  segv_scope const handler(false);
  segv_scope::run(emitted([](assembler& a) { a.ldtilecfg(a.ptr[a.rdi]); }), guard - 32);
  CHECK(segv_scope::address >= guard);
  CHECK(segv_scope::address < guard + 32);
  CHECK(!tiles_configured());
}

TEST_CASE("memory that a handler makes readable: the load goes on, and ends complete") {
  NEEDS_TILES();
  auto const page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  void* const map =
      ::mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  REQUIRE(map != MAP_FAILED);
  auto* const bytes = static_cast<std::byte*>(map);
  for (std::size_t i = 0; i < 2 * page; ++i) bytes[i] = static_cast<std::byte>(i * 11);
  REQUIRE(::mprotect(bytes + page, page, PROT_NONE) == 0);
  configuration const c = plain();
  std::array<std::byte, 1024> to{};
  std::byte* const from = bytes + page - 5 * 64;
  emitted const copy([](assembler& a) {
    a.ldtilecfg(a.ptr[a.rdi]);
    a.mov(a.rax, 64);
    a.tileloadd(tmm(1), a.ptr[a.rsi + a.rax]);
    a.tilestored(a.ptr[a.rdx + a.rax], tmm(1));
  });
  {
    segv_scope const handler(true);
    copy(&c, from, to.data());
  }
  CHECK(segv_scope::address >= bytes + page);
  CHECK(std::memcmp(to.data(), from, 1024) == 0);
  CHECK(same(stored_configuration(), c));  // start_row is 0 again
  release_tiles();
  ::munmap(map, 2 * page);
}
