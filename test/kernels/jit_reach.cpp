// Every kernel that is written is reached on some machine, and every rule that chooses decides something: with
// machines made up, nothing is run. Then, on this one, each cap of each triple of dtypes: a right result or a sentence.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <set>
#include <string>
#include <vector>

#include <sinter/backend/jit.hpp>
#include <sinter/run/dispatch.hpp>

#include "support/levels.hpp"
#include "unit/isa_mock.hpp"

using namespace sinter;
using namespace sinter_test;

namespace {

constexpr isa machines[] = {isa::avx2, isa::avx512, isa::avx512_bf16, isa::amx};

/// A chain, and the parts that the names of its code have on those machines; of matmuls the whole name.
struct reached {
  char const* chain;
  char const* precision;
  std::vector<shape> dims;
  std::array<char const*, std::size(machines)> parts;
};
std::vector<reached> table() {
  shape const rows{64, 64}, image{1, 8, 8, 64};
  return {
      {"matmul(x, w)",
       "",
       {rows, {64, 64}},
       {"avx2:f32:6x16", "avx512:f32:8x32", "avx512_bf16:f32:8x32", "avx512_bf16:f32:8x32"}},
      {"matmul(x, w)",
       " [bf16]",
       {rows, {64, 64}},
       {"avx2:bf16:6x16", "avx512:bf16:8x32", "avx512_bf16:bf16:8x32", "amx:bf16:32x32"}},
      {"matmul(x, w)",
       " [bf16]",
       {{1, 64}, {64, 64}},
       {"avx2:bf16:6x16", "avx512:bf16:8x32", "avx512_bf16:bf16:8x32", "avx512_bf16:bf16:8x32"}},
      {"matmul(x, w)",
       " [f16]",
       {rows, {64, 64}},
       {"avx2:f16:6x16", "avx512:f16:8x32", "avx512_bf16:f16:8x32", "avx512_bf16:f16:8x32"}},
      {"matmul(x, w:tensor)",
       "",
       {rows, {64, 64}},
       {"avx2:f32:6x16", "avx512:f32:8x32", "avx512_bf16:f32:8x32", "avx512_bf16:f32:8x32"}},
      {"matmul(x, w)",
       "",
       {rows, {64, 1}},
       {"avx2:f32:column", "avx512:f32:column", "avx512_bf16:f32:column",
        "avx512_bf16:f32:column"}},
      {"matmul(x, w)",
       " [bf16]",
       {{1, 64}, {64, 1}},
       {"avx2:bf16:column", "avx512:bf16:column", "avx512_bf16:bf16:column",
        "avx512_bf16:bf16:column"}},
      {"matmul(x, w)",
       " [f16]",
       {rows, {64, 1}},
       {"avx2:f16:column", "avx512:f16:column", "avx512_bf16:f16:column",
        "avx512_bf16:f16:column"}},
      {"matmul(x, w, transposed_src)",
       "",
       {rows, {64, 1}},
       {"avx2:f32:column:rows", "avx512:f32:column:rows", "avx512_bf16:f32:column:rows",
        "avx512_bf16:f32:column:rows"}},
      {"conv2d(x, w)",
       "",
       {image, {64, 1, 1, 64}},
       {"avx2:f32:*:conv", "avx512:f32:*:conv", "avx512_bf16:f32:*:conv",
        "avx512_bf16:f32:*:conv"}},
      {"conv2d(x, w, pad=1)",
       " [bf16]",
       {image, {64, 3, 3, 64}},
       {"avx2:bf16:*:conv", "avx512:bf16:*:lines", "avx512_bf16:bf16:*:lines", "amx:bf16:*:conv"}},
      {"conv2d(x, w, pad=1)",
       " [f16]",
       {image, {64, 3, 3, 64}},
       {"avx2:f16:*:conv", "avx512:f16:*:conv", "avx512_bf16:f16:*:conv",
        "avx512_bf16:f16:*:conv"}},
      {"conv2d(x, w, pad=1, groups=8)",
       "",
       {image, {64, 3, 3, 8}},
       {"avx2:f32:*:conv", "avx512:f32:*:conv:groups:lanes", "avx512_bf16:f32:*:conv:groups:lanes",
        "avx512_bf16:f32:*:conv:groups:lanes"}},
      {"conv2d(x, w, pad=1, groups=16)",
       "",
       {image, {64, 3, 3, 4}},
       {"avx2:f32:*:conv:groups", "avx512:f32:*:conv:groups", "avx512_bf16:f32:*:conv:groups",
        "avx512_bf16:f32:*:conv:groups"}},
      {"conv2d(x, w, stride=2, pad=3)",
       "",
       {{1, 32, 32, 3}, {64, 7, 7, 3}},
       {"avx2:f32:*:rows", "avx512:f32:*:rows", "avx512_bf16:f32:*:rows",
        "avx512_bf16:f32:*:rows"}},
      {"conv2d(x, w, pad=1, groups=64)",
       "",
       {image, {64, 3, 3, 1}},
       {"avx2:f32:*:depthwise", "avx512:f32:*:depthwise", "avx512_bf16:f32:*:depthwise",
        "avx512_bf16:f32:*:depthwise"}},
      {"conv2d(x, w, pad=1, groups=64)",
       " [bf16]",
       {image, {64, 3, 3, 1}},
       {"avx2:bf16:*:depthwise", "avx512:bf16:*:depthwise", "avx512_bf16:pairs:*:depthwise",
        "avx512_bf16:pairs:*:depthwise"}},
      {"gelu_tanh(x)",
       "",
       {rows},
       {"avx2:rows", "avx512:rows", "avx512_bf16:rows", "avx512_bf16:rows"}},
      {"row_sum(x:tensor)",
       "",
       {rows},
       {"avx2:rows", "avx512:rows", "avx512_bf16:rows", "avx512_bf16:rows"}},
      {"matmul(x, w) | row_max",
       "",
       {rows, {64, 64}},
       {"avx2:f32:*avx2:rows", "avx512:f32:*avx512:rows", "avx512_bf16:f32:*avx512_bf16:rows",
        "avx512_bf16:f32:*avx512_bf16:rows"}},
      {"max_pool(x:tensor, kernel=2)",
       "",
       {image},
       {"avx2:f32:max_pool", "avx512:f32:max_pool", "avx512_bf16:f32:max_pool",
        "avx512_bf16:f32:max_pool"}},
  };
}
problem problem_of(reached const& row) {
  return problem_from(std::string(row.chain) + row.precision, row.dims);
}

/// `pattern`: a name's beginning and, behind a star, what it holds.
bool fits(std::string_view name, std::string_view pattern) {
  std::size_t const star = pattern.find('*');
  if (!name.starts_with("jit:") || !name.substr(4).starts_with(pattern.substr(0, star)))
    return false;
  return star == std::string_view::npos ||
         name.find(pattern.substr(star + 1)) != std::string_view::npos;
}

}  // namespace

TEST_CASE("each kernel is reached on some machine, under its name") {
  jit_backend const jit;
  for (reached const& row : table())
    for (std::size_t i = 0; i < std::size(machines); ++i) {
      mock_cpu const cpu(mock_of(machines[i]));
      cpu_override const machine(cpu);
      auto const built = jit.build(problem_of(row));
      REQUIRE_MESSAGE(built.ok(), row.chain, ": ", built.error().message);
      std::string name;
      for (stage_note const& s : (*built)->stages())
        name += (name.empty() ? "" : " + ") + s.implementation;
      CHECK_MESSAGE(fits(name, row.parts[i]), row.chain, row.precision, " on ",
                    name_of(machines[i]), ": ", name);
    }
}

TEST_CASE("nothing is generated on a machine without vector code") {
  mock_cpu const cpu(mock_of(isa::reference));
  cpu_override const machine(cpu);
  for (reached const& row : table()) {
    verdict const v = jit_backend{}.supports(problem_of(row));
    CHECK_FALSE(v);
    CHECK_MESSAGE(v.reason.find("AVX2") != std::string::npos, v.reason);
  }
}

TEST_CASE(
    "each way to multiply and each rule that chooses the code of a product decides something") {
  std::set<jit::product> products;
  std::set<std::string_view> rules;
  for (isa level : machines)
    for (reached const& row : table()) {
      problem const p = problem_of(row);
      if (p.chain.anchor() < 0 || p.chain.steps[p.chain.anchor()].code != op::matmul ||
          jit::has_reductions(p.chain))
        continue;
      jit::matmul_plan const plan =
          jit::plan_matmul(p, jit::epilogue(p.chain, p.chain.anchor()), level);
      products.insert(plan.shape.kind);
      for (jit::matmul_code_rule const& r : jit::matmul_code_table)
        if (r.kind == plan.code) rules.insert(r.name);
    }
  CHECK(products.size() == std::size(jit::product_table));
  CHECK(rules.size() == std::size(jit::matmul_code_table));
}

TEST_CASE("each rule of dispatch decides something on some machine") {
  std::vector<problem> problems{
      problem_from("matmul(x, w) [u8 s8 s32 f32 f32 f32]", {{4, 4}, {4, 4}}),
      problem_from("conv1d(x, w)", {{1, 8, 16}, {32, 3, 16}}),
      problem_from("conv2d(x, w) | relu", {{1, 56, 56, 64}, {256, 1, 1, 64}}),
      problem_from("conv2d(x, w, groups=8)", {{1, 8, 8, 128}, {128, 3, 3, 16}}),
      problem_from("relu(x) | add r:tensor", {{512, 768}}),
      problem_from("matmul(x, w)", {{1, 64}, {64, 64}}),
      problem_from("matmul(x, w) | relu", {{512, 512}, {512, 512}})};
  for (reached const& row : table()) problems.push_back(problem_of(row));
  std::set<std::string_view> decided;
  for (isa level : {isa::reference, isa::avx2, isa::avx512, isa::avx512_bf16, isa::amx}) {
    mock_cpu const cpu(mock_of(level));
    cpu_override const machine(cpu);
    for (problem p : problems)
      for (numerics n : {numerics::strict, numerics::peer})
        for (int lent : {1, 64}) {
          p.numerics = n;
          decided.insert(rule_for(facts_of(p, lent)).name);
        }
  }
  for (dispatch_rule const& r : dispatch_table)
    CHECK_MESSAGE(decided.count(r.name) == 1, std::string(r.name));
}

namespace {

/// Whole numbers in memory of any dtype.
class numbers {
 public:
  numbers(dtype t, std::size_t count)
      : type_(t), bytes_(count * static_cast<std::size_t>(size_of(t))) {}
  void* data() { return bytes_.data(); }
  void set(std::size_t i, int v) {
    with([&](auto zero) {
      auto const e = converted(v, zero);
      std::memcpy(bytes_.data() + i * sizeof e, &e, sizeof e);
    });
  }

 private:
  static float converted(int v, float) { return static_cast<float>(v); }
  static bfloat16 converted(int v, bfloat16) { return to_bfloat16(static_cast<float>(v)); }
  static float16 converted(int v, float16) { return to_float16(static_cast<float>(v)); }
  template <class Whole>
  static Whole converted(int v, Whole) {
    return static_cast<Whole>(v);
  }
  template <class F>
  void with(F&& f) {
    switch (type_) {
      case dtype::f32:
        return f(float{});
      case dtype::bf16:
        return f(bfloat16{});
      case dtype::f16:
        return f(float16{});
      case dtype::s32:
        return f(std::int32_t{});
      case dtype::s8:
        return f(std::int8_t{});
      case dtype::u8:
        return f(std::uint8_t{});
    }
  }
  dtype type_;
  std::vector<std::byte> bytes_;
};

constexpr std::size_t canary = 64;

/// Runs a product of ones and small whole numbers; the output stands between canaries. False where it is refused.
bool runs_right(backend const& b, problem const& p, std::string const& what) {
  if (verdict const v = b.supports(p); !v) {
    CHECK_MESSAGE(v.reason.starts_with("sinter: "), what, v.reason);
    return false;
  }
  auto const k = b.build(p);
  if (!k.ok()) {
    CHECK_MESSAGE(k.error().message.starts_with("sinter: "), what, k.error().message);
    return false;
  }
  auto const count = [](tensor_desc const& d) {
    return static_cast<std::size_t>(element_count(d.dims));
  };
  numbers x(p.operands[0].type, count(p.operands[0])), w(p.operands[1].type, count(p.operands[1]));
  for (std::size_t i = 0; i < count(p.operands[0]); ++i) x.set(i, 1);
  for (std::size_t i = 0; i < count(p.operands[1]); ++i) w.set(i, 2);
  auto const packed = (*k)->pack(
      1, {w.data(), p.operands[1].type, p.operands[1].dims, p.operands[1].strides, false});
  REQUIRE_MESSAGE(packed.ok(), what);
  std::size_t const n = count(p.outputs[0]),
                    bytes = n * static_cast<std::size_t>(size_of(p.outputs[0].type));
  std::vector<unsigned char> out(bytes + 2 * canary, 0xa5);
  call_args args;
  args.operands[0] = x.data();
  args.operands[1] = packed->data();
  args.outputs[0] = out.data() + canary;
  buffer scratch((*k)->scratch_bytes());
  args.scratch = scratch.data();
  auto const call = (*k)->make_invocation();
  REQUIRE_MESSAGE(call.ok(), what);
  (*call)->repoint(args);
  CHECK_MESSAGE((*call)->run() == code::ok, what);
  extent const terms = p.operands[0].dims.back();
  numbers wanted(p.outputs[0].type, n);
  for (std::size_t i = 0; i < n; ++i) wanted.set(i, static_cast<int>(2 * terms));
  CHECK_MESSAGE(std::memcmp(out.data() + canary, wanted.data(), bytes) == 0, what);
  for (std::size_t i = 0; i < canary; ++i)
    CHECK_MESSAGE((out[i] == 0xa5 && out[canary + bytes + i] == 0xa5), what);
  return true;
}

}  // namespace

TEST_CASE("every cap and every triple of dtypes: a right result within its bounds, or a sentence") {
  int right = 0, refused = 0;
  for (dtype_row const& src : dtype_table)
    for (dtype_row const& weight : dtype_table)
      for (dtype_row const& dst : dtype_table)
        for (auto const& [product, dims] :
             {std::pair{"matmul(x, w)", std::vector<shape>{{5, 13}, {13, 19}}},
              {"matmul(x, w)", std::vector<shape>{{21, 13}, {13, 1}}},
              {"conv2d(x, w)", std::vector<shape>{{1, 3, 4, 13}, {19, 1, 1, 13}}}}) {
          std::string const text = sinter::detail::join(
              {product, " [", src.name, " ", weight.name, " ",
               src.floating && weight.floating ? "f32" : "s32", " f32 f32 ", dst.name, "]"});
          auto const c = parse_chain(text);
          if (!c.ok()) {
            CHECK_MESSAGE(c.error().message.starts_with("sinter: "), c.error().message);
            ++refused;
            continue;
          }
          operand_spec const specs[] = {dense_desc(src.type, dims[0]),
                                        dense_desc(weight.type, dims[1])};
          auto p = make_problem(*c, specs);
          if (!p.ok()) {
            CHECK_MESSAGE(p.error().message.starts_with("sinter: "), p.error().message);
            ++refused;
            continue;
          }
          for (isa cap : {isa::reference, isa::avx2, isa::avx512, isa::avx512_bf16}) {
            p->max_isa = cap;
            for (backend const* b : backends())
              (runs_right(*b, *p,
                          text + " by " + std::string(b->name()) + " at " +
                              std::string(name_of(cap)) + ": ")
                   ? right
                   : refused)++;
          }
        }
  CHECK(right >= 27 * 3 * 4);  // the reference takes all floating ones
  CHECK(refused > 0);
}
