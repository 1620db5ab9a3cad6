// Detection with mocked CPUID, XCR0 and palettes: the whole matrix; then the permission; then this
// machine.
#include <doctest/doctest.h>
#include <sinter/isa/detect.hpp>

#include <cerrno>
#include <cstddef>
#include <fstream>
#include <random>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "isa_mock.hpp"
#include "isa_scoped_env.hpp"

#if defined(__linux__)
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#endif

using sinter::doubt;
using sinter::feature;
using sinter::features;
using sinter::isa;
using sinter_test::mock_cpu;
using sinter_test::mock_host;
using sinter_test::mock_of;
using sinter_test::mock_settings;
using sinter_test::scoped_env;

namespace {

// Detection is a constant expression.
static_assert(detect(mock_cpu(mock_of(isa::reference))).empty());
static_assert(detect(mock_cpu(mock_of(isa::amx))) == sinter::allowed_under(isa::amx));
static_assert(detect(mock_cpu(mock_of(isa::avx10_2))) == sinter::allowed_under(isa::avx10_2));

/// What to believe, said a second time and plainly: one line for each feature.
features expected(mock_settings const& s) {
  features out;
  std::uint64_t const state = s.osxsave ? s.state : 0;
  bool const avx_state = (state & 0x6) == 0x6;
  bool const zmm_state = avx_state && (state & 0xe0) == 0xe0;
  bool const tile_state = (state & 0x60000) == 0x60000;
  bool const sane_tiles =
      s.palettes >= 1 && s.palette == sinter_test::good_palette && s.tmul == sinter_test::good_tmul;
  auto const put = [&](feature f, bool condition) {
    if (s.reported.has(f) && condition) out = out | features{f};
  };
  bool const leaf7 = s.highest_leaf >= 7;
  bool const leaf7_1 = leaf7 && s.highest_subleaf >= 1;
  bool const tiles = leaf7 && tile_state && sane_tiles && s.highest_leaf >= 0x1e;
  put(feature::avx, avx_state);
  put(feature::f16c, out.has(feature::avx));
  put(feature::fma, out.has(feature::avx));
  put(feature::avx2, leaf7 && out.has(feature::avx));
  put(feature::bmi1, leaf7);
  put(feature::bmi2, leaf7);
  put(feature::avx_vnni, leaf7_1 && out.has(feature::avx2));
  put(feature::avx512f, leaf7 && zmm_state && out.has(feature::avx2));
  put(feature::avx512cd, out.has(feature::avx512f));
  put(feature::avx512bw, out.has(feature::avx512f));
  put(feature::avx512dq, out.has(feature::avx512f));
  put(feature::avx512vl, out.has(feature::avx512f));
  put(feature::avx512_vnni, out.has(feature::avx512f));
  put(feature::avx512_bf16, leaf7_1 && out.has(feature::avx512f));
  put(feature::avx512_fp16, out.has(feature::avx512bw));
  put(feature::amx_tile, tiles);
  put(feature::amx_bf16, out.has(feature::amx_tile));
  put(feature::amx_int8, out.has(feature::amx_tile));
  put(feature::amx_fp16, leaf7_1 && out.has(feature::amx_tile));
  put(feature::avx10_2, leaf7_1 && s.highest_leaf >= 0x24 && out.has(feature::avx512f) &&
                            (s.avx10.ebx & 0xff) >= 2 && (s.avx10.ebx & (1U << 18)) != 0);
  return out;
}

/// Palettes and multipliers, each wrong in one field; the first is right.
std::vector<mock_settings> tile_variants(mock_settings const& base) {
  std::vector<mock_settings> list{base};
  auto const add = [&](auto change) {
    list.push_back(base);
    change(list.back());
  };
  add([](mock_settings& s) { s.palettes = 0; });
  add([](mock_settings& s) { s.palette = {}; });
  add([](mock_settings& s) { s.palettes = 0, s.palette = {}, s.tmul = {}; });
  add([](mock_settings& s) { s.palette.eax = 4096 | (1024U << 16); });
  add([](mock_settings& s) { s.palette.eax = 8192 | (512U << 16); });
  add([](mock_settings& s) { s.palette.ebx = 32 | (8U << 16); });
  add([](mock_settings& s) { s.palette.ebx = 64 | (4U << 16); });
  add([](mock_settings& s) { s.palette.ecx = 8; });
  add([](mock_settings& s) { s.tmul = {}; });
  add([](mock_settings& s) { s.tmul.ebx = 8 | (64U << 8); });
  add([](mock_settings& s) { s.tmul.ebx = 16 | (32U << 8); });
  return list;
}

/// Every subset of the XCR0 bits that count: 1, 2, 5, 6, 7, 17, 18.
std::vector<std::uint64_t> every_state() {
  constexpr int bits[] = {1, 2, 5, 6, 7, 17, 18};
  std::vector<std::uint64_t> list;
  for (unsigned subset = 0; subset < 128; ++subset) {
    std::uint64_t state = 1;
    for (unsigned i = 0; i < 7; ++i)
      if ((subset >> i) & 1U) state |= std::uint64_t{1} << bits[i];
    list.push_back(state);
  }
  return list;
}

/// Fails with the whole setting where detection and expectation differ.
void compare(mock_settings const& s) {
  features const found = detect(mock_cpu(s));
  if (found == expected(s)) return;
  FAIL("reported " << names_of(s.reported) << ", XCR0 " << s.state << ", OSXSAVE " << s.osxsave
                   << ", highest leaf " << s.highest_leaf << "." << s.highest_subleaf << ": found "
                   << names_of(found) << ", expected " << names_of(expected(s)));
}

}  // namespace

TEST_CASE("CPUID bits x XCR0 x palettes x levels, each level with each feature missing") {
  long count = 0;
  int believed_tiles = 0;
  for (int level = 0; level < sinter::isa_count; ++level) {
    features const all = sinter::allowed_under(static_cast<isa>(level));
    for (int missing = 0; missing <= sinter::feature_count; ++missing) {
      features const gone =
          missing < sinter::feature_count ? features{static_cast<feature>(missing)} : features{};
      if (!gone.empty() && !all.includes(gone)) continue;
      mock_settings base;
      base.reported = all - gone;
      // Palettes can matter only where tiles are reported.
      auto const variants =
          base.reported.has(feature::amx_tile) ? tile_variants(base) : std::vector{base};
      for (mock_settings variant : variants)
        for (bool osxsave : {true, false})
          for (std::uint64_t state : every_state()) {
            variant.osxsave = osxsave;
            variant.state = state;
            compare(variant);
            believed_tiles += expected(variant).has(feature::amx_tile) ? 1 : 0;
            ++count;
          }
    }
  }
  CHECK(count > 100000);
  CHECK(believed_tiles > 1000);  // the matrix has both answers
}

TEST_CASE("any set of reported bits") {
  std::mt19937 random(20240607);
  auto const states = every_state();
  for (int i = 0; i < 100000; ++i) {
    mock_settings s;
    for (int f = 0; f < sinter::feature_count; ++f)
      if (random() % 4 != 0) s.reported = s.reported | features{static_cast<feature>(f)};
    if (random() % 2 != 0) s.state = states[random() % states.size()];
    s.osxsave = random() % 8 != 0;
    if (random() % 4 == 0)
      s.avx10.ebx = static_cast<std::uint32_t>(random() % 4 + ((random() % 8) << 16));
    compare(s);
  }
}

TEST_CASE("leaves that the CPU does not have are not read") {
  mock_settings s;
  for (feature f : {feature::bmi1, feature::bmi2}) s.reported = s.reported | features{f};
  s.reported =
      s.reported | sinter::allowed_under(isa::amx_fp16) | sinter::allowed_under(isa::avx10_2);
  for (std::uint32_t leaf = 0; leaf <= 0x24; ++leaf)
    for (std::uint32_t subleaf : {0U, 1U}) {
      s.highest_leaf = leaf;
      s.highest_subleaf = subleaf;
      if (leaf == 0) {
        CHECK(detect(mock_cpu(s)).empty());
        continue;
      }
      compare(s);
    }
}

TEST_CASE("a machine that reports AMX in leaf 7 and in XCR0, with an empty palette, has no AMX") {
  mock_settings s = mock_of(isa::amx);
  s.palettes = 0;
  s.palette = s.tmul = {};
  mock_cpu const cpu(s);
  CHECK(best_isa(detect(cpu)) == isa::avx512_bf16);
  CHECK(examine(cpu, feature::amx_tile) == doubt::palette);
  CHECK(examine(cpu, feature::amx_bf16) == doubt::prerequisite);
  CHECK(believe(cpu, feature::amx_tile).reason ==
        "sinter: amx_tile is not used: CPUID reports it, but in leaf 1DH no palette of 8 tiles of "
        "16 rows of 64 bytes");
}

TEST_CASE("each doubt has its sentence") {
  mock_settings s = mock_of(isa::amx);
  CHECK(believe(mock_cpu(s), feature::amx_bf16));
  CHECK(believe(mock_cpu(s), feature::amx_fp16).reason ==
        "sinter: amx_fp16 is not used: CPUID does not report it");
  s.state = 0xe7;
  CHECK(believe(mock_cpu(s), feature::amx_tile).reason.find("(XCR0)") != std::string::npos);
  CHECK(believe(mock_cpu(s), feature::amx_bf16).what == sinter::code::unsupported);
  s = mock_of(isa::amx);
  s.tmul = {};
  CHECK(believe(mock_cpu(s), feature::amx_tile).reason.find("leaf 1EH") != std::string::npos);
  s = mock_of(isa::avx10_2);
  s.avx10.ebx = 1U | (7U << 16);
  CHECK(believe(mock_cpu(s), feature::avx10_2).reason.find("version below 2") != std::string::npos);
  s = mock_of(isa::avx512);
  s.reported = s.reported - features{feature::avx512f};
  CHECK(believe(mock_cpu(s), feature::avx512bw).reason ==
        "sinter: avx512bw is not used: CPUID reports it, but not all that it stands on (avx512f)");
}

TEST_CASE("SINTER_MAX_ISA caps and never raises, and is read each time") {
  for (isa machine :
       {isa::reference, isa::avx2, isa::avx512, isa::avx512_bf16, isa::amx, isa::amx_fp16}) {
    mock_cpu const cpu(mock_of(machine));
    sinter::cpu_override const here(cpu);
    CHECK(sinter::detected_isa() == sinter::allowed_under(machine));
    for (std::string_view word : row_of(sinter::env::max_isa).words) {
      isa const highest = sinter::isa_named(word).value();
      scoped_env const set("SINTER_MAX_ISA", std::string(word).c_str());
      auto const found = sinter::current_isa();
      REQUIRE(found.ok());
      CHECK(found.value() == (sinter::allowed_under(machine) & sinter::allowed_under(highest)));
      isa const best = sinter::includes(machine, highest) ? highest : machine;
      CHECK(best_isa(found.value()) == best);
      CHECK(sinter::detected_isa() == sinter::allowed_under(machine));
    }
    scoped_env const set("SINTER_MAX_ISA", nullptr);
    CHECK(sinter::current_isa().value() == sinter::allowed_under(machine));
  }
  scoped_env const set("SINTER_MAX_ISA", "amx_fp16");  // a level without kernels is no cap
  CHECK(sinter::current_isa().error().what == sinter::code::bad_environment);
}

TEST_CASE("a program's own cap counts in the place of SINTER_MAX_ISA, and does not raise either") {
  mock_cpu const cpu(mock_of(isa::avx512_bf16));
  sinter::cpu_override const here(cpu);
  scoped_env const set("SINTER_MAX_ISA", "avx2");
  CHECK(best_isa(sinter::current_isa(isa::avx512).value()) == isa::avx512);
  CHECK(best_isa(sinter::current_isa(isa::amx).value()) == isa::avx512_bf16);
  CHECK(best_isa(sinter::current_isa(std::nullopt).value()) == isa::avx2);
}

TEST_CASE("an override ends with its scope, and nests") {
  features const real = sinter::detected_isa();
  mock_cpu const outer(mock_of(isa::avx2));
  mock_cpu const inner(mock_of(isa::reference));
  {
    sinter::cpu_override const one(outer);
    {
      sinter::cpu_override const two(inner);
      CHECK(sinter::detected_isa().empty());
    }
    CHECK(best_isa(sinter::detected_isa()) == isa::avx2);
  }
  CHECK(sinter::detected_isa() == real);
}

TEST_CASE("the AMX permission: each errno is a verdict with its sentence") {
  struct {
    int error;
    char const* part;
  } const rows[] = {
      {EINVAL, "Linux 5.16"},  {EPERM, "not permitted"},    {EOPNOTSUPP, "switched off"},
      {ENOSPC, "sigaltstack"}, {ENOSYS, "no such request"}, {E2BIG, "errno 7"},
  };
  for (auto const& row : rows) {
    mock_host const host(mock_of(isa::amx), row.error);
    sinter::cpu_override const here(host);
    sinter::verdict const v = sinter::amx_permission();
    CAPTURE(v.reason);
    CHECK(v.what == sinter::code::unsupported);
    CHECK(v.reason.rfind("sinter: amx is not used: ", 0) == 0);
    CHECK(v.reason.find(row.part) != std::string::npos);
    CHECK(sinter::amx_permission().reason == v.reason);
    CHECK(host.asked() == 1);
  }
  mock_host const host(mock_of(isa::amx), 0);
  sinter::cpu_override const here(host);
  CHECK(sinter::amx_permission());
}

TEST_CASE("the permission is asked once, by whichever thread comes first, and not by detection") {
  mock_host const host(mock_of(isa::amx), 0);
  sinter::cpu_override const here(host);
  CHECK(sinter::current_isa().value().has(feature::amx_bf16));
  CHECK(believe(sinter::current_cpu(), feature::amx_tile));
  CHECK(host.asked() == 0);
  std::vector<std::thread> threads;
  std::atomic<int> permitted = 0;
  for (int i = 0; i < 8; ++i)
    threads.emplace_back([&] { permitted += sinter::amx_permission() ? 1 : 0; });
  for (std::thread& t : threads) t.join();
  CHECK(permitted == 8);
  CHECK(host.asked() == 1);
}

TEST_CASE("the permission is not asked where tiles are not believed in") {
  for (mock_settings const& s : tile_variants(mock_of(isa::amx))) {
    mock_host const host(s, 0);
    sinter::cpu_override const here(host);
    bool const sane = detect(host).has(feature::amx_tile);
    CHECK(static_cast<bool>(sinter::amx_permission()) == sane);
    CHECK(host.asked() == (sane ? 1 : 0));
  }
  mock_host const host(mock_of(isa::avx512_bf16), 0);
  sinter::cpu_override const here(host);
  CHECK(sinter::amx_permission().reason ==
        "sinter: amx_tile is not used: CPUID does not report it");
  CHECK(host.asked() == 0);
}

#if defined(__linux__)

namespace {

/// Exit status of a child that runs f; -signal if it was killed.
template <class F>
int in_child(F f) {
  pid_t const child = ::fork();
  if (child == 0) ::_exit(f());
  int how = 0;
  while (::waitpid(child, &how, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(how) ? WEXITSTATUS(how) : -WTERMSIG(how);
}

}  // namespace

TEST_CASE("the permission is kept after fork") {
  mock_host const host(mock_of(isa::amx), 0);
  sinter::cpu_override const here(host);
  CHECK(sinter::amx_permission());
  CHECK(in_child([&] { return sinter::amx_permission() && host.asked() == 1 ? 0 : 1; }) == 0);
}

#if defined(__x86_64__)

namespace {

/// From here on this process's seccomp filter does `action` at arch_prctl(ARCH_REQ_XCOMP_PERM).
bool filter_the_request(std::uint32_t action) {
  constexpr std::uint32_t first_argument = offsetof(seccomp_data, args);
  sock_filter code[] = {
      {BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(seccomp_data, nr)},
      {BPF_JMP | BPF_JEQ | BPF_K, 0, 3, SYS_arch_prctl},
      {BPF_LD | BPF_W | BPF_ABS, 0, 0, first_argument},
      {BPF_JMP | BPF_JEQ | BPF_K, 0, 1, 0x1023},
      {BPF_RET | BPF_K, 0, 0, action},
      {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW},
  };
  sock_fprog program{sizeof(code) / sizeof(code[0]), code};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) == 0;
}

constexpr int cannot_ask = 200;

/// errno of the real request under a filter.
int answer_under(std::uint32_t action) {
  return in_child(
      [&] { return filter_the_request(action) ? sinter::host_cpu().request_amx() : cannot_ask; });
}

}  // namespace

TEST_CASE("a seccomp filter that kills the request is survived: not permitted") {
  // The filter does what it says: who makes the call without the library's care is killed.
  int const careless = in_child([] {
    if (!filter_the_request(SECCOMP_RET_KILL_PROCESS)) return cannot_ask;
    return ::syscall(SYS_arch_prctl, 0x1023, 18) == 0 ? 0 : 1;
  });
  if (careless == cannot_ask) {
    MESSAGE("skipped: this system does not let a process install a seccomp filter");
    return;
  }
  CHECK(careless == -SIGSYS);
  CHECK(answer_under(SECCOMP_RET_KILL_PROCESS) == EPERM);
  CHECK(answer_under(SECCOMP_RET_KILL_THREAD) == EPERM);
  CHECK(answer_under(SECCOMP_RET_TRAP) == EPERM);
  // A filter that answers by itself is passed on; one that lets the call through changes nothing.
  CHECK(answer_under(SECCOMP_RET_ERRNO | EPERM) == EPERM);
  CHECK(answer_under(SECCOMP_RET_ERRNO | ENOSPC) == ENOSPC);
  int const unfiltered = in_child([] { return sinter::host_cpu().request_amx(); });
  CHECK(answer_under(SECCOMP_RET_ALLOW) == unfiltered);
}

TEST_CASE("case 53: a signal stack too small for tiles, there before the request, is survived") {
  int const without = in_child([] { return sinter::host_cpu().request_amx(); });
  int const with = in_child([] {
    static char memory[2048];
    stack_t small{};
    small.ss_sp = memory;
    small.ss_size = sizeof memory;
    if (::sigaltstack(&small, nullptr) != 0) return cannot_ask;
    return sinter::host_cpu().request_amx();
  });
  if (with == cannot_ask) {
    MESSAGE("skipped: this system refuses a signal stack of 2048 bytes by itself");
    return;
  }
  CHECK((with == without || with == ENOSPC));
}

TEST_CASE("this machine: what is believed is what the kernel lists") {
  std::ifstream file("/proc/cpuinfo");
  std::string line;
  while (std::getline(file, line) && line.rfind("flags", 0) != 0) {
  }
  REQUIRE_FALSE(line.empty());
  std::istringstream words(line.substr(line.find(':') + 1));
  features listed;
  for (std::string word; words >> word;)
    for (auto const& row : sinter::feature_table)
      if (row.name == word) listed = listed | features{row.code};
  features const found = sinter::detected_isa();
  // A kernel that is older than a feature does not list it, so nothing is asked the other way round
  // for the latest.
  features const latest{feature::avx_vnni, feature::avx512_fp16, feature::amx_tile,
                        feature::amx_bf16, feature::amx_int8,    feature::amx_fp16,
                        feature::avx10_2};
  CAPTURE(names_of(listed));
  CAPTURE(names_of(found));
  CHECK(found.includes(listed));
  CHECK(listed.includes(found - latest));
}

TEST_CASE("this machine: compiler's own detection agrees") {
  features const found = sinter::detected_isa();
  CHECK(found.has(feature::avx2) == (__builtin_cpu_supports("avx2") != 0));
  CHECK(found.has(feature::fma) == (__builtin_cpu_supports("fma") != 0));
  CHECK(found.has(feature::avx512f) == (__builtin_cpu_supports("avx512f") != 0));
  CHECK(found.has(feature::avx512bw) == (__builtin_cpu_supports("avx512bw") != 0));
}

TEST_CASE(
    "this machine: the real request gives a verdict, and no permission where tiles are not "
    "believed in") {
  sinter::verdict const v = sinter::amx_permission();
  CHECK((v || v.reason.rfind("sinter: ", 0) == 0));
  if (!sinter::detected_isa().has(feature::amx_tile)) CHECK_FALSE(v);
}

#endif  // x86-64
#endif  // Linux
