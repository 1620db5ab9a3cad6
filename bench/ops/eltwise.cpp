// ops/eltwise, ops/reduce: chains without a contraction, and sums of rows, from a few KiB to more than the caches hold.
// Such work is bound by memory, so its ceiling is the reading of as many bytes.
#include "support/work.hpp"

namespace sinter_bench {
namespace {

struct kind {
  char const* name;
  char const* chain;
};
constexpr kind eltwise_kinds[] = {
    {"relu", "relu(x:tensor)"},
    {"gelu_tanh", "gelu_tanh(x:tensor)"},
    {"add_relu", "add(x:tensor, r:tensor) | relu"},
    {"scale_shift_swish", "mul(x:tensor, scale:vector) | add shift:vector | swish"},
};
constexpr kind reduce_kinds[] = {
    {"row_sum", "row_sum(x:tensor)"},
    {"row_max", "row_max(x:tensor)"},
};

void add_kind(std::vector<group>& groups, std::string const& family, kind const& k,
              sinter::extent rows, selection const& s) {
  constexpr sinter::extent columns = 1024;
  sinter::shape const dims{rows, columns};
  for (std::string const precision : {"f32", "bf16"}) {
    group g;
    g.name = family + "/" + k.name + "/" + sinter::to_string(dims) + "/" + precision;
    g.table = family + " " + precision;
    std::map<std::string, sinter::shape> extents{{"x", dims}};
    if (std::string(k.chain).find("r:tensor") != std::string::npos) extents["r"] = dims;
    work const w = with_precision({k.chain, extents}, precision);
    field f;
    f.steps = std::string(k.chain).find('|') != std::string::npos;
    f.peers = true;
    add_everyone(groups, std::move(g), w, s, f, rows == 1024 && !s.quick);
  }
}

void add(selection const& s, std::vector<group>& groups) {
  std::vector<sinter::extent> const rows =
      s.quick ? std::vector<sinter::extent>{64}
              : std::vector<sinter::extent>{1, 16, 128, 1024, 8192};
  for (sinter::extent r : rows) {
    for (kind const& k : eltwise_kinds) add_kind(groups, "ops/eltwise", k, r, s);
    for (kind const& k : reduce_kinds) add_kind(groups, "ops/reduce", k, r, s);
  }
}

bool const added = add_source(&add);

}  // namespace
}  // namespace sinter_bench
