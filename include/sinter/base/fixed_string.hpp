// Names as template arguments: tensor<"x"> is spelled with a fixed_string, and the leaf's type with a pack of chars.
//
// Compilers print a pack of chars readably in a diagnostic (leaf<chars<'x'>, ...>); clang 14 prints the members of a
// class-type argument as a list of numbers. So fixed_string exists only at the user's end and is turned at once into
// `chars`. Read expr/node.hpp next.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

#include "../config.hpp"

namespace sinter::inline SINTER_ABI {

template <std::size_t N>
struct fixed_string {
  char value[N]{};
  consteval fixed_string(char const (&text)[N]) {  // NOLINT: implicit on purpose
    for (std::size_t i = 0; i < N; ++i) value[i] = text[i];
  }
  static constexpr std::size_t size() noexcept { return N - 1; }
};

/// A name as a type. Equal names are the same type.
template <char... Cs>
struct chars {
  static constexpr char storage[sizeof...(Cs) + 1] = {Cs..., '\0'};
  static constexpr std::string_view view{storage, sizeof...(Cs)};
  /// 64-bit FNV-1a of the characters: names are looked up by it.
  static constexpr std::uint64_t key = [] {
    std::uint64_t hash = 0xcbf29ce484222325ULL;
    ((hash = (hash ^ static_cast<unsigned char>(Cs)) * 0x100000001b3ULL), ...);
    return hash;
  }();
};

namespace detail {
template <fixed_string S, std::size_t... Index>
chars<S.value[Index]...> to_chars_impl(std::index_sequence<Index...>);
}  // namespace detail

template <fixed_string S>
using to_chars = decltype(detail::to_chars_impl<S>(std::make_index_sequence<S.size()>{}));

}  // namespace sinter::inline SINTER_ABI
