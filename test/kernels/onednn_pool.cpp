// Poolings on the oneDNN backend against the oracle: by its own primitive, or by the reference behind a convolution of
// oneDNN's where its answer is not Sinter's.
#include <random>
#include <string>

#include <sinter/base/join.hpp>

#include "onednn_support.hpp"

using namespace sinter_test;

namespace {

bool pools_in_primitive(std::vector<stage_note> const& stages) {
  for (stage_note const& s : stages)
    if (s.implementation == "reference") return false;
  return true;
}

struct windowed {
  std::string_view window;
  bool primitive_under_strict;  ///< by oneDNN's own primitive, NaN or not
};
constexpr windowed windows[] = {
    {"max_pool(kernel=3, stride=2, pad=1)", false},
    {"max_pool(kernel=2x3, stride=3x2, pad_begin=1x0, pad_end=0x2, ceil)", false},
    {"avg_pool(kernel=3, stride=2, pad=1)", true},
    {"avg_pool(kernel=3x2, stride=2, pad_begin=1x0, pad_end=0x1, exclude_pad)", true},
    {"avg_pool(kernel=3, stride=2, ceil, exclude_pad)", true},
    {"global_avg_pool", true},
};

std::string of_x(std::string_view window) {
  std::size_t const open = window.find('(');
  if (open == std::string_view::npos) return std::string(window) + "(x:tensor)";
  return detail::join({window.substr(0, open + 1), "x:tensor, ", window.substr(open + 1)});
}

}  // namespace

TEST_CASE("behind a convolution: every window, precision and rule for NaN") {
  for (windowed const& w : windows)
    for (std::string_view precision : {"", " [bf16]"})
      for (numerics rules : {numerics::peer, numerics::strict}) {
        std::string const chain = detail::join({"conv2d(x, w, pad=1) | add b:vector | relu | ",
                                                w.window, " | mul q:vector", precision});
        CAPTURE(chain);
        problem const p = problem_of(chain, {{2, 9, 10, 16}, {32, 3, 3, 16}}, {}, rules);
        check_right(p);
        CHECK(pools_in_primitive(stages_of(p)) ==
              (rules == numerics::peer || w.primitive_under_strict));
      }
}

TEST_CASE("of an operand: oneDNN's primitive or a refusal, never the reference in its name") {
  for (windowed const& w : windows) {
    std::string const chain = of_x(w.window);
    CAPTURE(chain);
    check_fused(problem_of(chain, {{2, 11, 9, 24}}));
    problem const strict = problem_of(chain, {{2, 11, 9, 24}}, {}, numerics::strict);
    CHECK(bool(onednn_backend().supports(strict)) == w.primitive_under_strict);
    if (w.primitive_under_strict) check_right(strict);
  }
  CHECK(onednn_backend()
            .supports(
                problem_of("max_pool(x:tensor, kernel=2)", {{1, 4, 4, 8}}, {}, numerics::strict))
            .reason ==
        "sinter: under strict numerics oneDNN's answer for a NaN in a window of step 0 (max_pool) "
        "is not Sinter's");
  CHECK(onednn_backend()
            .supports(problem_of("avg_pool(x:tensor, kernel=2, ceil)", {{1, 5, 5, 8}}))
            .reason ==
        "sinter: oneDNN counts what lies behind the padding in a last window of step 0 (avg_pool)");
}

TEST_CASE("random windows, images, residuals and outputs from before the window") {
  constexpr std::string_view middle[] = {"", " | relu", " | add r:tensor | relu", " | let relu"};
  constexpr std::string_view tails[] = {"", " | relu", " | add q:tensor", " | max s:scalar | neg"};
  for (unsigned seed = 0; seed < 48; ++seed) {
    std::mt19937 random(seed);
    auto const below = [&](unsigned n) { return static_cast<extent>(random() % n); };
    extent const k = 1 + below(4), in = 8 << below(2), out = 1 + below(40);
    std::string const window =
        detail::join({seed % 3 == 0 ? "avg" : "max", "_pool(kernel=", k, ", stride=", 1 + below(3),
                      ", pad=", below(static_cast<unsigned>(k)), ")"});
    std::string const chain =
        detail::join({"conv2d(x, w, stride=", 1 + below(2), ")", middle[seed % 4], " | ", window,
                      tails[seed / 4 % 4], seed % 2 == 0 ? "" : " [bf16]"});
    CAPTURE(chain);
    check_right(problem_of(chain, {{1 + below(2), 8 + below(9), 9 + below(8), in}, {out, 1, 1, in}},
                           {}, seed / 8 % 2 == 0 ? numerics::peer : numerics::strict));
  }
}
