// blocks/strips: neighbouring groups apart, and strip by strip in cache, in one run: what the rules of
// run/strip_rules.hpp say is measured here.
#include "blocks.hpp"

namespace sinter_bench {
namespace {

/// x has one image; batches follow.
block const blocks_in_strips[] = {
    {"mobilenet_v2.features.1",
     "conv2d(x, w1, pad=1, groups=32) | add b1:vector | clip(0, 6) -> ~h;"
     "conv2d(~h, w2) | add b2:vector",
     {{"x", {1, 112, 112, 32}}, {"w1", {32, 3, 3, 1}}, {"w2", {16, 1, 1, 32}}}},
    inverted_residual("mobilenet_v2.features.2", 112, 16, 96, 24, 2),
    inverted_residual("mobilenet_v2.features.3", 56, 24, 144, 24),
    inverted_residual("mobilenet_v2.features.5", 28, 32, 192, 32),
    {"densenet121.denselayer6",
     "mul(x, s:vector) | add t:vector | relu -> ~a;"
     "conv2d(~a, w1) | add b1:vector | relu -> ~n;"
     "conv2d(~n, w2, pad=1)",
     {{"x", {1, 56, 56, 224}}, {"w1", {128, 1, 1, 224}}, {"w2", {32, 3, 3, 128}}}},
    bottleneck("resnet50.layer1.0", 56, 64, 64, 256),
};

line_up apart_and_together(work const& w) {
  return line_up_of(w, [](line_up_maker& l, std::shared_ptr<workload> const& load) {
    l.join("apart", sinter_call("apart", load, "jit", fusion::apart), fusion::apart);
    l.join("in_strips", sinter_call("in_strips", load, "jit", fusion::in_strips),
           fusion::in_strips);
  });
}

void add(selection const& s, std::vector<group>& groups) {
  if (s.quick) return;
  for (block const& b : blocks_in_strips)
    for (sinter::extent images : {1, 4, 16})
      for (std::string const precision : {"f32", "bf16"}) {
        group g;
        g.name = "blocks/strips/" + b.name + "/" + std::to_string(images) + "/" + precision;
        g.table = "blocks/strips " + precision;
        work w = with_precision({b.chain, b.extents}, precision);
        w.extents["x"][0] = images;
        g.prepare = [w] { return apart_and_together(w); };
        groups.push_back(std::move(g));
      }
}

bool const added = add_source(&add);

}  // namespace
}  // namespace sinter_bench
