// Which backend computes a group, and what the policies say to it.
//
// backends() lists what this build has; it is defined where the backends are compiled (backends.hpp). The rule of
// run/dispatch_rules.hpp that holds for the problem says who is asked first. The first that says yes is taken, unless
// part of its work would be reference code and somebody else can do without; or, with options::tune, the fastest of
// all that say yes (run/tune.hpp). Every refusal is kept for explain(), with its sentence. Reference code that was not
// asked for is a fallback, a group that runs as several kernels is split: the policy allows it, warns, or makes it a
// failure whose sentence holds the reasons. The environment is read here, once per compile. Read
// run/program_core.hpp next.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "../backend/backend.hpp"
#include "../base/array_view.hpp"
#include "../base/join.hpp"
#include "../isa/detect.hpp"
#include "../plan/text.hpp"
#include "dispatch_rules.hpp"
#include "options.hpp"
#include "tune.hpp"

namespace sinter::inline SINTER_ABI {

using backend_list = array_view<backend const* const>;

/// The backends of this build.
backend_list backends();

/// What was chosen for one problem.
struct selection {
  std::shared_ptr<sinter::kernel const> kernel;
  std::vector<stage_note> stages;
  std::vector<refused_backend> refusals;  ///< of backends that were asked and not taken
  std::string choice;                     ///< for explain(): "rule 'otherwise', ...", "tuned, ..."
  bool fallback = false;
  double microseconds = 0;
};

/// What the environment and the options say together.
struct settings {
  std::string backend;            ///< empty: any
  std::string_view backend_from;  ///< who said so, for sentences
  int verbose = 0;
};

namespace detail {

inline std::string plan_text(problem const& p) { return std::string(text(p.chain).view()); }

inline std::string reasons_of(std::vector<refused_backend> const& refusals) {
  std::string text;
  for (refused_backend const& r : refusals)
    text += join({text.empty() ? "" : "; ", r.backend, ": ", without_prefix(r.reason)});
  return text;
}

inline std::string names_of(backend_list list) {
  std::string names;
  for (backend const* b : list) names += join({names.empty() ? "" : ", ", b->name()});
  return names;
}

inline status apply_policy(policy p, std::string const& sentence) {
  if (p == policy::error) return failure{code::unsupported, sentence};
  if (p == policy::warn) warn(sentence);
  return {};
}

inline status judge(selection const& s, problem const& p, options const& o) {
  std::string_view const chosen = s.kernel->backend();
  if (s.fallback) {
    std::string const reasons =
        s.refusals.empty() ? "no faster backend is in this build" : reasons_of(s.refusals);
    status const st = apply_policy(
        o.on_fallback, join({"sinter: '", plan_text(p), "' falls back to reference code (", chosen,
                             ", ", implementations_of(s.stages), "): ", reasons}));
    if (!st.ok()) return st;
  }
  if (s.stages.size() < 2) return {};
  std::string why;
  for (stage_note const& stage : s.stages)
    if (!stage.why.empty()) why += join({why.empty() ? "" : "; ", without_prefix(stage.why)});
  return apply_policy(o.on_split, join({"sinter: '", plan_text(p), "' runs as ", s.stages.size(),
                                        " kernels on ", chosen, ": ", why}));
}

/// A sentence of a backend without the backend's name, which its readers print before it.
inline std::string without_name(std::string_view backend, std::string_view sentence) {
  std::string const named = join({"sinter: ", backend, ": "});
  if (!sentence.starts_with(named)) return std::string(sentence);
  return join({"sinter: ", sentence.substr(named.size())});
}

/// One backend asked: a kernel, or null and the refusal added.
inline std::shared_ptr<kernel const> ask(backend const& b, problem const& p,
                                         std::vector<refused_backend>& refusals) {
  auto const refuse = [&](std::string_view sentence) {
    refusals.push_back({std::string(b.name()), without_name(b.name(), sentence)});
  };
  if (verdict const v = b.supports(p); !v) {
    refuse(v.reason);
    return nullptr;
  }
  auto built = b.build(p);
  if (!built) {
    refuse(built.error().message);
    return nullptr;
  }
  return std::move(*built);
}

inline bool has_reference_code(kernel const& k) {
  for (stage_note const& stage : k.stages())
    if (is_reference_code(stage.implementation)) return true;
  return false;
}

/// The backends that may compute a problem, the rule's first.
inline std::vector<backend const*> in_order(dispatch_rule const& rule, settings const& said,
                                            backend_list list) {
  std::vector<backend const*> order;
  auto const take = [&](backend const* b) {
    if (said.backend.empty() || b->name() == said.backend) order.push_back(b);
  };
  for (std::string_view name : rule.order)
    for (backend const* b : list)
      if (b->name() == name) take(b);
  for (backend const* b : list) {
    bool named = false;
    for (std::string_view name : rule.order) named = named || b->name() == name;
    if (!named) take(b);
  }
  return order;
}

/// The first willing backend; one whose work is partly reference code only where no other is willing.
inline std::shared_ptr<kernel const> first_willing(array_view<backend const* const> order,
                                                   problem const& p,
                                                   std::vector<refused_backend>& refusals) {
  std::shared_ptr<kernel const> second;
  for (backend const* b : order) {
    auto built = ask(*b, p, refusals);
    if (!built) continue;
    if (!has_reference_code(*built)) {
      if (second)
        refusals.push_back({std::string(second->backend()),
                            "sinter: a part of the chain would run as reference code"});
      return built;
    }
    if (!second) second = std::move(built);
  }
  return second;
}

/// All willing backends without reference code; where there are none, what first_willing() gives.
inline std::vector<std::shared_ptr<kernel const>> all_willing(
    array_view<backend const* const> order, problem const& p,
    std::vector<refused_backend>& refusals) {
  std::vector<std::shared_ptr<kernel const>> willing;
  std::shared_ptr<kernel const> second;
  for (backend const* b : order) {
    auto built = ask(*b, p, refusals);
    if (!built) continue;
    if (has_reference_code(*built)) {
      if (!second) second = std::move(built);
      continue;
    }
    willing.push_back(std::move(built));
    if (auto other = b->build_other(p)) willing.push_back(std::move(other));
  }
  if (willing.empty() && second) willing.push_back(std::move(second));
  return willing;
}

/// What tells apart what is measured: the problem, the instructions and who may compute it.
inline std::string tuning_key(problem const& p, isa level, array_view<backend const* const> order) {
  std::string key = join({text(p), " | ", name_of(level)});
  for (backend const* b : order) key += join({" ", b->name()});
  return key;
}

/// The fastest willing backend, as measured now or earlier in this process. A selection without a kernel: none is
/// willing. A failure: none could be measured.
inline status choose_by_time(problem const& p, isa level, array_view<backend const* const> order,
                             selection& s) {
  if (is_dynamic(p))
    return failure{code::unsupported,
                   join({"sinter: options::tune measures fixed extents, and '", plan_text(p),
                         "' has dynamic ones; compile it without tune, the rules then choose"})};
  auto const measure = [&]() -> result<std::shared_ptr<tuning const>> {
    tuning found;
    auto const kernels = all_willing(order, p, found.refusals);
    if (kernels.size() > 1) {
      auto measured = measure_kernels(p, kernels);
      if (!measured) return measured.error();
      found.winner = measured->winner;
      found.figures = measured->figures;
      for (refused_backend& r : measured->refusals) found.refusals.push_back(std::move(r));
    } else if (kernels.size() == 1) {
      found.winner = kernels[0]->backend();
      found.figures = "the only one that is willing";
    }
    for (auto const& k : kernels)
      if (candidate_name(*k, kernels) == found.winner) s.kernel = k;
    return std::shared_ptr<tuning const>(new tuning(std::move(found)));
  };
  auto const known = tune_memory().get(tuning_key(p, level, order), measure);
  if (!known) return known.error();
  s.refusals = (*known)->refusals;
  s.choice = join({"tuned: ", (*known)->winner, ", ", (*known)->figures});
  std::string_view const winner = (*known)->winner;
  for (backend const* b : order) {
    if (s.kernel || !winner.starts_with(b->name())) continue;
    s.kernel = ask(*b, p, s.refusals);
    if (b->name() != winner && s.kernel && implementations_of(s.kernel->stages()) != winner)
      s.kernel = b->build_other(p);
  }
  return {};
}

/// A line of SINTER_VERBOSE: sinter,compile,backend,implementation,"problem",microseconds; `call` in the second column
/// for a call.
inline void print_line(char const* what, selection const& s, problem const& p,
                       double microseconds) {
  std::string_view const name = s.kernel->backend();
  std::fprintf(stderr, "sinter,%s,%.*s,%s,\"%s\",%.2f\n", what, static_cast<int>(name.size()),
               name.data(), implementations_of(s.stages).c_str(), text(p).c_str(), microseconds);
}

}  // namespace detail

/// Reads the environment and joins it with the options. Values that are not understood and backends that are not in
/// the list are refused.
inline result<settings> read_settings(options const& o, backend_list list) {
  if (status st = check_environment(); !st.ok()) return st.error();
  settings s;
  if (auto verbose = env_choice(env::verbose); verbose && *verbose) s.verbose = **verbose;
  if (!o.backend.empty()) {
    s.backend = o.backend;
    s.backend_from = "options::backend";
  } else if (auto name = env_text(env::backend)) {
    s.backend = *name;
    s.backend_from = "SINTER_BACKEND";
  }
  if (s.backend.empty()) return s;
  for (backend const* b : list)
    if (b->name() == s.backend) return s;
  return failure{
      o.backend.empty() ? code::bad_environment : code::bad_argument,
      detail::join({"sinter: ", s.backend_from, " is '", s.backend,
                    "', which this build does not have; it has ", detail::names_of(list)})};
}

/// The backend that the rules or the measurement choose, its kernel built. A failure where none is willing or a policy
/// says error.
inline result<selection> select(problem const& p, options const& o, settings const& said,
                                backend_list list) {
  auto const start = std::chrono::steady_clock::now();
  selection s;
  bool const lent = o.threads > 1 && !o.executor->is_openmp();
  problem_facts const facts = facts_of(p, lent ? o.threads : 1);
  dispatch_rule const& rule = rule_for(facts);
  std::vector<backend const*> const order = detail::in_order(rule, said, list);
  if (o.tune) {
    if (status st = detail::choose_by_time(p, facts.level, order, s); !st.ok()) return st.error();
  } else {
    s.choice = said.backend.empty() ? detail::join({"rule '", rule.name, "': ", rule.reason})
                                    : detail::join({"by ", said.backend_from});
    s.kernel = detail::first_willing(order, p, s.refusals);
  }
  if (!s.kernel) {
    std::string const only =
        said.backend.empty() ? "" : detail::join({" (", said.backend_from, " allows one only)"});
    return failure{code::unsupported,
                   detail::join({"sinter: no backend can compile '", detail::plan_text(p), "'",
                                 only, ": ", detail::reasons_of(s.refusals)})};
  }
  s.stages = s.kernel->stages();
  s.microseconds =
      std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count();
  if (said.backend != "reference")
    for (stage_note const& stage : s.stages)
      s.fallback = s.fallback || is_reference_code(stage.implementation);
  if (said.verbose > 0) detail::print_line("compile", s, p, s.microseconds);
  if (status st = detail::judge(s, p, o); !st.ok()) return st.error();
  return s;
}

}  // namespace sinter::inline SINTER_ABI
