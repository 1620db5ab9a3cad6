// Contenders of one workload, each of which has shown that it computes what the first one does.
#include <algorithm>
#include <cmath>
#include <cstring>

#include <sinter/backend/jit_tiles.hpp>

#include "peers/peer_calls.hpp"
#include "work.hpp"

namespace sinter_bench {

std::string tile_model_of(sinter::problem const& p) {
  sinter::jit::tile_facts f;
  if (p.chain.anchor() < 0 || !sinter::jit::tile_facts_of(p, f) || f.rows < 0) return {};
  sinter::jit::tile_model const m = sinter::jit::model_of(f);
  return "AMX: " + std::to_string(static_cast<long long>(m.tiles)) +
         " cycles in tiles, AVX512-BF16: " + std::to_string(static_cast<long long>(m.vectors)) +
         " (model, not measured)";
}

line_up_maker::line_up_maker(std::shared_ptr<workload> load) : load_(std::move(load)) {
  made_.flops = load_->flops();
  made_.bytes = load_->bytes();
  made_.copies = load_->copies();
  made_.type = load_->problem().chain.precision.src;
  if (load_->parts() == 1) made_.model = tile_model_of(load_->problem());
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
  for (int i = 0; i < load->copies(); ++i) std::memset(load->output(i), 0xff, load->output_bytes());
  (*c)->once();
  compare(name, *load, 0, f);
  if (load->copies() > 1) compare(name, *load, load->copies() - 1, f);
  made_.contenders.push_back(std::move(*c));
}

void line_up_maker::join_peers(selection const& s) {
  for (peer const& p : peers_of(s, *load_)) join(p.name, peer_call(p, load_), fusion::fused);
}

void line_up_maker::bound_issue_of(std::string const& name, work const& w) {
  auto steps = steps_alone(w);
  if (!steps.ok()) return;
  made_.steps = std::move(*steps);
  made_.issue_bound_of = name;
}

/// A value that was rounded between steps may be off by a unit of a far larger value in the end.
void line_up_maker::compare(std::string const& name, workload const& load, int copy, fusion f) {
  if (!made_.wrong.empty()) return;
  std::vector<float> const got = load.read_output(copy);
  if (expected_.empty()) {
    expected_ = got;
    for (float v : got) largest_ = std::max(largest_, std::abs(static_cast<double>(v)));
  }
  bool const fused = f != fusion::step_by_step;
  int const roundings = fused ? 1 : load_->problem().chain.steps.ssize();
  bool const together = load_->parts() > 1;
  double apart = 0, length = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    double const wanted = static_cast<double>(expected_[i]), given = static_cast<double>(got[i]);
    apart += (wanted - given) * (wanted - given);
    length += wanted * wanted;
    double const large = fused ? std::max(std::abs(wanted), std::abs(given)) : largest_;
    if (together || std::abs(wanted - given) <= load_->tolerance(large, roundings)) continue;
    made_.wrong = name + " computes " + std::to_string(given) + " at element " + std::to_string(i) +
                  ", the first one " + std::to_string(wanted);  // NaN comes here too
    return;
  }
  double const ratio = std::sqrt(apart / length), allowed = load_->relative_tolerance(!fused);
  if (together && !(ratio <= allowed))
    made_.wrong = name + " is " + std::to_string(ratio) + " apart from the first one, allowed " +
                  std::to_string(allowed);
}

line_up everyone(work const& w, selection const& s, field f) {
  return line_up_of(w, [&](line_up_maker& l, std::shared_ptr<workload> const& load) {
    auto const add = [&l](std::string const& name, bool steps, auto const& make) {
      l.join(name, make(name, fusion::fused), fusion::fused);
      if (steps)
        l.join(name + "_steps", make(name + "_steps", fusion::step_by_step), fusion::step_by_step);
    };
    add("raw", f.steps, [&](std::string const& n, fusion how) { return raw_onednn(n, load, how); });
    for (std::string const& b : backends_of(s))
      add(b, f.our_steps,
          [&](std::string const& n, fusion how) { return sinter_call(n, load, b, how); });
    if (f.peers) l.join_peers(s);
    if (f.issue_bound) l.bound_issue_of("jit", w);
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

void add_everyone(std::vector<group>& groups, group like, work const& w, selection const& s,
                  field f, bool with_cold) {
  group warm = like;
  warm.prepare = [w, s, f] { return everyone(w, s, f); };
  groups.push_back(std::move(warm));
  if (!with_cold) return;
  auto const p = workload::make_problems(w);
  if (!p.ok() || !workload::cold_copies((*p)->bytes())) return;
  like.where = memory::cold;
  work cold = w;
  cold.where = memory::cold;
  f.issue_bound = false;
  like.prepare = [cold, s, f] { return everyone(cold, s, f); };
  groups.push_back(std::move(like));
}

}  // namespace sinter_bench
