// Evaluates a chain given as text on plain lists of numbers: what closed forms are checked with.
#pragma once

#include <doctest/doctest.h>

#include <functional>
#include <string_view>
#include <vector>

#include <sinter/plan/parse.hpp>
#include <sinter/reference/evaluate.hpp>

namespace sinter_test {
using namespace sinter;

/// Values of one operand in the order of memory; strides empty: dense.
struct given_tensor {
  shape dims;
  std::vector<double> values;
  sinter::strides strides{};
};

inline given_tensor filled(shape const& dims, double v) {
  return {dims, std::vector<double>(static_cast<std::size_t>(element_count(dims)), v)};
}
/// f(n) at the n-th element.
inline given_tensor counted(shape const& dims, std::function<double(extent)> const& f) {
  given_tensor t = filled(dims, 0);
  for (std::size_t n = 0; n < t.values.size(); ++n) t.values[n] = f(static_cast<extent>(n));
  return t;
}

/// All outputs, dense.
inline std::vector<std::vector<double>> evaluate_all(std::string_view chain_text,
                                                     std::vector<given_tensor> const& operands) {
  chain const c = parse_chain(chain_text).value();
  REQUIRE(c.operands.size() == operands.size());
  std::vector<operand_spec> specs;
  std::vector<std::vector<std::byte>> memory;
  void const* pointers[max_operands] = {};
  for (int i = 0; i < c.operands.ssize(); ++i) {
    given_tensor const& t = operands[static_cast<std::size_t>(i)];
    dtype const type = c.operands[i].type;
    specs.push_back(tensor_desc{type, t.dims, t.strides});
    memory.emplace_back((t.values.size() + 1) * static_cast<std::size_t>(size_of(type)));
    for (std::size_t n = 0; n < t.values.size(); ++n)
      store(memory.back().data(), type, static_cast<extent>(n), t.values[n]);
    pointers[i] = t.values.empty() ? nullptr : memory.back().data();
  }
  problem const p = make_problem(c, specs).value();
  std::vector<std::vector<std::byte>> stored;
  void* outputs[max_outputs] = {};
  for (int o = 0; o < c.outputs.ssize(); ++o) {
    tensor_desc const& d = p.outputs[static_cast<std::size_t>(o)];
    stored.emplace_back(static_cast<std::size_t>(detail::byte_span(d)));
    outputs[o] = stored.back().empty() ? nullptr : stored.back().data();
  }
  std::vector<double> scratch(evaluate_scratch_bytes(c) / sizeof(double));
  evaluate(p, pointers, outputs, scratch.data());
  std::vector<std::vector<double>> results;
  for (int o = 0; o < c.outputs.ssize(); ++o) {
    tensor_desc const& d = p.outputs[static_cast<std::size_t>(o)];
    results.emplace_back();
    for (extent n = 0; n < element_count(d.dims); ++n)
      results.back().push_back(load<double>(outputs[o], d.type, n));
  }
  return results;
}

inline std::vector<double> evaluate_text(std::string_view chain_text,
                                         std::vector<given_tensor> const& operands) {
  return evaluate_all(chain_text, operands).at(0);
}

}  // namespace sinter_test
