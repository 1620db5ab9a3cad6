// Every way of this build to compute a problem, and one call of each on plain numbers: for tests whose
// right results are closed forms or plain loops, and come from no code of the library.
//
//   for (engine const& e : engines()) {
//     call_result const r = e.call(p, {xs, ws, bs});       // in logical order, one list per operand
//     if (!r.willing) continue;                            // r.text says why not
//     r.output[i]
//
// Every tensor lies at a guard page; gaps and outputs hold NaN before, so what reads an old output or a
// gap shows. The engines: the reference, oneDNN where it is built, and generated code on each level that
// the CPU has.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <sinter/run/dispatch.hpp>

#include "levels.hpp"
#include "tensor_memory.hpp"

namespace sinter_test {
using namespace sinter;

using numbers = std::vector<double>;

struct call_result {
  bool willing = false;
  std::string text;  ///< the refusal, or what went wrong
  numbers output;    ///< the first one, in logical order
  std::string implementation{};
};

struct engine {
  backend const* from = nullptr;
  std::optional<isa> level;
  std::string name;

  problem capped(problem p) const {
    if (level) p.max_isa = level;
    return p;
  }
  result<std::shared_ptr<kernel const>> build(problem const& p) const {
    problem const mine = capped(p);
    if (verdict const v = from->supports(mine); !v) return failure{code::unsupported, v.reason};
    return from->build(mine);
  }
  inline call_result call(problem const& p, std::vector<numbers> const& operands,
                          placement where = placement::end) const;
};

inline std::vector<engine> engines() {
  std::vector<engine> all;
  for (backend const* b : backends()) {
    if (b->name() != "jit") {
      all.push_back({b, {}, std::string(b->name())});
      continue;
    }
    for (isa level : jit_levels()) all.push_back({b, level, "jit:" + std::string(name_of(level))});
  }
  return all;
}

/// One call of a kernel that was built for `p`, or for a problem of which `p` is one with extents known.
inline call_result call_kernel(kernel const& k, problem const& p,
                               std::vector<numbers> const& operands,
                               placement where = placement::end, bool dynamic = false) {
  call_result r{true, {}, {}, k.stages().front().implementation};
  call_args args;
  std::vector<tensor_memory> memory;
  std::vector<packed_weight> packed(operands.size());
  for (std::size_t i = 0; i < operands.size(); ++i) {
    tensor_desc const& d = p.operands[i];
    memory.emplace_back(d, where);
    memory.back().fill(operands[i]);
    args.operands[i] = memory.back().data();
    if (p.chain.operands[static_cast<int>(i)].role != role::weight) continue;
    auto made =
        k.pack(static_cast<int>(i), {memory.back().data(), d.type, d.dims, d.strides, false});
    if (!made) return {true, "pack: " + made.error().message, {}, r.implementation};
    packed[i] = std::move(*made);
    args.operands[i] = packed[i].data();
  }
  tensor_memory out(p.outputs[0], where);
  out.fill(numbers(static_cast<std::size_t>(element_count(p.outputs[0].dims)),
                   std::numeric_limits<double>::quiet_NaN()));
  tensor_memory& result = p.in_place >= 0 ? memory[static_cast<std::size_t>(p.in_place)] : out;
  args.outputs[0] = result.data();
  guard_buffer scratch(round_up(k.scratch_bytes(), buffer_alignment), placement::end);
  args.scratch = scratch.data();
  args.shapes = dynamic ? &p : nullptr;
  auto const call = k.make_invocation();
  if (!call) return {true, "make_invocation: " + call.error().message, {}, r.implementation};
  (*call)->repoint(args);
  if ((*call)->run() != code::ok) r.text = "run() failed";
  r.output = result.numbers();
  if (!result.gaps_intact(0xff)) r.text = "the output was written outside its elements";
  return r;
}

inline call_result engine::call(problem const& p, std::vector<numbers> const& operands,
                                placement where) const {
  auto const k = build(p);
  if (!k) return {k.error().what != code::unsupported, k.error().message, {}};
  return call_kernel(**k, capped(p), operands, where);
}

/// f(n) at the n-th of `count` elements.
template <class F>
numbers counted_numbers(extent count, F&& f) {
  numbers v(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < v.size(); ++i) v[i] = f(static_cast<extent>(i));
  return v;
}

}  // namespace sinter_test
