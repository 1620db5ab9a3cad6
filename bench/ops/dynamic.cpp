// ops/dynamic: kernels that were compiled for every number of rows, or every number and size of images, beside kernels
// for the very extents of the call.
#include "support/work.hpp"

namespace sinter_bench {
namespace {

struct problem {
  char const* name;
  char const* chain;
  std::map<std::string, sinter::shape> extents;
};

std::vector<problem> problems() {
  constexpr char const* product = "matmul(x, w) | add b:vector | gelu_tanh";
  return {
      {"16x16x16", product, {{"x", {16, 16}}, {"w", {16, 16}}}},
      {"64x64x64", product, {{"x", {64, 64}}, {"w", {64, 64}}}},
      {"128x128x128", product, {{"x", {128, 128}}, {"w", {128, 128}}}},
      {"bert_base.ffn_up/1x3072x768", product, {{"x", {1, 768}}, {"w", {768, 3072}}}},
      {"bert_base.ffn_up/128x3072x768", product, {{"x", {128, 768}}, {"w", {768, 3072}}}},
      {"resnet50.layer1.conv1/64x56-64k1s1",
       "conv2d(x, w) | add b:vector | relu",
       {{"x", {1, 56, 56, 64}}, {"w", {64, 1, 1, 64}}}},
      {"resnet50.layer1.conv2/64x56-64k3s1",
       "conv2d(x, w, pad=1) | add b:vector | relu",
       {{"x", {1, 56, 56, 64}}, {"w", {64, 3, 3, 64}}}},
      {"resnet50.conv1/3x224-64k7s2",
       "conv2d(x, w, stride=2, pad=3) | add b:vector | relu",
       {{"x", {1, 224, 224, 3}}, {"w", {64, 7, 7, 3}}}},
  };
}

line_up static_and_dynamic(work const& w) {
  return line_up_of(w, [](line_up_maker& l, std::shared_ptr<workload> const& load) {
    l.join("raw", raw_onednn("raw", load, fusion::fused), fusion::fused);
    l.join("jit", sinter_call("jit", load, "jit", fusion::fused), fusion::fused);
    l.join("jit_dynamic", sinter_call("jit_dynamic", load, "jit", fusion::fused_dynamic),
           fusion::fused_dynamic);
  });
}

void add(selection const& s, std::vector<group>& groups) {
  if (s.quick) return;
  for (problem const& p : problems())
    for (std::string const precision : {"f32", "bf16"}) {
      group g;
      g.name = std::string("ops/dynamic/") + p.name + "/" + precision;
      g.table = "ops/dynamic " + precision;
      work const w{std::string(p.chain) + " [" + precision + "]", p.extents};
      g.prepare = [w] { return static_and_dynamic(w); };
      groups.push_back(std::move(g));
    }
}

bool const added = add_source(&add);

}  // namespace
}  // namespace sinter_bench
