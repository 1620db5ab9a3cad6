// Packing: the second operand into panels, rows of the first into the form that a tile kernel
// reads.
//
// Both work from any strides and dtypes and run at pack() time, or within a call where an operand
// is no weight. Panels are zero where they are padded, so that a padded product adds 0 * 0.
// Elements are read once, each alone: nothing beside the operand's own elements is touched. Layouts
// are in jit/blocking.hpp.
#pragma once

#include <algorithm>
#include <cstring>

#include "blocking.hpp"

namespace sinter::inline SINTER_ABI::jit {

/// A matrix as strides see it; strides count elements.
struct matrix_view {
  void const* data = nullptr;
  dtype type = dtype::f32;
  extent row_stride = 0, column_stride = 0;
};

namespace detail {

inline float widen(float v) { return v; }
inline float widen(bfloat16 v) { return to_float(v); }
inline float widen(float16 v) { return to_float(v); }

template <class To, class From>
To convert(From v) {
  if constexpr (std::is_same_v<To, From>)
    return v;
  else if constexpr (std::is_same_v<To, float>)
    return widen(v);
  else if constexpr (std::is_same_v<To, bfloat16>)
    return to_bfloat16(widen(v));
  else
    return to_float16(widen(v));
}

/// Calls f with a null pointer of the element type.
template <class F>
void with_type(dtype t, F&& f) {
  if (t == dtype::f32)
    f(static_cast<float const*>(nullptr));
  else if (t == dtype::bf16)
    f(static_cast<bfloat16 const*>(nullptr));
  else
    f(static_cast<float16 const*>(nullptr));
}

/// Rows of Count neighbouring elements, one or two interleaved: fixed counts on local arrays, which
/// compilers turn into vector code without any flag.
template <int Count, class T>
void copy_row(T* out, T const* row) {
  std::memcpy(out, row, sizeof(T) * Count);
}
template <int Count>
void interleave_rows(bfloat16* out, bfloat16 const* even, bfloat16 const* odd) {
  constexpr std::size_t count = Count;
  std::uint16_t low[count], high[count];
  std::uint32_t pairs[count];
  std::memcpy(low, even, sizeof low);
  std::memcpy(high, odd, sizeof high);
  for (std::size_t i = 0; i < count; ++i) pairs[i] = low[i] | (std::uint32_t{high[i]} << 16);
  std::memcpy(out, pairs, sizeof pairs);
}

/// One step of a whole panel from unit-stride rows of the same dtype; false where there is no fixed
/// form.
template <int Pair, class T>
bool pack_whole_step(T* out, T const* row, extent row_stride, int width) {
  if constexpr (Pair == 1) {
    if (width == 32)
      copy_row<32>(out, row);
    else if (width == 16)
      copy_row<16>(out, row);
    else if (width == 8)
      copy_row<8>(out, row);
    else
      return false;
    return true;
  } else if constexpr (std::is_same_v<T, bfloat16>) {
    if (width == 32)
      interleave_rows<32>(out, row, row + row_stride);
    else if (width == 16)
      interleave_rows<16>(out, row, row + row_stride);
    else if (width == 8)
      interleave_rows<8>(out, row, row + row_stride);
    else
      return false;
    return true;
  }
  return false;
}

/// One panel: columns [0, columns) of `from` (row k, column n), padded to `width` and `padded` k.
template <int Pair, class To, class From>
void pack_panel(To* out, From const* from, matrix_view const& m, extent k, extent padded,
                int columns, int width) {
  for (extent k0 = 0; k0 < padded; k0 += Pair, out += extent{width} * Pair) {
    From const* const row = from + (std::min)(k0, k) * m.row_stride;
    if constexpr (std::is_same_v<To, From>) {
      if (m.column_stride == 1 && columns == width && k0 + Pair <= k &&
          pack_whole_step<Pair>(out, row, m.row_stride, width))
        continue;
    }
    for (int j = 0; j < width; ++j)
      for (int i = 0; i < Pair; ++i)
        out[j * Pair + i] = j < columns && k0 + i < k
                                ? convert<To>(row[i * m.row_stride + j * m.column_stride])
                                : To{};
  }
}

template <int Pair, class To, class From>
void pack_panels(panel_layout const& layout, To* out, From const* from, matrix_view const& m) {
  for (extent n0 = 0; n0 < layout.n; n0 += layout.width()) {
    bool const full = n0 + layout.width() <= layout.n;
    int const columns = full ? static_cast<int>(layout.width()) : layout.tail_columns();
    int const width = (full ? tile_vectors : layout.tail_vectors()) * layout.lanes;
    pack_panel<Pair>(out, from + n0 * m.column_stride, m, layout.k, layout.steps() * Pair, columns,
                     width);
    out += layout.steps() * width * Pair;
  }
}

}  // namespace detail

/// Writes layout.bytes() bytes. `m` is K x N, of a floating dtype.
inline void pack_panels(panel_layout const& layout, void* out, matrix_view const& m) {
  if (layout.k == 0 || layout.n == 0) return;
  detail::with_type(m.type, [&](auto const* from_type) {
    auto const* from = static_cast<decltype(from_type)>(m.data);
    switch (layout.kind) {
      case product::f32:
        return detail::pack_panels<1>(layout, static_cast<float*>(out), from, m);
      case product::f16_weight:
        return detail::pack_panels<1>(layout, static_cast<float16*>(out), from, m);
      case product::bf16_pairs:
      case product::bf16_widened:
      case product::bf16_tiles:
        return detail::pack_panels<2>(layout, static_cast<bfloat16*>(out), from, m);
    }
  });
}

/// Copies a K x N matrix to dense rows of dtype t, both floating; rounds to nearest even.
inline void copy_matrix(void* out, dtype t, matrix_view const& m, extent k, extent n) {
  detail::with_type(m.type, [&](auto const* from_type) {
    auto const* const from = static_cast<decltype(from_type)>(m.data);
    detail::with_type(t, [&]<class To>(To const*) {
      auto* const to = static_cast<To*>(out);
      for (extent i = 0; i < k; ++i)
        for (extent j = 0; j < n; ++j)
          to[i * n + j] = detail::convert<To>(from[i * m.row_stride + j * m.column_stride]);
    });
  });
}

/// Bytes from row to row of copied rows: whole steps, whole cache lines.
constexpr extent copied_row_bytes(product kind, extent k) {
  extent const bytes = padded_k(kind, k) * size_of(row_of(kind).a);
  return (bytes + 63) / 64 * 64;
}

/// Copies rows of the first operand (rows x k) to where a tile kernel reads them, converted, k
/// padded with zeros.
inline void copy_rows(product kind, void* out, matrix_view const& m, extent rows, extent k) {
  extent const padded = padded_k(kind, k);
  extent const row_bytes = copied_row_bytes(kind, k);
  detail::with_type(m.type, [&](auto const* from_type) {
    auto const* const from = static_cast<decltype(from_type)>(m.data);
    auto const copy = [&]<class To>(To const*) {
      for (extent r = 0; r < rows; ++r) {
        auto* const to = reinterpret_cast<To*>(static_cast<std::byte*>(out) + r * row_bytes);
        auto const* const row = from + r * m.row_stride;
        for (extent i = 0; i < k; ++i) to[i] = detail::convert<To>(row[i * m.column_stride]);
        for (extent i = k; i < padded; ++i) to[i] = To{};
      }
    };
    if (row_of(kind).a == dtype::bf16)
      copy(static_cast<bfloat16 const*>(nullptr));
    else
      copy(static_cast<float const*>(nullptr));
  });
}

}  // namespace sinter::inline SINTER_ABI::jit
