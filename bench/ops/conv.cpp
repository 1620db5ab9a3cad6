// ops/conv: convolutions with bias and relu of real networks, on every backend, against oneDNN's fused primitive.
// Rows of shapes/conv_shapes.csv.
#include <set>

#include "support/shapes.hpp"
#include "support/work.hpp"

namespace sinter_bench {
namespace {

std::string pair_text(int first, int second) {
  return first == second ? std::to_string(first)
                         : std::to_string(first) + "x" + std::to_string(second);
}

/// "conv2d(x, w, stride=2, pad=3)"
std::string contraction_text(shape_row const& row) {
  std::string text = "conv2d(x, w";
  auto const attribute = [&](char const* name, char const* y, char const* x, int usual) {
    int const first = row.number(y), second = row.number(x);
    if (first != usual || second != usual)
      text += std::string(", ") + name + "=" + pair_text(first, second);
  };
  attribute("stride", "sh", "sw", 1);
  attribute("pad", "ph", "pw", 0);
  attribute("dilation", "dh", "dw", 1);
  if (row.number("groups") != 1) text += ", groups=" + row.text("groups");
  return text + ")";
}

std::string kind_of(shape_row const& row) {
  int const groups = row.number("groups"), channels = row.number("ic");
  if (groups == channels && groups > 1) return "depthwise";
  if (groups > 1) return "grouped";
  if (channels <= 4) return "first";
  return "dense";
}

bool is_usual(std::string const& model, std::string const& kind) {
  if (model == "resnet50") return true;
  if (model == "resnext50_32x4d") return kind == "grouped";
  return (model == "mobilenet_v2" || model == "mnasnet1_0") && kind == "depthwise";
}

void add(selection const& s, std::vector<group>& groups) {
  std::set<std::string> seen;
  std::set<std::string> quick_kinds;
  for (shape_row const& row : read_shapes("conv_shapes.csv")) {
    std::string const kind = kind_of(row), &model = row.text("model");
    if (!s.all && !is_usual(model, kind)) continue;
    if (s.quick && !quick_kinds.insert(kind).second) continue;
    std::string const size = row.text("ic") + "x" + pair_text(row.number("ih"), row.number("iw")) +
                             "-" + row.text("oc") + "k" +
                             pair_text(row.number("kh"), row.number("kw")) + "s" +
                             pair_text(row.number("sh"), row.number("sw"));
    std::string const contraction = contraction_text(row);
    if (!seen.insert(size + contraction).second) continue;
    sinter::shape const x{row.number("n"), row.number("ih"), row.number("iw"), row.number("ic")};
    sinter::shape const w{row.number("oc"), row.number("kh"), row.number("kw"),
                          row.number("ic") / row.number("groups")};
    for (std::string const precision : {"f32", "bf16"}) {
      group g;
      g.name =
          "ops/conv/" + kind + "/" + model + "." + row.text("layer") + "/" + size + "/" + precision;
      g.table = "ops/conv/" + kind + " " + precision;
      work const load{contraction + " | add b:vector | relu [" + precision + "]",
                      {{"x", x}, {"w", w}}};
      field f;
      f.steps = f.peers = true;
      add_everyone(groups, std::move(g), load, s, f, true);
    }
  }
}

bool const added = add_source(&add);

}  // namespace
}  // namespace sinter_bench
