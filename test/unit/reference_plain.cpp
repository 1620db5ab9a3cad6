// The evaluator against loops written straight from the definitions, and the portable backend and
// the pass on random chains.
#include <doctest/doctest.h>

#include <random>

#include <sinter/plan/resolve.hpp>
#include <sinter/reference/pass.hpp>

#include "problem_text.hpp"
#include "support/check_backend.hpp"
#include "support/random_chain.hpp"

using namespace sinter_test;

namespace {

// One element of a tensor under the problem's strides.
double element_at(tensor_desc const& d, void const* data, std::initializer_list<extent> index) {
  extent offset = 0;
  int axis = 0;
  for (extent i : index) offset += i * d.strides[axis++];
  return load<double>(data, d.type, offset);
}

struct filled_problem {
  problem p;
  std::vector<tensor_memory> in, out;
  call_args args;
};
// Integers small enough that every sum is exact.
filled_problem fill(problem const& p, std::uint64_t seed) {
  filled_problem f{p, {}, {}, {}};
  pattern_source values(pattern::integers, seed);
  for (int i = 0; i < p.chain.operands.ssize(); ++i) {
    f.in.emplace_back(p.operands[static_cast<std::size_t>(i)], placement::end);
    f.in.back().fill(values, true);
    f.args.operands[i] = f.in.back().data();
  }
  f.out.emplace_back(p.outputs[0], placement::end);
  f.out.back().poison();
  f.args.outputs[0] = f.out.back().data();
  std::vector<double> scratch(evaluate_scratch_bytes(p.chain) / sizeof(double));
  evaluate(p, f.args.operands, f.args.outputs, scratch.data());
  return f;
}

double batched_element(tensor_desc const& d, void const* data, shape const& batch, extent row,
                       extent column) {
  extent offset = 0;
  int const rank = d.dims.ssize(), skipped = batch.ssize() - (rank - 2);
  for (int i = 0; i < rank - 2; ++i)
    offset += (d.dims[i] == 1 ? 0 : batch[i + skipped]) * d.strides[i];
  offset += row * d.strides[rank - 2] + column * d.strides[rank - 1];
  return load<double>(data, d.type, offset);
}

}  // namespace

TEST_CASE("random matmuls against three loops") {
  random_options o;
  o.conv = o.pointwise = o.branches = false;
  o.max_steps = 0;
  o.max_extent = 40;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    filled_problem f = fill(make_random_case(seed, o).p, seed);
    problem const& p = f.p;
    INFO(text(p));
    contraction_attrs const& a = p.chain.contractions[0];
    tensor_desc const &x = p.operands[0], &w = p.operands[1], &y = p.outputs[0];
    extent const depth = x.dims[x.dims.ssize() - (a.transposed_src ? 2 : 1)];
    int wrong = 0;
    for_each_element(y.dims, y.strides, [&](shape const& index, extent offset) {
      shape batch = index;
      batch.resize(index.size() - 2);
      extent const m = index[index.ssize() - 2], n = index[index.ssize() - 1];
      double sum = 0;
      for (extent k = 0; k < depth; ++k)
        sum += batched_element(x, f.args.operands[0], batch, a.transposed_src ? k : m,
                               a.transposed_src ? m : k) *
               batched_element(w, f.args.operands[1], batch, a.transposed_weight ? n : k,
                               a.transposed_weight ? k : n);
      if (load<double>(f.args.outputs[0], y.type, offset) != rounded(y.type, sum)) ++wrong;
    });
    CHECK(wrong == 0);
  }
}

TEST_CASE("random convolutions against seven loops") {
  random_options o;
  o.matmul = o.pointwise = o.branches = false;
  o.max_steps = 0;
  int two_axes = 0;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    problem const generated = make_random_case(seed, o).p;
    if (generated.chain.steps[0].code != op::conv2d) continue;
    ++two_axes;
    filled_problem f = fill(generated, seed);
    problem const& p = f.p;
    INFO(text(p));
    contraction_attrs const& a = p.chain.contractions[0];
    tensor_desc const &x = p.operands[0], &w = p.operands[1], &y = p.outputs[0];
    extent const inputs = w.dims[3], outputs = w.dims[0] / a.groups;
    int wrong = 0;
    for (extent n = 0; n < y.dims[0]; ++n)
      for (extent oh = 0; oh < y.dims[1]; ++oh)
        for (extent ow = 0; ow < y.dims[2]; ++ow)
          for (extent oc = 0; oc < y.dims[3]; ++oc) {
            double sum = 0;
            for (extent kh = 0; kh < w.dims[1]; ++kh)
              for (extent kw = 0; kw < w.dims[2]; ++kw)
                for (extent c = 0; c < inputs; ++c) {
                  extent const h = oh * a.stride[0] - a.pad_begin[0] + kh * a.dilation[0];
                  extent const v = ow * a.stride[1] - a.pad_begin[1] + kw * a.dilation[1];
                  if (h < 0 || h >= x.dims[1] || v < 0 || v >= x.dims[2]) continue;
                  sum += element_at(x, f.args.operands[0], {n, h, v, oc / outputs * inputs + c}) *
                         element_at(w, f.args.operands[1], {oc, kh, kw, c});
                }
            if (element_at(y, f.args.outputs[0], {n, oh, ow, oc}) != rounded(y.type, sum)) ++wrong;
          }
    CHECK(wrong == 0);
  }
  CHECK(two_axes > 50);
}

TEST_CASE("runs longer than a block") {
  // 700 columns and 700 products: each more than two runs of 256, the last one ragged.
  problem const p =
      problem_of("matmul(x, w) | add b:vector | relu", {dims({2, 700}), dims({700, 700}), nothing})
          .value();
  filled_problem f = fill(p, 3);
  int wrong = 0;
  for (extent m = 0; m < 2; ++m)
    for (extent n = 0; n < 700; ++n) {
      double sum = element_at(p.operands[2], f.args.operands[2], {n});
      for (extent k = 0; k < 700; ++k)
        sum += element_at(p.operands[0], f.args.operands[0], {m, k}) *
               element_at(p.operands[1], f.args.operands[1], {k, n});
      if (element_at(p.outputs[0], f.args.outputs[0], {m, n}) != std::max(sum, 0.0)) ++wrong;
    }
  CHECK(wrong == 0);
}

TEST_CASE("the portable backend on random chains, each tensor at a guard page") {
  reference_backend const b;
  extent compared = 0, unpromised = 0;
  for (std::uint64_t seed = 0; seed < 600; ++seed) {
    check_options o{
        .seed = seed, .where = all_placements[seed % 3], .values = all_patterns[seed % 5]};
    o.zero_signs = true;
    outcome const r = run_problem(b, make_random_case(seed).p, o);
    CHECK_MESSAGE(r.ok(), r.text);
    compared += r.compared;
    unpromised += r.unpromised;
  }
  CHECK(compared > 100000);
  CHECK(unpromised < compared / 20);  // a check that promises nothing would be no check
}

namespace {

// Everything in float, sums included: real f32 arithmetic to hold the bounds of support/bounded.hpp
// against.
class float_kernel final : public kernel {
 public:
  explicit float_kernel(problem const& p) : reference_(std::make_shared<reference_kernel>(p)) {}
  std::string_view backend() const noexcept override { return "float"; }
  std::size_t scratch_bytes() const noexcept override {
    return pass_scratch_bytes(reference_->described().chain);
  }
  std::vector<stage_note> stages() const override { return {}; }
  std::string layout_key(int operand) const override { return reference_->layout_key(operand); }
  result<packed_weight> pack(int operand, tensor_view const& source) const override {
    return reference_->pack(operand, source);
  }
  result<std::unique_ptr<invocation>> make_invocation() const override {
    return std::unique_ptr<invocation>(std::make_unique<call>(reference_->described()));
  }

 private:
  class call final : public invocation {
   public:
    explicit call(problem const& p) noexcept : invocation(&execute), p_(p) {}
    void repoint(call_args const& args) noexcept override { args_ = args; }

   private:
    static code execute(invocation& base) noexcept {
      auto& self = static_cast<call&>(base);
      run_pass(self.p_, {}, self.args_.operands, self.args_.outputs, self.args_.scratch);
      return code::ok;
    }
    problem const& p_;
    call_args args_;
  };
  std::shared_ptr<reference_kernel> reference_;
};

}  // namespace

TEST_CASE("float arithmetic stays within the derived bounds") {
  double worst = 0;
  for (std::uint64_t seed = 0; seed < 1500; ++seed) {
    check_options o{
        .seed = seed, .where = all_placements[seed % 3], .values = all_patterns[seed % 5]};
    o.zero_signs = true;
    problem const p = make_random_case(seed).p;
    outcome const r = check_kernel(float_kernel(p), p, o);
    CHECK_MESSAGE(r.ok(), r.text);
    worst = std::max(worst, r.worst);
  }
  CHECK(worst > 0.05);  // the bounds are not so wide that anything fits
}

TEST_CASE("random chains with reductions: the portable backend, and float within the bounds") {
  extent compared = 0, unpromised = 0;
  double worst = 0;
  int reductions = 0;
  for (std::uint64_t seed = 0; seed < 1500; ++seed) {
    random_options with;
    with.reductions = true;
    with.conv = seed % 2 == 0;
    if (seed % 50 == 0) with.max_columns = 700;  // rows of more than one run
    with.max_steps = 8;
    check_options o{
        .seed = seed, .where = all_placements[seed % 3], .values = all_patterns[seed % 5]};
    o.zero_signs = true;
    problem const p = make_random_case(seed, with).p;
    for (step const& s : p.chain.steps) reductions += is_reduction(s.code) ? 1 : 0;
    outcome const portable = run_problem(reference_backend(), p, o);
    CHECK_MESSAGE(portable.ok(), portable.text);
    outcome const floats = check_kernel(float_kernel(p), p, o);
    CHECK_MESSAGE(floats.ok(), floats.text);
    compared += floats.compared;
    unpromised += floats.unpromised;
    worst = std::max(worst, floats.worst);
  }
  CHECK(reductions > 400);
  CHECK(unpromised < compared / 10);
  CHECK(worst > 0.05);
}

TEST_CASE("random chains with poolings: the portable backend, and float within the bounds") {
  extent compared = 0, unpromised = 0;
  double worst = 0;
  int poolings = 0, behind = 0;
  for (std::uint64_t seed = 0; seed < 1000; ++seed) {
    random_options with;
    with.pools = true;
    with.matmul = false;
    with.max_extent = 12;
    check_options o{
        .seed = seed, .where = all_placements[seed % 3], .values = all_patterns[seed % 5]};
    o.zero_signs = true;
    problem const p = make_random_case(seed, with).p;
    poolings += p.chain.poolings.ssize();
    behind += p.chain.anchor() >= 0 ? p.chain.poolings.ssize() : 0;
    outcome const portable = run_problem(reference_backend(), p, o);
    CHECK_MESSAGE(portable.ok(), portable.text);
    outcome const floats = check_kernel(float_kernel(p), p, o);
    CHECK_MESSAGE(floats.ok(), floats.text);
    compared += floats.compared;
    unpromised += floats.unpromised;
    worst = std::max(worst, floats.worst);
  }
  CAPTURE(behind);
  CAPTURE(poolings);
  CHECK((poolings > 150 && behind > 50));
  CHECK(unpromised < compared / 10);
  CHECK(worst > 0.05);
}

TEST_CASE("a pass goes on from the value of any step") {
  random_options o;
  o.branches = false;
  o.precisions.resize(1);  // f32
  int passes = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    problem p = make_random_case(seed, o).p;
    int const steps = p.chain.steps.ssize();
    if (steps < 2) continue;
    INFO(text(p));
    filled_problem f = fill(p, seed);
    // The oracle's value of step `split`, stored in f32, then the pass.
    int const split = static_cast<int>(seed % static_cast<std::uint64_t>(steps - 1));
    problem head = p;
    head.chain.outputs[0].value = step_ref(split);
    head.outputs[0] = dense_desc(dtype::f32, p.domain);
    tensor_memory middle(head.outputs[0], placement::end);
    void* middle_out[] = {middle.data()};
    std::vector<double> scratch(evaluate_scratch_bytes(p.chain) / sizeof(double));
    evaluate(head, f.args.operands, middle_out, scratch.data());

    tensor_memory result(p.outputs[0], placement::end);
    void* outputs[] = {result.data()};
    given_value const given[] = {{split, middle.data(), head.outputs[0]}};
    std::vector<float> pass_scratch(pass_scratch_bytes(p.chain) / sizeof(float));
    void const* operands[max_operands] = {};
    for (int i = 0; i < p.chain.operands.ssize();
         ++i)  // what the given step needed is not read again
      operands[i] = i < 2 && p.chain.anchor() == 0 ? nullptr : f.args.operands[i];
    run_pass(p, given, operands, outputs, pass_scratch.data());

    // Wanted: the bounds of the rest of the chain, from the value that was stored.
    std::vector<bounded> room(evaluator<bounded_arithmetic>::scratch_numbers(p.chain));
    evaluator<bounded_arithmetic> oracle(p, operands, room.data(), given);
    int wrong = 0;
    oracle.run(1, [&](int, value_run const& r, bounded const* values) {
      run_place const place = place_of(r, p.outputs[0].dims, p.outputs[0].strides);
      for (int j = 0; j < r.count; ++j) {
        double const v =
            load<double>(outputs[0], p.outputs[0].type, place.offset + j * place.stride);
        if (!detail_check::matches(v, bounded_arithmetic::rounded_to(p.outputs[0].type, values[j]),
                                   true))
          ++wrong;
      }
    });
    CHECK(wrong == 0);
    ++passes;
  }
  CHECK(passes > 100);
}

TEST_CASE("only the outputs that are asked for are stored") {
  problem const p = problem_of("add(x:tensor, 1) | mul 2 -> h=%0, out=%1", {dims({3})}).value();
  float const x[] = {1, 2, 3};
  float h[] = {-1, -1, -1}, out[] = {-1, -1, -1};
  void const* operands[] = {x};
  void* outputs[] = {h, out};
  std::vector<float> scratch(pass_scratch_bytes(p.chain) / sizeof(float));
  run_pass(p, {}, operands, outputs, scratch.data(), 1U << 1);
  CHECK((h[0] == -1 && h[2] == -1));
  CHECK((out[0] == 4 && out[1] == 6 && out[2] == 8));
  run_pass(p, {}, operands, outputs, scratch.data(), 1U << 0);
  CHECK((h[0] == 2 && h[1] == 3 && h[2] == 4));
}

TEST_CASE("the portable backend: packing") {
  problem const p =
      problem_of("matmul(x, w) [bf16]", {dims({1, 2}, {}, dtype::bf16), dims({2, 3})}).value();
  auto const k = reference_backend().build(p).value();
  float const values[] = {1, 1 + 0x1p-8F, 1 + 0x1p-7F + 0x1p-8F, -2, 0.1F, 7, 0,
                          0};  // ties to even
  packed_weight const w = k->pack(1, view(values, {2, 3})).value();
  auto const* stored = static_cast<bfloat16 const*>(w.data());
  for (int i = 0; i < 6; ++i) CHECK(stored[i] == to_bfloat16(values[i]));
  CHECK(w.layout_key == k->layout_key(1));
  CHECK(w.layout_key == "reference 2x3 bf16");
  // Any strides: the transposed memory gives the same layout.
  float const across[] = {1, -2, 1 + 0x1p-8F, 0.1F, 1 + 0x1p-7F + 0x1p-8F, 7};
  packed_weight const v = k->pack(1, transposed(view(across, {3, 2}))).value();
  CHECK(std::memcmp(v.data(), w.data(), 12) == 0);
  CHECK(k->pack(1, view(values, {3, 2})).error().message ==
        "sinter: weight 'w' is 3x2; 2x3 is wanted");
  CHECK(k->pack(1, view(static_cast<float const*>(nullptr), {2, 3})).error().message ==
        "sinter: weight 'w' is a null pointer; 6 elements are wanted");
}

TEST_CASE("the portable backend: one kernel for all values of a dynamic extent") {
  problem const p =
      problem_of("matmul(x, w) | add b:vector | relu", {dims({dynamic, 5}), dims({5, 3})}).value();
  auto const k = reference_backend().build(p).value();
  for (extent m : {0, 1, 7, 300}) {
    std::vector<shape> const actual{{m, 5}};
    outcome const r = check_kernel(*k, resolve(p, actual).value(), {}, true);
    CHECK_MESSAGE(r.ok(), r.text);
    CHECK(r.compared == m * 3);
  }
}

TEST_CASE("in place: the operand's memory becomes the output") {
  problem const p =
      problem_of("matmul(x, w) | mul r:tensor",
                 {dims({16, 30}), dims({30, 300}), dims({16, 300}, {310, 1})}, {{310, 1}}, 2)
          .value();
  outcome const r = run_problem(reference_backend(), p, {});
  CHECK_MESSAGE(r.ok(), r.text);
  CHECK(r.compared == 16 * 300);
}
