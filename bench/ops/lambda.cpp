// ops/lambda: an epilogue that a user wrote as a lambda against the built-in step that computes the same.
//
// A lambda's steps round one by one, as they are written; gelu_tanh spelt out is found and computed as the op
// (jit/epilogue_spelt.hpp).
#include <sinter/expr/ops.hpp>
#include <sinter/plan/partition.hpp>
#include <sinter/plan/text.hpp>

#include "support/work.hpp"

namespace sinter_bench {
namespace {

constexpr auto x = sinter::tensor<"x">;
constexpr auto w = sinter::weight<"w">;
constexpr auto b = sinter::vector<"b">;
constexpr auto product = sinter::matmul(x, w) + b;

constexpr auto swish = sinter::partition(
    sinter::map(product, [](auto v) { return v * sinter::sigmoid(1.702F * v); }), sinter::f32);
constexpr auto gelu =
    sinter::partition(sinter::map(product,
                                  [](auto v) {
                                    auto const cube = v * v * v;
                                    auto const inner = 0.797884561F * (v + 0.044715F * cube);
                                    return 0.5F * v * (1.0F + sinter::tanh(inner));
                                  }),
                      sinter::f32);
constexpr auto relu = sinter::partition(
    sinter::map(product, [](auto v) { return sinter::max(v, 0.0F); }), sinter::f32);

struct pair {
  char const* name;
  std::string lambda, built_in;
};

std::vector<pair> pairs() {
  std::string const start = "matmul(x, w) | add b:vector | ";
  auto const text = [](sinter::chain const& c) { return std::string(sinter::text(c).view()); };
  return {{"swish", text(swish.group(0)), start + "swish(1.702)"},
          {"gelu_tanh", text(gelu.group(0)), start + "gelu_tanh"},
          {"relu", text(relu.group(0)), start + "relu"}};
}

/// As fast as the built-in, within a twentieth.
constexpr double most_part = 0.05;

line_up both(work const& built_in, work const& lambda) {
  return line_up_of(built_in, [&](line_up_maker& l, std::shared_ptr<workload> const& load) {
    l.join("built_in", sinter_call("built_in", load, "jit", fusion::fused), fusion::fused);
    auto const own = workload::make(lambda);
    if (!own.ok()) return;
    l.join("lambda", *own, sinter_call("lambda", *own, "jit", fusion::fused), fusion::fused);
  });
}

void add(selection const& s, std::vector<group>& groups) {
  if (s.quick) return;
  for (pair const& p : pairs())
    for (int size : {64, 256})
      for (std::string const precision : {"f32", "bf16"}) {
        group g;
        std::string const extent = std::to_string(size);
        g.name = std::string("ops/lambda/") + p.name + "/" + extent + "x" + extent + "x" + extent +
                 "/" + precision;
        g.table = "ops/lambda " + precision;
        std::map<std::string, sinter::shape> const of = {{"x", {size, size}}, {"w", {size, size}}};
        work const first{p.built_in + " [" + precision + "]", of};
        work const second{p.lambda + " [" + precision + "]", of};
        g.prepare = [first, second] { return both(first, second); };
        g.promises = {{"lambda", 0, most_part}};
        groups.push_back(std::move(g));
      }
}

bool const added = add_source(&add);

}  // namespace
}  // namespace sinter_bench
