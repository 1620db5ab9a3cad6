// The JIT backend: our own generated kernels behind the contract of backend/backend.hpp.
//
// supports() asks whether this process may run generated code, which level of instructions it may
// use, and the rules of the kind of chain (backend/jit_matmul.hpp). build() takes the code from the
// process's cache or generates it once. Calls are in backend/jit_matmul_call.hpp.
#pragma once

#include <memory>
#include <optional>
#include <utility>

#include "../isa/detect.hpp"
#include "../jit/kernel_key.hpp"
#include "../jit/process_cache.hpp"
#include "../plan/text.hpp"
#include "backend.hpp"
#include "jit_conv.hpp"
#include "jit_conv_rows.hpp"
#include "jit_depthwise.hpp"
#include "jit_matmul_call.hpp"
#include "jit_matmul_rows.hpp"
#include "jit_pooled.hpp"
#include "jit_rows.hpp"
#include "jit_tiles.hpp"

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

inline bool is_depthwise_conv(problem const& p) {
  return p.chain.steps[p.chain.anchor()].code == op::conv2d && is_depthwise(p);
}

class matmul_kernel final : public kernel {
 public:
  explicit matmul_kernel(std::shared_ptr<matmul_code const> built) : built_(std::move(built)) {}

  std::string_view backend() const noexcept override { return "jit"; }
  std::size_t scratch_bytes() const noexcept override { return built_->plan.scratch_bytes(); }
  std::vector<stage_note> stages() const override {
    matmul_shape const& s = built_->plan.shape;
    std::string const tile =
        s.column_rows ? "column:rows"
        : s.column    ? "column"
                      : sinter::detail::join({tile_rows(s.level), "x", tile_columns(s.level)});
    std::string const name =
        sinter::detail::join({"jit:", name_of(s.level), ":", row_of(s.kind).name, ":", tile});
    return {{std::string(text(built_->wanted.chain).view()), name, {}, built_->note}};
  }
  std::string layout_key(int) const override {
    if (built_->plan.column())
      return sinter::detail::join({"jit:column:", name_of(built_->plan.shape.b), ":",
                                   to_string(weight_desc().dims),
                                   built_->plan.transposed_weight ? "^T" : ""});
    panel_layout const l = built_->plan.panels();
    bool const padded = l.steps() * row_of(l.kind).k_step - l.k >= row_of(l.kind).k_step;
    return "jit:panels:" + std::string(row_of(l.kind).name) + ":" + std::to_string(l.width()) +
           (padded ? ":padded:" : ":") + to_string(weight_desc().dims) +
           (built_->plan.transposed_weight ? "^T" : "");
  }
  result<packed_weight> pack(int operand, tensor_view const& source) const override {
    matmul_plan const& plan = built_->plan;
    extent const each = plan.packed_bytes();
    extent matrices = 1;
    for (int i = 0; i + 2 < source.rank(); ++i) matrices *= source.dims[i];
    auto storage = std::shared_ptr<buffer>(new buffer(static_cast<std::size_t>(matrices * each)));
    if (storage->failed())
      return failure{code::out_of_memory, "sinter: jit: no memory for a packed weight of " +
                                              std::to_string(matrices * each) + " bytes"};
    // Values count as rounded to the weight's dtype, also where panels hold f32.
    dtype const type = weight_desc().type;
    bool const rounds =
        !plan.column() && source.type != type && row_of(plan.shape.kind).panel != type;
    buffer rounded(rounds ? static_cast<std::size_t>(plan.k * plan.n * size_of(type)) : 0);
    if (rounded.failed())
      return failure{code::out_of_memory, "sinter: jit: no memory to round a weight"};
    for (extent i = 0; i < matrices; ++i) {
      matrix_view from = matrix(source, i);
      std::byte* const to = storage->data() + i * each;
      if (plan.column()) {
        copy_matrix(to, type, from, plan.k, 1);
        continue;
      }
      if (rounds) {
        copy_matrix(rounded.data(), type, from, plan.k, plan.n);
        from = {rounded.data(), type, plan.n, 1};
      }
      pack_panels(plan.panels(), to, from);
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
  auto const& [level, kind, direct, direct_panel, looped, full, tail, counts, row_tiles, column,
               column_rows, rest, a, b, k] = plan.shape;
  key.add(level).add(kind).add(direct).add(direct_panel);
  key.add(looped)
      .add(full)
      .add(tail)
      .add(counts)
      .add(row_tiles)
      .add(column)
      .add(column_rows)
      .add(rest);
  key.add(a).add(b).add(k);
  key.add(plan.accesses.size());
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
        if (plan.tiles())
          matmul_amx_generator(a, plan.shape, plan.accesses, e).emit();
        else if (plan.column_rows())
          column_rows_generator(a, plan.shape, plan.accesses, e).emit();
        else if (plan.column())
          column_generator(a, plan.shape, plan.accesses, e).emit();
        else if (!matmul_generator(a, plan.shape, plan.accesses, e).emit())
          return failure{code::unsupported, "sinter: jit: the chain is too long"};
        auto const bytes = a.finish();
        if (!bytes) return bytes.error();
        return code_memory::process().publish(*bytes, profile_name(plan.shape.level, p));
      });
}

inline result<std::shared_ptr<machine_code const>> generate_packing(pack_shape const& s) {
  auto const& [level, form, element_bytes, k, full, tail, zero_steps] = s;
  kernel_key key('p');
  key.add(level).add(form).add(element_bytes).add(k).add(full).add(tail).add(zero_steps);
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
inline result<std::shared_ptr<matmul_code const>> build_matmul(problem const& p, isa level,
                                                               std::string note = {}) {
  epilogue const e(p.chain, p.chain.anchor());
  auto built = std::shared_ptr<matmul_code>(new matmul_code());
  built->wanted = p;
  built->note = std::move(note);
  built->plan = plan_matmul(p, e, level);
  built->amx_at = amx_memory_at(e, level);
  built->frame_bytes = built->amx_at + (built->plan.tiles() ? sizeof(amx_memory) : 0);
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
    if (p.chain.pooling() >= 0) return jit::supports_pooled(p, **level);
    if (anchor < 0) return jit::supports_rows(p, **level);
    op const code = p.chain.steps[anchor].code;
    if (code == op::conv2d && jit::has_reductions(p.chain))
      return jit::supports_conv_rows(p, **level);
    if (code == op::conv2d)
      return jit::is_depthwise(p) ? jit::supports_depthwise(p, **level)
                                  : jit::supports_conv(p, **level);
    if (code != op::matmul)
      return jit::detail::refuse(std::string(name_of(code)) + " is not generated");
    if (jit::has_reductions(p.chain)) return jit::supports_matmul_rows(p, **level);
    return jit::supports_matmul(p, **level);
  }

  result<std::shared_ptr<kernel const>> build(problem const& p) const override {
    if (verdict const v = supports(p); !v) return failure{v.what, v.reason};
    isa const level = **jit::level_for(p);
    if (p.chain.pooling() >= 0) return jit::build_pooled(p, level);
    if (p.chain.anchor() < 0) return jit::build_rows(p, level);
    return build_product(p, level, jit::level_of_product(p, level));
  }

  /// With vectors where build() takes tiles, and the other way round.
  std::shared_ptr<kernel const> build_other(problem const& p) const override {
    if (p.chain.anchor() < 0 || p.chain.pooling() >= 0 || !supports(p) || jit::is_depthwise_conv(p))
      return nullptr;
    isa const level = **jit::level_for(p);
    auto const other = jit::other_level_of_product(p, level);
    if (!other) return nullptr;
    auto made = build_product(p, level, *other);
    return made ? std::move(*made) : nullptr;
  }

 private:
  static result<std::shared_ptr<kernel const>> build_product(problem const& p, isa level,
                                                             jit::product_level const& chosen) {
    bool const conv = p.chain.steps[p.chain.anchor()].code == op::conv2d;
    auto const product = [&](problem const& part) -> result<std::shared_ptr<kernel const>> {
      if (conv && jit::is_depthwise(part)) return jit::build_depthwise(part, level);
      if (conv) return jit::build_conv(part, chosen.level, chosen.why);
      auto code = jit::build_matmul(part, chosen.level, chosen.why);
      if (!code) return code.error();
      return std::shared_ptr<kernel const>(new jit::matmul_kernel(std::move(*code)));
    };
    if (!jit::has_reductions(p.chain)) return product(p);
    if (conv) return jit::build_conv_rows(p, level, product);
    return jit::build_matmul_rows(p, level, chosen.level, product);
  }
};

}  // namespace sinter::inline SINTER_ABI
