// Executable memory: shared, reused, never writable and executable at once, and a sentence where
// the host forbids it.
#include <doctest/doctest.h>

#include <atomic>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <sinter/jit/assembler.hpp>
#include <sinter/jit/code_memory.hpp>
#include <string>
#include <thread>
#include <vector>

#include "support/forbid_code.hpp"
#include "support/skip.hpp"

using namespace sinter;
using namespace sinter::jit;

namespace {

using kernel_pointer = std::shared_ptr<machine_code const>;

/// A function that gives `v`, `size` bytes of code long.
std::vector<std::byte> code_of(int v, std::size_t size = 6) {
  std::vector<std::byte> code(size, std::byte{0x90});
  code[0] = std::byte{0xb8};  // mov eax, v; ret
  for (unsigned i = 0; i < 4; ++i)
    code[1 + i] = static_cast<std::byte>(static_cast<unsigned>(v) >> (8 * i));
  code[5] = std::byte{0xc3};
  return code;
}
int call(kernel_pointer const& k) { return k->entry<int (*)()>()(); }

std::vector<std::string> maps() {
  std::ifstream file("/proc/self/maps");
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}
std::size_t executable_maps() {
  std::size_t n = 0;
  for (std::string const& line : maps())  // neither a file nor [vdso]
    if (line.find("-xp ") != std::string::npos && line.find_first_of("/[") == std::string::npos)
      ++n;
  return n;
}
bool writable_and_executable() {
  for (std::string const& line : maps())
    if (line.find(" rwx") != std::string::npos) return true;
  return false;
}

}  // namespace

TEST_CASE("many kernels share pages, and none of them is ever writable and executable") {
  auto const memory = code_memory::create();
  std::size_t const before = executable_maps();
  std::vector<kernel_pointer> kernels;
  for (int i = 0; i < 1000; ++i) {
    kernels.push_back(memory->publish(code_of(i, 100 + static_cast<std::size_t>(i) % 300)).value());
    if (i % 100 == 0) CHECK(!writable_and_executable());
  }
  for (int i = 0; i < 1000; ++i) CHECK(call(kernels[static_cast<std::size_t>(i)]) == i);
  CHECK(executable_maps() - before <= memory->used().regions);
  CHECK(memory->used().regions <= 3);
  CHECK(!writable_and_executable());
  kernels.clear();
  CHECK(memory->used().regions == 0);
  CHECK(executable_maps() == before);
}

TEST_CASE("freed code is reused, its old bytes are gone, neighbours stay") {
  auto const memory = code_memory::create();
  std::vector<kernel_pointer> kernels;
  for (int i = 0; i < 50; ++i) kernels.push_back(memory->publish(code_of(i, 500)).value());
  std::size_t const bytes = memory->used().bytes;
  std::byte const* const place = kernels[20]->bytes().data();
  kernels[20].reset();
  kernels[21].reset();
  CHECK(memory->used().bytes == bytes - 1024);
  kernels[20] = memory->publish(code_of(1020, 700)).value();
  CHECK(kernels[20]->bytes().data() == place);
  CHECK(call(kernels[20]) == 1020);
  CHECK(place[704 + 10] == std::byte{0xcc});  // what was kernel 21
  for (std::size_t i = 0; i < 50; ++i)
    if (i != 20 && i != 21) CHECK(call(kernels[i]) == static_cast<int>(i));
}

TEST_CASE("70,000 kernels built and freed leave the maps as they were") {
  auto const memory = code_memory::create();
  static_cast<void>(maps());
  std::size_t const before = maps().size();
  std::vector<kernel_pointer> window(64);
  unsigned state = 1;
  for (int i = 0; i < 70000; ++i) {
    state = state * 1664525U + 1013904223U;
    kernel_pointer& k = window[(state >> 16) % window.size()];
    k = memory->publish(code_of(i, 64 + (state >> 8) % 2000)).value();
    if (i % 1000 == 0) CHECK(call(k) == i);
  }
  CHECK(memory->used().regions <= 4);
  window.clear();
  CHECK(memory->used().bytes == 0);
  std::size_t const after = maps().size();
  CHECK(after <= before + 1);  // one for the heap, which may have grown in pieces
  CHECK(after + 1 >= before);
}

TEST_CASE("code runs on while others are added to its pages and taken away") {
  auto const memory = code_memory::create();
  kernel_pointer const steady = memory->publish(code_of(77, 200)).value();
  std::atomic<bool> stop{false};
  std::atomic<long> wrong{0}, calls{0};
  std::thread runner([&] {
    while (!stop) {
      if (call(steady) != 77) ++wrong;
      ++calls;
    }
  });
  std::vector<kernel_pointer> window(16);
  for (int i = 0; i < 3000; ++i) {
    kernel_pointer& k = window[static_cast<std::size_t>(i) % window.size()];
    k = memory->publish(code_of(i, 64 + static_cast<std::size_t>(i) % 900)).value();
    if (call(k) != i) ++wrong;
  }
  stop = true;
  runner.join();
  CHECK(wrong == 0);
  CHECK(calls > 0);
}

TEST_CASE("code outlives the memory's own handle") {
  kernel_pointer kernel;
  {
    auto const memory = code_memory::create();
    kernel = memory->publish(code_of(5)).value();
  }
  CHECK(call(kernel) == 5);
}

TEST_CASE("what is larger than a region is refused, and nothing is left of it") {
  auto const memory = code_memory::create();
  auto const refused = memory->publish(std::vector<std::byte>(code_memory::region_bytes + 1));
  REQUIRE(!refused);
  CHECK(refused.error().message ==
        "sinter: a kernel of 131073 bytes is larger than a region of executable memory");
  CHECK(memory->used().regions == 0);
  CHECK(memory->publish(std::vector<std::byte>(code_memory::region_bytes, std::byte{0xc3})));
}

TEST_CASE("dumps and profiles name each kernel and hold its bytes") {
  std::string const prefix = "sinter_test_dump_" + std::to_string(getpid()) + "_";
  std::string const map = "/tmp/perf-" + std::to_string(getpid()) + ".map";  // where perf looks
  setenv("SINTER_JIT_DUMP", prefix.c_str(), 1);
  setenv("SINTER_JIT_PROFILE", "perf", 1);
  auto const memory = code_memory::create();
  auto const kernel = memory->publish(code_of(5, 70), "avx2 matmul(x, w) | relu 4x4").value();
  unsetenv("SINTER_JIT_DUMP");
  unsetenv("SINTER_JIT_PROFILE");
  auto const silent = memory->publish(code_of(6), "silent").value();

  std::ifstream dump(prefix + "0_avx2_matmul_x_w_relu_4x4.bin", std::ios::binary);
  std::string const bytes((std::istreambuf_iterator<char>(dump)), std::istreambuf_iterator<char>());
  REQUIRE(bytes.size() == 70);
  CHECK(std::memcmp(bytes.data(), kernel->bytes().data(), 70) == 0);
  std::ifstream lines(map);
  std::string line, rest;
  REQUIRE(std::getline(lines, line));
  char wanted[100];
  std::snprintf(
      wanted, sizeof wanted, "%llx 46 sinter:avx2 matmul(x, w) | relu 4x4",
      static_cast<unsigned long long>(reinterpret_cast<std::uintptr_t>(kernel->bytes().data())));
  CHECK(line == wanted);
  CHECK(!std::getline(lines, rest));
  std::remove((prefix + "0_avx2_matmul_x_w_relu_4x4.bin").c_str());
  std::remove(map.c_str());
}

namespace {
constexpr char const* forbidden_case = "child: a host that forbids executable memory";
}

TEST_CASE("child: a host that forbids executable memory" * doctest::skip()) {
  sinter_test::forbid_code_as_asked();
  verdict const& v = code_memory::allowed();
  CHECK(!v);
  CHECK(v.what == code::unsupported);
  CHECK(v.reason.find("sinter: this host gives no executable memory (mprotect: ") == 0);
  auto const memory = code_memory::create();
  auto const refused = memory->publish(code_of(1));
  REQUIRE(!refused);
  CHECK(refused.error().message == v.reason);
  CHECK(memory->used().regions == 0);
  CHECK(executable_maps() == 0);
}

TEST_CASE("a host that forbids executable memory gets a sentence: memory-deny-write-execute") {
  int const code = sinter_test::run_child("mdwe", forbidden_case);
  if (code == 77) SINTER_SKIP("this kernel has no PR_SET_MDWE");
  CHECK(code == 0);
}
TEST_CASE("a host that forbids executable memory gets a sentence: seccomp") {
  int const code = sinter_test::run_child("seccomp", forbidden_case);
  if (code == 77) SINTER_SKIP("this kernel has no seccomp filters");
  CHECK(code == 0);
}
