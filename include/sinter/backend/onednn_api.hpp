// oneDNN's C API behind owning handles: the one header that includes dnnl.h, and nothing of chains or problems.
//
// Why C: it compiles in a tenth of the time of dnnl.hpp, needs no exceptions, and shares no inline function with a
// user's own dnnl.hpp. Only what oneDNN 3.4 has is used, so every version up to 3.12 builds. Three things live here:
//   handles       destroy what they own
//   thread_scope  says how many threads oneDNN may use while it stands, whichever OpenMP runtime libdnnl brought
//   create()      makes a primitive without leaving a trace on this thread when oneDNN's generator fails
// Read onednn_postops.hpp next.
#pragma once

#include <oneapi/dnnl/dnnl.h>

#if defined(__unix__) || defined(__APPLE__)
#include <dlfcn.h>
#include <pthread.h>
#endif

#include <string>
#include <string_view>
#include <utility>

#include "../base/status.hpp"
#include "../core/dtype.hpp"
#include "../core/shape.hpp"
#include "../isa/isa.hpp"

static_assert(DNNL_VERSION_MAJOR == 3 && DNNL_VERSION_MINOR >= 4,
              "sinter: oneDNN 3.4 or newer (3.x) is wanted");

namespace sinter::inline SINTER_ABI {
namespace onednn {

/// Owns one object of the C API.
template <class T, dnnl_status_t (*Destroy)(T)>
class handle {
 public:
  handle() = default;
  handle(handle&& other) noexcept : value_(std::exchange(other.value_, nullptr)) {}
  handle& operator=(handle&& other) noexcept {
    std::swap(value_, other.value_);
    return *this;
  }
  ~handle() {
    if (value_ != nullptr) Destroy(value_);
  }
  T get() const noexcept { return value_; }
  explicit operator bool() const noexcept { return value_ != nullptr; }
  /// For the create functions. Only on an empty handle.
  T* put() noexcept { return &value_; }

 private:
  T value_ = nullptr;
};
using memory_desc = handle<dnnl_memory_desc_t, dnnl_memory_desc_destroy>;
using memory = handle<dnnl_memory_t, dnnl_memory_destroy>;
using stream = handle<dnnl_stream_t, dnnl_stream_destroy>;
using attributes = handle<dnnl_primitive_attr_t, dnnl_primitive_attr_destroy>;
using post_op_list = handle<dnnl_post_ops_t, dnnl_post_ops_destroy>;
using primitive_desc = handle<dnnl_primitive_desc_t, dnnl_primitive_desc_destroy>;
using primitive = handle<dnnl_primitive_t, dnnl_primitive_destroy>;

inline std::string_view name_of(dnnl_status_t s) {
  switch (s) {
    case dnnl_success:
      return "success";
    case dnnl_out_of_memory:
      return "out of memory";
    case dnnl_invalid_arguments:
      return "invalid arguments";
    case dnnl_unimplemented:
      return "not implemented";
    case dnnl_runtime_error:
      return "its code generator failed";
    default:
      return "an error of its own";
  }
}

/// `what`, as in "sinter: oneDNN refuses <what>: not implemented".
inline failure refusal(dnnl_status_t s, std::string_view what) {
  code const kind = s == dnnl_out_of_memory                                  ? code::out_of_memory
                    : s == dnnl_unimplemented || s == dnnl_invalid_arguments ? code::unsupported
                                                                             : code::system;
  return {kind, "sinter: oneDNN refuses " + std::string(what) + ": " + std::string(name_of(s))};
}

constexpr dnnl_data_type_t data_type(dtype t) {
  switch (t) {
    case dtype::f32:
      return dnnl_f32;
    case dtype::bf16:
      return dnnl_bf16;
    case dtype::f16:
      return dnnl_f16;
    case dtype::s32:
      return dnnl_s32;
    case dtype::s8:
      return dnnl_s8;
    case dtype::u8:
      return dnnl_u8;
  }
  return dnnl_data_type_undef;
}

/// oneDNN's limit for each level; 0 where it has none that stays within the level.
constexpr int cpu_isa_of(isa level) {
  switch (level) {
    case isa::avx2:
      return dnnl_cpu_isa_avx2;
    case isa::avx512:
      return dnnl_cpu_isa_avx512_core_vnni;
    case isa::avx512_bf16:
      return dnnl_cpu_isa_avx512_core_bf16;
    case isa::amx:
      return dnnl_cpu_isa_avx512_core_amx;
    case isa::amx_fp16:
      return dnnl_cpu_isa_avx512_core_amx_fp16;
    default:
      return 0;
  }
}

/// Caps what the oneDNN of this process may use. Right only before its first use; later it is refused.
inline status cap_isa(isa level) {
  int const cap = cpu_isa_of(level);
  if (cap == 0)
    return failure{code::unsupported,
                   "sinter: oneDNN cannot be capped at " + std::string(name_of(level))};
  dnnl_status_t const s = dnnl_set_max_cpu_isa(static_cast<dnnl_cpu_isa_t>(cap));
  if (s == dnnl_success) return {};
  return failure{code::unsupported, "sinter: oneDNN was used before it could be capped at " +
                                        std::string(name_of(level)) +
                                        "; cap it before its first use"};
}

/// The CPU engine of the process, made at the first use and never destroyed: kernels may outlive static objects.
/// SINTER_MAX_ISA is handed to oneDNN here. Null if oneDNN has no CPU engine.
inline dnnl_engine_t cpu_engine() {
  static dnnl_engine_t const engine = [] {
    if (auto const level = max_isa(); level.ok() && level->has_value()) (void)cap_isa(**level);
    dnnl_engine_t e = nullptr;
    return dnnl_engine_create(&e, dnnl_cpu, 0) == dnnl_success ? e : nullptr;
  }();
  return engine;
}

/// Does the oneDNN of this process keep to the level?
inline verdict keeps_to(isa level) {
  (void)cpu_engine();  // to ask is a first use too: after it no cap is taken
  auto const used = static_cast<unsigned>(dnnl_get_effective_cpu_isa());
  if (auto const cap = static_cast<unsigned>(cpu_isa_of(level)); cap != 0 && (used & ~cap) == 0)
    return verdict::yes();
  return verdict::no("sinter: the oneDNN of this process may use more than the cap " +
                     std::string(name_of(level)) +
                     " allows; SINTER_MAX_ISA must say it before oneDNN's first use");
}

/// The OpenMP runtime of the process, looked up by name so that nothing of Sinter links to it. Null functions: there
/// is none (oneDNN was built without threads, or for TBB), or the system has no way to look.
struct openmp_runtime {
  int (*count)() = nullptr;
  void (*set_count)(int) = nullptr;
};
inline openmp_runtime const& openmp() {
  static openmp_runtime const runtime = [] {
    openmp_runtime r;
#if defined(__unix__) || defined(__APPLE__)
    void* const count = dlsym(RTLD_DEFAULT, "omp_get_max_threads");
    void* const set = dlsym(RTLD_DEFAULT, "omp_set_num_threads");
    if (count != nullptr && set != nullptr) {
      r.count = reinterpret_cast<int (*)()>(count);
      r.set_count = reinterpret_cast<void (*)(int)>(set);
    }
#endif
    return r;
  }();
  return runtime;
}

/// While it stands, OpenMP's count is `threads`: with 1 this thread gets no helpers. The count is a property of the
/// calling thread alone. Work is divided when a primitive is described, so the scopes of its descriptor, of its
/// creation and of its calls say the same number.
class thread_scope {
 public:
  explicit thread_scope(openmp_runtime const& r, int threads = 1) noexcept
      : set_(r.set_count), before_(threads), threads_(threads) {
    if (set_ == nullptr) return;
    before_ = r.count();
    if (before_ != threads) set_(threads);
  }
  thread_scope(thread_scope const&) = delete;
  thread_scope& operator=(thread_scope const&) = delete;
  ~thread_scope() {
    if (before_ != threads_) set_(before_);
  }

 private:
  void (*set_)(int);
  int before_, threads_;
};

struct creation {
  const_dnnl_primitive_desc_t desc;
  int threads = 1;
  dnnl_primitive_t made = nullptr;
  dnnl_status_t status = dnnl_runtime_error;
};
inline void* create_here(void* argument) {
  auto& c = *static_cast<creation*>(argument);
  thread_scope const same(openmp(), c.threads);
  c.status = dnnl_primitive_create(&c.made, c.desc);
  return nullptr;
}
/// The same on a thread that ends with it, where the system has POSIX threads. (std::thread may throw.)
inline void create_elsewhere(creation& c) {
#if defined(__unix__) || defined(__APPLE__)
  pthread_t helper{};
  if (pthread_create(&helper, nullptr, create_here, &c) == 0) pthread_join(helper, nullptr);
#else
  create_here(&c);
#endif
}

/// Makes the primitive of a descriptor, under this thread's count of OpenMP.
///
/// When oneDNN's generator fails, its assembler keeps the error in a thread-local variable that nothing clears, and
/// every later generation on that thread fails too (seen with 3.7: a comparison as post-op with a channel tail). So
/// a creation that is known to be at risk, and the second try of one that failed, happens on a thread of its own that
/// ends with it: the caller's thread stays clean, or gets its primitive although something soiled it before.
inline dnnl_status_t create(primitive& p, const_dnnl_primitive_desc_t desc, bool at_risk = false) {
  creation c{desc, openmp().count != nullptr ? openmp().count() : 1};
  if (!at_risk) create_here(&c);
  if (c.status == dnnl_runtime_error) create_elsewhere(c);
  if (c.status == dnnl_success) *p.put() = c.made;
  return c.status;
}

/// dtype, extents and strides as oneDNN takes them, in its order of axes.
struct layout {
  dnnl_data_type_t type = dnnl_f32;
  int rank = 0;
  dnnl_dims_t dims = {};
  dnnl_dims_t strides = {};

  void push(extent dim, extent stride) {
    dims[rank] = dim;
    strides[rank] = stride;
    ++rank;
  }
};

/// An empty handle where oneDNN has no such descriptor.
inline memory_desc describe(layout const& l) {
  memory_desc md;
  dnnl_memory_desc_create_with_strides(md.put(), l.rank, l.dims, l.type, l.strides);
  return md;
}
/// The layout is oneDNN's to choose.
inline memory_desc describe_any(layout const& l) {
  memory_desc md;
  dnnl_memory_desc_create_with_tag(md.put(), l.rank, l.dims, l.type, dnnl_format_tag_any);
  return md;
}
inline memory_desc clone(const_dnnl_memory_desc_t d) {
  memory_desc md;
  dnnl_memory_desc_clone(md.put(), d);
  return md;
}
inline memory_desc queried(primitive_desc const& pd, dnnl_query_t what) {
  const_dnnl_memory_desc_t const d = dnnl_primitive_desc_query_md(pd.get(), what, 0);
  return d == nullptr ? memory_desc{} : clone(d);
}

inline std::string implementation(primitive_desc const& pd) {
  char const* text = nullptr;
  if (dnnl_primitive_desc_query(pd.get(), dnnl_query_impl_info_str, 0, &text) != dnnl_success ||
      text == nullptr)
    return "unnamed";
  return text;
}

/// "bf16 64x64x3x3 strides 576,1,192,64 blocks 16b64a2b": two equal texts are one layout. Empty: not said in words.
inline std::string text_of(const_dnnl_memory_desc_t md) {
  int rank = 0, blocks = 0;
  dnnl_data_type_t type = dnnl_data_type_undef;
  dnnl_format_kind_t kind = dnnl_format_kind_undef;
  dnnl_dims_t const* dims = nullptr;
  dnnl_dims_t const* padded = nullptr;
  dnnl_dims_t const* strides = nullptr;
  dnnl_dims_t const* block_sizes = nullptr;
  dnnl_dims_t const* block_axes = nullptr;
  auto const ask = [md](dnnl_query_t q, void* into) {
    return dnnl_memory_desc_query(md, q, into) == dnnl_success;
  };
  if (!ask(dnnl_query_format_kind, &kind) || kind != dnnl_blocked ||
      !ask(dnnl_query_ndims_s32, &rank) || !ask(dnnl_query_data_type, &type) ||
      !ask(dnnl_query_dims, &dims) || !ask(dnnl_query_padded_dims, &padded) ||
      !ask(dnnl_query_strides, &strides) || !ask(dnnl_query_inner_nblks_s32, &blocks) ||
      !ask(dnnl_query_inner_blks, &block_sizes) || !ask(dnnl_query_inner_idxs, &block_axes))
    return {};
  auto const list = [](dnnl_dims_t const& d, int n, char separator) {
    std::string text;
    for (int i = 0; i < n; ++i)
      text += (i > 0 ? std::string(1, separator) : "") + std::to_string(d[i]);
    return text;
  };
  std::string text = std::to_string(static_cast<int>(type)) + " " + list(*dims, rank, 'x') +
                     " padded " + list(*padded, rank, 'x') + " strides " +
                     list(*strides, rank, ',') + " blocks ";
  for (int i = 0; i < blocks; ++i)
    text += std::to_string((*block_sizes)[i]) + static_cast<char>('a' + (*block_axes)[i]);
  return text;
}

}  // namespace onednn
}  // namespace sinter::inline SINTER_ABI
