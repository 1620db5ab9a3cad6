// The second of two translation units that include all of Sinter: it links only if every function in the
// headers is inline, and only if both units see the same inline namespace.
#include <cstdio>
#include <sinter/sinter.hpp>

bool same_version(const char* name, sinter::version version);

bool same_version(const char* name, sinter::version version) {
  std::printf("%s: %d.%d.%d\n", name, version.major, version.minor, version.patch);
  return version.major == sinter::library_version.major &&
         version.minor == sinter::library_version.minor &&
         version.patch == sinter::library_version.patch;
}
