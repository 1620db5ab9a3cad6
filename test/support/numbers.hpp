// Numbers that a user of a test program gives by the environment: how many random cases, from which seed.
#pragma once

#include <cstdint>
#include <cstdlib>

namespace sinter_test {

inline std::uint64_t number_from(char const* variable, std::uint64_t otherwise) {
  char const* const text = std::getenv(variable);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

}  // namespace sinter_test
