// What the suite is made of: workloads and their tolerances, and every contender against the reference backend.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <set>

#include <sinter/isa/machine.hpp>
#include <sinter/run/dispatch_rules.hpp>

#include "peers/peer_calls.hpp"
#include "support/record.hpp"
#include "support/rule_problems.hpp"
#include "support/work.hpp"

using namespace sinter_bench;

namespace {

/// What leaves the values of its output as they are, or makes one of them wrong.
std::unique_ptr<contender> writer(std::shared_ptr<workload> const& load,
                                  std::vector<float> values) {
  return make_contender("writer", "", [load, values] {
    sinter::tensor_desc const& d = load->output_desc();
    for (std::size_t i = 0; i < values.size(); ++i)
      if (d.type == sinter::dtype::f32)
        static_cast<float*>(load->output())[i] = values[i];
      else
        static_cast<sinter::bfloat16*>(load->output())[i] = sinter::to_bfloat16(values[i]);
  });
}

std::unique_ptr<contender> reference(std::shared_ptr<workload> const& load) {
  return std::move(sinter_call("reference", load, "reference", fusion::fused).value());
}

std::vector<float> result_of(work const& w) {
  auto const load = workload::make(w).value();
  reference(load)->once();
  return load->read_output();
}

/// The sentence of a line-up of the reference and of what writes these values.
std::string wrong_with(work const& w, std::vector<float> values) {
  return line_up_of(w,
                    [&](line_up_maker& l, std::shared_ptr<workload> const& load) {
                      l.join("reference", reference(load), fusion::fused);
                      l.join("writer", writer(load, std::move(values)), fusion::fused);
                    })
      .wrong;
}

work const mlp{"matmul(x, w) | add b:vector | gelu_tanh -> ~h; matmul(~h, v) | add c:vector",
               {{"x", {8, 96}}, {"w", {96, 64}}, {"v", {64, 32}}}};

}  // namespace

TEST_CASE("workload: operations and bytes") {
  auto const product =
      workload::make_problems({"matmul(x, w) | relu [bf16]", {{"x", {3, 5}}, {"w", {5, 7}}}});
  CHECK((*product)->flops() == 2 * 3 * 5 * 7);
  CHECK((*product)->bytes() == 2 * (3 * 5 + 5 * 7 + 3 * 7));
  auto const image = workload::make_problems(
      {"conv2d(x, w, stride=2, groups=2)", {{"x", {1, 9, 9, 4}}, {"w", {6, 3, 3, 2}}}});
  CHECK((*image)->flops() == 2 * (4 * 4 * 6) * (3 * 3 * 2));
  auto const chains = workload::make_problems(mlp);
  CHECK((*chains)->parts() == 2);
  CHECK((*chains)->flops() == 2 * 8 * 64 * (96 + 32));
  // x, w, b, v, c and the result; h stays inside.
  CHECK((*chains)->bytes() == 4 * (8 * 96 + 96 * 64 + 64 + 64 * 32 + 32 + 8 * 32));
}

TEST_CASE("tile_model_of: of products of bf16, whatever follows them, and of nothing else") {
  auto const model = [](std::string const& chain, sinter::shape const& x, sinter::shape const& w) {
    return tile_model_of(workload::describe({chain, {{"x", x}, {"w", w}}}).value());
  };
  // 512^3 / (16 * 16 * 32) products of 16 cycles, 1024 stores of as many, 2 cycles a row of sums, one configuration.
  std::string const tiles = std::to_string(16384 * 16 + 1024 * 16 + 2 * 512 * 32 + 250);
  std::string const vectors = std::to_string(512 * 32 * 256 + 512 * 32);
  CHECK(model("matmul(x, w) | relu [bf16]", {512, 512}, {512, 512}) ==
        "AMX: " + tiles + " cycles in tiles, AVX512-BF16: " + vectors + " (model, not measured)");
  CHECK(model("conv2d(x, w) | relu [bf16]", {1, 8, 8, 32}, {16, 3, 3, 32}).starts_with("AMX: "));
  CHECK(model("matmul(x, w) | relu [f32]", {512, 512}, {512, 512}).empty());
  CHECK(tile_model_of(workload::describe({"relu(x:tensor) [bf16]", {{"x", {8, 8}}}}).value())
            .empty());
}

TEST_CASE("workload: what is not understood") {
  auto const sentence = [](work const& w) { return workload::make_problems(w).error().message; };
  CHECK(sentence({"relu(~h:tensor)", {}}) == "sinter: no chain before this one makes 'h'");
  CHECK(sentence({"relu(x:tensor) -> a, b=%0", {{"x", {4}}}}) ==
        "sinter: a benchmark's chain has one output each; given are 2");
  CHECK(sentence({"matmul(x, w)", {{"x", {2, 3}}, {"w", {4, 5}}}}).find("sinter: ") == 0);
}

TEST_CASE("workload: cold memory is more than the last-level cache holds, and all of it is used") {
  work w{"relu(x:tensor)", {{"x", {1024, 1024}}}, memory::cold};
  auto const load = workload::make(w).value();
  sinter::cache_sizes const& caches = sinter::this_machine().caches;
  CHECK(load->copies() > 2);
  CHECK(load->copies() * load->bytes() > 2 * static_cast<double>(std::max(caches.l2, caches.l3)));
  std::memset(load->output(load->copies() - 1), 0xff, load->output_bytes());
  reference(load)->once();
  std::vector<float> const first = load->read_output(0);
  for (int i = 1; i < load->copies(); ++i) {
    CHECK(load->output(i) != load->output(i - 1));
    CHECK(std::memcmp(load->output(i), load->output(0), load->output_bytes()) == 0);
  }
  CHECK_FALSE(workload::cold_copies(64).has_value());
  CHECK(workload::make({"relu(x:tensor)", {{"x", {16}}}, memory::cold}).error().message ==
        "sinter: cold memory wants more than 512 copies of this work");
}

TEST_CASE("line_up: a wrong value is found") {
  for (std::string const precision : {"f32", "bf16"}) {
    CAPTURE(precision);
    work const w = with_precision(
        {"matmul(x, w) | add b:vector | gelu_tanh", {{"x", {8, 48}}, {"w", {48, 16}}}}, precision);
    std::vector<float> const right = result_of(w);
    CHECK(wrong_with(w, right).empty());
    std::vector<float> values = right;
    values[100] += 0.25F + 0.05F * std::abs(values[100]);
    CHECK(wrong_with(w, values).find("writer computes") == 0);
    values = right;
    values[3] = std::numeric_limits<float>::quiet_NaN();
    CHECK(wrong_with(w, values).find("writer computes") == 0);
    CHECK_FALSE(wrong_with(w, {}).empty());  // what is not written
  }
}

TEST_CASE("line_up: a forgotten bias is found in a block of two chains") {
  for (std::string const precision : {"f32", "bf16"}) {
    CAPTURE(precision);
    work const w = with_precision(mlp, precision);
    std::vector<float> const right = result_of(w);
    CHECK(wrong_with(w, right).empty());
    work without = mlp;
    without.chain = "matmul(x, w) | gelu_tanh -> ~h; matmul(~h, v) | add c:vector";
    CHECK(wrong_with(w, result_of(with_precision(without, precision))).find("writer is ") == 0);
    std::vector<float> values = right;
    values[0] = std::numeric_limits<float>::quiet_NaN();
    CHECK_FALSE(wrong_with(w, values).empty());
  }
}

TEST_CASE("every contender computes what the reference does") {
  std::vector<work> const works = {
      {"matmul(x, w) | add b:vector | gelu_tanh", {{"x", {33, 600}}, {"w", {600, 70}}}},
      {"matmul(x, w) | add b:vector | add r:tensor | relu", {{"x", {65, 17}}, {"w", {17, 129}}}},
      {"matmul(x, w) | clip(-0.5, 0.5) | mul s:tensor", {{"x", {5, 3}}, {"w", {3, 2}}}},
      {"matmul(x, w, transposed_weight) | swish", {{"x", {6, 20}}, {"w", {10, 20}}}},
      {"matmul(x, y:tensor, transposed_weight) | mul 0.125",
       {{"x", {3, 7, 12}}, {"y", {3, 9, 12}}}},
      {"matmul(x, y:tensor) | tanh", {{"x", {3, 7, 12}}, {"y", {3, 12, 9}}}},
      {"conv2d(x, w) | add b:vector | add r:tensor | relu",
       {{"x", {2, 5, 6, 24}}, {"w", {40, 1, 1, 24}}}},
      {"conv2d(x, w, stride=2, pad=1) | add b:vector | clip(0, 6)",
       {{"x", {1, 9, 8, 3}}, {"w", {20, 3, 3, 3}}}},
      {"conv2d(x, w, pad=2x1, dilation=2x1) | sigmoid", {{"x", {1, 9, 8, 8}}, {"w", {8, 3, 3, 8}}}},
      {"conv2d(x, w, pad_begin=1x0, pad_end=0x2) | add b:vector | relu",
       {{"x", {1, 7, 6, 8}}, {"w", {16, 3, 3, 8}}}},
      {"conv2d(x, w, pad=1, groups=24) | add b:vector | relu",
       {{"x", {1, 7, 6, 24}}, {"w", {24, 3, 3, 1}}}},
      {"conv2d(x, w, pad=1, groups=2) | relu", {{"x", {1, 6, 6, 16}}, {"w", {12, 3, 3, 8}}}},
      {"gelu_tanh(x:tensor) | add r:tensor | mul 0.5", {{"x", {3, 1030}}, {"r", {3, 1030}}}},
      {"mul(x:tensor, scale:vector) | add shift:vector | swish", {{"x", {4, 33}}}},
      {"row_sum(x:tensor)", {{"x", {7, 100}}}},
      {"row_mean(x:tensor)", {{"x", {7, 100}}}},
      {"square(x:tensor) | row_max", {{"x", {7, 100}}}},
      {"conv2d(x, w) | add b:vector | relu -> ~h; conv2d(~h, v, pad=1) | add x:tensor",
       {{"x", {1, 6, 5, 8}}, {"w", {12, 1, 1, 8}}, {"v", {8, 3, 3, 12}}}},
      mlp,
  };
  // Who took part at least once: a contender that refuses everything proves nothing.
  std::vector<std::string> seen;
  for (work const& each : works)
    for (std::string const precision : {"f32", "bf16"}) {
      work const w = with_precision(each, precision);
      CAPTURE(w.chain);
      line_up const l = line_up_of(w, [](line_up_maker& m, std::shared_ptr<workload> const& load) {
        m.join("reference", reference(load), fusion::fused);
        for (fusion f : {fusion::fused, fusion::step_by_step}) {
          std::string const steps = f == fusion::fused ? "" : "_steps";
          m.join("raw" + steps, raw_onednn("raw" + steps, load, f), f);
          for (std::string const& b : backends_of({}))
            m.join(b + steps, sinter_call(b + steps, load, b, f), f);
        }
        m.join_peers({});
      });
      CHECK(l.wrong == "");
      for (auto const& c : l.contenders) seen.push_back(c->name());
    }
  auto const times = [&seen](std::string const& name) {
    return std::count(seen.begin(), seen.end(), name);
  };
  CHECK(times("reference") == static_cast<long>(2 * works.size()));
#if SINTER_WITH_ONEDNN
  CHECK(times("raw") >= 30);
  CHECK(times("raw_steps") >= 30);
#endif
  for (peer const& p : all_peers()) {
    CAPTURE(p.name);
    CHECK(times(p.name) >= (std::string(p.name) == "libxsmm" ? 4 : 5));
  }
}

TEST_CASE("groups: names say the memory") {
  std::vector<group> groups;
  group like;
  like.name = "ops/x/f32";
  like.table = "ops/x f32";
  work const large{"relu(x:tensor)", {{"x", {512, 1024}}}};
  add_everyone(groups, like, large, {}, {}, true);
  REQUIRE(groups.size() == 2);
  CHECK(groups[0].full_name() == "ops/x/f32/warm");
  CHECK(groups[1].full_name() == "ops/x/f32/cold");
  CHECK(groups[1].full_table() == "ops/x f32 cold");
  add_everyone(groups, like, {"relu(x:tensor)", {{"x", {4}}}}, {}, {}, true);
  CHECK(groups.size() == 3);
  like.where = memory::none;
  CHECK(like.full_name() == "ops/x/f32");
}

TEST_CASE("record: text for JSON") {
  CHECK(quoted("a \"b\" \\ c\n") == R"("a \"b\" \\ c ")");
  machine_record r;
  r.clock = 2e9;
  r.peaks = {{"f32", "fma", 1e11}};
  r.reads = {{4096, 2e11}, {8192, 1e11}};
  CHECK(
      r.json() ==
      R"({"clock": 2e+09, "peaks": {"f32": {"flops": 1e+11, "instruction": "fma"}}, )"
      R"("reads": [{"bytes": 4096, "per_second": 2e+11}, {"bytes": 8192, "per_second": 1e+11}]})");
}

TEST_CASE(
    "rules of dispatch: each has a problem that `bench rules` measures, or says why it has none") {
  // Nothing is generated for the first two, so there is nothing to compare; sinter_bench_threads
  // measures threads.
  std::set<std::string_view> decided{"integers", "no vector code", "threads of another executor"};
  std::size_t const excused = decided.size();
  for (sinter::isa level : {sinter::isa::avx2, sinter::isa::avx512, sinter::isa::avx512_bf16})
    for (work const& w : rule_problems())
      for (std::string const precision : {"f32", "bf16"}) {
        auto const p = workload::describe(with_precision(w, precision));
        REQUIRE_MESSAGE(p.ok(), p.error().message);
        sinter::problem_facts facts = sinter::facts_of(*p);
        facts.level = level;
        decided.insert(sinter::rule_for(facts).name);
      }
  CHECK(excused < decided.size());
  for (sinter::dispatch_rule const& rule : sinter::dispatch_table)
    CHECK_MESSAGE(decided.count(rule.name) == 1, std::string(rule.name));
  CHECK(decided.size() == std::size(sinter::dispatch_table));
}
