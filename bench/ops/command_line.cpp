// One problem of the user's own, said on the command line:
//
//   sinter_bench --chain "matmul | add b:vector | gelu_tanh" --shape 128x3072x768 --precision bf16 --backend jit,onednn
//   sinter_bench --chain "conv2d(pad=1) | add b:vector | relu" --shape 1x56x56x64 --weight 64x3x3x64
//
// A matmul's shape is MxNxK. With --weight, --shape is the first operand's and --weight the weight's. Any other chain
// names its operands' extents: --shape x=1x56x56x64,w=64x3x3x64,r=1x56x56x64.
#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include <sinter/run/dispatch.hpp>

#include "peers/peer_calls.hpp"
#include "support/work.hpp"

namespace sinter_bench {
namespace {

[[noreturn]] void refuse(std::string const& sentence) {
  std::fprintf(stderr, "sinter: %s\n", sentence.c_str());
  std::exit(2);
}

std::string joined(std::vector<std::string> const& names) {
  std::string text;
  for (std::string const& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

/// What --backend and --peers name has to be there.
void check_names(char const* option, std::vector<std::string> const& given,
                 std::vector<std::string> const& known) {
  for (std::string const& name : given)
    if (std::find(known.begin(), known.end(), name) == known.end())
      refuse(std::string(option) + " names '" + name + "'; this build has " + joined(known));
}

sinter::shape parse_extents(char const* option, std::string const& text) {
  sinter::shape dims;
  for (std::size_t from = 0; from <= text.size();) {
    std::size_t const to = std::min(text.find('x', from), text.size());
    std::string const number = text.substr(from, to - from);
    if (number.empty() || number.size() > 12 ||
        number.find_first_not_of("0123456789") != std::string::npos || dims.full())
      refuse(std::string(option) + " is '" + text +
             "'; extents joined by x are wanted, for example 128x3072x768");
    dims.push_back(std::stoll(number));
    from = to + 1;
  }
  return dims;
}

/// "x=1x56x56x64,w=64x3x3x64"
std::map<std::string, sinter::shape> parse_named(std::string const& text) {
  std::map<std::string, sinter::shape> extents;
  for (std::size_t from = 0; from <= text.size();) {
    std::size_t const to = std::min(text.find(',', from), text.size());
    std::string const one = text.substr(from, to - from);
    std::size_t const equals = one.find('=');
    if (equals == std::string::npos || equals == 0)
      refuse("--shape holds '" + one + "'; name=extents is wanted, for example x=1x56x56x64");
    if (!extents.emplace(one.substr(0, equals), parse_extents("--shape", one.substr(equals + 1)))
             .second)
      refuse("--shape gives extents of '" + one.substr(0, equals) + "' twice");
    from = to + 1;
  }
  return extents;
}

std::map<std::string, sinter::shape> parse_shape(selection const& s, bool contracts,
                                                 bool is_matmul) {
  if (s.shape.empty()) refuse("--chain wants a --shape: MxNxK of a matmul, or name=extents,...");
  if (s.shape.find('=') != std::string::npos) {
    if (!s.weight.empty()) refuse("--weight is for a --shape without names; say w=... in --shape");
    return parse_named(s.shape);
  }
  sinter::shape const dims = parse_extents("--shape", s.shape);
  if (!s.weight.empty()) {
    if (!contracts) refuse("--weight is for a chain that begins with a matmul or a convolution");
    return {{"x", dims}, {"w", parse_extents("--weight", s.weight)}};
  }
  if (!contracts) return {{"x", dims}};
  if (!is_matmul)
    refuse(
        "a convolution wants --weight beside --shape, for example --shape 1x56x56x64 --weight "
        "64x3x3x64");
  if (dims.size() != 3)
    refuse("--shape is '" + s.shape + "'; a matmul wants MxNxK, or --shape of x and --weight");
  return {{"x", {dims[0], dims[2]}}, {"w", {dims[2], dims[1]}}};
}

/// The names of a contraction's operands, or of the first step's, may be left out.
std::string with_operands(std::string chain, bool contracts) {
  std::size_t const begin = std::min(chain.find_first_not_of(' '), chain.size());
  std::size_t const end = std::min(chain.find_first_of(" |(", begin), chain.size());
  std::size_t const next = std::min(chain.find_first_not_of(' ', end), chain.size());
  bool const has_list = next < chain.size() && chain[next] == '(';
  if (!contracts) return has_list ? chain : chain.insert(end, "(x:tensor)");
  if (!has_list) return chain.insert(end, "(x, w)");
  // "conv2d(pad=1)": attributes alone.
  std::size_t const stop = std::min(chain.find_first_of(",)", next), chain.size());
  std::string const first = chain.substr(next + 1, stop - next - 1);
  bool const attribute =
      first.find('=') != std::string::npos || first.find("transposed_") != std::string::npos;
  if (attribute) chain.insert(next + 1, "x, w, ");
  return chain;
}

void add(selection const& s, std::vector<group>& groups) {
  std::vector<std::string> backends, peers{"none"};
  for (sinter::backend const* b : sinter::backends()) backends.emplace_back(b->name());
  for (peer const& p : all_peers()) peers.emplace_back(p.name);
  check_names("--backend", s.backends, backends);
  check_names("--peers", s.peers, peers);
  if (s.chain.empty()) {
    if (!s.shape.empty() || !s.weight.empty()) refuse("--shape and --weight want a --chain");
    return;
  }
  std::size_t const begin = std::min(s.chain.find_first_not_of(' '), s.chain.size());
  std::string const start = s.chain.substr(begin);
  bool const is_matmul = start.starts_with("matmul"),
             contracts = is_matmul || start.starts_with("conv");
  std::string const chain = with_operands(s.chain, contracts);
  work const w = with_precision({chain, parse_shape(s, contracts, is_matmul)}, s.precision);
  auto const load = workload::make_problems(w);
  if (!load.ok()) refuse(load.error().message.substr(sizeof "sinter: " - 1));
  group g;
  g.name = "command_line/" + s.shape + (s.weight.empty() ? "" : "_" + s.weight) + "/" + s.precision;
  g.table = chain + " " + s.precision;
  field f;
  f.steps = f.our_steps = f.peers = true;
  add_everyone(groups, std::move(g), w, s, f, true);
  for (auto const& [name, dims] : w.extents)
    if (!(*load)->reads(name))
      refuse("--shape gives extents of '" + name + "', which the chain does not read");
}

bool const added = add_source(&add);

}  // namespace
}  // namespace sinter_bench
