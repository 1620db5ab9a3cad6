// Definitions of run/network.hpp: call, bind, explain, save.
//
// A network is a program_core with constants of its own and names for its groups: calls, threads and dynamic extents
// are those of run/program_core_impl.hpp. Included by backends.hpp and by nothing else, and so in one translation unit
// where SINTER_EXTERN_BACKENDS says so.
#pragma once

#include <array>
#include <utility>

#include "network_builder_impl.hpp"
#include "program_core_impl.hpp"

namespace sinter::inline SINTER_ABI {
namespace detail {

inline network finish_network(std::shared_ptr<network_plan> plan, network_graph const& graph) {
  plan->weights.sources = graph.asked;
  plan->cpu = cpu_text(graph.options);
  ++counted.programs;
  counted.kernels += static_cast<std::uint64_t>(plan->kernels);
  plan->core = std::make_shared<program_core const>(plan->program);
  return network(std::move(plan));
}

}  // namespace detail

// ---- build

SINTER_API result<network> network_builder::build(array_view<named_value const> outputs) {
  if (!graph_->state.ok()) return graph_->state.error();
  if (outputs.empty()) return detail::bad("a network without outputs");
  std::vector<detail::named_index> ends;
  for (named_value const& o : outputs) {
    if (o.value.index_ < 0 || o.value.index_ >= graph_->value_count())
      return detail::bad(
          {"output ", detail::in_quotes(o.name), " is a value that no builder made"});
    if (detail::find_named(ends, o.name) >= 0)
      return detail::bad({"two outputs are named ", detail::in_quotes(o.name)});
    for (detail::graph_value const& v : graph_->values)
      if (v.from == detail::value_from::input && v.name == o.name)
        return detail::bad({detail::in_quotes(o.name), " names an input and an output"});
    if (o.type && !is_floating(*o.type))
      return detail::bad({"output ", detail::in_quotes(o.name), " is wanted in ",
                          sinter::name_of(*o.type), "; a floating dtype is wanted"});
    ends.push_back({o.name, o.type ? graph_->as_type(o.value.index_, *o.type) : o.value.index_});
  }
  auto plan = detail::network_planner(*graph_, std::move(ends), backends()).run();
  if (!plan) return plan.error();
  return detail::finish_network(std::move(*plan), *graph_);
}

// ---- network

SINTER_API network::network(std::shared_ptr<detail::network_plan const> plan)
    : plan_(std::move(plan)) {}

SINTER_API program_core const& network::core() const noexcept { return *plan_->core; }
SINTER_API int network::group_count() const noexcept { return core().group_count(); }
SINTER_API int network::kernel_count() const noexcept { return core().kernel_count(); }
SINTER_API int network::copy_count() const noexcept { return plan_->copies; }
SINTER_API network_memory network::memory() const noexcept { return plan_->memory; }
SINTER_API result<tensor_desc> network::describe(std::string_view name) const {
  return core().describe(name);
}
SINTER_API void network::warm_up() const { core().warm_up().check(); }

SINTER_API status network::try_call(array_view<named_view const> in,
                                    array_view<named_output const> results) const {
  return core().run(in, {}, results);
}
SINTER_API result<bound> network::try_bind(array_view<named_view const> in,
                                           array_view<named_output const> results) const {
  return core().bind(in, {}, results);
}

namespace detail {
/// Does a network have one input and one output, so that views need no names?
inline status check_single(program_plan const& p) {
  if (p.inputs.size() == 1 && p.outputs.size() == 1) return {};
  return bad({"this network has ", p.inputs.size(), " inputs (", list_names(p.inputs), ") and ",
              p.outputs.size(), " outputs (", list_names(p.outputs),
              "); give views by name where there is more than one"});
}
}  // namespace detail

SINTER_API status network::call_one(tensor_view const& in, output_view const& result_view) const {
  detail::program_plan const& p = *plan_->program;
  if (status st = detail::check_single(p); !st.ok()) return st;
  named_view const view{p.inputs[0].name, in};
  named_output const result{p.outputs[0].name, result_view};
  return try_call(array_view(&view, 1), array_view(&result, 1));
}
SINTER_API result<bound> network::bind_one(tensor_view const& in,
                                           output_view const& result_view) const {
  detail::program_plan const& p = *plan_->program;
  if (status st = detail::check_single(p); !st.ok()) return st.error();
  named_view const view{p.inputs[0].name, in};
  named_output const result{p.outputs[0].name, result_view};
  return try_bind(array_view(&view, 1), array_view(&result, 1));
}

SINTER_API status network::save(std::string const& path) const {
  return detail::packed_file::write(path, plan_->cpu, plan_->weights.sources,
                                    plan_->weights.entries());
}

SINTER_API std::string network::explain() const {
  detail::network_plan const& n = *plan_;
  detail::program_plan const& p = *n.program;
  auto const whole = [](double v) { return static_cast<long long>(v); };
  std::string t = detail::join({"network: ",
                                group_count(),
                                " groups on ",
                                n.kernels,
                                " kernels, ",
                                n.copies,
                                " copies\n",
                                "memory: arena ",
                                n.memory.arena,
                                " bytes (least possible ",
                                n.memory.least,
                                ", sum of intermediates ",
                                n.memory.intermediates,
                                ")",
                                p.dynamic ? " and what dynamic extents want at the call\n" : "\n",
                                "built in ",
                                whole(n.milliseconds),
                                " ms, ",
                                whole(n.packing_milliseconds),
                                " of them for packing weights\n"});
  t += detail::explain_isa(p);
  for (int g = 0; g < group_count(); ++g)
    t += detail::join({n.labels[detail::at(g)], "\n  ", detail::explain_group(p, g)});
  return t;
}

}  // namespace sinter::inline SINTER_ABI
