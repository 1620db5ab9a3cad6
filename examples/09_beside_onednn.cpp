// Beside raw oneDNN: a primitive of oneDNN's own (resampling) between two fused chains, all on the same memory.
#include <cstdio>
#include <oneapi/dnnl/dnnl.hpp>
#include <sinter/sinter.hpp>
#include <vector>

constexpr auto x = sinter::tensor<"x">;
constexpr auto w = sinter::weight<"w">;
constexpr auto b = sinter::vector<"b">;
constexpr auto conv = sinter::relu(sinter::conv2d(x, w, {.pad = 1}) + b);
constexpr auto classify = sinter::matmul(x, w) + b;

// Sinter's logical order is N,H,W,C and oneDNN's N,C,H,W; in memory both mean the same with the tag nhwc.
dnnl::memory as_memory(dnnl::engine const& engine, std::vector<float>& data,
                       dnnl::memory::dims const& nchw) {
  using dnnl::memory;
  return {{nchw, memory::data_type::f32, memory::format_tag::nhwc}, engine, data.data()};
}

int main() {
  std::vector<float> image(8 * 8 * 3, 1), filter(16 * 3 * 3 * 3, 0.5F), bias(16);
  std::vector<float> features(8 * 8 * 16), enlarged(16 * 16 * 16);
  sinter::options const quiet{.on_fallback = sinter::policy::allow,
                              .on_split = sinter::policy::allow};

  auto first = sinter::compile<sinter::f32>(conv, x.dims(1, 8, 8, 3), w.dims(16, 3, 3, 3), quiet);
  first(x = image, first.pack(w = filter), b = bias, sinter::out = features);

  // What Sinter has no op for is a primitive of oneDNN's: there is no copy in between, and no wrapper.
  dnnl::engine const engine(dnnl::engine::kind::cpu, 0);
  dnnl::stream stream(engine);
  dnnl::memory source = as_memory(engine, features, {1, 16, 8, 8});
  dnnl::memory target = as_memory(engine, enlarged, {1, 16, 16, 16});
  dnnl::resampling_forward const enlarge({engine, dnnl::prop_kind::forward_inference,
                                          dnnl::algorithm::resampling_nearest, source.get_desc(),
                                          target.get_desc()});
  enlarge.execute(stream, {{DNNL_ARG_SRC, source}, {DNNL_ARG_DST, target}});
  stream.wait();

  // 27 taps of 0.5 in the middle of the image, 18 at an edge, 12 at a corner; each pixel becomes four.
  std::printf("corner %g, edge %g, middle %g\n", features[0], features[16], features[9 * 16]);
  std::printf("enlarged: %g %g %g %g\n", enlarged[0], enlarged[16], enlarged[32],
              enlarged[34 * 16]);

  // The enlarged image is the row of a matrix: the same memory under other extents.
  constexpr sinter::extent inputs = 16 * 16 * 16;
  std::vector<float> weights(inputs * 2, 0.125F), shift{0, 1}, scores(2);
  auto last = sinter::compile<sinter::f32>(classify, x.dims(1, inputs), w.dims(inputs, 2), quiet);
  last(x = enlarged, last.pack(w = weights), b = shift, sinter::out = scores);
  std::printf("scores: %g %g\n", scores[0], scores[1]);
}
