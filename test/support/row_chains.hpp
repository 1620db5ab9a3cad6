// Chains that look along rows, in the text form: of an operand x, and of a product.
#pragma once

#include <string>

namespace sinter_test {

inline std::string const softmax =
    "row_max(x:tensor) | sub(x, %0) | exp | row_sum | div(1, %3) | mul(%2, %4)";
inline std::string const log_softmax =
    "row_max(x:tensor) | sub(x, %0) | exp | row_sum | log | sub(%1, %4)";
inline std::string const layer_norm =
    "row_mean(x:tensor) | sub(x, %0) | square | row_mean | add 0.00001 | sqrt | div(1, %5) | "
    "mul(%1, %6) | mul g:vector | add b:vector";
inline std::string const rms_norm =
    "square(x:tensor) | row_mean | add 0.00001 | sqrt | div(1, %3) | mul(x, %4) | mul g:vector";

/// Rows of a product instead of rows of x: each %i is one step further on.
inline std::string behind_product(std::string const& head, std::string const& text) {
  std::string moved;
  for (std::size_t i = 0; i < text.size(); ++i) {
    moved += text[i];
    if (text[i] != '%') continue;
    std::size_t digits = 0;
    int const n = std::stoi(text.substr(i + 1), &digits);
    moved += std::to_string(n + 1);
    i += digits;
  }
  for (std::string const from : {"x:tensor", "(x", " x"})
    for (std::size_t at = moved.find(from); at != std::string::npos; at = moved.find(from))
      moved.replace(at, from.size(), (from[0] == 'x' ? "" : from.substr(0, 1)) + "%0");
  return head + " | " + moved;
}

}  // namespace sinter_test
