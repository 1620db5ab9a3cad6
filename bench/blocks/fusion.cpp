// blocks/fusion: one fused kernel against the same steps one after another, in layers of real networks.
//
// The step-by-step side is what a library without fusion runs: the contraction with its bias, and then one pass over
// memory for each step. It is there twice, as raw oneDNN primitives and as a Sinter program of as many groups.
#include "blocks.hpp"

namespace sinter_bench {
namespace {

block const layers[] = {
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

void add(selection const& s, std::vector<group>& groups) {
  for (block const& b : layers) add_block(groups, "blocks/fusion", b, s);
}

bool const added = add_source(&add);

}  // namespace
}  // namespace sinter_bench
