// The JIT backend: our own generated kernels behind the contract of backend/backend.hpp.
//
// supports() asks whether this process may run generated code, which level of instructions it may
// use, and the rules of the kind of chain (backend/jit_matmul.hpp). build() takes the code from the
// process's cache or generates it once. An invocation owns the frame that the code reads; run() is
// one indirect call of generated code where the problem is one block of one matrix, else a loop
// around it.
#pragma once

#include <cstring>
#include <memory>
#include <new>
#include <optional>
#include <utility>

#include "../isa/detect.hpp"
#include "../jit/kernel_key.hpp"
#include "../jit/process_cache.hpp"
#include "../plan/text.hpp"
#include "backend.hpp"
#include "jit_conv.hpp"
#include "jit_depthwise.hpp"
#include "jit_matmul.hpp"

namespace sinter::inline SINTER_ABI {
namespace jit {

/// The level to generate for: the highest with vector kernels that this process may use; nothing
/// below AVX2.
inline result<std::optional<isa>> level_for(problem const& p) {
  result<features> const usable = current_isa(p.max_isa);
  if (!usable) return usable.error();
  for (isa level : {isa::avx512_bf16, isa::avx512, isa::avx2})
    if (runs(*usable, level)) return std::optional<isa>(level);
  return std::optional<isa>{};
}

/// The immutable side of a built matmul.
struct matmul_code {
  problem wanted;
  matmul_plan plan;
  std::shared_ptr<machine_code const> code;
  std::shared_ptr<machine_code const> packing;  ///< where the plan has a pack_shape
  std::size_t frame_bytes = 0;
};

class matmul_invocation final : public invocation {
 public:
  static result<std::unique_ptr<invocation>> make(std::shared_ptr<matmul_code const> built) {
    buffer memory(built->frame_bytes);
    if (memory.failed())
      return failure{code::out_of_memory, "sinter: jit: no memory for the frame of a call"};
    return std::unique_ptr<invocation>(new matmul_invocation(std::move(built), std::move(memory)));
  }

  void repoint(call_args const& args) noexcept override {
    matmul_plan const& plan = built_->plan;
    problem const& p = args.shapes != nullptr ? *args.shapes : built_->wanted;
    args_ = args;
    geometry_ = geometry_of(plan, p);
    src_type_ = p.operands[detail::at(plan.src)].type;
    weight_type_ = p.operands[detail::at(plan.weight)].type;
    set_frame();
  }

 private:
  matmul_invocation(std::shared_ptr<matmul_code const> built, buffer memory)
      : invocation(&run_all),
        built_(std::move(built)),
        memory_(std::move(memory)),
        frame_(*new (memory_.data()) matmul_frame),
        entry_(built_->code->entry<matmul_entry>()) {}

  void set_frame() noexcept {
    matmul_plan const& plan = built_->plan;
    panel_layout const panels = plan.panels();
    frame_.full_panels = panels.full_panels();
    frame_.full_panel_bytes = panels.panel_bytes(tile_vectors);
    if (plan.shape.direct_panel) {
      frame_.ldb = geometry_.b_row * size_of(weight_type_);
      frame_.full_panel_bytes = panels.width() * size_of(weight_type_);
    }
    frame_.lda = plan.shape.direct ? geometry_.a_row : copied_row_bytes(plan.shape.kind, plan.k);
    frame_.a = args_.operands[plan.src];
    frame_.b = args_.operands[plan.weight];
    for (int i = 0; i < plan.accesses.ssize(); ++i) {
      frame_.accesses[i].origin = pointer_of(plan.accesses[i]);
      frame_.accesses[i].row_stride = geometry_.accesses[i].row;
    }
    set_rows((std::min)(geometry_.rows, plan.block_rows));
    empty_ = geometry_.empty() || plan.n == 0;
    single_ = !empty_ && geometry_.batch_axes == 0 && geometry_.rows <= plan.block_rows &&
              plan.scratch_bytes() == 0;
  }

  void set_rows(extent rows) noexcept {
    row_split const split = split_rows(rows, tile_rows(built_->plan.shape.level));
    frame_.blocks = split.blocks;
    frame_.low_blocks = split.low_blocks;
    frame_.high = split.high;
  }
  void const* pointer_of(matmul_access const& a) const noexcept {
    return a.output ? args_.outputs[a.index] : args_.operands[a.index];
  }

  static sinter::code run_all(invocation& self) noexcept {
    auto& me = static_cast<matmul_invocation&>(self);
    if (me.single_)
      me.entry_(&me.frame_);
    else if (!me.empty_)
      me.all_matrices();
    return sinter::code::ok;
  }
  void all_matrices() noexcept {
    extent index[max_batch_axes] = {};
    packed_from_ = nullptr;
    do one_matrix(index);
    while (next(index));
  }

  bool next(extent* index) const noexcept {
    for (int j = 0; j < geometry_.batch_axes; ++j) {
      if (++index[j] < geometry_.batch[j]) return true;
      index[j] = 0;
    }
    return false;
  }
  extent offset(extent const* strides, extent const* index) const noexcept {
    extent sum = 0;
    for (int j = 0; j < geometry_.batch_axes; ++j) sum += strides[j] * index[j];
    return sum;
  }

  void one_matrix(extent const* index) noexcept {
    matmul_plan const& plan = built_->plan;
    frame_.b = moved(args_.operands[plan.weight], offset(geometry_.b_batch, index));
    if (plan.panel_scratch > 0) pack_here();
    for (extent row = 0; row < geometry_.rows; row += plan.block_rows) {
      extent const rows = (std::min)(plan.block_rows, geometry_.rows - row);
      set_rows(rows);
      for (int i = 0; i < plan.accesses.ssize(); ++i)
        frame_.accesses[i].origin =
            moved(pointer_of(plan.accesses[i]),
                  offset(geometry_.accesses[i].batch, index) + row * geometry_.accesses[i].row);
      frame_.a =
          moved(args_.operands[plan.src], offset(geometry_.a_batch, index) + row * geometry_.a_row);
      if (!plan.shape.direct) copy_here(rows);
      entry_(&frame_);
    }
  }
  void pack_here() noexcept {
    if (frame_.b != packed_from_ || packed_from_ == nullptr) {
      packed_from_ = frame_.b;
      pack_weight();
    }
    frame_.b = args_.scratch;
  }
  void pack_weight() noexcept {
    matmul_plan const& plan = built_->plan;
    if (!plan.pack)
      return pack_panels(plan.panels(), args_.scratch,
                         {frame_.b, weight_type_, geometry_.b_row, geometry_.b_column});
    extent const stride =
        plan.pack->form == pack_form::transposed ? geometry_.b_column : geometry_.b_row;
    pack_frame const f{frame_.b, stride * size_of(weight_type_), args_.scratch,
                       plan.panels().full_panels()};
    built_->packing->entry<pack_entry>()(&f);
  }
  void copy_here(extent rows) noexcept {
    matmul_plan const& plan = built_->plan;
    std::byte* const to = static_cast<std::byte*>(args_.scratch) + plan.panel_scratch;
    copy_rows(plan.shape.kind, to,
              {frame_.a, src_type_, geometry_.a_row / size_of(src_type_), geometry_.a_column}, rows,
              plan.k);
    frame_.a = to;
  }
  static void const* moved(void const* p, extent bytes) noexcept {
    return p == nullptr ? p : static_cast<std::byte const*>(p) + bytes;
  }

  std::shared_ptr<matmul_code const> built_;
  buffer memory_;
  matmul_frame& frame_;
  matmul_entry entry_;
  call_args args_;
  matmul_geometry geometry_;
  void const* packed_from_ = nullptr;
  bool empty_ = true, single_ = false;
  dtype src_type_ = dtype::f32, weight_type_ = dtype::f32;
};

class matmul_kernel final : public kernel {
 public:
  explicit matmul_kernel(std::shared_ptr<matmul_code const> built) : built_(std::move(built)) {}

  std::string_view backend() const noexcept override { return "jit"; }
  std::size_t scratch_bytes() const noexcept override { return built_->plan.scratch_bytes(); }
  std::vector<stage_note> stages() const override {
    matmul_shape const& s = built_->plan.shape;
    std::string const name =
        "jit:" + std::string(name_of(s.level)) + ":" + std::string(row_of(s.kind).name) + ":" +
        std::to_string(tile_rows(s.level)) + "x" + std::to_string(tile_columns(s.level));
    return {{std::string(text(built_->wanted.chain).view()), name, {}}};
  }
  std::string layout_key(int) const override {
    panel_layout const l = built_->plan.panels();
    return "jit:panels:" + std::string(row_of(l.kind).name) + ":" + std::to_string(l.width()) +
           ":" + to_string(weight_desc().dims) + (built_->plan.transposed_weight ? "^T" : "");
  }
  result<packed_weight> pack(int operand, tensor_view const& source) const override {
    matmul_plan const& plan = built_->plan;
    extent const each = plan.panels().bytes();
    extent matrices = 1;
    for (int i = 0; i + 2 < source.rank(); ++i) matrices *= source.dims[i];
    auto storage = std::make_shared<buffer>(static_cast<std::size_t>(matrices * each));
    if (storage->failed())
      return failure{code::out_of_memory, "sinter: jit: no memory for a packed weight of " +
                                              std::to_string(matrices * each) + " bytes"};
    // Values count as rounded to the weight's dtype, also where panels hold f32.
    dtype const type = weight_desc().type;
    bool const rounds = source.type != type && row_of(plan.shape.kind).panel != type;
    buffer rounded(rounds ? static_cast<std::size_t>(plan.k * plan.n * size_of(type)) : 0);
    if (rounded.failed())
      return failure{code::out_of_memory, "sinter: jit: no memory to round a weight"};
    for (extent i = 0; i < matrices; ++i) {
      matrix_view from = matrix(source, i);
      if (rounds) {
        round_matrix(rounded.data(), type, from, plan.k, plan.n);
        from = {rounded.data(), type, plan.n, 1};
      }
      pack_panels(plan.panels(), storage->data() + i * each, from);
    }
    return packed_weight{std::move(storage), layout_key(operand)};
  }
  result<std::unique_ptr<invocation>> make_invocation() const override {
    return matmul_invocation::make(built_);
  }

 private:
  tensor_desc const& weight_desc() const {
    return built_->wanted.operands[detail::at(built_->plan.weight)];
  }

  /// Matrix i of a weight, counted in row-major order of its batch axes.
  matrix_view matrix(tensor_view const& w, extent i) const {
    int const rank = w.rank();
    extent offset = 0;
    for (int axis = rank - 3; axis >= 0; --axis) {
      offset += i % w.dims[axis] * w.strides[axis];
      i /= w.dims[axis];
    }
    int const k = built_->plan.transposed_weight ? rank - 1 : rank - 2;
    int const n = built_->plan.transposed_weight ? rank - 2 : rank - 1;
    return {static_cast<std::byte const*>(w.data) + offset * size_of(w.type), w.type,
            w.dims[k] > 1 ? w.strides[k] : 0, w.dims[n] > 1 ? w.strides[n] : 1};
  }

  std::shared_ptr<matmul_code const> built_;
};

// Bindings name every member: one that is added and forgotten here does not compile.
inline kernel_key key_of(matmul_plan const& plan, chain const& c) {
  kernel_key key('m');
  auto const& [level, kind, direct, direct_panel, looped, full, tail, counts, k] = plan.shape;
  key.add(level).add(kind).add(direct).add(direct_panel);
  key.add(looped).add(full).add(tail).add(counts).add(k).add(plan.accesses.size());
  for (auto const& [output, index, type, across, moves] : plan.accesses)
    key.add(output).add(index).add(type).add(across).add(moves);
  return key.add(c);
}

inline result<std::shared_ptr<machine_code const>> generate_matmul(matmul_plan const& plan,
                                                                   problem const& p,
                                                                   epilogue const& e) {
  return process_cache().get(
      key_of(plan, p.chain).text(), [&]() -> result<std::shared_ptr<machine_code const>> {
        assembler a(plan.shape.level);
        if (!matmul_generator(a, plan.shape, plan.accesses, e).emit())
          return failure{code::unsupported, "sinter: jit: the chain is too long"};
        auto const bytes = a.finish();
        if (!bytes) return bytes.error();
        return code_memory::process().publish(*bytes, profile_name(plan.shape.level, p));
      });
}

inline result<std::shared_ptr<machine_code const>> generate_packing(pack_shape const& s) {
  auto const& [level, form, element_bytes, k, full, tail] = s;
  kernel_key key('p');
  key.add(level).add(form).add(element_bytes).add(k).add(full).add(tail);
  return process_cache().get(key.text(), [&]() -> result<std::shared_ptr<machine_code const>> {
    assembler a(s.level);
    pack_generator(a, s).emit();
    auto const bytes = a.finish();
    if (!bytes) return bytes.error();
    return code_memory::process().publish(*bytes,
                                          std::string(name_of(s.level)) + " copy to panels");
  });
}

/// Code whose epilogue stands once for each row of a tile is tried first where registers are many;
/// a chain too long for that gets it once, in a loop.
inline result<std::shared_ptr<matmul_code const>> build_matmul(problem const& p, isa level) {
  epilogue const e(p.chain, p.chain.anchor());
  auto built = std::make_shared<matmul_code>();
  built->wanted = p;
  built->plan = plan_matmul(p, e, level);
  built->frame_bytes = matmul_frame_bytes(e, level);
  auto code = generate_matmul(built->plan, p, e);
  if (!code && code.error().what == code::unsupported && !built->plan.shape.looped_epilogue) {
    built->plan.shape.looped_epilogue = true;
    code = generate_matmul(built->plan, p, e);
  }
  if (!code) return code.error();
  if (built->plan.pack) {
    auto packing = generate_packing(*built->plan.pack);
    if (!packing) return packing.error();
    built->packing = std::move(*packing);
  }
  built->code = std::move(*code);
  return std::shared_ptr<matmul_code const>(std::move(built));
}

}  // namespace jit

class jit_backend final : public backend {
 public:
  std::string_view name() const noexcept override { return "jit"; }

  verdict supports(problem const& p) const noexcept override {
    if (verdict const& v = jit::code_memory::allowed(); !v) return v;
    result<std::optional<isa>> const level = jit::level_for(p);
    if (!level) return verdict::no(level.error().message, level.error().what);
    if (!*level)
      return jit::detail::refuse("AVX2 and FMA are wanted, and this process may not use them");
    int const anchor = p.chain.anchor();
    if (anchor < 0) return jit::detail::refuse("chains without a contraction are not generated");
    op const code = p.chain.steps[anchor].code;
    if (code == op::conv2d)
      return jit::is_depthwise(p) ? jit::supports_depthwise(p, **level)
                                  : jit::supports_conv(p, **level);
    if (code != op::matmul)
      return jit::detail::refuse(std::string(name_of(code)) + " is not generated");
    return jit::supports_matmul(p, **level);
  }

  result<std::shared_ptr<kernel const>> build(problem const& p) const override {
    if (verdict const v = supports(p); !v) return failure{v.what, v.reason};
    isa const level = **jit::level_for(p);
    if (p.chain.steps[p.chain.anchor()].code == op::conv2d)
      return jit::is_depthwise(p) ? jit::build_depthwise(p, level) : jit::build_conv(p, level);
    auto code = jit::build_matmul(p, level);
    if (!code) return code.error();
    return std::shared_ptr<kernel const>(std::make_shared<jit::matmul_kernel>(std::move(*code)));
  }
};

}  // namespace sinter::inline SINTER_ABI
