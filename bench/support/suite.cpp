// Runs groups through Google Benchmark and prints what they say beside each other.
#include "suite.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <map>
#include <regex>

#include <sinter/core/buffer.hpp>

#include "peaks.hpp"
#include "record.hpp"

namespace sinter_bench {
namespace {

double median(std::vector<double> v) {
  if (v.empty()) return 0;
  std::sort(v.begin(), v.end());
  std::size_t const half = v.size() / 2;
  return v.size() % 2 == 1 ? v[half] : (v[half - 1] + v[half]) / 2;
}

/// Half the distance between the quartiles, as a part of the median.
double spread(std::vector<double> v) {
  if (v.size() < 4) return 0;
  double const middle = median(v);
  std::sort(v.begin(), v.end());
  return (v[v.size() * 3 / 4] - v[v.size() / 4]) / 2 / middle;
}

/// Why a run gave no time; empty where it did. Google Benchmark 1.8 gave the fields another name.
template <class Run>
std::string failure_of(Run const& r) {
  if constexpr (requires { r.error_occurred; })
    return r.error_occurred ? r.error_message : "";
  else
    return r.skipped != decltype(r.skipped){} ? r.skip_message : "";
}

/// Collects the repetitions of each contender in nanoseconds, and passes everything on to a JSON file.
class collector final : public benchmark::BenchmarkReporter {
 public:
  explicit collector(std::string const& file) {
    if (file.empty()) return;
    out_.open(file);
    json_.SetOutputStream(&out_);
    json_.SetErrorStream(&out_);
  }
  bool ReportContext(Context const& context) override {
    if (out_.is_open() && !started_) json_.ReportContext(context);
    started_ = true;
    return true;
  }
  void ReportRuns(std::vector<Run> const& runs) override {
    for (Run const& r : runs) {
      std::string const why = failure_of(r);
      if (!why.empty()) failed_ = r.benchmark_name() + ": " + why;
      if (r.run_type == Run::RT_Iteration && why.empty())
        times_[r.run_name.function_name].push_back(r.GetAdjustedCPUTime());
    }
    if (out_.is_open()) json_.ReportRuns(runs);
  }
  /// `ours`: the value of one more member of the file's object, "sinter".
  void finish(std::string const& ours) {
    if (!out_.is_open() || !started_) return;
    out_ << "\n  ],\n  \"sinter\": " << ours << "\n}\n";
    out_.close();
  }

  std::vector<double> take(std::string const& name) { return std::exchange(times_[name], {}); }
  std::string take_failure() { return std::exchange(failed_, {}); }

 private:
  std::ofstream out_;
  benchmark::JSONReporter json_;
  bool started_ = false;
  std::string failed_;
  std::map<std::string, std::vector<double>> times_;
};

/// Contenders of our own that say where the ceiling is: measured in turn with the others.
struct ceiling {
  char kind = ' ';  ///< F: multiply-adds, M: memory
  double work = 0;  ///< of one iteration: operations, or bytes
  std::shared_ptr<sinter::buffer> memory;
  std::unique_ptr<contender> loop;
};

ceiling make_ceiling(line_up const& l) {
  static std::map<sinter::dtype, std::pair<arithmetic_peak, double>> peaks;
  static double const bandwidth = measure_bandwidth(std::size_t{64} << 20);
  ceiling c;
  if (l.bytes <= 0) return c;
  if (!peaks.count(l.type)) {
    arithmetic_peak const p = peak_of(l.type);
    peaks[l.type] = {p, measure_flops(p)};
  }
  auto const& [peak, flops] = peaks[l.type];
  if (peak.run == nullptr || bandwidth <= 0) return c;
  if (l.flops / flops >= l.bytes / bandwidth) {
    constexpr std::int64_t rounds = 500;
    c.kind = 'F';
    c.work = peak.flops_per_round * static_cast<double>(rounds);
    c.loop = make_contender("ceiling", peak.instruction, [run = peak.run] { run(rounds); });
    return c;
  }
  auto const bytes = std::max<std::size_t>(4096, static_cast<std::size_t>(l.bytes) / 4096 * 4096);
  auto const copies = static_cast<std::size_t>(l.copies);
  c.memory = std::make_shared<sinter::buffer>(bytes * copies);
  if (c.memory->failed()) return c;
  std::fill_n(c.memory->data(), bytes * copies, std::byte{1});
  c.kind = 'M';
  c.work = static_cast<double>(bytes);
  read_peak const all = find_read_peak(c.memory->data(), bytes * copies);
  c.loop = make_contender(
      "ceiling", "read",
      [run = all.run, data = c.memory->data(), bytes, copies, next = std::size_t{0}]() mutable {
        run(data + next * bytes, bytes);
        next = next + 1 == copies ? 0 : next + 1;
      });
  return c;
}

void enlist(group const& g, contender& c) {
  auto* const b = benchmark::RegisterBenchmark((g.full_name() + "/" + c.name()).c_str(),
                                               [&c](benchmark::State& state) { c.loop(state); });
  b->Unit(benchmark::kNanosecond)->MeasureProcessCPUTime();
  if (g.repetitions > 0) b->Repetitions(g.repetitions);
  if (!g.promises.empty()) b->MinTime(0.01);  // a promise is judged with care, --quick or not
}

/// What a rule of dispatch chooses is never slower than this part of another backend's speed.
constexpr double least_of_a_rule = 0.97;

std::string time_text(double nanoseconds) {
  char text[32];
  if (nanoseconds < 1e4)
    std::snprintf(text, sizeof text, "%.1f ns", nanoseconds);
  else if (nanoseconds < 1e7)
    std::snprintf(text, sizeof text, "%.2f us", nanoseconds * 1e-3);
  else
    std::snprintf(text, sizeof text, "%.2f ms", nanoseconds * 1e-6);
  return text;
}

/// Ratios of one contender in one table.
struct score {
  double log_sum = 0, least = 0, most = 0;
  int count = 0;
  std::string worst;
  void add(double ratio, std::string const& where) {
    if (count == 0 || ratio < least) {
      least = ratio;
      worst = where;
    }
    most = count == 0 ? ratio : std::max(most, ratio);
    log_sum += std::log(ratio);
    ++count;
  }
};

/// What was measured of one rule of dispatch.
struct rule_score {
  score ratios;   ///< the chosen backend's speed by the best other one's
  int alone = 0;  ///< problems that one backend alone is willing to compute
  std::vector<std::string> contradictions;
};

class suite_run {
 public:
  suite_run(std::string const& json, std::string machine)
      : results_(json), machine_(std::move(machine)) {}

  void run(group const& g) {
    line_up l = g.prepare();
    for (line_up::absence const& a : l.absent) {
      auto& entry = absent_[g.full_table() + "  " + a.name];
      if (entry.first++ == 0) entry.second = a.reason;
    }
    if (!l.wrong.empty()) {
      std::printf("FAILED %s: %s\n", g.full_name().c_str(), l.wrong.c_str());
      failed_ = true;
    }
    if (l.contenders.empty()) return describe(g, l, {});
    ++groups_run_;
    ceiling roof = make_ceiling(l);
    benchmark::ClearRegisteredBenchmarks();
    for (auto& c : l.contenders) enlist(g, *c);
    if (roof.loop) enlist(g, *roof.loop);
    if (l.steps) enlist(g, *l.steps);
    benchmark::RunSpecifiedBenchmarks(&results_, ".");
    if (std::string const why = results_.take_failure(); !why.empty()) {
      std::printf("FAILED %s\n", why.c_str());
      failed_ = true;
    }
    print(g, l, roof);
    describe(g, l, roof);
  }

  bool summary() {
    results_.finish("{\n    \"machine\": " + machine_ + ",\n    \"groups\": [" + groups_ +
                    "\n    ]\n  }");
    if (!scores_.empty() && groups_run_ > 2)
      std::printf(
          "\nsummary: how many times as fast as the first contender (geometric mean; least; "
          "most)\n");
    for (auto const& [key, s] : scores_)
      if (groups_run_ > 2)
        std::printf("  %-44s %5.2fx   least %5.2fx  most %6.2fx   %d problems, the least is %s\n",
                    key.c_str(), std::exp(s.log_sum / s.count), s.least, s.most, s.count,
                    s.worst.c_str());
    for (std::string const& text : promises_) std::printf("  %s\n", text.c_str());
    for (auto const& [name, r] : rules_) print_rule(name, r);
    for (auto const& [key, entry] : absent_)
      std::printf("  %s: absent from %d, for example: %s\n", key.c_str(), entry.first,
                  entry.second.c_str());
    return !failed_;
  }

 private:
  void print(group const& g, line_up const& l, ceiling const& roof) {
    double const top = roof.loop ? median(results_.take(g.full_name() + "/ceiling")) : 0;
    // The time that the work would take at the ceiling.
    double const ideal = top <= 0 ? 0 : (roof.kind == 'F' ? l.flops : l.bytes) / roof.work * top;
    double const steps = l.steps ? median(results_.take(g.full_name() + "/" + l.steps->name())) : 0;
    std::printf("%s", g.full_name().c_str());
    if (ideal > 0)
      std::printf("   [ceiling %.1f %s, %s]", roof.work / top,
                  roof.kind == 'F' ? "GFLOP/s" : "GB/s", roof.loop->detail().c_str());
    std::printf("\n");
    if (!l.model.empty()) std::printf("  %s\n", l.model.c_str());
    double base = 0, chosen = 0, best_other = 0;
    for (auto const& c : l.contenders) {
      std::vector<double> const times = results_.take(g.full_name() + "/" + c->name());
      double const t = median(times);
      if (t <= 0) continue;
      bool const first = base <= 0;
      if (first) base = t;
      std::printf("  %-16s %12s +-%4.1f%%", c->name().c_str(), time_text(t).c_str(),
                  100 * spread(times));
      if (ideal > 0) std::printf("  %5.1f%% of %c", 100 * ideal / t, roof.kind);
      if (first) {
        std::printf("          ");
      } else {
        std::printf("  %6.2fx ", base / t);
        scores_[g.full_table() + "  " + c->name()].add(base / t, g.full_name());
      }
      std::printf("  %s\n", c->detail().c_str());
      if (c->name() == l.issue_bound_of && steps > 0 && roof.kind == 'F')
        std::printf("    issue bound %s (multiply-adds %s, steps alone %s): %.1f%% of it\n",
                    time_text(ideal + steps).c_str(), time_text(ideal).c_str(),
                    time_text(steps).c_str(), 100 * (ideal + steps) / t);
      for (promise const& p : g.promises)
        if (p.contender == c->name()) judge(g, p, base, t);
      double& kind = c->name() == l.chosen ? chosen : best_other;
      kind = kind <= 0 ? t : std::min(kind, t);
    }
    if (!l.rule.empty()) judge_rule(g, l, chosen, best_other);
    std::fflush(stdout);
  }

  void judge_rule(group const& g, line_up const& l, double chosen, double best_other) {
    rule_score& r = rules_[l.rule];
    if (chosen <= 0 || best_other <= 0) {
      ++r.alone;
      std::printf("  rule '%s' asks %s: nobody else is willing\n", l.rule.c_str(),
                  l.chosen.empty() ? "nobody" : l.chosen.c_str());
      return;
    }
    double const ratio = best_other / chosen;
    bool const kept = ratio >= least_of_a_rule;
    r.ratios.add(ratio, g.full_name());
    char text[64];
    std::snprintf(text, sizeof text, "%.2fx: ", ratio);
    if (!kept) r.contradictions.push_back(text + g.full_name());
    std::printf("  rule '%s' takes %s, %.2fx of the other: %s\n", l.rule.c_str(), l.chosen.c_str(),
                ratio, kept ? "OK" : "contradiction");
  }

  static void print_rule(std::string const& name, rule_score const& r) {
    std::printf("  rule '%s': ", name.c_str());
    if (r.ratios.count > 0)
      std::printf("%.2fx of the other backend (least %.2fx, most %.2fx, %d problems), ",
                  std::exp(r.ratios.log_sum / r.ratios.count), r.ratios.least, r.ratios.most,
                  r.ratios.count);
    std::printf("%d with one willing: %s\n", r.alone,
                r.contradictions.empty() ? "OK" : "contradiction");
    for (std::string const& where : r.contradictions) std::printf("    %s\n", where.c_str());
  }

  void judge(group const& g, promise const& p, double base, double t) {
    double const allowed = std::max(p.nanoseconds, p.part * base);
    char text[256];
    if (p.absolute) {
      std::snprintf(text, sizeof text, "%s  %s: %s, allowed %s: %s", g.full_name().c_str(),
                    p.contender.c_str(), time_text(t).c_str(), time_text(p.nanoseconds).c_str(),
                    t <= p.nanoseconds ? "PASS" : "over");
      promises_.push_back(text);
      return;
    }
    std::snprintf(text, sizeof text, "%s  %s: %+.1f ns (%+.1f%%) over %.1f ns, allowed %.1f ns: %s",
                  g.full_name().c_str(), p.contender.c_str(), t - base, 100 * (t - base) / base,
                  base, allowed, t - base <= allowed ? "PASS" : "over");
    promises_.push_back(text);
  }

  /// What the report wants to know beside the times.
  void describe(group const& g, line_up const& l, ceiling const& roof) {
    std::string details, absent;
    for (auto const& c : l.contenders)
      details += (details.empty() ? "" : ", ") + quoted(c->name()) + ": " + quoted(c->detail());
    for (line_up::absence const& a : l.absent)
      absent += (absent.empty() ? "" : ", ") + quoted(a.name) + ": " + quoted(a.reason);
    char numbers[256];
    std::snprintf(
        numbers, sizeof numbers,
        R"("flops": %.6g, "bytes": %.6g, "copies": %d, "ceiling": "%c", "ceiling_work": %.6g)",
        l.flops, l.bytes, l.copies, roof.kind, roof.work);
    groups_ += std::string(groups_.empty() ? "" : ",") +
               "\n      {\"name\": " + quoted(g.full_name()) +
               ", \"table\": " + quoted(g.full_table()) +
               ", \"type\": " + quoted(std::string(sinter::name_of(l.type))) + ", " + numbers +
               ", \"details\": {" + details + "}, \"absent\": {" + absent +
               "}, \"model\": " + quoted(l.model) + ", \"wrong\": " + quoted(l.wrong) + "}";
  }

  collector results_;
  std::string machine_;  ///< as JSON
  std::string groups_;   ///< as JSON
  std::map<std::string, score> scores_;
  std::map<std::string, std::pair<int, std::string>> absent_;
  std::vector<std::string> promises_;
  std::map<std::string, rule_score> rules_;
  int groups_run_ = 0;
  bool failed_ = false;
};

}  // namespace

std::string group::full_name() const {
  return name + (where == memory::warm ? "/warm" : where == memory::cold ? "/cold" : "");
}
std::string group::full_table() const {
  return table + (where == memory::warm ? " warm" : where == memory::cold ? " cold" : "");
}

std::vector<source>& sources() {
  static std::vector<source> all;
  return all;
}
bool add_source(source s) {
  sources().push_back(s);
  return true;
}

bool run_suite(std::vector<group> const& groups, run_settings const& settings) {
  std::regex const wanted(settings.filter);
  suite_run run(settings.json, settings.machine);
  int count = 0;
  for (group const& g : groups) {
    if (!std::regex_search(g.full_name(), wanted)) continue;
    ++count;
    if (settings.list)
      std::printf("%s\n", g.full_name().c_str());
    else
      run.run(g);
  }
  if (count == 0) {
    std::fprintf(stderr, "sinter: no benchmark's name matches '%s' (--list shows them)\n",
                 settings.filter.c_str());
    return false;
  }
  return settings.list || run.summary();
}

}  // namespace sinter_bench
