#include "model_report.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <nlohmann/json.hpp>

namespace sinter_bench {
namespace {

using json = nlohmann::ordered_json;  // the first contender is what the others are compared with

/// "-" where there is no figure.
std::string figure(double v, int digits, double factor = 1) {
  if (!(v > 0)) return "-";
  char text[32];
  std::snprintf(text, sizeof text, "%.*f", digits, v * factor);
  return text;
}
std::string cell(std::string text) {
  std::replace(text.begin(), text.end(), '|', ';');
  return text;
}
double ratio(double a, double b) { return b > 0 ? a / b : 0; }

struct column {
  char const* contender;
  char const* head;
};
/// Beside raw and sinter.
constexpr std::array others{
    column{"graph", "graph/Sinter"}, column{"two_threads", "2 threads, times as fast"},
    column{"whole_batch", "whole batch/Sinter"}, column{"one_by_one", "one by one/Sinter"}};

bool takes_part(std::vector<model_row> const& rows, char const* contender) {
  return std::any_of(rows.begin(), rows.end(),
                     [&](model_row const& r) { return r.median_ms(contender) > 0; });
}

/// The most that Graph's time over anybody's can be.
double graph_by_bound(model_row const& r) { return ratio(r.median_ms("graph"), r.bound_ms); }

/// Of another contender, how many times Sinter's time; of threads, how many times as fast they are.
double other_ratio(model_row const& r, column const& c) {
  bool const threads = std::string_view(c.contender) == "two_threads";
  double const theirs = r.median_ms(c.contender), ours = r.median_ms("sinter");
  return threads ? ratio(ours, theirs) : ratio(theirs, ours);
}

void print_mean(std::vector<model_row> const& rows, std::string const& precision) {
  std::string text;
  auto const add = [&](char const* what, auto const& of) {
    double sum = 0;
    int count = 0;
    for (model_row const& r : rows)
      if (double const v = r.precision == precision ? of(r) : 0; v > 0) {
        sum += std::log(v);
        ++count;
      }
    if (count == 0) return;
    char line[128];
    std::snprintf(line, sizeof line, "%s %s %.3f (of %d)", text.empty() ? "" : ",", what,
                  std::exp(sum / count), count);
    text += line;
  };
  add("Sinter/raw",
      [](model_row const& r) { return ratio(r.median_ms("sinter"), r.median_ms("raw")); });
  for (column const& c : others) add(c.head, [&](model_row const& r) { return other_ratio(r, c); });
  add("graph/bound", graph_by_bound);
  if (!text.empty()) std::printf("\nGeometric means, %s:%s\n", precision.c_str(), text.c_str());
}

json described(model_row const& r) {
  std::string table = "models " + r.precision;
  if (r.batch > 1) table += " batches";
  if (r.threads > 1) table += " threads";
  json details = json::object();
  for (std::string const& who : r.order) details[who] = r.details.at(who);
  return {{"name", r.name()},   {"table", table},     {"type", r.precision}, {"flops", r.flops},
          {"bytes", r.bytes},   {"copies", 1},        {"ceiling", "F"},      {"ceiling_work", 0},
          {"details", details}, {"absent", r.absent}, {"wrong", ""}};
}

json network_of(model_row const& r) {
  json groups = json::array();
  for (group_row const& g : r.groups)
    groups.push_back({{"group", g.label},
                      {"extents", g.extents},
                      {"ms", g.ms},
                      {"raw_ms", g.raw_ms},
                      {"roofline_ms", g.roofline_ms},
                      {"flops", g.flops},
                      {"bytes", g.bytes},
                      {"linear", g.linear},
                      {"copy", g.copy},
                      {"implementation", g.implementation},
                      {"raw_implementation", g.raw_implementation}});
  return {{"model", r.model},
          {"precision", r.precision},
          {"batch", r.batch},
          {"threads", r.threads},
          {"part_of_peak", r.part_of_peak()},
          {"part_of_peak_without_linear", r.window_part_of_peak()},
          {"bound_ms", r.bound_ms},
          {"arena", r.arena},
          {"intermediates", r.intermediates},
          {"least_arena", r.least},
          {"copies", r.copies},
          {"groups", groups}};
}

std::string date() {
  std::time_t const now = std::time(nullptr);
  char text[40];
  std::strftime(text, sizeof text, "%FT%T%z", std::localtime(&now));
  return text;
}

}  // namespace

void print_groups(model_row const& r, int most) {
  std::vector<group_row const*> order;
  double sum = 0;
  for (group_row const& g : r.groups) {
    order.push_back(&g);
    sum += g.ms;
  }
  if (order.empty() || most < 1) return;
  if (most < static_cast<int>(order.size())) {
    std::stable_sort(order.begin(), order.end(), [](auto const* a, auto const* b) {
      return a->ms - a->raw_ms > b->ms - b->raw_ms;
    });
    order.resize(static_cast<std::size_t>(most));
  }
  std::printf("\n### %s %s, groups\n\n", r.model.c_str(), r.precision.c_str());
  std::printf(
      "| group | of | ms | share | of its roofline | raw ms | Sinter/raw | Sinter | raw |\n"
      "|---|---|--:|--:|--:|--:|--:|---|---|\n");
  for (group_row const* g : order)
    std::printf("| %s | %s | %.3f | %s %% | %s %% | %s | %s | %s | %s |\n", cell(g->label).c_str(),
                g->extents.c_str(), g->ms, figure(ratio(g->ms, sum), 1, 100).c_str(),
                figure(ratio(g->roofline_ms, g->ms), 0, 100).c_str(), figure(g->raw_ms, 3).c_str(),
                figure(ratio(g->ms, g->raw_ms), 2).c_str(), g->implementation.c_str(),
                g->raw_implementation.c_str());
  std::printf("\n");
  std::fflush(stdout);
}

void print_summary(std::vector<model_row> const& rows) {
  std::string heads, lines;
  for (column const& c : others)
    if (takes_part(rows, c.contender)) {
      heads += ' ';
      heads += c.head;
      heads += " |";
      lines += "--:|";
    }
  std::printf(
      "\n## Networks\n\n"
      "| model | type | images | Sinter ms | %% of peak | without linear layers | Sinter/raw |%s "
      "bound ms | graph/bound | arena / least / all MB | copies |\n"
      "|---|---|--:|--:|--:|--:|--:|%s--:|--:|--:|--:|\n",
      heads.c_str(), lines.c_str());
  for (model_row const& r : rows) {
    std::string middle;
    for (column const& c : others)
      if (takes_part(rows, c.contender)) {
        middle += ' ';
        middle += figure(other_ratio(r, c), 3);
        middle += " |";
      }
    std::printf("| %s | %s | %lld | %s | %s | %s | %s |%s %s | %s | %s / %s / %s | %d |\n",
                r.model.c_str(), r.precision.c_str(), static_cast<long long>(r.batch),
                figure(r.median_ms("sinter"), 3).c_str(), figure(r.part_of_peak(), 1, 100).c_str(),
                figure(r.window_part_of_peak(), 1, 100).c_str(),
                figure(ratio(r.median_ms("sinter"), r.median_ms("raw")), 3).c_str(), middle.c_str(),
                figure(r.bound_ms, 3).c_str(), figure(graph_by_bound(r), 3).c_str(),
                figure(r.arena, 1, 1e-6).c_str(), figure(r.least, 1, 1e-6).c_str(),
                figure(r.intermediates, 1, 1e-6).c_str(), r.copies);
  }
  for (char const* precision : {"f32", "bf16"}) print_mean(rows, precision);
  for (model_row const& r : rows)
    for (auto const& [who, why] : r.absent)
      std::printf("\n%s %s: %s takes no part: %s\n", r.model.c_str(), r.precision.c_str(),
                  who.c_str(), why.c_str());
}

bool write_json(std::string const& path, std::vector<model_row> const& rows,
                machine_record const& machine) {
  json context{{"date", date()}}, runs = json::array(), groups = json::array(),
                                  networks = json::array();
  for (auto const& [name, text] : machine.facts) context[name] = text;
  for (model_row const& r : rows) {
    groups.push_back(described(r));
    networks.push_back(network_of(r));
    for (std::string const& who : r.order) {
      auto const& times = r.ms.at(who);
      for (std::size_t i = 0; i < times.size(); ++i)
        runs.push_back({{"name", r.name() + "/" + who},
                        {"run_name", r.name() + "/" + who},
                        {"run_type", "iteration"},
                        {"repetitions", times.size()},
                        {"repetition_index", i},
                        {"threads", r.threads},
                        {"iterations", 1},
                        {"real_time", times[i]},
                        {"cpu_time", times[i]},
                        {"time_unit", "ms"}});
    }
  }
  std::ofstream file(path);
  file << json{{"context", context},
               {"benchmarks", runs},
               {"sinter",
                {{"machine", json::parse(machine.json())},
                 {"groups", groups},
                 {"networks", networks}}}}
              .dump(1)
       << "\n";
  return static_cast<bool>(file);
}

}  // namespace sinter_bench
