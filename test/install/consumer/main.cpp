// A user's program: it is built and run by each way of using Sinter (see ../consume.sh).
#include <cstdio>
#include <sinter/sinter.hpp>

int main() {
  constexpr sinter::version version = sinter::library_version;
  std::printf("sinter %d.%d.%d onednn=%d jit=%d\n", version.major, version.minor, version.patch,
              SINTER_WITH_ONEDNN, SINTER_WITH_JIT);
  return 0;
}
