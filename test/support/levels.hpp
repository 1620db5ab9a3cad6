// The levels of instructions that generated code is tested on, and a problem from a chain's text.
#pragma once

#include <doctest/doctest.h>

#include <optional>
#include <string>
#include <vector>

#include <sinter/backend/jit_tiles.hpp>
#include <sinter/isa/detect.hpp>
#include <sinter/plan/parse.hpp>

namespace sinter_test {
using namespace sinter;

/// Where a program tests one level alone (emulator/emulated_main.cpp).
inline std::optional<isa> only_level;

/// Those with kernels that this CPU has, the lowest first; a problem's max_isa forces one.
inline std::vector<isa> jit_levels() {
  if (only_level) return {*only_level};
  std::vector<isa> found;
  for (isa level : {isa::avx2, isa::avx512, isa::avx512_bf16})
    if (runs(detected_isa(), level)) found.push_back(level);
  return found;
}

/// How the name of generated code for a problem begins: what has no tiles to multiply is computed in vectors.
inline std::string implementation_prefix(problem const& p, isa level) {
  jit::tile_facts facts;
  bool const vectors = level == isa::amx && (p.chain.anchor() < 0 || !jit::tile_facts_of(p, facts));
  return "jit:" + std::string(name_of(vectors ? isa::avx512_bf16 : level)) + ":";
}

/// A problem from a chain's text and the extents of its first operands; empty ones follow.
inline problem problem_from(std::string const& text, std::vector<shape> const& dims,
                            std::vector<strides> const& layouts = {},
                            std::vector<strides> const& output_strides = {}, int in_place = -1) {
  chain const c = parse_chain(text).value();
  std::vector<operand_spec> specs(c.operands.size());
  for (std::size_t i = 0; i < dims.size(); ++i) {
    if (dims[i].empty()) continue;
    specs[i] = is_dynamic(dims[i]) ? tensor_desc{c.operands[static_cast<int>(i)].type, dims[i], {}}
                                   : dense_desc(c.operands[static_cast<int>(i)].type, dims[i]);
    if (i < layouts.size() && !layouts[i].empty()) specs[i]->strides = layouts[i];
  }
  auto p = make_problem(c, specs, output_strides, numerics::strict, in_place);
  if (!p.ok()) FAIL(p.error().message);
  return p.value();
}

}  // namespace sinter_test
