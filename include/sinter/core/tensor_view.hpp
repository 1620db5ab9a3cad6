// Views: pointer, dtype, shape, strides. What users bind to the operands of a compiled chain; nothing is owned.
//
// The logical axes are fixed by the operand (images N,H,W,C; conv weights O,H,W,I; matmul M,K and K,N); strides, in
// elements, say where they lie in memory. nchw(p, n, c, h, w) and its siblings take memory in another framework's
// order and give the view in Sinter's. Contiguous ranges, raw pointers with extents, mdspan-like and Eigen-map-like
// objects convert. A view checks nothing: compile(), pack() and bind() do (plan/problem.hpp).
#pragma once

#include <concepts>
#include <cstdint>
#include <iterator>
#include <type_traits>

#include "dtype.hpp"
#include "shape.hpp"

namespace sinter::inline SINTER_ABI {

/// Void is `void const` for what is read and `void` for what is written.
template <class Void>
struct basic_view {
  Void* data = nullptr;
  dtype type = dtype::f32;
  shape dims;
  sinter::strides strides;
  /// From a one-dimensional contiguous range: fits any dense operand of as many elements.
  bool flat = false;

  constexpr int rank() const { return dims.ssize(); }
  constexpr operator basic_view<void const>() const  // NOLINT: reading is always allowed
      requires(!std::is_const_v<Void>) {
    return {data, type, dims, strides, flat};
  }
};
using tensor_view = basic_view<void const>;
using output_view = basic_view<void>;

template <class T>
using view_of = basic_view<std::conditional_t<std::is_const_v<T>, void const, void>>;

/// Row-major view of p: `view(p, {m, n})`. Units of strides: elements.
template <element T>
constexpr view_of<T> view(T* p, shape const& dims) {
  return {p, dtype_of<T>, dims, dense_strides(dims), false};
}
template <element T>
constexpr view_of<T> view(T* p, shape const& dims, strides const& s) {
  return {p, dtype_of<T>, dims, s, false};
}

/// Axis i of the result is axis order[i] of v.
template <class Void>
constexpr basic_view<Void> permuted(basic_view<Void> v, inline_vector<int, max_rank> const& order) {
  basic_view<Void> r = v;
  for (int i = 0; i < order.ssize(); ++i) {
    r.dims[i] = v.dims[order[i]];
    r.strides[i] = v.strides[order[i]];
  }
  r.flat = false;
  return r;
}

/// The last two axes exchanged: a matrix stored [out, in] bound where [in, out] is wanted.
template <class Void>
constexpr basic_view<Void> transposed(basic_view<Void> v) {
  int const r = v.rank();
  if (r < 2) return v;
  inline_vector<int, max_rank> order;
  for (int i = 0; i < r - 2; ++i) order.push_back(i);
  order.push_back(r - 1);
  order.push_back(r - 2);
  return permuted(v, order);
}

/// Memory in N,C,W / N,C,H,W / N,C,D,H,W order, seen channels-last.
template <element T>
constexpr view_of<T> ncw(T* p, extent n, extent c, extent w) {
  return permuted(view(p, shape{n, c, w}), {0, 2, 1});
}
template <element T>
constexpr view_of<T> nchw(T* p, extent n, extent c, extent h, extent w) {
  return permuted(view(p, shape{n, c, h, w}), {0, 2, 3, 1});
}
template <element T>
constexpr view_of<T> ncdhw(T* p, extent n, extent c, extent d, extent h, extent w) {
  return permuted(view(p, shape{n, c, d, h, w}), {0, 2, 3, 4, 1});
}
/// Memory in O,I,W / O,I,H,W / O,I,D,H,W order (PyTorch's), seen as O,...,I.
template <element T>
constexpr view_of<T> oiw(T* p, extent o, extent i, extent w) {
  return ncw(p, o, i, w);
}
template <element T>
constexpr view_of<T> oihw(T* p, extent o, extent i, extent h, extent w) {
  return nchw(p, o, i, h, w);
}
template <element T>
constexpr view_of<T> oidhw(T* p, extent o, extent i, extent d, extent h, extent w) {
  return ncdhw(p, o, i, d, h, w);
}

/// std::mdspan and what looks like it.
template <class M>
concept mdspan_like = requires(M const& m) {
  { M::rank() } -> std::convertible_to<std::size_t>;
  { m.extent(std::size_t{}) } -> std::convertible_to<extent>;
  { m.stride(std::size_t{}) } -> std::convertible_to<extent>;
  { m.data_handle() } -> std::convertible_to<void const*>;
};
/// Eigen::Map<Matrix> and what looks like it: rows and columns with an inner and an outer stride.
template <class M>
concept eigen_like = requires(M& m) {
  { m.rows() } -> std::convertible_to<extent>;
  { m.cols() } -> std::convertible_to<extent>;
  { m.rowStride() } -> std::convertible_to<extent>;
  { m.colStride() } -> std::convertible_to<extent>;
  { m.data() } -> std::convertible_to<void const*>;
};
template <class T>
concept element_reference = std::is_lvalue_reference_v<T> && element<std::remove_reference_t<T>>;
/// std::vector, std::array, std::span, an array and what looks like them. (Not std::ranges: <ranges> is dear.)
template <class R>
concept contiguous_elements = requires(R& r) {
  { *std::data(r) } -> element_reference;
  { std::size(r) } -> std::convertible_to<std::size_t>;
}
&&!mdspan_like<std::remove_cvref_t<R>> && !eigen_like<std::remove_cvref_t<R>>;

namespace detail {
template <class P>
using pointee = std::remove_pointer_t<P>;
}

template <class Void>
constexpr basic_view<Void> as_view(basic_view<Void> const& v) {
  return v;
}
template <contiguous_elements R>
constexpr auto as_view(R&& range) {
  auto* p = std::data(range);
  auto v = view(p, shape{static_cast<extent>(std::size(range))});
  v.flat = true;
  return v;
}
template <mdspan_like M>
constexpr auto as_view(M const& m) {
  shape dims;
  strides s;
  for (std::size_t i = 0; i < M::rank(); ++i) {
    dims.push_back(static_cast<extent>(m.extent(i)));
    s.push_back(static_cast<extent>(m.stride(i)));
  }
  return view(m.data_handle(), dims, s);
}
template <eigen_like M>
constexpr auto as_view(M&& m) {
  return view(m.data(), shape{static_cast<extent>(m.rows()), static_cast<extent>(m.cols())},
              strides{static_cast<extent>(m.rowStride()), static_cast<extent>(m.colStride())});
}

/// Anything that can be bound to an operand.
template <class V>
concept viewable = requires(V&& v) {
  as_view(std::forward<V>(v));
};

}  // namespace sinter::inline SINTER_ABI
