// Runs a problem on a backend with every tensor at a guard page and compares with the oracle.
//
//   check_options o{.seed = 7, .where = placement::end, .values = pattern::integers};
//   outcome const r = run_problem(backend, problem, o);
//   CHECK_MESSAGE(r.ok(), r.text);       // r.supported says whether the backend took it at all
//
// run_problem() asks supports(), builds, packs (from f32 or the weight's dtype, by the seed), runs
// twice and, where the work is large enough to be cut, a third time in parts, and checks: each output within the bound
// of support/bounded.hpp (integers: exactly, where sums are exact), NaN and infinities where the oracle has them, the
// later runs bit-equal to the first, no byte written outside or in a gap, inputs unchanged. A fault at a guard page ends the
// program. For a kernel that is already built (dynamic extents: one kernel, many shapes) call
// check_kernel(). Random problems: support/random_chain.hpp.
#pragma once

#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include <sinter/backend/reference.hpp>

#include "bounded.hpp"
#include "tensor_memory.hpp"

namespace sinter_test {
using namespace sinter;

struct check_options {
  std::uint64_t seed = 1;
  placement where = placement::end;
  pattern values = pattern::uniform;
  accuracy allowed{};
  bool zero_signs = false;  ///< also compare the sign of zero where the error is 0
};

struct outcome {
  bool supported = true;
  std::string text;       ///< what went wrong, or why the backend refuses
  extent compared = 0;    ///< output elements with a finite bound
  extent unpromised = 0;  ///< output elements for which nothing is promised
  double worst = 0;       ///< largest |backend - oracle| / bound
  bool ok() const { return supported && text.empty(); }
};

namespace detail_check {

inline std::string number(double v) {
  char s[40];
  std::snprintf(s, sizeof s, "%.9g", v);
  return s;
}
inline std::string index_text(shape const& index) {
  std::string s = "[";
  for (int i = 0; i < index.ssize(); ++i) s += (i > 0 ? "," : "") + std::to_string(index[i]);
  return s + "]";
}

/// Does an output depend on step i?
inline bool is_wanted(chain const& c, int i) {
  for (output const& o : c.outputs)
    if (o.value == step_ref(i)) return true;
  for (int j = i + 1; j < c.steps.ssize(); ++j)
    for (value_ref v : c.steps[j].args)
      if (v == step_ref(i) && is_wanted(c, j)) return true;
  return false;
}
/// gelu_tanh of a value that is only stored, as bf16, may take a shorter form: 2^-12 relative.
inline bool may_be_short(chain const& c, output const& o) {
  for (output const& other : c.outputs)
    if (other.value == o.value && other.type != dtype::bf16) return false;
  for (int i = 0; i < c.steps.ssize(); ++i)
    for (value_ref v : c.steps[i].args)
      if (v == o.value && is_wanted(c, i)) return false;
  return o.value.kind == value_kind::step && c.steps[int{o.value.index}].code == op::gelu_tanh;
}

/// Oracle values with their bounds, dense in logical order.
inline std::vector<std::vector<bounded>> expected_outputs(problem const& p,
                                                          void const* const* operands,
                                                          accuracy const& allowed) {
  std::vector<std::vector<bounded>> out(p.chain.outputs.size());
  for (std::size_t o = 0; o < out.size(); ++o)
    out[o].resize(static_cast<std::size_t>(element_count(p.outputs[o].dims)));
  std::vector<bounded> scratch(evaluator<bounded_arithmetic>::scratch_numbers(p.chain));
  bounded_arithmetic::allowed = allowed;
  evaluator<bounded_arithmetic> oracle(p, operands, scratch.data());
  oracle.run(~0U, [&](int o, value_run const& r, bounded const* values) {
    tensor_desc const& d = p.outputs[static_cast<std::size_t>(o)];
    run_place const place = place_of(r, d.dims, dense_strides(d.dims));
    bool const short_form = may_be_short(p.chain, p.chain.outputs[o]);
    for (int j = 0; j < r.count; ++j) {
      bounded v = values[j];
      if (short_form && std::isfinite(v.value)) v.error += 0x1p-12 * std::abs(v.value);
      out[static_cast<std::size_t>(o)][static_cast<std::size_t>(place.offset + j * place.stride)] =
          bounded_arithmetic::rounded_to(d.type, v);
    }
  });
  return out;
}

inline bool matches(double given, bounded const& wanted, bool zero_signs) {
  if (std::isinf(wanted.error)) return true;
  if (std::isnan(wanted.value)) return std::isnan(given);
  if (std::isinf(wanted.value)) return given == wanted.value;
  if (zero_signs && wanted.error == 0 && wanted.value == 0 &&
      std::signbit(given) != std::signbit(wanted.value))
    return false;
  return std::abs(given - wanted.value) <= wanted.error;
}

inline void compare(problem const& p, int o, tensor_memory& memory,
                    std::vector<bounded> const& wanted, check_options const& options,
                    outcome& result) {
  tensor_desc const& d = memory.desc();
  std::size_t n = 0;
  for_each_element(d.dims, d.strides, [&](shape const& index, extent offset) {
    bounded const& w = wanted[n++];
    double const given = load<double>(memory.data(), d.type, offset);
    ++(std::isinf(w.error) ? result.unpromised : result.compared);
    if (std::isfinite(w.value) && w.error > 0 && std::isfinite(w.error))
      result.worst = std::max(result.worst, std::abs(given - w.value) / w.error);
    if (matches(given, w, options.zero_signs) || !result.text.empty()) return;
    result.text = "output '" + std::string(p.chain.outputs[o].name.view()) + "' " +
                  index_text(index) + " is " + number(given) + ", wanted " + number(w.value) +
                  " +- " + number(w.error);
  });
}

}  // namespace detail_check

namespace detail_check {

/// Where the work can be cut, its parts, the last one first, leave the bits of the whole.
inline std::string run_in_parts(invocation& call, call_args const& args,
                                check_options const& options, std::vector<tensor_memory>& out,
                                std::vector<std::vector<std::byte>> const& whole) {
  call.repoint(args);
  int const parts = call.cut(2 + static_cast<int>(options.seed % 7));
  if (parts == 1) return {};
  for (tensor_memory& m : out) m.poison();
  for (int i = parts; i-- > 0;)
    if (call.run_part(i) != code::ok) return "run_part() fails";
  for (std::size_t o = 0; o < out.size(); ++o)
    if (out[o].bytes() != whole[o])
      return "call in " + std::to_string(parts) + " parts: other bits than those of the whole";
  return {};
}

}  // namespace detail_check

/// One call of a kernel. `p` has no dynamic extents; `dynamic`: the kernel was built for a problem
/// that has.
inline outcome check_kernel(kernel const& k, problem const& p, check_options const& options = {},
                            bool dynamic = false) {
  using namespace detail_check;
  outcome r;
  int const operands = p.chain.operands.ssize(), outputs = p.chain.outputs.ssize();
  pattern_source values(options.values, options.seed);
  std::vector<tensor_memory> in, out;
  std::vector<packed_weight> packed(static_cast<std::size_t>(operands));
  std::vector<std::vector<std::byte>> dense(static_cast<std::size_t>(operands));
  call_args args;
  void const* oracle_operands[max_operands] = {};

  for (int i = 0; i < operands; ++i) {
    operand const& o = p.chain.operands[i];
    auto const n = static_cast<std::size_t>(i);
    tensor_desc d = p.operands[n];
    if (o.role == role::weight && options.seed % 2 == 0 && is_floating(d.type)) d.type = dtype::f32;
    in.emplace_back(d, options.where);
    in.back().fill(values, o.role == role::tensor);
    args.operands[i] = oracle_operands[i] = in.back().data();
    if (o.role == role::weight) {
      tensor_view const source{in.back().data(), d.type, d.dims, d.strides, false};
      auto made = k.pack(i, source);
      if (!made.ok()) {
        r.text = "pack: " + made.error().message;
        return r;
      }
      packed[n] = std::move(made.value());
      args.operands[i] = packed[n].data();
      dense[n].resize(in.back().bytes().size());
      copy_dense(dense[n].data(), p.operands[n].type, source);
      oracle_operands[i] = dense[n].data();
    } else if (i == p.in_place) {
      dense[n] = in.back().bytes();
      oracle_operands[i] = dense[n].data();
    }
  }
  for (int o = 0; o < outputs; ++o) {
    out.emplace_back(p.outputs[static_cast<std::size_t>(o)], options.where);
    out.back().poison();
    args.outputs[o] = out.back().data();
  }
  if (p.in_place >= 0) args.outputs[0] = in[static_cast<std::size_t>(p.in_place)].data();

  guard_buffer scratch(round_up(k.scratch_bytes(), buffer_alignment), placement::end);
  args.scratch = scratch.data();
  args.shapes = dynamic ? &p : nullptr;
  auto const wanted = expected_outputs(p, oracle_operands, options.allowed);
  std::vector<std::vector<std::byte>> inputs_before;
  for (tensor_memory const& m : in) inputs_before.push_back(m.bytes());

  auto made = k.make_invocation();
  if (!made.ok()) {
    r.text = "make_invocation: " + made.error().message;
    return r;
  }
  invocation& call = *made.value();
  std::vector<std::vector<std::byte>> first_run;
  for (int run = 0; run < (p.in_place >= 0 ? 1 : 2); ++run) {
    call.repoint(args);
    if (code const c = call.run(); c != code::ok) {
      r.text = "run: code " + std::to_string(static_cast<int>(c));
      return r;
    }
    for (std::size_t o = 0; o < out.size(); ++o) {
      if (run == 0) first_run.push_back(out[o].bytes());
      if (run == 1 && out[o].bytes() != first_run[o])
        r.text = "the second run gives other bits than the first";
    }
  }

  for (int o = 0; o < outputs; ++o) {
    auto const n = static_cast<std::size_t>(o);
    bool const shared = o == 0 && p.in_place >= 0;
    tensor_memory& memory = shared ? in[static_cast<std::size_t>(p.in_place)] : out[n];
    compare(p, o, memory, wanted[n], options, r);
    if (r.text.empty() && !memory.gaps_intact(shared ? 0xff : guard_buffer::canary))
      r.text = "output '" + std::string(p.chain.outputs[o].name.view()) +
               "' was written outside its elements";
  }
  for (int i = 0; i < operands; ++i)
    if (r.text.empty() && i != p.in_place &&
        in[static_cast<std::size_t>(i)].bytes() != inputs_before[static_cast<std::size_t>(i)])
      r.text = "operand '" + std::string(p.chain.operands[i].name.view()) + "' was changed";
  if (r.text.empty() && p.in_place < 0) r.text = run_in_parts(call, args, options, out, first_run);
  if (r.text.empty() && !scratch.intact()) r.text = "scratch was written outside";
  if (!r.text.empty())
    r.text = std::string(k.backend()) + ": " + r.text + " (seed " + std::to_string(options.seed) +
             ", pattern " + std::to_string(static_cast<int>(options.values)) + ", placement " +
             std::to_string(static_cast<int>(options.where)) + ") in " + text(p);
  return r;
}

/// supports(), build(), then check_kernel().
inline outcome run_problem(backend const& b, problem const& p, check_options const& options = {}) {
  if (verdict const v = b.supports(p); !v) return {false, v.reason};
  auto const k = b.build(p);
  if (!k.ok()) return {true, "build: " + k.error().message + " in " + text(p)};
  return check_kernel(**k, p, options);
}

}  // namespace sinter_test
