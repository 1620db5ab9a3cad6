// blocks/networks: several contractions one after another, as networks have them. Sinter compiles each block to one
// program; the others call their kernels in turn. Values between chains are stored in the dtype of the activations.
#include "blocks.hpp"

namespace sinter_bench {
namespace {

block const network_blocks[] = {
    {"resnet18.residual",
     "conv2d(x, w1, pad=1) | add b1:vector | relu -> ~h;"
     "conv2d(~h, w2, pad=1) | add b2:vector | add x:tensor | relu",
     {{"x", {1, 56, 56, 64}}, {"w1", {64, 3, 3, 64}}, {"w2", {64, 3, 3, 64}}}},
    {"resnet50.bottleneck",
     "conv2d(x, w1) | add b1:vector | relu -> ~h;"
     "conv2d(~h, w2, pad=1) | add b2:vector | relu -> ~i;"
     "conv2d(~i, w3) | add b3:vector | add x:tensor | relu",
     {{"x", {1, 28, 28, 512}},
      {"w1", {128, 1, 1, 512}},
      {"w2", {128, 3, 3, 128}},
      {"w3", {512, 1, 1, 128}}}},
    {"mobilenet_v2.inverted_residual",
     "conv2d(x, w1) | add b1:vector | clip(0, 6) -> ~h;"
     "conv2d(~h, w2, pad=1, groups=144) | add b2:vector | clip(0, 6) -> ~i;"
     "conv2d(~i, w3) | add b3:vector | add x:tensor",
     {{"x", {1, 56, 56, 24}},
      {"w1", {144, 1, 1, 24}},
      {"w2", {144, 3, 3, 1}},
      {"w3", {24, 1, 1, 144}}}},
    {"bert_base.mlp",
     "matmul(x, w1) | add b1:vector | gelu_tanh -> ~h;"
     "matmul(~h, w2) | add b2:vector | add x:tensor",
     {{"x", {128, 768}}, {"w1", {768, 3072}}, {"w2", {3072, 768}}}},
    // The two products of an attention of 12 heads; the softmax between them is no part of it.
    {"bert_base.attention_products",
     "matmul(q, k:tensor, transposed_weight) | mul 0.125 -> ~p;"
     "matmul(~p, v:tensor)",
     {{"q", {12, 128, 64}}, {"k", {12, 128, 64}}, {"v", {12, 128, 64}}}},
};

void add(selection const& s, std::vector<group>& groups) {
  for (block const& b : network_blocks) add_block(groups, "blocks/networks", b, s);
}

bool const added = add_source(&add);

}  // namespace
}  // namespace sinter_bench
