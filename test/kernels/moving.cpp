// Kernels that are built once for extents of which some are known at the call only, over operands and outputs whose
// elements lie apart: random problems on every engine against the oracle under guard pages.
//
// Which axes move, which strides are given and which follow (plan/layout.hpp), strides of 0 in inputs, calls without an
// element, one call after another with other extents: all at random. Strides of a call are counted here once more.
// SINTER_TEST_SEED and SINTER_TEST_COUNT as in random.cpp.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <vector>

#include <sinter/plan/resolve.hpp>

#include "support/check_backend.hpp"
#include "support/engines.hpp"
#include "support/numbers.hpp"

using namespace sinter_test;

namespace {

/// A tensor some of whose axes move; without extents it follows from others. `layout`: what is said when it is compiled.
struct moving_tensor {
  shape dims;
  strides layout{};

  shape at(shape const& domain) const {
    shape d = dims;
    for (int i = 0; i < d.ssize(); ++i)
      if (d[i] == dynamic) d[i] = domain[i];
    return d;
  }
  /// What is said, and before a moving axis what is behind, without a gap.
  strides layout_at(shape const& now) const {
    strides s = layout.empty() ? dense_strides(now) : layout;
    for (int i = s.ssize() - 2; i >= 0; --i)
      if (s[i] == dynamic) s[i] = s[i + 1] * std::max(now[i + 1], extent{1});
    return s;
  }
};

struct moving_case {
  std::string text;
  std::vector<moving_tensor> operands;  ///< the source first
  moving_tensor out;
  extent kernel = 0, stride = 1, pad = 0;  ///< of a window over axes 1 and 2
  extent columns = 0;

  /// Of values behind the anchor, where the source is so; empty where no window fits.
  shape domain_of(shape const& source) const {
    shape d = source;
    if (columns != dynamic) d.back() = columns;
    for (int i = 1; kernel > 0 && i < 3; ++i) {
      if (d[i] == dynamic) continue;
      if (d[i] + 2 * pad < kernel) return {};
      d[i] = conv_extent(d[i], kernel, stride, 1, pad, pad);
    }
    return d;
  }
  std::vector<operand_spec> specs(chain const& c, shape const& source) const {
    std::vector<operand_spec> list(c.operands.size());
    shape const domain = domain_of(source);
    for (std::size_t i = 0; i < operands.size(); ++i) {
      moving_tensor const& t = operands[i];
      if (t.dims.empty()) continue;
      shape const now = t.at(i == 0 ? source : domain);
      list[i] = tensor_desc{c.operands[static_cast<int>(i)].type, now,
                            is_dynamic(now) ? t.layout : t.layout_at(now)};
    }
    return list;
  }
};

class moving_case_maker {
 public:
  explicit moving_case_maker(std::uint64_t seed) : random_(seed) {}

  moving_case make() {
    constexpr void (moving_case_maker::*kinds[])() = {
        &moving_case_maker::matmul, &moving_case_maker::conv, &moving_case_maker::pool,
        &moving_case_maker::rows, &moving_case_maker::pointwise};
    (this->*kinds[below(5)])();
    add_steps(c_.domain_of(source()));
    constexpr std::string_view precisions[] = {"", " [bf16]", " [f16]",
                                               " [bf16 bf16 f32 f32 f32 f32]"};
    c_.text += precisions[below(4)];
    chain const c = parse_chain(c_.text).value();
    c_.out = laid_out(make_problem(c, c_.specs(c, source())).value().outputs[0].dims, false);
    return c_;
  }
  /// Extents of the source in a call.
  shape next_call() {
    shape now = source();
    for (extent& e : now)
      if (e == dynamic) e = one_in(9) ? 0 : upto(one_in(4) ? 40 : 9);
    return now;
  }

 private:
  std::size_t below(std::size_t n) { return static_cast<std::size_t>(random_() % n); }
  bool one_in(std::size_t n) { return below(n) == 0; }
  extent upto(extent n) { return 1 + static_cast<extent>(below(static_cast<std::size_t>(n))); }
  shape const& source() const { return c_.operands[0].dims; }
  std::string next_name(char const* prefix) const {
    return prefix + std::to_string(c_.operands.size());
  }

  void add_source(shape d, int fixed_axes) {
    for (int i = 0; i + fixed_axes < d.ssize(); ++i)
      if (one_in(2)) d[i] = dynamic;
    c_.columns = d.back();
    add(d);
  }
  void add(shape const& dims) { c_.operands.push_back(laid_out(dims, true)); }
  /// Gaps behind any axis; an input may repeat.
  moving_tensor laid_out(shape const& dims, bool input) {
    moving_tensor t{dims};
    if (one_in(3)) return t;
    t.layout.resize(dims.size(), 1);
    extent span = one_in(12) ? 2 : 1;
    bool follows = false;
    for (int i = dims.ssize() - 1; i >= 0; --i) {
      extent const gap = one_in(2) && i + 1 < dims.ssize() ? static_cast<extent>(below(5)) : 0;
      t.layout[i] = follows ? dynamic : input && one_in(10) ? 0 : span + gap;
      if (!follows && dims[i] != dynamic && t.layout[i] != 0) span = dims[i] * t.layout[i];
      follows = follows || dims[i] == dynamic;
    }
    return t;
  }

  void add_steps(shape const& domain) {
    for (std::size_t i = below(4); i > 0; --i) switch (below(6)) {
        case 0:
          c_.text += " | relu";
          break;
        case 1:
          c_.text += " | gelu_tanh";
          break;
        case 2:
          c_.text += " | add " + next_name("b") + ":vector";
          c_.operands.push_back({});
          break;
        case 3: {
          shape d = domain;
          for (extent& e : d)
            if (one_in(4)) e = 1;
          c_.text += " | mul " + next_name("r") + ":tensor";
          add(d);
          break;
        }
        case 4:
          c_.text += " | add " + next_name("r") + ":tensor";
          add(domain);
          break;
        default:
          c_.text += " | add " + next_name("r") + ":tensor";
          c_.operands.push_back({});
      }
  }
  void matmul() {
    shape d;
    for (std::size_t i = below(3); i > 0; --i) d.push_back(upto(4));
    d.push_back(upto(20));
    d.push_back(upto(40));
    add_source(d, 1);
    c_.columns = one_in(3) ? 1 : upto(40);
    bool const tensor = one_in(3);
    c_.text = std::string("matmul(x, w") + (tensor ? ":tensor)" : ")");
    c_.operands.push_back(laid_out({d.back(), c_.columns}, true));
    if (!tensor) c_.operands.back().layout.clear();
  }
  void conv() {
    extent groups = 1, in = upto(20), out = upto(40);
    if (one_in(2)) {
      constexpr extent widths[] = {1, 2, 4, 8, 5, 16};
      in = out = widths[below(6)];
      groups = upto(in == 1 ? 40 : 12);
    }
    window(upto(3), groups * in);
    c_.pad = static_cast<extent>(below(static_cast<std::size_t>(c_.kernel)));
    c_.columns = groups * out;
    c_.operands.push_back({{c_.columns, c_.kernel, c_.kernel, in}});
    c_.text = detail::join(
        {"conv2d(x, w, stride=", c_.stride, ", pad=", c_.pad, ", groups=", groups, ")"});
  }
  void pool() {
    window(upto(3), upto(40));
    c_.text = detail::join({"relu(x:tensor) | ", one_in(2) ? "max" : "avg",
                            "_pool(kernel=", c_.kernel, ", stride=", c_.stride, ")"});
  }
  void window(extent kernel, extent channels) {
    c_.kernel = kernel;
    c_.stride = upto(2);
    add_source({upto(3), kernel + upto(9), kernel + upto(9), channels}, 1);
  }
  void pointwise() { linear(0); }
  void rows() {
    linear(1);
    constexpr char const* list[] = {" | row_sum", " | row_max", " | let row_mean | sub(%0, %1)"};
    c_.text += list[below(3)];
  }
  void linear(int fixed_axes) {
    shape d;
    for (std::size_t i = below(4); i > 0; --i) d.push_back(upto(9));
    d.push_back(upto(60));
    add_source(d, fixed_axes);
    c_.text = "linear(x:tensor, 1, 0)";
  }

  std::mt19937_64 random_;
  moving_case c_;
};

/// The problem of a call, which is what make_problem() says of all these extents and strides; nothing where no window
/// fits.
std::optional<problem> problem_of_call(problem const& wanted, moving_case const& m,
                                       shape const& source) {
  shape const domain = m.domain_of(source);
  std::vector<shape> dims;
  for (std::size_t i = 0; i < m.operands.size(); ++i)
    dims.push_back(m.operands[i].dims.empty() ? shape{}
                                              : m.operands[i].at(i == 0 ? source : domain));
  auto const call = resolve(wanted, dims);
  if (domain.empty()) {
    CHECK(!call.ok());
    return std::nullopt;
  }
  REQUIRE_MESSAGE(call.ok(), call.error().message);
  strides const out[] = {m.out.layout_at(m.out.at(domain))};
  auto const known = make_problem(wanted.chain, m.specs(wanted.chain, source), out);
  REQUIRE_MESSAGE(known.ok(), known.error().message);
  CHECK_MESSAGE(*call == *known, text(*call), " and ", text(*known));
  return *call;
}

struct tally {
  int built = 0, refused = 0, calls = 0;
};

}  // namespace

TEST_CASE("one kernel for moving extents, whose operands lie apart, on every engine") {
  std::uint64_t const first = number_from("SINTER_TEST_SEED", 40000),
                      count = number_from("SINTER_TEST_COUNT", 400);
  std::map<std::string, tally> all;
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    moving_case_maker maker(seed);
    moving_case const m = maker.make();
    CAPTURE(seed);
    chain const c = parse_chain(m.text).value();
    strides const out[] = {m.out.layout};
    problem const wanted = make_problem(c, m.specs(c, m.operands[0].dims), out).value();
    std::vector<problem> calls;
    for (int i = 0; i < 4; ++i)
      if (auto p = problem_of_call(wanted, m, maker.next_call())) calls.push_back(std::move(*p));
    for (engine const& e : engines()) {
      tally& t = all[e.name];
      auto const k = e.build(wanted);
      if (!k) {
        ++t.refused;
        CHECK_MESSAGE(k.error().message.starts_with("sinter: "), k.error().message);
        continue;
      }
      ++t.built;
      check_options const options{
          seed, all_placements[seed % 3], pattern::uniform, {1, e.name == "onednn" ? 64.0 : 0.0}};
      for (problem const& p : calls) {
        outcome const r = check_kernel(**k, e.capped(p), options, is_dynamic(wanted));
        CHECK_MESSAGE(r.ok(), e.name, ": ", r.text, " built for ", text(wanted));
        ++t.calls;
      }
    }
  }
  for (auto const& [name, t] : all) {
    MESSAGE(name << ": " << t.built << " built, " << t.refused << " refused, " << t.calls
                 << " calls");
    CHECK(t.built > static_cast<int>(count / (name == "onednn" ? 20 : 2)));
  }
  CHECK(all["reference"].refused == 0);
}

TEST_CASE("a last axis that moves is read with its stride, or refused by its name") {
  extent const any = dynamic;
  struct {
    strides x, out;
    std::string_view named;
  } const cases[] = {{{any, 2}, {}, "operand 'x'"}, {{}, {any, 2}, "output 'out'"}};
  for (auto const& c : cases)
    for (engine const& e : engines()) {
      std::vector<operand_spec> const specs{tensor_desc{dtype::f32, {any, any}, c.x}};
      auto const wanted = make_problem(parse_chain("relu(x:tensor)").value(), specs,
                                       array_view<strides const>(&c.out, 1));
      REQUIRE(wanted.ok());
      CHECK(text(*wanted).find(":?x?:f32/?,2") != std::string::npos);
      auto const k = e.build(*wanted);
      CHECK(k.ok() == (e.name == "reference"));
      if (k || e.name == "onednn" || e.name == "jit:avx2") continue;
      CHECK(k.error().message.find(std::string(c.named) +
                                   " has the stride 2 along its last axis") != std::string::npos);
    }
}
