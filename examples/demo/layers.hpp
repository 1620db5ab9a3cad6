// Fused against unfused: layers of well-known networks, once as one program, once as one program for each step.
//
// A layer is a contraction and a list of steps, each a generic lambda over an expression. Folded over the contraction
// they make the fused chain; applied one by one to a tensor "y" they make the programs that a library without fusion
// would run, each in place on the result of the one before. Both sides run bound calls on one thread, in turns.
#pragma once

#include <algorithm>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <sinter/sinter.hpp>
#include <string>
#include <utility>
#include <vector>

namespace layers {

inline constexpr auto x = sinter::tensor<"x">;
inline constexpr auto w = sinter::weight<"w">;
inline constexpr auto b = sinter::vector<"b">;
inline constexpr auto r = sinter::tensor<"r">;
inline constexpr auto y = sinter::tensor<"y">;

inline constexpr auto bias = [](auto v) { return v + b; };
inline constexpr auto residual = [](auto v) { return v + r; };
inline constexpr auto relu = [](auto v) { return sinter::relu(v); };
inline constexpr auto relu6 = [](auto v) { return sinter::relu6(v); };
inline constexpr auto gelu = [](auto v) { return sinter::gelu_tanh(v); };

template <class E>
constexpr E fold(E const& e) {
  return e;
}
template <class E, class First, class... Rest>
constexpr auto fold(E const& e, First const& first, Rest const&... rest) {
  return fold(first(e), rest...);
}

/// Operands by name, made as a program describes them and filled with small fractions: sums of products are exact.
class tensors {
 public:
  sinter::tensor_view view(sinter::program_core const& core, std::string const& name) {
    sinter::tensor_desc const d = core.describe(name).value();
    sinter::buffer& data = make(name, d);
    return {data.data(), d.type, d.dims, d.strides, false};
  }
  sinter::output_view output(sinter::program_core const& core, std::string const& name) {
    sinter::tensor_desc const d = core.describe("out").value();
    return {make(name, d).data(), d.type, d.dims, d.strides, false};
  }
  sinter::buffer const& data(std::string const& name) const {
    for (auto const& [known, held] : all_)
      if (known == name) return *held;
    std::abort();
  }

 private:
  sinter::buffer& make(std::string const& name, sinter::tensor_desc const& d) {
    for (auto const& [known, held] : all_)
      if (known == name) return *held;
    auto const count = sinter::element_count(d.dims);
    all_.emplace_back(name, std::make_unique<sinter::buffer>(
                                static_cast<std::size_t>(count * sinter::size_of(d.type))));
    sinter::buffer& made = *all_.back().second;
    for (sinter::extent i = 0; i < count; ++i) {
      float const v = static_cast<float>((i * 7 + i / 3) % 17 - 8) / 16;
      if (d.type == sinter::dtype::bf16)
        reinterpret_cast<sinter::bfloat16*>(made.data())[i] = sinter::to_bfloat16(v);
      else
        reinterpret_cast<float*>(made.data())[i] = v;
    }
    return made;
  }
  std::vector<std::pair<std::string, std::unique_ptr<sinter::buffer>>> all_;
};

struct contest {
  std::string name;
  sinter::dtype type = sinter::dtype::f32;
  tensors memory;
  std::vector<sinter::bound> fused, unfused;
  sinter::extent outputs = 0;
  std::string implementation;

  /// Sums are exact, so the two differ by what the unfused side rounds at each of its stores, and by the last bits of
  /// an activation: relative to the largest value, one unit of the dtype for each program.
  bool same_results() const {
    float const unit = type == sinter::dtype::bf16 ? 0x1p-7F : 0x1p-21F;
    float largest = 0, apart = 0;
    for (sinter::extent i = 0; i < outputs; ++i) {
      float const p = sinter::load_as_float(memory.data("out").data(), type, i);
      float const q = sinter::load_as_float(memory.data("y").data(), type, i);
      largest = (std::max)(largest, std::fabs(p));
      if (!(std::fabs(p - q) <= apart)) apart = std::fabs(p - q);
    }
    return apart <= unit * static_cast<float>(unfused.size()) * largest;
  }
};

/// A call on the tensors that the program has, by name; its output is `output`.
template <class Program>
sinter::bound bind(Program const& program, tensors& memory, sinter::packed const& weights,
                   std::string const& output) {
  sinter::program_core const& core = program.core();
  std::vector<sinter::named_view> views;
  for (char const* name : {"x", "b", "r", "y"})
    if (core.describe(name).ok()) views.push_back({name, memory.view(core, name)});
  sinter::named_output const out{"out", memory.output(core, output)};
  sinter::packed const* const packs[] = {&weights};
  bool const weighted = core.describe("w").ok();
  return std::move(
      core.bind(views, std::span(packs, weighted ? 1 : 0), std::span(&out, 1)).value());
}

/// `contraction` reads x and w, whose extents are `given`; the steps follow in order.
template <sinter::precision Precision, class E, class Described, class... Steps>
contest make_contest(
    std::string name, E const& contraction,
    std::pair<Described, sinter::described<typename decltype(w)::name>> const& given,
    Steps const&... steps) {
  sinter::options o{.numerics = sinter::numerics::peer,
                    .on_fallback = sinter::policy::error,
                    .on_split = sinter::policy::error};
  contest c;
  c.name = std::move(name);
  c.type = Precision.dst;
  auto const fused =
      sinter::compile<Precision>(fold(contraction, steps...), given.first, given.second, o);
  auto const alone = sinter::compile<Precision>(contraction, given.first, given.second, o);
  sinter::tensor_view const filter = c.memory.view(fused.core(), "w");
  auto const pack = [&](auto const& program) {
    return program.pack(sinter::binding<typename decltype(w)::name, void const>{filter});
  };
  c.fused.push_back(bind(fused, c.memory, pack(fused).held(), "out"));
  c.unfused.push_back(bind(alone, c.memory, pack(alone).held(), "y"));
  sinter::tensor_desc const result = fused.core().describe("out").value();
  c.outputs = sinter::element_count(result.dims);
  o.in_place = "y";
  (c.unfused.push_back(bind(sinter::compile<Precision>(steps(y), y.dims(result.dims), o), c.memory,
                            sinter::packed(), "y")),
   ...);
  return c;
}

inline constexpr int rounds = 15;

/// Median microseconds of both sides. They take turns, so that what else the machine does hits both alike; CPU time is
/// counted, which on a quiet machine is the time on the clock, for a call uses no other thread.
inline std::pair<double, double> measure(contest& c) {
  constexpr double sample_us = 3000;
  int repetitions = 1;
  auto const sample = [&](std::vector<sinter::bound>& side) {
    std::clock_t const start = std::clock();
    for (int i = 0; i < repetitions; ++i)
      for (sinter::bound& call : side) call();
    return static_cast<double>(std::clock() - start) * (1e6 / CLOCKS_PER_SEC) / repetitions;
  };
  sample(c.fused), sample(c.unfused);
  repetitions = (std::max)(1, static_cast<int>(sample_us / (std::max)(1.0, sample(c.unfused))));
  std::vector<double> fused, unfused;
  for (int i = 0; i < rounds; ++i) {
    fused.push_back(sample(c.fused));
    unfused.push_back(sample(c.unfused));
  }
  auto const median = [](std::vector<double>& v) {
    std::sort(v.begin(), v.end());
    return v[v.size() / 2];
  };
  return {median(fused), median(unfused)};
}

/// Shapes as in the networks that are named, one image or 128 tokens.
template <sinter::precision Precision>
std::vector<contest> five_layers() {
  using sinter::conv2d, sinter::matmul;
  std::vector<contest> all;
  all.push_back(make_contest<Precision>(
      "resnet50 conv 3x3, 64->64 at 56x56 | bias relu", conv2d(x, w, {.pad = 1}),
      std::pair(x.dims(1, 56, 56, 64), w.dims(64, 3, 3, 64)), bias, relu));
  all.push_back(make_contest<Precision>(
      "resnet50 conv 1x1, 64->256 at 56x56 | bias residual relu", conv2d(x, w),
      std::pair(x.dims(1, 56, 56, 64), w.dims(256, 1, 1, 64)), bias, residual, relu));
  all.push_back(make_contest<Precision>("mobilenet_v2 depthwise 3x3, 144 at 56x56 | bias relu6",
                                        conv2d(x, w, {.pad = 1, .groups = 144}),
                                        std::pair(x.dims(1, 56, 56, 144), w.dims(144, 3, 3, 1)),
                                        bias, relu6));
  all.push_back(make_contest<Precision>(
      "mobilenet_v2 conv 1x1, 16->96 at 112x112 | bias relu6", conv2d(x, w),
      std::pair(x.dims(1, 112, 112, 16), w.dims(96, 1, 1, 16)), bias, relu6));
  all.push_back(
      make_contest<Precision>("bert_base ffn 128 x 768 x 3072 | bias gelu_tanh", matmul(x, w),
                              std::pair(x.dims(128, 768), w.dims(768, 3072)), bias, gelu));
  return all;
}

}  // namespace layers
