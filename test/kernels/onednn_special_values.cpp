// The column `strict` of the table in backend/onednn_postops.hpp, measured: a row that claims to agree under strict
// numerics does so for NaN, infinities, zeros of both signs, tiny and huge values, in full vectors and in tails.
#include "onednn_support.hpp"

using namespace sinter_test;

namespace {

constexpr float inf = std::numeric_limits<float>::infinity();
constexpr float nan = std::numeric_limits<float>::quiet_NaN();
constexpr float special[] = {nan,    inf,    -inf,    0.0F, -0.0F, 1e-30F, -1e-30F, 1e30F,
                             -1e30F, 100.0F, -100.0F, 1.0F, -1.0F, 0.5F,   -2.5F,   2.5F};

struct measured {
  std::vector<float> a, b, out;
};

/// f(a) or f(a, b) for all special a (and b) as the last post-op of a product that is exactly a.
measured run(step const& s, bool convolution, extent rows) {
  measured m;
  bool const two = row_of(s.code).arity == 2;
  for (float a : special)
    for (float b : special) {
      if (!two && m.a.size() == std::size(special)) break;
      m.a.push_back(a);
      m.b.push_back(b);
    }
  extent const n = static_cast<extent>(m.a.size());
  // The product of ones is 1; a vector makes it a, whatever a is: 1 * a.
  chain c = parse_chain(convolution ? "conv1d(x, w) | mul a:vector | add b:vector"
                                    : "matmul(x, w) | mul a:vector | add b:vector")
                .value();
  c.steps[2].code = s.code;
  c.steps[2].alpha = s.alpha;
  c.steps[2].beta = s.beta;
  if (!two) {
    c.steps[2].args[1] = {};
    c.operands.resize(3);
  }
  std::vector<operand_spec> specs;
  if (convolution)
    specs = {dense_desc(dtype::f32, {1, rows, 1}), dense_desc(dtype::f32, {n, 1, 1})};
  else
    specs = {dense_desc(dtype::f32, {rows, 1}), dense_desc(dtype::f32, {1, n})};
  problem p = make_problem(c, specs, {}, numerics::strict).value();
  auto const k = onednn_backend().build(p).value();
  std::vector<float> const ones(static_cast<std::size_t>(n > rows ? n : rows), 1.0F);
  auto const packed = k->pack(1, view(ones.data(), p.operands[1].dims)).value();
  m.out.resize(static_cast<std::size_t>(rows * n));
  buffer scratch(k->scratch_bytes());
  call_args args;
  args.operands[0] = ones.data();
  args.operands[1] = packed.data();
  args.operands[2] = m.a.data();
  args.operands[3] = m.b.data();
  args.outputs[0] = m.out.data();
  args.scratch = scratch.data();
  auto const call = k->make_invocation().value();
  call->repoint(args);
  REQUIRE(call->run() == code::ok);
  return m;
}

bool same(float given, double wanted) {
  auto const w = static_cast<float>(wanted);
  if (std::isnan(w)) return std::isnan(given);
  if (std::isinf(w)) return given == w;
  if (w == 0) return given == 0 && std::signbit(given) == std::signbit(w);
  // Below 2^-126 a result may be flushed; 32 u is what docs/precision.md promises of pow, the least exact row here.
  return std::abs(static_cast<double>(given) - wanted) <=
         32 * 0x1p-24 * std::abs(wanted) + 0x1p-126;
}

}  // namespace

TEST_CASE("rows that agree under strict numerics give Sinter's answers for special values") {
  struct variant {
    op code;
    float alpha, beta;
  };
  std::vector<variant> variants;
  for (op_row const& row : op_table)
    if (row.kind == op_class::unary || row.kind == op_class::binary)
      variants.push_back({row.code, row.alpha, row.beta});
  for (float slope : {-0.5F, 2.0F}) variants.push_back({op::leaky_relu, slope, 0});
  for (auto [a, b] : {std::pair{1.0F, 2.0F},
                      {3.0F, 1.0F},
                      {3.0F, 0.0F},
                      {3.0F, -1.0F},
                      {1.0F, 3.0F},
                      {1.0F, 1.7F}})
    variants.push_back({op::pow, a, b});
  for (auto [a, b] : {std::pair{0.0F, 1.0F}, {2.0F, 1.0F}, {-1.0F, -0.0F}})
    variants.push_back({op::linear, a, b});

  int said = 0;
  for (variant const& v : variants) {
    step s;
    s.code = v.code;
    s.alpha = v.alpha;
    s.beta = v.beta;
    onednn::post_op_row const& row = onednn::post_op_row_of(v.code);
    if (row.as == onednn::form::none || !onednn::agrees_under_strict(s, row.alg)) continue;
    for (bool convolution : {false, true})
      for (extent rows : {1, 5}) {
        measured const m = run(s, convolution, rows);
        ++said;
        for (std::size_t i = 0; i < m.out.size(); ++i) {
          double const a = m.a[i % m.a.size()], b = m.b[i % m.a.size()];
          double wanted = 0;
          visit_pointwise(s.code, [&]<op Code>() {
            wanted = meaning<Code>(a, b, 0.0, double{s.alpha}, double{s.beta});
          });
          CHECK_MESSAGE(same(m.out[i], wanted), name_of(s.code)
                                                    << "(" << a << ", " << b << ") is " << m.out[i]
                                                    << ", wanted " << wanted << " with " << s.alpha
                                                    << ", " << s.beta);
        }
      }
  }
  CHECK(said > 60);
}

TEST_CASE("under strict numerics steps that do not agree are split off, with the reason") {
  for (std::string_view name : {"relu", "clip(0, 6)", "exp", "gelu_erf", "swish", "max 0"}) {
    problem const p = problem_of("matmul(x, w) | add b:vector | " + std::string(name),
                                 {{5, 6}, {6, 16}}, {}, numerics::strict);
    check_right(p);
    std::vector<stage_note> const stages = stages_of(p);
    REQUIRE(stages.size() == 2);
    CHECK(stages[0].what == "matmul | add");
    CHECK(stages[1].why.ends_with(
        "under strict numerics oneDNN's answer for NaN, an infinity or a zero is not Sinter's"));
  }
}
