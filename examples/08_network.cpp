// A network: many blocks in one program with one arena. Batch norms are folded; concat and flatten cost nothing.
#include <cstdio>
#include <map>
#include <sinter/network.hpp>
#include <string>
#include <string_view>
#include <vector>

constexpr auto x = sinter::tensor<"x">;
constexpr auto r = sinter::tensor<"r">;
constexpr auto w = sinter::weight<"w">;
constexpr auto b = sinter::vector<"b">;

// Blocks are ordinary expressions, each one fused kernel, used as often as wanted.
constexpr auto conv3 = sinter::relu(sinter::conv2d(x, w, {.pad = 1}) + b);
constexpr auto conv1 = sinter::relu(sinter::conv2d(x, w) + b);
constexpr auto residual = sinter::relu(sinter::conv2d(x, w, {.pad = 1}) + b + r);
constexpr auto linear = sinter::matmul(x, w) + b;
static_assert(sinter::partition(residual).group_count() == 1);

// Constants by name. A real one is a reader of safetensors (examples/support/safetensors.hpp).
struct weights {
  std::map<std::string, std::vector<float>, std::less<>> data;
  std::map<std::string, sinter::shape, std::less<>> dims;

  void add(std::string const& name, sinter::shape const& d, float value) {
    dims[name] = d;
    data[name].assign(static_cast<std::size_t>(sinter::element_count(d)), value);
  }
  void conv(std::string const& name, sinter::extent out, sinter::extent in, sinter::extent k,
            float value) {
    add(name + ".weight", {out, in, k, k}, value);  // O,I,H,W
    add(name + ".bias", {out}, 0.5F);
  }
  sinter::result<sinter::tensor_view> operator()(std::string_view name) const {
    auto const it = data.find(name);
    if (it == data.end()) return sinter::failure{sinter::code::bad_argument, "no such weight"};
    return sinter::tensor_view(sinter::view(it->second.data(), dims.find(name)->second));
  }
};

int main() {
  weights file;
  file.conv("stem", 8, 3, 3, 0.125F);
  for (char const* name : {"bn.weight", "bn.running_var"}) file.add(name, {8}, 4);
  for (char const* name : {"bn.bias", "bn.running_mean"}) file.add(name, {8}, 0);
  file.conv("left", 8, 8, 1, 0.25F);
  file.conv("right", 8, 8, 3, 0.0625F);
  file.add("fc.weight", {10, 6 * 6 * 16}, 0.0625F);  // [out, in]
  file.add("fc.bias", {10}, 1);

  // Nothing is compiled before build(). The first thing that does not fit is remembered, and build() says it.
  sinter::network_builder net(
      sinter::f32, file, {.on_fallback = sinter::policy::allow, .on_split = sinter::policy::allow});
  auto const image = net.input("image", {1, 6, 6, 3});
  auto const first = net.fold_batch_norm("stem", "bn", 0);
  auto const stem = net.add("stem", conv3, x = image, w = first.weight, b = first.bias);
  auto const left = net.add("left", conv1, x = stem, w = net.weight("left.weight").oihw(),
                            b = net.vector("left.bias"));
  auto const right = net.add("right", residual, x = stem, w = net.weight("right.weight").oihw(),
                             b = net.vector("right.bias"), r = stem);
  auto const both = net.flatten(net.concat({left, right}));
  auto const scores = net.add("fc", linear, x = both, w = net.weight("fc.weight").transposed(),
                              b = net.vector("fc.bias"));
  sinter::network const model = net.build(scores).value();

  std::vector<float> const pixels(6 * 6 * 3, 1);
  std::vector<float> out(10);
  model(sinter::view(pixels.data(), {1, 6, 6, 3}), sinter::view(out.data(), {1, 10}));
  std::printf("score %g, kernels %d, copies %d\n", out[0], model.kernel_count(),
              model.copy_count());
  std::printf("one arena is smaller than all values: %s\n",
              model.arena_bytes() <= model.intermediate_bytes() ? "yes" : "no");

  net = sinter::network_builder(sinter::f32, file);
  auto const wrong = net.input("image", {1, 6, 6, 4});
  auto const bad = net.add("stem", conv3, x = wrong, w = net.weight("stem.weight").oihw(),
                           b = net.vector("stem.bias"));
  std::printf("%s\n", net.build(bad).error().message.c_str());
}
