// A first chain: a linear layer with bias and activation, compiled once, called often.
#include <cstdio>
#include <sinter/sinter.hpp>
#include <vector>

// Operands have names and roles. Nothing is computed here: the expression is a constant.
constexpr auto x = sinter::tensor<"x">;  // activations, M x K
constexpr auto w = sinter::weight<"w">;  // constant, K x N: packed once
constexpr auto b = sinter::vector<"b">;  // one value for each of the N columns

constexpr auto layer = sinter::relu(sinter::matmul(x, w) + b);

// The plan is a constant too: bias and relu ride along with the matmul, and the build breaks if they do not.
static_assert(sinter::partition(layer).group_count() == 1);

int main() {
  std::vector<float> const input{1,  2,  3,  //
                                 -1, -2, -3};
  std::vector<float> const weights{1, 0,  //
                                   0, 1,  //
                                   1, -1};
  std::vector<float> const bias{0.5F, 10};
  std::vector<float> output(4);

  // Extents are said to compile(); the machine code is chosen or generated here.
  auto kernel = sinter::compile<sinter::f32>(layer, x.dims(2, 3), w.dims(3, 2));

  // Weights are brought into the kernel's own layout, outside of the hot call.
  auto packed = kernel.pack(w = weights);

  // A call names every operand. Whatever does not fit is refused with a sentence, before anything is written.
  kernel(x = input, packed, b = bias, sinter::out = output);
  std::printf("%g %g\n%g %g\n", output[0], output[1], output[2], output[3]);

  // A bound call is validated once; what is left in the loop is one indirect call.
  auto call = kernel.bind(x = input, packed, b = bias, sinter::out = output);
  for (int i = 0; i < 1000; ++i) call();
  std::printf("groups: %d\n", kernel.group_count());
}
