// Pieces of text and numbers put together into a sentence: join({"K is ", 3, " in ", name}).
//
// Plain functions, no templates in the caller, no chain of operator+ with a temporary for each piece (which is also what
// g++ 12 warns wrongly of, -Wrestrict, where a literal meets a std::string&&).
#pragma once

#include <concepts>
#include <initializer_list>
#include <string>
#include <string_view>
#include <type_traits>

#include "../config.hpp"

namespace sinter::inline SINTER_ABI::detail {

/// A text that outlives the call, or a whole number.
class piece {
 public:
  // Implicit on purpose. Literals, of which there are hundreds of lengths, ask no template anything dear.
  piece(char const* text) : text_(text) {}         // NOLINT
  piece(std::string const& text) : text_(text) {}  // NOLINT
  piece(std::string_view text) : text_(text) {}    // NOLINT
  template <class Text>
  requires(std::is_class_v<Text>&& std::convertible_to<Text const&, std::string_view>)
      piece(Text const& text)
      : text_(text) {}  // NOLINT
  template <std::integral Number>
  piece(Number number) : number_(static_cast<long long>(number)), is_number_(true) {}  // NOLINT

  void append_to(std::string& sentence) const {
    if (is_number_) {
      sentence += std::to_string(number_);
    } else {
      sentence += text_;
    }
  }

 private:
  std::string_view text_;
  long long number_ = 0;
  bool is_number_ = false;
};

inline std::string join(std::initializer_list<piece> pieces) {
  std::string sentence;
  for (piece const& p : pieces) p.append_to(sentence);
  return sentence;
}

/// One of our sentences as a part of another one.
inline std::string without_prefix(std::string_view sentence) {
  constexpr std::string_view prefix = "sinter: ";
  return std::string(sentence.starts_with(prefix) ? sentence.substr(prefix.size()) : sentence);
}

}  // namespace sinter::inline SINTER_ABI::detail
