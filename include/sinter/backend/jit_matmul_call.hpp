// One thread's calls of a built matmul: the frame that generated code reads, and the loops around
// the code.
//
// run() is one indirect call of generated code where the problem is one block of one matrix; else it
// walks matrices and blocks of rows, with copies of an operand whose elements do not lie as the code
// reads them. A part is the same walk over some of the tiles and panels (backend/
// jit_matmul_parts.hpp). The kernel that makes invocations is in backend/jit.hpp.
#pragma once

#include <memory>
#include <new>
#include <string>
#include <utility>

#include "../jit/code_memory.hpp"
#include "backend.hpp"
#include "jit_matmul_parts.hpp"

namespace sinter::inline SINTER_ABI::jit {

/// The immutable side of a built matmul.
struct matmul_code {
  problem wanted;
  matmul_plan plan;
  std::shared_ptr<machine_code const> code;
  std::shared_ptr<machine_code const> packing;  ///< where the plan has a pack_shape
  std::size_t frame_bytes = 0;
  std::size_t amx_at = 0;  ///< amx_memory in the frame
  std::string note;        ///< why these instructions, where there was a choice
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
    tiles_ = row_tiles(geometry_.rows, plan.block_rows, plan.tile_rows());
    grid_ = uncut(plan, geometry_, tiles_);
    src_type_ = p.operands[detail::at(plan.src)].type;
    weight_type_ = p.operands[detail::at(plan.weight)].type;
    set_frame();
  }

  int cut(int wanted) noexcept override {
    if (empty_) return 1;
    grid_ = cut_matmul(built_->plan, geometry_, tiles_, wanted);
    single_ = single_ && grid_.parts() == 1;  // parts move what the frame says
    return grid_.parts();
  }
  sinter::code run_part(int part) noexcept override {
    if (grid_.parts() == 1) return run();
    compute(grid_.at(part));
    return sinter::code::ok;
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
    frame_.tail_panel = 1;
    frame_.full_panel_bytes = panels.panel_bytes(tile_vectors);
    if (plan.shape.direct_panel) {
      frame_.ldb = geometry_.b_row * size_of(weight_type_);
      frame_.full_panel_bytes = panels.width() * size_of(weight_type_);
    }
    frame_.lda = plan.shape.direct ? geometry_.a_row : copied_row_bytes(plan.shape.kind, plan.k);
    if (plan.column_rows()) frame_.lda = geometry_.a_column * size_of(src_type_);
    frame_.a = args_.operands[plan.src];
    frame_.b = args_.operands[plan.weight];
    for (int i = 0; i < plan.accesses.ssize(); ++i) {
      frame_.accesses[i].origin = pointer_of(plan.accesses[i]);
      frame_.accesses[i].row_stride = geometry_.accesses[i].row;
    }
    frame_.rows_at_once = rows_are_side_by_side() ? lanes_of(plan.shape.level) : 1;
    extent const rows = (std::min)(geometry_.rows, plan.block_rows);
    set_rows(split_rows(rows, plan.tile_rows()), rows);
    empty_ = geometry_.empty() || plan.n == 0;
    single_ = !empty_ && geometry_.batch_axes == 0 && geometry_.rows <= plan.block_rows &&
              plan.scratch_bytes() == 0;
  }

  /// One column: a vector of the epilogue may be one of each operand and output.
  bool rows_are_side_by_side() const noexcept {
    matmul_plan const& plan = built_->plan;
    for (int i = 0; i < plan.accesses.ssize(); ++i)
      if (plan.accesses[i].moves && geometry_.accesses[i].row != size_of(plan.accesses[i].type))
        return false;
    return true;
  }
  void set_rows(row_split const& split, extent rows) noexcept {
    frame_.rows = rows;
    frame_.blocks = split.blocks;
    frame_.low_blocks = split.low_blocks;
    frame_.high = split.high;
  }
  void const* pointer_of(epilogue_access const& a) const noexcept {
    return a.output ? args_.outputs[a.index] : args_.operands[a.index];
  }

  static sinter::code run_all(invocation& self) noexcept {
    auto& me = static_cast<matmul_invocation&>(self);
    if (me.single_ && !me.built_->plan.tiles())
      me.entry_(&me.frame_);
    else if (!me.empty_)
      me.compute(me.grid_.all());
    return sinter::code::ok;
  }
  void compute(matmul_grid::part const& p) noexcept {
    if (!built_->plan.tiles()) return walk(p);
    tile_scope const tiles(*reinterpret_cast<amx_memory*>(memory_.data() + built_->amx_at));
    single_ ? entry_(&frame_) : walk(p);
  }
  void walk(matmul_grid::part const& p) noexcept {
    extent const per_matrix = units_of_matrix(built_->plan, tiles_);
    extent index[max_batch_axes] = {};
    extent matrix = p.unit0 / per_matrix;
    for (int j = 0; j < geometry_.batch_axes; matrix /= geometry_.batch[j++])
      index[j] = matrix % geometry_.batch[j];
    packed_from_ = nullptr;
    set_panels(p);
    extent first = p.unit0 % per_matrix;
    for (extent left = p.unit1 - p.unit0; left > 0; next(index)) {
      extent const units = (std::min)(left, per_matrix - first);
      if (built_->plan.panel_scratch > 0)
        one_matrix(index, 0, tiles_.count());
      else
        one_matrix(index, first, first + units);
      left -= units;
      first = 0;
    }
  }
  void next(extent* index) const noexcept {
    for (int j = 0; j < geometry_.batch_axes; ++j) {
      if (++index[j] < geometry_.batch[j]) return;
      index[j] = 0;
    }
  }
  extent offset(extent const* strides, extent const* index) const noexcept {
    extent sum = 0;
    for (int j = 0; j < geometry_.batch_axes; ++j) sum += strides[j] * index[j];
    return sum;
  }

  void set_panels(matmul_grid::part const& p) noexcept {
    extent const full = built_->plan.panels().full_panels();
    frame_.full_panels = (std::min)(p.panel1, full) - (std::min)(p.panel0, full);
    frame_.tail_panel = p.panel1 > full ? 1 : 0;
    first_column_ = p.panel0 * built_->plan.panels().width();
    first_panel_bytes_ = p.panel0 * frame_.full_panel_bytes;
  }
  /// Tiles [first, last) of rows times the panels at hand.
  void one_matrix(extent const* index, extent first, extent last) noexcept {
    matmul_plan const& plan = built_->plan;
    frame_.b = moved(args_.operands[plan.weight], offset(geometry_.b_batch, index));
    if (plan.panel_scratch > 0)
      pack_here();
    else
      frame_.b = moved(frame_.b, first_panel_bytes_);
    while (first < last) {
      row_tiles::span const at = tiles_.at(first, last);
      first = at.last;
      set_rows(at.split, at.rows);
      for (int i = 0; i < plan.accesses.ssize(); ++i)
        frame_.accesses[i].origin = moved(pointer_of(plan.accesses[i]),
                                          offset(geometry_.accesses[i].batch, index) +
                                              at.row * geometry_.accesses[i].row + column_bytes(i));
      frame_.a = moved(args_.operands[plan.src],
                       offset(geometry_.a_batch, index) + at.row * geometry_.a_row);
      if (!plan.shape.direct) copy_here(at.rows);
      entry_(&frame_);
    }
  }
  extent column_bytes(int access) const noexcept {
    epilogue_access const& a = built_->plan.accesses[access];
    return a.across == columns::unit ? first_column_ * size_of(a.type) : 0;
  }
  void pack_here() noexcept {
    if (frame_.b != packed_from_ || packed_from_ == nullptr) {
      packed_from_ = frame_.b;
      pack_weight(moved(frame_.b, first_column_ * geometry_.b_column * size_of(weight_type_)));
    }
    frame_.b = args_.scratch;
  }
  /// The panels at hand.
  void pack_weight(void const* from) noexcept {
    matmul_plan const& plan = built_->plan;
    if (plan.column())
      return copy_matrix(args_.scratch, weight_type_, {from, weight_type_, geometry_.b_row, 0},
                         plan.k, 1);
    if (!plan.pack) {
      panel_layout panels = plan.panels();
      panels.n = frame_.full_panels * panels.width() +
                 (frame_.tail_panel != 0 ? panels.tail_columns() : 0);
      return pack_panels(panels, args_.scratch,
                         {from, weight_type_, geometry_.b_row, geometry_.b_column});
    }
    extent const stride =
        plan.pack->form == pack_form::transposed ? geometry_.b_column : geometry_.b_row;
    pack_frame const f{from, stride * size_of(weight_type_), args_.scratch, frame_.full_panels,
                       frame_.tail_panel};
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
  row_tiles tiles_;
  matmul_grid grid_;
  // Of the part at hand.
  extent first_column_ = 0, first_panel_bytes_ = 0;
  void const* packed_from_ = nullptr;
  bool empty_ = true, single_ = false;
  dtype src_type_ = dtype::f32, weight_type_ = dtype::f32;
};

}  // namespace sinter::inline SINTER_ABI::jit
