// A block of a network as the text of its chains, and the groups in which it runs.
#pragma once

#include <map>
#include <string>
#include <utility>

#include "support/work.hpp"

namespace sinter_bench {

struct block {
  std::string name, chain;
  std::map<std::string, sinter::shape> extents;
};

/// 1x1 from `in` to `wide` channels, depthwise 3x3, 1x1 to `out`; with a residual where it keeps the extents.
inline block inverted_residual(std::string name, sinter::extent pixels, sinter::extent in,
                               sinter::extent wide, sinter::extent out, int stride = 1) {
  bool const keeps = stride == 1 && in == out;
  return {std::move(name),
          "conv2d(x, w1) | add b1:vector | clip(0, 6) -> ~h;"
          "conv2d(~h, w2, stride=" +
              std::to_string(stride) + ", pad=1, groups=" + std::to_string(wide) +
              ") | add b2:vector | clip(0, 6) -> ~i;"
              "conv2d(~i, w3) | add b3:vector" +
              (keeps ? " | add x:tensor" : ""),
          {{"x", {1, pixels, pixels, in}},
           {"w1", {wide, 1, 1, in}},
           {"w2", {wide, 3, 3, 1}},
           {"w3", {out, 1, 1, wide}}}};
}

/// 1x1 to `narrow` channels, 3x3, 1x1 to `out`; with a residual where it keeps the channels.
inline block bottleneck(std::string name, sinter::extent pixels, sinter::extent in,
                        sinter::extent narrow, sinter::extent out) {
  return {std::move(name),
          std::string("conv2d(x, w1) | add b1:vector | relu -> ~h;"
                      "conv2d(~h, w2, pad=1) | add b2:vector | relu -> ~i;"
                      "conv2d(~i, w3) | add b3:vector") +
              (in == out ? " | add x:tensor | relu" : " | relu"),
          {{"x", {1, pixels, pixels, in}},
           {"w1", {narrow, 1, 1, in}},
           {"w2", {narrow, 3, 3, narrow}},
           {"w3", {out, 1, 1, narrow}}}};
}

/// In f32 and bf16, warm and cold: everyone, fused and step by step.
inline void add_block(std::vector<group>& groups, std::string const& family, block const& b,
                      selection const& s) {
  for (std::string const precision : {"f32", "bf16"}) {
    group g;
    g.name = family + "/" + b.name + "/" + precision;
    g.table = family + " " + precision;
    field f;
    f.steps = f.our_steps = f.peers = true;
    add_everyone(groups, std::move(g), with_precision({b.chain, b.extents}, precision), s, f,
                 !s.quick);
  }
}

}  // namespace sinter_bench
