// Chains of a workload as parts for a library that knows nothing of chains.
#include "peer_calls.hpp"

#include <algorithm>

namespace sinter_bench {
namespace {

using sinter::op;
using sinter::shape;

constexpr std::size_t at(int i) { return static_cast<std::size_t>(i); }

long product_of(shape const& dims, int first, int last) {
  long product = 1;
  for (int i = first; i < last; ++i) product *= static_cast<long>(dims[i]);
  return product;
}

bool reduces(op code) { return code == op::row_sum || code == op::row_mean || code == op::row_max; }

/// Makes a part of one chain; a clause says why it cannot.
class part_maker {
 public:
  explicit part_maker(work_part from) : from_(std::move(from)), p_(from_.problem()), c_(p_.chain) {}

  std::string run(peer_part& made) {
    for (int i = 0; i < c_.operands.ssize(); ++i)
      if (p_.operands[at(i)].type != sinter::dtype::f32) return "it is asked for f32 only";
    if (p_.outputs[0].type != sinter::dtype::f32) return "it is asked for f32 only";
    made.out = static_cast<float*>(from_.output());
    sinter::step const& first = c_.steps[0];
    if (c_.anchor() > 0 || c_.contractions.size() > 1)
      return "a contraction that is not the first step has no counterpart";
    made.rows = product_of(p_.domain, 0, p_.domain.ssize() - 1);
    made.columns = p_.domain.empty() ? 1 : static_cast<long>(p_.domain.back());
    if (first.args[0].kind != sinter::value_kind::operand) return "the first step reads no operand";
    made.x = static_cast<float const*>(from_.operand(first.args[0].index));
    if (std::string why = head(made, first); !why.empty()) return why;
    for (int i = first.contraction >= 0 ? 1 : 0; i < c_.steps.ssize(); ++i)
      if (std::string why = add_step(made, i); !why.empty()) return why;
    return {};
  }

 private:
  std::string head(peer_part& made, sinter::step const& first) const {
    sinter::tensor_desc const& x = p_.operands[at(first.args[0].index)];
    if (first.contraction < 0) {
      if (x.dims != p_.domain) return "an operand that is repeated has no counterpart";
      return {};
    }
    sinter::tensor_desc const& w = p_.operands[at(first.args[1].index)];
    sinter::contraction_attrs const& a = c_.attrs(first);
    made.w = static_cast<float const*>(from_.operand(first.args[1].index));
    made.constant_weight = c_.operands[first.args[1].index].role == sinter::role::weight;
    if (first.code == op::matmul) return product(made, x.dims, w.dims, a);
    if (first.code == op::conv2d) return convolution(made, x.dims, w.dims, a);
    return "convolutions of one or three axes have no counterpart";
  }
  static std::string product(peer_part& made, shape const& x, shape const& w,
                             sinter::contraction_attrs const& a) {
    if (a.transposed_src) return "a transposed source has no counterpart";
    made.what = peer_part::kind::product;
    made.transposed_weight = a.transposed_weight;
    int const r = w.ssize();
    made.k = static_cast<long>(w[r - (a.transposed_weight ? 1 : 2)]);
    made.n = static_cast<long>(w[r - (a.transposed_weight ? 2 : 1)]);
    made.batch = product_of(w, 0, r - 2);
    made.m = made.rows / std::max(1L, made.batch);
    if (r > 2 && product_of(x, 0, x.ssize() - 2) != made.batch)
      return "operands that are repeated have no counterpart";
    return {};
  }
  std::string convolution(peer_part& made, shape const& x, shape const& w,
                          sinter::contraction_attrs const& a) const {
    made.what = peer_part::kind::convolution;
    auto& g = made.image;
    auto const get = [](shape const& dims, int i) { return static_cast<long>(dims[i]); };
    g.images = get(x, 0);
    g.height = get(x, 1);
    g.width = get(x, 2);
    g.channels = get(x, 3);
    g.out_height = get(p_.domain, 1);
    g.out_width = get(p_.domain, 2);
    g.out_channels = get(w, 0);
    g.kernel_h = get(w, 1);
    g.kernel_w = get(w, 2);
    g.groups = a.groups;
    for (int i = 0; i < 2; ++i) {
      g.stride[i] = a.stride[i];
      g.dilation[i] = a.dilation[i];
      g.begin[i] = a.pad_begin[i];
      g.end[i] = a.pad_end[i];
    }
    return {};
  }
  std::string add_step(peer_part& made, int i) const {
    sinter::step const& s = c_.steps[i];
    std::string const name(sinter::row_of(s.code).name);
    if (i > 0 && s.args[0] != sinter::step_ref(i - 1))
      return "step " + name + " reads more than the one before it";
    if (reduces(s.code)) {
      if (i + 1 < c_.steps.ssize()) return "steps after a reduction have no counterpart";
      made.reduction = s.code;
      return {};
    }
    peer_step step{s.code, s.alpha, s.beta, peer_step::other::nothing, 0, nullptr};
    if (sinter::row_of(s.code).arity > 2) return "step " + name + " has no counterpart";
    if (sinter::row_of(s.code).arity == 2) {
      sinter::value_ref const other = s.args[1];
      if (other.kind == sinter::value_kind::constant) {
        step.reads = peer_step::other::number;
        step.number = c_.constants[other.index];
      } else if (other.kind == sinter::value_kind::operand) {
        shape const& dims = p_.operands[at(other.index)].dims;
        step.operand = static_cast<float const*>(from_.operand(other.index));
        if (dims == p_.domain)
          step.reads = peer_step::other::all;
        else if (dims.ssize() == 1 && dims[0] == p_.domain.back())
          step.reads = peer_step::other::columns;
        else
          return "an operand that is repeated along other axes has no counterpart";
      } else {
        return "step " + name + " reads more than the one before it";
      }
    }
    made.steps.push_back(step);
    return {};
  }

  work_part from_;
  sinter::problem const& p_;
  sinter::chain const& c_;
};

class peer_contender final : public contender {
 public:
  using calls = std::vector<std::unique_ptr<peer_work>>;
  peer_contender(std::string name, std::shared_ptr<workload> load, std::vector<calls> copies,
                 std::string detail)
      : contender(std::move(name)),
        load_(std::move(load)),
        copies_(std::move(copies)),
        detail_(std::move(detail)) {}
  void loop(benchmark::State& state) override {
    for (auto _ : state) {
      for (auto const& w : copies_[next_]) w->run();
      next_ = next_ + 1 == copies_.size() ? 0 : next_ + 1;
    }
  }
  void once() override {
    for (calls const& copy : copies_)
      for (auto const& w : copy) w->run();
  }
  std::string detail() const override { return detail_; }

 private:
  std::shared_ptr<workload> load_;
  std::vector<calls> copies_;
  std::size_t next_ = 0;
  std::string detail_;
};

}  // namespace

std::vector<peer> const& all_peers() {
  static std::vector<peer> const all = {
    {"loops", &loops_version, &make_loops, false, true},
#if SINTER_BENCH_EIGEN
    {"eigen", &eigen_version, &make_eigen, true, true},
#endif
#if SINTER_BENCH_OPENBLAS
    {"openblas", &openblas_version, &make_openblas, true, false},
#endif
#if SINTER_BENCH_LIBXSMM
    {"libxsmm", &libxsmm_version, &make_libxsmm, true, false},
#endif
#if SINTER_BENCH_XNNPACK
    {"xnnpack", &xnnpack_version, &make_xnnpack, true, false},
#endif
  };
  return all;
}

std::vector<peer> peers_of(selection const& s, workload const& load) {
  std::vector<peer> chosen;
  sinter::chain const& first = load.problem().chain;
  if (first.precision.src != sinter::dtype::f32) return chosen;
  for (peer const& p : all_peers())
    if ((first.anchor() >= 0 ? p.contracts : p.points) &&
        (s.peers.empty() || std::find(s.peers.begin(), s.peers.end(), p.name) != s.peers.end()))
      chosen.push_back(p);
  return chosen;
}

sinter::result<std::unique_ptr<contender>> peer_call(peer const& p,
                                                     std::shared_ptr<workload> const& load) {
  std::vector<peer_contender::calls> copies(at(load->copies()));
  for (int copy = 0; copy < load->copies(); ++copy)
    for (int i = 0; i < load->parts(); ++i) {
      peer_part part;
      std::string why = part_maker(load->part(i, copy)).run(part);
      std::unique_ptr<peer_work> made;
      if (why.empty()) made = p.make(part, why);
      if (!made)
        return sinter::failure{sinter::code::unsupported,
                               std::string("sinter: ") + p.name + ": " + why};
      copies[at(copy)].push_back(std::move(made));
    }
  return std::unique_ptr<contender>(
      std::make_unique<peer_contender>(p.name, load, std::move(copies), p.version()));
}

}  // namespace sinter_bench
