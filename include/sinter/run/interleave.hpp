// Rows of elements written side by side: element j of row i goes to place j * count + i. A transpose of a small matrix.
//
// Two rows are zipped by vectors of 16 bytes, more are transposed in tiles of four by four: in the vectors that GCC and
// Clang have in the language, which become the shuffles of whatever is compiled for. What is left of a tile, and
// everything where the language has no vectors, goes element by element. Knows elements by their size only; nothing is
// aligned.
#pragma once

#include <cstddef>
#include <cstring>
#include <utility>

#include "../core/shape.hpp"

#ifdef __has_builtin
#if __has_builtin(__builtin_shufflevector)
#define SINTER_HAS_SHUFFLE 1
#endif
#endif

namespace sinter::inline SINTER_ABI::detail {

/// One row for each pixel, `stride` bytes apart.
struct pixel_row {
  std::byte const* data = nullptr;
  extent stride = 0;

  std::byte const* of(extent pixel) const noexcept { return data + pixel * stride; }
};

/// One pixel's rows, each of `length` elements.
template <class Element>
class row_interleaver {
 public:
  row_interleaver(pixel_row const* rows, int count, extent pixel) noexcept
      : rows_(rows), count_(count), pixel_(pixel) {}

  void write(std::byte* to, extent length) const noexcept {
    if (count_ == 1) {
      std::memcpy(to, row(0, 0), static_cast<std::size_t>(length * size));
      return;
    }
    extent const done = count_ == 2 ? zip(to, length) : transpose(to, length);
    for (extent j = done; j < length; ++j)
      for (int i = 0; i < count_; ++i)
        std::memcpy(to + (j * count_ + i) * size, row(i, j), sizeof(Element));
  }

 private:
  static constexpr extent size = sizeof(Element);

  std::byte const* row(int i, extent j) const noexcept { return rows_[i].of(pixel_) + j * size; }

#if SINTER_HAS_SHUFFLE
  // As a typedef: an alias template would lose the attribute in Clang 14.
  typedef Element words __attribute__((vector_size(4 * sizeof(Element))));

  /// Elements of each row that are zipped at a time.
  static constexpr int zipped = 16 / static_cast<int>(sizeof(Element));
  typedef Element zip_words __attribute__((vector_size(16)));

  template <class Vector = words>
  static Vector load(std::byte const* from) noexcept {
    Vector v;
    std::memcpy(&v, from, sizeof v);
    return v;
  }
  template <class Vector>
  static void store(std::byte* to, Vector const& v) noexcept {
    std::memcpy(to, &v, sizeof v);
  }
  /// Where the next `n` columns begin, the last ones again where n does not divide them; `end` once all are done.
  static extent next_columns(extent j, extent end, extent n) noexcept {
    return j + 2 * n <= end || j + n == end ? j + n : end - n;
  }

  /// Of both vectors what the indices say.
  template <int... Lane>
  static zip_words both(zip_words a, zip_words b, std::integer_sequence<int, Lane...>) noexcept {
    return __builtin_shufflevector(a, b, Lane...);
  }
  /// Elements From, From + 1, ... of both vectors in turn.
  template <int From, int... Lane>
  static constexpr auto from(std::integer_sequence<int, Lane...>) noexcept {
    return std::integer_sequence<int, (From + Lane / 2 + Lane % 2 * zipped)...>{};
  }

  /// Gives how many elements of each row are written.
  extent zip(std::byte* to, extent length) const noexcept {
    constexpr std::make_integer_sequence<int, zipped> all{};
    if (length < zipped) return 0;
    std::byte const* const first = row(0, 0);
    std::byte const* const second = row(1, 0);
    for (extent j = 0; j < length; j = next_columns(j, length, zipped)) {
      auto const a = load<zip_words>(first + j * size), b = load<zip_words>(second + j * size);
      std::byte* const at = to + 2 * j * size;
      store(at, both(a, b, from<0>(all)));
      store(at + 16, both(a, b, from<zipped / 2>(all)));
    }
    return length;
  }

  /// Four rows at a time, the last ones again where four do not divide them. Three rows count as four: what is written
  /// too far is written right with the next column, so one column and what four do not divide stay behind.
  extent transpose(std::byte* to, extent length) const noexcept {
    extent const end = count_ == 3 ? (length - 1) / 4 * 4 : length;
    if (end < 4) return 0;
    for (int i = 0; i < count_; i += 4) {
      int const first = count_ == 3 || i + 4 <= count_ ? i : count_ - 4;
      transpose_four(first, count_ == 3 ? 2 : first + 3, to + first * size, end);
    }
    return end;
  }
  /// Rows from `i` on, of which `last` is the fourth.
  void transpose_four(int i, int last, std::byte* to, extent end) const noexcept {
    std::byte const* const rows[] = {row(i, 0), row(i + 1, 0), row(i + 2, 0), row(last, 0)};
    extent const column = count_ * size;
    for (extent j = 0; j < end; j = next_columns(j, end, 4)) {
      extent const from = j * size;
      words const a = load(rows[0] + from), b = load(rows[1] + from);
      words const c = load(rows[2] + from), d = load(rows[3] + from);
      words const ab = __builtin_shufflevector(a, b, 0, 4, 1, 5);
      words const cd = __builtin_shufflevector(c, d, 0, 4, 1, 5);
      words const ab_high = __builtin_shufflevector(a, b, 2, 6, 3, 7);
      words const cd_high = __builtin_shufflevector(c, d, 2, 6, 3, 7);
      std::byte* const at = to + j * column;
      store(at, __builtin_shufflevector(ab, cd, 0, 1, 4, 5));
      store(at + column, __builtin_shufflevector(ab, cd, 2, 3, 6, 7));
      store(at + 2 * column, __builtin_shufflevector(ab_high, cd_high, 0, 1, 4, 5));
      store(at + 3 * column, __builtin_shufflevector(ab_high, cd_high, 2, 3, 6, 7));
    }
  }
#else
  static extent zip(std::byte*, extent) noexcept { return 0; }
  static extent transpose(std::byte*, extent) noexcept { return 0; }
#endif

  pixel_row const* rows_;
  int count_;
  extent pixel_;
};

}  // namespace sinter::inline SINTER_ABI::detail

#undef SINTER_HAS_SHUFFLE
