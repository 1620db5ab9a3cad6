// Sinter as a contender: a program of the chains of a workload, bound to each copy of its memory.
#include <sinter/run/dispatch.hpp>

#include "work.hpp"

namespace sinter_bench {
namespace {

using sinter::chain;

/// Is step i a bias of the contraction before it?
bool is_bias(chain const& c, int i) {
  sinter::step const& s = c.steps[i];
  return i == c.anchor() + 1 && s.code == sinter::op::add && s.args[0] == sinter::step_ref(i - 1) &&
         s.args[1].kind == sinter::value_kind::operand &&
         c.operands[s.args[1].index].role == sinter::role::vector;
}

/// One chain for each step, joined by internal operands of the output's dtype: what a library without fusion does.
/// `number` keeps the names of several split chains apart.
void split(chain const& whole, int number, std::vector<chain>& parts) {
  auto const name_of_step = [number](int i) {
    return sinter::name_text("step" + std::to_string(number) + "_" + std::to_string(i));
  };
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
            o.name = name_of_step(v.index);
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
      o.name = name_of_step(last);
      o.internal = true;
      o.type = whole.precision.dst;
    }
    part.outputs.push_back(o);
    parts.push_back(part);
    i = last + 1;
  }
}

class sinter_contender final : public contender {
 public:
  sinter_contender(std::string name, std::shared_ptr<workload> load,
                   std::vector<sinter::bound> calls, std::string detail)
      : contender(std::move(name)),
        load_(std::move(load)),
        calls_(std::move(calls)),
        detail_(std::move(detail)) {}
  void loop(benchmark::State& state) override {
    if (calls_.size() == 1) {
      sinter::bound& call = calls_.front();
      for (auto _ : state) call();
      return;
    }
    for (auto _ : state) {
      calls_[next_]();
      next_ = next_ + 1 == calls_.size() ? 0 : next_ + 1;
    }
  }
  void once() override {
    for (sinter::bound& call : calls_) call();
  }
  std::string detail() const override { return detail_; }

 private:
  std::shared_ptr<workload> load_;
  std::vector<sinter::bound> calls_;  ///< one for each copy of the memory
  std::size_t next_ = 0;
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

std::vector<sinter::named_desc> describe(workload const& load, fusion f) {
  std::vector<sinter::named_desc> given;
  for (workload::given const& g : load.operands_of_user()) {
    given.push_back({g.operand.name, g.view.dims, {}, {}});
    if (f == fusion::fused_dynamic && g.operand.role == sinter::role::tensor)
      for (int axis = 0; axis + 1 < given.back().dims.ssize(); ++axis)
        given.back().dims[axis] = sinter::dynamic;
  }
  return given;
}

sinter::result<sinter::bound> bind_copy(sinter::program_core const& core, workload const& load,
                                        int copy) {
  std::vector<sinter::named_view> weights, views;
  std::vector<workload::given> const all = load.operands_of_user(copy);
  for (workload::given const& g : all)
    (g.operand.role == sinter::role::weight ? weights : views)
        .push_back({g.operand.name.view(), g.view});
  auto packed = core.pack(weights);
  if (!packed.ok()) return packed.error();
  sinter::chain const& last = load.problem(load.parts() - 1).chain;
  sinter::named_output const out{last.outputs[0].name.view(), load.output_view(copy)};
  sinter::packed const* const packs[] = {&*packed};
  return core.bind(views, weights.empty() ? sinter::program_core::packs{} : packs, {&out, 1});
}

}  // namespace

sinter::result<std::unique_ptr<contender>> sinter_call(std::string name,
                                                       std::shared_ptr<workload> const& load,
                                                       std::string_view backend, fusion f) {
  std::vector<chain> groups;
  for (int i = 0; i < load->parts(); ++i) {
    chain const& whole = load->problem(i).chain;
    if (f == fusion::step_by_step)
      split(whole, i, groups);
    else
      groups.push_back(whole);
  }
  sinter::options chosen;
  chosen.backend = backend;
  chosen.on_split = sinter::policy::allow;
  chosen.on_fallback = sinter::policy::error;
  if (f == fusion::in_strips) chosen.strips = sinter::strip_policy::always;
  if (f == fusion::apart) chosen.strips = sinter::strip_policy::never;
  // oneDNN cannot keep strict's rules within a post-op; our own kernels do.
  chosen.numerics = backend == "onednn" ? sinter::numerics::peer : sinter::numerics::strict;
  auto core = sinter::make_program(groups, describe(*load, f), chosen);
  if (!core.ok()) return core.error();
  std::vector<sinter::bound> calls;
  for (int copy = 0; copy < load->copies(); ++copy) {
    auto call = bind_copy(**core, *load, copy);
    if (!call.ok()) return call.error();
    calls.push_back(std::move(*call));
  }
  return std::unique_ptr<contender>(std::make_unique<sinter_contender>(
      std::move(name), load, std::move(calls), implementations(**core)));
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

}  // namespace sinter_bench
