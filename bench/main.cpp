// sinter_bench: says what machine this is, makes the groups that were asked for, measures them in turn.
#include <benchmark/benchmark.h>

#include <cstdio>
#include <cstring>
#include <exception>
#include <string>
#include <string_view>

#include "support/record.hpp"
#include "support/suite.hpp"

namespace {

using namespace sinter_bench;

constexpr char usage[] =
    R"(usage: sinter_bench [options]

  --filter=REGEX, --benchmark_filter=REGEX   only groups whose names match
  --list               print the names of the groups
  --filter=rules       the evidence for the rules of dispatch, and for nothing else
  --quick              a few problems of each kind
  --all                every row of bench/shapes, large ones too (hours)
  --backend=A,B        these backends of Sinter instead of all but the reference
  --peers=A,B          these of the other libraries instead of all that were found; none
  --json=FILE          Google Benchmark's JSON, each repetition
  --chain=TEXT --shape=EXTENTS [--weight=EXTENTS] [--precision=f32]   one problem of your own:
      --chain="matmul | add b:vector | gelu_tanh" --shape=128x3072x768 --precision=bf16
      --chain="conv2d(pad=1) | add b:vector | relu" --shape=1x56x56x64 --weight=64x3x3x64
      --chain="gelu_tanh | add r:tensor" --shape=x=128x3072,r=128x3072

All other options are Google Benchmark's, for example --benchmark_repetitions=31.
)";

struct command_line {
  selection chosen;
  run_settings settings;
  std::vector<char*> rest;
  bool help = false;
  bool understood = true;
};

std::vector<std::string> split_list(std::string const& text) {
  std::vector<std::string> parts;
  for (std::size_t from = 0; from < text.size();) {
    std::size_t const to = std::min(text.find(',', from), text.size());
    parts.push_back(text.substr(from, to - from));
    from = to + 1;
  }
  return parts;
}

command_line parse(int argc, char** argv) {
  command_line c;
  std::string backends, peers;
  struct {
    char const* name;
    std::string* value;
  } const options[] = {
      {"--filter", &c.settings.filter}, {"--benchmark_filter", &c.settings.filter},
      {"--json", &c.settings.json},     {"--benchmark_out", &c.settings.json},
      {"--backend", &backends},         {"--peers", &peers},
      {"--chain", &c.chosen.chain},     {"--shape", &c.chosen.shape},
      {"--weight", &c.chosen.weight},   {"--precision", &c.chosen.precision},
  };
  for (int i = 1; i < argc; ++i) {
    std::string_view const given = argv[i];
    bool taken = false;
    // --name=value, or --name value
    for (auto const& o : options) {
      std::size_t const length = std::strlen(o.name);
      if (given.substr(0, length) != o.name) continue;
      if (given.size() > length && given[length] == '=') {
        *o.value = given.substr(length + 1);
        taken = true;
      } else if (given.size() == length && i + 1 < argc) {
        *o.value = argv[++i];
        taken = true;
      }
    }
    if (taken) continue;
    if (given == "--quick") {
      c.chosen.quick = true;
    } else if (given == "--all") {
      c.chosen.all = true;
    } else if (given == "--list" || given == "--benchmark_list_tests") {
      c.settings.list = true;
    } else if (given == "--help") {
      c.help = true;
    } else {
      c.understood = c.understood && given.substr(0, 11) == "--benchmark";
      if (!c.understood)
        std::fprintf(stderr, "sinter: '%s' is no option of sinter_bench (--help shows them)\n",
                     argv[i]);
      c.rest.push_back(argv[i]);
    }
  }
  c.chosen.backends = split_list(backends);
  c.chosen.peers = split_list(peers);
  c.chosen.rules = c.settings.filter.starts_with("rules");
  return c;
}

void initialize_google_benchmark(char* program, command_line const& c) {
  // Ours first: what the user says later wins.
  static char interleave[] = "--benchmark_enable_random_interleaving=true";
  static char repetitions[] = "--benchmark_repetitions=11";
  static char min_time[] = "--benchmark_min_time=0.02";
  static char few[] = "--benchmark_repetitions=5";
  static char short_time[] = "--benchmark_min_time=0.005";
  std::vector<char*> arguments{program, interleave, c.chosen.quick ? few : repetitions,
                               c.chosen.quick ? short_time : min_time};
  arguments.insert(arguments.end(), c.rest.begin(), c.rest.end());
  int count = static_cast<int>(arguments.size());
  benchmark::Initialize(&count, arguments.data());
}

}  // namespace

int main(int argc, char** argv) {
  command_line c = parse(argc, argv);
  if (!c.understood) return 2;
  if (c.help) {
    std::fputs(usage, stdout);
    return 0;
  }
  initialize_google_benchmark(argv[0], c);
  // A problem of the user's own is all that is wanted then.
  if (!c.chosen.chain.empty() && c.settings.filter.empty()) c.settings.filter = "^command_line/";
  std::vector<group> groups;
  for (source s : sources()) s(c.chosen, groups);
  if (!c.settings.list) {
    machine_record const machine = record_machine();
    for (auto const& [key, value] : machine.facts) benchmark::AddCustomContext(key, value);
    c.settings.machine = machine.json();
  }
  try {
    return run_suite(groups, c.settings) ? 0 : 1;
  } catch (std::exception const& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}
