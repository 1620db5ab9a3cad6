// The oneDNN backend's kernels: primitives with post-ops, weights packed to the layout that oneDNN prefers, a pass for
// the rest.
//
//   onednn_kernel      primitives, layouts, the problem: immutable, shared by threads
//   onednn_invocation  one thread's memory objects, argument lists and stream, all made before the first call
//
// A call runs on as many threads of OpenMP as its problem says, the caller's alone by default (thread_scope).
// Descriptors are made from strides and extents; nothing of the layout of activations is guessed. The table of what
// post-ops can say is in onednn_postops.hpp. Read onednn_pooled.hpp next.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "one_image.hpp"
#include "onednn_schedule.hpp"

namespace sinter::inline SINTER_ABI {

class onednn_kernel;

class onednn_invocation final : public invocation {
 public:
  explicit onednn_invocation(std::shared_ptr<onednn_kernel const> k);
  /// Makes the memory objects; called once.
  status prepare();
  /// Inline here too: a first virtual function that is not would put the vtable into every object.
  inline void repoint(call_args const& args) noexcept override;

 private:
  /// What one primitive is executed with.
  struct launch {
    const_dnnl_primitive_t primitive = nullptr;
    std::vector<onednn::memory> memories;
    std::vector<dnnl_exec_arg_t> arguments;
  };

  dnnl_status_t execute(launch const& l) const noexcept {
    return dnnl_primitive_execute(l.primitive, stream_.get(), static_cast<int>(l.arguments.size()),
                                  l.arguments.data());
  }
  void pass() const noexcept;
  void* address(onednn::location where, call_args const& args) const noexcept;

  static code run_none(invocation&) noexcept { return code::ok; }
  static code run_one(invocation& self) noexcept;
  static code run_all(invocation& self) noexcept;

  std::shared_ptr<onednn_kernel const> kernel_;
  onednn::openmp_runtime openmp_;
  int threads_;
  onednn::stream stream_;
  std::vector<launch> launches_;  ///< one per stage; without a primitive: the pass
  call_args args_;
};

class onednn_kernel final : public kernel, public std::enable_shared_from_this<onednn_kernel> {
 public:
  onednn_kernel(problem const& p, onednn::schedule s) : problem_(p), schedule_(std::move(s)) {}

  std::string_view backend() const noexcept override { return "onednn"; }
  int own_threads() const noexcept override {
    return onednn::openmp().set_count != nullptr ? problem_.openmp_threads : 1;
  }
  std::size_t scratch_bytes() const noexcept override { return schedule_.scratch_bytes; }

  std::vector<stage_note> stages() const override {
    if (schedule_.stages.empty()) return {{"no elements", "nothing to do", {}}};
    std::vector<stage_note> notes;
    for (onednn::stage const& s : schedule_.stages) notes.push_back(s.note);
    return notes;
  }

  std::string layout_key(int operand) const override {
    tensor_desc const& d = problem_.operands[onednn::at(operand)];
    if (!is_packed(operand))
      return "dense " + std::string(sinter::name_of(d.type)) + " " + to_string(d.dims);
    // A weight that may hold an infinity (see pack()) is not taken for one that was looked through.
    return (refuses_infinities() ? "onednn finite " : "onednn ") + to_string(d.dims) + " " +
           packed_text();
  }

  result<packed_weight> pack(int operand, tensor_view const& source) const override {
    tensor_desc const& d = problem_.operands[onednn::at(operand)];
    tensor_desc const from{source.type, source.dims, source.strides};
    bool const packed = is_packed(operand);
    onednn::layout const wanted = pack_layout(operand, d);
    onednn::memory_desc to =
        packed ? onednn::clone(schedule_.packed_weight.get()) : onednn::describe(wanted);
    auto storage =
        std::shared_ptr<buffer>(new buffer(to ? dnnl_memory_desc_get_size(to.get()) : 0));
    if (storage->failed())
      return failure{code::out_of_memory,
                     "sinter: no memory for packed weight '" +
                         std::string(problem_.chain.operands[operand].name.view()) + "'"};
    if (packed && refuses_infinities() && !is_finite(from, source.data))
      return failure{code::unsupported,
                     "sinter: weight '" +
                         std::string(problem_.chain.operands[operand].name.view()) +
                         "' holds an infinity or a NaN, and oneDNN multiplies padding with it; "
                         "under strict numerics "
                         "that is not allowed"};
    if (element_count(d.dims) > 0)
      if (status st = reorder(onednn::describe(pack_layout(operand, from)), source.data,
                              std::move(to), storage->data());
          !st.ok())
        return st.error();
    return packed_weight{std::move(storage), layout_key(operand)};
  }

  result<std::unique_ptr<invocation>> make_invocation() const override {
    auto* const made = new onednn_invocation(shared_from_this());
    std::unique_ptr<invocation> owner(made);
    if (status st = made->prepare(); !st.ok()) return st.error();
    return owner;
  }

  /// Where no sum is made, whose order could depend on how many images there are.
  inline result<std::shared_ptr<kernel const>> by_rows(
      array_view<row_range const> ranges) const override;

  problem const& compiled_for() const noexcept { return problem_; }
  onednn::schedule const& plan() const noexcept { return schedule_; }

 private:
  bool is_packed(int operand) const {
    return schedule_.packed_weight && operand == schedule_.operands.weight;
  }
  bool refuses_infinities() const {
    if (problem_.numerics == numerics::peer) return false;
    chain const& c = problem_.chain;
    step const& s = c.steps[c.anchor()];
    for (int i = 0; i < spatial_rank(s.code); ++i)
      if (c.attrs(s).pad_begin[i] > 0 || c.attrs(s).pad_end[i] > 0) return true;
    return false;
  }
  static bool is_finite(tensor_desc const& d, void const* data) {
    shape index = d.dims;
    for (extent& e : index) e = 0;
    for (extent n = element_count(d.dims); n > 0; --n) {
      extent offset = 0;
      for (int i = 0; i < index.ssize(); ++i) offset += index[i] * d.strides[i];
      if (!std::isfinite(load_as_float(data, d.type, offset))) return false;
      for (int i = index.ssize() - 1; i >= 0 && ++index[i] == d.dims[i]; --i) index[i] = 0;
    }
    return true;
  }
  /// Never given twice, as an address might be.
  static std::uint64_t next_number() {
    static std::atomic<std::uint64_t> last{0};
    return ++last;
  }
  /// Two kernels whose texts are equal share a packed weight; a layout without a text is this kernel's own.
  std::string packed_text() const {
    std::string text = onednn::text_of(schedule_.packed_weight.get());
    if (!text.empty()) return text;
    return "kernel " + std::to_string(number_);
  }
  /// `d` in oneDNN's order of axes: that of the contraction for its weight, else its own.
  onednn::layout pack_layout(int operand, tensor_desc const& d) const {
    chain const& c = problem_.chain;
    int rank = 0;
    if (is_packed(operand)) {
      dnnl_memory_desc_query(schedule_.packed_weight.get(), dnnl_query_ndims_s32, &rank);
      step const& s = c.steps[c.anchor()];
      onednn::frame f = onednn::frame_of(s.code, problem_.domain.ssize());
      f.merged = s.code == op::matmul && rank < problem_.domain.ssize();
      return onednn::weight_layout(f, s, c.attrs(s), d);
    }
    onednn::layout l{onednn::data_type(d.type)};
    for (int i = 0; i < d.dims.ssize(); ++i) l.push(d.dims[i], d.strides[i]);
    if (d.dims.empty()) l.push(1, 1);
    return l;
  }

  static status reorder(onednn::memory_desc from, void const* source, onednn::memory_desc to,
                        void* target) {
    using namespace onednn;
    thread_scope const one(openmp());
    result<made_primitive> r = make_reorder(std::move(from), {}, std::move(to), {}, 0);
    if (!r.ok()) return r.error();
    buffer scratch(r->scratch_end);
    if (scratch.failed())
      return failure{code::out_of_memory, "sinter: no memory to pack a weight with"};
    stream stream;
    std::vector<memory> memories(r->arguments.size());
    std::vector<dnnl_exec_arg_t> arguments;
    dnnl_status_t s = dnnl_stream_create(stream.put(), cpu_engine(), dnnl_stream_default_flags);
    for (std::size_t i = 0; i < memories.size() && s == dnnl_success; ++i) {
      argument const& a = r->arguments[i];
      void* const data = a.arg == DNNL_ARG_FROM ? const_cast<void*>(source)
                         : a.arg == DNNL_ARG_TO ? target
                                                : static_cast<void*>(scratch.data());
      s = dnnl_memory_create(memories[i].put(), a.desc.get(), cpu_engine(), data);
      arguments.push_back({a.arg, memories[i].get()});
    }
    if (s == dnnl_success)
      s = dnnl_primitive_execute(r->primitive.get(), stream.get(),
                                 static_cast<int>(arguments.size()), arguments.data());
    if (s == dnnl_success) s = dnnl_stream_wait(stream.get());
    return s == dnnl_success ? status{} : status{refusal(s, "to pack a weight")};
  }

  problem problem_;
  onednn::schedule schedule_;
  std::uint64_t const number_ = next_number();
};

inline onednn_invocation::onednn_invocation(std::shared_ptr<onednn_kernel const> k)
    : invocation(k->plan().stages.empty()                           ? &run_none
                 : k->plan().stages.size() == 1 && !k->plan().zeros ? &run_one
                                                                    : &run_all),
      kernel_(std::move(k)),
      openmp_(onednn::openmp()),
      threads_(kernel_->compiled_for().openmp_threads) {}

inline status onednn_invocation::prepare() {
  dnnl_status_t s =
      dnnl_stream_create(stream_.put(), onednn::cpu_engine(), dnnl_stream_default_flags);
  for (onednn::stage const& stage : kernel_->plan().stages) {
    launch l;
    l.primitive = stage.made.primitive.get();
    for (onednn::argument const& a : stage.made.arguments) {
      l.memories.emplace_back();
      if (s == dnnl_success)
        s = dnnl_memory_create(l.memories.back().put(), a.desc.get(), onednn::cpu_engine(),
                               DNNL_MEMORY_NONE);
      l.arguments.push_back({a.arg, l.memories.back().get()});
    }
    launches_.push_back(std::move(l));
  }
  return s == dnnl_success ? status{} : status{onednn::refusal(s, "memory objects for a call")};
}

inline void* onednn_invocation::address(onednn::location where,
                                        call_args const& args) const noexcept {
  static constexpr float one = 1;
  switch (where.where) {
    case onednn::place::operand:
      return const_cast<void*>(args.operands[where.index]);
    case onednn::place::output:
      return args.outputs[where.index];
    case onednn::place::scratch:
      return static_cast<std::byte*>(args.scratch) + where.index;
    case onednn::place::constant:
      return const_cast<float*>(&kernel_->compiled_for().chain.constants[where.index]);
    case onednn::place::one:
      return const_cast<float*>(&one);
  }
  return nullptr;
}

inline void onednn_invocation::repoint(call_args const& args) noexcept {
  args_ = args;
  auto const& stages = kernel_->plan().stages;
  for (std::size_t i = 0; i < launches_.size(); ++i)
    for (std::size_t j = 0; j < launches_[i].memories.size(); ++j)
      dnnl_memory_set_data_handle(launches_[i].memories[j].get(),
                                  address(stages[i].made.arguments[j].at, args));
}

inline code onednn_invocation::run_one(invocation& self) noexcept {
  auto const& me = static_cast<onednn_invocation&>(self);
  onednn::thread_scope const threads(me.openmp_, me.threads_);
  return me.execute(me.launches_.front()) == dnnl_success ? code::ok : code::system;
}

inline code onednn_invocation::run_all(invocation& self) noexcept {
  auto const& me = static_cast<onednn_invocation&>(self);
  for (launch const& l : me.launches_) {
    if (l.primitive == nullptr) {
      me.pass();
      continue;
    }
    onednn::thread_scope const threads(me.openmp_, me.threads_);
    if (me.execute(l) != dnnl_success) return code::system;
  }
  return code::ok;
}

inline void onednn_invocation::pass() const noexcept {
  static constexpr float zero = 0;
  onednn::schedule const& s = kernel_->plan();
  auto* const scratch = static_cast<std::byte*>(args_.scratch);
  given_value given = s.given;
  given.data = s.zeros ? static_cast<void const*>(&zero) : scratch + s.buffer;
  run_pass(kernel_->compiled_for(), {&given, 1}, args_.operands, args_.outputs,
           scratch + s.pass_scratch);
}

namespace onednn {

/// A chain without a pooling before other steps.
inline result<std::shared_ptr<kernel const>> build_plain(problem const& p) {
  result<schedule> s = scheduler(p).run();
  if (!s.ok()) return s.error();
  return std::shared_ptr<kernel const>(new onednn_kernel(p, std::move(*s)));
}

}  // namespace onednn

inline result<std::shared_ptr<kernel const>> onednn_kernel::by_rows(
    array_view<row_range const> ranges) const {
  if (problem_.chain.anchor() >= 0)
    return failure{code::unsupported,
                   "sinter: oneDNN may sum otherwise where a call has fewer images"};
  return detail::by_images(problem_, ranges, &onednn::build_plain);
}

}  // namespace sinter::inline SINTER_ABI
