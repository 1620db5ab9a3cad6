// The blocks of a matmul with reductions behind it, and the problems of both halves of one.
//
// A block is rows of one matrix. Both halves are problems of rank 2 and one block long, for the
// kernels that exist: backend/jit_matmul.hpp and backend/jit_rows.hpp. Values only; how the chain is
// cut is backend/jit_rows_cut.hpp's business, who runs the halves backend/jit_matmul_rows.hpp's.
#pragma once

#include <algorithm>
#include <string>
#include <utility>

#include "jit_rows.hpp"
#include "jit_rows_cut.hpp"

namespace sinter::inline SINTER_ABI::jit {

/// Problems of rows x columns.
struct matmul_rows_cut : rows_cut {
  // What finds the blocks of a call: operands and outputs of the whole chain but those of the
  // product itself.
  matmul_plan layout;
};

namespace detail {

/// Bytes of live values that a block has at most, beside what the product reads meanwhile.
inline constexpr extent live_block_bytes = extent{256} << 10;
inline constexpr extent most_block_rows = 64;

/// Element (row, column) of an operand or output within a block of `rows` rows.
inline tensor_desc block_desc(tensor_desc const& d, extent row_bytes, extent rows) {
  tensor_desc b;
  b.type = d.type;
  bool moves = false;
  for (int j = 0; j + 1 < d.dims.ssize(); ++j) moves = moves || d.dims[j] != 1;
  b.dims = {moves ? rows : 1, d.dims.empty() ? 1 : d.dims.back()};
  b.strides = {row_bytes / size_of(d.type), d.strides.empty() ? 1 : d.strides.back()};
  return b;
}

/// The problems of one block, in a call (or a build) whose geometry is g. Rows may be dynamic.
inline void set_block(matmul_rows_cut& cut, problem const& p, matmul_geometry const& g,
                      extent rows) {
  extent const n = p.domain.back();
  shape const domain{rows, n};
  auto const by_index = [&](bool output, int index) -> tensor_desc {
    for (int i = 0; i < cut.layout.accesses.ssize(); ++i)
      if (epilogue_access const& a = cut.layout.accesses[i]; a.output == output && a.index == index)
        return block_desc(desc_of(p, a), g.accesses[i].row, rows);
    return {};
  };
  set_halves(cut, domain, {cut.live_stride, 1}, by_index);

  tensor_desc& src = cut.product.operands[at(cut.layout.src)];
  tensor_desc const& whole = p.operands[at(cut.layout.src)];
  extent const row = g.a_row / size_of(whole.type);
  src = {whole.type, {rows, cut.layout.k}, {row, g.a_column}};
  if (cut.layout.transposed_src) src = {whole.type, {cut.layout.k, rows}, {g.a_column, row}};
  dtype const type = p.operands[at(cut.layout.weight)].type;
  tensor_desc& weight = cut.product.operands[at(cut.layout.weight)];
  shape const dims = cut.layout.transposed_weight ? shape{n, cut.layout.k} : shape{cut.layout.k, n};
  weight = dense_desc(type, dims);
  if (!cut.layout.packed_weight)
    weight.strides =
        cut.layout.transposed_weight ? strides{g.b_column, g.b_row} : strides{g.b_row, g.b_column};
}

/// Where nothing is known of rows: as the code needs it.
inline matmul_geometry unknown_rows(matmul_rows_cut const& cut, problem const& p) {
  matmul_geometry g;
  tensor_desc const& weight = p.operands[at(cut.layout.weight)];
  g.a_column = cut.layout.transposed_src ? 0 : 1;
  g.b_row = stride_from_end(weight, cut.layout.transposed_weight ? 1 : 2);
  g.b_column = stride_from_end(weight, cut.layout.transposed_weight ? 2 : 1);
  return g;
}

inline void set_layout(matmul_rows_cut& cut, problem const& p, isa level) {
  matmul_plan& l = cut.layout;
  l = begin_plan(p, level);
  auto const add = [&](bool output, int i, tensor_desc const& d) {
    l.accesses.push_back({output, i, d.type, columns_of(d, l.n), true});
  };
  for (int i = 0; i < p.chain.outputs.ssize(); ++i) add(true, i, p.outputs[at(i)]);
  for (int i = 0; i < p.chain.operands.ssize(); ++i)
    if (is_read_by_element(p.chain, i)) add(false, i, p.operands[at(i)]);
  extent const tile = l.tile_rows();
  extent const row_bytes = (std::max)(extent{4}, cut.live * cut.live_stride * 4);
  cut.block_rows = std::clamp(live_block_bytes / row_bytes, tile, most_block_rows) / tile * tile;
}

/// The cut of a problem for a build: its halves are those that kernels are built for.
inline result<matmul_rows_cut> cut_matmul_rows(problem const& p, isa level) {
  matmul_rows_cut cut;
  if (status st = cut_at_reductions(p, cut); !st.ok()) return st.error();
  set_layout(cut, p, level);
  if (is_dynamic(p)) {
    set_block(cut, p, unknown_rows(cut, p), dynamic);
  } else {
    matmul_geometry const g = geometry_of(cut.layout, p);
    set_block(cut, p, g, g.rows <= cut.block_rows ? g.rows : dynamic);
  }
  return cut;
}

}  // namespace detail
}  // namespace sinter::inline SINTER_ABI::jit
