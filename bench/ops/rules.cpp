// rules: what the table of dispatch says (sinter/run/dispatch_rules.hpp) against what is measured. `./run bench rules`
//
// Representatives of each rule run on every willing backend; the ratio is oneDNN's time by the JIT's. A rule is
// contradicted by a problem for which the backend that it asks first is slower than 0.97 times another one's speed.
// oneDNN computes under `peer`, our own kernels under `strict`, as everywhere in this suite.
#include <cstdio>

#include <sinter/run/dispatch_rules.hpp>

#include "support/rule_problems.hpp"

namespace sinter_bench {
namespace {

/// The extents of all operands of the contraction: "x 16x64, w 64x64"
std::string shape_text(std::map<std::string, sinter::shape> const& of) {
  std::string text;
  for (auto const& [name, dims] : of)
    text += (text.empty() ? "" : ", ") + name + " " + sinter::to_string(dims);
  return text;
}

void add(selection const& s, std::vector<group>& groups) {
  if (!s.rules) return;
  for (work const& r : rule_problems()) {
    for (std::string const precision : {"f32", "bf16"}) {
      work const w = with_precision(r, precision);
      auto const load = workload::describe(w);
      if (!load.ok()) {
        std::fprintf(stderr, "%s: %s\n", w.chain.c_str(), load.error().message.c_str());
        continue;
      }
      sinter::dispatch_rule const& rule = sinter::rule_for(sinter::facts_of(*load));
      group g;
      g.name = "rules/" + std::string(rule.name) + "/" + w.chain + " of " + shape_text(r.extents);
      g.table = "rules/" + std::string(rule.name) + " " + precision;
      g.prepare = [w, s, &rule] {
        line_up l = our_backends(w, s);
        l.rule = rule.name;
        // Who is asked first among those that are willing.
        for (std::string_view name : rule.order)
          for (auto const& c : l.contenders)
            if (l.chosen.empty() && c->name() == name) l.chosen = name;
        return l;
      };
      groups.push_back(std::move(g));
    }
  }
}

bool const added = add_source(&add);

}  // namespace
}  // namespace sinter_bench
