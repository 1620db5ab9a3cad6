// Autocast: one table says which op runs in bf16 and which in f32, over a whole network.
#include <cmath>
#include <cstdio>
#include <sinter/network.hpp>
#include <string_view>
#include <vector>

constexpr auto x = sinter::tensor<"x">;
constexpr auto w = sinter::weight<"w">;
constexpr auto b = sinter::vector<"b">;

// Two blocks. The second ends in a softmax, which reads what the product stored.
constexpr auto hidden = sinter::gelu_tanh(sinter::matmul(x, w) + b);
constexpr auto shares = sinter::softmax(sinter::matmul(x, w) + b);

constexpr sinter::extent rows = 4, width = 64, classes = 8;

struct parameters {
  std::vector<float> w1, b1, w2, b2;

  // Where weights come from is a function: a name in, a view out.
  sinter::result<sinter::tensor_view> operator()(std::string_view name) const {
    if (name == "w1") return sinter::tensor_view(sinter::view(w1.data(), {width, width}));
    if (name == "b1") return sinter::tensor_view(sinter::view(b1.data(), {width}));
    if (name == "w2") return sinter::tensor_view(sinter::view(w2.data(), {width, classes}));
    if (name == "b2") return sinter::tensor_view(sinter::view(b2.data(), {classes}));
    return sinter::failure{sinter::code::bad_argument, "no such weight"};
  }
};

// `how` is a precision for everything, or a table of autocast.
template <class How>
std::vector<float> run(How const& how, parameters const& p, std::vector<float> const& input) {
  sinter::network_builder net(
      how, p, {.on_fallback = sinter::policy::allow, .on_split = sinter::policy::allow});
  auto const in = net.input("in", {rows, width}, sinter::dtype::f32);
  auto const h = net.add("hidden", hidden, x = in, w = net.weight("w1"), b = net.vector("b1"));
  auto const y = net.add("shares", shares, x = h, w = net.weight("w2"), b = net.vector("b2"));
  sinter::network const model = net.build(y).value();

  std::vector<float> out(rows * classes);
  if (model.describe("out").value().type == sinter::dtype::f32) {
    model(sinter::view(input.data(), {rows, width}), sinter::view(out.data(), {rows, classes}));
    return out;
  }
  std::vector<sinter::bfloat16> narrow(out.size());
  model(sinter::view(input.data(), {rows, width}), sinter::view(narrow.data(), {rows, classes}));
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = sinter::to_float(narrow[i]);
  return out;
}

int main() {
  auto const waves = [](sinter::extent count, float scale) {
    std::vector<float> v(static_cast<std::size_t>(count));
    for (std::size_t i = 0; i < v.size(); ++i)
      v[i] = scale * std::sin(static_cast<float>(i) * 0.7F);
    return v;
  };
  parameters const p{waves(width * width, 0.2F), waves(width, 0.1F), waves(width * classes, 0.2F),
                     waves(classes, 0.1F)};
  std::vector<float> const input = waves(rows * width, 1);

  std::vector<float> const exact = run(sinter::f32, p, input),
                           cast = run(sinter::autocast, p, input);
  float worst = 0;
  for (std::size_t i = 0; i < exact.size(); ++i)
    worst = std::fmax(worst, std::fabs(cast[i] - exact[i]));
  std::printf("autocast differs from f32: %s\n", worst > 0 ? "yes" : "no");
  std::printf("by less than 0.02: %s\n", worst < 0.02F ? "yes" : "no");
}
