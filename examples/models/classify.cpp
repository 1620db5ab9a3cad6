// sinter_classify: what is in a picture, by one of ten networks.
//
//   sinter_classify --model resnet50 --weights resnet50.safetensors --labels imagenet.txt picture.jpg
//
// Weights are a safetensors file with torchvision's names, or the word `formula`: made-up ones that need no file (and see
// nothing in a picture). Labels are a text file with one of the 1000 classes on each line. All that goes wrong is
// one sentence on stderr and exit code 1.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include "../support/picture.hpp"
#include "all.hpp"

namespace {

constexpr char usage[] =
    R"(usage: sinter_classify --model NAME --weights FILE [options] picture

  --model NAME        resnet18, resnet50, mobilenet_v2, vgg16, alexnet, squeezenet1_1, mnasnet1_0,
                      resnext50_32x4d, densenet121 or shufflenet_v2_x1_0
  --weights FILE      safetensors with torchvision's names, or 'formula' for made-up ones
  --labels FILE       the names of the 1000 classes, one on each line
  --precision TYPE    f32 (as if not given) or bf16
  --explain           print the plan: what each group fuses, and what runs it

The picture is a PNG or JPEG file.
)";

constexpr int classes = 1000, side = 224, resized_side = 256, shown = 5;

struct request {
  std::string model, weights, labels, precision = "f32", picture;
  bool explain = false, help = false;
};

[[noreturn]] void fail(std::string const& sentence) {
  sinter::raise({sinter::code::bad_argument, "sinter_classify: " + sentence});
}

request parse(int argc, char** argv) {
  request r;
  struct {
    std::string_view name;
    std::string* value;
  } const options[] = {{"--model", &r.model},
                       {"--weights", &r.weights},
                       {"--labels", &r.labels},
                       {"--precision", &r.precision}};
  for (int i = 1; i < argc; ++i) {
    std::string const word = argv[i];
    auto const o = std::find_if(std::begin(options), std::end(options),
                                [&](auto const& known) { return known.name == word; });
    if (o != std::end(options)) {
      if (++i == argc) fail(word + " wants a value");
      *o->value = argv[i];
    } else if (word == "--explain") {
      r.explain = true;
    } else if (word == "--help") {
      r.help = true;
    } else if (word.starts_with("--")) {
      fail("there is no option '" + word + "' (--help shows them)");
    } else if (!r.picture.empty()) {
      fail("one picture is wanted; '" + r.picture + "' and '" + word + "' are given");
    } else {
      r.picture = word;
    }
  }
  return r;
}

std::vector<std::string> read_labels(std::string const& path) {
  std::ifstream file(path);
  if (!file) sinter::raise({sinter::code::system, path + ": cannot be opened"});
  std::vector<std::string> labels;
  for (std::string line; std::getline(file, line);) labels.push_back(line);
  if (labels.size() != classes)
    sinter::raise({sinter::code::bad_argument, path + ": has " + std::to_string(labels.size()) +
                                                   " lines; " + std::to_string(classes) +
                                                   " are wanted, one for each class"});
  return labels;
}

std::vector<float> read_image(std::string const& path) {
  example::picture const p = example::read_picture(path).value();
  int const shorter = (std::min)(p.width, p.height), longer = (std::max)(p.width, p.height);
  if (longer > 20 * shorter)
    sinter::raise({sinter::code::bad_argument,
                   path + ": has " + std::to_string(p.width) + " x " + std::to_string(p.height) +
                       " pixels; sides that differ by a factor of 20 at most are wanted"});
  return example::normalised(example::centre_crop(example::shorter_side_to(p, resized_side), side));
}

/// One line that is written over, on a terminal; without one it is left away.
void show_progress(std::size_t tensors, std::size_t bytes) {
  if (isatty(STDERR_FILENO) == 0) return;
  std::fprintf(stderr, "\rloading weights: %zu tensors, %.1f MB", tensors,
               static_cast<double>(bytes) * 1e-6);
}
void end_progress() {
  if (isatty(STDERR_FILENO) != 0) std::fprintf(stderr, "\n");
}

sinter::network load(request const& r, models::architecture const& a) {
  auto weights = r.weights == "formula" ? example::weights::formula(r.model)
                                        : example::weights::read(r.weights).value();
  weights.report_to(show_progress);
  auto const dtypes = r.precision == "bf16" ? sinter::bf16 : sinter::f32;
  auto built = models::build(a, dtypes, std::move(weights));
  end_progress();
  return std::move(built).value();
}

/// Softmax of the scores.
std::vector<double> probabilities(std::vector<float> const& scores) {
  float const most = *std::max_element(scores.begin(), scores.end());
  std::vector<double> p;
  for (float const s : scores) p.push_back(std::exp(static_cast<double>(s - most)));
  double const sum = std::accumulate(p.begin(), p.end(), 0.0);
  for (double& v : p) v /= sum;
  return p;
}

void print_best(std::vector<float> const& scores, std::vector<std::string> const& labels) {
  std::vector<double> const p = probabilities(scores);
  std::vector<int> order(classes);
  std::iota(order.begin(), order.end(), 0);
  std::partial_sort(order.begin(), order.begin() + shown, order.end(), [&](int a, int b) {
    return p[static_cast<std::size_t>(a)] > p[static_cast<std::size_t>(b)];
  });
  for (int i = 0; i < shown; ++i) {
    auto const which = static_cast<std::size_t>(order[static_cast<std::size_t>(i)]);
    std::printf(
        "%6.2f %%  %s\n", 100 * p[which],
        labels.empty() ? ("class " + std::to_string(which)).c_str() : labels[which].c_str());
  }
}

void run(request const& r) {
  if (r.model.empty() || r.weights.empty() || r.picture.empty())
    fail("--model, --weights and a picture are wanted (--help shows how)");
  models::architecture const* const a = models::find_architecture(r.model);
  if (a == nullptr) fail("there is no model '" + r.model + "' (--help shows them)");
  if (r.precision != "f32" && r.precision != "bf16")
    fail("the precision is '" + r.precision + "'; f32 or bf16 is wanted");
  auto const labels = r.labels.empty() ? std::vector<std::string>() : read_labels(r.labels);
  std::vector<float> const image = read_image(r.picture);
  sinter::network const net = load(r, *a);
  if (r.explain) std::printf("%s\n", net.explain().c_str());

  net.warm_up();
  auto const start = std::chrono::steady_clock::now();
  std::vector<float> const scores = models::scores(net, image);
  std::chrono::duration<double, std::milli> const taken = std::chrono::steady_clock::now() - start;
  std::printf("%s by %s in %s, %.1f ms:\n", r.picture.c_str(), r.model.c_str(), r.precision.c_str(),
              taken.count());
  print_best(scores, labels);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    request const r = parse(argc, argv);
    if (r.help)
      std::fputs(usage, stdout);
    else
      run(r);
    return 0;
  } catch (sinter::exception const& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}
