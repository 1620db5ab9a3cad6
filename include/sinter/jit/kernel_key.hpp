// The key of a generated kernel: every value that its code depends on, as bytes, and no dynamic
// extent.
//
// Names, descriptions of operands and extents said in a leaf's type are left out on purpose: chains
// that differ in nothing else share their code. A kernel's own facts (shape, accesses) are added
// field by field by its builder. Read jit/code_cache.hpp for what a key is used for.
#pragma once

#include <bit>
#include <string>
#include <type_traits>

#include "../plan/chain.hpp"

namespace sinter::inline SINTER_ABI::jit {

class kernel_key {
 public:
  explicit kernel_key(char kind) : bytes_(1, kind) {}

  /// A number, a boolean or an enumerator, as 8 bytes.
  template <class T>
  kernel_key& add(T value) {
    static_assert(std::is_integral_v<T> || std::is_enum_v<T>);
    auto bits = static_cast<std::uint64_t>(value);
    for (int i = 0; i < 8; ++i, bits >>= 8) bytes_ += static_cast<char>(bits & 0xffU);
    return *this;
  }
  kernel_key& add(float value) { return add(std::bit_cast<std::uint32_t>(value)); }

  /// The steps of a chain, what they read and write.
  kernel_key& add(chain const& c) {
    add(c.steps.size());
    for (step const& s : c.steps) {
      add(s.code).add(s.to).add(s.alpha).add(s.beta).add(s.contraction).add(s.rounded);
      for (value_ref v : s.args) add(v.kind).add(v.index);
    }
    add(c.constants.size());
    for (float v : c.constants) add(v);
    add(c.operands.size());
    for (operand const& o : c.operands) add(o.type);
    add(c.outputs.size());
    for (output const& o : c.outputs) add(o.value.kind).add(o.value.index).add(o.type);
    return add(c.precision.src);  // what a rounded step is rounded to
  }

  std::string const& text() const { return bytes_; }

 private:
  std::string bytes_;
};

}  // namespace sinter::inline SINTER_ABI::jit
