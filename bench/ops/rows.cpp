// ops/rows: softmax and layer_norm, alone and behind a product, against oneDNN's primitives.
//
// oneDNN has a primitive for each of the two and none that follows a product with them: there the
// raw contender executes two, the second in place.
#include "support/work.hpp"

#if SINTER_WITH_ONEDNN
#include <oneapi/dnnl/dnnl.h>

#include "support/one_thread.hpp"
#endif

namespace sinter_bench {
namespace {

/// Steps on rows of value %0, or of x where there is no product.
std::string const softmax =
    "row_max(x:tensor) | sub(x, %0) | exp | row_sum | div(1, %3) | mul(%2, %4)";
std::string const layer_norm =
    "row_mean(x:tensor) | sub(x, %0) | square | row_mean | add 0.00001 | sqrt | div(1, %5) | "
    "mul(%1, %6) | mul scale:vector | add shift:vector";
std::string const product_layer_norm =
    "matmul(x, w) | add b:vector | row_mean | sub(%1, %2) | square | row_mean | add 0.00001 | "
    "sqrt | div(1, %7) | mul(%3, %8) | mul scale:vector | add shift:vector";

#if SINTER_WITH_ONEDNN

/// One primitive on rows of m x n values; what it is executed with lives as long as the process.
class row_primitive {
 public:
  row_primitive(sinter::problem const& p, void const* src, void* dst) : src_(src), dst_(dst) {
    dnnl_engine_create(&engine_, dnnl_cpu, 0);
    dnnl_stream_create(&stream_, engine_, dnnl_stream_default_flags);
    n_ = p.domain.back();
    dnnl_dims_t const dims = {sinter::element_count(p.domain) / n_, n_};
    type_ = p.outputs[0].type == sinter::dtype::bf16 ? dnnl_bf16 : dnnl_f32;
    dnnl_memory_desc_create_with_tag(&rows_, 2, dims, type_, dnnl_ab);
  }
  row_primitive(row_primitive const&) = delete;
  row_primitive& operator=(row_primitive const&) = delete;
  ~row_primitive() {
    for (dnnl_exec_arg_t const& a : arguments_) dnnl_memory_destroy(a.memory);
    dnnl_primitive_destroy(primitive_);
    dnnl_memory_desc_destroy(rows_);
    dnnl_stream_destroy(stream_);
    dnnl_engine_destroy(engine_);
  }

  bool make_softmax() {
    dnnl_primitive_desc_t pd = nullptr;
    return dnnl_softmax_forward_primitive_desc_create(&pd, engine_, dnnl_forward_inference,
                                                      dnnl_softmax_accurate, rows_, rows_, 1,
                                                      nullptr) == dnnl_success &&
           finish(pd);
  }
  bool make_layer_norm(void const* scale, void const* shift) {
    dnnl_primitive_desc_t pd = nullptr;
    if (dnnl_layer_normalization_forward_primitive_desc_create(
            &pd, engine_, dnnl_forward_inference, rows_, rows_, nullptr, 1e-5F,
            dnnl_use_scale | dnnl_use_shift, nullptr) != dnnl_success)
      return false;
    dnnl_memory_desc_t vector = nullptr;
    dnnl_dims_t const dims = {n_};
    dnnl_memory_desc_create_with_tag(&vector, 1, dims, dnnl_f32, dnnl_a);
    add(DNNL_ARG_SCALE, vector, scale);
    add(DNNL_ARG_SHIFT, vector, shift);
    dnnl_memory_desc_destroy(vector);
    return finish(pd);
  }

  void execute() const {
    one_thread const one;
    dnnl_primitive_execute(primitive_, stream_, static_cast<int>(arguments_.size()),
                           arguments_.data());
    dnnl_stream_wait(stream_);
  }
  std::string const& implementation() const { return implementation_; }

 private:
  void add(int arg, const_dnnl_memory_desc_t md, void const* data) {
    dnnl_memory_t memory = nullptr;
    dnnl_memory_create(&memory, md, engine_, const_cast<void*>(data));
    arguments_.push_back({arg, memory});
  }
  bool finish(dnnl_primitive_desc_t pd) {
    add(DNNL_ARG_SRC, rows_, src_);
    add(DNNL_ARG_DST, rows_, dst_);
    char const* text = nullptr;
    dnnl_primitive_desc_query(pd, dnnl_query_impl_info_str, 0, &text);
    implementation_ = text != nullptr ? text : "unnamed";
    bool const made = dnnl_primitive_create(&primitive_, pd) == dnnl_success;
    dnnl_primitive_desc_destroy(pd);
    return made;
  }

  void const* src_;
  void* dst_;
  sinter::extent n_ = 0;
  dnnl_data_type_t type_ = dnnl_f32;
  dnnl_engine_t engine_ = nullptr;
  dnnl_stream_t stream_ = nullptr;
  dnnl_memory_desc_t rows_ = nullptr;
  dnnl_primitive_t primitive_ = nullptr;
  std::vector<dnnl_exec_arg_t> arguments_;
  std::string implementation_;
};

int operand_named(sinter::chain const& c, std::string_view name) {
  for (int i = 0; i < c.operands.ssize(); ++i)
    if (c.operands[i].name == name) return i;
  return 0;
}

/// `load` is of the whole chain; the result stands in the output of `into`.
sinter::result<std::unique_ptr<contender>> raw_rows(std::shared_ptr<workload> const& load,
                                                    std::shared_ptr<workload> const& into) {
  one_thread const one;  // a primitive remembers the count that it was made under
  sinter::chain const& c = load->problem().chain;
  bool const product = c.anchor() >= 0;
  auto rows = std::make_shared<row_primitive>(
      load->problem(), product ? into->output() : load->operand(0), into->output());
  bool const normalizes = operand_named(c, "shift") != 0;
  bool const made = normalizes ? rows->make_layer_norm(load->operand(operand_named(c, "scale")),
                                                       load->operand(operand_named(c, "shift")))
                               : rows->make_softmax();
  if (!made)
    return sinter::failure{sinter::code::unsupported, "sinter: oneDNN has no such primitive"};
  if (!product)
    return make_contender("raw", rows->implementation(), [load, rows] { rows->execute(); });
  auto head = raw_onednn("raw", into, fusion::fused);
  if (!head.ok()) return head.error();
  std::shared_ptr<contender> const first = std::move(*head);
  return make_contender("raw", first->detail() + " + " + rows->implementation(),
                        [load, first, rows] {
                          first->once();
                          rows->execute();
                        });
}

#else

sinter::result<std::unique_ptr<contender>> raw_rows(std::shared_ptr<workload> const&,
                                                    std::shared_ptr<workload> const&) {
  return sinter::failure{sinter::code::unsupported, "sinter: this build has no oneDNN"};
}

#endif

/// Raw oneDNN and Sinter's own code; `head`: the product alone, where there is one.
line_up everyone_on_rows(work const& w, std::string const& head, selection const& s) {
  return line_up_of(w, [&](line_up_maker& l, std::shared_ptr<workload> const& load) {
    std::shared_ptr<workload> const into =
        head.empty() ? load : workload::make({head, w.extents}).value();
    l.join("raw", into, raw_rows(load, into), fusion::fused);
    // What oneDNN stores between its two primitives is rounded once more.
    fusion const f = head.empty() ? fusion::fused : fusion::step_by_step;
    for (std::string const& b : backends_of(s))
      l.join(b, sinter_call(b, load, b, fusion::fused), f);
  });
}

void add_rows(std::vector<group>& groups, std::string const& kind, std::string const& steps,
              std::string const& head, std::map<std::string, sinter::shape> const& extents,
              selection const& s) {
  for (std::string const precision : {"f32", "bf16"}) {
    group g;
    g.name = "ops/rows/" + kind + "/" + sinter::to_string(extents.at("x")) + "/" + precision;
    g.table = "ops/rows/" + kind + " " + precision;
    std::string const suffix = " [" + precision + "]";
    work const w{steps + suffix, extents};
    std::string const part = head.empty() ? head : head + suffix;
    g.prepare = [w, part, s] { return everyone_on_rows(w, part, s); };
    groups.push_back(std::move(g));
  }
}

void add(selection const& s, std::vector<group>& groups) {
  add_rows(groups, "softmax", softmax, "", {{"x", {1, 1000}}}, s);
  add_rows(groups, "softmax", softmax, "", {{"x", {128, 128}}}, s);
  add_rows(groups, "softmax", softmax, "", {{"x", {12, 128, 128}}}, s);
  add_rows(groups, "softmax", softmax, "", {{"x", {128, 1000}}}, s);
  add_rows(groups, "softmax", softmax, "", {{"x", {16, 32000}}}, s);
  add_rows(groups, "layer_norm", layer_norm, "", {{"x", {12, 128, 64}}}, s);
  add_rows(groups, "layer_norm", layer_norm, "", {{"x", {128, 128}}}, s);
  add_rows(groups, "layer_norm", layer_norm, "", {{"x", {128, 768}}}, s);
  add_rows(groups, "matmul_layer_norm", product_layer_norm, "matmul(x, w) | add b:vector",
           {{"x", {128, 768}}, {"w", {768, 768}}}, s);
}

bool const added = add_source(&add);

}  // namespace
}  // namespace sinter_bench
