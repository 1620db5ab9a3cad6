// The demo: 500 real handwritten digits through one fused network, five layers fused against unfused, and two of
// examples/models whole.
//
//   sinter_demo [DATA_FOLDER]
//
// It exits with 1 where an accuracy is missed, scores are not PyTorch's, or fused and unfused results differ: what it
// prints has been checked. Read digits_network.hpp first, then digits.hpp and layers.hpp.
#include <cstdio>
#include <sinter/isa/machine.hpp>
#include <string>

#include "digits.hpp"
#include "layers.hpp"
#include "networks.hpp"

namespace {

bool all_well = true;

void claim(bool holds, char const* what) {
  std::printf("  %-5s %s\n", holds ? "ok" : "WRONG", what);
  all_well = all_well && holds;
}

void title(char const* text) { std::printf("\n== %s ==\n", text); }

void show_numerics(char const* name, digits::answers const& a) {
  if (a.why_peer.empty())
    std::printf("%s strict numerics, one kernel for each group\n", name);
  else
    std::printf(
        "%s peer numerics (ordinary values are the same), since under strict ones\n      %s\n",
        name, a.why_peer.c_str());
}

void show_digits(std::string const& folder) {
  title("500 handwritten digits, one network of five fused groups");
  digits::samples const samples(folder + "/digits_test.safetensors");
  std::printf("%s\n", samples.file.metadata("source").c_str());
  auto const file = example::safetensors::read(folder + "/digits_cnn.safetensors").value();
  auto const f32 = digits::classify<sinter::f32>(file, samples);
  auto const bf16 = digits::classify<digits::bf16>(file, samples);

  std::printf("f32:  %d of %d right, scores within %.1e of PyTorch's\n", f32.correct(samples),
              static_cast<int>(digits::batch),
              static_cast<double>(f32.largest_difference(samples)));
  std::printf("bf16: %d of %d right, scores within %.1e of PyTorch's f32\n", bf16.correct(samples),
              static_cast<int>(digits::batch),
              static_cast<double>(bf16.largest_difference(samples)));
  show_numerics("f32: ", f32);
  show_numerics("bf16:", bf16);
  claim(f32.correct(samples) == 487, "f32 reads 487 digits right, as PyTorch does");
  claim(f32.largest_difference(samples) <= 1e-3F, "f32 scores are within 1e-3 of PyTorch's");
  claim(bf16.correct(samples) >= 485, "bf16 reads at least 485 digits right");

  std::printf("\n");
  digits::draw(samples, f32, digits::some_digits(samples, f32, 3, 2));

  title("the plan: what each group fuses, and what runs it (f32)");
  std::printf("%s", f32.explanation.c_str());
}

template <sinter::precision Precision>
void show_layers() {
  for (layers::contest& c : layers::five_layers<Precision>()) {
    auto const [fused, unfused] = layers::measure(c);
    std::printf("%-58s %-5s %8.0f %8.0f %7.2fx\n", c.name.c_str(), sinter::name_of(c.type).data(),
                fused, unfused, unfused / fused);
    if (!c.same_results()) claim(false, "fused and unfused results agree");
  }
}

void show_timings() {
  title("fused against unfused, microseconds of one thread");
  std::printf(
      "Unfused: one program for the contraction and one, in place, for each step. Both sides take "
      "turns;\n"
      "medians of %d. Caches are warm. Numerics are `peer`, so that oneDNN may serve the single "
      "steps.\n\n%-58s %-5s %8s %8s %8s\n",
      layers::rounds, "layer", "type", "fused", "unfused", "gain");
  try {
    show_layers<sinter::f32>();
    if (sinter::runs(sinter::detected_isa(), sinter::isa::avx512_bf16))
      show_layers<sinter::bf16>();
    else
      std::printf("(no bf16: this CPU has no instructions for it)\n");
  } catch (sinter::exception const& e) {
    if (e.kind() != sinter::code::unsupported) throw;
    std::printf("Left out, since this build has no fast kernels for it: %s\n", e.what());
    return;
  }
  if (all_well) claim(true, "fused and unfused results agree in every row");
}

void show_networks(std::string const& folder) {
  title("whole networks with made-up weights, one image of 224 x 224, one thread");
  models::expected_scores const expected(folder);
  bool well = true;
  for (char const* name : {"mobilenet_v2", "mnasnet1_0"})
    for (bool const narrow : {false, true}) well = networks::show(name, narrow, expected) && well;
  claim(well, "scores and the best class of each network are PyTorch's");
}

int run(int argc, char** argv) {
  std::string const folder = argc > 1 ? argv[1] : SINTER_EXAMPLES_DATA;
  title("the machine");
  std::printf("%s", sinter::machine_report().c_str());
  show_digits(folder);
  show_timings();
  show_networks(folder);
  std::printf("\n%s\n", all_well ? "All claims hold." : "Some claims do NOT hold.");
  return all_well ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (sinter::exception const& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}
