// The machine's description: mocked CPUs for what CPUID says, the real one for what the kernel
// says.
#include <doctest/doctest.h>
#include <sinter/isa/machine.hpp>

#include <fstream>
#include <string>

#include "isa_mock.hpp"
#include "isa_scoped_env.hpp"

#if defined(__linux__)
#include <sched.h>
#endif

using sinter::cache_sizes;
using sinter::isa;
using sinter_test::cpuid_words;
using sinter_test::mock_cpu;
using sinter_test::mock_of;
using sinter_test::mock_settings;
using sinter_test::scoped_env;

namespace {

/// One subleaf of leaf 4 or 8000001DH.
constexpr cpuid_words cache(std::uint32_t type, std::uint32_t level, std::uint32_t ways,
                            std::uint32_t sets, std::uint32_t sharing) {
  return {type | (level << 5) | ((sharing - 1) << 14), 63U | ((ways - 1) << 22), sets - 1, 0};
}

// 48 KiB and 2 MiB per core; 112.5 MiB for 112 processors: a two-socket server of 2023.
constexpr std::array<cpuid_words, 4> server{cache(1, 1, 12, 64, 2), cache(2, 1, 8, 64, 2),
                                            cache(3, 2, 16, 2048, 2), cache(3, 3, 15, 122880, 112)};
static_assert(sinter::caches_of(mock_cpu([] {
                mock_settings s;
                s.caches4 = server;
                return s;
              }())) == cache_sizes{48 * 1024, 2048 * 1024, 115200 * 1024, 112});

}  // namespace

TEST_CASE("caches are read from leaf 4, else from 8000001DH") {
  mock_settings s;
  CHECK(sinter::caches_of(mock_cpu(s)) == cache_sizes{});
  s.caches1d = {cache(1, 1, 8, 64, 1), cache(2, 1, 8, 64, 1), cache(3, 2, 8, 2048, 1),
                cache(3, 3, 16, 32768, 16)};
  CHECK(sinter::caches_of(mock_cpu(s)) == cache_sizes{32 * 1024, 1024 * 1024, 32768 * 1024, 16});
  s.caches4 = server;
  CHECK(sinter::caches_of(mock_cpu(s)).l1d == 48 * 1024);
  s.caches4[2] = {};  // a list that ends before the second level is not trusted
  CHECK(sinter::caches_of(mock_cpu(s)).l1d == 32 * 1024);
}

TEST_CASE("brand, vendor and signature") {
  mock_settings s = mock_of(isa::amx);
  s.signature = 0x000806f8;
  sinter::machine const intel = describe(mock_cpu(s));
  CHECK(intel.brand == "Mock CPU");
  CHECK(intel.vendor == "GenuineIntel");
  CHECK(intel.family == 6);
  CHECK(intel.model == 143);
  CHECK(intel.stepping == 8);
  CHECK(intel.features == sinter::allowed_under(isa::amx));
  s.signature = 0x00a10f11;
  sinter::machine const amd = describe(mock_cpu(s));
  CHECK(amd.family == 25);
  CHECK(amd.model == 17);
  CHECK(amd.stepping == 1);
}

TEST_CASE("cache sizes are there even where CPUID hides them") {
  sinter::machine const m = describe(mock_cpu(mock_of(isa::avx2)));
  CHECK(m.caches.l1d > 0);
  CHECK(m.caches.l2 > 0);
  CHECK((!m.caches_assumed || m.caches == sinter::assumed_caches));
}

TEST_CASE("lists of processors as Linux writes them") {
  CHECK(sinter::detail::count_list("") == 0);
  CHECK(sinter::detail::count_list("0") == 1);
  CHECK(sinter::detail::count_list("0-3") == 4);
  CHECK(sinter::detail::count_list("0-3,8,10-11") == 7);
}

TEST_CASE("sizes for people") {
  CHECK(sinter::bytes_text(0) == "none");
  CHECK(sinter::bytes_text(48 * 1024) == "48 KiB");
  CHECK(sinter::bytes_text(1024 * 1024) == "1 MiB");
  CHECK(sinter::bytes_text(1536 * 1024) == "1.5 MiB");
  CHECK(sinter::bytes_text(1280 * 1024) == "1280 KiB");
}

TEST_CASE("the report") {
  sinter::machine m;
  m.brand = "Mock CPU";
  m.vendor = "GenuineIntel";
  m.family = 6;
  m.model = 143;
  m.stepping = 8;
  m.physical = 4;
  m.logical = 8;
  m.caches = {48 * 1024, 2048 * 1024, 0, 0};
  m.features = sinter::features_of(isa::avx2);
  std::string const head =
      "CPU       Mock CPU (GenuineIntel, family 6, model 143, stepping 8)\n"
      "cores     4 physical, 8 logical for this process\n"
      "caches    L1d 48 KiB, L2 2 MiB, L3 none\n"
      "features  avx f16c fma avx2 bmi1 bmi2\n"
      "ISA       ";
  {
    scoped_env const set("SINTER_MAX_ISA", nullptr);
    CHECK(machine_report(m) == head + "avx2\n");
  }
  {
    scoped_env const set("SINTER_MAX_ISA", "reference");
    CHECK(machine_report(m) == head + "reference (SINTER_MAX_ISA is reference)\n");
  }
  scoped_env const set("SINTER_MAX_ISA", "sse");
  CHECK(machine_report(m) == head + sinter::max_isa().error().message + "\n");
}

TEST_CASE("a report asks for no permission") {
  sinter_test::mock_host const host(mock_of(isa::amx), 0);
  sinter::cpu_override const here(host);
  CHECK(machine_report(describe(host)).find("amx_bf16") != std::string::npos);
  CHECK(host.asked() == 0);
}

TEST_CASE("this machine") {
  sinter::machine const& m = sinter::this_machine();
  CHECK(m.logical >= 1);
  CHECK(m.physical >= 1);
  CHECK(m.physical <= m.logical);
  CHECK(m.features == detect(sinter::host_cpu()));
  CHECK_FALSE(m.brand.empty());
#if defined(__linux__)
  cache_sizes const listed = sinter::detail::caches_listed_by_linux();
  if (listed.l2 > 0 && !m.caches_assumed) {
    CHECK(m.caches.l1d == listed.l1d);
    CHECK(m.caches.l2 == listed.l2);
  }
#if defined(__x86_64__)
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("model name", 0) != 0) continue;
    CHECK(m.brand == line.substr(line.find(':') + 2));
    break;
  }
#endif
  // Bound to one processor, the process has one.
  cpu_set_t before;
  REQUIRE(::sched_getaffinity(0, sizeof(before), &before) == 0);
  CHECK(m.logical == CPU_COUNT(&before));
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(static_cast<std::size_t>(sinter::permitted_processors().back()), &one);
  REQUIRE(::sched_setaffinity(0, sizeof(one), &one) == 0);
  sinter::machine const bound = sinter::describe(sinter::host_cpu());
  CHECK(bound.logical == 1);
  CHECK(bound.physical == 1);
  REQUIRE(::sched_setaffinity(0, sizeof(before), &before) == 0);
#endif
}
