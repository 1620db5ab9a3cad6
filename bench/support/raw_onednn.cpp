// oneDNN used as its own users use it: C API, one primitive with post-ops, a weight in the layout that it likes best, a
// scratchpad of the user's, arguments made before the loop.
//
// It is written apart from backend/onednn*.hpp on purpose: it is what the backend is measured against. It knows the
// steps that the suite's chains have, and says so where it meets another one.
#include "work.hpp"

#if SINTER_WITH_ONEDNN

#include <oneapi/dnnl/dnnl.h>

#include "one_thread.hpp"

namespace sinter_bench {
namespace {

using sinter::op;

constexpr std::size_t at(int i) { return static_cast<std::size_t>(i); }

sinter::failure refused(std::string const& why) {
  return {sinter::code::unsupported, "sinter: " + why};
}

dnnl_data_type_t type_of(sinter::dtype t) {
  return t == sinter::dtype::f32 ? dnnl_f32 : t == sinter::dtype::bf16 ? dnnl_bf16 : dnnl_f16;
}

struct eltwise_row {
  op code;
  dnnl_alg_kind_t algorithm;
  float alpha, beta;
  bool takes_params;  ///< alpha and beta are the step's
};
constexpr eltwise_row eltwise_table[] = {
    {op::relu, dnnl_eltwise_relu, 0, 0, false},
    {op::leaky_relu, dnnl_eltwise_relu, 0, 0, true},
    {op::clip, dnnl_eltwise_clip, 0, 0, true},
    {op::gelu_tanh, dnnl_eltwise_gelu_tanh, 0, 0, false},
    {op::gelu_erf, dnnl_eltwise_gelu_erf, 0, 0, false},
    {op::swish, dnnl_eltwise_swish, 0, 0, true},
    {op::tanh, dnnl_eltwise_tanh, 0, 0, false},
    {op::sigmoid, dnnl_eltwise_logistic, 0, 0, false},
    {op::exp, dnnl_eltwise_exp, 0, 0, false},
    {op::hardswish, dnnl_eltwise_hardswish, 0, 0, true},
    {op::linear, dnnl_eltwise_linear, 0, 0, true},
};

/// oneDNN's order of axes: channels before space, groups before all.
struct layout {
  int rank = 0;
  dnnl_dims_t dims = {}, strides = {};
  void push(sinter::extent d, sinter::extent s) {
    dims[rank] = d;
    strides[rank++] = s;
  }
};

layout data_layout(sinter::tensor_desc const& d, bool image) {
  layout l;
  int const r = d.dims.ssize();
  if (!image) {
    for (int i = 0; i < r; ++i) l.push(d.dims[i], d.strides[i]);
    return l;
  }
  l.push(d.dims[0], d.strides[0]);
  l.push(d.dims[r - 1], d.strides[r - 1]);
  for (int i = 1; i + 1 < r; ++i) l.push(d.dims[i], d.strides[i]);
  return l;
}

layout weight_layout(sinter::tensor_desc const& d, bool image, int groups) {
  if (!image || groups == 1) return data_layout(d, image);
  layout l;
  int const r = d.dims.ssize();
  sinter::extent const per_group = d.dims[0] / groups;
  l.push(groups, per_group * d.strides[0]);
  l.push(per_group, d.strides[0]);
  l.push(d.dims[r - 1], d.strides[r - 1]);
  for (int i = 1; i + 1 < r; ++i) l.push(d.dims[i], d.strides[i]);
  return l;
}

/// Objects live as long as the process measures; the suite makes few, and frees each group's.
template <class T, dnnl_status_t (*Destroy)(T)>
struct owner {
  T value = nullptr;
  owner() = default;
  owner(owner const&) = delete;
  owner& operator=(owner const&) = delete;
  ~owner() {
    if (value != nullptr) Destroy(value);
  }
};
using md_owner = owner<dnnl_memory_desc_t, dnnl_memory_desc_destroy>;
using memory_owner = owner<dnnl_memory_t, dnnl_memory_destroy>;
using attr_owner = owner<dnnl_primitive_attr_t, dnnl_primitive_attr_destroy>;
using post_ops_owner = owner<dnnl_post_ops_t, dnnl_post_ops_destroy>;
using desc_owner = owner<dnnl_primitive_desc_t, dnnl_primitive_desc_destroy>;
using primitive_owner = owner<dnnl_primitive_t, dnnl_primitive_destroy>;

dnnl_engine_t engine() {
  static dnnl_engine_t const e = [] {
    dnnl_engine_t made = nullptr;
    dnnl_engine_create(&made, dnnl_cpu, 0);
    return made;
  }();
  return e;
}
dnnl_stream_t stream() {
  static dnnl_stream_t const s = [] {
    dnnl_stream_t made = nullptr;
    dnnl_stream_create(&made, engine(), dnnl_stream_default_flags);
    return made;
  }();
  return s;
}

/// A primitive with everything that it is executed with.
struct launch {
  primitive_owner primitive;
  std::vector<std::unique_ptr<memory_owner>> memories;
  std::vector<dnnl_exec_arg_t> arguments;
  std::vector<sinter::buffer> own;  ///< packed weights, scratchpad
  std::string implementation;

  bool add(int arg, const_dnnl_memory_desc_t md, void const* data) {
    memories.push_back(std::make_unique<memory_owner>());
    if (dnnl_memory_create(&memories.back()->value, md, engine(), const_cast<void*>(data)) !=
        dnnl_success)
      return false;
    arguments.push_back({arg, memories.back()->value});
    return true;
  }
  bool add_own(int arg, const_dnnl_memory_desc_t md) {
    own.emplace_back(dnnl_memory_desc_get_size(md));
    return !own.back().failed() && add(arg, md, own.back().data());
  }
};

/// What one call executes, in order.
using launches = std::vector<std::unique_ptr<launch>>;

class raw_contender final : public contender {
 public:
  raw_contender(std::string name, std::shared_ptr<workload> load, std::vector<launches> copies)
      : contender(std::move(name)), load_(std::move(load)), copies_(std::move(copies)) {}

  void loop(benchmark::State& state) override {
    one_thread const one;
    dnnl_stream_t const s = stream();
    if (copies_.size() == 1 && copies_.front().size() == 1) {
      launch const& l = *copies_.front().front();
      for (auto _ : state)
        if (execute(l, s) != dnnl_success) [[unlikely]]
          state.SkipWithError("dnnl_primitive_execute failed");
      return;
    }
    for (auto _ : state) {
      for (auto const& l : copies_[next_])
        if (execute(*l, s) != dnnl_success) [[unlikely]]
          state.SkipWithError("dnnl_primitive_execute failed");
      next_ = next_ + 1 == copies_.size() ? 0 : next_ + 1;
    }
  }
  void once() override {
    one_thread const one;
    for (launches const& copy : copies_)
      for (auto const& l : copy) execute(*l, stream());
    dnnl_stream_wait(stream());
  }
  std::string detail() const override {
    std::string text;
    for (auto const& l : copies_.front()) text += (text.empty() ? "" : " + ") + l->implementation;
    return text;
  }

 private:
  static dnnl_status_t execute(launch const& l, dnnl_stream_t s) {
    return dnnl_primitive_execute(l.primitive.value, s, static_cast<int>(l.arguments.size()),
                                  l.arguments.data());
  }
  std::shared_ptr<workload> load_;
  std::vector<launches> copies_;
  std::size_t next_ = 0;
};

class maker {
 public:
  explicit maker(work_part part)
      : load_(std::move(part)),
        p_(load_.problem()),
        c_(p_.chain),
        anchor_(c_.steps[0]),
        image_(sinter::is_conv(anchor_.code)) {}

  /// The contraction with the steps up to `last`, the rest of them as post-ops.
  sinter::result<std::unique_ptr<launch>> contraction(int last) {
    auto made = std::make_unique<launch>();
    int step = 1;
    sinter::contraction_attrs const& a = c_.attrs(anchor_);
    md_owner src, weight, dst, bias;
    auto const& src_desc = p_.operands[at(anchor_.args[0].index)];
    auto const& weight_desc = p_.operands[at(anchor_.args[1].index)];
    describe(src, data_layout(src_desc, image_), src_desc.type);
    if (a.transposed_src) return refused("raw oneDNN: a transposed source is not in its table");
    layout w = weight_layout(weight_desc, image_, a.groups);
    if (a.transposed_weight) {
      std::swap(w.dims[w.rank - 1], w.dims[w.rank - 2]);
      std::swap(w.strides[w.rank - 1], w.strides[w.rank - 2]);
    }
    bool const packs = c_.operands[anchor_.args[1].index].role == sinter::role::weight;
    if (packs)
      dnnl_memory_desc_create_with_tag(&weight.value, w.rank, w.dims, type_of(weight_desc.type),
                                       dnnl_format_tag_any);
    else
      describe(weight, w, weight_desc.type);
    describe(dst, data_layout(p_.outputs[0], image_), p_.outputs[0].type);
    int bias_operand = -1;
    if (last >= 1 && reads_vector(1)) {
      bias_operand = c_.steps[1].args[1].index;
      step = 2;
      layout l;
      if (!image_)
        for (int i = 0; i + 1 < p_.domain.ssize(); ++i) l.push(1, p_.domain.back());
      l.push(p_.domain.back(), 1);
      describe(bias, l, p_.operands[at(bias_operand)].type);
    }
    attr_owner attr;
    user_scratchpad(attr);
    post_ops_owner list;
    dnnl_post_ops_create(&list.value);
    for (int index = 0; step <= last; ++step, ++index)
      if (sinter::status st = append(list, *made, step, index); !st.ok()) return st.error();
    dnnl_primitive_attr_set_post_ops(attr.value, list.value);

    desc_owner pd;
    dnnl_status_t s =
        image_ ? convolution(pd, a, src, weight, bias, dst, attr)
               : dnnl_matmul_primitive_desc_create(&pd.value, engine(), src.value, weight.value,
                                                   bias.value, dst.value, attr.value);
    if (s != dnnl_success) return refused("oneDNN has no such primitive");
    const_dnnl_memory_desc_t const packed =
        dnnl_primitive_desc_query_md(pd.value, dnnl_query_weights_md, 0);
    if (!made->add(DNNL_ARG_SRC, src.value, load_.operand(anchor_.args[0].index)) ||
        !made->add(DNNL_ARG_DST, dst.value, load_.output()) ||
        (bias_operand >= 0 && !made->add(DNNL_ARG_BIAS, bias.value, load_.operand(bias_operand))))
      return refused("oneDNN cannot take the operands");
    void const* const plain = load_.operand(anchor_.args[1].index);
    if (packs ? !made->add_own(DNNL_ARG_WEIGHTS, packed) ||
                    !pack(w, weight_desc.type, plain, packed, made->memories.back()->value)
              : !made->add(DNNL_ARG_WEIGHTS, weight.value, plain))
      return refused("oneDNN cannot take the weight");
    return finish(std::move(made), pd);
  }

  /// Step `step` with all up to `last` as post-ops: in place on the output, or from the operands where it is the first.
  sinter::result<std::unique_ptr<launch>> pointwise(int step, int last) {
    auto made = std::make_unique<launch>();
    md_owner dst;
    describe(dst, data_layout(p_.outputs[0], image_), p_.outputs[0].type);
    attr_owner attr;
    user_scratchpad(attr);
    post_ops_owner list;
    dnnl_post_ops_create(&list.value);
    for (int i = step + 1, index = 0; i <= last; ++i, ++index)
      if (sinter::status st = append(list, *made, i, index); !st.ok()) return st.error();
    dnnl_primitive_attr_set_post_ops(attr.value, list.value);
    desc_owner pd;
    sinter::step const& s = c_.steps[step];
    if (s.args[0].kind == sinter::value_kind::operand && !same_as_output(s.args[0].index))
      return refused("raw oneDNN: a step on an operand of other extents or dtype");
    if (step > 0 && s.args[0] != sinter::step_ref(step - 1))
      return refused("raw oneDNN: this step is not in its table");
    void const* const src = s.args[0].kind == sinter::value_kind::operand
                                ? load_.operand(s.args[0].index)
                                : load_.output();
    if (eltwise const e = eltwise_of(s); e.is_one) {
      if (dnnl_eltwise_forward_primitive_desc_create(&pd.value, engine(), dnnl_forward_inference,
                                                     e.algorithm, dst.value, dst.value, e.alpha,
                                                     e.beta, attr.value) != dnnl_success)
        return refused("oneDNN has no such primitive");
      made->add(DNNL_ARG_SRC, dst.value, src);
    } else {
      if (!is_plain_binary(step)) return refused("raw oneDNN: this step is not in its table");
      int const other = s.args[1].index;
      md_owner rhs;
      describe(rhs, operand_layout(other), p_.operands[at(other)].type);
      if (dnnl_binary_primitive_desc_create(&pd.value, engine(), binary_of(s.code), dst.value,
                                            rhs.value, dst.value, attr.value) != dnnl_success)
        return refused("oneDNN has no such primitive");
      made->add(DNNL_ARG_SRC_0, dst.value, src);
      made->add(DNNL_ARG_SRC_1, rhs.value, load_.operand(other));
    }
    made->add(DNNL_ARG_DST, dst.value, load_.output());
    return finish(std::move(made), pd);
  }

  /// The last axis of an operand reduced.
  sinter::result<std::unique_ptr<launch>> reduction() {
    auto made = std::make_unique<launch>();
    dnnl_alg_kind_t const how = anchor_.code == op::row_sum    ? dnnl_reduction_sum
                                : anchor_.code == op::row_mean ? dnnl_reduction_mean
                                                               : dnnl_reduction_max;
    int const from = anchor_.args[0].index;
    md_owner src, dst;
    describe(src, data_layout(p_.operands[at(from)], false), p_.operands[at(from)].type);
    describe(dst, data_layout(p_.outputs[0], false), p_.outputs[0].type);
    attr_owner attr;
    user_scratchpad(attr);
    desc_owner pd;
    if (dnnl_reduction_primitive_desc_create(&pd.value, engine(), how, src.value, dst.value, 0, 0,
                                             attr.value) != dnnl_success)
      return refused("oneDNN has no such primitive");
    made->add(DNNL_ARG_SRC, src.value, load_.operand(from));
    made->add(DNNL_ARG_DST, dst.value, load_.output());
    return finish(std::move(made), pd);
  }

  int last_step() const { return c_.steps.ssize() - 1; }
  bool starts_with_reduction() const {
    return (anchor_.code == op::row_sum || anchor_.code == op::row_mean ||
            anchor_.code == op::row_max) &&
           anchor_.args[0].kind == sinter::value_kind::operand && last_step() == 0;
  }
  bool starts_with_contraction() const { return anchor_.contraction >= 0; }
  bool reads_vector(int step) const {
    return is_plain_binary(step) && c_.steps[step].code == op::add &&
           c_.operands[c_.steps[step].args[1].index].role == sinter::role::vector;
  }

 private:
  static void describe(md_owner& md, layout const& l, sinter::dtype t) {
    dnnl_memory_desc_create_with_strides(&md.value, l.rank, l.dims, type_of(t), l.strides);
  }
  static void user_scratchpad(attr_owner& attr) {
    dnnl_primitive_attr_create(&attr.value);
    dnnl_primitive_attr_set_scratchpad_mode(attr.value, dnnl_scratchpad_mode_user);
  }
  /// A step that reads one value, as oneDNN names it. Sums and products with a number are such steps there.
  struct eltwise {
    bool is_one = false;
    dnnl_alg_kind_t algorithm = dnnl_eltwise_linear;
    float alpha = 1, beta = 0;
  };
  eltwise eltwise_of(sinter::step const& s) const {
    for (eltwise_row const& r : eltwise_table)
      if (r.code == s.code)
        return {true, r.algorithm, r.takes_params ? s.alpha : r.alpha,
                r.takes_params ? s.beta : r.beta};
    if (s.args[1].kind != sinter::value_kind::constant) return {};
    float const number = c_.constants[s.args[1].index];
    if (s.code == op::add) return {true, dnnl_eltwise_linear, 1, number};
    if (s.code == op::mul) return {true, dnnl_eltwise_linear, number, 0};
    return {};
  }
  static dnnl_alg_kind_t binary_of(op code) {
    return code == op::add ? dnnl_binary_add : dnnl_binary_mul;
  }

  /// The sum or product of the value before this step, or of an operand in the first one, and an operand.
  bool is_plain_binary(int step) const {
    if (step >= c_.steps.ssize()) return false;
    sinter::step const& s = c_.steps[step];
    bool const follows = step == 0 ? s.args[0].kind == sinter::value_kind::operand
                                   : s.args[0] == sinter::step_ref(step - 1);
    return (s.code == op::add || s.code == op::mul) && follows &&
           s.args[1].kind == sinter::value_kind::operand;
  }
  bool same_as_output(int operand) const {
    sinter::tensor_desc const& d = p_.operands[at(operand)];
    return d.dims == p_.outputs[0].dims && d.type == p_.outputs[0].type;
  }
  /// An operand of a pointwise step with as many axes as the output.
  layout operand_layout(int operand) const {
    sinter::tensor_desc d = p_.operands[at(operand)];
    sinter::tensor_desc full{d.type, {}, {}};
    for (int i = d.dims.ssize(); i < p_.domain.ssize(); ++i) {
      full.dims.push_back(1);
      full.strides.push_back(sinter::element_count(d.dims));
    }
    for (int i = 0; i < d.dims.ssize(); ++i) {
      full.dims.push_back(d.dims[i]);
      full.strides.push_back(d.strides[i]);
    }
    return data_layout(full, image_);
  }

  sinter::status append(post_ops_owner& list, launch& made, int step, int index) {
    sinter::step const& s = c_.steps[step];
    if (eltwise const e = eltwise_of(s); e.is_one && s.args[0] == sinter::step_ref(step - 1)) {
      dnnl_post_ops_append_eltwise(list.value, e.algorithm, e.alpha, e.beta);
      return {};
    }
    if (!is_plain_binary(step)) return refused("raw oneDNN: this step is not in its table");
    int const other = s.args[1].index;
    md_owner rhs;
    describe(rhs, operand_layout(other), p_.operands[at(other)].type);
    dnnl_post_ops_append_binary(list.value, binary_of(s.code), rhs.value);
    made.add(DNNL_ARG_ATTR_MULTIPLE_POST_OP(index) | DNNL_ARG_SRC_1, rhs.value,
             load_.operand(other));
    return {};
  }

  dnnl_status_t convolution(desc_owner& pd, sinter::contraction_attrs const& a, md_owner const& src,
                            md_owner const& weight, md_owner const& bias, md_owner const& dst,
                            attr_owner const& attr) const {
    dnnl_dims_t strides = {}, dilates = {}, begin = {}, end = {};
    for (int i = 0; i < sinter::spatial_rank(anchor_.code); ++i) {
      strides[i] = a.stride[i];
      dilates[i] = a.dilation[i] - 1;
      begin[i] = a.pad_begin[i];
      end[i] = a.pad_end[i];
    }
    return dnnl_convolution_forward_primitive_desc_create(
        &pd.value, engine(), dnnl_forward_inference, dnnl_convolution_direct, src.value,
        weight.value, bias.value, dst.value, strides, dilates, begin, end, attr.value);
  }

  static bool pack(layout const& plain, sinter::dtype type, void const* from,
                   const_dnnl_memory_desc_t to, dnnl_memory_t target) {
    md_owner md;
    describe(md, plain, type);
    memory_owner source;
    desc_owner pd;
    primitive_owner reorder;
    if (dnnl_memory_create(&source.value, md.value, engine(), const_cast<void*>(from)) !=
            dnnl_success ||
        dnnl_reorder_primitive_desc_create(&pd.value, md.value, engine(), to, engine(), nullptr) !=
            dnnl_success ||
        dnnl_primitive_create(&reorder.value, pd.value) != dnnl_success)
      return false;
    dnnl_exec_arg_t const arguments[] = {{DNNL_ARG_FROM, source.value}, {DNNL_ARG_TO, target}};
    return dnnl_primitive_execute(reorder.value, stream(), 2, arguments) == dnnl_success &&
           dnnl_stream_wait(stream()) == dnnl_success;
  }

  static sinter::result<std::unique_ptr<launch>> finish(std::unique_ptr<launch> made,
                                                        desc_owner const& pd) {
    const_dnnl_memory_desc_t const scratchpad =
        dnnl_primitive_desc_query_md(pd.value, dnnl_query_scratchpad_md, 0);
    if (scratchpad != nullptr && dnnl_memory_desc_get_size(scratchpad) > 0 &&
        !made->add_own(DNNL_ARG_SCRATCHPAD, scratchpad))
      return refused("no memory for oneDNN's scratchpad");
    char const* text = nullptr;
    dnnl_primitive_desc_query(pd.value, dnnl_query_impl_info_str, 0, &text);
    made->implementation = text != nullptr ? text : "unnamed";
    if (dnnl_primitive_create(&made->primitive.value, pd.value) != dnnl_success)
      return refused("oneDNN cannot make its primitive");
    return made;
  }

  work_part load_;
  sinter::problem const& p_;
  sinter::chain const& c_;
  sinter::step const& anchor_;
  bool image_;
};

/// What computes one chain.
sinter::status append_part(work_part part, fusion f, launches& made) {
  maker m(std::move(part));
  int const last = m.last_step();
  int done = f == fusion::fused ? last : 0;
  auto head = [&] {
    if (m.starts_with_reduction()) return m.reduction();
    if (!m.starts_with_contraction()) return m.pointwise(0, done);
    if (f == fusion::step_by_step && m.reads_vector(1)) done = 1;
    return m.contraction(done);
  }();
  if (!head.ok()) return head.error();
  made.push_back(std::move(*head));
  for (int i = done + 1; i <= last; ++i) {
    auto next = m.pointwise(i, i);
    if (!next.ok()) return next.error();
    made.push_back(std::move(*next));
  }
  return {};
}

}  // namespace

sinter::result<std::unique_ptr<contender>> raw_onednn(std::string name,
                                                      std::shared_ptr<workload> const& load,
                                                      fusion f) {
  one_thread const one;  // a primitive remembers the count that it was made under
  std::vector<launches> copies(static_cast<std::size_t>(load->copies()));
  for (int copy = 0; copy < load->copies(); ++copy)
    for (int part = 0; part < load->parts(); ++part)
      if (auto st = append_part(load->part(part, copy), f, copies[at(copy)]); !st.ok())
        return st.error();
  return std::unique_ptr<contender>(
      std::make_unique<raw_contender>(std::move(name), load, std::move(copies)));
}

}  // namespace sinter_bench

#else

namespace sinter_bench {
sinter::result<std::unique_ptr<contender>> raw_onednn(std::string, std::shared_ptr<workload> const&,
                                                      fusion) {
  return sinter::failure{sinter::code::unsupported, "sinter: this build has no oneDNN"};
}
}  // namespace sinter_bench

#endif
