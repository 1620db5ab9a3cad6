// ops/generation: how long it takes to generate a kernel, and how much code it is. Every iteration asks for a constant
// that no kernel had, so none comes from the cache.
#include <sinter/jit/process_cache.hpp>
#include <sinter/plan/parse.hpp>
#include <sinter/run/dispatch.hpp>

#include "support/work.hpp"

namespace sinter_bench {
namespace {

/// Nanoseconds of a generation.
constexpr double most_of_a_generation = 1e6;

line_up generate(work const& w) {
  line_up l;
  auto const described = workload::describe(w);
  sinter::backend const* jit = nullptr;
  for (sinter::backend const* b : sinter::backends())
    if (b->name() == "jit") jit = b;
  if (!described.ok() || jit == nullptr) {
    l.absent.push_back(
        {"jit", described.ok() ? "this build has no jit" : described.error().message});
    return l;
  }
  auto p = std::make_shared<sinter::problem>(*described);
  p->numerics = sinter::numerics::strict;
  auto const build = [p, jit] {
    static int number = 0;
    p->chain.steps.back().alpha = 1 + static_cast<float>(++number) * 0x1p-20F;
    return jit->build(*p);
  };
  sinter::jit::process_cache().clear();  // so that none goes while the bytes are counted
  std::size_t const before = sinter::jit::code_memory::process().used().bytes;
  auto const first = build();
  if (!first.ok()) {
    l.absent.push_back({"jit", first.error().message});
    return l;
  }
  std::size_t const bytes = sinter::jit::code_memory::process().used().bytes - before;
  l.contenders.push_back(make_contender("jit", std::to_string(bytes) + " bytes of code", [build] {
    auto made = build();
    benchmark::DoNotOptimize(made);
  }));
  return l;
}

void add(selection const&, std::vector<group>& groups) {
  std::string twelve;
  for (int i = 0; i < 12; ++i) twelve += i % 2 == 0 ? " | gelu_erf" : " | mish";
  using extents = std::map<std::string, sinter::shape>;
  extents const product = {{"x", {11, 50}}, {"w", {50, 50}}};
  extents const image = {{"x", {1, 28, 28, 40}}, {"w", {50, 3, 3, 40}}};
  for (auto const& [name, chain, of] :
       {std::tuple{"matmul_bias_gelu", std::string("matmul(x, w) | add b:vector | gelu_tanh"),
                   product},
        {"matmul_12_steps", "matmul(x, w)" + twelve, product},
        {"conv_bias_relu", std::string("conv2d(x, w, pad=1) | add b:vector | relu"), image},
        {"conv_12_steps", "conv2d(x, w, pad=1)" + twelve, image}})
    for (std::string const precision : {"f32", "bf16"}) {
      group g;
      g.name = std::string("ops/generation/") + name + "/" + precision;
      g.table = "ops/generation " + precision;
      work const w{chain + " | elu(1) [" + precision + "]", of};
      g.prepare = [w] { return generate(w); };
      g.where = memory::none;
      g.promises = {{"jit", most_of_a_generation, 0, true}};
      groups.push_back(std::move(g));
    }
}

bool const added = add_source(&add);

}  // namespace
}  // namespace sinter_bench
