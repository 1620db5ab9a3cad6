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
  line_up l;
  auto load = workload::make(w);
  if (!load.ok()) {
    l.absent.push_back(load.error().message);
    return l;
  }
  l.flops = (*load)->flops();
  l.bytes = (*load)->bytes();
  l.type = (*load)->problem().chain.precision.src;
  auto const join = [&l](sinter::result<std::unique_ptr<contender>> c, std::string const& name) {
    if (c.ok())
      l.contenders.push_back(std::move(*c));
    else
      l.absent.push_back(name + ": " + c.error().message);
  };
  join(raw_onednn("raw_steps", *load, fusion::step_by_step), "raw_steps");
  join(raw_onednn("raw_fused", *load, fusion::fused), "raw_fused");
  for (std::string const& b : backends_of(s)) {
    join(sinter_call(b + "_steps", *load, b, fusion::step_by_step), b + "_steps");
    join(sinter_call(b + "_fused", *load, b, fusion::fused), b + "_fused");
  }
  return l;
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
