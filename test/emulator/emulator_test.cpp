// The instructions as code sees them: what they move, where, in which thread, in how many traps, and
// that nothing else changes.
#include <atomic>
#include <barrier>
#include <sinter/isa/detect.hpp>
#include <thread>

#include "emitted_code.hpp"
#include "support/guard_buffer.hpp"

using namespace sinter_test;
using namespace sinter_test::amx;

TEST_CASE("configurations: stored as loaded, zeros without one, released by each of the two ways") {
  NEEDS_TILES();
  MESSAGE(std::string(tiles.why()));
  configuration c = tiles_for(3, 5, 7);
  c.start_row = 2;
  CHECK(same(stored_configuration(), {}));
  load_configuration(c);
  CHECK(same(stored_configuration(), c));
  release_tiles();
  CHECK(same(stored_configuration(), {}));
  load_configuration(c);
  configuration off;
  std::memset(off.reserved, 0xff, sizeof off.reserved);  // not looked at with palette 0
  load_configuration(off);
  CHECK(same(stored_configuration(), {}));
  // Relative to rip: the configuration stands behind the code.
  std::vector<std::uint8_t> bytes = {0xc4, 0xe2, 0x78, 0x49, 0x05, 1, 0, 0, 0, 0xc3};
  auto const* const raw = reinterpret_cast<std::uint8_t const*>(&c);
  bytes.insert(bytes.end(), raw, raw + sizeof c);
  emitted const relative(bytes);
  relative();
  CHECK(same(stored_configuration(), c));
  release_tiles();
}

TEST_CASE("loads, stores and tilezero: strides, displacements, tiles that keep apart") {
  NEEDS_TILES();
  std::array<std::uint8_t, 4096> from{};
  std::array<std::uint8_t, 8192> to{}, wanted{};
  for (std::size_t i = 0; i < from.size(); ++i)
    from[i] = static_cast<std::uint8_t>(i * 7 + i / 256 + 1);
  to.fill(0xcc);
  wanted = to;
  configuration c = plain();
  c.rows[5] = 9;
  c.row_bytes[5] = 28;
  emitted const code([](assembler& a) {
    a.ldtilecfg(a.ptr[a.rdi]);
    a.mov(a.r9, 128);
    a.mov(a.r14, 16);
    a.lea(a.r13, a.ptr[a.rsi + 512]);
    a.tileloadd(tmm(5), a.ptr[a.r13 + a.r9 - 512]);       // from, stride 128
    a.tileloaddt1(tmm(6), a.ptr[a.rsi + a.r14 * 4 + 3]);  // from + 3, stride 64
    a.tileloadd(tmm(7), a.ptr[a.rsi + a.r14 * 4]);
    a.tilezero(tmm(7));
    a.mov(a.r12, static_cast<std::uint64_t>(-32));
    a.tilestored(a.ptr[a.rdx + a.r12 * 2 + 1024], tmm(5));  // upwards
    a.tilestored(a.ptr[a.rdx + a.r14 * 4 + 2048], tmm(6));
    a.tilestored(a.ptr[a.rdx + a.r14 * 8 + 4096], tmm(7));
    a.tilerelease();
  });
  code(&c, from.data(), to.data());
  for (std::size_t r = 0; r < 9; ++r) std::memcpy(&wanted[1024 - 64 * r], &from[128 * r], 28);
  std::memcpy(&wanted[2048], &from[3], 1024);
  for (std::size_t r = 0; r < 16; ++r) std::memset(&wanted[4096 + 128 * r], 0, 64);
  CHECK(to == wanted);
  // No index in the SIB byte: stride 0, so that every row is the first one.
  emitted const broadcast({0xc4, 0xe2, 0x78, 0x49, 0x07,           // ldtilecfg [rdi]
                           0xc4, 0xe2, 0x7b, 0x4b, 0x4c, 0x26, 8,  // tileloadd tmm1, [rsi + 8]
                           0xb8, 64,   0,    0,    0,              // mov eax, 64
                           0xc4, 0xe2, 0x7a, 0x4b, 0x0c, 0x02,     // tilestored [rdx + rax], tmm1
                           0xc4, 0xe2, 0x78, 0x49, 0xc0});         // tilerelease
  broadcast(&c, from.data(), to.data());
  for (std::size_t r = 0; r < 16; ++r) CHECK(std::memcmp(&to[64 * r], &from[8], 64) == 0);
}

TEST_CASE("every general register is read as base and as stride") {
  NEEDS_TILES();
  configuration const c = plain();
  std::array<std::uint8_t, 2048> from{}, to{};
  for (std::size_t i = 0; i < from.size(); ++i)
    from[i] = static_cast<std::uint8_t>(i * 5 + i / 256);
  constexpr int rsp = 4;
  for (int base = 0; base < 16; ++base)
    for (int index = 0; index < 16; ++index) {
      if (base == index || base == rsp || index == rsp) continue;
      emitted const code([&](assembler& a) {
        a.ldtilecfg(a.ptr[a.rdi]);
        a.push(a.rdx);
        a.mov(reg(base), a.rsi);
        a.mov(reg(index), 32);
        a.tileloadd(tmm(4), a.ptr[reg(base) + reg(index) * 4 - 7]);
        a.pop(reg(base));
        a.mov(reg(index), 64);
        a.tilestored(a.ptr[reg(base) + reg(index)], tmm(4));
        a.tilerelease();
      });
      to.fill(0);
      code(&c, from.data() + 7, to.data());
      for (std::size_t r = 0; r < 16; ++r)
        REQUIRE((r == 15 || std::memcmp(&to[64 * r], &from[128 * r], 64) == 0));
    }
  // rsp as a base: the tile comes from the stack.
  emitted const code([](assembler& a) {
    a.ldtilecfg(a.ptr[a.rdi]);
    a.mov(a.rax, 8);
    a.push(a.rsi);
    a.tileloadd(tmm(4), a.ptr[a.rsp + a.rax]);
    a.pop(a.rsi);
    a.tilestored(a.ptr[a.rdx + a.rax], tmm(4));
    a.tilerelease();
  });
  configuration small = c;
  small.rows[4] = 1;
  small.row_bytes[4] = 8;
  std::uintptr_t value = 0;
  code(&small, from.data(), &value);
  CHECK(value == reinterpret_cast<std::uintptr_t>(from.data()));
}

TEST_CASE("guard pages: nothing is touched beside the rows of a tile") {
  NEEDS_TILES();
  emitted const copy([](assembler& a) {
    a.ldtilecfg(a.ptr[a.rdi]);
    a.tileloadd(tmm(0), a.ptr[a.rsi + a.rcx]);
    a.tilestored(a.ptr[a.rdx + a.rcx], tmm(0));
    a.tilerelease();
  });
  for (placement where : all_placements)
    for (int rows : {1, 2, 7, 15, 16})
      for (int columns : {1, 3, 8, 13, 16}) {
        auto const row = static_cast<std::size_t>(4 * columns);
        for (std::size_t stride : {row, row + 4, std::size_t{4100}}) {
          configuration const c = tiles_for(rows, columns, 1);
          std::size_t const bytes = static_cast<std::size_t>(rows - 1) * stride + row;
          guard_buffer from(bytes, where), to(bytes, where), config(64, where);
          std::memcpy(config.data(), &c, 64);
          for (std::size_t i = 0; i < bytes; ++i)
            from.data()[i] = static_cast<std::byte>(i * 3 + 1);
          std::memset(to.data(), 0x77, bytes);
          copy(config.data(), from.data(), to.data(), stride);
          REQUIRE(to.intact());
          for (std::size_t i = 0; i < bytes; ++i)
            REQUIRE(to.data()[i] == (i % stride < row ? from.data()[i] : std::byte{0x77}));
        }
      }
}

TEST_CASE("a configuration with start_row: rows before it are not loaded") {
  NEEDS_TILES();
  configuration c = plain();
  c.start_row = 10;
  std::array<std::uint8_t, 1024> from{}, to{};
  from.fill(3);
  emitted const copy([](assembler& a) {
    a.ldtilecfg(a.ptr[a.rdi]);
    a.mov(a.rax, 64);
    a.tileloadd(tmm(1), a.ptr[a.rsi + a.rax]);
    a.tilestored(a.ptr[a.rdx + a.rax], tmm(1));
    a.tilerelease();
  });
  copy(&c, from.data(), to.data());
  for (std::size_t i = 0; i < 1024; ++i) REQUIRE(to[i] == (i < 640 ? 0 : 3));
}

TEST_CASE("adjacent instructions take one trap, others in between take more; all are counted") {
  NEEDS_EMULATION();
  configuration const c = plain();
  std::array<std::uint8_t, 1024> memory{};
  emitted const adjacent([](assembler& a) {
    a.mov(a.rax, 64);
    a.ldtilecfg(a.ptr[a.rdi]);
    for (int t = 0; t < 4; ++t) a.tilezero(tmm(t));
    for (int t = 4; t < 8; ++t) a.tileloadd(tmm(t), a.ptr[a.rsi + a.rax]);
    a.tdpbf16ps(tmm(0), tmm(4), tmm(6));
    a.tdpbssd(tmm(1), tmm(4), tmm(7));
    a.tdpbsud(tmm(2), tmm(5), tmm(6));
    a.tdpbusd(tmm(3), tmm(5), tmm(7));
    a.tdpbuud(tmm(0), tmm(5), tmm(7));
    a.tilestored(a.ptr[a.rsi + a.rax], tmm(0));
    a.tilerelease();
  });
  counts before = counted();
  adjacent(&c, memory.data());
  counts wanted;
  wanted.of = {1, 0, 1, 4, 4, 0, 1, 1, 1, 1, 1, 1};
  wanted.configurations = 1;
  wanted.signals = 1;
  CHECK(counted() - before == wanted);
  CHECK((counted() - before).products() == 5);

  emitted const apart([](assembler& a) {
    a.ldtilecfg(a.ptr[a.rdi]);
    a.nop();
    a.tilezero(tmm(0));
    a.inc(a.rsi);
    a.tilezero(tmm(1));
    a.tilezero(tmm(2));
    a.add(a.rsi, 4);
    a.tilerelease();
  });
  before = counted();
  apart(&c, memory.data());
  CHECK((counted() - before).signals == 4);
  CHECK((counted() - before)[instruction::tilezero] == 3);

  // A configuration of palette 0 configures nothing; a faulting instruction is not counted.
  before = counted();
  load_configuration({});
  catch_fault([] { emitted([](assembler& a) { a.tilezero(tmm(0)); })(); });
  CHECK((counted() - before).configurations == 0);
  CHECK((counted() - before)[instruction::ldtilecfg] == 1);
  CHECK((counted() - before)[instruction::tilezero] == 0);
}

TEST_CASE("a loop of products in machine code: as many as the loop says") {
  NEEDS_EMULATION();
  emitted const code([](assembler& a) {
    a.ldtilecfg(a.ptr[a.rdi]);
    a.mov(a.rax, 64);
    a.tilezero(tmm(0));
    xb::Label again;
    a.L(again);
    a.tileloadd(tmm(1), a.ptr[a.rsi + a.rax]);
    a.tileloadd(tmm(2), a.ptr[a.rdx + a.rax]);
    a.tdpbssd(tmm(0), tmm(1), tmm(2));
    a.dec(a.rcx);
    a.jnz(again);
    a.tilestored(a.ptr[a.rsi + a.rax], tmm(0));
    a.tilerelease();
  });
  configuration const c = plain();
  std::array<std::int8_t, 1024> a{}, b{};
  a.fill(1);
  b.fill(-1);
  counts const before = counted();
  code(&c, a.data(), b.data(), std::size_t{100});
  CHECK((counted() - before).products() == 100);
  CHECK((counted() - before)[instruction::tileloadd] == 200);
  std::int32_t first = 0;
  std::memcpy(&first, a.data(), sizeof first);
  CHECK(first == -64 * 100);
}

TEST_CASE("tiles belong to a thread: two with other configurations, step by step") {
  NEEDS_TILES();
  std::barrier meet(2);
  std::atomic<int> wrong{0};
  int const before = configured_threads();
  auto const work = [&](int rows, std::uint8_t value) {
    emitted const load([](assembler& a) {
      a.mov(a.rax, 64);
      a.tileloadd(tmm(3), a.ptr[a.rdi + a.rax]);
    });
    emitted const store([](assembler& a) {
      a.mov(a.rax, 64);
      a.tilestored(a.ptr[a.rdi + a.rax], tmm(3));
    });
    configuration c = tiles_for(1, 1, 1);
    c.rows[3] = static_cast<std::uint8_t>(rows);
    std::array<std::uint8_t, 1024> data{}, back{};
    data.fill(value);
    if (tiles_configured() || !same(stored_configuration(), {})) ++wrong;
    meet.arrive_and_wait();
    load_configuration(c);
    meet.arrive_and_wait();
    load(data.data());
    meet.arrive_and_wait();
    if (!same(stored_configuration(), c)) ++wrong;
    store(back.data());
    for (std::size_t i = 0; i < 1024; ++i)
      if (back[i] != (i < static_cast<std::size_t>(64 * rows) ? value : 0)) ++wrong;
    if (rows == 4) release_tiles();
    meet.arrive_and_wait();
    if (tiles.how() == mode::emulated && tiles_configured() != (rows != 4)) ++wrong;
    if (rows != 4) release_tiles();
  };
  {
    std::jthread const one([&] { work(4, 0x11); }), two([&] { work(15, 0x22); });
  }
  CHECK(wrong == 0);
  CHECK(configured_threads() == before);
}

TEST_CASE("four threads at once: each gets its own sums, and nothing is lost in the counters") {
  NEEDS_EMULATION();
  emitted const code([](assembler& a) {
    a.ldtilecfg(a.ptr[a.rdi]);
    a.mov(a.rax, 64);
    a.tileloadd(tmm(1), a.ptr[a.rsi + a.rax]);
    a.tileloadd(tmm(2), a.ptr[a.rsi + a.rax]);
    a.tilezero(tmm(0));
    a.tdpbuud(tmm(0), tmm(1), tmm(2));
    a.tilestored(a.ptr[a.rdx + a.rax], tmm(0));
    a.tilerelease();
  });
  constexpr std::uint64_t rounds = 1000;
  std::atomic<int> wrong{0};
  counts const before = counted();
  {
    std::vector<std::jthread> threads;
    for (std::uint32_t t = 1; t <= 4; ++t)
      threads.emplace_back([&, t] {
        configuration const c = plain();
        std::array<std::uint8_t, 1024> from{};
        std::array<std::uint32_t, 256> to{};
        from.fill(static_cast<std::uint8_t>(t));
        for (std::uint64_t i = 0; i < rounds; ++i) {
          code(&c, from.data(), to.data());
          for (std::uint32_t v : to)
            if (v != 64 * t * t) ++wrong;
        }
      });
  }
  CHECK(wrong == 0);
  CHECK((counted() - before).products() == 4 * rounds);
  CHECK((counted() - before).configurations == 4 * rounds);
  CHECK((counted() - before).signals == 8 * rounds);
}

TEST_CASE("the interrupted code keeps its registers, flags, masks, vectors and MXCSR") {
  NEEDS_TILES();
  bool const wide = sinter::runs(sinter::detect(sinter::host_cpu()), sinter::isa::avx512);
  struct state {
    std::uint8_t vectors[32][64];
    std::uint64_t masks[8], general[16], flags, mxcsr;
  };
  constexpr int others[] = {0, 1, 2, 3, 5, 8, 9, 10, 11, 12, 13, 14, 15};  // than rsp, rsi, rdi
  // f(register, its place in the state)
  auto const each_vector = [&](auto&& f) {
    for (std::size_t i = 0; i < (wide ? 32 : 16); ++i) f(static_cast<int>(i), 64 * i);
  };
  auto const each_mask = [&](auto&& f) {
    for (std::size_t i = 0; i < (wide ? 8 : 0); ++i)
      f(xb::Opmask(static_cast<int>(i)), offsetof(state, masks) + 8 * i);
  };
  auto const general_at = [](int r) {
    return offsetof(state, general) + 8 * static_cast<std::size_t>(r);
  };
  auto const vec = [&](int i) { return xb::Xmm(wide ? xb::Operand::ZMM : xb::Operand::YMM, i); };
  constexpr int frame = 4096;
  // rdi: a configuration, rsi: the state to begin with, rdx: where to put the state at the end.
  emitted const code([&](assembler& a) {
    a.pushfq();
    a.push(a.rdx);
    a.sub(a.rsp, frame);
    a.stmxcsr(a.dword[a.rsp]);
    each_vector([&](int i, std::size_t at) { a.vmovups(vec(i), a.ptr[a.rsi + at]); });
    each_mask([&](xb::Opmask k, std::size_t at) { a.kmovw(k, a.ptr[a.rsi + at]); });
    a.ldmxcsr(a.dword[a.rsi + offsetof(state, mxcsr)]);
    a.push(a.qword[a.rsi + offsetof(state, flags)]);
    a.popfq();
    for (int r : others) a.mov(reg(r), a.qword[a.rsi + general_at(r)]);

    a.ldtilecfg(a.ptr[a.rdi]);
    a.tileloadd(tmm(1), a.ptr[a.rsi + a.rax]);
    a.tileloaddt1(tmm(2), a.ptr[a.rsi + a.rax]);
    a.tilezero(tmm(0));
    a.tdpbf16ps(tmm(0), tmm(1), tmm(2));
    a.tdpbssd(tmm(0), tmm(1), tmm(2));
    a.tilestored(a.ptr[a.rsp + a.rax + 1024], tmm(0));
    a.sttilecfg(a.ptr[a.rsp + 2048]);
    a.tilerelease();

    a.mov(a.rsi, a.ptr[a.rsp + frame]);
    for (int r : others) a.mov(a.qword[a.rsi + general_at(r)], reg(r));
    a.pushfq();
    a.pop(a.qword[a.rsi + offsetof(state, flags)]);
    a.stmxcsr(a.dword[a.rsi + offsetof(state, mxcsr)]);
    each_mask([&](xb::Opmask k, std::size_t at) { a.kmovw(a.ptr[a.rsi + at], k); });
    each_vector([&](int i, std::size_t at) { a.vmovups(a.ptr[a.rsi + at], vec(i)); });
    a.vzeroupper();
    a.ldmxcsr(a.dword[a.rsp]);
    a.add(a.rsp, frame);
    a.pop(a.rdx);
    a.popfq();
  });
  // Carry, parity, adjust, zero, sign, direction and overflow; none; some. Bit 1 is always set, and
  // bit 9 in user code.
  for (std::uint64_t flags : {std::uint64_t{0xcd5}, std::uint64_t{0}, std::uint64_t{0x8c1}})
    for (std::uint64_t mxcsr : {0x1f80U, 0x7fa1U, 0xffc0U, 0x3f00U}) {
      state before{}, after{};
      auto* const raw = reinterpret_cast<std::uint8_t*>(&before);
      for (std::size_t i = 0; i < offsetof(state, flags); ++i)
        raw[i] = static_cast<std::uint8_t>(i * 37 + i / 64 + 1);
      for (std::uint64_t& m : before.masks) m &= 0xffff;
      before.general[0] = 64;
      before.flags = flags | 0x202;
      before.mxcsr = mxcsr;
      configuration const c = plain();
      code(&c, &before, &after);
      each_vector([&](int i, std::size_t) {
        CHECK(std::memcmp(before.vectors[i], after.vectors[i], wide ? 64 : 32) == 0);
      });
      if (wide) CHECK(std::memcmp(before.masks, after.masks, sizeof before.masks) == 0);
      for (int r : others) CHECK(before.general[r] == after.general[r]);
      CHECK(before.flags == after.flags);
      CHECK(before.mxcsr == after.mxcsr);
    }
}
