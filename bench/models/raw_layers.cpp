#include "raw_layers.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>
#include <unordered_map>
#include <utility>

#include <oneapi/dnnl/dnnl.hpp>
#include <sinter/core/buffer.hpp>
#include <sinter/plan/text.hpp>

namespace sinter_bench {
namespace {

using dnnl::memory;
using sinter::op;
using sinter::value_kind;

constexpr std::size_t at(int i) { return static_cast<std::size_t>(i); }

memory::data_type type_of(sinter::dtype t) {
  return t == sinter::dtype::f32 ? memory::data_type::f32 : memory::data_type::bf16;
}

dnnl::engine& engine() {
  static dnnl::engine e(dnnl::engine::kind::cpu, 0);
  return e;
}
dnnl::stream& stream() {
  static dnnl::stream s(engine());
  return s;
}

enum class layouts { given, any };

constexpr int residual =
    2;  ///< index of the buffer beside the two that are read and written in turn

/// N,H,W,C as oneDNN says it; rows as they are.
memory::desc describe(sinter::tensor_desc const& d, layouts how) {
  memory::dims dims(d.dims.begin(), d.dims.end()), strides(d.strides.begin(), d.strides.end());
  if (dims.size() == 4) {
    dims = {dims[0], dims[3], dims[1], dims[2]};
    strides = {strides[0], strides[3], strides[1], strides[2]};
  }
  if (how == layouts::any) return {dims, type_of(d.type), memory::format_tag::any};
  return {dims, type_of(d.type), strides};
}

struct launch {
  dnnl::primitive primitive;
  std::unordered_map<int, memory> arguments;
};

struct layer {
  std::vector<launch> launches;
  std::vector<sinter::buffer> own;  ///< weights, vectors, scratchpads
  std::string implementation;
  int turn = 0;  ///< where its result lies
};

/// Uniform numbers that keep the size of what flows through a network.
void fill(sinter::buffer& b, sinter::dtype t, double scale) {
  std::uint32_t x = 12345;
  std::size_t const n = b.size() / static_cast<std::size_t>(sinter::size_of(t));
  for (std::size_t i = 0; i < n; ++i) {
    x = x * 1664525 + 1013904223;
    float const v = static_cast<float>((static_cast<double>(x >> 8) * 0x1p-23 - 1) * scale);
    if (t == sinter::dtype::f32)
      reinterpret_cast<float*>(b.data())[i] = v;
    else
      reinterpret_cast<sinter::bfloat16*>(b.data())[i] = sinter::to_bfloat16(v);
  }
}

class maker {
 public:
  /// The source lies in values[turn].
  maker(sinter::problem const& p, layouts how, sinter::buffer (&values)[3], int turn)
      : p_(p), c_(p.chain), how_(how), values_(values), turn_(turn) {}

  layer make() {
    int const anchor = c_.anchor();
    int next = 0;
    src_ = describe(p_.operands[0], layouts::given);
    if (anchor >= 0) {
      sinter::value_ref const read = c_.steps[anchor].args[0];
      int const operand = read.kind == value_kind::operand ? read.index : 0;
      src_ = describe(p_.operands[at(operand)], how_);
      if (anchor > 0) prologue(operand, anchor);
      next = contraction(anchor);
    } else if (c_.steps[0].pooling < 0) {
      next = prologue(0, c_.steps.ssize());
    }
    for (; next < c_.steps.ssize(); ++next) {
      if (c_.steps[next].pooling < 0) refuse("steps behind a pooling");
      pooling(c_.steps[next]);
    }
    made_.turn = turn_;
    return std::move(made_);
  }

 private:
  [[noreturn]] void refuse(char const* what) const { throw dnnl::error(dnnl_unimplemented, what); }

  memory on(memory::desc const& md, int which) {
    if (md.get_size() > values_[which].size()) refuse("a tensor larger than was planned for");
    return {md, engine(), values_[which].data()};
  }
  int source() const { return turn_; }
  int target() const { return 1 - turn_; }
  memory of_own(memory::desc const& md, double scale) {
    made_.own.emplace_back(md.get_size());
    fill(made_.own.back(),
         md.get_data_type() == memory::data_type::f32 ? sinter::dtype::f32 : sinter::dtype::bf16,
         scale);
    return {md, engine(), made_.own.back().data()};
  }
  dnnl::primitive_attr attributes() const {
    dnnl::primitive_attr attr;
    attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    return attr;
  }
  template <class Primitive>
  void add(typename Primitive::primitive_desc const& pd,
           std::unordered_map<int, memory> arguments) {
    arguments.emplace(DNNL_ARG_SCRATCHPAD, of_own(pd.scratchpad_desc(), 0));
    made_.launches.push_back({Primitive(pd), std::move(arguments)});
    made_.implementation +=
        (made_.implementation.empty() ? "" : " + ") + std::string(pd.impl_info_str());
  }

  /// scale, shift and perhaps relu: a batch norm primitive that knows its statistics. Gives the step after it.
  int prologue(int operand, int end) {
    bool const relu = c_.steps[end - 1].code == op::relu;
    for (int i = 0; i < end; ++i) {
      op const code = c_.steps[i].code;
      bool const known = i == 0 ? code == op::mul : i == 1 ? code == op::add : code == op::relu;
      if (!known || i > 2) refuse("these steps before a contraction");
    }
    auto flags = dnnl::normalization_flags::use_global_stats |
                 dnnl::normalization_flags::use_scale | dnnl::normalization_flags::use_shift;
    if (relu) flags = flags | dnnl::normalization_flags::fuse_norm_relu;
    sinter::tensor_desc dense = p_.operands[at(operand)];
    dense.strides = sinter::dense_strides(dense.dims);
    memory::desc const md = describe(dense, layouts::given);
    dnnl::batch_normalization_forward::primitive_desc const pd(
        engine(), dnnl::prop_kind::forward_inference, md, md, 1e-5F, flags, attributes());
    memory::desc const channel({dense.dims.back()}, memory::data_type::f32, memory::format_tag::a);
    add<dnnl::batch_normalization_forward>(pd, {{DNNL_ARG_SRC, on(pd.src_desc(), source())},
                                                {DNNL_ARG_DST, on(pd.dst_desc(), target())},
                                                {DNNL_ARG_MEAN, of_own(channel, 1)},
                                                {DNNL_ARG_VARIANCE, of_own(channel, 1)},
                                                {DNNL_ARG_SCALE, of_own(channel, 1)},
                                                {DNNL_ARG_SHIFT, of_own(channel, 1)}});
    dst_ = pd.dst_desc();
    turn_ = target();
    return end;
  }

  static dnnl::algorithm eltwise(op code) {
    switch (code) {
      case op::relu:
        return dnnl::algorithm::eltwise_relu;
      case op::clip:
        return dnnl::algorithm::eltwise_clip;
      case op::swish:
        return dnnl::algorithm::eltwise_swish;
      case op::gelu_tanh:
        return dnnl::algorithm::eltwise_gelu_tanh;
      default:
        return dnnl::algorithm::undef;
    }
  }

  int contraction(int anchor) {
    sinter::step const& s = c_.steps[anchor];
    sinter::tensor_desc const& weight = p_.operands[at(s.args[1].index)];
    bool const image = sinter::is_conv(s.code);
    int next = anchor + 1;
    bool const bias = next < c_.steps.ssize() && reads(next, sinter::role::vector);
    if (bias) ++next;
    dnnl::post_ops ops;
    std::vector<std::pair<int, int>> residuals;  // index of the post-op, operand
    for (int index = 0; next < c_.steps.ssize() && c_.steps[next].pooling < 0; ++next, ++index) {
      sinter::step const& e = c_.steps[next];
      if (auto const algorithm = eltwise(e.code); algorithm != dnnl::algorithm::undef) {
        bool const takes = e.code == op::clip || e.code == op::swish;
        ops.append_eltwise(algorithm, takes ? e.alpha : 0, takes ? e.beta : 0);
      } else if (reads(next, sinter::role::tensor)) {
        int const other = operand_of(next);
        ops.append_binary(dnnl::algorithm::binary_add, describe(p_.operands[at(other)], how_));
        residuals.emplace_back(index, other);
      } else {
        refuse("this step behind a contraction");
      }
    }
    dnnl::primitive_attr attr = attributes();
    attr.set_post_ops(ops);
    memory::desc const dst = describe(stored(next), how_);
    if (image)
      convolution(s, weight, bias, dst, attr);
    else
      product(s, weight, bias, dst, attr);
    for (auto const& [index, operand] : residuals) {
      memory::desc const md =
          how_ == layouts::any ? dst_ : describe(p_.operands[at(operand)], how_);
      made_.launches.back().arguments.emplace(
          DNNL_ARG_ATTR_MULTIPLE_POST_OP(index) | DNNL_ARG_SRC_1, on(md, residual));
    }
    turn_ = target();
    return next;
  }

  /// What the steps before `next` leave: the output, or what a pooling reads.
  sinter::tensor_desc stored(int next) const {
    if (next == c_.steps.ssize()) return p_.outputs[0];
    sinter::tensor_desc d{
        p_.outputs[0].type, sinter::value_dims(p_, sinter::step_ref(next - 1)), {}};
    d.strides = sinter::dense_strides(d.dims);
    return d;
  }

  bool reads(int step, sinter::role r) const {
    if (c_.steps[step].code != op::add) return false;
    int const o = operand_of(step);
    return o >= 0 && c_.operands[o].role == r;
  }
  int operand_of(int step) const {
    for (sinter::value_ref const& v : c_.steps[step].args)
      if (v.kind == value_kind::operand) return v.index;
    return -1;
  }

  void convolution(sinter::step const& s, sinter::tensor_desc const& weight, bool bias,
                   memory::desc const& dst, dnnl::primitive_attr const& attr) {
    sinter::contraction_attrs const& a = c_.attrs(s);
    auto const axes = [](auto const& values, int less) {
      return memory::dims{values[0] - less, values[1] - less};
    };
    auto const& d = weight.dims;
    memory::dims dims{d[0], d[3], d[1], d[2]};
    if (a.groups > 1) dims = {a.groups, d[0] / a.groups, d[3], d[1], d[2]};
    memory::desc const w(dims, type_of(weight.type), memory::format_tag::any);
    memory::desc const b =
        bias ? memory::desc({d[0]}, memory::data_type::f32, memory::format_tag::a) : memory::desc();
    dnnl::convolution_forward::primitive_desc const pd(
        engine(), dnnl::prop_kind::forward_inference, dnnl::algorithm::convolution_direct, src_, w,
        b, dst, axes(a.stride, 0), axes(a.dilation, 1), axes(a.pad_begin, 0), axes(a.pad_end, 0),
        attr);
    double const fan_in = static_cast<double>(d[1] * d[2] * d[3]);
    finish<dnnl::convolution_forward>(pd, bias, fan_in);
  }

  void product(sinter::step const& s, sinter::tensor_desc const& weight, bool bias,
               memory::desc const& dst, dnnl::primitive_attr const& attr) {
    sinter::extent const k = weight.dims[c_.attrs(s).transposed_weight ? 1 : 0];
    sinter::extent const n = weight.dims[c_.attrs(s).transposed_weight ? 0 : 1];
    memory::desc const w({k, n}, type_of(weight.type), memory::format_tag::any);
    if (how_ == layouts::given) {
      memory::desc const b =
          bias ? memory::desc({1, n}, memory::data_type::f32, memory::format_tag::ab)
               : memory::desc();
      finish<dnnl::matmul>({engine(), src_, w, b, dst, attr}, bias, static_cast<double>(k));
      return;
    }
    memory::desc const b =
        bias ? memory::desc({n}, memory::data_type::f32, memory::format_tag::a) : memory::desc();
    memory::desc const out_in({n, k}, type_of(weight.type), memory::format_tag::any);
    finish<dnnl::inner_product_forward>(
        {engine(), dnnl::prop_kind::forward_inference, src_, out_in, b, dst, attr}, bias,
        static_cast<double>(k));
  }

  template <class Primitive>
  void finish(typename Primitive::primitive_desc const& pd, bool bias, double fan_in) {
    std::unordered_map<int, memory> arguments{
        {DNNL_ARG_SRC, on(pd.src_desc(), source())},
        {DNNL_ARG_WEIGHTS, of_own(pd.weights_desc(), std::sqrt(6 / fan_in))},
        {DNNL_ARG_DST, on(pd.dst_desc(), target())}};
    if (bias) arguments.emplace(DNNL_ARG_BIAS, of_own(pd.bias_desc(), 0.1));
    dst_ = pd.dst_desc();
    add<Primitive>(pd, std::move(arguments));
  }

  void pooling(sinter::step const& s) {
    bool const behind = !made_.launches.empty();
    memory::desc const src = behind ? dst_ : describe(p_.operands[0], layouts::given);
    auto const in = src.get_dims();
    memory::desc dst = describe(p_.outputs[0], how_);
    auto const out = dst.get_dims();
    sinter::pool_attrs const& a = c_.window(s);
    memory::dims kernel{a.kernel[0], a.kernel[1]}, stride{a.stride[0], a.stride[1]};
    memory::dims const begin{a.pad_begin[0], a.pad_begin[1]};
    if (s.code == op::global_avg_pool) kernel = stride = {in[2], in[3]};
    memory::dims end(
        2);  // what is missing behind the last window; ceil mode may leave more than was said
    for (std::size_t i = 0; i < 2; ++i)
      end[i] = (out[i + 2] - 1) * stride[i] + kernel[i] - in[i + 2] - begin[i];
    dnnl::algorithm const algorithm = s.code == op::max_pool ? dnnl::algorithm::pooling_max
                                      : a.count_pad ? dnnl::algorithm::pooling_avg_include_padding
                                                    : dnnl::algorithm::pooling_avg_exclude_padding;
    dnnl::pooling_forward::primitive_desc const pd(engine(), dnnl::prop_kind::forward_inference,
                                                   algorithm, src, dst, stride, kernel, {0, 0},
                                                   begin, end, attributes());
    add<dnnl::pooling_forward>(pd, {{DNNL_ARG_SRC, on(pd.src_desc(), source())},
                                    {DNNL_ARG_DST, on(pd.dst_desc(), target())}});
    turn_ = target();
  }

  sinter::problem const& p_;
  sinter::chain const& c_;
  layouts how_;
  sinter::buffer (&values_)[3];
  int turn_;
  memory::desc src_, dst_;
  layer made_;
};

void run_layer(layer& l) {
  for (launch& step : l.launches) step.primitive.execute(stream(), step.arguments);
}

double seconds_of(layer& l) {
  double best = 1e9;
  for (int i = 0; i < 4; ++i) {
    auto const start = std::chrono::steady_clock::now();
    run_layer(l);
    std::chrono::duration<double> const taken = std::chrono::steady_clock::now() - start;
    if (i > 0) best = std::min(best, taken.count());
  }
  return best;
}

}  // namespace

struct raw_layers::state {
  sinter::buffer values[3];
  std::vector<layer> layers;
};

raw_layers::raw_layers(std::unique_ptr<state> s) : state_(std::move(s)) {}
raw_layers::raw_layers(raw_layers&&) noexcept = default;
raw_layers::~raw_layers() = default;

/// The largest tensor, with room for channels that a layout pads.
static std::size_t largest_tensor(std::span<sinter::problem const* const> groups) {
  sinter::extent most = 0;
  for (sinter::problem const* p : groups) {
    for (int i = 0; i < p->chain.operands.ssize(); ++i)
      if (p->chain.operands[i].role == sinter::role::tensor)
        most = std::max(most, sinter::element_count(p->operands[at(i)].dims));
    for (int i = 0; i < p->chain.steps.ssize(); ++i)
      most = std::max(most, sinter::element_count(sinter::value_dims(*p, sinter::step_ref(i))));
  }
  return static_cast<std::size_t>(most) * sizeof(float) * 2 + (std::size_t{8} << 20);
}

sinter::result<raw_layers> raw_layers::make(std::span<sinter::problem const* const> groups) {
  auto made = std::make_unique<state>();
  for (sinter::buffer& b : made->values) {
    b = sinter::buffer(largest_tensor(groups));
    if (b.failed()) return sinter::failure{sinter::code::out_of_memory, "sinter: no memory"};
    fill(b, sinter::dtype::f32, 1);
  }
  int turn = 0;
  for (sinter::problem const* p : groups) {
    std::optional<layer> best;
    double best_seconds = 0;
    std::string why;
    for (layouts how : {layouts::any, layouts::given}) {
      try {
        layer l = maker(*p, how, made->values, turn).make();
        double const seconds = seconds_of(l);
        if (best && seconds >= best_seconds) continue;
        best = std::move(l);
        best_seconds = seconds;
      } catch (dnnl::error const& e) {
        why = e.what();
      }
    }
    if (!best)
      return sinter::failure{sinter::code::unsupported,
                             "sinter: raw oneDNN cannot do '" + sinter::text(*p) + "': " + why};
    turn = best->turn;
    made->layers.push_back(std::move(*best));
  }
  return raw_layers(std::move(made));
}

int raw_layers::count() const { return static_cast<int>(state_->layers.size()); }
void raw_layers::run_one(int i) { run_layer(state_->layers[at(i)]); }
std::string raw_layers::implementation(int i) const { return state_->layers[at(i)].implementation; }

}  // namespace sinter_bench
