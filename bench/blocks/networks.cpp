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
    bottleneck("resnet50.bottleneck", 28, 512, 128, 512),
    inverted_residual("mobilenet_v2.inverted_residual", 56, 24, 144, 24),
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
