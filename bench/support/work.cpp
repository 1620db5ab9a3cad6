#include "work.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

#include <sinter/plan/parse.hpp>
#include <sinter/run/dispatch.hpp>

namespace sinter_bench {
namespace {

using sinter::chain;
using sinter::extent;
using sinter::shape;

constexpr std::size_t at(int i) { return static_cast<std::size_t>(i); }

// Numbers with 8 bits of mantissa: the same in f32 and in bf16.
void fill_random(sinter::buffer& memory, sinter::dtype type, extent count) {
  std::uint32_t state = 12345;
  for (extent i = 0; i < count; ++i) {
    state = state * 1664525U + 1013904223U;
    float const v = static_cast<float>(static_cast<int>(state >> 24) - 128) / 128.0F;
    if (type == sinter::dtype::f32) {
      reinterpret_cast<float*>(memory.data())[i] = v;
    } else if (type == sinter::dtype::bf16) {
      reinterpret_cast<sinter::bfloat16*>(memory.data())[i] = sinter::to_bfloat16(v);
    } else if (type == sinter::dtype::f16) {
      reinterpret_cast<sinter::float16*>(memory.data())[i] = sinter::to_float16(v);
    } else {
      memory.data()[i] = static_cast<std::byte>(state >> 24);
    }
  }
}

std::size_t bytes_of(sinter::tensor_desc const& d) {
  return at(static_cast<int>(sinter::size_of(d.type))) *
         static_cast<std::size_t>(sinter::element_count(d.dims));
}

/// Is step i a bias of the contraction before it?
bool is_bias(chain const& c, int i) {
  sinter::step const& s = c.steps[i];
  return i == c.anchor() + 1 && s.code == sinter::op::add && s.args[0] == sinter::step_ref(i - 1) &&
         s.args[1].kind == sinter::value_kind::operand &&
         c.operands[s.args[1].index].role == sinter::role::vector;
}

/// One chain for each step, joined by internal operands of the output's dtype: what a library without fusion does.
std::vector<chain> split(chain const& whole) {
  std::vector<chain> parts;
  for (int i = 0; i < whole.steps.ssize();) {
    int last = i;
    if (whole.steps[i].contraction >= 0 && i + 1 < whole.steps.ssize() && is_bias(whole, i + 1))
      ++last;
    chain part;
    part.precision = whole.precision;
    for (int j = i; j <= last; ++j) {
      sinter::step s = whole.steps[j];
      for (sinter::value_ref& v : s.args) {
        if (v.kind == sinter::value_kind::step && v.index >= i) {
          v = sinter::step_ref(v.index - i);
        } else if (v.kind == sinter::value_kind::step || v.kind == sinter::value_kind::operand) {
          sinter::operand o;
          if (v.kind == sinter::value_kind::operand) {
            o = whole.operands[v.index];
          } else {
            o.name = sinter::name_text("step" + std::to_string(v.index));
            o.internal = true;
            o.type = whole.precision.dst;
          }
          v = sinter::operand_ref(part.operands.ssize());
          part.operands.push_back(o);
        } else if (v.kind == sinter::value_kind::constant) {
          part.constants.push_back(whole.constants[v.index]);
          v = sinter::constant_ref(part.constants.ssize() - 1);
        }
      }
      if (s.contraction >= 0) {
        part.contractions.push_back(whole.contractions[int{s.contraction}]);
        s.contraction = 0;
      }
      part.steps.push_back(s);
    }
    sinter::output o = whole.outputs[0];
    o.value = sinter::step_ref(last - i);
    if (last + 1 < whole.steps.ssize()) {
      o.name = sinter::name_text("step" + std::to_string(last));
      o.internal = true;
      o.type = whole.precision.dst;
    }
    part.outputs.push_back(o);
    parts.push_back(part);
    i = last + 1;
  }
  return parts;
}

class sinter_contender final : public contender {
 public:
  sinter_contender(std::string name, std::shared_ptr<workload> load, sinter::bound call,
                   std::string detail)
      : contender(std::move(name)),
        load_(std::move(load)),
        call_(std::move(call)),
        detail_(std::move(detail)) {}
  void loop(benchmark::State& state) override {
    for (auto _ : state) call_();
  }
  void once() override { call_(); }
  std::string detail() const override { return detail_; }

 private:
  std::shared_ptr<workload> load_;
  sinter::bound call_;
  std::string detail_;
};

/// The implementations in brackets of explain(): "[jit:avx512:f32:8x48]".
std::string implementations(sinter::program_core const& core) {
  std::string const text = core.explain();
  std::string found;
  for (std::size_t line = 0; line < text.size();) {
    std::size_t const end = text.find('\n', line);
    std::string const one = text.substr(line, end - line);
    std::size_t const open = one.rfind('['), close = one.rfind(']');
    if (one.starts_with("  kernel ") && open != std::string::npos && close != std::string::npos &&
        close > open)
      found += (found.empty() ? "" : " + ") + one.substr(open + 1, close - open - 1);
    line = end == std::string::npos ? text.size() : end + 1;
  }
  return found;
}

}  // namespace

sinter::result<sinter::problem> workload::describe(work const& w) {
  auto c = sinter::parse_chain(w.chain);
  if (!c.ok()) return c.error();
  std::vector<sinter::operand_spec> specs(c->operands.size());
  for (int i = 0; i < c->operands.ssize(); ++i) {
    auto const found = w.extents.find(std::string(c->operands[i].name.view()));
    if (found != w.extents.end())
      specs[at(i)] = sinter::dense_desc(c->operands[i].type, found->second);
  }
  return sinter::make_problem(*c, specs, {}, sinter::numerics::peer);
}

sinter::result<std::shared_ptr<workload>> workload::make(work const& w) {
  auto p = describe(w);
  if (!p.ok()) return p.error();
  auto load = std::make_shared<workload>();
  load->problem_ = std::move(*p);
  for (int i = 0; i < load->problem_.chain.operands.ssize(); ++i) {
    sinter::tensor_desc const& d = load->problem_.operands[at(i)];
    load->operands_.emplace_back(bytes_of(d));
    if (load->operands_.back().failed())
      return sinter::failure{sinter::code::out_of_memory, "sinter: no memory"};
    fill_random(load->operands_.back(), d.type, sinter::element_count(d.dims));
  }
  load->output_ = std::make_shared<sinter::buffer>(bytes_of(load->problem_.outputs[0]));
  if (load->output_->failed())
    return sinter::failure{sinter::code::out_of_memory, "sinter: no memory"};
  fill_random(*load->output_, load->problem_.outputs[0].type,
              sinter::element_count(load->problem_.outputs[0].dims));
  return load;
}

sinter::tensor_view workload::operand_view(int i) const {
  sinter::tensor_desc const& d = problem_.operands[at(i)];
  return {operand(i), d.type, d.dims, d.strides, false};
}
sinter::output_view workload::output_view() const {
  sinter::tensor_desc const& d = problem_.outputs[0];
  return {output(), d.type, d.dims, d.strides, false};
}

double workload::flops() const {
  double sum = 0;
  for (sinter::step const& s : problem_.chain.steps) {
    if (s.contraction < 0) continue;
    shape const& weight = problem_.operands[at(s.args[1].index)].dims;
    // Each output element is a sum over all of a weight but its output axis.
    bool const transposed = problem_.chain.attrs(s).transposed_weight;
    double terms = 1;
    if (s.code == sinter::op::matmul)
      terms = static_cast<double>(weight[weight.ssize() - (transposed ? 1 : 2)]);
    else
      for (int i = 1; i < weight.ssize(); ++i) terms *= static_cast<double>(weight[i]);
    sum += 2 * terms * static_cast<double>(sinter::element_count(problem_.domain));
  }
  return sum;
}

double workload::bytes() const {
  double sum = static_cast<double>(bytes_of(problem_.outputs[0]));
  for (sinter::buffer const& b : operands_) sum += static_cast<double>(b.size());
  return sum;
}

sinter::result<std::unique_ptr<contender>> sinter_call(std::string name,
                                                       std::shared_ptr<workload> const& load,
                                                       std::string_view backend, fusion f) {
  chain const& whole = load->problem().chain;
  std::vector<chain> const groups =
      f == fusion::step_by_step ? split(whole) : std::vector<chain>{whole};
  std::vector<sinter::named_desc> given;
  std::vector<sinter::named_view> weights, views;
  for (int i = 0; i < whole.operands.ssize(); ++i) {
    sinter::operand const& o = whole.operands[i];
    given.push_back({o.name, load->problem().operands[at(i)].dims, {}, {}});
    if (f == fusion::fused_dynamic && o.role == sinter::role::tensor)
      for (int axis = 0; axis + 1 < given.back().dims.ssize(); ++axis)
        given.back().dims[axis] = sinter::dynamic;
    (o.role == sinter::role::weight ? weights : views)
        .push_back({o.name.view(), load->operand_view(i)});
  }
  sinter::options chosen;
  chosen.backend = backend;
  chosen.on_split = sinter::policy::allow;
  chosen.on_fallback = sinter::policy::error;
  // oneDNN cannot keep strict's rules within a post-op; our own kernels do.
  chosen.numerics = backend == "onednn" ? sinter::numerics::peer : sinter::numerics::strict;
  auto core = sinter::make_program(groups, given, chosen);
  if (!core.ok()) return core.error();
  auto packed = (*core)->pack(weights);
  if (!packed.ok()) return packed.error();
  sinter::named_output const out{whole.outputs[0].name.view(), load->output_view()};
  sinter::packed const* const packs[] = {&*packed};
  auto call =
      (*core)->bind(views, weights.empty() ? sinter::program_core::packs{} : packs, {&out, 1});
  if (!call.ok()) return call.error();
  return std::unique_ptr<contender>(std::make_unique<sinter_contender>(
      std::move(name), load, std::move(*call), implementations(**core)));
}

sinter::result<std::unique_ptr<contender>> steps_alone(work const& w) {
  work without_sums = w;
  without_sums.extents["x"].back() = 0;
  without_sums.extents["w"][0] = 0;
  auto load = workload::make(without_sums);
  if (!load.ok()) return load.error();
  return sinter_call("steps", *load, "jit", fusion::fused);
}

std::vector<std::string> backends_of(selection const& s) {
  if (!s.backends.empty()) return s.backends;
  std::vector<std::string> names;
  for (sinter::backend const* b : sinter::backends())
    if (b->name() != "reference") names.emplace_back(b->name());
  return names;
}

std::vector<float> workload::read_output() const {
  sinter::tensor_desc const& d = problem_.outputs[0];
  std::vector<float> values(static_cast<std::size_t>(sinter::element_count(d.dims)));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = sinter::load_as_float(output(), d.type, static_cast<extent>(i));
  return values;
}

double workload::tolerance(double large, int roundings) const {
  double const outputs = static_cast<double>(sinter::element_count(problem_.domain));
  double const terms = outputs > 0 ? flops() / 2 / outputs : 0;
  // Both are off, and gelu_tanh is steeper than 1 by an eighth.
  double const sums = 1.25 * 2 * terms * terms * 0x1p-24;
  double const unit = problem_.outputs[0].type == sinter::dtype::f32
                          ? 0x1p-20  // activations: 16 ulp
                      : problem_.outputs[0].type == sinter::dtype::bf16 ? 0x1p-7
                                                                        : 0x1p-10;
  return sums + roundings * unit * large + 0x1p-20;
}

line_up_maker::line_up_maker(std::shared_ptr<workload> load) : load_(std::move(load)) {
  made_.flops = load_->flops();
  made_.bytes = load_->bytes();
  made_.type = load_->problem().chain.precision.src;
}

void line_up_maker::join(std::string const& name, sinter::result<std::unique_ptr<contender>> c,
                         fusion f) {
  join(name, load_, std::move(c), f);
}
void line_up_maker::join(std::string const& name, std::shared_ptr<workload> const& load,
                         sinter::result<std::unique_ptr<contender>> c, fusion f) {
  if (!c.ok()) {
    made_.absent.push_back({name, c.error().message});
    return;
  }
  // NaN in every dtype, unless it is written.
  std::memset(load->output(), 0xff, bytes_of(load->problem().outputs[0]));
  (*c)->once();
  compare(name, *load, f);
  made_.contenders.push_back(std::move(*c));
}

void line_up_maker::bound_issue_of(std::string const& name, work const& w) {
  auto steps = steps_alone(w);
  if (!steps.ok()) return;
  made_.steps = std::move(*steps);
  made_.issue_bound_of = name;
}

/// A value that was rounded between steps may be off by a unit of a far larger value in the end.
void line_up_maker::compare(std::string const& name, workload const& load, fusion f) {
  std::vector<float> const got = load.read_output();
  if (expected_.empty()) {
    expected_ = got;
    for (float v : got) largest_ = std::max(largest_, std::abs(static_cast<double>(v)));
  }
  bool const fused = f != fusion::step_by_step;
  int const roundings = fused ? 1 : load_->problem().chain.steps.ssize();
  for (std::size_t i = 0; i < got.size() && made_.wrong.empty(); ++i) {
    double const wanted = static_cast<double>(expected_[i]), given = static_cast<double>(got[i]);
    double const large = fused ? std::max(std::abs(wanted), std::abs(given)) : largest_;
    if (!(std::abs(wanted - given) <= load_->tolerance(large, roundings)))  // true for NaN
      made_.wrong = name + " computes " + std::to_string(given) + " at element " +
                    std::to_string(i) + ", the first one " + std::to_string(wanted);
  }
}

line_up everyone(work const& w, selection const& s, bool issue_bound) {
  return line_up_of(w, [&](line_up_maker& l, std::shared_ptr<workload> const& load) {
    l.join("raw", raw_onednn("raw", load, fusion::fused), fusion::fused);
    for (std::string const& b : backends_of(s))
      l.join(b, sinter_call(b, load, b, fusion::fused), fusion::fused);
    if (issue_bound) l.bound_issue_of("jit", w);
  });
}

line_up our_backends(work const& w, selection const& s) {
  return line_up_of(w, [&s](line_up_maker& l, std::shared_ptr<workload> const& load) {
    std::vector<std::string> names = backends_of(s);
    std::stable_partition(names.begin(), names.end(),
                          [](std::string const& name) { return name == "onednn"; });
    for (std::string const& b : names)
      l.join(b, sinter_call(b, load, b, fusion::fused), fusion::fused);
  });
}

}  // namespace sinter_bench
