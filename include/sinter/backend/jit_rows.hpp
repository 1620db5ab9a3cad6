// The JIT backend's rows: chains without a contraction, reductions of rows among them.
//
// A call is cut between rows, a long row between blocks of columns. Short rows are computed side by
// side where they lie as they did when the kernel was built. The code: jit/rows.hpp; how the chain is
// cut into passes: jit/rows_plan.hpp; what is refused: backend/jit_rows_plan.hpp.
#pragma once

#include <algorithm>
#include <memory>
#include <new>
#include <string>
#include <utility>

#include "../jit/kernel_key.hpp"
#include "../jit/process_cache.hpp"
#include "../plan/text.hpp"
#include "jit_rows_plan.hpp"

namespace sinter::inline SINTER_ABI::jit {

class rows_invocation final : public invocation {
 public:
  static result<std::unique_ptr<invocation>> make(std::shared_ptr<rows_code const> built) {
    buffer memory(rows_frame_bytes(built->plan));
    if (memory.failed())
      return failure{code::out_of_memory, "sinter: jit: no memory for the frame of a call"};
    return std::unique_ptr<invocation>(new rows_invocation(std::move(built), std::move(memory)));
  }

  void repoint(call_args const& args) noexcept override {
    args_ = args;
    problem const& p = args.shapes != nullptr ? *args.shapes : built_->wanted;
    geometry_ = geometry_of(*built_, p);
    row_elements_ = detail::columns_in(p.domain);
    if (p.domain.size() == 4) {
      image_height_ = p.domain[1];
      image_width_ = p.domain[2];
    }
    parts_ = 1;
    for (int i = 0; i < built_->accesses.ssize(); ++i)
      frame_.accesses[i].row_stride = geometry_.rows.accesses[i].row;
    for (int k = 0; k < built_->plan.kept; ++k)
      frame_.kept[k] =
          static_cast<std::byte*>(args.scratch) + static_cast<std::size_t>(k) * built_->kept_bytes;
    set_columns(geometry_.columns);
    together_ = lies_as_built() ? built_->shape.together : 1;
    set_whole();
  }

  /// Rows of all batches together, or blocks of columns of the one row.
  int cut(int wanted) noexcept override {
    double const elements = static_cast<double>(units()) * static_cast<double>(geometry_.columns);
    int const worthwhile = worthwhile_parts(elements * cost(), wanted);
    extent const pieces = geometry_.folded ? (geometry_.columns + piece - 1) / piece : units();
    parts_ = static_cast<int>(std::clamp(pieces, extent{1}, extent{worthwhile}));
    return parts_;
  }
  sinter::code run_part(int part) noexcept override {
    if (geometry_.rows.empty()) return sinter::code::ok;
    if (geometry_.folded)
      run_piece(part);
    else
      run_units(units() * part / parts_, units() * (part + 1) / parts_);
    set_whole();
    return sinter::code::ok;
  }
  sinter::code run_rows(call_args const& at, extent image, row_range rows) noexcept override {
    if (geometry_.rows.empty()) return sinter::code::ok;
    args_ = at;
    extent const line = image_width_ * (geometry_.folded ? row_elements_ : 1);
    extent const first = (image * image_height_ + rows.first) * line;
    extent const last = (image * image_height_ + rows.last) * line;
    if (geometry_.folded)
      run_columns(first, last);
    else
      run_units(first, last);
    return sinter::code::ok;
  }

 private:
  /// Columns that a cut row falls into: whole blocks of vectors on every level.
  static constexpr extent piece = 1024;

  rows_invocation(std::shared_ptr<rows_code const> built, buffer memory)
      : invocation(&run_all),
        built_(std::move(built)),
        memory_(std::move(memory)),
        frame_(*new (memory_.data()) rows_frame),
        entry_(built_->code->entry<rows_entry>()) {}

  static sinter::code run_all(invocation& self) noexcept {
    auto& me = static_cast<rows_invocation&>(self);
    if (me.single_)
      me.entry_(&me.frame_);
    else
      me.run_units(0, me.units());
    return sinter::code::ok;
  }

  /// Rows are as far apart as the code has it that computes them side by side.
  bool lies_as_built() const noexcept {
    rows_shape const& s = built_->shape;
    bool same = true;
    for (int i = 0; i < s.strides.ssize(); ++i)
      same = same && (!built_->accesses[i].moves || geometry_.rows.accesses[i].row == s.strides[i]);
    return same;
  }
  extent units() const noexcept {
    extent n = geometry_.rows.rows;
    for (int j = 0; j < geometry_.rows.batch_axes; ++j) n *= geometry_.rows.batch[j];
    return n;
  }
  /// Of an element, in multiply-adds: an emitter's temporaries tell how long it is.
  double cost() const noexcept {
    int sum = 4 * built_->accesses.ssize();
    for (step const& s : built_->wanted.chain.steps)
      sum += is_reduction(s.code) ? 4 : 2 + 6 * temporaries_of(s.code, built_->shape.level);
    return sum;
  }

  void set_columns(extent columns) noexcept {
    extent const lanes = lanes_of(built_->shape.level), unroll = built_->shape.unroll;
    frame_.blocks = columns / (lanes * unroll);
    frame_.singles = columns / lanes - frame_.blocks * unroll;
    frame_.tail_mask = (std::uint64_t{1} << (columns % lanes)) - 1;
    frame_.columns = static_cast<float>(columns);
  }
  /// The frame of a call that needs no loop around it.
  void set_whole() noexcept {
    single_ = geometry_.rows.batch_axes == 0 && geometry_.rows.rows > 0;
    if (single_) set_rows(0, geometry_.rows.rows);
  }
  /// Rows of one batch index, from a row counted over all batches on.
  void set_rows(extent first, extent count) noexcept {
    matmul_geometry const& g = geometry_.rows;
    frame_.groups = together_ > 1 ? count / together_ : 0;
    frame_.rows = count - frame_.groups * together_;
    for (int i = 0; i < built_->accesses.ssize(); ++i) {
      extent offset = first % g.rows * g.accesses[i].row;
      extent rest = first / g.rows;
      for (int j = 0; j < g.batch_axes; ++j) {
        offset += rest % g.batch[j] * g.accesses[i].batch[j];
        rest /= g.batch[j];
      }
      set_origin(i, offset);
    }
  }
  void set_origin(int i, extent offset) noexcept {
    epilogue_access const& a = built_->accesses[i];
    void const* const base = a.output ? args_.outputs[a.index] : args_.operands[a.index];
    frame_.accesses[i].origin =
        base == nullptr ? base : static_cast<std::byte const*>(base) + offset;
  }

  void run_units(extent first, extent end) noexcept {
    while (first < end) {
      extent const count =
          (std::min)(end - first, geometry_.rows.rows - first % geometry_.rows.rows);
      set_rows(first, count);
      entry_(&frame_);
      first += count;
    }
  }
  void run_piece(int part) noexcept {
    extent const pieces = (geometry_.columns + piece - 1) / piece;
    run_columns(pieces * part / parts_ * piece,
                (std::min)(pieces * (part + 1) / parts_ * piece, geometry_.columns));
  }
  /// Of the one row that all are.
  void run_columns(extent first, extent end) noexcept {
    for (int i = 0; i < built_->accesses.ssize(); ++i) {
      epilogue_access const& a = built_->accesses[i];
      set_origin(i, a.across == columns::unit ? first * size_of(a.type) : 0);
    }
    set_columns(end - first);
    entry_(&frame_);
    set_columns(geometry_.columns);
  }

  std::shared_ptr<rows_code const> built_;
  buffer memory_;
  rows_frame& frame_;
  rows_entry entry_;
  call_args args_;
  rows_geometry geometry_;
  extent image_height_ = 1, image_width_ = 1, row_elements_ = 1;  ///< for run_rows()
  int parts_ = 1, together_ = 1;
  bool single_ = false;
};

class rows_kernel final : public kernel {
 public:
  explicit rows_kernel(std::shared_ptr<rows_code const> built) : built_(std::move(built)) {}

  std::string_view backend() const noexcept override { return "jit"; }
  std::size_t scratch_bytes() const noexcept override { return built_->scratch_bytes(); }
  std::vector<stage_note> stages() const override {
    int passes = 0;
    for (row_level const& l : built_->plan.levels) passes += l.pass.chain.steps.empty() ? 0 : 1;
    return {{std::string(text(built_->wanted.chain).view()),
             "jit:" + std::string(name_of(built_->shape.level)) +
                 ":rows:" + std::to_string(passes) + (passes == 1 ? " pass" : " passes"),
             {}}};
  }
  std::string layout_key(int) const override { return {}; }
  result<packed_weight> pack(int operand, tensor_view const&) const override {
    return detail::no_weight(built_->wanted.chain, operand);
  }
  result<std::shared_ptr<kernel const>> by_rows(array_view<row_range const>) const override {
    shape const& d = built_->wanted.domain;
    if (d.size() != 4 ||
        (!has_masks(built_->shape.level) && d[2] * d[3] % lanes_of(built_->shape.level) != 0))
      return failure{code::unsupported, "sinter: jit: rows of an image are no whole vectors"};
    return std::shared_ptr<kernel const>(new rows_kernel(built_));
  }
  result<std::unique_ptr<invocation>> make_invocation() const override {
    return rows_invocation::make(built_);
  }

 private:
  std::shared_ptr<rows_code const> built_;
};

namespace detail {

inline void add_stage(kernel_key& key, row_stage const& s) {
  key.add(s.chain);
  for (auto const& [home, index] : s.reads) key.add(home).add(index);
  for (auto const& [home, index] : s.writes) key.add(home).add(index);
  key.add(s.reductions.size());
  for (auto const& [step, scalar, rounded] : s.reductions) key.add(step).add(scalar).add(rounded);
}

inline kernel_key key_of(rows_code const& built) {
  kernel_key key('r');
  rows_shape const& shape = built.shape;
  key.add(shape.level).add(shape.unroll).add(shape.tail_lanes).add(shape.together);
  if (shape.together > 1) {
    key.add(shape.vectors).add(shape.tail).add(shape.kept_bytes).add(shape.strides.size());
    for (std::int32_t stride : shape.strides) key.add(stride);
  }
  key.add(built.accesses.size());
  for (auto const& [output, index, type, across, moves] : built.accesses)
    key.add(output).add(index).add(type).add(across).add(moves);
  key.add(built.plan.levels.size());
  for (row_level const& l : built.plan.levels) {
    key.add(l.scalars.size());
    for (row_stage const& s : l.scalars) add_stage(key, s);
    add_stage(key, l.pass);
  }
  key.add(built.plan.scalar_outputs.size());
  for (auto const& [output, scalar] : built.plan.scalar_outputs) key.add(output).add(scalar);
  return key;
}

inline result<std::shared_ptr<machine_code const>> generate_rows(rows_code const& built) {
  using generated = result<std::shared_ptr<machine_code const>>;
  return process_cache().get(key_of(built).text(), [&]() -> generated {
    assembler a(built.shape.level);
    rows_generator(a, built.shape, built.plan, built.accesses).emit();
    auto const bytes = a.finish();
    if (!bytes) return bytes.error();
    return code_memory::process().publish(*bytes, profile_name(built.shape.level, built.wanted));
  });
}

inline void add_row_accesses(rows_code& built, extent columns) {
  problem const& p = built.wanted;
  auto const add = [&](bool output, int i, tensor_desc const& d) {
    bool moves = false;
    for (int j = 0; j + 1 < d.dims.ssize(); ++j) moves = moves || d.dims[j] != 1;
    built.accesses.push_back({output, i, d.type, columns_of(d, columns), moves});
  };
  for (int i = 0; i < p.chain.outputs.ssize(); ++i) add(true, i, p.outputs[at(i)]);
  for (int i = 0; i < p.chain.operands.ssize(); ++i) add(false, i, p.operands[at(i)]);
}

/// The tail that the code ends rows with: any from AVX-512 on, else that of all rows as one, where
/// they are, or of each.
inline int tail_of(rows_code& built, extent columns) {
  if (has_masks(built.shape.level)) return 1;
  int const lanes = lanes_of(built.shape.level), tail = static_cast<int>(columns % lanes);
  if (is_dynamic(built.wanted)) return tail;
  extent const all = element_count(built.wanted.domain);
  built.shape.tail_lanes = static_cast<int>(all % lanes);
  return geometry_of(built, built.wanted).folded ? built.shape.tail_lanes : tail;
}

/// Rows side by side, at most: short ones wait for their reductions more than they compute, long
/// ones would fill the first cache.
inline int most_rows_for(extent row_bytes) {
  return row_bytes <= 2048 ? 4 : row_bytes <= 16384 ? 2 : 1;
}

/// Decides how many rows are computed side by side. What is unknown now, or differs in a call,
/// leaves them one by one.
inline void set_together(rows_code& built, extent n) {
  problem const& p = built.wanted;
  rows_shape& s = built.shape;
  if (!built.plan.reduces() || n == dynamic || p.domain.ssize() < 2) return;
  rows_geometry g;
  if (!is_dynamic(p)) {
    g = geometry_of(built, p);
    if (g.rows.rows < 2) return;
  }
  constexpr extent limit = extent{1} << 26;
  extent row_bytes = 0;
  for (int i = 0; i < built.accesses.ssize(); ++i) {
    tensor_desc const& d = desc_of(p, built.accesses[i]);
    if (d.strides.size() != d.dims.size()) return;
    extent stride = g.rows.accesses[i].row;
    if (is_dynamic(p)) {
      extent const elements = stride_from_end(d, 2);
      if (elements == dynamic) return;
      stride = elements * size_of(d.type);
    }
    if (stride < -limit || stride > limit) return;
    s.strides.push_back(static_cast<std::int32_t>(stride));
    if (built.accesses[i].moves && built.accesses[i].across == columns::unit)
      row_bytes = (std::max)(row_bytes, n * size_of(d.type));
  }
  s.vectors = static_cast<int>((std::min)(n / lanes_of(s.level), limit));
  s.tail = n % lanes_of(s.level) != 0;
  for (int rows = most_rows_for(row_bytes); rows > 1; rows /= 2)
    if (s.together == 1 && fit_together(built.plan, s.level, rows)) s.together = rows;
}

}  // namespace detail

/// Only where supports_rows() says yes. Blocks of one vector where the chain is too long for more.
inline result<std::shared_ptr<rows_code const>> build_rows_code(problem const& p, isa level) {
  auto built = std::shared_ptr<rows_code>(new rows_code());
  built->wanted = p;
  result<rows_plan> plan = detail::plan_rows(p);
  if (!plan) return plan.error();
  built->plan = std::move(*plan);
  extent const columns = detail::columns_in(p.domain);
  detail::add_row_accesses(*built, columns);
  built->shape.level = level;
  built->shape.tail_lanes = detail::tail_of(*built, columns);
  detail::set_together(*built, columns);
  if (built->plan.kept > 0) {
    std::size_t const row = round_up(static_cast<std::size_t>(columns) * 4, buffer_alignment);
    built->shape.kept_bytes = static_cast<std::int32_t>((std::min)(row, std::size_t{1} << 30));
    built->kept_bytes = row * static_cast<std::size_t>(built->shape.together);
  }
  auto code = detail::generate_rows(*built);
  if (!code && code.error().what == code::unsupported) {
    built->shape.unroll = built->shape.together = 1;
    code = detail::generate_rows(*built);
  }
  if (!code) return code.error();
  built->code = std::move(*code);
  return std::shared_ptr<rows_code const>(std::move(built));
}

inline result<std::shared_ptr<kernel const>> build_rows(problem const& p, isa level) {
  auto built = build_rows_code(p, level);
  if (!built) return built.error();
  return std::shared_ptr<kernel const>(new rows_kernel(std::move(*built)));
}

}  // namespace sinter::inline SINTER_ABI::jit
