// A block of a network as the text of its chains, and the groups in which it runs.
#pragma once

#include "support/work.hpp"

namespace sinter_bench {

struct block {
  char const* name;
  char const* chain;
  std::map<std::string, sinter::shape> extents;
};

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
