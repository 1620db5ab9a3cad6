// sinter_bench: says what machine this is, makes the groups that were asked for, measures them in turn.
#include <benchmark/benchmark.h>

#include <cstdio>
#include <cstring>
#include <exception>
#include <string>
#include <string_view>

#include <sinter/isa/machine.hpp>

#include "support/peaks.hpp"
#include "support/suite.hpp"
#if SINTER_WITH_ONEDNN
#include <oneapi/dnnl/dnnl_version.h>
#endif

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
  --json=FILE          Google Benchmark's JSON, each repetition
  --chain=TEXT --shape=EXTENTS [--precision=f32]   one problem of your own:
      --chain="matmul | add b:vector | gelu_tanh" --shape=128x3072x768 --precision=bf16
      --chain="conv2d(x, w, pad=1) | relu" --shape=x=1x56x56x64,w=64x3x3x64

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
  std::string backends;
  struct {
    char const* name;
    std::string* value;
  } const options[] = {
      {"--filter", &c.settings.filter}, {"--benchmark_filter", &c.settings.filter},
      {"--json", &c.settings.json},     {"--benchmark_out", &c.settings.json},
      {"--backend", &backends},         {"--chain", &c.chosen.chain},
      {"--shape", &c.chosen.shape},     {"--precision", &c.chosen.precision},
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
        std::fprintf(stderr, "sinter: '%s' is no option of sinter_bench\n", argv[i]);
      c.rest.push_back(argv[i]);
    }
  }
  c.chosen.backends = split_list(backends);
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

void describe_machine() {
  sinter::machine const& m = sinter::this_machine();
  std::printf("%s", sinter::machine_report(m).c_str());
  benchmark::AddCustomContext("cpu", m.brand);
  benchmark::AddCustomContext("features", names_of(m.features));
  benchmark::AddCustomContext("caches", "L1d " + sinter::bytes_text(m.caches.l1d) + ", L2 " +
                                            sinter::bytes_text(m.caches.l2) + ", L3 " +
                                            sinter::bytes_text(m.caches.l3));
  std::string built = "compiler " __VERSION__;
#if SINTER_WITH_ONEDNN
  built += ", oneDNN " + std::to_string(DNNL_VERSION_MAJOR) + "." +
           std::to_string(DNNL_VERSION_MINOR) + "." + std::to_string(DNNL_VERSION_PATCH);
#endif
  std::printf("built     %s\n", built.c_str());
  benchmark::AddCustomContext("built", built);
  for (sinter::dtype t : {sinter::dtype::f32, sinter::dtype::bf16}) {
    arithmetic_peak const p = peak_of(t);
    if (p.run == nullptr) continue;
    std::string const name = std::string(sinter::name_of(t));
    std::string const peak =
        std::to_string(static_cast<int>(measure_flops(p) * 1e-9)) + " GFLOP/s by " + p.instruction;
    std::printf("peak      %s %s, one thread\n", name.c_str(), peak.c_str());
    benchmark::AddCustomContext("peak_" + name, peak);
  }
  std::string const read =
      std::to_string(static_cast<int>(measure_bandwidth(std::size_t{256} << 20) * 1e-9)) + " GB/s";
  std::printf("memory    %s read, one thread, 256 MiB\n\n", read.c_str());
  benchmark::AddCustomContext("read_256MiB", read);
}

}  // namespace

int main(int argc, char** argv) {
  command_line c = parse(argc, argv);
  if (c.help || !c.understood) {
    std::fputs(usage, c.help ? stdout : stderr);
    return c.help ? 0 : 2;
  }
  initialize_google_benchmark(argv[0], c);
  // A problem of the user's own is all that is wanted then.
  if (!c.chosen.chain.empty() && c.settings.filter.empty()) c.settings.filter = "^command_line/";
  std::vector<group> groups;
  for (source s : sources()) s(c.chosen, groups);
  if (!c.settings.list) describe_machine();
  try {
    return run_suite(groups, c.settings) ? 0 : 1;
  } catch (std::exception const& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}
