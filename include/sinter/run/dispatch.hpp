// Which backend computes a group: the first of the table that says yes, and what the policies say to it.
//
// backends() is the one table, in order of preference; it is defined where the backends are compiled (backends.hpp).
// Every refusal is kept for explain(), with its sentence. Reference code that was not asked for is a fallback, a
// group that runs as several kernels is split: the policy allows it, warns, or makes it a failure whose sentence
// holds the reasons. The environment is read here, once per compile. Read run/program_core.hpp next.
#pragma once

#include <chrono>
#include <cstdio>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "../backend/backend.hpp"
#include "../isa/detect.hpp"
#include "../plan/text.hpp"
#include "options.hpp"

namespace sinter::inline SINTER_ABI {

using backend_list = std::span<backend const* const>;

/// The backends of this build, the preferred one first.
backend_list backends();

struct refused_backend {
  std::string_view backend;
  std::string reason;  ///< the sentence, with its "sinter:"
};

/// What was chosen for one problem.
struct selection {
  std::shared_ptr<sinter::kernel const> kernel;
  std::vector<stage_note> stages;
  std::vector<refused_backend> refusals;  ///< of backends that stand before the chosen one
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

inline std::string without_prefix(std::string_view sentence) {
  constexpr std::string_view prefix = "sinter: ";
  return std::string(sentence.starts_with(prefix) ? sentence.substr(prefix.size()) : sentence);
}

inline std::string plan_text(problem const& p) { return std::string(text(p.chain).view()); }

inline std::string implementations_of(std::vector<stage_note> const& stages) {
  std::string text;
  for (stage_note const& s : stages) text += join({text.empty() ? "" : "+", s.implementation});
  return text;
}

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

/// One backend asked: a selection with a kernel, or without one and the refusal added.
inline void ask(backend const& b, problem const& p, selection& s) {
  if (verdict v = b.supports(p); !v) {
    s.refusals.push_back({b.name(), std::move(v.reason)});
    return;
  }
  auto built = b.build(p);
  if (!built) {
    s.refusals.push_back({b.name(), built.error().message});
    return;
  }
  s.kernel = std::move(*built);
  s.stages = s.kernel->stages();
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

/// The first willing backend of the list, its kernel built. A failure where none is willing or a policy says error.
inline result<selection> select(problem const& p, options const& o, settings const& said,
                                backend_list list) {
  auto const start = std::chrono::steady_clock::now();
  selection s;
  for (backend const* b : list) {
    if (!said.backend.empty() && b->name() != said.backend) continue;
    detail::ask(*b, p, s);
    if (s.kernel) break;
  }
  if (!s.kernel) {
    std::string const only =
        said.backend.empty() ? "" : detail::join({" (", said.backend_from, " allows one only)"});
    return failure{code::unsupported,
                   detail::join({"sinter: no backend can compile '", detail::plan_text(p), "'",
                                 only, ": ", detail::reasons_of(s.refusals)})};
  }
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
