// Convolutions on the oneDNN backend against the oracle: channels, layouts, padding, strides, dilation, groups.
#include "onednn_support.hpp"

using namespace sinter_test;

namespace {

constexpr std::string_view precisions[] = {"", " [bf16]", " [bf16 bf16 f32 f32 bf16 f32]"};

std::string with(std::string_view chain, std::string_view precision) {
  return std::string(chain) + std::string(precision);
}

/// Strides of N,H,W,C over memory in N,C,H,W order.
strides channels_first(shape const& d) { return {d[1] * d[2] * d[3], d[2], 1, d[1] * d[2]}; }

problem ones_problem(std::string const& chain, shape const& src, shape const& weight) {
  return problem_of(chain, {src, weight});
}

/// Runs p on all-ones activations, weights and operands: every output counts its taps.
std::vector<float> count_taps(problem const& p) {
  onednn_backend const b;
  if (!b.supports(p)) return {};
  auto const k = b.build(p).value();
  std::vector<std::vector<std::byte>> memory;
  std::vector<packed_weight> packed;
  call_args args;
  for (int i = 0; i < p.chain.operands.ssize(); ++i) {
    tensor_desc const& d = p.operands[static_cast<std::size_t>(i)];
    memory.emplace_back(static_cast<std::size_t>(element_count(d.dims) * size_of(d.type)));
    for (extent j = 0; j < element_count(d.dims); ++j) store(memory.back().data(), d.type, j, 1.0F);
    args.operands[i] = memory.back().data();
    if (p.chain.operands[i].role != role::weight) continue;
    packed.push_back(k->pack(i, {memory.back().data(), d.type, d.dims, d.strides, false}).value());
    args.operands[i] = packed.back().data();
  }
  tensor_desc const& d = p.outputs[0];
  std::vector<std::byte> out(static_cast<std::size_t>(element_count(d.dims) * size_of(d.type)),
                             std::byte{0xff});
  buffer scratch(k->scratch_bytes());
  args.outputs[0] = out.data();
  args.scratch = scratch.data();
  auto const call = k->make_invocation().value();
  call->repoint(args);
  REQUIRE(call->run() == code::ok);
  std::vector<float> values;
  for (extent j = 0; j < element_count(d.dims); ++j)
    values.push_back(load_as_float(out.data(), d.type, j));
  return values;
}

}  // namespace

TEST_CASE("a convolution with bias, residual and relu is one primitive") {
  for (std::string_view precision : precisions) {
    std::string const chain =
        with("conv2d(x, w, pad=1) | add b:vector | add r:tensor | relu", precision);
    check_fused(problem_of(chain, {{1, 14, 14, 16}, {32, 3, 3, 16}}));
    check_fused(problem_of(chain, {{2, 7, 5, 64}, {17, 3, 3, 64}}));
  }
}

TEST_CASE("one, two and three spatial axes") {
  for (std::string_view precision : precisions) {
    check_right(
        problem_of(with("conv1d(x, w, pad=1) | add b:vector", precision), {{2, 9, 8}, {6, 3, 8}}));
    check_right(problem_of(with("conv2d(x, w, stride=2x1, pad=1x0) | add b:vector", precision),
                           {{2, 9, 6, 8}, {6, 3, 2, 8}}));
    check_right(problem_of(with("conv3d(x, w, pad=1x0x1) | add b:vector", precision),
                           {{1, 5, 6, 4, 8}, {6, 3, 2, 3, 8}}));
  }
}

TEST_CASE("few channels, both memory orders, strides 1 and 2") {
  for (std::string_view precision : {"", " [bf16]"})
    for (extent in : {1, 2, 3, 5, 17})
      for (extent out : {1, 3, 4, 15})
        for (std::string_view stride : {"1", "2"})
          for (bool first : {false, true}) {
            shape const src{2, 7, 6, in}, weight{out, 3, 3, in};
            std::string const chain =
                with("conv2d(x, w, pad=1, stride=" + std::string(stride) + ") | add b:vector",
                     precision);
            problem p = problem_of(chain, {src, weight});
            shape const d = p.domain;
            if (first)
              p = problem_of(chain, {src, weight}, {{channels_first(src)}, {channels_first(d)}});
            check_right(p);
          }
  check_fused(
      problem_of("conv2d(x, w, stride=4, pad=2) | relu", {{1, 35, 35, 3}, {64, 11, 11, 3}}));
  check_right(problem_of("conv2d(x, w)", {{3, 1, 1, 1}, {1, 1, 1, 1}}));
}

TEST_CASE("weights in another framework's order give the same packed weight") {
  onednn_backend const b;
  problem const p = problem_of("conv2d(x, w, pad=1)", {{1, 6, 6, 8}, {16, 3, 3, 8}});
  auto const k = b.build(p).value();
  std::vector<float> ohwi(16 * 9 * 8), o_first(ohwi.size());
  for (std::size_t i = 0; i < ohwi.size(); ++i) ohwi[i] = static_cast<float>(i);
  for (std::size_t o = 0; o < 16; ++o)
    for (std::size_t t = 0; t < 9; ++t)
      for (std::size_t i = 0; i < 8; ++i) o_first[(o * 8 + i) * 9 + t] = ohwi[(o * 9 + t) * 8 + i];
  auto const a = k->pack(1, view(ohwi.data(), {16, 3, 3, 8})).value();
  auto const c = k->pack(1, oihw(o_first.data(), 16, 8, 3, 3)).value();
  REQUIRE(a.storage->size() == c.storage->size());
  CHECK(std::memcmp(a.data(), c.data(), a.storage->size()) == 0);
  CHECK(a.layout_key == c.layout_key);
}

TEST_CASE("groups and depthwise") {
  for (std::string_view precision : precisions) {
    check_right(problem_of(with("conv2d(x, w, groups=2, pad=1) | add b:vector", precision),
                           {{1, 6, 6, 8}, {6, 3, 3, 4}}));
    check_right(
        problem_of(with("conv2d(x, w, groups=3)", precision), {{1, 5, 5, 9}, {6, 2, 2, 3}}));
    for (extent c : {3, 4, 15, 16, 17}) {
      std::string const groups = std::to_string(c);
      problem const p = problem_of(
          with("conv2d(x, w, groups=" + groups + ", pad=1) | add b:vector | relu", precision),
          {{1, 7, 6, c}, {c, 3, 3, 1}});
      check_fused(p);
      check_fused(problem_of(
          with("conv2d(x, w, groups=" + groups + ", pad=2, dilation=2) | add b:vector", precision),
          {{1, 5, 5, c}, {c, 3, 3, 1}}));
    }
  }
}

TEST_CASE("depthwise with dilation sums its taps") {
  problem const p =
      ones_problem("conv2d(x, w, groups=4, pad=2, dilation=2) | mul 0.111111111 | add 1",
                   {1, 5, 5, 4}, {4, 3, 3, 1});
  std::vector<float> const out = count_taps(p);
  REQUIRE(out.size() == 100);
  CHECK(out[0] == doctest::Approx(1 + 4.0 / 9));
  CHECK(out[2 * 4] == doctest::Approx(1 + 6.0 / 9));
  CHECK(out[(2 * 5 + 2) * 4] == doctest::Approx(2));
}

TEST_CASE("all-ones filters count the taps inside: padding, strides, dilation") {
  std::mt19937 random(20);
  auto const below = [&](unsigned n) { return static_cast<int>(random() % n); };
  int ran = 0, refused = 0;
  for (int i = 0; i < 400; ++i) {
    int const k = 1 + below(5), s = 1 + below(3), d = 1 + below(3), w = 1 + below(20),
              channels = 1 + below(9);
    int const left = below(4), right = below(4);
    if (w + left + right < (k - 1) * d + 1) continue;
    std::string const chain =
        "conv1d(x, w, stride=" + std::to_string(s) + ", pad_begin=" + std::to_string(left) +
        ", pad_end=" + std::to_string(right) + ", dilation=" + std::to_string(d) + ") | add 10" +
        (i % 2 == 0 ? "" : " [bf16]");
    problem const p = ones_problem(chain, {1, w, channels}, {3, k, channels});
    std::vector<float> const out = count_taps(p);
    if (out.empty()) {
      ++refused;
      continue;
    }
    ++ran;
    for (std::size_t o = 0; o < out.size(); ++o) {
      int taps = 0;
      for (int t = 0; t < k; ++t) {
        int const at = static_cast<int>(o / 3) * s + t * d - left;
        taps += at >= 0 && at < w ? 1 : 0;
      }
      CHECK_MESSAGE(out[o] == round_to(p.outputs[0].type, static_cast<float>(10 + taps * channels)),
                    chain);
    }
  }
  CHECK(ran > 200);
  MESSAGE("padding sweeps: " << ran << " ran, " << refused << " were refused");
}

TEST_CASE("strides larger than the kernel, kernels as large as the image") {
  for (std::string_view precision : precisions) {
    check_right(
        problem_of(with("conv2d(x, w, stride=3)", precision), {{1, 67, 4, 32}, {48, 1, 1, 32}}));
    check_right(
        problem_of(with("conv2d(x, w, stride=5)", precision), {{1, 13, 13, 4}, {8, 2, 2, 4}}));
    check_right(
        problem_of(with("conv2d(x, w, stride=4)", precision), {{1, 13, 13, 4}, {8, 3, 3, 4}}));
    for (extent k : {1, 2, 3, 5, 7})
      for (extent c : {1, 2, 3, 5})
        check_right(problem_of(with("conv2d(x, w)", precision), {{1, k, k, c}, {3, k, k, c}}));
  }
  std::vector<float> const out =
      count_taps(ones_problem("conv2d(x, w) [bf16]", {1, 2, 2, 1}, {1, 2, 2, 1}));
  REQUIRE(out.size() == 1);
  CHECK(out[0] == 4);
}

TEST_CASE("output positions that see only padding are refused: oneDNN crashes at some of them") {
  problem const p =
      problem_of("conv2d(x, w, stride=3x1, pad_begin=0x1)", {{1, 67, 4, 32}, {48, 1, 1, 32}});
  verdict const v = onednn_backend().supports(p);
  CHECK_FALSE(v);
  CHECK(v.reason ==
        "sinter: oneDNN is not trusted with output positions that see only padding, as in step 0 "
        "(conv2d) along "
        "spatial axis 1");
}

TEST_CASE("widths and kernels from 1 on, with traps for division by zero left to the signal") {
  for (extent w = 1; w <= 40; w += 3)
    for (extent k = 1; k <= 11 && k <= w; k += 2)
      check_right(problem_of("conv1d(x, w) | relu", {{1, w, 3}, {5, k, 3}}));
}

TEST_CASE("images with gaps, permuted or channels first are copied, never misread") {
  for (std::string_view precision : precisions) {
    shape const src{2, 6, 5, 8}, weight{7, 3, 3, 8};
    std::string const chain = with("conv2d(x, w, pad=1) | add b:vector | tanh", precision);
    check_right(problem_of(chain, {src, weight}, {{{6 * 5 * 8 + 3, 40, 8, 1}}, {}}));
    check_right(problem_of(chain, {src, weight}, {{{500, 61, 12, 1}}, {}}));
    check_right(problem_of(chain, {src, weight}, {{}, {{500, 61, 12, 1}}}));
    check_right(problem_of(chain, {src, weight}, {{channels_first(src)}, {{500, 61, 12, 1}}}));
    check_right(problem_of(chain, {src, weight}, {{{1, 2, 12, 60}}, {}}));
  }
}

TEST_CASE(
    "memory in channels-first order stays near the speed of channels-last: no im2col in bf16") {
  shape const src{2, 28, 28, 64};
  problem const p = problem_of("conv2d(x, w, pad=1) | relu [bf16]", {src, {64, 3, 3, 64}},
                               {{channels_first(src)}, {channels_first({2, 28, 28, 64})}});
  for (stage_note const& s : stages_of(p))
    CHECK(s.implementation.find(":gemm") == std::string::npos);
}

TEST_CASE("batch, spatial and channel addends each reach their own elements") {
  for (std::string_view precision : {"", " [bf16]"})
    for (shape const& r : {shape{3, 2, 2, 5}, shape{5}, shape{2, 2, 1}, shape{3, 1, 1, 1},
                           shape{1, 1, 2, 1}, shape{1}})
      for (std::string_view more : {"", " | relu"})
        check_right(problem_of(with("conv2d(x, w) | add r:tensor" + std::string(more), precision),
                               {{3, 2, 2, 4}, {5, 1, 1, 4}, r}));
}

TEST_CASE("no elements, no channels") {
  check_right(
      problem_of("conv2d(x, w, pad=1) | add b:vector | relu", {{0, 5, 5, 3}, {4, 3, 3, 3}}));
  check_right(
      problem_of("conv2d(x, w, pad=1) | add b:vector | relu", {{2, 5, 5, 0}, {4, 3, 3, 0}}));
}

TEST_CASE("under strict numerics a NaN stays with the outputs that read it") {
  for (std::string_view chain :
       {"conv2d(x, w, pad=1)", "conv2d(x, w, pad=1) [bf16]", "conv1d(x, w, dilation=2) [bf16]"})
    for (extent channels : {2, 6, 16, 24}) {
      bool const two = chain.starts_with("conv2d");
      shape const src = two ? shape{1, 6, 5, channels} : shape{1, 9, channels};
      shape const weight = two ? shape{5, 3, 3, channels} : shape{5, 3, channels};
      check_right(problem_of(chain, {src, weight}, {}, numerics::strict));
    }
}
