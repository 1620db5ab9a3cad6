// sinter_bench_threads: how much faster N threads make one call, under OpenMP.
//
//   sinter_bench_threads [threads = 2] [backend = jit]
//
// A program of its own, since it measures elapsed time where sinter_bench measures processor time. One thread and N are
// measured in turn, A B A B; printed are the medians and the median of the ratios. The first two lines are the
// ceilings: what two copies of the same multiply-adds, and of the same reading, gain on this machine when they run at
// once.
#include <sinter/openmp.hpp>
#include <sinter/plan/parse.hpp>
#include <sinter/reference/scalar.hpp>
#include <sinter/sinter.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "support/peaks.hpp"

namespace {

using sinter::extent;

struct job {
  std::string chain;
  std::vector<sinter::named_desc> given;
};

sinter::named_desc dims(char const* name, std::initializer_list<extent> e) {
  return {name, sinter::shape(e), {}, {}};
}

std::vector<job> jobs() {
  std::vector<job> all;
  for (std::string const precision : {" [f32]", " [bf16]"}) {
    for (extent n : {128, 256, 512, 1024})
      all.push_back(
          {"matmul(x, w) | add b:vector" + precision, {dims("x", {n, n}), dims("w", {n, n})}});
    for (extent m : {1, 16, 128})
      all.push_back({"matmul(x, w) | add b:vector" + precision,
                     {dims("x", {m, 2048}), dims("w", {2048, 8192})}});
    all.push_back(
        {"matmul(x, y:tensor)" + precision, {dims("x", {12, 128, 64}), dims("y", {12, 64, 128})}});
    all.push_back(
        {"matmul(x, y:tensor)" + precision, {dims("x", {1024, 1024}), dims("y", {1024, 1024})}});
    for (extent k : {1, 3})
      all.push_back(
          {"conv2d(x, w, pad=" + std::to_string(k / 2) + ") | add b:vector | relu" + precision,
           {dims("x", {1, 56, 56, 64}), dims("w", {64, k, k, 64})}});
    all.push_back({"conv2d(x, w, pad=1, groups=144) | add b:vector | relu" + precision,
                   {dims("x", {1, 56, 56, 144}), dims("w", {144, 3, 3, 1})}});
  }
  return all;
}

/// A bound call with memory for all that it reads and writes.
class call {
 public:
  call(job const& j, int threads, char const* backend) {
    sinter::options o;
    o.backend = backend;
    o.threads = threads;
    o.executor = &sinter::openmp_threads;
    o.numerics = sinter::numerics::peer;
    o.on_split = sinter::policy::allow;
    chain_ = sinter::parse_chain(j.chain).value();
    program_ = sinter::make_program({&chain_, 1}, j.given, o).value();
    std::vector<sinter::named_view> views;
    std::vector<sinter::packed const*> packs;
    for (sinter::operand const& operand : chain_.operands) {
      sinter::named_view const v{operand.name, filled(operand.name)};
      if (operand.role != sinter::role::weight) {
        views.push_back(v);
        continue;
      }
      packed_ = program_->pack({&v, 1}).value();
      packs.push_back(&packed_);
    }
    sinter::tensor_view const out = filled("out");
    sinter::named_output const o_view{
        "out", {memory_.back().data(), out.type, out.dims, out.strides, false}};
    bound_.push_back(std::move(program_->bind(views, packs, {&o_view, 1}).value()));
  }

  double microseconds(int times) {
    auto const start = std::chrono::steady_clock::now();
    for (int i = 0; i < times; ++i) bound_[0]();
    std::chrono::duration<double, std::micro> const all = std::chrono::steady_clock::now() - start;
    return all.count() / times;
  }

 private:
  sinter::tensor_view filled(std::string_view name) {
    sinter::tensor_desc const d = program_->describe(name).value();
    extent const count = sinter::element_count(d.dims);
    memory_.emplace_back(static_cast<std::size_t>(count * sinter::size_of(d.type)));
    std::uint32_t state = 1;
    for (extent i = 0; i < count; ++i) {
      state = state * 1664525U + 1013904223U;
      sinter::store(memory_.back().data(), d.type, i,
                    static_cast<double>(state >> 8) / (1 << 23) - 1);
    }
    return {memory_.back().data(), d.type, d.dims, d.strides, false};
  }

  sinter::chain chain_;
  std::shared_ptr<sinter::program_core const> program_;
  std::vector<sinter::buffer> memory_;
  sinter::packed packed_;
  std::vector<sinter::bound> bound_;
};

double median(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  return v[v.size() / 2];
}

/// Work done by all threads per time, over that of one.
template <class Measure>
double gain(int threads, Measure const& measure) {
  std::vector<double> gains;
  for (int i = 0; i < 5; ++i) {
    double const one = measure();
    double all = 0;
#pragma omp parallel num_threads(threads) reduction(+ : all)
    all += measure();
    gains.push_back(all / one);
  }
  return median(gains);
}

void print_ceilings(int threads) {
  for (sinter::dtype const t : {sinter::dtype::f32, sinter::dtype::bf16})
    if (sinter_bench::arithmetic_peak const p = sinter_bench::peak_of(t); p.run != nullptr)
      std::printf("ceiling   %s multiply-adds: %d threads do %.2f times what one does\n",
                  std::string(sinter::name_of(t)).c_str(), threads,
                  gain(threads, [&] { return sinter_bench::measure_flops(p); }));
  std::printf("ceiling   reading 64 MiB each: %d threads do %.2f times what one does\n\n", threads,
              gain(threads, [] { return sinter_bench::measure_bandwidth(std::size_t{64} << 20); }));
}

void measure(job const& j, int threads, char const* backend) {
  call one(j, 1, backend), several(j, threads, backend);
  int const times = std::max(1, static_cast<int>(5000 / one.microseconds(3)));
  std::vector<double> a, b, ratios;
  for (int i = 0; i < 21; ++i) {
    a.push_back(one.microseconds(times));
    b.push_back(several.microseconds(times));
    ratios.push_back(a.back() / b.back());
  }
  std::string shapes;
  for (sinter::named_desc const& d : j.given)
    shapes +=
        (shapes.empty() ? "" : ", ") + std::string(d.name.view()) + " " + sinter::to_string(d.dims);
  std::printf("%-62s %-38s %9.1f us %9.1f us  %.2fx\n", j.chain.c_str(), shapes.c_str(), median(a),
              median(b), median(ratios));
}

}  // namespace

int main(int argc, char** argv) {
  int const threads = argc > 1 ? std::atoi(argv[1]) : 2;
  char const* const backend = argc > 2 ? argv[2] : "jit";
  if (threads < 2) {
    std::fputs("usage: sinter_bench_threads [threads = 2] [backend = jit]\n", stderr);
    return 2;
  }
  try {
    print_ceilings(threads);
    std::printf("%s: one thread, %d threads, times as fast\n", backend, threads);
    for (job const& j : jobs()) measure(j, threads, backend);
  } catch (std::exception const& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
  return 0;
}
