// sinter_bench_models: whole networks against oneDNN, and where their time goes. model_run.hpp says who takes part.
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>

#include "../../examples/models/all.hpp"
#include "model_report.hpp"
#include "model_run.hpp"
#include "support/one_thread.hpp"

namespace {

using namespace sinter_bench;

constexpr char usage[] =
    R"(usage: ./run bench models [options] [model ...]

  --precision=f32,bf16   one of them, or both as if not given
  --batch=N              images in a call (1)
  --batches              images in a call: TorchBench's own number for each network
  --threads=N            N threads as well, against one (1)
  --rounds=N             turns of each contender (9)
  --groups=N             groups of each network that are printed, the largest losses first (8); 0: none is measured; all
  --no-raw, --no-graph   leave oneDNN's primitives out, or oneDNN Graph
  --quick                three rounds of resnet18 and mobilenet_v2, no groups and no graph
  --json=FILE            everything, group by group: ./run bench report FILE and compare read it

Models are those of examples/models; all ten where none is named.
)";

[[noreturn]] void refuse(std::string const& why) {
  std::fprintf(stderr, "sinter: %s\n", why.c_str());
  std::exit(2);
}

int number(std::string const& option, std::string const& value, int most) {
  char* end = nullptr;
  long const n = std::strtol(value.c_str(), &end, 10);
  if (value.empty() || *end != '\0' || n < 1 || n > most)
    refuse(option + " wants a number from 1 to " + std::to_string(most) + ", and '" + value +
           "' was given");
  return static_cast<int>(n);
}

void take_list(model_settings& s, std::string const& value) {
  if (value == "f32" || value == "bf16")
    s.precisions = {value};
  else if (value != "f32,bf16")
    refuse("--precision is f32, bf16 or f32,bf16, and '" + value + "' was given");
}

void take_word(model_settings& s, std::string const& word) {
  std::size_t const equals = word.find('=');
  std::string const name = word.substr(0, equals);
  std::string const value = equals == std::string::npos ? "" : word.substr(equals + 1);
  if (name == "--precision")
    take_list(s, value);
  else if (name == "--batch")
    s.batch = number(name, value, 4096);
  else if (name == "--batches")
    s.own_batches = true;
  else if (name == "--threads")
    s.threads = number(name, value, 1024);
  else if (name == "--rounds")
    s.rounds = number(name, value, 1000);
  else if (name == "--groups")
    s.groups = value == "all" ? 1 << 20 : value == "0" ? 0 : number(name, value, 1 << 20);
  else if (name == "--no-raw")
    s.raw = false;
  else if (name == "--no-graph")
    s.graph = false;
  else if (name == "--json" && !value.empty())
    s.json_file = value;
  else if (name == "--quick") {
    s.models = {"resnet18", "mobilenet_v2"};
    s.rounds = 3;
    s.groups = 0;
    s.graph = false;
  } else if (models::find_architecture(word) != nullptr)
    s.models.push_back(word);
  else if (word == "--help") {
    std::fputs(usage, stdout);
    std::exit(0);
  } else
    refuse("there is no option and no network '" + word + "'; --help lists them");
}

model_settings parse(int argc, char** argv) {
  model_settings s;
  for (int i = 1; i < argc; ++i) take_word(s, argv[i]);
  if (s.threads > 1 && !has_threads())
    refuse("--threads=" + std::to_string(s.threads) + " wants a build with OpenMP");
  if (s.models.empty())
    for (models::architecture const& a : models::architectures) s.models.emplace_back(a.name);
  return s;
}

int run(model_settings const& s) {
  one_thread const alone;
  machine_record const machine = record_machine();
  std::vector<model_row> rows;
  for (std::string const& precision : s.precisions)
    for (std::string const& name : s.models) {
      std::fprintf(stderr, "%s %s ...\n", name.c_str(), precision.c_str());
      rows.push_back(run_model(name, precision, s, machine));
      print_groups(rows.back(), s.groups);
      // Again with each network, so that a run that is broken off leaves what it has.
      if (s.json_file.empty() || write_json(s.json_file, rows, machine)) continue;
      std::fprintf(stderr, "sinter: %s cannot be written\n", s.json_file.c_str());
      return 1;
    }
  print_summary(rows);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(parse(argc, argv));
  } catch (std::exception const& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}
