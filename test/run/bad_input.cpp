// Everything that is wrong, at compile, pack, bind, call and repoint: one sentence that names it, nothing written.
#include <limits>

#include "network_helpers.hpp"

using namespace run_test;

namespace {

constexpr extent huge = extent{1} << 62;
constexpr char const* fused = "matmul(x, w) | add b:vector | add r:tensor | relu";

/// A compiled program with everything right; each test breaks one thing.
struct right {
  program p;
  std::vector<float> x = std::vector<float>(12, 1.0F), w = std::vector<float>(20, 1.0F),
                     b = std::vector<float>(5, 1.0F), r = std::vector<float>(15, 1.0F);
  guarded out{15};
  sinter::packed weights;
  call_lists lists;

  explicit right(program compiled)
      : p(std::move(compiled)), weights(pack(p, "w", sinter::view(w.data(), {4, 5}))) {
    lists = {{{"x", sinter::view(x.data(), {3, 4})},
              {"b", sinter::view(b.data(), {5})},
              {"r", sinter::view(r.data(), {3, 5})}},
             {&weights},
             {{"out", sinter::view(out.data(), {3, 5})}}};
  }
  right() : right(compile({fused}, {dims("x", {3, 4}), dims("w", {4, 5})})) {}

  sinter::tensor_view& view(std::string_view name) {
    for (sinter::named_view& v : lists.operands)
      if (v.name == name) return v.view;
    return lists.operands.front().view;
  }
  sinter::output_view& output() { return lists.outputs[0].view; }

  /// bind and call both refuse with that sentence, and the output is as it was.
  void check_refused(std::initializer_list<std::string_view> words,
                     sinter::code what = sinter::code::bad_argument) {
    auto bound = lists.bind(p);
    REQUIRE_FALSE(bound);
    CHECK(bound.error().what == what);
    check_sentence(bound.error().message, words);
    sinter::status const called = lists.run(p);
    REQUIRE_FALSE(called);
    CHECK(called.error().message == bound.error().message);
    CHECK(out.untouched());
  }
};

void check_compile(std::vector<std::string> const& groups,
                   std::vector<sinter::named_desc> const& given,
                   std::initializer_list<std::string_view> words,
                   sinter::options const& o = on_reference()) {
  auto const before = sinter::read_counters().programs;
  auto made = try_compile(groups, given, o);
  REQUIRE_FALSE(made);
  check_sentence(made.error().message, words);
  CHECK(sinter::read_counters().programs == before);
}

}  // namespace

TEST_CASE("what is right is not refused") {
  right t;
  t.lists.run(t.p).check();
  CHECK(t.out[0] == 6.0F);
}

TEST_CASE("compile: names") {
  sinter::named_desc const x = dims("x", {3, 4}), w = dims("w", {4, 5});
  check_compile({fused}, {x}, {"'w'", "not given"});
  check_compile({fused}, {x, w, dims("y", {1})}, {"'y'", "'x'", "'w'", "'b'", "'r'"});
  check_compile({fused}, {x, w, x}, {"'x'", "twice"});
  check_compile({"matmul(x, w) -> x=%0"}, {x, w}, {"'x'", "operand and an output"});
  check_compile({"relu(x:tensor) -> y=%0, y=%0"}, {x}, {"'y'"});
  check_compile({"relu(x:tensor) -> ~h=%0", "relu(~g) -> out=%0"}, {x},
                {"'g'", "no earlier group"});
  check_compile({"matmul(x, w) -> a=%0", "add(x:vector, y:tensor) -> c=%0"}, {x, w},
                {"'x'", "vector", "tensor"});
  check_compile({}, {}, {"without groups"});
}

TEST_CASE("compile: dtypes, ranks, extents, strides") {
  sinter::named_desc const x = dims("x", {3, 4}), w = dims("w", {4, 5});
  check_compile({fused}, {{"x", {3, 4}, {}, sinter::dtype::bf16}, w}, {"'x'", "bf16", "f32"});
  check_compile({fused}, {x, w, {"r", {}, {}, sinter::dtype::s8}}, {"'r'", "s8", "f32"});
  check_compile({fused}, {x, {"w", {4, 5}, {}, sinter::dtype::bf16}}, {"'w'", "bf16", "f32"});
  check_compile({fused}, {dims("x", {12}), w}, {"'x'", "rank"});
  check_compile({fused}, {dims("x", {3, 3}), w}, {"K is 3", "'x'", "'w'", "4"});
  check_compile({fused}, {dims("x", {-3, 4}), w}, {"'x'", "-3"});
  check_compile({fused}, {x, w, dims("b", {4})}, {"'b'", "5"});
  check_compile({fused}, {x, w, dims("r", {2, 5})}, {"'r'", "2x5"});
  check_compile({fused}, {x, w, dims("out", {5, 3})}, {"'out'", "5x3", "3x5"});
  check_compile({fused}, {x, w, {"out", {}, {}, sinter::dtype::bf16}}, {"'out'", "bf16"});
  check_compile({fused}, {x, w, {"out", {}, {4, 1}, {}}}, {"'out'", "(4, 1)"});
  check_compile({fused}, {{"x", {3, 4}, {1}, {}}, w}, {"'x'", "strides"});
  check_compile({fused}, {{"x", {3, 4}, {-4, 1}, {}}, w}, {"'x'", "-4"});
  check_compile({fused}, {{"x", {3, 4}, {huge, 1}, {}}, w}, {"'x'", "2^63"});
  check_compile({fused}, {dims("x", {huge, 4}), w}, {"'x'", "2^63"});
  check_compile({"matmul(x, w)"}, {dims("x", {huge / 8, 1}), dims("w", {1, 1 << 20})},
                {"matmul", "2^63"});
  check_compile({"matmul(x, w)"},
                {{"x", {3, sinter::dynamic}, {}, {}}, {"w", {sinter::dynamic, 5}, {}, {}}},
                {"'w'", "dynamic"});
  check_compile({"conv2d(x, w)"}, {dims("x", {1, 2, 2, 1}), dims("w", {1, 3, 3, 1})},
                {"'w'", "'x'", "3", "2"});
}

TEST_CASE("compile: extents whose product passes 2^31 are right") {
  // 2^33 elements: nothing is allocated for them, the groups have no intermediate.
  program const p =
      compile({"relu(x:tensor) -> out=%0"}, {dims("x", {extent{1} << 17, extent{1} << 16})});
  CHECK(p->describe("out")->dims == shape{extent{1} << 17, extent{1} << 16});
}

TEST_CASE("compile: options") {
  std::vector<sinter::named_desc> const given = {dims("x", {3, 4}), dims("w", {4, 5})};
  sinter::options o = on_reference();
  o.threads = 0;
  check_compile({fused}, given, {"options::threads is 0", "1 to 1024"}, o);
  o.threads = 4;
  check_compile({fused}, given, {"options::threads is 4", "options::executor", "sinter/openmp.hpp"},
                o);
  o.threads = 1025;
  check_compile({fused}, given, {"options::threads is 1025", "1 to 1024"}, o);
  o = on_reference();
  o.strip_rows = -7;
  check_compile({fused}, given, {"options::strip_rows is -7", "0 or more"}, o);
  o = on_reference();
  o.backend = "gpu";
  check_compile({fused}, given, {"options::backend", "'gpu'", "reference"}, o);
  o = on_reference();
  o.max_isa = sinter::isa::avx10_2;
  check_compile({fused}, given, {"max_isa", "avx10_2"}, o);
}

TEST_CASE("compile: an intermediate that no memory holds fails at the call, not before") {
  // 2^57 bytes: valid in 63 bits, but the arena cannot be had. Nothing is written.
  program const p = compile({"relu(x:tensor) -> ~h=%0", "relu(~h:tensor) -> out=%0"},
                            {dims("x", {extent{1} << 55})});
  sinter::status const st = p->warm_up();
  REQUIRE_FALSE(st);
  CHECK(st.error().what == sinter::code::out_of_memory);
  check_sentence(st.error().message, {"memory"});
}

TEST_CASE("pack") {
  right t;
  auto const refused = [&](std::vector<sinter::named_view> const& list,
                           std::initializer_list<std::string_view> words) {
    auto const before = sinter::read_counters().packs;
    auto made = t.p->pack(list);
    REQUIRE_FALSE(made);
    check_sentence(made.error().message, words);
    CHECK(sinter::read_counters().packs == before);
  };
  float const* const w = t.w.data();
  sinter::bfloat16 const narrow[20] = {};
  refused({{"w", sinter::view(static_cast<float const*>(nullptr), {4, 5})}}, {"'w'", "null"});
  refused({{"w", sinter::view(narrow, {4, 5})}}, {"'w'", "bf16", "f32"});
  refused({{"w", sinter::view(w, {20})}}, {"'w'", "rank 1", "rank 2"});
  refused({{"w", sinter::view(w, {5, 4})}}, {"'w'", "5x4", "4x5"});
  refused({{"w", sinter::as_view(t.b)}}, {"'w'", "5 elements", "20"});
  refused({{"w", sinter::view(w, {4, 5}, {huge, 1})}}, {"'w'", "2^63"});
  refused({{"w", sinter::view(w, {4, 5}, {-5, 1})}}, {"'w'", "-5"});
  refused({{"w", {w, sinter::dtype::f32, {4, 5}, {1}, false}}}, {"'w'", "strides"});
  auto const* const odd = reinterpret_cast<float const*>(reinterpret_cast<char const*>(w) + 2);
  refused({{"w", sinter::view(odd, {4, 5})}}, {"'w'", "aligned"});
  refused({{"v", sinter::view(w, {4, 5})}}, {"'v'", "no weight", "'w'"});
  refused({{"x", sinter::view(w, {4, 5})}}, {"'x'", "no weight", "'w'"});
  refused({{"w", sinter::view(w, {4, 5})}, {"w", sinter::view(w, {4, 5})}}, {"'w'", "twice"});

  program const narrow_program =
      compile({"matmul(x, w) -> out=%0 [bf16]"}, {dims("x", {1, 4}), dims("w", {4, 5})});
  std::int32_t const integers[20] = {};
  sinter::named_view const list[] = {{"w", sinter::view(integers, {4, 5})}};
  auto made = narrow_program->pack(list);
  REQUIRE_FALSE(made);
  check_sentence(made.error().message, {"'w'", "s32", "bf16 or f32"});
}

TEST_CASE("bind and call: names") {
  right t;
  SUBCASE("missing operand") {
    t.lists.operands.pop_back();
    t.check_refused({"'r'", "not given"});
  }
  SUBCASE("missing output") {
    t.lists.outputs.clear();
    t.check_refused({"'out'", "not given"});
  }
  SUBCASE("missing weights") {
    t.lists.packs.clear();
    t.check_refused({"'w'", "none of the packs"});
  }
  SUBCASE("an empty pack") {
    sinter::packed const none;
    t.lists.packs = {&none};
    t.check_refused({"'w'", "none of the packs"});
  }
  SUBCASE("a weight in two packs") {
    t.lists.packs = {&t.weights, &t.weights};
    t.check_refused({"'w'", "two of the packs"});
  }
  SUBCASE("twice") {
    t.lists.operands.push_back(t.lists.operands[1]);
    t.check_refused({"'b'", "twice"});
  }
  SUBCASE("output twice") {
    t.lists.outputs.push_back(t.lists.outputs[0]);
    t.check_refused({"'out'", "twice"});
  }
  SUBCASE("unknown") {
    t.lists.operands.push_back({"z", t.view("x")});
    t.check_refused({"'z'", "no operand", "'x'"});
  }
  SUBCASE("unknown output") {
    t.lists.outputs.push_back({"z", t.output()});
    t.check_refused({"'z'", "no output", "'out'"});
  }
  SUBCASE("a weight as a view") {
    t.lists.operands.push_back({"w", sinter::view(t.w.data(), {4, 5})});
    t.check_refused({"'w'", "pack()"});
  }
}

TEST_CASE("bind and call: views") {
  right t;
  sinter::bfloat16 narrow[15] = {};
  SUBCASE("null operand") {
    t.view("x").data = nullptr;
    t.check_refused({"'x'", "null"});
  }
  SUBCASE("null output") {
    t.output().data = nullptr;
    t.check_refused({"'out'", "null"});
  }
  SUBCASE("dtype") {
    t.view("x") = sinter::view(narrow, {3, 4});
    t.check_refused({"'x'", "bf16", "f32"});
  }
  SUBCASE("dtype of the output") {
    t.output() = sinter::view(narrow, {3, 5});
    t.check_refused({"'out'", "bf16", "f32"});
  }
  SUBCASE("rank") {
    t.view("r") = sinter::view(t.r.data(), {15});
    t.check_refused({"'r'", "rank 1", "rank 2"});
  }
  SUBCASE("extents") {
    t.view("r") = sinter::view(t.r.data(), {5, 3});
    t.check_refused({"'r'", "5x3", "3x5"});
  }
  SUBCASE("extents of the output") {
    t.output() = sinter::view(t.out.data(), {3, 4});
    t.check_refused({"'out'", "3x4", "3x5"});
  }
  SUBCASE("flat, too few elements") {
    t.view("r") = sinter::as_view(t.b);
    t.check_refused({"'r'", "5 elements", "15"});
  }
  SUBCASE("strides that the program was not compiled for") {
    t.view("x").strides = {1, 3};
    t.check_refused({"'x'", "(1, 3)", "(4, 1)"});
  }
  SUBCASE("output strides that overlap") {
    t.output().strides = {1, 1};
    t.check_refused({"'out'", "(1, 1)"});
  }
  SUBCASE("strides that overflow") {
    t.view("x").strides = {(std::numeric_limits<extent>::max)(), 1};
    t.check_refused({"'x'", "strides"});
  }
  SUBCASE("too few strides") {
    t.view("x").strides = {4};
    t.check_refused({"'x'", "strides"});
  }
  SUBCASE("misaligned") {
    t.view("x").data = reinterpret_cast<char const*>(t.x.data()) + 2;
    t.check_refused({"'x'", "aligned", "4"});
  }
}

TEST_CASE("bind and call: misaligned bf16") {
  program const p = compile({"relu(x:tensor) -> out=%0 [bf16]"}, {dims("x", {4})});
  alignas(4) char memory[32];
  std::memset(memory, 0x5a, sizeof memory);
  sinter::bfloat16 x[4] = {};
  call_lists const lists{
      {{"x", sinter::view(x, {4})}},
      {},
      {{"out", sinter::view(reinterpret_cast<sinter::bfloat16*>(memory + 1), {4})}}};
  auto bound = lists.bind(p);
  REQUIRE_FALSE(bound);
  check_sentence(bound.error().message, {"'out'", "aligned", "bf16", "2"});
  CHECK_FALSE(lists.run(p));
  for (char c : memory) CHECK(c == 0x5a);
}

TEST_CASE("bind and call: overlap") {
  SUBCASE("output and operand") {
    right t;
    t.view("r").data = t.out.data() + 1;
    t.check_refused({"'out'", "overlaps", "'r'"});
  }
  SUBCASE("output and an operand of another group") {
    program const p =
        compile({"relu(x:tensor) -> a=%0, ~h=%0", "add(~h:tensor, y:tensor) -> out=%0"},
                {dims("x", {4}), dims("y", {4})});
    std::vector<float> x(4, 1.0F);
    guarded a(4), out(4);
    call_lists const lists{
        {{"x", sinter::as_view(x)}, {"y", sinter::view(a.data(), {4})}},
        {},
        {{"a", sinter::view(a.data(), {4})}, {"out", sinter::view(out.data(), {4})}}};
    check_sentence(lists.run(p).error().message, {"'a'", "overlaps", "'y'"});
    CHECK(a.untouched());
    CHECK(out.untouched());
  }
  SUBCASE("two outputs") {
    program const p = compile({"relu(x:tensor) | square -> a=%0, out=%1"}, {dims("x", {4})});
    std::vector<float> x(4, 1.0F);
    guarded out(8);
    call_lists const lists{
        {{"x", sinter::as_view(x)}},
        {},
        {{"a", sinter::view(out.data(), {4})}, {"out", sinter::view(out.data() + 3, {4})}}};
    check_sentence(lists.run(p).error().message, {"'out'", "overlaps", "'a'"});
    CHECK(out.untouched());
  }
}

TEST_CASE("a network names its inputs by their own names, and writes nothing") {
  using namespace network_test;
  store s;
  s.conv("c0", 8, 8, 3);
  s.conv("c1", 8, 8, 1);
  std::vector<float> pixels(2 * 9 * 7 * 8, 1.0F);
  guarded out(pixels.size());
  for (extent batch : {extent{2}, sinter::dynamic})
    for (sinter::strip_policy stretches :
         {sinter::strip_policy::never, sinter::strip_policy::always}) {
      sinter::options o = quiet();
      o.stretches = stretches;
      network_builder net(sinter::f32, s.source(), o);
      auto const h = add_conv(net, "c0", conv3, net.input("image", {batch, 9, 7, 8}));
      network const model = net.build(add_conv(net, "c1", conv1, h)).value();
      auto const refuse = [&](sinter::tensor_view const& in, sinter::output_view const& to,
                              std::initializer_list<std::string_view> words) {
        sinter::status const st = model.try_call(in, to);
        REQUIRE_FALSE(st.ok());
        check_sentence(st.error().message, words);
        CHECK(out.untouched());
      };
      auto const in = [&](shape const& d) { return sinter::view(pixels.data(), d); };
      auto const to = [&](shape const& d) { return sinter::view(out.data(), d); };
      shape const right{2, 9, 7, 8};
      refuse(in({2, 8, 7, 8}), to({2, 8, 7, 8}), {"'image'", "2x8x7x8", "x9x7x8"});
      refuse(in({126, 8}), to(right), {"'image'", "126x8", "x9x7x8"});
      refuse(in({-5, 9, 7, 8}), to({-5, 9, 7, 8}), {"'image'", "-5"});
      refuse(in({huge, 9, 7, 8}), to({huge, 9, 7, 8}), {"'image'", std::to_string(huge)});
      refuse(in(right), to({1, 9, 7, 8}), {"'out'", "1x9x7x8", "2x9x7x8"});
      refuse(sinter::view(static_cast<float const*>(nullptr), right), to(right),
             {"'image'", "null"});
      refuse(in(right), sinter::view(static_cast<float*>(nullptr), right), {"'out'", "null"});
      refuse(sinter::view(out.data(), right), to(right), {"'out'", "overlaps", "'image'"});
      refuse(sinter::view(pixels.data(), right, {504, 56, 8, -1}), to(right), {"'image'", "-1"});
      CHECK(model.try_call(in(right), to(right)));
      CHECK(out.walls_intact());
      out = guarded(pixels.size());
    }
}

TEST_CASE("a call that was refused leaves the program and its thread as they were") {
  right t;
  t.view("x").data = nullptr;
  CHECK_FALSE(t.lists.run(t.p));
  t.view("x").data = t.x.data();
  t.lists.run(t.p).check();
  CHECK(t.out[14] == 6.0F);
  CHECK(t.out.walls_intact());
}
