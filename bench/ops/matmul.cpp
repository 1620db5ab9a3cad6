// ops/matmul: products with bias and gelu_tanh, on every backend, against oneDNN's fused primitive.
//
//   small   every M, N, K of 1, 4, 16, 32: calls whose cost is mostly not arithmetic
//   square  64 to 1024
//   column  one column: a matrix times a vector, and dot products
//   low     few rows, which weights of 64 to 1024 squared meet
//   model   rows of shapes/gemm_shapes.csv
#include <set>

#include "support/shapes.hpp"
#include "support/work.hpp"

namespace sinter_bench {
namespace {

/// Nanoseconds of a bound call of 1x1x1.
constexpr double most_of_a_bound_call = 60;

std::string size_text(int m, int n, int k) {
  return std::to_string(m) + "x" + std::to_string(n) + "x" + std::to_string(k);
}

void add_product(std::vector<group>& groups, std::string const& kind, std::string const& label,
                 int m, int n, int k, std::string const& steps, selection const& s) {
  for (std::string const precision : {"f32", "bf16"}) {
    group g;
    g.name = "ops/matmul/" + kind + "/" + label + size_text(m, n, k) + "/" + precision;
    g.table = "ops/matmul/" + kind + " " + precision;
    work const w{"matmul(x, w)" + steps + " [" + precision + "]", {{"x", {m, k}}, {"w", {k, n}}}};
    field f;
    f.issue_bound = kind == "square" && m <= 128;
    f.steps = f.peers =
        kind != "column" && kind != "low" && (kind != "small" || (m == n && n == k));
    if (m == 1 && n == 1 && k == 1) {
      g.promises = {{"jit", most_of_a_bound_call, 0, true}};
      g.repetitions = 31;
    }
    add_everyone(groups, std::move(g), w, s, f, kind == "model");
  }
}

void add(selection const& s, std::vector<group>& groups) {
  std::string const bias_gelu = " | add b:vector | gelu_tanh", bias = " | add b:vector";
  std::vector<int> const small = s.quick ? std::vector<int>{1, 16} : std::vector<int>{1, 4, 16, 32};
  for (int m : small)
    for (int n : small)
      for (int k : small) add_product(groups, "small", "", m, n, k, bias_gelu, s);
  for (int size : {64, 128, 256, 512, 1024}) {
    if (s.quick && size > 256) continue;
    add_product(groups, "square", "", size, size, size, bias_gelu, s);
    add_product(groups, "square_bias", "", size, size, size, bias, s);
  }
  for (int m : {1, 16, 128, 1024})
    for (int k : {64, 768, 4096})
      if (!s.quick || k == 768) add_product(groups, "column", "", m, 1, k, bias, s);
  for (int m : {1, 2, 4, 8, 16, 32})
    for (int size : {64, 512, 768, 1024})
      if (!s.quick || size == 512) add_product(groups, "low", "", m, size, size, bias, s);
  // Shapes that several models or layers have are measured once, under the first one's name.
  std::set<std::string> seen;
  for (shape_row const& row : read_shapes("gemm_shapes.csv")) {
    if (row.text("kind") != "linear") continue;
    int const m = row.number("m"), n = row.number("n"), k = row.number("k");
    std::string const& model = row.text("model");
    bool const usual = (model == "bert_base" || model == "llama3.2_1b") &&
                       (m == 1 || m == 16 || m == 128) && n < 32000;
    if (!s.all && !usual) continue;
    if (s.quick && (model != "bert_base" || row.text("layer") != "ffn_up")) continue;
    if (!seen.insert(size_text(m, n, k)).second) continue;
    add_product(groups, "model", model + "." + row.text("layer") + "/", m, n, k, bias_gelu, s);
  }
}

bool const added = add_source(&add);

}  // namespace
}  // namespace sinter_bench
