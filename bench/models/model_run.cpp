#include "model_run.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <ctime>
#include <functional>
#include <memory>
#include <optional>

#include <sinter/isa/machine.hpp>

#include "../../examples/models/all.hpp"
#include "profile.hpp"
#if SINTER_WITH_ONEDNN
#include "raw_layers.hpp"
#endif
#if SINTER_BENCH_GRAPH
#include "graph_onednn.hpp"
#endif
#if defined(_OPENMP)
#include <sinter/openmp.hpp>
#endif

namespace sinter_bench {
namespace {

constexpr std::size_t at(int i) { return static_cast<std::size_t>(i); }

double median(std::vector<double> v) {
  if (v.empty()) return 0;
  std::nth_element(v.begin(), v.begin() + static_cast<std::ptrdiff_t>(v.size() / 2), v.end());
  return v[v.size() / 2];
}

/// Seconds of the process, or elapsed where threads share the work.
double now(bool elapsed) {
  if (elapsed)
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
  timespec t{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

/// Peaks of one thread, of the machine's record.
struct ceilings {
  double flops = 0;
  std::vector<machine_record::bandwidth> reads;

  ceilings(machine_record const& m, std::string const& precision) {
    for (auto const& p : m.peaks)
      if (p.type == precision) flops = p.flops;
    // What a group reads was written by the one before it, so the first cache holds no more than a part of it.
    reads.assign(m.reads.begin() + (m.reads.size() > 1 ? 1 : 0), m.reads.end());
  }
  /// The reads were of half a cache each, the last one of memory.
  double seconds_of(double bytes, double lies_in) const {
    for (auto const& r : reads)
      if (lies_in <= 2 * r.bytes || &r == &reads.back()) return bytes / r.per_second;
    return 0;
  }
};

struct contender {
  std::string name, detail;
  std::function<void()> run;
  std::vector<double> ms = {};
};

/// Each in turn, as often as makes a sample of 20 ms.
void measure(std::vector<contender>& all, int rounds, bool elapsed) {
  auto const time = [elapsed](contender& c, int times) {
    double const start = now(elapsed);
    for (int i = 0; i < times; ++i) c.run();
    return 1e3 * (now(elapsed) - start) / times;
  };
  std::vector<int> times;
  for (contender& c : all) {
    c.run();
    times.push_back(std::clamp(static_cast<int>(20 / std::max(time(c, 1), 1e-3)), 1, 50));
  }
  for (int r = 0; r < rounds; ++r)
    for (std::size_t i = 0; i < all.size(); ++i) all[i].ms.push_back(time(all[i], times[i]));
}

/// Milliseconds of each step of a sequence in each round.
struct step_times {
  std::function<void(int)> run = {};
  std::vector<std::vector<double>> ms = {};

  /// A step takes some microseconds, and asking for the time of the process a part of one.
  void round() {
    for (std::size_t i = 0; i < ms.size(); ++i) {
      double const start = now(false);
      run(static_cast<int>(i));
      ms[i].push_back(1e3 * std::max(now(false) - start - clock_cost_, 0.0));
    }
  }

 private:
  static double cost_of_clock() {
    double least = 1;
    for (int i = 0; i < 100; ++i) {
      double const start = now(false);
      least = std::min(least, now(false) - start);
    }
    return least;
  }
  double clock_cost_ = cost_of_clock();
};

/// Problems that raw oneDNN runs, and for each group which of them it is (-1: a copy).
struct raw_list {
  std::vector<sinter::problem const*> problems;
  std::vector<int> of_group;

  explicit raw_list(profile const& p) {
    for (int i = 0; i < p.count(); ++i) {
      of_group.push_back(p.is_copy(i) ? -1 : static_cast<int>(problems.size()));
      if (!p.is_copy(i)) problems.push_back(&p.problem(i));
    }
  }
};

sinter::options options_of(int threads, sinter::strip_policy stretches) {
  sinter::options o;
  o.stretches = stretches;
  // Raw oneDNN has its own answers for NaN, so Sinter may have them too.
  o.numerics = sinter::numerics::peer;
#if defined(_OPENMP)
  if (threads > 1) {
    o.threads = threads;
    o.executor = &sinter::openmp_threads;
  }
#endif
  (void)threads;
  return o;
}

/// A network with its weights and a call of it.
class made_network {
 public:
  made_network(std::string const& name, sinter::precision const& dtypes, sinter::extent batch,
               int threads, sinter::strip_policy stretches = sinter::strip_policy::by_rule)
      : builder_(dtypes, example::weights::formula(name), options_of(threads, stretches)) {
    auto const image = builder_.input("image", {batch, 224, 224, 3}, dtypes.src);
    net_.emplace(
        std::move(builder_.build(models::find_architecture(name)->add(builder_, image)).value()));
    profile_ = std::make_unique<profile>(*net_);
  }
  sinter::network const& net() const { return *net_; }
  profile& groups() { return *profile_; }
  sinter::detail::network_graph const& graph() const { return builder_.graph(); }

 private:
  models::builder builder_;
  std::optional<sinter::network> net_;
  std::unique_ptr<profile> profile_;
};

/// Everything that takes part in one measurement.
class race {
 public:
  race(model_row& row, model_settings const& s)
      : row_(row),
        settings_(s),
        dtypes_(row.precision == "bf16" ? sinter::bf16 : sinter::f32),
        ours_(row.model, dtypes_, row.batch, 1),
        list_(ours_.groups()) {
    add_raw();
    add("sinter", std::to_string(ours_.groups().count()) + " groups",
        [this] { ours_.groups().run(); });
    add_graph();
    if (row.threads > 1) {
      shared_ = std::make_unique<made_network>(row.model, dtypes_, row.batch, row.threads);
      add(row.threads == 2 ? "two_threads" : "threads" + std::to_string(row.threads), "",
          [this] { shared_->groups().run_shared(); });
    }
    if (row.batch > 1) {
      whole_ = std::make_unique<made_network>(row.model, dtypes_, row.batch, 1,
                                              sinter::strip_policy::never);
      add("whole_batch", "", [this] { whole_->groups().run(); });
      single_ = std::make_unique<made_network>(row.model, dtypes_, 1, 1);
      add("one_by_one", "", [this] {
        for (sinter::extent i = 0; i < row_.batch; ++i) single_->groups().run();
      });
    }
  }

  void run() {
    measure(all_, settings_.rounds, row_.threads > 1);
    for (contender& c : all_) {
      row_.order.push_back(c.name);
      row_.details[c.name] = c.detail;
      row_.ms[c.name] = std::move(c.ms);
    }
    mine_.run = [this](int i) { ours_.groups().run_one(i); };
    mine_.ms.resize(at(ours_.groups().count()));
    for (int r = 0; r < settings_.rounds && settings_.groups > 0; ++r) {
      mine_.round();
      raw_.round();
    }
  }

  profile& ours() { return ours_.groups(); }
  sinter::network const& net() const { return ours_.net(); }
  group_row times_of(int i) const {
    group_row g;
    g.ms = median(mine_.ms[at(i)]);
#if SINTER_WITH_ONEDNN
    if (int const r = list_.of_group[at(i)]; r >= 0 && layers_) {
      g.raw_ms = median(raw_.ms[at(r)]);
      g.raw_implementation = layers_->implementation(r);
    }
#endif
    return g;
  }

 private:
  void add(std::string name, std::string detail, std::function<void()> run) {
    all_.push_back({std::move(name), std::move(detail), std::move(run)});
  }
  void add_raw() {
#if SINTER_WITH_ONEDNN
    if (!settings_.raw) return;
    auto made = raw_layers::make(list_.problems);
    if (!made.ok()) {
      row_.absent["raw"] = made.error().message;
      return;
    }
    layers_.emplace(std::move(*made));
    raw_.run = [this](int i) { layers_->run_one(i); };
    raw_.ms.resize(list_.problems.size());
    add("raw", std::to_string(layers_->count()) + " layers", [this] { layers_->run(); });
#endif
  }
  void add_graph() {
#if SINTER_BENCH_GRAPH
    if (!settings_.graph) return;
    auto made = graph_onednn::make(ours_.graph());
    if (!made.ok()) {
      row_.absent["graph"] = made.error().message;
      return;
    }
    graph_.emplace(std::move(*made));
    add("graph", std::to_string(graph_->partition_count()) + " partitions",
        [this] { graph_->run(); });
#endif
  }

  model_row& row_;
  model_settings const& settings_;
  sinter::precision dtypes_;
  made_network ours_;
  raw_list list_;
  std::unique_ptr<made_network> shared_, whole_, single_;
#if SINTER_WITH_ONEDNN
  std::optional<raw_layers> layers_;
#endif
#if SINTER_BENCH_GRAPH
  std::optional<graph_onednn> graph_;
#endif
  std::vector<contender> all_;
  step_times mine_, raw_;
};

/// What group i has to do, and its times.
group_row row_of(race& r, ceilings const& top, int i, double weights) {
  profile& ours = r.ours();
  group_row g = r.times_of(i);
  g.label = ours.label(i);
  g.extents = ours.extents(i);
  g.implementation = ours.implementation(i);
  g.copy = ours.is_copy(i);
  g.flops = ours.flops(i);
  double const activations = ours.activation_bytes(i);
  g.bytes = activations + ours.weight_bytes(i);
  // Weights come back once per call of the whole network, activations were just written.
  double const moved =
      top.seconds_of(activations, activations) + top.seconds_of(ours.weight_bytes(i), weights);
  g.roofline_ms = 1e3 * std::max(top.flops > 0 ? g.flops / top.flops : 0, moved);
  g.linear = ours.is_linear(i);
  return g;
}
/// What group i takes at least: its multiply-adds, with pixels of the image, at the peak, or its weights read once.
double least_ms(profile& ours, ceilings const& top, int i, double weights) {
  double const adds = top.flops > 0 ? ours.flops_inside(i) / top.flops : 0;
  return 1e3 * std::max(adds, top.seconds_of(ours.weight_bytes(i), weights));
}
/// Groups that run together are one row.
void join_row(group_row& to, group_row const& g) {
  to.ms += g.ms;
  to.raw_ms += g.raw_ms;
  to.roofline_ms += g.roofline_ms;
  to.flops += g.flops;
  to.bytes += g.bytes;
  to.linear = to.linear && g.linear;
  to.copy = to.copy && g.copy;
  to.label += "; " + g.label;
  to.extents += "; " + g.extents;
  to.implementation += "; " + g.implementation;
  to.raw_implementation += "; " + g.raw_implementation;
}

void fill_groups(model_row& row, race& r, ceilings const& top) {
  profile& ours = r.ours();
  double weights = 0;
  for (int i = 0; i < ours.count(); ++i) weights += ours.weight_bytes(i);
  for (int i = 0; i < ours.count(); ++i) row.bound_ms += least_ms(ours, top, i, weights);
  for (int i = 0; i < ours.count(); ++i) {
    int const last = ours.last_with(i);
    group_row g = row_of(r, top, i, weights);
    if (last > i)
      g.label = std::to_string(last - i + 1) + " groups " + ours.how(i) + ": " + g.label;
    while (i < last) join_row(g, row_of(r, top, ++i, weights));
    row.flops += g.flops;
    row.bytes += g.bytes;
    if (!g.linear) {
      row.window_flops += g.flops;
      row.window_ms += g.ms;
    }
    row.groups.push_back(std::move(g));
  }
}

struct own_batch {
  std::string_view model;
  sinter::extent images;
};
/// TorchBench's own batch sizes.
constexpr own_batch torchbench[] = {
    {"alexnet", 128},      {"densenet121", 64}, {"mnasnet1_0", 32},     {"mobilenet_v2", 16},
    {"resnet18", 8},       {"resnet50", 32},    {"resnext50_32x4d", 8}, {"shufflenet_v2_x1_0", 64},
    {"squeezenet1_1", 16}, {"vgg16", 4}};

}  // namespace

sinter::extent model_settings::batch_of(std::string const& model) const {
  for (own_batch const& b : torchbench)
    if (own_batches && b.model == model) return b.images;
  return batch;
}

std::string model_row::name() const {
  std::string text = "models/networks/" + model;
  if (batch > 1) text += "/batch" + std::to_string(batch);
  if (threads > 1) text += "/threads" + std::to_string(threads);
  return text + "/" + precision;
}
double model_row::median_ms(std::string const& contender) const {
  auto const found = ms.find(contender);
  return found == ms.end() ? 0 : median(found->second);
}
double model_row::part_of_peak() const {
  double const t = median_ms("sinter");
  return t > 0 && peak > 0 ? 1e3 * flops / t / peak : 0;
}
double model_row::window_part_of_peak() const {
  return window_ms > 0 && peak > 0 ? 1e3 * window_flops / window_ms / peak : 0;
}

model_row run_model(std::string const& name, std::string const& precision,
                    model_settings const& settings, machine_record const& machine) {
  ceilings const top(machine, precision);
  model_row row;
  row.model = name;
  row.precision = precision;
  row.batch = settings.batch_of(name);
  row.threads = settings.threads;
  row.peak = top.flops;
  race r(row, settings);
  auto const memory = r.net().memory();
  row.arena = static_cast<double>(memory.arena);
  row.intermediates = static_cast<double>(memory.intermediates);
  row.least = static_cast<double>(memory.least);
  row.copies = r.net().copy_count();
  r.run();
  fill_groups(row, r, top);
  return row;
}

bool has_threads() {
#if defined(_OPENMP)
  return true;
#else
  return false;
#endif
}

}  // namespace sinter_bench
