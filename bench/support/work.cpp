#include "work.hpp"

#include <algorithm>
#include <cstdint>

#include <sinter/isa/machine.hpp>
#include <sinter/plan/parse.hpp>

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

std::vector<std::string> chains_of(std::string const& text) {
  std::vector<std::string> parts;
  for (std::size_t from = 0; from <= text.size();) {
    std::size_t const to = std::min(text.find(';', from), text.size());
    parts.push_back(text.substr(from, to - from));
    from = to + 1;
  }
  return parts;
}

/// Products in one sum of a contraction: all of a weight but its output axis.
double terms_of(sinter::problem const& p, sinter::step const& s) {
  shape const& weight = p.operands[at(s.args[1].index)].dims;
  bool const transposed = p.chain.attrs(s).transposed_weight;
  if (s.code == sinter::op::matmul)
    return static_cast<double>(weight[weight.ssize() - (transposed ? 1 : 2)]);
  double terms = 1;
  for (int i = 1; i < weight.ssize(); ++i) terms *= static_cast<double>(weight[i]);
  return terms;
}

double flops_of(sinter::problem const& p) {
  double sum = 0;
  for (sinter::step const& s : p.chain.steps)
    if (s.contraction >= 0)
      sum += 2 * terms_of(p, s) * static_cast<double>(sinter::element_count(p.domain));
  return sum;
}

/// Where the result is a sum along rows: how many numbers K there are in it. A mean divides its error by K again.
double summed_in_the_end(sinter::problem const& p) {
  double const k = p.domain.empty() ? 1 : static_cast<double>(p.domain.back());
  sinter::op const last = p.chain.steps.back().code;
  return last == sinter::op::row_sum ? k : last == sinter::op::row_mean ? std::sqrt(k) : 0;
}

/// Half of what a stored value may be off, relative to it; activations in f32: 8 ulp.
double half_unit(sinter::dtype t) {
  return t == sinter::dtype::f32 ? 0x1p-21 : t == sinter::dtype::bf16 ? 0x1p-8 : 0x1p-11;
}

constexpr int most_copies = 512;

}  // namespace

work with_precision(work w, std::string const& precision) {
  std::string joined;
  for (std::string const& c : chains_of(w.chain))
    joined += (joined.empty() ? "" : ";") + c + " [" + precision + "]";
  w.chain = joined;
  return w;
}

sinter::result<sinter::problem> workload::describe(work const& w) {
  auto load = make_problems(w);
  if (!load.ok()) return load.error();
  return (*load)->problems_.front();
}

std::optional<int> workload::cold_copies(double bytes) {
  sinter::cache_sizes const& caches = sinter::this_machine().caches;
  double const cache = static_cast<double>(std::max(caches.l2, caches.l3));
  double const wanted = std::ceil(2 * cache / std::max(1.0, bytes)) + 1;
  if (wanted > most_copies) return std::nullopt;
  return static_cast<int>(wanted);
}

sinter::result<std::shared_ptr<workload>> workload::make_problems(work const& w) {
  auto load = std::make_shared<workload>();
  for (std::string const& text : chains_of(w.chain)) {
    auto c = sinter::parse_chain(text);
    if (!c.ok()) return c.error();
    if (auto st = load->add_problem(*c, w.extents); !st.ok()) return st.error();
  }
  return load;
}

sinter::result<std::shared_ptr<workload>> workload::make(work const& w) {
  auto load = make_problems(w);
  if (!load.ok()) return load.error();
  if (auto st = (*load)->allocate(w.where); !st.ok()) return st.error();
  return load;
}

int workload::find(sinter::operand const& what) const {
  for (int i = 0; i < static_cast<int>(cells_.size()); ++i)
    if (cells_[at(i)].what.name == what.name && cells_[at(i)].what.internal == what.internal)
      return i;
  return -1;
}

sinter::status workload::add_problem(chain const& c,
                                     std::map<std::string, sinter::shape> const& extents) {
  if (c.outputs.size() != 1)
    return sinter::failure{sinter::code::unsupported,
                           "sinter: a benchmark's chain has one output each; given are " +
                               std::to_string(c.outputs.size())};
  std::vector<sinter::operand_spec> specs(c.operands.size());
  for (int i = 0; i < c.operands.ssize(); ++i) {
    sinter::operand const& o = c.operands[i];
    auto const said = extents.find(std::string(o.name.view()));
    if (int const known = find(o); known >= 0)
      specs[at(i)] = cells_[at(known)].desc;
    else if (o.internal)
      return sinter::failure{
          sinter::code::bad_argument,
          "sinter: no chain before this one makes '" + std::string(o.name.view()) + "'"};
    else if (said != extents.end())
      specs[at(i)] = sinter::dense_desc(o.type, said->second);
  }
  auto p = sinter::make_problem(c, specs, {}, sinter::numerics::peer);
  if (!p.ok()) return p.error();
  std::vector<int> reads;
  for (int i = 0; i < c.operands.ssize(); ++i) {
    if (find(c.operands[i]) < 0) cells_.push_back({c.operands[i], p->operands[at(i)], false, {}});
    reads.push_back(find(c.operands[i]));
  }
  sinter::operand out;
  out.name = c.outputs[0].name;
  out.internal = c.outputs[0].internal;
  cells_.push_back({out, p->outputs[0], true, {}});
  reads_.push_back(std::move(reads));
  writes_.push_back(static_cast<int>(cells_.size()) - 1);
  problems_.push_back(std::move(*p));
  return {};
}

sinter::status workload::allocate(memory where) {
  if (where == memory::cold) {
    auto const wanted = cold_copies(bytes());
    if (!wanted)
      return sinter::failure{sinter::code::unsupported,
                             "sinter: cold memory wants more than 512 copies of this work"};
    copies_ = *wanted;
  }
  for (cell& c : cells_)
    for (int i = 0; i < copies_; ++i) {
      c.copies.emplace_back(bytes_of(c.desc));
      if (c.copies.back().failed())
        return sinter::failure{sinter::code::out_of_memory, "sinter: no memory"};
      fill_random(c.copies.back(), c.desc.type, sinter::element_count(c.desc.dims));
    }
  return {};
}

work_part workload::part(int part, int copy) const {
  work_part made;
  made.problem_ = &problems_[at(part)];
  for (int c : reads_[at(part)]) made.operands_.push_back(cells_[at(c)].copies[at(copy)].data());
  cell const& out = cells_[at(writes_[at(part)])];
  made.output_ = const_cast<std::byte*>(out.copies[at(copy)].data());
  return made;
}

sinter::tensor_view workload::operand_view(int i) const {
  sinter::tensor_desc const& d = problems_.front().operands[at(i)];
  return {operand(i), d.type, d.dims, d.strides, false};
}
sinter::output_view workload::output_view(int copy) const {
  sinter::tensor_desc const& d = output_desc();
  return {output(copy), d.type, d.dims, d.strides, false};
}
std::size_t workload::output_bytes() const { return bytes_of(output_desc()); }

bool workload::reads(std::string const& name) const {
  for (cell const& c : cells_)
    if (!c.is_output && !c.what.internal && c.what.name == name) return true;
  return false;
}

std::vector<workload::given> workload::operands_of_user(int copy) const {
  std::vector<given> all;
  for (cell const& c : cells_)
    if (!c.is_output && !c.what.internal)
      all.push_back(
          {c.what, {c.copies[at(copy)].data(), c.desc.type, c.desc.dims, c.desc.strides, false}});
  return all;
}

double workload::flops() const {
  double sum = 0;
  for (sinter::problem const& p : problems_) sum += flops_of(p);
  return sum;
}

double workload::bytes() const {
  double sum = 0;
  for (cell const& c : cells_)
    if (!c.what.internal) sum += static_cast<double>(bytes_of(c.desc));
  return sum;
}

std::vector<float> workload::read_output(int copy) const {
  sinter::tensor_desc const& d = output_desc();
  std::vector<float> values(static_cast<std::size_t>(sinter::element_count(d.dims)));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = sinter::load_as_float(output(copy), d.type, static_cast<extent>(i));
  return values;
}

double workload::tolerance(double large, int roundings) const {
  sinter::problem const& p = problems_.front();
  double terms = summed_in_the_end(p);
  for (sinter::step const& s : p.chain.steps)
    if (s.contraction >= 0) terms = std::max(terms, terms_of(p, s));
  // Both are off, and gelu_tanh is steeper than 1 by an eighth.
  double const sums = 1.25 * 2 * terms * terms * 0x1p-24;
  return sums + roundings * 2 * half_unit(output_desc().type) * large + 0x1p-20;
}

double workload::relative_tolerance(bool rounds_each_step) const {
  double sum = 0;
  for (sinter::problem const& p : problems_) {
    int const roundings = rounds_each_step ? p.chain.steps.ssize() : 1;
    sum += 2 * roundings * half_unit(p.outputs[0].type);
    for (sinter::step const& s : p.chain.steps)
      if (s.contraction >= 0) sum += 2 * terms_of(p, s) * 0x1p-24;
  }
  return 1.25 * sum;
}

}  // namespace sinter_bench
