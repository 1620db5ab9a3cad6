// What an operand is to a chain, and how a contraction or a pooling reads its operands.
//
// The words that expressions (expr/) and plans (plan/) share, so that neither layer needs the other for them: the role
// that a user gives to a leaf, the numbers of a convolution or a window, the transpositions of a matmul. Values only; the rules
// on them are in plan/rules.hpp. Read plan/chain.hpp next.
#pragma once

#include <string_view>

#include "../config.hpp"

namespace sinter::inline SINTER_ABI {

/// Said by the user, so that a bias is never confused with a residual.
enum class role : unsigned char {
  tensor,  ///< activations, full-size or broadcast by numpy's rule
  weight,  ///< constant: packed once
  vector,  ///< one value per channel, that is per index of the last logical axis
  scalar,  ///< a single value
};
constexpr std::string_view name_of(role r) {
  constexpr std::string_view names[] = {"tensor", "weight", "vector", "scalar"};
  return names[static_cast<int>(r)];
}

/// Spatial axes in logical order (D,H,W as far as there are). For a matmul only the transpositions count.
struct contraction_attrs {
  int stride[3] = {1, 1, 1};
  int dilation[3] = {1, 1, 1};
  int pad_begin[3] = {0, 0, 0};
  int pad_end[3] = {0, 0, 0};
  int groups = 1;
  bool transposed_src = false;     ///< the operand's logical axes are ..., K, M
  bool transposed_weight = false;  ///< the operand's logical axes are ..., N, K
  friend constexpr bool operator==(contraction_attrs const&, contraction_attrs const&) = default;
};

/// The window of a pooling, H then W. global_avg_pool keeps all of it at the defaults: its window is the image.
struct pool_attrs {
  int kernel[2] = {1, 1};
  int stride[2] = {1, 1};
  int pad_begin[2] = {0, 0};
  int pad_end[2] = {0, 0};
  /// A last window that begins inside the padded image is kept although it reaches over its end.
  bool ceil = false;
  bool count_pad = true;  ///< avg_pool divides by padding too
  friend constexpr bool operator==(pool_attrs const&, pool_attrs const&) = default;
};

}  // namespace sinter::inline SINTER_ABI
