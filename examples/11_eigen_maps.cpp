// Eigen's matrices and maps, row-major and column-major, as operands, weights and outputs.
#include <Eigen/Dense>
#include <cstdio>
#include <sinter/sinter.hpp>

constexpr auto x = sinter::tensor<"x">;
constexpr auto w = sinter::weight<"w">;
constexpr auto b = sinter::vector<"b">;
constexpr auto layer = sinter::relu(sinter::matmul(x, w) + b);

using row_major = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

int main() {
  row_major const input = row_major::Random(5, 8);
  Eigen::MatrixXf const weights =
      Eigen::MatrixXf::Random(8, 3);  // column-major: packed all the same
  Eigen::RowVectorXf const bias = Eigen::RowVectorXf::Random(3);

  auto kernel = sinter::compile<sinter::f32>(layer, x.dims(5, 8), w.dims(8, 3));
  auto packed = kernel.pack(w = weights);

  row_major result(5, 3);
  kernel(x = input, packed, b = sinter::view(bias.data(), {3}), sinter::out = result);
  row_major const expected = ((input * weights).rowwise() + bias).cwiseMax(0.0F);
  std::printf("as Eigen computes it: %s\n", result.isApprox(expected, 1e-5F) ? "yes" : "no");

  // A block of a bigger matrix is a view with strides; compile() takes them from it.
  row_major wide = row_major::Constant(5, 20, -1);
  auto block = wide.block(0, 4, 5, 8);
  block = input;
  sinter::options const quiet{.on_fallback = sinter::policy::allow,
                              .on_split = sinter::policy::allow};
  auto strided = sinter::compile<sinter::f32>(layer, x.like(block), w.dims(8, 3), quiet);
  row_major second(5, 3);
  strided(x = block, strided.pack(w = weights), b = sinter::view(bias.data(), {3}),
          sinter::out = second);
  std::printf("from a block: %s\n", second == result ? "the same" : "DIFFERENT");

  // A column-major result, written where it lies.
  Eigen::MatrixXf columns(5, 3);
  auto turned = sinter::compile<sinter::f32>(layer, x.dims(5, 8), w.dims(8, 3),
                                             sinter::out.like(columns), quiet);
  turned(x = input, turned.pack(w = weights), b = sinter::view(bias.data(), {3}),
         sinter::out = columns);
  std::printf("column-major: %s\n", columns.isApprox(expected, 1e-5F) ? "right" : "WRONG");
}
