// The contract that every backend fulfils: supports, build; and what it builds: a kernel, which makes invocations.
//
//   backend     one per engine (reference, jit, onednn): says yes or no to a problem, builds a kernel for it
//   kernel      immutable, shared by threads and programs: knows its packed layouts, scratch and how it is split
//   invocation  one thread's mutable side of a kernel: pointers are put in by repoint(), run() costs an indirect call
//
// Several threads within one call: each worker has an invocation of its own of the same kernel, pointed at the same
// operands and outputs with scratch of its own, cut alike; each pulls the numbers of parts. Who the workers are is
// run/parallel.hpp's business; an invocation that cannot be cut is one part.
//
// A backend sees a problem and never an expression. It may not write anything before run(), nor allocate in run().
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "../base/array_view.hpp"
#include "../base/status.hpp"
#include "../core/buffer.hpp"
#include "../plan/problem.hpp"

namespace sinter::inline SINTER_ABI {

/// What one call reads and writes, in the order of the chain's operands and outputs. An operand of role weight is the
/// data pointer of its packed_weight. Pointers of operands without elements may be null.
struct call_args {
  void const* operands[max_operands] = {};
  void* outputs[max_outputs] = {};
  void* scratch = nullptr;  ///< kernel::scratch_bytes() bytes on a 64-byte boundary
  /// The values of dynamic extents: the descs of this call, or null where the problem has no dynamic extent.
  problem const* shapes = nullptr;
};

/// A weight in the layout that one kernel wants. Immutable; co-owned by whoever uses it. Kernels whose layout keys are
/// equal may share it.
struct packed_weight {
  std::shared_ptr<buffer const> storage;
  std::string layout_key;  ///< backend, shape, dtype, blocking
  void const* data() const { return storage ? storage->data() : nullptr; }
};

/// One primitive or loop of a kernel, for explain().
struct stage_note {
  std::string what;            ///< the steps in the chain's text form
  std::string implementation;  ///< "brgconv:avx512_core_bf16", "reference"
  std::string why;             ///< why the chain was split before this stage; empty for the first
  std::string note{};          ///< why this implementation, where the backend had a choice
};

/// Is this the name of code that is there for its meaning and not for its speed? oneDNN calls its own "ref:any",
/// "ref_int8:any", "gemm:ref", "...:conv+ref:any" and the like; the reference backend says "reference".
inline bool is_reference_code(std::string_view implementation) {
  for (std::size_t at = implementation.find("ref"); at != std::string_view::npos;
       at = implementation.find("ref", at + 1))
    if (at == 0 || implementation[at - 1] == ':' || implementation[at - 1] == '+') return true;
  return false;
}

/// Rows first, first + 1, ..., last - 1 of an image.
struct row_range {
  extent first = 0, last = 0;
  extent count() const noexcept { return last > first ? last - first : 0; }
};

class invocation {
 public:
  /// Everything set by the last repoint() is computed. No allocation, no exception. code::ok, or why the library
  /// underneath failed.
  using run_function = code (*)(invocation&) noexcept;

  explicit invocation(run_function function) noexcept : run_(function) {}
  invocation(invocation const&) = delete;
  invocation& operator=(invocation const&) = delete;
  virtual ~invocation() = default;

  /// Puts in other pointers (already validated). No allocation. Forgets the cut.
  virtual void repoint(call_args const& args) noexcept = 0;
  code run() noexcept { return run_(*this); }

  /// Cuts the work that the last repoint() described into at most `wanted` parts and gives their number, at least 1.
  /// The answer follows from the kernel, `wanted` and the shapes alone, not from pointers: the invocations of several
  /// workers agree. Parts are of about equal work, write nothing in common, read nothing that another writes, and
  /// leave in all outputs together the very bits that run() leaves: a sum is never cut. No allocation; run() is as
  /// before.
  virtual int cut(int /*wanted*/) noexcept { return 1; }
  /// Computes part 0 <= part < cut(): in any order, each part once, on the caller's thread, in this invocation's own
  /// scratch. No allocation, no exception.
  virtual code run_part(int /*part*/) noexcept { return run(); }

  /// Computes these rows of one image of the outputs, the bits that run() gives them. Only of a kernel that by_rows()
  /// gave, after repoint(), from whose arguments `at` differs by pointers alone: each is where row 0 of image 0 is or
  /// would be, and what these rows do not read or write need not be there. No allocation, no exception.
  virtual code run_rows(call_args const& /*at*/, extent /*image*/, row_range /*rows*/) noexcept {
    return code::unsupported;
  }

 private:
  run_function run_;
};

/// Fewer parts than `wanted` where they would be so small that handing one to a thread costs more than computing it:
/// a part has at least 2^18 multiply-adds (or elements times what each of them costs in that unit), some microseconds.
constexpr int worthwhile_parts(double multiply_adds, int wanted) noexcept {
  double const most = multiply_adds / (1 << 18);
  return most >= wanted ? wanted : most < 2 ? 1 : static_cast<int>(most);
}

class kernel {
 public:
  virtual ~kernel() = default;
  virtual std::string_view backend() const noexcept = 0;
  /// Threads that a library underneath starts by itself in run(), at most; such work is never cut. 0: none is started.
  virtual int own_threads() const noexcept { return 0; }
  virtual std::size_t scratch_bytes() const noexcept = 0;
  /// One per stage that runs; more than one means that the chain was split.
  virtual std::vector<stage_note> stages() const = 0;
  /// The key of the layout that operand i (a weight) is packed to.
  virtual std::string layout_key(int operand) const = 0;
  /// Packs a weight from any strides, in f32 or in the precision's weight dtype (f32 is rounded to nearest even).
  /// `source` has the problem's extents.
  virtual result<packed_weight> pack(int operand, tensor_view const& source) const = 0;
  /// This kernel (problem, layouts, scratch, bits) such that run_rows() of its invocations computes each of these rows of
  /// an image; or a sentence. Images are N,H,W,C, their heights and widths known.
  virtual result<std::shared_ptr<kernel const>> by_rows(
      array_view<row_range const> /*ranges*/) const {
    return failure{code::unsupported, "sinter: this kernel computes whole images only"};
  }
  /// A new mutable side for one thread. May allocate.
  virtual result<std::unique_ptr<invocation>> make_invocation() const = 0;
};

class backend {
 public:
  virtual ~backend() = default;
  virtual std::string_view name() const noexcept = 0;
  /// Yes, or no with a sentence. Never throws, never guesses: after yes, build() fails only for lack of resources or
  /// where the library underneath decides late, and says so.
  virtual verdict supports(problem const& p) const noexcept = 0;
  virtual result<std::shared_ptr<kernel const>> build(problem const& p) const = 0;
  /// Another kernel for a problem that build() has built, where this backend chose by a rule that a measurement may
  /// overrule; else null.
  virtual std::shared_ptr<kernel const> build_other(problem const& /*p*/) const { return nullptr; }
};

}  // namespace sinter::inline SINTER_ABI
