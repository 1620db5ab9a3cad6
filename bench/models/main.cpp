// sinter_bench_models: whole networks against oneDNN, and where their time goes.
//
//   Sinter     the network of examples/models, one call of one thread
//   raw        (a) its groups as raw oneDNN primitives one by one, in the best layouts (raw_layers.hpp)
//   graph      (b) the same network through oneDNN Graph (graph_onednn.hpp), where the library has it
//
// The three take turns, A B C A B C; a time is the median over rounds. Group by group, Sinter and raw take turns in the
// same way. Markdown on stdout, JSON where --json says. Peaks are those of this run.
#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include <sinter/isa/machine.hpp>

#include "../../examples/models/all.hpp"
#include "../support/peaks.hpp"
#include "profile.hpp"
#if SINTER_WITH_ONEDNN
#include "raw_layers.hpp"
#endif
#if SINTER_BENCH_GRAPH
#include "graph_onednn.hpp"
#endif

namespace {

using namespace sinter_bench;
using json = nlohmann::json;
using clock_type = std::chrono::steady_clock;

constexpr char usage[] =
    R"(usage: sinter_bench_models [options] [model ...]

  --precision=f32,bf16   one of them, or both as if not given
  --batch=N              images in a call (1)
  --rounds=N             turns of each contender (9)
  --groups=N             groups of each network that are printed, the largest losses first (8); 0: none; all
  --no-graph             leave oneDNN Graph out
  --json=FILE            everything, group by group

Models are those of examples/models; all ten where none is named.
)";

struct settings {
  std::vector<std::string> models;
  std::vector<std::string> precisions{"f32", "bf16"};
  int rounds = 9, groups = 8;
  sinter::extent batch = 1;
  bool graph = true;
  std::string json_file;
};

double median(std::vector<double> v) {
  if (v.empty()) return 0;
  std::nth_element(v.begin(), v.begin() + static_cast<std::ptrdiff_t>(v.size() / 2), v.end());
  return v[v.size() / 2];
}

/// Ceilings of one thread.
struct ceilings {
  double flops = 0;
  double l2 = 0, l3 = 0, memory = 0;  ///< bytes per second
  double l2_bytes = 0, l3_bytes = 0;

  double bandwidth(double bytes) const {
    return bytes <= l2_bytes ? l2 : bytes <= l3_bytes ? l3 : memory;
  }
};

ceilings measure_ceilings(sinter::dtype t) {
  auto const& caches = sinter::this_machine().caches;
  ceilings c;
  arithmetic_peak const peak = peak_of(t);
  if (peak.run != nullptr) c.flops = measure_flops(peak);
  c.l2_bytes = static_cast<double>(caches.l2);
  c.l3_bytes = static_cast<double>(caches.l3);
  c.l2 = measure_bandwidth(static_cast<std::size_t>(caches.l2 / 2));
  c.l3 = measure_bandwidth(static_cast<std::size_t>(caches.l2 * 4));
  c.memory = measure_bandwidth(std::size_t{256} << 20);
  return c;
}

struct contender {
  std::string name;
  std::function<void()> run;
  std::vector<double> seconds = {};
};

/// Each in turn, as often as makes a sample of 20 ms.
void measure(std::vector<contender>& all, int rounds) {
  auto const time = [](contender& c, int times) {
    auto const start = clock_type::now();
    for (int i = 0; i < times; ++i) c.run();
    return std::chrono::duration<double>(clock_type::now() - start).count() / times;
  };
  std::vector<int> times;
  for (contender& c : all) {
    c.run();
    times.push_back(std::clamp(static_cast<int>(0.02 / time(c, 1)), 1, 50));
  }
  for (int r = 0; r < rounds; ++r)
    for (std::size_t i = 0; i < all.size(); ++i) all[i].seconds.push_back(time(all[i], times[i]));
}

/// Seconds of each step of a sequence, one median each.
struct step_times {
  std::function<void(int)> run;
  std::vector<std::vector<double>> seconds = {};

  void round() {
    for (std::size_t i = 0; i < seconds.size(); ++i) {
      auto const start = clock_type::now();
      run(static_cast<int>(i));
      seconds[i].push_back(std::chrono::duration<double>(clock_type::now() - start).count());
    }
  }
};

struct group_row {
  std::string label, implementation, raw_implementation;
  double ms = 0, raw_ms = 0, roofline_ms = 0, flops = 0;
  bool linear = false;
};

struct model_row {
  std::string model, precision;
  double ms = 0, raw_ms = 0, graph_ms = 0;
  double flops = 0, peak = 0;
  double window_flops = 0, window_ms = 0;  ///< without linear layers
  double arena = 0, intermediates = 0, least = 0;
  int copies = 0;
  std::vector<group_row> groups;
  std::vector<std::string> absent;
};

/// Problems that raw oneDNN runs, and for each group which of them it is (-1: a copy).
struct raw_list {
  std::vector<sinter::problem const*> problems;
  std::vector<int> of_group;
};
raw_list list_problems(profile const& p) {
  raw_list list;
  for (int i = 0; i < p.count(); ++i) {
    list.of_group.push_back(p.is_copy(i) ? -1 : static_cast<int>(list.problems.size()));
    if (!p.is_copy(i)) list.problems.push_back(&p.problem(i));
  }
  return list;
}

void fill_groups(model_row& row, profile& ours, ceilings const& top, step_times const& mine,
                 step_times const& raw, raw_list const& list) {
  double weights = 0;
  for (int i = 0; i < ours.count(); ++i) weights += ours.weight_bytes(i);
  for (int i = 0; i < ours.count(); ++i) {
    auto const index = static_cast<std::size_t>(i);
    group_row g;
    g.label = ours.label(i);
    g.implementation = ours.implementation(i);
    g.ms = 1e3 * median(mine.seconds[index]);
    if (int const r = list.of_group[index]; r >= 0 && !raw.seconds.empty())
      g.raw_ms = 1e3 * median(raw.seconds[static_cast<std::size_t>(r)]);
    g.flops = ours.flops(i);
    double const moved = ours.activation_bytes(i) / top.bandwidth(ours.activation_bytes(i)) +
                         ours.weight_bytes(i) / top.bandwidth(weights);
    g.roofline_ms = 1e3 * std::max(g.flops / top.flops, moved);
    g.linear = ours.is_linear(i);
    row.flops += g.flops;
    if (!g.linear) {
      row.window_flops += g.flops;
      row.window_ms += g.ms;
    }
    row.groups.push_back(std::move(g));
  }
}

model_row run_model(std::string const& name, std::string const& precision, settings const& s,
                    ceilings const& top) {
  models::architecture const& a = *models::find_architecture(name);
  model_row row;
  row.model = name;
  row.precision = precision;
  row.peak = top.flops;
  sinter::precision const dtypes = precision == "bf16" ? sinter::bf16 : sinter::f32;
  // Raw oneDNN has its own answers for NaN, so Sinter may have them too.
  sinter::options const o{.numerics = sinter::numerics::peer};
  models::builder net(dtypes, example::weights::formula(name), o);
  auto const image = net.input("image", {s.batch, 224, 224, 3}, dtypes.src);
  auto const built = net.build(a.add(net, image));
  profile ours(built.value());
  auto const memory = built->memory();
  row.arena = static_cast<double>(memory.arena);
  row.intermediates = static_cast<double>(memory.intermediates);
  row.least = static_cast<double>(memory.least);
  row.copies = built->copy_count();

  std::vector<contender> all{{"sinter", [&] { ours.run(); }}};
  step_times mine{[&](int i) { ours.run_one(i); }}, raw{{}};
  mine.seconds.resize(static_cast<std::size_t>(ours.count()));
  raw_list const list = list_problems(ours);
#if SINTER_WITH_ONEDNN
  auto layers = raw_layers::make(list.problems);
  if (layers.ok()) {
    all.push_back({"raw", [&] { layers->run(); }});
    raw.run = [&](int i) { layers->run_one(i); };
    raw.seconds.resize(list.problems.size());
  } else {
    row.absent.push_back(layers.error().message);
  }
#endif
#if SINTER_BENCH_GRAPH
  std::unique_ptr<graph_onednn> graph;
  if (s.graph) {
    auto made = graph_onednn::make(net.graph());
    if (made.ok()) {
      graph = std::make_unique<graph_onednn>(std::move(*made));
      all.push_back({"graph", [&] { graph->run(); }});
    } else {
      row.absent.push_back(made.error().message);
    }
  }
#endif
  measure(all, s.rounds);
  for (contender const& c : all)
    (c.name == "sinter" ? row.ms
     : c.name == "raw"  ? row.raw_ms
                        : row.graph_ms) = 1e3 * median(c.seconds);
  for (int r = 0; r < s.rounds; ++r) {
    mine.round();
    raw.round();
  }
  fill_groups(row, ours, top, mine, raw, list);
#if SINTER_WITH_ONEDNN
  for (std::size_t i = 0; i < row.groups.size() && layers.ok(); ++i)
    if (list.of_group[i] >= 0)
      row.groups[i].raw_implementation = layers->implementation(list.of_group[i]);
#endif
  return row;
}

// ---- what is printed

void print_groups(model_row const& r, int most) {
  std::vector<group_row const*> order;
  double sum = 0;
  for (group_row const& g : r.groups) {
    order.push_back(&g);
    sum += g.ms;
  }
  if (most < static_cast<int>(order.size())) {
    std::stable_sort(order.begin(), order.end(), [](auto const* a, auto const* b) {
      return a->ms - a->raw_ms > b->ms - b->raw_ms;
    });
    order.resize(static_cast<std::size_t>(most));
  }
  if (order.empty()) return;
  std::printf("\n### %s %s, groups\n\n", r.model.c_str(), r.precision.c_str());
  std::printf(
      "| group | ms | share | of its roofline | raw ms | Sinter/raw | Sinter | raw |\n"
      "|---|--:|--:|--:|--:|--:|---|---|\n");
  for (group_row const* g : order) {
    std::string label = g->label;
    std::replace(label.begin(), label.end(), '|', ';');
    std::printf("| %s | %.3f | %.1f %% | %.0f %% | %.3f | %.2f | %s | %s |\n", label.c_str(), g->ms,
                100 * g->ms / sum, 100 * g->roofline_ms / g->ms, g->raw_ms,
                g->raw_ms > 0 ? g->ms / g->raw_ms : 0, g->implementation.c_str(),
                g->raw_implementation.c_str());
  }
  std::fflush(stdout);
}

void print_summary(std::vector<model_row> const& rows) {
  std::printf(
      "\n## Networks\n\n"
      "| model | type | Sinter ms | %% of peak | without linear layers | raw ms | Sinter/raw | "
      "graph ms | graph/Sinter | arena / least / all MB | copies |\n"
      "|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n");
  for (model_row const& r : rows) {
    double const mb = 1e-6;
    std::printf(
        "| %s | %s | %.3f | %.1f | %.1f | %.3f | %.3f | %.3f | %.2f | %.1f / %.1f / %.1f | %d |\n",
        r.model.c_str(), r.precision.c_str(), r.ms, 1e5 * r.flops / r.ms / r.peak,
        1e5 * r.window_flops / r.window_ms / r.peak, r.raw_ms, r.raw_ms > 0 ? r.ms / r.raw_ms : 0,
        r.graph_ms, r.graph_ms / r.ms, r.arena * mb, r.least * mb, r.intermediates * mb, r.copies);
  }
  for (char const* precision : {"f32", "bf16"}) {
    double raw = 0, graph = 0;
    int raws = 0, graphs = 0;
    for (model_row const& r : rows) {
      if (r.precision != precision) continue;
      if (r.raw_ms > 0) raw += std::log(r.ms / r.raw_ms), ++raws;
      if (r.graph_ms > 0) graph += std::log(r.graph_ms / r.ms), ++graphs;
    }
    if (raws > 0)
      std::printf("\n%s: Sinter/raw %.3f (geometric mean of %d)", precision, std::exp(raw / raws),
                  raws);
    if (graphs > 0) std::printf(", graph/Sinter %.3f (of %d)", std::exp(graph / graphs), graphs);
    std::printf("\n");
  }
  for (model_row const& r : rows)
    for (std::string const& why : r.absent)
      std::printf("%s %s: %s\n", r.model.c_str(), r.precision.c_str(), why.c_str());
}

json as_json(model_row const& r) {
  json groups = json::array();
  for (group_row const& g : r.groups)
    groups.push_back({{"group", g.label},
                      {"ms", g.ms},
                      {"raw_ms", g.raw_ms},
                      {"roofline_ms", g.roofline_ms},
                      {"flops", g.flops},
                      {"linear", g.linear},
                      {"implementation", g.implementation},
                      {"raw_implementation", g.raw_implementation}});
  return {{"model", r.model},       {"precision", r.precision}, {"ms", r.ms},
          {"raw_ms", r.raw_ms},     {"graph_ms", r.graph_ms},   {"flops", r.flops},
          {"peak_flops", r.peak},   {"arena", r.arena},         {"intermediates", r.intermediates},
          {"least_arena", r.least}, {"copies", r.copies},       {"absent", r.absent},
          {"groups", groups}};
}

settings parse(int argc, char** argv) {
  settings s;
  for (int i = 1; i < argc; ++i) {
    std::string const word = argv[i];
    std::string const value = word.substr(std::min(word.find('=') + 1, word.size()));
    if (word.starts_with("--precision=")) {
      if (value == "f32" || value == "bf16") s.precisions = {value};
    } else if (word.starts_with("--batch=")) {
      s.batch = std::stoi(value);
    } else if (word.starts_with("--rounds=")) {
      s.rounds = std::stoi(value);
    } else if (word.starts_with("--groups=")) {
      s.groups = value == "all" ? 1 << 20 : std::stoi(value);
    } else if (word == "--no-graph") {
      s.graph = false;
    } else if (word.starts_with("--json=")) {
      s.json_file = value;
    } else if (models::find_architecture(word) != nullptr) {
      s.models.push_back(word);
    } else {
      std::fputs(usage, stderr);
      std::exit(word == "--help" ? 0 : 2);
    }
  }
  if (s.models.empty())
    for (models::architecture const& a : models::architectures) s.models.emplace_back(a.name);
  return s;
}

/// OpenMP's count, by name: libdnnl brings the runtime, if there is one.
void use_one_thread() {
  if (auto const set = reinterpret_cast<void (*)(int)>(dlsym(RTLD_DEFAULT, "omp_set_num_threads")))
    set(1);
}

void run(settings const& s) {
  use_one_thread();
  std::printf("%s\n", sinter::machine_report().c_str());
  std::vector<model_row> rows;
  json all = json::array();
  for (std::string const& precision : s.precisions) {
    ceilings const top =
        measure_ceilings(precision == "bf16" ? sinter::dtype::bf16 : sinter::dtype::f32);
    std::printf("%s: peak %.0f GFLOP/s; reads %.0f, %.0f, %.0f GB/s from L2, L3, memory\n",
                precision.c_str(), top.flops * 1e-9, top.l2 * 1e-9, top.l3 * 1e-9,
                top.memory * 1e-9);
    for (std::string const& name : s.models) {
      rows.push_back(run_model(name, precision, s, top));
      print_groups(rows.back(), s.groups);
      all.push_back(as_json(rows.back()));
    }
  }
  print_summary(rows);
  if (!s.json_file.empty())
    std::ofstream(s.json_file)
        << json{{"cpu", sinter::this_machine().brand}, {"batch", s.batch}, {"networks", all}}.dump(
               1)
        << "\n";
}

}  // namespace

int main(int argc, char** argv) {
  try {
    run(parse(argc, argv));
    return 0;
  } catch (std::exception const& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}
