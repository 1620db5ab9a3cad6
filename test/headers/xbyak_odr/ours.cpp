// Sinter's Xbyak: an error in a generator must arrive, although the program has another Xbyak, compiled
// with XBYAK_NO_EXCEPTION. Interface assumed of jit/assembler.hpp: Xbyak is there as ::sinter_xbyak, and
// tells errors by an exception derived from std::exception, or by sinter_xbyak::GetError().
#include <cstdio>
#include <exception>
#include <sinter/jit/assembler.hpp>

int plain_error();  // plain.cpp: what the other Xbyak reports in the same situation

namespace {

// Writes 64 bytes into a buffer for 8, which Xbyak must report.
struct too_big : sinter_xbyak::CodeGenerator {
  explicit too_big(unsigned char* buffer) : sinter_xbyak::CodeGenerator(8, buffer) {
    for (int i = 0; i < 64; ++i) nop();
  }
};

bool our_error_arrives() {
  unsigned char buffer[128] = {};
  try {
    sinter_xbyak::ClearError();
    const too_big generator(buffer);
    const bool reported = sinter_xbyak::GetError() != 0;
    sinter_xbyak::ClearError();
    return reported;
  } catch (const std::exception& error) {
    std::printf("ours: %s\n", error.what());
    return true;
  }
}

}  // namespace

int main() {
  // Both, twice, each after the other: neither may take the other's error away.
  for (int i = 0; i < 2; ++i) {
    if (!our_error_arrives()) {
      std::puts("our error vanished");
      return 1;
    }
    if (plain_error() == 0) {
      std::puts("the other Xbyak's error vanished");
      return 1;
    }
  }
  std::puts("both errors arrive");
  return 0;
}
