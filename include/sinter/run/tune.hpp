// options::tune: which of several built kernels is the fastest for one problem, measured once in the process.
//
// Every kernel computes the same problem on memory of its own making, so nothing of the user's is read or written.
// Turns are taken: each round times every kernel, the median of the rounds counts. A kernel that takes longer than its
// budget is timed once. What was measured is remembered by problem, level and candidates (not by address): at most
// tune_memory_size problems, the least recently asked for goes first, and who asks while another thread measures the
// same problem waits for it. Only problems without dynamic extents are measured. Read run/dispatch.hpp for who asks.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "../backend/backend.hpp"
#include "../base/array_view.hpp"
#include "../jit/code_cache.hpp"
#include "../plan/layout.hpp"

namespace sinter::inline SINTER_ABI {

inline constexpr std::size_t tune_memory_size = 1024;

/// A backend that did not compute a problem, and why.
struct refused_backend {
  std::string backend;
  std::string reason;  ///< the sentence, with its "sinter:"
};

/// What was found out for one problem.
struct tuning {
  std::string winner;
  std::string figures;  ///< "jit 1.20 us, onednn 1.45 us"
  std::vector<refused_backend> refusals;
};

namespace detail {

inline jit::code_cache<tuning>& tune_memory() {
  static jit::code_cache<tuning> memory(tune_memory_size);
  return memory;
}

/// Numbers in [-1, 1) that every floating dtype holds exactly; bytes for integers. Gaps between strides too.
inline void fill_scratch(buffer& memory, dtype type) {
  std::uint32_t state = 2463534242U;
  auto const next = [&state] { return state = state * 1664525U + 1013904223U; };
  std::byte* const to = memory.data();
  std::size_t const count = memory.size() / static_cast<std::size_t>(size_of(type));
  for (std::size_t i = 0; i < count; ++i) {
    float const v = static_cast<float>(static_cast<int>(next() >> 25) - 64) / 64;
    switch (type) {
      case dtype::f32:
        std::memcpy(to + 4 * i, &v, 4);
        break;
      case dtype::bf16: {
        bfloat16 const narrow = to_bfloat16(v);
        std::memcpy(to + 2 * i, &narrow, 2);
        break;
      }
      case dtype::f16: {
        float16 const narrow = to_float16(v);
        std::memcpy(to + 2 * i, &narrow, 2);
        break;
      }
      default:
        std::memset(to + i * static_cast<std::size_t>(size_of(type)), static_cast<int>(state >> 28),
                    static_cast<std::size_t>(size_of(type)));
    }
  }
}

/// Memory for all operands and outputs of a problem.
class scratch_operands {
 public:
  explicit scratch_operands(problem const& p) : problem_(p) {
    for (int i = 0; i < p.chain.operands.ssize(); ++i) {
      tensor_desc const& d = p.operands[at(i)];
      operands_.emplace_back(static_cast<std::size_t>(byte_span(d)));
      if (!operands_.back().failed()) fill_scratch(operands_.back(), d.type);
    }
    for (int i = 0; i < p.chain.outputs.ssize(); ++i) {
      outputs_.emplace_back(static_cast<std::size_t>(byte_span(p.outputs[at(i)])));
      if (!outputs_.back().failed()) std::memset(outputs_.back().data(), 0, outputs_.back().size());
    }
  }
  bool failed() const {
    auto const lacks = [](buffer const& b) { return b.failed(); };
    return std::any_of(operands_.begin(), operands_.end(), lacks) ||
           std::any_of(outputs_.begin(), outputs_.end(), lacks);
  }
  tensor_view view(int i) const {
    tensor_desc const& d = problem_.operands[at(i)];
    return {operands_[at(i)].data(), d.type, d.dims, d.strides, false};
  }
  call_args args() {
    call_args a;
    for (std::size_t i = 0; i < operands_.size(); ++i) a.operands[i] = operands_[i].data();
    for (std::size_t i = 0; i < outputs_.size(); ++i) a.outputs[i] = outputs_[i].data();
    if (problem_.in_place >= 0) a.operands[problem_.in_place] = a.outputs[0];
    return a;
  }

 private:
  problem const& problem_;
  std::vector<buffer> operands_, outputs_;
};

/// One kernel, ready to be called again and again.
class trial {
 public:
  static result<trial> make(kernel const& k, problem const& p, scratch_operands& operands) {
    trial t;
    call_args args = operands.args();
    for (int i = 0; i < p.chain.operands.ssize(); ++i) {
      if (p.chain.operands[i].role != role::weight) continue;
      auto packed = k.pack(i, operands.view(i));
      if (!packed) return packed.error();
      args.operands[i] = packed->data();
      t.packed_.push_back(std::move(*packed));
    }
    t.scratch_ = buffer(k.scratch_bytes());
    if (t.scratch_.failed()) return failure{code::out_of_memory, "sinter: no memory to tune with"};
    args.scratch = t.scratch_.data();
    auto made = k.make_invocation();
    if (!made) return made.error();
    t.call_ = std::move(*made);
    t.call_->repoint(args);
    // The first call also finds pages and fills caches.
    if (t.call_->run() != code::ok)
      return failure{code::system, "sinter: the kernel failed while it was tuned"};
    t.calls_ = (std::max)(1, static_cast<int>((std::min)(round_ns / t.time(1), 1e5)));
    return t;
  }

  /// Nanoseconds of a call, the mean of `calls` in a row.
  double time(int calls) {
    auto const start = std::chrono::steady_clock::now();
    for (int i = 0; i < calls; ++i) static_cast<void>(call_->run());
    double const ns =
        std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start).count();
    return (std::max)(ns / calls, 1.0);
  }
  /// One round: as many calls as fit into round_ns, so a kernel's rounds fit into budget_ns.
  void round() {
    double const t = time(calls_);
    int at = count_++;
    for (; at > 0 && rounds_[at - 1] > t; --at) rounds_[at] = rounds_[at - 1];
    rounds_[at] = t;
    total_ += t * calls_;
  }
  bool done() const { return count_ > 0 && (count_ >= most_rounds || total_ >= budget_ns); }
  double median() const { return rounds_[count_ / 2]; }

 private:
  static constexpr double round_ns = 1e6, budget_ns = 5e7;
  static constexpr int most_rounds = 15;

  trial() = default;

  std::vector<packed_weight> packed_;
  buffer scratch_;
  std::unique_ptr<invocation> call_;
  int calls_ = 1;
  double total_ = 0;
  int count_ = 0;
  double rounds_[most_rounds] = {};  ///< the least first
};

inline std::string microseconds_text(double nanoseconds) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f us", nanoseconds * 1e-3);
  return text;
}

inline std::string implementations_of(std::vector<stage_note> const& stages) {
  std::string text;
  for (stage_note const& s : stages) text += join({text.empty() ? "" : "+", s.implementation});
  return text;
}

/// Its backend's name; where several are of one backend, what it is implemented by.
inline std::string candidate_name(kernel const& k,
                                  array_view<std::shared_ptr<kernel const> const> all) {
  int of_backend = 0;
  for (auto const& other : all) of_backend += other->backend() == k.backend() ? 1 : 0;
  return of_backend > 1 ? implementations_of(k.stages()) : std::string(k.backend());
}

/// The fastest of the kernels. One that cannot be called becomes a refusal; a failure where none can.
inline result<tuning> measure_kernels(problem const& p,
                                      array_view<std::shared_ptr<kernel const> const> kernels) {
  scratch_operands operands(p);
  if (operands.failed())
    return failure{code::out_of_memory, "sinter: no memory for the operands to tune with"};
  tuning found;
  std::vector<trial> trials;
  std::vector<std::string> names;
  for (auto const& k : kernels) {
    auto made = trial::make(*k, p, operands);
    if (!made) {
      found.refusals.push_back({std::string(k->backend()), made.error().message});
      continue;
    }
    trials.push_back(std::move(*made));
    names.push_back(candidate_name(*k, kernels));
  }
  if (trials.empty())
    return failure{code::system, join({"sinter: no kernel could be tuned: ",
                                       found.refusals.empty() ? "" : found.refusals[0].reason})};
  for (bool going = true; going;) {
    going = false;
    for (trial& t : trials) {
      if (!t.done()) t.round();
      going = going || !t.done();
    }
  }
  double least = 0;
  for (std::size_t i = 0; i < trials.size(); ++i) {
    double const t = trials[i].median();
    if (i == 0 || t < least) {
      least = t;
      found.winner = names[i];
    }
    found.figures += join({i == 0 ? "" : ", ", names[i], " ", microseconds_text(t)});
  }
  return found;
}

}  // namespace detail

/// What tuning has done in this process so far: `generated` problems measured, `hits` answered from memory.
inline jit::cache_counters tune_counters() { return detail::tune_memory().counters(); }
/// Forgets what was measured.
inline void forget_tuning() { detail::tune_memory().clear(); }

}  // namespace sinter::inline SINTER_ABI
