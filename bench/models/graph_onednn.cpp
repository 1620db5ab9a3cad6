#include "graph_onednn.hpp"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include <oneapi/dnnl/dnnl_graph.hpp>
#include <sinter/core/buffer.hpp>
#include <sinter/plan/problem.hpp>
#include <sinter/run/interleave.hpp>
#include <sinter/run/network_graph.hpp>

namespace sinter_bench {
namespace {

using dnnl::graph::logical_tensor;
using dnnl::graph::tensor;
using graph_op = dnnl::graph::op;
using kind = dnnl::graph::op::kind;
using attr = dnnl::graph::op::attr;
using layout = logical_tensor::layout_type;
using property = logical_tensor::property_type;
using dims_type = logical_tensor::dims;
using sinter::op;
using sinter::value_kind;
using sinter::detail::graph_value;
using sinter::detail::network_graph;
using sinter::detail::value_from;

constexpr std::size_t at(int i) { return static_cast<std::size_t>(i); }

logical_tensor::data_type type_of(sinter::dtype t) {
  return t == sinter::dtype::f32 ? logical_tensor::data_type::f32 : logical_tensor::data_type::bf16;
}
dims_type dims_of(sinter::shape const& s) { return dims_type(s.begin(), s.end()); }

std::vector<std::int64_t> pair_of(int const* values) { return {values[0], values[1]}; }

dnnl::engine& engine() {
  static dnnl::engine e = [] {
    dnnl::engine made(dnnl::engine::kind::cpu, 0);
    dnnl::graph::set_constant_tensor_cache_capacity(dnnl::engine::kind::cpu, 4096);
    return made;
  }();
  return e;
}

/// A tensor of the graph: what it is, and where it lies once partitions are compiled.
struct wire {
  logical_tensor described;
  bool constant = false;
  bool outside = false;  ///< read by somebody who wants plain memory: a view, or the caller
  int view_of = -1;      ///< another wire, in whose memory it lies
  int shuffle_of = -1;   ///< another wire, whose channels it holds in the order of a shuffle
  int shuffled = 1;      ///< of how many groups
  std::size_t offset = 0;
  bool ready = false;
  bool kept = false;  ///< the caller's
  int readers = 0;
  void* data = nullptr;
};

class maker {
 public:
  maker(network_graph const& network, std::vector<wire>& wires)
      : network_(network), wires_(wires), graph_(dnnl::engine::kind::cpu) {}

  std::vector<dnnl::graph::partition> make(int output) {
    of_value_.assign(network_.values.size(), -1);
    mark_live(output);
    for (sinter::detail::graph_event const& e : network_.events)
      if (e.is_group)
        add_group(network_.groups[at(e.index)]);
      else if (live_[at(e.index)])
        wire_of(e.index);
    wire& last = wires_[at(wire_of(output))];
    last.outside = last.kept = true;
    end_graph();
    return std::move(partitions_);
  }

 private:
  /// What follows belongs to another graph.
  void end_graph() {
    graph_.finalize();
    for (dnnl::graph::partition const& p : graph_.get_partitions()) partitions_.push_back(p);
    graph_ = dnnl::graph::graph(dnnl::engine::kind::cpu);
  }
  void mark_live(int output) {
    live_.assign(network_.values.size(), false);
    live_[at(output)] = true;
    for (auto const& g : network_.groups)
      for (auto const& o : g.operands)
        if (o.value >= 0) live_[at(o.value)] = true;
    for (std::size_t i = network_.values.size(); i-- > 0;)
      if (live_[i])
        for (int part : network_.values[i].parts) live_[at(part)] = true;
  }

  int add_wire(sinter::dtype type, dims_type const& dims, bool constant = false) {
    wire w;
    w.constant = constant;
    w.described = logical_tensor(wires_.size(), type_of(type), dims, layout::strided,
                                 constant ? property::constant : property::variable);
    wires_.push_back(std::move(w));
    return static_cast<int>(wires_.size()) - 1;
  }

  void add_op(kind k, std::vector<int> const& in, int out, auto const& describe) {
    graph_op o(next_op_, k, "op" + std::to_string(next_op_));
    ++next_op_;
    describe(o);
    for (int i : in) o.add_input(wires_[at(i)].described);
    o.add_output(wires_[at(out)].described);
    graph_.add_op(o);
  }
  int add_unary(kind k, int in, auto const& describe) {
    int const out = add_wire(type_, wires_[at(in)].described.get_dims());
    add_op(k, {in}, out, describe);
    return out;
  }

  /// The wire of a value that is no group's: made when it is first asked for.
  int wire_of(int value) {
    int& known = of_value_[at(value)];
    if (known >= 0) return known;
    graph_value const& v = network_.values[at(value)];
    type_ = v.type;
    switch (v.from) {
      case value_from::input:
        return of_value_[at(value)] = add_wire(v.type, dims_of(v.dims));
      case value_from::concat: {
        std::vector<int> parts;
        for (int part : v.parts) parts.push_back(wire_of(part));
        int const out = add_wire(v.type, dims_of(v.dims));
        add_op(kind::Concat, parts, out,
               [&](graph_op& o) { o.set_attr<std::int64_t>(attr::axis, v.dims.ssize() - 1); });
        return of_value_[at(value)] = out;
      }
      case value_from::channels:
        return of_value_[at(value)] = view(v);
      case value_from::shuffle:
        return of_value_[at(value)] = shuffle(v);
      case value_from::flatten:
        return of_value_[at(value)] = reshaped(wire_of(v.parts[0]), dims_of(v.dims));
      default:
        throw dnnl::error(dnnl_invalid_arguments, "a value before its group");
    }
  }

  int view(graph_value const& v) {
    int const base = wire_of(v.parts[0]);
    wires_[at(base)].outside = true;
    dims_type strides(v.dims.size(), 1);
    auto const base_dims = wires_[at(base)].described.get_dims();
    for (std::size_t i = strides.size() - 1; i-- > 0;)
      strides[i] = strides[i + 1] * base_dims[i + 1];
    wire w;
    w.described = logical_tensor(wires_.size(), type_of(v.type), dims_of(v.dims), strides,
                                 property::variable);
    w.view_of = base;
    w.offset = static_cast<std::size_t>(v.first * sinter::size_of(v.type));
    wires_.push_back(std::move(w));
    return static_cast<int>(wires_.size()) - 1;
  }

  int reshaped(int in, dims_type const& dims) {
    int const out = add_wire(type_, dims);
    add_op(kind::StaticReshape, {in}, out, [&](graph_op& o) {
      o.set_attr<std::vector<std::int64_t>>(attr::shape, dims);
      o.set_attr<bool>(attr::special_zero, false);
    });
    return out;
  }

  /// A framework rearranges channels between graphs; here it does so as fast as we can.
  int shuffle(graph_value const& v) {
    int const in = wire_of(v.parts[0]);
    wires_[at(in)].outside = true;
    int const out = add_wire(v.type, dims_of(v.dims));
    wires_[at(out)].shuffle_of = in;
    wires_[at(out)].shuffled = v.shuffled;
    return out;
  }

  // ---- groups: each step is an operation

  void add_group(sinter::detail::block_group const& g) {
    sinter::chain const& c = g.chain;
    std::vector<int> steps;  // the wire of each step
    type_ = c.outputs[0].type;
    auto const argument = [&](sinter::step const& s, int i) {
      sinter::value_ref const r = s.args[i];
      if (r.kind == value_kind::step) return steps[at(r.index)];
      auto const& o = g.operands[at(r.index)];
      if (o.value >= 0) return wire_of(o.value);
      sinter::operand const& declared = c.operands[r.index];
      sinter::shape const& dims = network_.constants[at(o.constant)].dims();
      return add_wire(declared.role == sinter::role::weight ? declared.type : type_, dims_of(dims),
                      true);
    };
    for (int i = 0; i < c.steps.ssize(); ++i) {
      sinter::step const& s = c.steps[i];
      if (s.contraction >= 0) {
        std::vector<int> in{argument(s, 0), weight_of(g, s)};
        bool const biased = adds_bias(c, i + 1);
        if (biased) in.push_back(argument(c.steps[i + 1], 1));
        steps.push_back(contraction(c, s, in));
        if (biased) steps.push_back(steps[at(i++)]);
      } else if (s.pooling >= 0) {
        steps.push_back(pooling(c, s, argument(s, 0), pooled_dims(g)));
      } else {
        steps.push_back(pointwise(s, argument));
      }
    }
    for (int i = 0; i < c.outputs.ssize(); ++i)
      of_value_[at(g.values[at(i)])] = steps[at(c.outputs[i].value.index)];
  }

  /// A pooling is the last step of its group.
  dims_type pooled_dims(sinter::detail::block_group const& g) const {
    return dims_of(network_.values[at(g.values[0])].dims);
  }

  /// Convolution weights are O,H,W,I for us and O,I,H,W here; linear ones stay K,N.
  int weight_of(sinter::detail::block_group const& g, sinter::step const& s) {
    int const operand = s.args[1].index;
    sinter::shape const& d = network_.constants[at(g.operands[at(operand)].constant)].dims();
    dims_type dims = dims_of(d);
    if (dims.size() == 4) dims = {d[0], d[3], d[1], d[2]};
    return add_wire(g.chain.operands[operand].type, dims, true);
  }

  /// Does step i add a vector to what the step before it gives? It is then an input of that contraction, as frameworks
  /// have it.
  static bool adds_bias(sinter::chain const& c, int i) {
    if (i >= c.steps.ssize() || c.steps[i].code != op::add) return false;
    sinter::value_ref const sum = c.steps[i].args[0], added = c.steps[i].args[1];
    return sum == sinter::step_ref(i - 1) && added.kind == value_kind::operand &&
           c.operands[int{added.index}].role == sinter::role::vector;
  }

  /// Of source, weight and, where there is one, bias.
  int contraction(sinter::chain const& c, sinter::step const& s, std::vector<int> const& from) {
    auto const in = wires_[at(from[0])].described.get_dims();
    auto const w = wires_[at(from[1])].described.get_dims();
    if (!sinter::is_conv(s.code)) {
      int const out = add_wire(type_, {in[0], w[1]});
      add_op(kind::MatMul, from, out, [](graph_op&) {});
      return out;
    }
    sinter::contraction_attrs const& a = c.attrs(s);
    // oneDNN 3.7 puts a depthwise convolution into one partition with the 1x1 before it, and then cannot compile that:
    // "bad dimension bias:0".
    if (a.groups > 1 && a.groups == w[0]) end_graph();
    dims_type out_dims = in;
    for (int i = 0; i < 2; ++i)
      out_dims[at(i + 1)] =
          (in[at(i + 1)] + a.pad_begin[i] + a.pad_end[i] - (w[at(i + 2)] - 1) * a.dilation[i] - 1) /
              a.stride[i] +
          1;
    out_dims[3] = w[0];
    int const out = add_wire(type_, out_dims);
    add_op(kind::Convolution, from, out, [&](graph_op& o) {
      o.set_attr<std::vector<std::int64_t>>(attr::strides, pair_of(a.stride));
      o.set_attr<std::vector<std::int64_t>>(attr::pads_begin, pair_of(a.pad_begin));
      o.set_attr<std::vector<std::int64_t>>(attr::pads_end, pair_of(a.pad_end));
      o.set_attr<std::vector<std::int64_t>>(attr::dilations, pair_of(a.dilation));
      o.set_attr<std::int64_t>(attr::groups, a.groups);
      o.set_attr<std::string>(attr::data_format, "NXC");
      o.set_attr<std::string>(attr::weights_format, "OIX");
    });
    return out;
  }

  int pooling(sinter::chain const& c, sinter::step const& s, int src, dims_type const& out_dims) {
    auto const in = wires_[at(src)].described.get_dims();
    sinter::pool_attrs const& a = c.window(s);
    std::vector<std::int64_t> kernel = pair_of(a.kernel), stride = pair_of(a.stride);
    if (s.code == op::global_avg_pool) kernel = stride = {in[1], in[2]};
    int const out = add_wire(type_, out_dims);
    bool const max = s.code == op::max_pool;
    add_op(max ? kind::MaxPool : kind::AvgPool, {src}, out, [&](graph_op& o) {
      o.set_attr<std::vector<std::int64_t>>(attr::strides, stride);
      o.set_attr<std::vector<std::int64_t>>(attr::kernel, kernel);
      o.set_attr<std::vector<std::int64_t>>(attr::pads_begin, pair_of(a.pad_begin));
      o.set_attr<std::vector<std::int64_t>>(attr::pads_end, pair_of(a.pad_end));
      o.set_attr<std::string>(attr::data_format, "NXC");
      o.set_attr<std::string>(attr::rounding_type, a.ceil ? "ceil" : "floor");
      if (!max) o.set_attr<bool>(attr::exclude_pad, !a.count_pad);
    });
    return out;
  }

  int pointwise(sinter::step const& s, auto const& argument) {
    auto const none = [](graph_op&) {};
    switch (s.code) {
      case op::relu:
        return add_unary(kind::ReLU, argument(s, 0), none);
      case op::clip:
        return add_unary(kind::Clamp, argument(s, 0), [&](graph_op& o) {
          o.set_attr<float>(attr::min, s.alpha);
          o.set_attr<float>(attr::max, s.beta);
        });
      case op::cast:
        return add_unary(kind::TypeCast, argument(s, 0), none);
      case op::add:
      case op::mul: {
        int const a = argument(s, 0), b = argument(s, 1);
        int const out = add_wire(type_, wires_[at(a)].described.get_dims());
        bool const bias = s.code == op::add && wires_[at(b)].constant;
        add_op(bias                ? kind::BiasAdd
               : s.code == op::add ? kind::Add
                                   : kind::Multiply,
               {a, b}, out, [&](graph_op& o) {
                 if (bias) o.set_attr<std::string>(attr::data_format, "NXC");
               });
        return out;
      }
      default:
        throw dnnl::error(dnnl_unimplemented, "this step");
    }
  }

  network_graph const& network_;
  std::vector<wire>& wires_;
  dnnl::graph::graph graph_;
  std::vector<dnnl::graph::partition> partitions_;
  std::vector<int> of_value_;  ///< by value: its wire
  std::vector<bool> live_;
  sinter::dtype type_ = sinter::dtype::f32;  ///< of what is stored now
  std::size_t next_op_ = 0;
};

void fill(sinter::buffer& b, logical_tensor::data_type type) {
  std::uint32_t x = 4321;
  bool const wide = type == logical_tensor::data_type::f32;
  std::size_t const n = b.size() / (wide ? 4 : 2);
  for (std::size_t i = 0; i < n; ++i) {
    x = x * 1664525 + 1013904223;
    float const v = static_cast<float>(static_cast<double>(x >> 8) * 0x1p-27 - 0x1p-4);
    if (wide)
      reinterpret_cast<float*>(b.data())[i] = v;
    else
      reinterpret_cast<sinter::bfloat16*>(b.data())[i] = sinter::to_bfloat16(v);
  }
}

}  // namespace

struct graph_onednn::state {
  struct step {
    dnnl::graph::compiled_partition partition;
    std::vector<tensor> in, out;
    wire const* shuffle = nullptr;  ///< instead of a partition
    std::byte const* from = nullptr;

    void run(dnnl::stream& stream) {
      if (shuffle == nullptr)
        partition.execute(stream, in, out);
      else if (shuffle->described.get_data_type() == logical_tensor::data_type::f32)
        run_shuffle<std::uint32_t>();
      else
        run_shuffle<std::uint16_t>();
    }
    template <class Element>
    void run_shuffle() {
      auto const dims = shuffle->described.get_dims();
      std::int64_t const row = dims.back() * static_cast<std::int64_t>(sizeof(Element));
      std::int64_t const each = row / shuffle->shuffled;
      std::vector<sinter::detail::pixel_row> rows;
      for (int i = 0; i < shuffle->shuffled; ++i) rows.push_back({from + i * each, row});
      for (std::int64_t p = 0; p < dims[0] * dims[1] * dims[2]; ++p)
        sinter::detail::row_interleaver<Element>(rows.data(), shuffle->shuffled, p)
            .write(static_cast<std::byte*>(shuffle->data) + p * row,
                   dims.back() / shuffle->shuffled);
    }
  };
  std::vector<wire> wires;
  std::vector<step> steps;
  std::vector<sinter::buffer> memory, free;
  dnnl::stream stream{engine()};

  wire& root_of(wire& w) { return w.view_of >= 0 ? root_of(wires[at(w.view_of)]) : w; }

  /// Memory of a tensor, at first that of one which nobody reads any more, as a framework's allocator has it.
  void* data_of(wire& w) {
    wire& root = root_of(w);
    if (root.data == nullptr) {
      std::size_t const bytes = std::max<std::size_t>(root.described.get_mem_size(), 64);
      auto best = free.end();
      for (auto b = free.begin(); b != free.end(); ++b)
        if (b->size() >= bytes && (best == free.end() || b->size() < best->size())) best = b;
      sinter::buffer found;
      if (best != free.end() && !root.constant) {
        found = std::move(*best);
        free.erase(best);
      } else {
        found = sinter::buffer(bytes);
        if (found.failed()) throw dnnl::error(dnnl_out_of_memory, "no memory");
        fill(found, root.described.get_data_type());
      }
      root.data = found.data();
      memory.push_back(std::move(found));
    }
    return static_cast<std::byte*>(root.data) + w.offset;
  }
  /// One reader fewer; the last one frees what is neither constant nor the caller's.
  void read(wire& w) {
    wire& root = root_of(w);
    if (--root.readers > 0 || root.constant || root.kept) return;
    for (sinter::buffer& b : memory)
      if (b.data() == root.data) {
        free.push_back(std::move(b));
        b = std::move(memory.back());
        memory.pop_back();
        return;
      }
  }

  /// Compiles a partition whose inputs are all there; says whether it did.
  bool take(dnnl::graph::partition const& p) {
    std::vector<logical_tensor> in = p.get_input_ports(), out = p.get_output_ports();
    for (logical_tensor& t : in) {
      wire& w = wires[t.get_id()];
      if (!root_of(w).ready) return false;
      t = w.described;
    }
    for (logical_tensor& t : out) {
      wire const& w = wires[t.get_id()];
      t = w.outside
              ? w.described
              : logical_tensor(t.get_id(), t.get_data_type(), w.described.get_dims(), layout::any);
    }
    if (!p.is_supported()) throw dnnl::error(dnnl_unimplemented, "a partition is not supported");
    step s{p.compile(in, out, engine()), {}, {}};
    for (logical_tensor const& t : in) s.in.emplace_back(t, engine(), data_of(wires[t.get_id()]));
    for (logical_tensor const& t : out) {
      wire& w = wires[t.get_id()];
      w.described = s.partition.query_logical_tensor(t.get_id());
      w.ready = true;
      s.out.emplace_back(w.described, engine(), data_of(w));
    }
    for (logical_tensor const& t : in) read(wires[t.get_id()]);
    steps.push_back(std::move(s));
    return true;
  }

  /// Shuffles what is there and is not shuffled yet.
  bool take_shuffles() {
    bool any = false;
    for (wire& w : wires) {
      if (w.shuffle_of < 0 || w.ready || !root_of(wires[at(w.shuffle_of)]).ready) continue;
      step s;
      s.shuffle = &w;
      s.from = static_cast<std::byte const*>(data_of(wires[at(w.shuffle_of)]));
      data_of(w);
      w.ready = any = true;
      read(wires[at(w.shuffle_of)]);
      steps.push_back(std::move(s));
    }
    return any;
  }
  /// In an order in which each partition finds its inputs.
  void compile(std::vector<dnnl::graph::partition> waiting) {
    for (wire& w : wires) w.ready = w.view_of < 0 && w.shuffle_of < 0;
    for (wire const& w : wires)
      if (w.shuffle_of >= 0) ++root_of(wires[at(w.shuffle_of)]).readers;
    for (auto const& p : waiting) {
      for (logical_tensor const& t : p.get_output_ports()) wires[t.get_id()].ready = false;
      for (logical_tensor const& t : p.get_input_ports()) ++root_of(wires[t.get_id()]).readers;
    }
    for (wire& w : wires) w.kept = w.kept || (w.view_of < 0 && w.ready);  // what is put in
    while (!waiting.empty()) {
      auto const later = std::stable_partition(waiting.begin(), waiting.end(),
                                               [&](auto const& p) { return !take(p); });
      bool const shuffled = take_shuffles();
      if (later == waiting.end() && !shuffled)
        throw dnnl::error(dnnl_invalid_graph, "partitions in a circle");
      waiting.erase(later, waiting.end());
    }
  }
};

graph_onednn::graph_onednn(std::unique_ptr<state> s) : state_(std::move(s)) {}
graph_onednn::graph_onednn(graph_onednn&&) noexcept = default;
graph_onednn::~graph_onednn() = default;

sinter::result<graph_onednn> graph_onednn::make(network_graph const& network) {
  auto const& last = network.events.back();
  int const output = last.is_group ? network.groups[at(last.index)].values[0] : last.index;
  auto made = std::make_unique<state>();
  try {
    auto partitions = maker(network, made->wires).make(output);
    made->compile(std::move(partitions));
  } catch (dnnl::error const& e) {
    return sinter::failure{sinter::code::unsupported,
                           "sinter: oneDNN Graph cannot do this network: " + std::string(e.what())};
  }
  return graph_onednn(std::move(made));
}

void graph_onednn::run() {
  for (state::step& s : state_->steps) s.run(state_->stream);
}
int graph_onednn::partition_count() const { return static_cast<int>(state_->steps.size()); }

}  // namespace sinter_bench
