// Evaluates a problem plainly: runs of at most 256 values along the last axis, every step in
// written order.
//
// Values are computed in an Arithmetic (reference/blocks.hpp) and rounded at the documented points
// only: a step that a contraction reads (to the src dtype), a step marked `rounded`, a cast, and
// the store. Any strides, broadcasts, transpositions, groups, dilations; several outputs; extents
// 0. A contraction is summed once for each value of a run; a chain's second contraction recomputes
// the runs of the first that it reads, and a pooling those of each window. Reductions are computed row by row, before the steps that
// read them: what leads to one is evaluated along its own row, and again for the steps after it,
// unless the row is a single run. Nothing is allocated: scratch does not depend on extents.
// Oracle and pass are made of this: reference/evaluate.hpp, reference/pass.hpp.
#pragma once

#include <array>

#include "../base/array_view.hpp"
#include "blocks.hpp"
#include "runs.hpp"

namespace sinter::inline SINTER_ABI {

template <class Arithmetic>
class evaluator {
 public:
  using number = typename Arithmetic::number;

  /// Numbers of scratch that any call with this chain needs.
  static constexpr std::size_t scratch_numbers(chain const& c) {
    return (1 + c.contractions.size() + c.poolings.size()) * (c.steps.size() + extra_runs) *
           std::size_t{run_length};
  }

  /// `operands` in the chain's order. The problem has no dynamic extents.
  evaluator(problem const& p, void const* const* operands, number* scratch,
            array_view<given_value const> given = {})
      : p_(p), c_(p.chain), operands_(operands), scratch_(scratch), given_(given) {
    for (int i = 0; i < c_.steps.ssize(); ++i) {
      step const& s = c_.steps[i];
      needs_[detail::at(i)] = std::uint64_t{1} << i;
      if (find_given(i) != nullptr) continue;
      if (is_reduction(s.code)) {
        rows_[detail::at(i)] = needs_[detail::at(i)];
        row_dims_[detail::at(i)] = value_dims(p, s.args[0]);
      }
      if (s.contraction >= 0) {
        contracted& d = contracted_[detail::at(s.contraction)];
        d = {value_dims(p, step_ref(i)), value_dims(p, s.args[0]), value_dims(p, s.args[1])};
      } else if (s.pooling >= 0) {
        pooled_dims_[detail::at(s.pooling)] = value_dims(p, s.args[0]);
      } else {
        for (value_ref v : s.args) {
          if (v.kind != value_kind::step) continue;
          rows_[detail::at(i)] |= rows_[detail::at(v.index)];
          if (!is_reduction(s.code)) needs_[detail::at(i)] |= needs_[detail::at(v.index)];
        }
      }
    }
  }

  /// run() computes the rows of one part alone, of `count` parts of about as many rows each.
  void keep_to_part(int index, int count) {
    part_ = index;
    parts_ = count;
  }

  /// sink(output index, run, numbers) for each run of each output of `outputs` (a bit each).
  /// Outputs of equal extents together, those of output 0 last: it may share memory with an
  /// operand.
  template <class Sink>
  void run(unsigned outputs, Sink&& sink) {
    for (int first = c_.outputs.ssize() - 1; first >= 0; --first) {
      shape const& dims = p_.outputs[detail::at(first)].dims;
      unsigned group = 0;
      bool earlier = false;
      for (int o = 0; o < c_.outputs.ssize(); ++o) {
        if (!(p_.outputs[detail::at(o)].dims == dims)) continue;
        if (o < first) earlier = true;
        group |= 1U << o;
      }
      if (!earlier && (group & outputs) != 0) run_group(dims, group & outputs, sink);
    }
  }

 private:
  static constexpr std::size_t extra_runs =
      5;  // three arguments, a run of each side of a contraction

  struct contracted {
    shape dims, src, weight;
  };
  /// What one level knows of the row that it is at.
  struct row_level {
    std::array<number, max_steps> reduced{};
    std::uint64_t kept = 0;  ///< steps whose blocks hold the whole row
    int kept_count = 0;      ///< and of how many values
  };

  template <class Sink>
  void run_group(shape const& dims, unsigned group, Sink&& sink) {
    if (element_count(dims) == 0) return;
    std::uint64_t needed = 0, rows = 0;
    for (int o = 0; o < c_.outputs.ssize(); ++o) {
      if ((group >> o & 1U) == 0) continue;
      needed |= needs_[detail::at(c_.outputs[o].value.index)];
      rows |= rows_[detail::at(c_.outputs[o].value.index)];
    }
    value_run r{dims, dims, dims.ssize() - 1, 1};
    for (extent left = go_to_part(r); left > 0; --left, next_row(r)) {
      reduce_rows(rows, r, 0);
      for_each_run(r, [&] {
        evaluate_kept(needed, r, 0);
        for (int o = 0; o < c_.outputs.ssize(); ++o)
          if ((group >> o & 1U) != 0) sink(o, r, block(0, c_.outputs[o].value.index));
      });
    }
  }
  /// Makes r the first row of the part, and gives the number of its rows.
  extent go_to_part(value_run& r) const {
    extent rows = 1;
    for (int i = 0; i + 1 < r.dims.ssize(); ++i) rows *= r.dims[i];
    extent const first = rows * part_ / parts_;
    extent rest = first;
    for (extent& e : r.at) e = 0;
    for (int i = r.dims.ssize() - 2; i >= 0; rest /= r.dims[i--]) r.at[i] = rest % r.dims[i];
    return rows * (part_ + 1) / parts_ - first;
  }
  /// The runs of the row that r lies in.
  template <class F>
  static void for_each_run(value_run& r, F&& f) {
    extent const length = r.axis < 0 ? 1 : r.dims.back();
    for (extent start = 0; start < length; start += run_length) {
      if (r.axis >= 0) r.at.back() = start;
      r.count = static_cast<int>(length - start < run_length ? length - start : run_length);
      f();
    }
  }
  /// The next index of all axes but the last.
  static void next_row(value_run& r) {
    for (int i = r.dims.ssize() - 2; i >= 0; --i) {
      if (++r.at[i] < r.dims[i]) return;
      r.at[i] = 0;
    }
  }

  given_value const* find_given(int i) const {
    for (given_value const& g : given_)
      if (g.step == i) return &g;
    return nullptr;
  }

  number* block(int level, int i) {
    std::size_t const per_level = (c_.steps.size() + extra_runs) * std::size_t{run_length};
    return scratch_ + static_cast<std::size_t>(level) * per_level +
           detail::at(i) * std::size_t{run_length};
  }
  number* extra(int level, int i) { return block(level, c_.steps.ssize() + i); }

  /// Computes the reductions of `rows`, a bit each, for the row that r lies in. Begins that row:
  /// evaluate_kept() may go on from here.
  void reduce_rows(std::uint64_t rows, value_run const& r, int level) {
    row_level& state = levels_[detail::at(level)];
    state.kept = 0;
    for (int i = 0; i < c_.steps.ssize() && rows >> i != 0; ++i) {
      if ((rows >> i & 1U) == 0) continue;
      step const& s = c_.steps[i];
      value_ref const v = s.args[0];
      value_run along = row_run(row_dims_[detail::at(i)], r);
      typename Arithmetic::row row{};
      for_each_run(along, [&] {
        if (v.kind == value_kind::step) evaluate_kept(needs_[detail::at(v.index)], along, level);
        Arithmetic::take(s.code, row, argument(v, along, extra(level, 0), level), along.count);
      });
      state.reduced[detail::at(i)] = Arithmetic::reduced(s.code, row);
    }
  }
  /// The row of a value of extents `dims` that belongs to a place in r, which it broadcasts to but
  /// for the last axis.
  static value_run row_run(shape const& dims, value_run const& r) {
    value_run along{dims, dims, dims.ssize() - 1, 1};
    int const skipped = r.dims.ssize() - dims.ssize();
    for (int i = 0; i < dims.ssize() - 1; ++i) along.at[i] = dims[i] == 1 ? 0 : r.at[i + skipped];
    along.at.back() = 0;
    return along;
  }
  /// evaluate(), but for what the blocks still hold of this row, where a row is a single run.
  void evaluate_kept(std::uint64_t needed, value_run const& r, int level) {
    row_level& state = levels_[detail::at(level)];
    bool const whole = r.axis < 0 || r.count == r.dims.back();
    if (!whole || state.kept_count != r.count) state.kept = 0;
    evaluate(needed & ~state.kept, r, level);
    state.kept = whole ? state.kept | needed : 0;
    state.kept_count = r.count;
  }

  /// Computes the needed steps over the run into the blocks of this level.
  void evaluate(std::uint64_t needed, value_run const& r, int level) {
    for (int i = 0; i < c_.steps.ssize(); ++i) {
      if ((needed >> i & 1U) == 0) continue;
      step const& s = c_.steps[i];
      number* const out = block(level, i);
      if (given_value const* g = find_given(i)) {
        load(out, g->desc, g->data, r);
        continue;
      }
      if (s.contraction >= 0) {
        contract(s, r, out, level);
      } else if (s.pooling >= 0) {
        pool(s, r, out, level);
      } else if (is_reduction(s.code)) {
        for (int j = 0; j < r.count; ++j)
          out[j] = levels_[detail::at(level)].reduced[detail::at(i)];
      } else {
        number const* args[3] = {};
        for (int a = 0; a < row_of(s.code).arity; ++a)
          args[a] = argument(s.args[a], r, extra(level, a), level);
        if (s.code == op::cast) {
          for (int j = 0; j < r.count; ++j) out[j] = args[0][j];
          Arithmetic::round(out, s.to, r.count);
        } else {
          Arithmetic::apply(s, out, args, r.count);
        }
      }
      if (s.rounded) Arithmetic::round(out, c_.precision.src, r.count);
    }
  }
  static void load(number* out, tensor_desc const& d, void const* data, value_run const& r) {
    run_place const place = place_of(r, d.dims, d.strides);
    Arithmetic::load(out, data, d.type, place.offset, place.stride, r.count);
  }
  /// The values of v over the run: a block that is already computed at this level, or `room`.
  number const* argument(value_ref v, value_run const& r, number* room, int level) {
    if (v.kind == value_kind::step) return block(level, v.index);
    if (v.kind == value_kind::constant) {
      Arithmetic::fill(room, c_.constants[int{v.index}], r.count);
    } else {
      load(room, p_.operands[detail::at(v.index)], operands_[v.index], r);
    }
    return room;
  }
  /// What a contraction reads: an operand as it is in memory, a step rounded to the src dtype.
  number const* contracted_argument(value_ref v, value_run const& r, number* room, int level) {
    number const* const values = argument_elsewhere(v, r, room, level);
    if (v.kind == value_kind::step) Arithmetic::round(room, c_.precision.src, r.count);
    return values;
  }
  /// The values of v over a run other than this level's.
  number const* argument_elsewhere(value_ref v, value_run const& r, number* room, int level) {
    if (v.kind != value_kind::step) return argument(v, r, room, level);
    std::uint64_t const rows = rows_[detail::at(v.index)];
    bool const by_value = rows != 0 && r.axis != r.dims.ssize() - 1;  // each lies in another row
    value_run part = r;
    if (by_value) part = {r.dims, r.at, r.dims.ssize() - 1, 1};
    for (int done = 0; done < r.count; done += part.count) {
      reduce_rows(rows, part, level + 1);
      evaluate_kept(needs_[detail::at(v.index)], part, level + 1);
      number const* const values = block(level + 1, v.index);
      for (int j = 0; j < part.count; ++j) room[done + j] = values[j];
      if (by_value) ++part.at[r.axis];
    }
    return room;
  }

  void pool(step const& s, value_run const& r, number* out, int level) {
    if (r.axis != r.dims.ssize() - 1) {  // along another axis: value by value
      value_run one{r.dims, r.at, r.dims.ssize() - 1, 1};
      for (int j = 0; j < r.count; ++j, ++one.at[r.axis]) pool(s, one, out + j, level);
      return;
    }
    shape const& image = pooled_dims_[detail::at(s.pooling)];
    pool_attrs const& attrs = c_.window(s);
    pool_axis const rows = pool_axis_of(s.code, attrs, 0, image[1]);
    pool_axis const columns = pool_axis_of(s.code, attrs, 1, image[2]);
    value_run pixel{image, r.at, r.axis, r.count};
    bool first = true;
    for (extent& i = pixel.at[1] = rows.first(r.at[1]); i < rows.end(r.at[1]); ++i)
      for (extent& j = pixel.at[2] = columns.first(r.at[2]); j < columns.end(r.at[2]); ++j) {
        number const* values = argument_elsewhere(s.args[0], pixel, extra(level, 3), level);
        Arithmetic::take_pixel(s.code, out, values, first, r.count);
        first = false;
      }
    if (s.code == op::max_pool) return;
    extent const counted =
        rows.counted(r.at[1], attrs.count_pad) * columns.counted(r.at[2], attrs.count_pad);
    Arithmetic::divide(out, counted, r.count);
  }

  void contract(step const& s, value_run const& r, number* out, int level) {
    if (r.axis != r.dims.ssize() - 1) {  // along another axis: value by value
      value_run one{r.dims, r.at, r.dims.ssize() - 1, 1};
      for (int j = 0; j < r.count; ++j, ++one.at[r.axis]) contract(s, one, out + j, level);
      return;
    }
    for (int j = 0; j < r.count; ++j) out[j] = number{};
    if (s.code == op::matmul) {
      matmul(s, r, out, level);
    } else {
      convolve(s, r, out, level);
    }
  }

  /// The index of a matmul operand that belongs to an output index: batch axes aligned at the
  /// right, 0 where broadcast.
  static value_run batch_run(shape const& dims, value_run const& out) {
    value_run r{dims, dims, 0, 1};
    int const skipped = out.dims.ssize() - dims.ssize();
    for (int i = 0; i < dims.ssize(); ++i)
      r.at[i] = i >= dims.ssize() - 2 || dims[i] == 1 ? 0 : out.at[i + skipped];
    return r;
  }
  void matmul(step const& s, value_run const& r, number* out, int level) {
    contracted const& d = contracted_[detail::at(s.contraction)];
    contraction_attrs const& attrs = c_.attrs(s);
    int const rank = r.dims.ssize(), last_src = d.src.ssize() - 1,
              last_weight = d.weight.ssize() - 1;
    value_run src = batch_run(d.src, r), weight = batch_run(d.weight, r);
    src.axis = attrs.transposed_src ? last_src - 1 : last_src;
    src.at[attrs.transposed_src ? last_src : last_src - 1] = r.at[rank - 2];
    weight.axis = attrs.transposed_weight ? last_weight - 1 : last_weight;
    weight.at[weight.axis] = r.at[rank - 1];
    weight.count = r.count;
    int const weight_k = attrs.transposed_weight ? last_weight : last_weight - 1;
    extent const depth = d.src[src.axis];
    for (extent k = 0; k < depth; k += src.count) {
      src.at[src.axis] = k;
      src.count = static_cast<int>(depth - k < run_length ? depth - k : run_length);
      number const* const a = contracted_argument(s.args[0], src, extra(level, 3), level);
      for (int j = 0; j < src.count; ++j) {
        weight.at[weight_k] = k + j;
        number const* const b = contracted_argument(s.args[1], weight, extra(level, 4), level);
        Arithmetic::add_products(out, a[j], b, r.count);
      }
    }
    Arithmetic::finish(out, depth, r.count);
  }

  void convolve(step const& s, value_run const& r, number* out, int level) {
    contracted const& d = contracted_[detail::at(s.contraction)];
    contraction_attrs const& attrs = c_.attrs(s);
    int const channel = r.dims.ssize() - 1, spatial = channel - 1;
    extent const in_group = d.weight.back(), out_group = d.weight[0] / attrs.groups;
    value_run src{d.src, r.at, channel, 1}, weight{d.weight, d.weight, channel, 1};
    for (extent& e : weight.at) e = 0;
    extent taps = 0;
    do {
      bool inside = true;
      for (int i = 0; i < spatial; ++i) {
        extent const at = r.at[i + 1] * attrs.stride[i] - attrs.pad_begin[i] +
                          weight.at[i + 1] * attrs.dilation[i];
        inside = inside && at >= 0 && at < d.src[i + 1];
        src.at[i + 1] = at;
      }
      if (!inside) continue;
      ++taps;
      for (extent c = 0; c < in_group; c += src.count) {
        src.count = weight.count =
            static_cast<int>(in_group - c < run_length ? in_group - c : run_length);
        weight.at[channel] = c;
        extent group = -1;
        number const* a = nullptr;
        for (int j = 0; j < r.count; ++j) {
          extent const o = r.at[channel] + j;
          if (o / out_group != group) {
            group = o / out_group;
            src.at[channel] = group * in_group + c;
            a = contracted_argument(s.args[0], src, extra(level, 3), level);
          }
          weight.at[0] = o;
          Arithmetic::add_dot(
              out[j], a, contracted_argument(s.args[1], weight, extra(level, 4), level), src.count);
        }
      }
      weight.at[channel] = 0;
    } while (next_tap(weight));
    Arithmetic::finish(out, taps * in_group, r.count);
  }
  static bool next_tap(value_run& weight) {
    for (int i = weight.dims.ssize() - 2; i >= 1; --i) {
      if (++weight.at[i] < weight.dims[i]) return true;
      weight.at[i] = 0;
    }
    return false;
  }

  problem const& p_;
  chain const& c_;
  void const* const* operands_;
  number* scratch_;
  array_view<given_value const> given_;
  int part_ = 0, parts_ = 1;
  /// Of each step, the steps that are computed over the same run (a bit each), and the reductions
  /// whose rows come first.
  std::array<std::uint64_t, max_steps> needs_{}, rows_{};
  std::array<shape, max_steps> row_dims_{};  ///< of a reduction: the extents that it reads
  std::array<row_level, 1 + max_contractions + max_poolings> levels_{};
  std::array<shape, max_poolings> pooled_dims_{};  ///< of a pooling: the image that it reads
  std::array<contracted, max_contractions> contracted_{};
};

}  // namespace sinter::inline SINTER_ABI
