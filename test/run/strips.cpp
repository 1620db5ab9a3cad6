// Groups in strips: the bits of the same program with strips off, at every level, size, batch and thread count.
//
// Operands and outputs stand against guard pages, and so does a strip's scratch in a case of its own. Numbers are whole
// and small, so that f32 sums are exact and the reference backend gives the same; bits of the rest are compared with
// rounded data, where an order of summation would show.
#include <random>

#include <sinter/run/call_state.hpp>
#include <sinter/run/program_builder.hpp>

#include "../support/guard_buffer.hpp"
#include "../support/levels.hpp"
#include "executors.hpp"
#include "helpers.hpp"

using namespace run_test;
using sinter_test::guard_buffer, sinter_test::placement;

namespace {

struct block {
  std::vector<std::string> groups;
  std::vector<sinter::named_desc> given;
  std::vector<std::string> names, outputs = {"out"};  ///< of operands that are bound, and outputs
};
using bytes = std::vector<std::byte>;

sinter::options in_strips(sinter::strip_policy policy, int rows, sinter::isa level,
                          sinter::executor* executor = nullptr, int threads = 1) {
  sinter::options o = quiet();
  o.backend = "jit";
  o.strips = policy;
  o.strip_rows = rows;
  o.max_isa = level;
  o.executor = executor;
  o.threads = threads;
  return o;
}

/// The same values for a name whatever the program; `whole`: -2 to 2.
void fill(std::byte* to, sinter::tensor_desc const& d, std::string const& name, bool whole) {
  std::mt19937 random(
      static_cast<unsigned>(name.size() * 131 + static_cast<unsigned char>(name[0])));
  for (extent i = 0; i < sinter::element_count(d.dims); ++i) {
    float const v = static_cast<float>(static_cast<int>(random() % 5) - 2) *
                    (whole ? 1.0F : 0.37F + static_cast<float>(random() % 64) / 100);
    if (d.type == sinter::dtype::bf16)
      reinterpret_cast<sinter::bfloat16*>(to)[i] = sinter::to_bfloat16(v);
    else
      reinterpret_cast<float*>(to)[i] = v;
  }
}

/// Operands and outputs of a program at guard pages, one image size after another.
class bound_block {
 public:
  bound_block(program const& p, block const& b, bool whole, extent images) {
    for (sinter::named_desc const& g : b.given)
      if (g.name.view()[0] == 'w') pack_weight(p, g, whole);
    for (std::string const& name : b.names) {
      tensors_.push_back(desc(p, name, images));
      memory_.push_back(room(tensors_.back()));
      fill(memory_.back().data(), tensors_.back(), name, whole);
    }
    for (std::string const& name : b.outputs) {
      results_.push_back(desc(p, name, images));
      written_.push_back(room(results_.back()));
    }
    for (std::size_t i = 0; i < b.names.size(); ++i)
      lists.operands.push_back({b.names[i], view_of(memory_[i], tensors_[i])});
    for (std::size_t i = 0; i < b.outputs.size(); ++i)
      lists.outputs.push_back(
          {b.outputs[i], sinter::output_view{written_[i].data(), results_[i].type, results_[i].dims,
                                             sinter::dense_strides(results_[i].dims), false}});
    for (sinter::packed const& w : packs_) lists.packs.push_back(&w);
  }
  bytes result() const {
    bytes all;
    for (guard_buffer const& w : written_) {
      CHECK(w.intact());
      all.insert(all.end(), w.data(), w.data() + w.size());
    }
    return all;
  }
  call_lists lists;

 private:
  static sinter::tensor_desc desc(program const& p, std::string const& name, extent images) {
    sinter::tensor_desc d = p->describe(name).value();
    if (!d.dims.empty() && d.dims[0] == sinter::dynamic) d.dims[0] = images;
    return d;
  }
  static guard_buffer room(sinter::tensor_desc const& d) {
    std::size_t const size = static_cast<std::size_t>(sinter::size_of(d.type));
    return guard_buffer(static_cast<std::size_t>(sinter::element_count(d.dims)) * size,
                        placement::end, size);
  }
  static sinter::tensor_view view_of(guard_buffer const& m, sinter::tensor_desc const& d) {
    return {m.data(), d.type, d.dims, sinter::dense_strides(d.dims), false};
  }
  void pack_weight(program const& p, sinter::named_desc const& g, bool whole) {
    sinter::tensor_desc d = p->describe(g.name.view()).value();
    std::vector<std::byte> values(static_cast<std::size_t>(sinter::element_count(d.dims) * 4));
    fill(values.data(), d, std::string(g.name.view()), whole);
    packs_.push_back(pack(p, g.name.view(),
                          {values.data(), d.type, d.dims, sinter::dense_strides(d.dims), false}));
  }

  std::vector<sinter::tensor_desc> tensors_, results_;
  std::vector<guard_buffer> memory_, written_;
  std::vector<sinter::packed> packs_;
};

bytes run_block(block const& b, sinter::options const& o, bool whole, extent images = 2,
                bool* joined = nullptr, std::string* text = nullptr) {
  program const p = compile(b.groups, b.given, o);
  if (joined != nullptr) *joined = p->explain().find(" strips of ") != std::string::npos;
  if (text != nullptr) *text = p->explain();
  bound_block bound(p, b, whole, images);
  bound.lists.run(p).check();
  return bound.result();
}

std::string conv(std::string const& x, std::string const& w, std::string const& more = "") {
  return "conv2d(" + x + ", " + w + more + ")";
}

struct sizes {
  extent images = 1, height = 9, width = 10, in = 5, wide = 17, out = 6;
  std::string filter;  ///< attributes of the depthwise convolution but for its groups
  extent kernel = 3;
  bool residual = false;
};

block inverted_residual(sizes const& s, std::string const& type) {
  extent const out = s.residual ? s.in : s.out;
  std::string const depthwise = s.filter + ", groups=" + std::to_string(s.wide);
  return {
      {conv("x", "w1") + " | add b1:vector | clip(0, 6) -> ~h" + type,
       conv("~h", "w2", depthwise) + " | add b2:vector | relu -> ~f" + type,
       conv("~f", "w3") + (s.residual ? " | add b3:vector | add x:tensor" : " | add b3:vector") +
           " -> out" + type},
      {dims("x", {s.images, s.height, s.width, s.in}), dims("w1", {s.wide, 1, 1, s.in}),
       dims("w2", {s.wide, s.kernel, s.kernel, 1}), dims("w3", {out, 1, 1, s.wide})},
      {"x", "b1", "b2", "b3"}};
}
block dense_layer(sizes const& s, std::string const& type) {
  return {{"mul(x, s:vector) | add t:vector | relu -> ~a" + type,
           conv("~a", "w1") + " | add b1:vector | relu -> ~n" + type,
           conv("~n", "w2", ", pad=1") + " -> out" + type},
          {dims("x", {s.images, s.height, s.width, s.in}), dims("w1", {s.wide, 1, 1, s.in}),
           dims("w2", {s.out, 3, 3, s.wide})},
          {"x", "s", "t", "b1"}};
}

bool same(bytes const& a, bytes const& b) { return a == b; }

}  // namespace

TEST_CASE(
    "strips give the bits of whole groups: any size, padding, stride, dilation, batch, strip, "
    "thread count") {
  std::mt19937 random(20240607);
  auto const pick = [&](int low, int high) {
    return static_cast<extent>(low +
                               static_cast<int>(random() % static_cast<unsigned>(high - low + 1)));
  };
  char const* const filters[] = {", pad=1",
                                 ", stride=2, pad=1",
                                 ", stride=2, pad_begin=0x1, pad_end=1x0",
                                 ", pad=2, dilation=2",
                                 ", pad_begin=2x0, pad_end=0x2",
                                 ", stride=3, pad=1"};
  threads_executor threads;
  backwards_executor backwards;
  int joined = 0, all = 0;
  for (sinter::isa level : sinter_test::jit_levels())
    for (int i = 0; i < 24; ++i) {
      sizes s{pick(1, 3),  pick(7, 15), pick(8, 14), pick(3, 20), pick(5, 40),
              pick(3, 20), "",          3,           false};
      s.filter = filters[static_cast<std::size_t>(i) % 6];
      s.residual = s.filter == ", pad=1" && i % 4 < 3;
      std::string const type = i % 2 == 0 ? "" : " [bf16]";
      block const b = i % 5 == 4 ? dense_layer(s, type) : inverted_residual(s, type);
      int const rows = static_cast<int>(pick(1, 5)), count = static_cast<int>(pick(1, 4));
      CAPTURE(b.groups[1]);
      CAPTURE(sinter::to_string(b.given[0].dims));
      CAPTURE(rows);
      bytes const apart = run_block(b, in_strips(sinter::strip_policy::never, 0, level), false);
      sinter::executor* const executor =
          i % 3 == 0 ? static_cast<sinter::executor*>(&backwards) : &threads;
      bool in = false;
      std::string text;
      bytes const together =
          run_block(b, in_strips(sinter::strip_policy::always, rows, level, executor, count), false,
                    2, &in, &text);
      CAPTURE(text);
      CHECK(same(apart, together));
      // Whoever refuses says so.
      CHECK((in || text.find("not in strips with group") != std::string::npos));
      joined += in ? 1 : 0;
      ++all;
    }
  MESSAGE(joined, " of ", all, " in strips");
  CHECK(4 * joined > 3 * all);
}

TEST_CASE("parts that begin inside an image have the same bits: one large image on four workers") {
  sizes const s{1, 64, 56, 24, 144, 24, ", pad=1", 3, true};
  threads_executor threads;
  for (std::string const type : {"", " [bf16]"}) {
    block const b = inverted_residual(s, type);
    sinter::isa const level = sinter_test::jit_levels().back();
    bytes const apart = run_block(b, in_strips(sinter::strip_policy::never, 0, level), false);
    for (int count : {1, 2, 4}) {
      bool in = false;
      CHECK(same(apart,
                 run_block(b, in_strips(sinter::strip_policy::always, 5, level, &threads, count),
                           false, 1, &in)));
      CHECK(in);
    }
  }
}

TEST_CASE("whole numbers in strips are the reference's") {
  sizes const s{2, 11, 9, 6, 20, 7, ", stride=2, pad=1", 3, false};
  for (block const& b : {inverted_residual(s, ""), dense_layer(s, "")}) {
    sinter::options reference = on_reference();
    reference.strips = sinter::strip_policy::always;
    reference.strip_rows = 3;
    std::string text;
    bytes const wanted = run_block(b, reference, true, 2, nullptr, &text);
    CHECK(text.find("whole images only") != std::string::npos);
    for (sinter::isa level : sinter_test::jit_levels())
      CHECK(same(wanted, run_block(b, in_strips(sinter::strip_policy::always, 3, level), true)));
  }
}

TEST_CASE("a batch of unknown size runs in strips by rule, a height of unknown size whole") {
  sizes s{sinter::dynamic, 16, 8, 6, 20, 7, ", pad=1", 3, false};
  sinter::isa const level = sinter_test::jit_levels().back();
  block b = inverted_residual(s, "");
  for (extent images : {0, 1, 3}) {
    bool in = false;
    bytes const apart =
        run_block(b, in_strips(sinter::strip_policy::never, 0, level), false, images);
    CHECK(same(apart, run_block(b, in_strips(sinter::strip_policy::by_rule, 3, level), false,
                                images, &in)));
    CHECK(in);
  }
  b.given[0] = dims("x", {2, sinter::dynamic, 8, 6});
  std::string const text =
      compile(b.groups, b.given, in_strips(sinter::strip_policy::always, 3, level))->explain();
  CHECK(text.find("images N,H,W,C whose extents but for N are known are wanted") !=
        std::string::npos);
}

TEST_CASE("the value between is nowhere whole: the arena is the strips' scratch") {
  sizes const s{3, 28, 28, 8, 96, 8, ", pad=1", 3, false};
  block const b = inverted_residual(s, "");
  sinter::isa const level = sinter_test::jit_levels().back();
  auto const arena = [&](sinter::strip_policy policy) {
    program const p = compile(b.groups, b.given, in_strips(policy, 4, level));
    std::string const text = p->explain();
    std::size_t const at = text.find("arena ");
    return std::stoll(text.substr(at + 6));
  };
  // Apart: both values of three images. In strips: 6 rows of one, 4 of the other.
  CHECK(arena(sinter::strip_policy::never) == 2 * 3 * 28 * 28 * 96 * 4);
  CHECK(arena(sinter::strip_policy::always) == (6 + 4) * 28 * 96 * 4);
}

TEST_CASE("a strip stays within its scratch") {
  sinter::isa const level = sinter_test::jit_levels().back();
  for (std::string const type : {"", " [bf16]"})
    for (int rows : {1, 3, 4}) {
      block const b = inverted_residual({2, 9, 9, 5, 17, 6, ", stride=2, pad=1", 3, false}, type);
      // What runs is a kernel like any other: its invocation is pointed at other scratch.
      std::vector<sinter::chain> chains;
      for (std::string const& g : b.groups) chains.push_back(parsed(g));
      sinter::options const o = in_strips(sinter::strip_policy::always, rows, level);
      auto const plan =
          sinter::detail::program_builder(chains, b.given, o, sinter::backends()).run().value();
      REQUIRE(plan->strips.size() == 1);
      program const p = std::make_shared<sinter::program_core const>(plan);
      bound_block bound(p, b, false, 2);
      auto const state = std::move(sinter::detail::call_state::make(plan).value());
      state->accept(bound.lists.operands, bound.lists.packs, bound.lists.outputs).check();
      state->settle();
      REQUIRE(state->active.size() == 1);
      state->run();
      bytes const wanted = bound.result();
      for (placement where : {placement::end, placement::start}) {
        guard_buffer scratch(sinter::round_up(plan->strips[0].kernel->scratch_bytes(), 64), where);
        auto const invocation = std::move(plan->strips[0].kernel->make_invocation().value());
        sinter::call_args args = state->args[2];
        args.scratch = scratch.data();
        invocation->repoint(args);
        CHECK(invocation->run() == sinter::code::ok);
        CHECK(same(wanted, bound.result()));
      }
    }
}

TEST_CASE("a value that somebody else wants too is stored, and the strip refused with the reason") {
  sinter::isa const level = sinter_test::jit_levels().back();
  block b{{"conv2d(x, w1) | relu -> ~h", "conv2d(~h, w2, pad=1, groups=16) -> ~f",
           "conv2d(~f, w3) | add ~h:tensor -> out"},
          {dims("x", {1, 8, 8, 4}), dims("w1", {16, 1, 1, 4}), dims("w2", {16, 3, 3, 1}),
           dims("w3", {16, 1, 1, 16})},
          {"x"}};
  std::string text;
  bool in = false;
  bytes const together =
      run_block(b, in_strips(sinter::strip_policy::always, 3, level), false, 1, &in, &text);
  CHECK(in);  // groups 1 and 2
  CHECK(text.find("not in strips with group 0: group 2 reads the value between as well") !=
        std::string::npos);
  CHECK(same(run_block(b, in_strips(sinter::strip_policy::never, 0, level), false, 1), together));
}

TEST_CASE("two values of a group before: the rows of one would not be there yet") {
  sinter::isa const level = sinter_test::jit_levels().back();
  sinter::named_desc const given[] = {dims("x", {1, 9, 8, 4}), dims("w1", {16, 1, 1, 4}),
                                      dims("w2", {16, 3, 3, 16}), dims("w3", {16, 1, 1, 16})};
  std::vector<std::vector<std::string>> const shapes = {
      // Both orders of outputs: a window on one value, the other at the same pixel.
      {"conv2d(x, w1) | relu -> ~f=%1, ~h=%0", "conv2d(~f, w2, pad=1) | add ~h:tensor -> out"},
      {"conv2d(x, w1) | relu -> ~h=%0, ~f=%1", "conv2d(~f, w2, pad=1) | add ~h:tensor -> out"},
      // Over a group between: the last one's window is on a value of the first.
      {"conv2d(x, w1) | relu -> ~f=%1, ~h=%0", "conv2d(~f, w3) -> ~y",
       "conv2d(~h, w2, pad=1) | add ~y:tensor -> out"}};
  for (std::vector<std::string> const& groups : shapes) {
    block used{groups, {}, {"x"}};
    for (sinter::named_desc const& g : given)
      for (std::string const& text : groups)
        if (text.find(g.name.view()) != std::string::npos) {
          used.given.push_back(g);
          break;
        }
    std::string text;
    bytes const together = run_block(used, in_strips(sinter::strip_policy::always, 2, level), false,
                                     1, nullptr, &text);
    CAPTURE(text);
    CHECK(text.find(" reads another value of group 0") != std::string::npos);
    CHECK(same(run_block(used, in_strips(sinter::strip_policy::never, 0, level), false, 1),
               together));
  }
}

TEST_CASE("an output of a group inside a strip is stored whole, row by row") {
  sinter::isa const level = sinter_test::jit_levels().back();
  block b{{"conv2d(x, w1) | relu -> ~h=%1, wide=%0", "conv2d(~h, w2, pad=1, groups=16) -> ~f",
           "conv2d(~f, w3) | add ~f:tensor -> out"},
          {dims("x", {2, 9, 8, 4}), dims("w1", {16, 1, 1, 4}), dims("w2", {16, 3, 3, 1}),
           dims("w3", {16, 1, 1, 16})},
          {"x"},
          {"out", "wide"}};
  bool in = false;
  bytes const together =
      run_block(b, in_strips(sinter::strip_policy::always, 2, level), false, 2, &in);
  CHECK(in);
  CHECK(same(run_block(b, in_strips(sinter::strip_policy::never, 0, level), false, 2), together));
}
