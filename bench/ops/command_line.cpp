// One problem of the user's own, said on the command line:
//
//   sinter_bench --chain "matmul | add b:vector | gelu_tanh" --shape 128x3072x768 --precision bf16 --backend jit,onednn
//
// A matmul's shape is MxNxK. Any other chain names its operands' extents: --shape x=1x56x56x64,w=64x3x3x64.
#include <cstdio>
#include <cstdlib>

#include "support/work.hpp"

namespace sinter_bench {
namespace {

[[noreturn]] void refuse(std::string const& sentence) {
  std::fprintf(stderr, "sinter: %s\n", sentence.c_str());
  std::exit(2);
}

sinter::shape parse_extents(std::string const& text) {
  sinter::shape dims;
  for (std::size_t from = 0; from <= text.size();) {
    std::size_t const to = std::min(text.find('x', from), text.size());
    std::string const number = text.substr(from, to - from);
    if (number.empty() || number.size() > 12 ||
        number.find_first_not_of("0123456789") != std::string::npos || dims.full())
      refuse("--shape is '" + text + "'; extents joined by x are wanted");
    dims.push_back(std::stoll(number));
    from = to + 1;
  }
  return dims;
}

std::map<std::string, sinter::shape> parse_shape(std::string const& text, bool is_matmul) {
  std::map<std::string, sinter::shape> extents;
  if (text.find('=') == std::string::npos) {
    sinter::shape const mnk = parse_extents(text);
    if (!is_matmul || mnk.size() != 3)
      refuse("--shape is '" + text + "'; MxNxK of a matmul is wanted, or x=...,w=...");
    extents["x"] = {mnk[0], mnk[2]};
    extents["w"] = {mnk[2], mnk[1]};
    return extents;
  }
  for (std::size_t from = 0; from < text.size();) {
    std::size_t const to = std::min(text.find(',', from), text.size());
    std::string const one = text.substr(from, to - from);
    std::size_t const equals = one.find('=');
    if (equals == std::string::npos) refuse("--shape holds '" + one + "'; name=extents is wanted");
    extents[one.substr(0, equals)] = parse_extents(one.substr(equals + 1));
    from = to + 1;
  }
  return extents;
}

void add(selection const& s, std::vector<group>& groups) {
  if (s.chain.empty()) return;
  std::string chain = s.chain;
  bool const is_matmul = chain.starts_with("matmul");
  // The names of a contraction's operands may be left out.
  std::size_t const word_end = std::min(chain.find_first_of(" |("), chain.size());
  if (is_matmul || chain.starts_with("conv"))
    if (chain.find_first_not_of(' ', word_end) == std::string::npos ||
        chain[chain.find_first_not_of(' ', word_end)] != '(')
      chain.insert(word_end, "(x, w)");
  if (s.shape.empty()) refuse("--chain wants a --shape");
  work const w{chain + " [" + s.precision + "]", parse_shape(s.shape, is_matmul)};
  if (auto const load = workload::make(w); !load.ok())
    refuse(load.error().message.substr(sizeof "sinter: " - 1));
  group g;
  g.name = "command_line/" + s.shape + "/" + s.precision;
  g.table = chain + " " + s.precision;
  g.prepare = [w, s] { return everyone(w, s); };
  groups.push_back(std::move(g));
}

bool const added = add_source(&add);

}  // namespace
}  // namespace sinter_bench
