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
    {"mobilenet_v2.features.2",
     "conv2d(x, w1) | add b1:vector | clip(0, 6) -> ~h;"
     "conv2d(~h, w2, stride=2, pad=1, groups=96) | add b2:vector | clip(0, 6) -> ~i;"
     "conv2d(~i, w3) | add b3:vector",
     {{"x", {1, 112, 112, 16}},
      {"w1", {96, 1, 1, 16}},
      {"w2", {96, 3, 3, 1}},
      {"w3", {24, 1, 1, 96}}}},
    {"mobilenet_v2.features.3",
     "conv2d(x, w1) | add b1:vector | clip(0, 6) -> ~h;"
     "conv2d(~h, w2, pad=1, groups=144) | add b2:vector | clip(0, 6) -> ~i;"
     "conv2d(~i, w3) | add b3:vector | add x:tensor",
     {{"x", {1, 56, 56, 24}},
      {"w1", {144, 1, 1, 24}},
      {"w2", {144, 3, 3, 1}},
      {"w3", {24, 1, 1, 144}}}},
    {"mobilenet_v2.features.5",
     "conv2d(x, w1) | add b1:vector | clip(0, 6) -> ~h;"
     "conv2d(~h, w2, pad=1, groups=192) | add b2:vector | clip(0, 6) -> ~i;"
     "conv2d(~i, w3) | add b3:vector | add x:tensor",
     {{"x", {1, 28, 28, 32}},
      {"w1", {192, 1, 1, 32}},
      {"w2", {192, 3, 3, 1}},
      {"w3", {32, 1, 1, 192}}}},
    {"densenet121.denselayer6",
     "mul(x, s:vector) | add t:vector | relu -> ~a;"
     "conv2d(~a, w1) | add b1:vector | relu -> ~n;"
     "conv2d(~n, w2, pad=1)",
     {{"x", {1, 56, 56, 224}}, {"w1", {128, 1, 1, 224}}, {"w2", {32, 3, 3, 128}}}},
    {"resnet50.layer1.0",
     "conv2d(x, w1) | add b1:vector | relu -> ~a;"
     "conv2d(~a, w2, pad=1) | add b2:vector | relu -> ~n;"
     "conv2d(~n, w3) | add b3:vector | relu",
     {{"x", {1, 56, 56, 64}},
      {"w1", {64, 1, 1, 64}},
      {"w2", {64, 3, 3, 64}},
      {"w3", {256, 1, 1, 64}}}},
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
        g.name =
            std::string("blocks/strips/") + b.name + "/" + std::to_string(images) + "/" + precision;
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
