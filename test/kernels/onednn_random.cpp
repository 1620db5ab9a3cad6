// Random chains and problems on the oneDNN backend against the oracle. SINTER_TEST_SEED repeats a run, SINTER_TEST_COUNT
// makes it longer; a failure prints the problem as text. What such runs found is in docs/onednn_faults.md.
#include <map>

#include "onednn_support.hpp"
#include "support/numbers.hpp"

using namespace sinter_test;

namespace {

/// Runs `count` problems and gives back how many the backend took.
int run_many(std::uint64_t seed, std::uint64_t count, numerics n, random_options const& options) {
  onednn_backend const b;
  int taken = 0, unpromised = 0;
  std::map<std::string, int> split;
  for (std::uint64_t s = seed; s < seed + count; ++s) {
    random_case made = make_random_case(s, options);
    made.p.numerics = n;
    // VDPBF16PS takes denormals for zero, so that an infinity times one is NaN there (docs/precision.md); the pattern of
    // special values holds both, so bf16 gets rows of NaN instead.
    bool const narrow = made.p.chain.precision.src != dtype::f32;
    pattern values = all_patterns[n == numerics::peer ? s % 3 : s % 5];
    if (narrow && values == pattern::specials) values = pattern::nan_rows;
    outcome const r = run_problem(b, made.p, {s, all_placements[s % 3], values, onednn_accuracy});
    if (!r.supported) continue;
    if (values == pattern::specials && r.text.find("multiplies padding") != std::string::npos) {
      ++unpromised;  // pack() looked at the weights and refused
      continue;
    }
    ++taken;
    CHECK_MESSAGE(r.ok(), r.text);
  }
  MESSAGE(count << " problems from seed " << seed << ": " << taken << " taken, " << unpromised
                << " refused by pack()");
  return taken;
}

}  // namespace

TEST_CASE("random problems, strict: every op, rows of NaN, special values") {
  std::uint64_t const count = number_from("SINTER_TEST_COUNT", 1500);
  CHECK(run_many(number_from("SINTER_TEST_SEED", 31000), count, numerics::strict, {}) >
        static_cast<int>(count / 3));
}

TEST_CASE(
    "random problems with reductions, strict: a primitive for the sums, a pass for the rows") {
  random_options options;
  options.reductions = true;
  options.max_steps = 8;
  std::uint64_t const count = number_from("SINTER_TEST_COUNT", 600);
  CHECK(run_many(number_from("SINTER_TEST_SEED", 77000), count, numerics::strict, options) >
        static_cast<int>(count / 3));
}

TEST_CASE("random problems, peer: the ops whose answers for ordinary values are the oracle's") {
  random_options options;
  options.ops = {op::relu,    op::leaky_relu, op::clip,  op::abs,    op::neg,  op::square, op::tanh,
                 op::sigmoid, op::swish,      op::add,   op::sub,    op::mul,  op::min,    op::max,
                 op::eq,      op::lt,         op::prelu, op::linear, op::cast, op::round};
  std::uint64_t const count = number_from("SINTER_TEST_COUNT", 1500);
  CHECK(run_many(number_from("SINTER_TEST_SEED", 52000), count, numerics::peer, options) >
        static_cast<int>(count / 3));
}
