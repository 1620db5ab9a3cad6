// The demo's digits through AMX kernels: emulator/amx_main.cpp is the main function.
#include <doctest/doctest.h>

#include <sinter/sinter.hpp>
#include <string>

#include "demo/digits.hpp"
#include "emulator/amx_emulator.hpp"

TEST_CASE("500 digits through tiles of bf16") {
  std::string const folder = SINTER_EXAMPLES_DATA;
  digits::samples const samples(folder + "/digits_test.safetensors");
  auto const file = example::safetensors::read(folder + "/digits_cnn.safetensors").value();
  namespace amx = sinter_test::amx;
  amx::counts const before = amx::counted();
  digits::answers const a = digits::classify<digits::bf16>(file, samples);
  amx::counts const c = amx::counted() - before;
  CHECK(a.correct(samples) >= 485);
  CHECK(a.largest_difference(samples) <= 0.25F);
  int groups = 0;
  for (std::size_t at = a.explanation.find("[jit:amx:bf16:"); at != std::string::npos;
       at = a.explanation.find("[jit:amx:bf16:", at + 1))
    ++groups;
  CHECK(groups == 5);
  CHECK_FALSE(amx::tiles_configured());
  MESSAGE(a.correct(samples) << " of 500 right, " << c.products() << " tile products");
}
