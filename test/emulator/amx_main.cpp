// The main function of tests that run a second time with AMX: the library believes in it, every kernel that can is one
// of tiles, and jit_levels() names no other level. Emulated where the CPU has none, native where it has; the first line
// says which, and `--amx-mode` says nothing else. With `--amx-least=N` fewer emulated tile products are a failure.
//
// doctest's own handlers of signals would stand before the emulator's, so there are none.
#define DOCTEST_CONFIG_NO_POSIX_SIGNALS
#define SINTER_TEST_OWN_MAIN
#include "support/doctest_main.cpp"

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <sinter/backend/jit_tiles.hpp>

#include "emulator/amx_emulator.hpp"
#include "support/levels.hpp"

namespace {

std::uint64_t least_products(int argc, char** argv) {
  constexpr char option[] = "--amx-least=";
  for (int i = 1; i < argc; ++i)
    if (std::strncmp(argv[i], option, sizeof option - 1) == 0)
      return std::strtoull(argv[i] + sizeof option - 1, nullptr, 10);
  return 0;
}

int run_with_amx(int argc, char** argv) {
  namespace amx = sinter_test::amx;
  amx::emulator const tiles;
  std::printf("%s\n", tiles.why());
  if (argc > 1 && std::strcmp(argv[1], "--amx-mode") == 0) return tiles.usable() ? 0 : 77;
  if (!tiles.usable()) return 77;
  sinter::cpu_override const cpu(amx::cpu_with_amx());
  if (!sinter::runs(sinter::detected_isa(), sinter::isa::amx)) {
    std::printf("SKIPPED: this CPU has no AVX512-BF16, which epilogues of tiles want\n");
    return 77;
  }
  sinter::jit::tile_override const chosen(sinter::jit::tile_choice::tiles);
  sinter_test::only_level = sinter::isa::amx;
  amx::counts const before = amx::counted();
  int const result = sinter_test::run_doctest(argc, argv);
  amx::counts const c = amx::counted() - before;
  if (tiles.how() == amx::mode::emulated) {
    std::printf("%llu tile products, %llu configurations, %llu traps\n",
                static_cast<unsigned long long>(c.products()),
                static_cast<unsigned long long>(c.configurations),
                static_cast<unsigned long long>(c.signals));
    if (result == 0 && c.products() < least_products(argc, argv)) {
      std::printf("that is less than wanted\n");
      return 1;
    }
  }
  if (amx::configured_threads() == 0) return result;
  std::printf("tiles are still configured at the end\n");
  return 1;
}

}  // namespace

int main(int argc, char** argv) { return run_with_amx(argc, argv); }
