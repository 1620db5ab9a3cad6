// Programs that are right: results, intermediates, packed weights, repoint, in place, zero extents, odd strides.
// Integer data throughout: every path gives the same bits.
#include <cstdint>
#include <limits>
#include <thread>

#include "helpers.hpp"

using namespace run_test;

namespace {

/// matmul(x, w) + b, relu, with x[i,k] = (i + 3k) % 7 - 3, w[k,j] = (k + 5j) % 5 - 2, b[j] = j % 3.
struct small_matmul {
  extent m, k, n;
  std::vector<float> x, w, b;

  small_matmul(extent rows, extent depth, extent columns) : m(rows), k(depth), n(columns) {
    for (extent i = 0; i < m * k; ++i)
      x.push_back(static_cast<float>((i / k + 3 * (i % k)) % 7 - 3));
    for (extent i = 0; i < k * n; ++i)
      w.push_back(static_cast<float>((i / n + 5 * (i % n)) % 5 - 2));
    for (extent j = 0; j < n; ++j) b.push_back(static_cast<float>(j % 3));
  }
  float sum(extent i, extent j) const {
    float s = 0;
    for (extent l = 0; l < k; ++l)
      s += x[static_cast<std::size_t>(i * k + l)] * w[static_cast<std::size_t>(l * n + j)];
    return s;
  }
  float expected(extent i, extent j) const {
    float const v = sum(i, j) + b[static_cast<std::size_t>(j)];
    return v > 0 ? v : 0;
  }
  std::vector<sinter::named_desc> descs() const { return {dims("x", {m, k}), dims("w", {k, n})}; }
  bool matches(guarded& out) const {
    for (extent i = 0; i < m; ++i)
      for (extent j = 0; j < n; ++j)
        if (out[static_cast<std::size_t>(i * n + j)] != expected(i, j)) return false;
    return out.walls_intact();
  }
};
constexpr char const* fused = "matmul(x, w) | add b:vector | relu";

}  // namespace

TEST_CASE("bound and unbound calls compute the same, on every backend of this build") {
  small_matmul const d(5, 7, 9);
  int ran = 0;
  on_each_backend({fused}, d.descs(), [&](program const& p) {
    sinter::packed const w = pack(p, "w", sinter::view(d.w.data(), {7, 9}));
    guarded out(45), again(45);
    call_lists const lists{{{"x", sinter::view(d.x.data(), {5, 7})}, {"b", sinter::as_view(d.b)}},
                           {&w},
                           {{"out", sinter::view(out.data(), {5, 9})}}};
    auto call = lists.bind(p);
    REQUIRE(call);
    CHECK(out.untouched());  // bind computes nothing
    (*call)();
    CHECK(d.matches(out));
    call_lists other = lists;
    other.outputs[0].view.data = again.data();
    REQUIRE(other.run(p));
    CHECK(d.matches(again));
    ++ran;
  });
  CHECK(ran >= 1);
}

TEST_CASE("groups are joined by name; intermediates stay inside") {
  // h = relu(x w + b) is made by the first group and read twice by the second.
  small_matmul const d(4, 6, 6);
  program const p = compile({"matmul(x, w) | add b:vector | relu -> ~h=%2",
                             "matmul(~h, v) | add ~h:tensor | add x:tensor -> out=%2"},
                            {dims("x", {4, 6}), dims("w", {6, 6}), dims("v", {6, 6})});
  CHECK(p->group_count() == 2);
  CHECK(p->kernel_count() == 2);
  std::vector<float> twice(36, 0.0F);
  for (std::size_t i = 0; i < 6; ++i) twice[i * 6 + i] = 2;
  sinter::named_view const both[] = {{"v", sinter::view(twice.data(), {6, 6})},
                                     {"w", sinter::view(d.w.data(), {6, 6})}};
  sinter::packed const weights = p->pack(both).value();
  guarded out(24);
  call_lists const lists{{{"b", sinter::as_view(d.b)}, {"x", sinter::view(d.x.data(), {4, 6})}},
                         {&weights},
                         {{"out", sinter::view(out.data(), {4, 6})}}};
  lists.run(p).check();
  for (extent i = 0; i < 4; ++i)
    for (extent j = 0; j < 6; ++j)
      CHECK(out[static_cast<std::size_t>(i * 6 + j)] ==
            3 * d.expected(i, j) + d.x[static_cast<std::size_t>(i * 6 + j)]);
  CHECK(out.walls_intact());
}

TEST_CASE("a bound call outlives program and packs, moves, and is repointed") {
  small_matmul const d(3, 4, 5);
  guarded out(15), second(15);
  std::vector<float> zeros(12, 0.0F);
  auto call = [&] {
    program const p = compile({fused}, d.descs());
    sinter::packed const w = pack(p, "w", sinter::view(d.w.data(), {4, 5}));
    return call_lists{{{"x", sinter::view(d.x.data(), {3, 4})}, {"b", sinter::as_view(d.b)}},
                      {&w},
                      {{"out", sinter::view(out.data(), {3, 5})}}}
        .bind(p)
        .value();
  }();
  sinter::bound moved = std::move(call);
  moved();
  CHECK(d.matches(out));
  REQUIRE(moved.repoint("out", second.data()));
  REQUIRE(moved.repoint("x", zeros.data()));
  moved();
  for (std::size_t i = 0; i < 15; ++i) CHECK(second[i] == d.b[i % 5]);
  CHECK(d.matches(out));  // the first output is left alone

  check_sentence(moved.repoint("x", static_cast<void const*>(nullptr)).error().message,
                 {"'x'", "null"});
  check_sentence(moved.repoint("out", static_cast<void const*>(second.data())).error().message,
                 {"'out'"});
  check_sentence(moved.repoint("y", zeros.data()).error().message, {"'y'", "'x'"});
  char* const odd = reinterpret_cast<char*>(second.data()) + 1;
  check_sentence(moved.repoint("out", static_cast<void*>(odd)).error().message,
                 {"'out'", "aligned"});
  moved();  // refused pointers were not taken
  CHECK(second.walls_intact());
  CHECK(call.run() == sinter::code::bad_argument);  // NOLINT: moved from, and says so
}

TEST_CASE("case 61: weights are packed once, and a pack is what it was made from") {
  small_matmul const d(2, 3, 4);
  program const p = compile({fused}, d.descs());
  std::vector<float> source = d.w;
  auto const before = sinter::read_counters().packs;
  sinter::packed const w = pack(p, "w", sinter::view(source.data(), {3, 4}));
  CHECK(sinter::read_counters().packs == before + 1);
  guarded out(8);
  auto const call_with = [&](sinter::packed const& weights) {
    call_lists{{{"x", sinter::view(d.x.data(), {2, 3})}, {"b", sinter::as_view(d.b)}},
               {&weights},
               {{"out", sinter::view(out.data(), {2, 4})}}}
        .run(p)
        .check();
  };
  for (int i = 0; i < 100; ++i) call_with(w);
  CHECK(sinter::read_counters().packs == before + 1);
  CHECK(d.matches(out));

  // The source edited in place: the pack does not follow, a new pack of the same address does.
  for (float& v : source) v = 0;
  call_with(w);
  CHECK(d.matches(out));
  sinter::packed const zeros = pack(p, "w", sinter::view(source.data(), {3, 4}));
  call_with(zeros);
  for (std::size_t i = 0; i < 8; ++i) CHECK(out[i] == d.b[i % 4]);
}

TEST_CASE(
    "programs with equal layout keys share a pack; f32 weights of a bf16 program are rounded") {
  small_matmul const d(2, 3, 4);
  program const one = compile({fused}, d.descs());
  program const other = compile({"matmul(x, w) -> out=%0"}, {dims("x", {9, 3}), dims("w", {3, 4})});
  sinter::packed const w = pack(one, "w", sinter::view(d.w.data(), {3, 4}));
  std::vector<float> x(27, 1.0F);
  guarded out(36);
  call_lists{
      {{"x", sinter::view(x.data(), {9, 3})}}, {&w}, {{"out", sinter::view(out.data(), {9, 4})}}}
      .run(other)
      .check();
  for (std::size_t j = 0; j < 4; ++j) CHECK(out[j] == d.w[j] + d.w[4 + j] + d.w[8 + j]);

  // 1 + 2^-8 is halfway between two bf16 and goes to the even one, 1; 1 + 3 * 2^-8 goes up to 1 + 2^-6.
  program const narrow =
      compile({"matmul(x, w) -> out=%0 [bf16]"}, {dims("x", {1, 1}), dims("w", {1, 2})});
  float const wide[] = {1 + 0x1p-8F, 1 + 3 * 0x1p-8F};
  sinter::packed const rounded = pack(narrow, "w", sinter::view(wide, {1, 2}));
  sinter::bfloat16 const xb[] = {sinter::to_bfloat16(1)};
  sinter::bfloat16 yb[2] = {};
  call_lists{{{"x", sinter::view(xb, {1, 1})}}, {&rounded}, {{"out", sinter::view(yb, {1, 2})}}}
      .run(narrow)
      .check();
  CHECK(sinter::to_float(yb[0]) == 1.0F);
  CHECK(sinter::to_float(yb[1]) == 1 + 0x1p-6F);
}

TEST_CASE("weights are packed from any strides, and in parts") {
  small_matmul const d(2, 3, 3);
  program const p =
      compile({"matmul(x, w) | add b:vector | relu -> ~h=%2", "matmul(~h, v) -> out=%0"},
              {dims("x", {2, 3}), dims("w", {3, 3}), dims("v", {3, 3})});
  std::vector<float> columns(9), identity(9, 0.0F);
  for (std::size_t i = 0; i < 9; ++i) columns[i % 3 * 3 + i / 3] = d.w[i];
  for (std::size_t i = 0; i < 3; ++i) identity[4 * i] = 1;
  sinter::packed const w = pack(p, "w", sinter::transposed(sinter::view(columns.data(), {3, 3})));
  sinter::packed const v = pack(p, "v", sinter::as_view(identity));
  guarded out(6);
  call_lists{{{"x", sinter::view(d.x.data(), {2, 3})}, {"b", sinter::as_view(d.b)}},
             {&w, &v},
             {{"out", sinter::view(out.data(), {2, 3})}}}
      .run(p)
      .check();
  CHECK(d.matches(out));
}

TEST_CASE(
    "a weight that two kernels want in two layouts is packed twice in one entry; in one layout, "
    "once") {
  small_matmul const d(2, 3, 3);
  std::vector<std::string> const twice = {"matmul(x, w) -> ~h=%0", "matmul(~h, w) -> out=%0"};
  fake_backend same, own;
  own.numbered_keys = true;
  guarded out(6);
  float h[6], expected[6];
  for (extent i = 0; i < 6; ++i) h[i] = d.sum(i / 3, i % 3);
  for (std::size_t i = 0; i < 6; ++i) {
    expected[i] = 0;
    for (std::size_t l = 0; l < 3; ++l) expected[i] += h[i / 3 * 3 + l] * d.w[l * 3 + i % 3];
  }
  for (fake_backend const* b : {&same, &own}) {
    program const p =
        try_compile_on({b}, twice, {dims("x", {2, 3}), dims("w", {3, 3})}, quiet()).value();
    auto const before = sinter::read_counters().packs;
    sinter::packed const w = pack(p, "w", sinter::view(d.w.data(), {3, 3}));
    REQUIRE(w.find("w") != nullptr);
    std::size_t const wanted = b == &own ? 2 : 1;
    CHECK(w.find("w")->layouts.size() == wanted);
    CHECK(sinter::read_counters().packs == before + wanted);
    call_lists{{{"x", sinter::view(d.x.data(), {2, 3})}},
               {&w},
               {{"out", sinter::view(out.data(), {2, 3})}}}
        .run(p)
        .check();
    for (std::size_t i = 0; i < 6; ++i) CHECK(out[i] == expected[i]);
  }
}

TEST_CASE("a pack of another kernel is refused; packs of several programs may be given together") {
  small_matmul const d(2, 3, 3);
  fake_backend blocked;
  blocked.key_suffix = " blocked";
  std::vector<std::string> const product = {"matmul(x, w) -> out=%0"};
  std::vector<sinter::named_desc> const descs = {dims("x", {2, 3}), dims("w", {3, 3})};
  program const other = try_compile_on({&blocked}, product, descs, quiet()).value();
  program const plain = compile(product, descs);
  sinter::packed const other_w = pack(other, "w", sinter::view(d.w.data(), {3, 3}));
  sinter::packed const plain_w = pack(plain, "w", sinter::view(d.w.data(), {3, 3}));
  guarded out(6);
  call_lists lists{{{"x", sinter::view(d.x.data(), {2, 3})}},
                   {&other_w},
                   {{"out", sinter::view(out.data(), {2, 3})}}};
  auto refused = lists.bind(plain);
  REQUIRE_FALSE(refused);
  check_sentence(refused.error().message,
                 {"'w'", "another kernel", other_w.find("w")->layouts[0].layout_key,
                  plain_w.find("w")->layouts[0].layout_key});
  CHECK(out.untouched());
  lists.packs = {&other_w, &plain_w};
  lists.run(plain).check();
  for (extent i = 0; i < 2; ++i)
    for (extent j = 0; j < 3; ++j) CHECK(out[static_cast<std::size_t>(i * 3 + j)] == d.sum(i, j));
}

TEST_CASE("in place: an operand that is the output, element by element") {
  small_matmul const d(3, 4, 5);
  sinter::options o = on_reference();
  o.in_place = "r";
  std::vector<sinter::named_desc> descs = d.descs();
  program const p = compile({"matmul(x, w) | add r:tensor -> out=%1"}, descs, o);
  sinter::packed const w = pack(p, "w", sinter::view(d.w.data(), {4, 5}));
  guarded memory(15), elsewhere(15);
  for (std::size_t i = 0; i < 15; ++i) memory[i] = static_cast<float>(i);
  call_lists lists{
      {{"x", sinter::view(d.x.data(), {3, 4})}, {"r", sinter::view(memory.data(), {3, 5})}},
      {&w},
      {{"out", sinter::view(memory.data(), {3, 5})}}};
  lists.run(p).check();
  for (extent i = 0; i < 15; ++i)
    CHECK(memory[static_cast<std::size_t>(i)] == d.sum(i / 5, i % 5) + static_cast<float>(i));
  CHECK(memory.walls_intact());
  lists.outputs[0].view.data = elsewhere.data();
  check_sentence(lists.run(p).error().message, {"'r'", "'out'", "same pointer"});
  CHECK(elsewhere.untouched());

  o.in_place = "x";  // a contraction reads it
  check_sentence(try_compile({"matmul(x, w) | add r:tensor -> out=%1"}, descs, o).error().message,
                 {"'x'"});
  o.in_place = "nothing";
  check_sentence(try_compile({fused}, descs, o).error().message, {"'nothing'", "in_place"});
  // A later group still reads r: it cannot be overwritten by the first one.
  o.in_place = "r";
  check_sentence(try_compile({"matmul(x, w) | add r:tensor -> out=%1, ~h=%1", "add(~h, r) -> ~g=%0",
                              "relu(~g) -> y=%0"},
                             descs, o)
                     .error()
                     .message,
                 {"'r'", "intermediate"});
}

TEST_CASE("an output slice beside an operand slice of the same memory") {
  program const p =
      compile({"relu(x:tensor) -> out=%0"}, {{"x", {4, 3}, {8, 1}, {}}, {"out", {}, {8, 1}, {}}});
  std::vector<float> memory(32, -1.0F);
  call_lists lists{{{"x", sinter::view(memory.data(), {4, 3}, {8, 1})}},
                   {},
                   {{"out", sinter::view(memory.data() + 4, {4, 3}, {8, 1})}}};
  lists.run(p).check();
  for (std::size_t i = 0; i < 32; ++i) CHECK(memory[i] == (i % 8 >= 4 && i % 8 < 7 ? 0.0F : -1.0F));
  lists.outputs[0].view.data = memory.data() + 2;
  check_sentence(lists.run(p).error().message, {"'out'", "overlaps", "'x'"});
}

TEST_CASE("case 43: extents of zero: nothing is read or written, null pointers are right") {
  float const x[12] = {}, w[12] = {}, b[4] = {};
  auto const call = [&](program const& p, shape const& x_dims, shape const& w_dims,
                        shape const& out_dims) {
    sinter::packed const weights =
        pack(p, "w", sinter::view(element_count(w_dims) == 0 ? nullptr : w, w_dims));
    call_lists const lists{
        {{"x", sinter::view(element_count(x_dims) == 0 ? nullptr : x, x_dims)},
         {"b", sinter::view(out_dims.back() == 0 ? nullptr : b, {out_dims.back()})}},
        {&weights},
        {{"out", sinter::view(static_cast<float*>(nullptr), out_dims)}}};
    CHECK(lists.run(p));
    auto bound = lists.bind(p);
    REQUIRE(bound);
    CHECK(bound->run() == sinter::code::ok);
  };
  for (auto const& mn : {std::pair<extent, extent>{0, 4}, {4, 0}, {0, 0}}) {
    extent const m = mn.first, n = mn.second;
    CAPTURE(m);
    CAPTURE(n);
    on_each_backend({fused}, {dims("x", {m, 3}), dims("w", {3, n})}, [&](program const& p) {
      call(p, {m, 3}, {3, n}, {m, n});
    });
    on_each_backend({"matmul(x, w, transposed_src, transposed_weight) | add b:vector"},
                    {dims("x", {3, m}), dims("w", {n, 3})}, [&](program const& p) {
                      call(p, {3, m}, {n, 3}, {m, n});
                    });
  }
  on_each_backend({fused}, {dims("x", {0, 2, 3}), dims("w", {3, 4})}, [&](program const& p) {
    call(p, {0, 2, 3}, {3, 4}, {0, 2, 4});
  });
  on_each_backend({"conv2d(x, w) | add b:vector"},
                  {dims("x", {0, 2, 2, 3}), dims("w", {4, 1, 1, 3})}, [&](program const& p) {
                    call(p, {0, 2, 2, 3}, {4, 1, 1, 3}, {0, 2, 2, 4});
                  });
}

TEST_CASE("case 43: K = 0 gives the epilogue of zero") {
  on_each_backend({fused}, {dims("x", {2, 0}), dims("w", {0, 3})}, [](program const& p) {
    sinter::packed const w = pack(p, "w", sinter::view(static_cast<float const*>(nullptr), {0, 3}));
    float const b[] = {-1, 0, 2};
    guarded out(6);
    call_lists{{{"x", sinter::view(static_cast<float const*>(nullptr), {2, 0})},
                {"b", sinter::as_view(b)}},
               {&w},
               {{"out", sinter::view(out.data(), {2, 3})}}}
        .run(p)
        .check();
    for (std::size_t i = 0; i < 6; ++i) CHECK(out[i] == (i % 3 == 2 ? 2.0F : 0.0F));
    CHECK(out.walls_intact());
  });
  on_each_backend({std::string(fused) + " [bf16]"}, {dims("x", {2, 0}), dims("w", {0, 3})},
                  [](program const& p) {
                    sinter::packed const w =
                        pack(p, "w", sinter::view(static_cast<float const*>(nullptr), {0, 3}));
                    float const b[] = {-1, 0, 2};
                    sinter::bfloat16 out[6] = {};
                    call_lists{
                        {{"x", sinter::view(static_cast<sinter::bfloat16 const*>(nullptr), {2, 0})},
                         {"b", sinter::as_view(b)}},
                        {&w},
                        {{"out", sinter::view(out, {2, 3})}}}
                        .run(p)
                        .check();
                    for (std::size_t i = 0; i < 6; ++i)
                      CHECK(sinter::to_float(out[i]) == (i % 3 == 2 ? 2.0F : 0.0F));
                  });
}

TEST_CASE("case 19: strides of axes of extent 1 say nothing") {
  extent const odd[] = {0, 1, 7, -1, (std::numeric_limits<extent>::max)()};
  for (extent m : {1, 5})
    for (extent k : {1, 5})
      for (extent n : {1, 5}) {
        small_matmul const d(m, k, n);
        on_each_backend({fused}, d.descs(), [&](program const& p) {
          for (extent s : odd) {
            CAPTURE(m);
            CAPTURE(k);
            CAPTURE(n);
            CAPTURE(s);
            auto const strides = [s](extent rows, extent columns) {
              return sinter::strides{rows == 1 ? s : columns, columns == 1 ? s : 1};
            };
            sinter::packed const w = pack(p, "w", sinter::view(d.w.data(), {k, n}, strides(k, n)));
            guarded out(static_cast<std::size_t>(m * n));
            call_lists{{{"x", sinter::view(d.x.data(), {m, k}, strides(m, k))},
                        {"b", sinter::as_view(d.b)}},
                       {&w},
                       {{"out", sinter::view(out.data(), {m, n}, strides(m, n))}}}
                .run(p)
                .check();
            CHECK(d.matches(out));
          }
        });
      }
}

namespace {

std::vector<std::string> const two_layers = {"matmul(x, w) | add b:vector | relu -> ~h=%2",
                                             "matmul(~h, v) | add r:tensor -> out=%1"};
std::vector<sinter::named_desc> const any_rows = {
    {"x", {sinter::dynamic, 6}, {}, {}}, dims("w", {6, 6}), dims("v", {6, 6})};

sinter::packed pack_identity(program const& p) {
  std::vector<float> identity(36, 0.0F);
  for (std::size_t i = 0; i < 6; ++i) identity[7 * i] = 1;
  return pack(p, "v", sinter::view(identity.data(), {6, 6}));
}

}  // namespace

TEST_CASE("dynamic extents: one program, every value, also none") {
  on_each_backend(two_layers, any_rows, [](program const& p) {
    auto const kernels = sinter::read_counters().kernels;
    sinter::packed const v = pack_identity(p);
    for (extent m : {3, 1, 8, 0, 8, 70}) {
      CAPTURE(m);
      small_matmul const d(m, 6, 6);
      sinter::packed const w = pack(p, "w", sinter::view(d.w.data(), {6, 6}));
      auto const count = static_cast<std::size_t>(m * 6);
      std::vector<float> r(count, 0.0F);
      guarded out(count), flat(count);
      call_lists lists{{{"x", sinter::view(d.x.data(), {m, 6})},
                        {"b", sinter::as_view(d.b)},
                        {"r", sinter::view(r.data(), {m, 6})}},
                       {&w, &v},
                       {{"out", sinter::view(out.data(), {m, 6})}}};
      lists.run(p).check();
      CHECK(d.matches(out));
      lists.operands[2].view = sinter::as_view(r);  // a flat range: its extents follow from x
      lists.outputs[0].view.data = flat.data();
      auto call = lists.bind(p);
      REQUIRE(call);
      (*call)();
      CHECK(d.matches(flat));
    }
    CHECK(sinter::read_counters().kernels == kernels);
  });
}

TEST_CASE("dynamic extents: what does not fit is refused at the call, and the next call is right") {
  program const p = compile(two_layers, any_rows);
  sinter::packed const v = pack_identity(p);
  small_matmul const d(3, 6, 6);
  std::vector<float> r(18, 0.0F);
  guarded out(18);
  sinter::packed const w = pack(p, "w", sinter::view(d.w.data(), {6, 6}));
  call_lists const right{{{"x", sinter::view(d.x.data(), {3, 6})},
                          {"b", sinter::as_view(d.b)},
                          {"r", sinter::view(r.data(), {3, 6})}},
                         {&w, &v},
                         {{"out", sinter::view(out.data(), {3, 6})}}};
  call_lists wrong = right;
  wrong.operands[2].view = sinter::view(r.data(), {2, 6});
  check_sentence(wrong.run(p).error().message, {"'r'", "2x6"});
  wrong.operands[2].view = sinter::as_view(d.b);
  check_sentence(wrong.run(p).error().message, {"'r'", "6 elements", "18"});
  wrong = right;
  wrong.operands[0].view = sinter::as_view(d.x);  // extents of a contraction cannot be guessed
  check_sentence(wrong.run(p).error().message, {"'x'"});
  wrong = right;
  wrong.outputs[0].view = sinter::view(out.data(), {2, 6});
  check_sentence(wrong.run(p).error().message, {"'out'", "2x6", "3x6"});
  CHECK(out.untouched());
  right.run(p).check();
  CHECK(d.matches(out));
}
