// Whole networks of examples/models against PyTorch, with weights that follow from their names: no file is wanted.
#pragma once

#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

#include "../models/all.hpp"
#include "../models/expected.hpp"

namespace networks {

/// One line for a network in one precision. False: its scores are not PyTorch's.
inline bool show(std::string const& name, bool narrow, models::expected_scores const& expected) {
  auto const net =
      models::build(*models::find_architecture(name), narrow ? sinter::bf16 : sinter::f32,
                    example::weights::formula(name))
          .value();
  std::vector<float> const image = models::formula_image();
  std::vector<float> got = models::scores(net, image);  // the first call allocates
  auto const start = std::chrono::steady_clock::now();
  got = models::scores(net, image);
  std::chrono::duration<double, std::milli> const taken = std::chrono::steady_clock::now() - start;
  double const error = models::relative_error(got, expected.of(name));
  std::printf("%-14s %-5s %3d groups %8.1f ms   %.1e of PyTorch's scores\n", name.c_str(),
              narrow ? "bf16" : "f32", net.group_count(), taken.count(), error);
  models::tolerance const allowed = models::tolerance_of(name);
  return error <= (narrow ? allowed.bf16 : allowed.f32) &&
         models::same_best(got, expected.of(name));
}

}  // namespace networks
