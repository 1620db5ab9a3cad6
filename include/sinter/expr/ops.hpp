// The language: leaves, operators and functions that make expressions. Factories only; nothing is evaluated.
//
//   constexpr auto x = sinter::tensor<"x">;  constexpr auto w = sinter::weight<"w">;  constexpr auto b = sinter::vector<"b">;
//   constexpr auto chain = sinter::relu(sinter::conv2d(x, w, {.stride = 2, .pad = 1}) + b);
//
// Each unary function is a row of core/op.hpp. Operands may be expressions, floats or integers. Read
// rows.hpp next.
#pragma once

#include "node.hpp"

namespace sinter::inline SINTER_ABI {

// ---- leaves -------------------------------------------------------------------------------------------------------

/// Activations. Images are N,H,W,C (N,W,C; N,D,H,W,C), matrices M,K and K,N with any batch axes before.
/// Extents may be said here, and are then checked at compile time: tensor<"x", 1, 56, 56, 64>.
template <fixed_string Name, extent... Dims>
inline constexpr leaf<to_chars<Name>, role::tensor, Dims...> tensor{};
/// A constant operand of a contraction, packed once by pack(): O,H,W,I for convolutions, K,N for matmul.
template <fixed_string Name, extent... Dims>
inline constexpr leaf<to_chars<Name>, role::weight, Dims...> weight{};
/// One value per channel, that is per index of the last logical axis.
template <fixed_string Name, extent... Dims>
inline constexpr leaf<to_chars<Name>, role::vector, Dims...> vector{};
/// A single value, given at each call.
template <fixed_string Name>
inline constexpr leaf<to_chars<Name>, role::scalar> scalar{};

template <fixed_string Name>
inline constexpr output_leaf<to_chars<Name>> output_named{};
/// The output of an expression that names none.
inline constexpr output_leaf<to_chars<"out">> out{};
/// "stats"_out: an output of that name.
template <fixed_string Name>
consteval auto operator""_out() {
  return output_leaf<to_chars<Name>>{};
}

/// A name for a value that is used more than once.
template <fixed_string Name>
inline constexpr let_name<to_chars<Name>> let{};

// ---- what an operator accepts -------------------------------------------------------------------------------------

namespace detail {

template <class T>
concept number = std::same_as<T, float> ||(std::integral<T> && !std::same_as<T, bool>);

/// An expression or a number beside one.
template <class T>
concept term =
    expression<T> || number<std::remove_cvref_t<T>> || std::same_as < std::remove_cvref_t<T>,
double > ;

template <class A, class B>
concept terms = term<A> && term<B> &&(expression<A> || expression<B>);

template <class T>
constexpr auto as_term(T const& t) {
  if constexpr (expression<T>) {
    static_assert(
        !requires { t.inner; } || requires { typename T::name; },
        "sinter: transposed() stands only directly inside matmul()");
    return t;
  } else {
    static_assert(!std::same_as<T, double>,
                  "sinter: arithmetic is in float: write the constant as a float (0.5f)");
    return constant{static_cast<float>(t)};
  }
}
template <class T>
using term_type = decltype(as_term(std::declval<T const&>()));

template <op Code, class A>
constexpr auto unary(A const& a, float alpha = row_of(Code).alpha, float beta = row_of(Code).beta) {
  static_assert(row_of(Code).kind == op_class::unary);
  return pointwise<Code, term_type<A>>{as_term(a), {}, {}, alpha, beta, dtype::f32};
}
template <op Code, class A, class B>
constexpr auto binary(A const& a, B const& b) {
  static_assert(row_of(Code).kind == op_class::binary);
  return pointwise<Code, term_type<A>, term_type<B>>{as_term(a), as_term(b), {}, 0, 0, dtype::f32};
}

}  // namespace detail

// ---- pointwise ----------------------------------------------------------------------------------------------------

constexpr auto relu(expression auto const& a) { return detail::unary<op::relu>(a); }
constexpr auto leaky_relu(expression auto const& a, float slope = row_of(op::leaky_relu).alpha) {
  return detail::unary<op::leaky_relu>(a, slope);
}
constexpr auto elu(expression auto const& a, float alpha = row_of(op::elu).alpha) {
  return detail::unary<op::elu>(a, alpha);
}
/// min(max(a, low), high); low <= high is checked by compile().
constexpr auto clip(expression auto const& a, float low, float high) {
  return detail::unary<op::clip>(a, low, high);
}
constexpr auto relu6(expression auto const& a) { return detail::unary<op::clip>(a, 0.0F, 6.0F); }
constexpr auto abs(expression auto const& a) { return detail::unary<op::abs>(a); }
constexpr auto sqrt(expression auto const& a) { return detail::unary<op::sqrt>(a); }
constexpr auto square(expression auto const& a) { return detail::unary<op::square>(a); }
constexpr auto exp(expression auto const& a) { return detail::unary<op::exp>(a); }
constexpr auto log(expression auto const& a) { return detail::unary<op::log>(a); }
constexpr auto tanh(expression auto const& a) { return detail::unary<op::tanh>(a); }
constexpr auto sigmoid(expression auto const& a) { return detail::unary<op::sigmoid>(a); }
constexpr auto gelu_tanh(expression auto const& a) { return detail::unary<op::gelu_tanh>(a); }
constexpr auto gelu_erf(expression auto const& a) { return detail::unary<op::gelu_erf>(a); }
constexpr auto swish(expression auto const& a, float alpha = row_of(op::swish).alpha) {
  return detail::unary<op::swish>(a, alpha);
}
constexpr auto silu(expression auto const& a) { return detail::unary<op::swish>(a); }
constexpr auto hardsigmoid(expression auto const& a, float alpha = row_of(op::hardsigmoid).alpha,
                           float beta = row_of(op::hardsigmoid).beta) {
  return detail::unary<op::hardsigmoid>(a, alpha, beta);
}
constexpr auto hardswish(expression auto const& a, float alpha = row_of(op::hardswish).alpha,
                         float beta = row_of(op::hardswish).beta) {
  return detail::unary<op::hardswish>(a, alpha, beta);
}
constexpr auto mish(expression auto const& a) { return detail::unary<op::mish>(a); }
constexpr auto softplus(expression auto const& a, float alpha = row_of(op::softplus).alpha) {
  return detail::unary<op::softplus>(a, alpha);
}
/// scale * a^exponent
constexpr auto pow(expression auto const& a, float exponent, float scale = row_of(op::pow).alpha) {
  return detail::unary<op::pow>(a, scale, exponent);
}
constexpr auto round(expression auto const& a) { return detail::unary<op::round>(a); }
/// slope * a + intercept, rounded once (an fma).
constexpr auto linear(expression auto const& a, float slope, float intercept) {
  return detail::unary<op::linear>(a, slope, intercept);
}
constexpr auto operator-(expression auto const& a) { return detail::unary<op::neg>(a); }

#define SINTER_DETAIL_OPERATOR(symbol, code) \
  template <class A, class B>                \
  requires detail::terms<A, B>               \
  constexpr auto operator symbol(A const& a, B const& b) { return detail::binary<op::code>(a, b); }
SINTER_DETAIL_OPERATOR(+, add)
SINTER_DETAIL_OPERATOR(-, sub)
SINTER_DETAIL_OPERATOR(*, mul)
SINTER_DETAIL_OPERATOR(/, div)
SINTER_DETAIL_OPERATOR(==, eq)
SINTER_DETAIL_OPERATOR(!=, ne)
SINTER_DETAIL_OPERATOR(<, lt)
SINTER_DETAIL_OPERATOR(<=, le)
SINTER_DETAIL_OPERATOR(>, gt)
SINTER_DETAIL_OPERATOR(>=, ge)
#undef SINTER_DETAIL_OPERATOR

template <class A, class B>
requires detail::terms<A, B>
constexpr auto(min)(A const& a, B const& b) { return detail::binary<op::min>(a, b); }
template <class A, class B>
requires detail::terms<A, B>
constexpr auto(max)(A const& a, B const& b) { return detail::binary<op::max>(a, b); }
/// a > 0 ? a : slope * a, with the slope from an operand.
template <class A, class B>
requires detail::terms<A, B>
constexpr auto prelu(A const& a, B const& slope) { return detail::binary<op::prelu>(a, slope); }

template <class C, class A, class B>
requires(expression<C>&& detail::term<A>&& detail::term<B>)
    /// condition != 0 ? a : b
    constexpr auto select(C const& condition, A const& a, B const& b) {
  return pointwise<op::select, detail::term_type<C>, detail::term_type<A>, detail::term_type<B>>{
      detail::as_term(condition), detail::as_term(a), detail::as_term(b), 0, 0, dtype::f32};
}
/// a * b + c, rounded once.
template <class A, class B, class C>
requires(detail::term<A>&& detail::term<B>&& detail::term<C> &&
         (expression<A> || expression<B>)) constexpr auto fma(A const& a, B const& b, C const& c) {
  return pointwise<op::fma, detail::term_type<A>, detail::term_type<B>, detail::term_type<C>>{
      detail::as_term(a), detail::as_term(b), detail::as_term(c), 0, 0, dtype::f32};
}
/// A rounding point: the value rounded to a floating dtype, nearest even.
template <dtype To>
constexpr auto cast(expression auto const& a) {
  static_assert(is_floating(To), "sinter: cast<> rounds to f32, bf16 or f16");
  using A = detail::term_type<std::remove_cvref_t<decltype(a)>>;
  return pointwise<op::cast, A>{detail::as_term(a), {}, {}, 0, 0, To};
}

// ---- contractions -------------------------------------------------------------------------------------------------

/// The last two axes exchanged, as an operand of matmul.
template <expression E>
constexpr transposed_node<E> transposed(E const& e) {
  return {e};
}

namespace detail {
template <class T>
struct strip_transposed {
  static constexpr bool value = false;
  static constexpr T const& get(T const& t) { return t; }
  using type = T;
};
template <class E>
struct strip_transposed<transposed_node<E>> {
  static constexpr bool value = true;
  static constexpr E const& get(transposed_node<E> const& t) { return t.inner; }
  using type = E;
};
}  // namespace detail

/// ...,M,K by ...,K,N to ...,M,N; batch axes broadcast by numpy's rule. Either operand may be transposed().
template <expression A, expression B>
constexpr auto matmul(A const& a, B const& b) {
  using SA = detail::strip_transposed<A>;
  using SB = detail::strip_transposed<B>;
  contraction_attrs attrs;
  attrs.transposed_src = SA::value;
  attrs.transposed_weight = SB::value;
  return contraction<op::matmul, typename SA::type, typename SB::type, SA::value, SB::value>{
      SA::get(a), SB::get(b), attrs};
}

/// One number for each spatial axis: 2, or {2, 1} for H,W, or {2, 1, 1} for D,H,W.
struct spatial {
  int axes[3];
  int given;
  constexpr spatial(int all) : axes{all, all, all}, given(1) {}  // NOLINT: implicit on purpose
  constexpr spatial(int first, int second) : axes{first, second, 0}, given(2) {}
  constexpr spatial(int first, int second, int third) : axes{first, second, third}, given(3) {}
};

struct conv_options {
  spatial stride = 1;
  spatial dilation = 1;      ///< 1: taps are neighbours
  spatial pad = 0;           ///< zeros before the first element (top, left)
  spatial pad_end = as_pad;  ///< zeros after the last one (bottom, right); as pad where not given
  int groups = 1;            ///< depthwise: as many as there are channels
  static constexpr int as_pad = -1;
};

namespace detail {
template <op Code, class X, class W>
constexpr auto convolution(X const& x, W const& w, conv_options const& o) {
  static_assert(
      !strip_transposed<X>::value && !strip_transposed<W>::value,
      "sinter: transposed() stands only directly inside matmul(); bind a permuted view instead");
  constexpr int rank = spatial_rank(Code);
  contraction_attrs attrs;
  spatial const end = o.pad_end.axes[0] == conv_options::as_pad ? o.pad : o.pad_end;
  for (spatial const& s : {o.stride, o.dilation, o.pad, end})
    if (s.given != 1 && s.given != rank) attrs.groups = 0;  // refused by the rule "conv attributes"
  if (attrs.groups != 0) attrs.groups = o.groups;
  for (int i = 0; i < rank; ++i) {
    attrs.stride[i] = o.stride.axes[i];
    attrs.dilation[i] = o.dilation.axes[i];
    attrs.pad_begin[i] = o.pad.axes[i];
    attrs.pad_end[i] = end.axes[i];
  }
  return contraction<Code, X, W>{x, w, attrs};
}
}  // namespace detail

/// N,W,C by O,W,I to N,W',O.
template <expression X, expression W>
constexpr auto conv1d(X const& x, W const& w, conv_options const& o = {}) {
  return detail::convolution<op::conv1d>(x, w, o);
}
/// N,H,W,C by O,H,W,I to N,H',W',O; I = C / groups. `conv2d(x, w, {.stride = 2, .pad = 1})`.
template <expression X, expression W>
constexpr auto conv2d(X const& x, W const& w, conv_options const& o = {}) {
  return detail::convolution<op::conv2d>(x, w, o);
}
/// N,D,H,W,C by O,D,H,W,I to N,D',H',W',O.
template <expression X, expression W>
constexpr auto conv3d(X const& x, W const& w, conv_options const& o = {}) {
  return detail::convolution<op::conv3d>(x, w, o);
}

// ---- structure ----------------------------------------------------------------------------------------------------

/// An own epilogue: `map(e, [](auto v) { return v * sinter::sigmoid(1.702f * v); })`. The lambda is called once, with
/// a symbolic value, and its result becomes ordinary steps; no rounding point lies inside.
template <expression E, class F>
constexpr auto map(E const& e, F const& f) {
  auto const body = detail::as_term(f(hole<F, 0>{}));
  return map_node<F, std::remove_const_t<decltype(body)>, E>{body, e};
}
template <expression E, expression G, class F>
constexpr auto map(E const& e, G const& g, F const& f) {
  auto const body = detail::as_term(f(hole<F, 0>{}, hole<F, 1>{}));
  return map_node<F, std::remove_const_t<decltype(body)>, E, G>{body, e, g};
}

namespace detail {
template <class T>
inline constexpr bool is_definition = false;
template <class N, class E>
inline constexpr bool is_definition<definition<N, E>> = true;

template <class... Ts, std::size_t... Index>
constexpr auto make_scope(std::tuple<Ts...> const& all, std::index_sequence<Index...>) {
  using Result = std::tuple_element_t<sizeof...(Ts) - 1, std::tuple<Ts...>>;
  static_assert((is_definition<std::tuple_element_t<Index, std::tuple<Ts...>>> && ...),
                "sinter: define() takes definitions (h = expr) and then one expression");
  return scope<Result, std::tuple_element_t<Index, std::tuple<Ts...>>...>{
      std::get<sizeof...(Ts) - 1>(all), std::get<Index>(all)...};
}
}  // namespace detail

/// `define(h = relu(conv2d(x, w1)), g = ..., conv2d(h, w2) + h)`: named values in order, then the result. The form for
/// deep networks: each name is defined once, so the type stays small.
template <class... Ts>
constexpr auto define(Ts const&... all) {
  return detail::make_scope(std::tuple<Ts...>(all...),
                            std::make_index_sequence<sizeof...(Ts) - 1>{});
}

/// `outputs(out = y, "stats"_out = s)`: several values stored under their names. May be the last argument of define().
template <class... Names, class... Es>
constexpr auto outputs(definition<Names, Es> const&... defs) {
  return output_list<definition<Names, Es>...>(defs...);
}
}  // namespace sinter::inline SINTER_ABI
