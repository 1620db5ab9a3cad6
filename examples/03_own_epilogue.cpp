// Epilogues of one's own: a generic lambda becomes steps of the chain, not a call for each element.
#include <cmath>
#include <cstdio>
#include <sinter/sinter.hpp>
#include <vector>

constexpr auto x = sinter::tensor<"x">;
constexpr auto w = sinter::weight<"w">;
constexpr auto gate = sinter::tensor<"gate">;
constexpr auto limit = sinter::scalar<"limit">;

// Called once, at compile time, with a symbolic value. The same lambda runs on plain floats below.
constexpr auto quick_gelu = [](auto v) { return v * sinter::sigmoid(1.702F * v); };
constexpr auto layer = sinter::map(sinter::matmul(x, w), quick_gelu);
static_assert(sinter::partition(layer).group_count() == 1);
static_assert(sinter::partition(layer).group(0).steps.size() == 4);  // matmul, mul, sigmoid, mul

// Two arguments, a select, and a scalar that each call gives anew.
constexpr auto gated = sinter::map(sinter::matmul(x, w), gate, [](auto v, auto g) {
  return sinter::select(g > 0, sinter::min(v * g, limit), 0);
});

int main() {
  std::vector<float> const input{-2, -1, 0, 1, 2, 3}, weights{1, 0, 0, 1}, gates{1, 2, 3, -1, 0, 1};
  std::vector<float> output(6);
  // What oneDNN's post-ops cannot say is split off, and explain() says so; here that is no reason for a warning.
  sinter::options const options{.on_fallback = sinter::policy::allow,
                                .on_split = sinter::policy::allow};

  auto activate = sinter::compile<sinter::f32>(layer, x.dims(3, 2), w.dims(2, 2), options);
  auto packed = activate.pack(w = weights);
  activate(x = input, packed, sinter::out = output);
  bool close = true;
  for (std::size_t i = 0; i < 6; ++i) {
    float const v = input[i], expected = v / (1 + std::exp(-1.702F * v));
    close = close && std::fabs(output[i] - expected) <= 1e-6F;
  }
  std::printf("quick_gelu is right: %s\n", close ? "yes" : "no");

  auto select = sinter::compile<sinter::f32>(gated, x.dims(3, 2), w.dims(2, 2), options);
  float const most = 1.5F;
  select(x = input, select.pack(w = weights), gate = gates, limit = most, sinter::out = output);
  for (float const v : output) std::printf("%g\n", v);
}
