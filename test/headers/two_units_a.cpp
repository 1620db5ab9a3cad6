// The first of two translation units that include all of Sinter. See two_units_b.cpp.
#include <cstdio>
#include <iomanip>  // names that ours must not meet by argument-dependent lookup: std::quoted
#include <sinter/network.hpp>
#include <sinter/sinter.hpp>

bool same_version(const char* name, sinter::version version);

int main() {
#if defined(__x86_64__)
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) {
    std::puts("SKIPPED: this CPU has no AVX2, for which the other unit may be compiled");
    return 77;
  }
#endif
  const auto version = sinter::library_version;
  return same_version("a", version) ? 0 : 1;
}
