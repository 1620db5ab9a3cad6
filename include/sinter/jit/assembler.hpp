// The assembler: Xbyak behind a renamed namespace, a pool of constants, and errors that are found
// when code is taken.
//
// This is the only header that includes xbyak. Its namespace is renamed, and its no-exception form
// is used in every build, so another Xbyak of any version and configuration in the same program
// shares no symbol with this one. Code is written to plain heap memory and must not depend on where
// it stands: relative jumps and rip-relative data only. jit/code_memory.hpp makes it executable.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "../base/array_view.hpp"
#include "../base/status.hpp"
#include "accumulator_block.hpp"

#if defined(XBYAK_XBYAK_H_)
#error "sinter: xbyak.h is included above; include sinter/backends.hpp in another file"
#endif
// NOLINTBEGIN: names and style of Xbyak
#define Xbyak sinter_xbyak
#define XBYAK_NO_EXCEPTION
#define XBYAK_DONT_USE_MMAP_ALLOCATOR
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpedantic"
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wsign-conversion"
#pragma GCC diagnostic ignored "-Wshadow"
#pragma GCC diagnostic ignored "-Wold-style-cast"
#pragma GCC diagnostic ignored "-Wcast-qual"
#pragma GCC diagnostic ignored "-Wignored-qualifiers"
#pragma GCC diagnostic ignored "-Wunused-parameter"
#pragma GCC diagnostic ignored "-Wextra"
#include <xbyak/xbyak.h>
#pragma GCC diagnostic pop
#undef XBYAK_NO_EXCEPTION
#undef XBYAK_DONT_USE_MMAP_ALLOCATOR
#undef Xbyak
// NOLINTEND

static_assert(sinter_xbyak::VERSION >= 0x7000, "sinter: Xbyak 7 or newer is wanted");

namespace sinter::inline SINTER_ABI::jit {

namespace xb = sinter_xbyak;

namespace detail {
/// A base, so that it exists before the code generator that writes to it. Xbyak may patch a jump at
/// the very end of an overflowing buffer, hence the slack.
struct code_buffer {
  static constexpr std::size_t capacity = 64 * 1024;
  static constexpr std::size_t slack = 64;
  std::unique_ptr<std::uint8_t[]> bytes{new (std::nothrow) std::uint8_t[capacity + slack]};
};
}  // namespace detail

class assembler : private detail::code_buffer, public xb::CodeGenerator {
 public:
  /// One kernel's code has at most this many bytes.
  static constexpr std::size_t max_code_bytes = detail::code_buffer::capacity;

  explicit assembler(isa level)
      : xb::CodeGenerator(bytes ? max_code_bytes : 0, bytes.get()), level_(level) {
    xb::ClearError();
  }

  isa level() const noexcept { return level_; }
  bool masks() const noexcept { return has_masks(level_); }

  /// Vector register i at this level's full width.
  xb::Xmm vec(int i) const { return {masks() ? xb::Operand::ZMM : xb::Operand::YMM, i}; }
  /// Its lower half, which holds as many 16-bit elements as vec() has lanes.
  xb::Xmm half(int i) const { return {masks() ? xb::Operand::YMM : xb::Operand::XMM, i}; }
  static xb::Opmask mask(int i) { return xb::Opmask(i); }
  static xb::Reg64 general(int i) { return xb::Reg64(i); }
  /// General register + bytes, for ptr[], qword[], ...
  static xb::RegExp at(int base, std::int64_t bytes) {
    return general(base) + static_cast<std::size_t>(bytes);
  }

  /// Memory that holds `value` in every lane, as the last source of an instruction on 32-bit lanes
  /// (AVX-512: an embedded broadcast).
  xb::Address constant(float value) { return constant_bits(std::bit_cast<std::uint32_t>(value)); }
  xb::Address constant_bits(std::uint32_t bits) {
    if (masks()) return ptr_b[rip + find({&bits, 1})];
    std::array<std::uint32_t, 8> lanes;
    lanes.fill(bits);
    return ptr[rip + find(lanes)];
  }
  /// Memory that holds these bits once.
  xb::Address lone(std::uint32_t bits) { return ptr[rip + find({&bits, 1})]; }
  /// Memory that holds these 1, 8 or 16 32-bit words, aligned to their size.
  xb::Address table(std::vector<std::uint32_t> const& words) { return ptr[rip + find(words)]; }

  /// Emits the constants that were referred to, behind the last instruction, and gives the whole
  /// code; or says why nothing usable was generated: an overflow, an encoding that does not exist,
  /// a label without a place. Once. The bytes are valid as long as the assembler.
  result<array_view<std::byte const>> finish() {
    std::string const what = "sinter: generating a kernel failed: ";
    if (!bytes) return failure{code::out_of_memory, what + "no memory"};
    emit_pool();
    if (int const e = xb::GetError(); e != xb::ERR_NONE) {
      xb::ClearError();
      return failure{e == xb::ERR_CODE_IS_TOO_BIG ? code::unsupported : code::system,
                     what + xb::ConvertErrorToString(e)};
    }
    if (hasUndefinedLabel()) return failure{code::system, what + "a label has no place"};
    return array_view(reinterpret_cast<std::byte const*>(getCode()), getSize());
  }

 private:
  struct pooled {
    std::vector<std::uint32_t> words;
    xb::Label label;
  };

  /// Asked several times for each step of a long chain: no allocation, most misses end at one word.
  xb::Label& find(array_view<std::uint32_t const> words) {
    for (pooled& p : pool_)
      if (p.words[0] == words[0] && p.words.size() == words.size() &&
          std::equal(words.begin(), words.end(), p.words.begin()))
        return p.label;
    pool_.push_back({{words.begin(), words.end()}, {}});
    return pool_.back().label;
  }
  /// Large ones first, so that nothing is lost to alignment but once.
  void emit_pool() {
    for (std::size_t size : {std::size_t{16}, std::size_t{8}, std::size_t{1}})
      for (pooled& p : pool_)
        if (p.words.size() == size) {
          align(4 * size, false);
          L(p.label);
          for (std::uint32_t w : p.words) dd(w);
        }
  }

  isa level_;
  std::list<pooled> pool_;
};

}  // namespace sinter::inline SINTER_ABI::jit
