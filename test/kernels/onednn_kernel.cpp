// The kernel as an object: shared by threads, packed weights by key, no allocation of ours in a call, one thread, and
// what the backend refuses.
#include <atomic>
#include <cstdlib>
#include <new>
#include <thread>

#include "onednn_support.hpp"

using namespace sinter_test;

namespace {

/// Everything that one call needs, filled with a value that depends on `start`.
struct bound_call {
  bound_call(kernel const& k, problem const& p, packed_weight const& packed, float start)
      : scratch(k.scratch_bytes()), out(static_cast<std::size_t>(element_count(p.domain))) {
    for (int i = 0; i < p.chain.operands.ssize(); ++i) {
      memory.emplace_back(
          static_cast<std::size_t>(element_count(p.operands[static_cast<std::size_t>(i)].dims)),
          start);
      args.operands[i] =
          p.chain.operands[i].role == role::weight ? packed.data() : memory.back().data();
    }
    args.outputs[0] = out.data();
    args.scratch = scratch.data();
    call = k.make_invocation().value();
    call->repoint(args);
  }
  std::vector<std::vector<float>> memory;
  buffer scratch;
  std::vector<float> out;
  call_args args;
  std::unique_ptr<invocation> call;
};

packed_weight pack_ones(kernel const& k, problem const& p) {
  tensor_desc const& d = p.operands[1];
  std::vector<float> const ones(static_cast<std::size_t>(element_count(d.dims)), 1.0F);
  return k.pack(1, view(ones.data(), d.dims)).value();
}

}  // namespace

TEST_CASE("eight threads share one kernel and one packed weight") {
  for (numerics n : {numerics::peer, numerics::strict}) {
    problem const p = problem_of("matmul(x, w) | add b:vector | relu", {{16, 32}, {32, 24}}, {}, n);
    auto const k = onednn_backend().build(p).value();
    packed_weight const packed = pack_ones(*k, p);
    std::atomic<int> wrong = 0;
    std::vector<std::thread> threads;
    for (int t = 0; t < 8; ++t)
      threads.emplace_back([&, t] {
        auto const start = static_cast<float>(t + 1);
        bound_call one(*k, p, packed, start);
        for (int i = 0; i < 1000; ++i) {
          std::fill(one.out.begin(), one.out.end(), -1.0F);
          if (one.call->run() != code::ok) ++wrong;
          for (float v : one.out)
            if (v != 32 * start + start) ++wrong;
        }
      });
    for (std::thread& t : threads) t.join();
    CHECK(wrong == 0);
  }
}

TEST_CASE("a kernel made on one thread runs on another, and outlives the backend and its maker") {
  std::unique_ptr<bound_call> one;
  problem const p = problem_of("matmul(x, w) | add b:vector", {{3, 4}, {4, 5}});
  std::thread([&] {
    auto const k = onednn_backend().build(p).value();
    one = std::make_unique<bound_call>(*k, p, pack_ones(*k, p), 1.0F);
    one->args.operands[1] = nullptr;
  }).join();
  auto const k = onednn_backend().build(p).value();
  packed_weight const packed = pack_ones(*k, p);
  one->args.operands[1] = packed.data();
  one->call->repoint(one->args);
  REQUIRE(one->call->run() == code::ok);
  for (float v : one->out) CHECK(v == 5);
}

TEST_CASE("kernels with equal layout keys share a packed weight, others have other keys") {
  onednn_backend const b;
  auto const key = [&](problem const& p) { return b.build(p).value()->layout_key(1); };
  problem const relu = problem_of("matmul(x, w) | relu", {{16, 32}, {32, 24}});
  CHECK(key(relu) == key(problem_of("matmul(x, w) | tanh", {{16, 32}, {32, 24}})));
  CHECK(key(relu) != key(problem_of("matmul(x, w) | relu", {{16, 24}, {24, 32}})));
  CHECK(key(relu) != key(problem_of("matmul(x, w) | relu [bf16]", {{16, 32}, {32, 24}})));
  // A strict convolution with padding has looked through its weights, a peer one has not.
  std::string const conv = "conv2d(x, w, pad=1)";
  std::vector<shape> const dims = {{1, 5, 5, 8}, {8, 3, 3, 8}};
  CHECK(key(problem_of(conv, dims)) != key(problem_of(conv, dims, {}, numerics::strict)));
}

TEST_CASE("a weight with an infinity is not packed for a strict convolution with padding") {
  std::vector<float> weight(8 * 9 * 8, 1.0F);
  weight[77] = std::numeric_limits<float>::infinity();
  std::vector<shape> const dims = {{1, 5, 5, 8}, {8, 3, 3, 8}};
  onednn_backend const b;
  auto const strict =
      b.build(problem_of("conv2d(x, w, pad=1)", dims, {}, numerics::strict)).value();
  auto const r = strict->pack(1, view(weight.data(), dims[1]));
  REQUIRE_FALSE(r.ok());
  CHECK(r.error().message.starts_with("sinter: weight 'w' holds an infinity or a NaN"));
  CHECK(b.build(problem_of("conv2d(x, w, pad=1)", dims))
            .value()
            ->pack(1, view(weight.data(), dims[1]))
            .ok());
}

TEST_CASE("OpenMP's count is what it was, and one while a call runs") {
  onednn::openmp_runtime const& omp = onednn::openmp();
  if (omp.set_count == nullptr) return;  // built without OpenMP: nothing to set
  omp.set_count(3);
  problem const p = problem_of("matmul(x, w) | add b:vector", {{3, 4}, {4, 5}});
  auto const k = onednn_backend().build(p).value();
  CHECK(omp.count() == 3);
  bound_call one(*k, p, pack_ones(*k, p), 1.0F);
  REQUIRE(one.call->run() == code::ok);
  CHECK(omp.count() == 3);
  {
    onednn::thread_scope const scope(omp);
    CHECK(omp.count() == 1);
  }
  CHECK(omp.count() == 3);
}

TEST_CASE("a failure of oneDNN's generator leaves no trace on the thread") {
  // The failure that is known: a comparison with an operand behind a tail of channels, asked for directly.
  onednn::attributes const attr = onednn::new_attributes();
  onednn::post_op_list list;
  dnnl_post_ops_create(list.put());
  auto const plain = [](extent rows, extent columns) {
    onednn::layout l;
    l.push(rows, columns);
    l.push(columns, 1);
    return onednn::describe(l);
  };
  onednn::memory_desc const src = plain(5, 8), weight = plain(8, 7), dst = plain(5, 7),
                            addend = plain(1, 7);
  dnnl_post_ops_append_binary(list.get(), dnnl_binary_eq, addend.get());
  dnnl_primitive_attr_set_post_ops(attr.get(), list.get());
  onednn::primitive_desc pd;
  REQUIRE(dnnl_matmul_primitive_desc_create(pd.put(), onednn::cpu_engine(), src.get(), weight.get(),
                                            nullptr, dst.get(), attr.get()) == dnnl_success);
  onednn::primitive made;
  dnnl_status_t const s = onednn::create(made, pd.get(), true);
  MESSAGE("oneDNN " << DNNL_VERSION_MAJOR << "." << DNNL_VERSION_MINOR << ": "
                    << onednn::name_of(s));
  CHECK((s == dnnl_success || s == dnnl_runtime_error));
  // This thread still generates code: extents that no other test has.
  check_fused(problem_of("matmul(x, w) | add b:vector | tanh", {{43, 19}, {19, 29}}));
}

TEST_CASE("refusals are sentences") {
  onednn_backend const b;
  CHECK(b.supports(problem_of("matmul(x, w)", {{dynamic, 4}, {4, 5}})).reason ==
        "sinter: the oneDNN backend compiles for fixed extents; an extent of this problem is "
        "dynamic");
  for (shape const& dims : {shape{dynamic, 8, 8, 4}, shape{1, dynamic, dynamic, 4}})
    CHECK(b.supports(problem_of("conv2d(x, w, pad=1)", {dims, {5, 3, 3, 4}})).reason ==
          "sinter: the oneDNN backend compiles for fixed extents; an extent of this problem is "
          "dynamic");
  CHECK(b.supports(problem_of("relu(x:tensor) | matmul(%0, w)", {{3, 4}, {4, 5}})).reason ==
        "sinter: the oneDNN backend takes the operands of a contraction as they are in memory; "
        "step 1 (matmul) reads "
        "the result of step 0 (relu)");
  CHECK(b.supports(problem_of("matmul(x, w) | matmul(%0, v)", {{3, 4}, {4, 5}, {5, 6}})).reason ==
        "sinter: the oneDNN backend runs one contraction in a group; this one has 2");
  CHECK(
      b.supports(problem_of("matmul(x, w) | mul w", {{4, 4}, {4, 4}})).reason ==
      "sinter: the oneDNN backend packs weight 'w' for its contraction; another step reads it too");
}

TEST_CASE("a cap below what this process's oneDNN may use is refused") {
  problem p = problem_of("matmul(x, w)", {{3, 4}, {4, 5}});
  p.max_isa = isa::reference;
  CHECK(onednn_backend().supports(p).reason ==
        "sinter: the oneDNN of this process may use more than the cap reference allows; "
        "SINTER_MAX_ISA must say it "
        "before oneDNN's first use");
  status const late = onednn::cap_isa(isa::avx2);  // the engine is long in use
  CHECK_FALSE(late.ok());
  CHECK(late.error().message ==
        "sinter: oneDNN was used before it could be capped at avx2; cap it before its first use");
}
