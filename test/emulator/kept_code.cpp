// Pages that held code are never given back: linked into the program for a machine that is emulated as a whole.
//
// Bochs 3.0 decodes code once and keeps it by physical address. It looks for what a write makes void by lines of 128
// bytes, but where AMX is enabled it keeps the code of each line in the place of its neighbour, and so overlooks every
// second one. Code in a page that held other code before is then run as that other code. Here the linker's --wrap puts
// these functions in the place of mremap() and munmap(), and no such page is ever free: code is in fresh memory always.
#include <sys/mman.h>

#include <cstdarg>
#include <cstddef>

#include <sinter/jit/code_memory.hpp>

void* real_mremap(void* from, std::size_t bytes, std::size_t wanted, int flags,
                  ...) asm("__real_mremap");
int real_munmap(void* at, std::size_t bytes) asm("__real_munmap");
void* wrapped_mremap(void* from, std::size_t bytes, std::size_t wanted, int flags,
                     ...) asm("__wrap_mremap");
int wrapped_munmap(void* at, std::size_t bytes) asm("__wrap_munmap");

/// What is mapped at the new place is moved away first.
void* wrapped_mremap(void* from, std::size_t bytes, std::size_t wanted, int flags, ...) {
  std::va_list more;
  va_start(more, flags);
  void* const to = va_arg(more, void*);
  va_end(more);
  void* const away = mmap(nullptr, wanted, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (away == MAP_FAILED) return away;
  if (void* const moved = real_mremap(to, wanted, wanted, flags, away); moved == MAP_FAILED)
    return moved;
  return real_mremap(from, bytes, wanted, flags, to);
}

int wrapped_munmap(void* at, std::size_t bytes) {
  return bytes == sinter::jit::code_memory::region_bytes ? 0 : real_munmap(at, bytes);
}
