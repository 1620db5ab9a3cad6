#include "profile.hpp"

#include <cstring>
#include <utility>

#include <sinter/plan/text.hpp>
#include <sinter/run/call_state.hpp>
#include <sinter/run/network_plan.hpp>

namespace sinter_bench {
namespace {

constexpr std::size_t at(int i) { return static_cast<std::size_t>(i); }

double bytes_of(sinter::tensor_desc const& d) {
  return static_cast<double>(sinter::element_count(d.dims) * sinter::size_of(d.type));
}

/// The part of a convolution's taps that meets pixels of the image, and not its padding.
double part_inside(sinter::problem const& p, int step) {
  sinter::step const& s = p.chain.steps[step];
  sinter::contraction_attrs const& a = p.chain.attrs(s);
  sinter::shape const out = sinter::value_dims(p, sinter::step_ref(step));
  sinter::shape const& w = p.operands[at(s.args[1].index)].dims;
  sinter::shape const in = sinter::value_dims(p, s.args[0]);
  double part = 1;
  for (int axis = 0; axis < 2; ++axis) {
    sinter::extent const outputs = out[axis + 1], taps = w[axis + 1];
    sinter::extent inside = 0;
    for (sinter::extent o = 0; o < outputs; ++o)
      for (sinter::extent t = 0; t < taps; ++t) {
        sinter::extent const pixel = o * a.stride[axis] - a.pad_begin[axis] + t * a.dilation[axis];
        inside += pixel >= 0 && pixel < in[axis + 1] ? 1 : 0;
      }
    part *= static_cast<double>(inside) / static_cast<double>(outputs * taps);
  }
  return part;
}

/// Of all contractions. `inside`: a tap in the padding is no work.
double flops_of(sinter::problem const& p, bool inside) {
  double sum = 0;
  for (int i = 0; i < p.chain.steps.ssize(); ++i) {
    sinter::step const& s = p.chain.steps[i];
    if (s.contraction < 0) continue;
    sinter::shape const& w = p.operands[at(s.args[1].index)].dims;
    double terms = 1;
    if (s.code == sinter::op::matmul)
      terms = static_cast<double>(w[p.chain.attrs(s).transposed_weight ? 1 : 0]);
    else
      for (int j = 1; j < w.ssize(); ++j) terms *= static_cast<double>(w[j]);
    if (inside && s.code == sinter::op::conv2d) terms *= part_inside(p, i);
    sum += 2 * terms *
           static_cast<double>(sinter::element_count(sinter::value_dims(p, sinter::step_ref(i))));
  }
  return sum;
}

}  // namespace

profile::profile(sinter::network const& net)
    : net_(net), call_(std::move(sinter::detail::call_state::make(net.plan().program).value())) {
  std::vector<sinter::named_view> in;
  std::vector<sinter::named_output> out;
  auto const memory = [&](sinter::tensor_desc const& d) {
    memory_.emplace_back(static_cast<std::size_t>(bytes_of(d)));
    std::memset(memory_.back().data(), 0x3c, memory_.back().size());  // about 0.01, in any float
    return memory_.back().data();
  };
  for (auto const& slot : net.plan().program->inputs) {
    sinter::tensor_desc const d = net.describe(slot.name).value();
    in.push_back({slot.name, {memory(d), d.type, d.dims, d.strides, false}});
  }
  for (auto const& slot : net.plan().program->outputs) {
    sinter::tensor_desc const d = net.describe(slot.name).value();
    out.push_back({slot.name, {memory(d), d.type, d.dims, d.strides, false}});
  }
  call_->accept(in, {}, out).check();
  call_->settle();
}
profile::~profile() = default;

int profile::count() const { return static_cast<int>(call_->invocations.size()); }
void profile::run_one(int i) {
  if (sinter::code const c = call_->invocations[at(i)]->run(); c != sinter::code::ok)
    sinter::raise({c, "sinter: a group of the network failed"});
}

void profile::run_shared() {
  if (sinter::code const c = call_->run(); c != sinter::code::ok)
    sinter::raise({c, "sinter: a group of the network failed"});
}

int profile::last_with(int i) const {
  auto const* const strip = net_.plan().program->strip_of(i);
  return strip == nullptr ? i : strip->last;
}
std::string profile::how(int i) const {
  auto const* const strip = net_.plan().program->strip_of(i);
  return strip == nullptr ? std::string() : strip->how;
}

sinter::problem const& profile::problem(int i) const {
  return net_.plan().program->group(i).problem;
}
bool profile::is_copy(int i) const { return net_.plan().labels[at(i)].starts_with("copy "); }

std::string profile::label(int i) const {
  std::string const& block = net_.plan().labels[at(i)];
  if (is_copy(i)) return block;
  return block + ": " + std::string(sinter::text<1024>(problem(i).chain).view());
}
std::string profile::extents(int i) const {
  sinter::problem const& p = problem(i);
  std::string text;
  for (int o = 0; o < p.chain.operands.ssize(); ++o) {
    if (p.chain.operands[o].role == sinter::role::vector) continue;
    if (!text.empty()) text += ", ";
    text += sinter::to_string(p.operands[at(o)].dims);
  }
  return text;
}
std::string profile::implementation(int i) const {
  std::string text;
  for (sinter::stage_note const& s : net_.plan().program->group(i).chosen.stages)
    text += (text.empty() ? "" : " + ") + s.implementation;
  return text;
}

double profile::flops(int i) const { return flops_of(problem(i), false); }
double profile::flops_inside(int i) const { return flops_of(problem(i), true); }
double profile::activation_bytes(int i) const {
  sinter::problem const& p = problem(i);
  double sum = 0;
  for (int o = 0; o < p.chain.operands.ssize(); ++o)
    if (p.chain.operands[o].role == sinter::role::tensor) sum += bytes_of(p.operands[at(o)]);
  for (int o = 0; o < p.chain.outputs.ssize(); ++o) sum += bytes_of(p.outputs[at(o)]);
  return sum;
}
double profile::weight_bytes(int i) const {
  sinter::problem const& p = problem(i);
  double sum = 0;
  for (int o = 0; o < p.chain.operands.ssize(); ++o)
    if (p.chain.operands[o].role == sinter::role::weight) sum += bytes_of(p.operands[at(o)]);
  return sum;
}
bool profile::is_linear(int i) const {
  sinter::shape const& d = problem(i).outputs[0].dims;
  return flops(i) > 0 && (d.ssize() == 2 || (d.ssize() == 4 && d[1] == 1 && d[2] == 1));
}

}  // namespace sinter_bench
