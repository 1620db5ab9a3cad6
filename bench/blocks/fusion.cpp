// blocks/fusion: one fused kernel against the same steps one after another, in blocks of real networks.
//
// The step-by-step side is what a library without fusion runs: the contraction with its bias, and then one pass over
// memory for each step. It is there twice, as raw oneDNN primitives and as a Sinter program of as many groups.
#include "support/work.hpp"

namespace sinter_bench {
namespace {

struct block {
  char const* name;
  char const* chain;
  std::map<std::string, sinter::shape> extents;
};

std::vector<block> blocks() {
  return {
      {"resnet50.layer1.conv2",
       "conv2d(x, w, pad=1) | add b:vector | relu",
       {{"x", {1, 56, 56, 64}}, {"w", {64, 3, 3, 64}}}},
      {"resnet50.layer1.conv3",
       "conv2d(x, w) | add b:vector | add r:tensor | relu",
       {{"x", {1, 56, 56, 64}}, {"w", {256, 1, 1, 64}}, {"r", {1, 56, 56, 256}}}},
      {"mobilenet_v2.depthwise",
       "conv2d(x, w, pad=1, groups=144) | add b:vector | clip(0, 6)",
       {{"x", {1, 56, 56, 144}}, {"w", {144, 3, 3, 1}}}},
      {"bert_base.ffn_up",
       "matmul(x, w) | add b:vector | gelu_tanh",
       {{"x", {128, 768}}, {"w", {768, 3072}}}},
      {"bert_base.gelu_residual",
       "matmul(x, w) | add b:vector | gelu_tanh | add r:tensor",
       {{"x", {128, 768}}, {"w", {768, 768}}, {"r", {128, 768}}}},
      {"mlp.64", "matmul(x, w) | add b:vector | gelu_tanh", {{"x", {64, 64}}, {"w", {64, 64}}}},
  };
}

line_up fused_and_not(work const& w, selection const& s) {
  auto load = workload::make(w);
  if (!load.ok()) {
    line_up none;
    none.absent.push_back({"everyone", load.error().message});
    return none;
  }
  line_up_maker l(*load);
  // The fused primitive stands first, since its result is the least rounded one.
  auto const both = [&](std::string const& name, auto const& make) {
    for (fusion f : {fusion::fused, fusion::step_by_step}) {
      std::string const full = name + (f == fusion::fused ? "_fused" : "_steps");
      l.join(full, make(full, f), f);
    }
  };
  both("raw", [&](std::string const& name, fusion f) { return raw_onednn(name, *load, f); });
  for (std::string const& b : backends_of(s))
    both(b, [&](std::string const& name, fusion f) { return sinter_call(name, *load, b, f); });
  return l.take();
}

void add(selection const& s, std::vector<group>& groups) {
  for (block const& b : blocks()) {
    for (std::string const precision : {"f32", "bf16"}) {
      group g;
      g.name = std::string("blocks/fusion/") + b.name + "/" + precision;
      g.table = "blocks/fusion " + precision;
      work const w{std::string(b.chain) + " [" + precision + "]", b.extents};
      g.prepare = [w, s] { return fused_and_not(w, s); };
      groups.push_back(std::move(g));
    }
  }
}

bool const added = add_source(&add);

}  // namespace
}  // namespace sinter_bench
