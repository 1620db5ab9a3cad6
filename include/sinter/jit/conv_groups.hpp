// The sums of a convolution whose groups are narrower than a vector: several groups side by side in
// its lanes.
//
// A vector of output channels belongs to `per_vector` whole groups; one vector of a pixel holds
// their input channels. For each input channel of a group, a permutation spreads the group's
// channel over the group's lanes, and the vector that results is multiplied by the weights of every
// kernel column that meets this pixel: one permutation for a kernel row's products of a pixel, and
// no lane computes for nothing. The loop over input channels adds a step to the order of the
// permutation, so code does not grow with them. It takes the place of jit/tile.hpp for
// jit/conv.hpp; which groups go together is the business of backend/jit_conv_plan.hpp.
#pragma once

#include "operand.hpp"
#include "tile.hpp"

namespace sinter::inline SINTER_ABI::jit {

/// How channels reach the lanes of their group: by a permutation across the vector; or they stay in
/// their own (jit/conv_lanes.hpp).
enum class group_spread : unsigned char { across, in_place };

struct conv_groups {
  group_spread spread = group_spread::across;
  int in = 0, out = 0;  ///< channels of a group; none: all lanes belong to one group
  int per_vector = 0;   ///< groups in a vector
  int in_last = 0;      ///< ... and in the last vector of the panel
  /// Kernel columns at once: all of a row, whose pixels are `column` bytes apart; or one, for pixels
  /// any number of bytes apart.
  int taps = 1;
  int stride = 1, dilation = 1;
  extent column = 0;
  int inputs_ahead = 0, weights_ahead = 0;  ///< inputs and lines that each tile prefetches
  constexpr bool any() const { return in > 0; }
  friend bool operator==(conv_groups const&, conv_groups const&) = default;
};

/// Calls f(row, tap, first) for each output and tap of a tile's kernel row, input by input; `first`
/// at the first use of an input.
template <class F>
void each_pixel(conv_groups const& g, int rows, int taps, F&& f) {
  int const reach = (rows - 1) * g.stride + (taps - 1) * g.dilation;
  for (int at = 0; at <= reach; ++at) {
    bool first = true;
    for (int t = 0; t < taps; ++t) {
      int const from = at - t * g.dilation;
      if (from < 0 || from % g.stride != 0 || from / g.stride >= rows) continue;
      f(from / g.stride, t, first);
      first = false;
    }
  }
}
/// The input that output `row` and a tap meet, so many bytes on.
inline xb::RegExp pixel_of(conv_groups const& g, tile_loop const& loop, tile_registers const& r,
                           int row, int tap, std::int64_t within) {
  if (g.taps == 1) return loop.row(row, static_cast<int>(within));
  return assembler::general(r.a0) + bytes((row * g.stride + tap * g.dilation) * g.column + within);
}

/// Rows of a tile: AVX2 has four registers for weights, which three rows more would take.
constexpr int group_tile_rows(isa level) { return has_masks(level) ? tile_rows(level) : 5; }
/// Mask registers that stay as they are throughout a kernel.
inline constexpr int group_masks_first = 4;

class group_tile {
 public:
  group_tile(assembler& a, product kind, int rows, int vectors, conv_groups const& g,
             tile_registers const& r)
      : a_(a),
        kind_(kind),
        rows_(rows),
        vectors_(vectors),
        g_(g),
        r_(r),
        loop_(a, tile{kind, rows, vectors}, r) {}

  /// Fills the mask registers; `scratch` is overwritten.
  void set_masks(int scratch) {
    if (!a_.masks()) return;
    auto const set = [&](int mask, std::uint64_t bits) {
      a_.mov(xb::Reg32(scratch), bits);
      a_.kmovd(assembler::mask(mask), xb::Reg32(scratch));
    };
    for (bool last : {false, true})
      set(last ? last_mask : whole_mask, (std::uint64_t{1} << units(last)) - 1);
    if (words()) set(low_mask, 0x55555555);
  }

  /// Of an input, what a panel reads.
  int input_bytes() const {
    return static_cast<int>((vectors_ - 1) * source_bytes()) +
           channels(true) * size_of(row_of(kind_).a);
  }

  void clear() { loop_.clear(); }
  /// Adds the products of `taps` columns of one kernel row. b is left at their end, a0 as it was.
  std::int32_t multiply() {
    a_.vmovups(a_.vec(order()), a_.table(first_order()));
    int const step = pairs() ? 2 : 1, whole = g_.in / step;
    auto const one = [&] {
      emit_step(false);
      a_.add(b(), immediate(step_bytes()));
    };
    if (whole > 1) {
      xb::Label again;
      a_.mov(assembler::general(r_.count), immediate(whole));
      a_.align(32);
      a_.L(again);
      one();
      a_.dec(assembler::general(r_.count));
      a_.jnz(again, xb::CodeGenerator::T_NEAR);
    } else if (whole == 1) {
      one();
    }
    int read = whole;
    if (whole * step < g_.in) emit_step(true);
    if (int const left = g_.taps * steps() - read; left > 0)
      a_.add(b(), immediate(left * step_bytes()));
    return 0;
  }
  void merge() {}

 private:
  static constexpr int low_mask = group_masks_first, whole_mask = low_mask + 1,
                       last_mask = low_mask + 2;

  // Sums take the last 16 of 16 registers here and the last 10 of 12 there.
  int order() const { return a_.masks() ? 16 : 0; }
  int spread() const { return order() + 1; }
  int weight(int tap) const { return (a_.masks() ? 18 : 12) + tap; }
  int most_taps() const { return a_.masks() ? 14 : 4; }

  xb::Reg64 b() const { return assembler::general(r_.b); }
  bool pairs() const { return row_of(kind_).k_step == 2; }
  /// The order counts 16-bit elements, as a group's channels are an odd number of them.
  bool words() const { return kind_ == product::bf16_pairs && g_.in % 2 != 0; }
  int steps() const { return pairs() ? (g_.in + 1) / 2 : g_.in; }
  int lanes() const { return lanes_of(a_.level()); }
  int vector_bytes() const { return lanes() * lane_step_bytes(kind_); }
  int step_bytes() const { return vectors_ * vector_bytes(); }

  /// Channels that a vector of the source holds; in units of the order.
  int channels(bool last) const { return (last ? g_.in_last : g_.per_vector) * g_.in; }
  int units(bool last) const {
    return kind_ == product::bf16_pairs && !words() ? channels(last) / 2 : channels(last);
  }
  std::int64_t source_bytes() const {
    return std::int64_t{g_.per_vector} * g_.in * size_of(row_of(kind_).a);
  }

  std::vector<std::uint32_t> first_order() const {
    std::vector<std::uint32_t> order;
    for (int lane = 0; lane < lanes(); ++lane) {
      int const group = lane / g_.out < g_.per_vector ? lane / g_.out : 0;
      auto const channel = static_cast<std::uint32_t>(group * g_.in);
      if (words())
        order.push_back(channel | (channel + 1) << 16);
      else if (kind_ == product::bf16_pairs)
        order.push_back(channel / 2);
      else
        order.push_back(channel + (kind_ == product::bf16_widened ? 1 : 0));
    }
    return order;
  }
  void advance(std::uint32_t by) {
    a_.vpaddd(a_.vec(order()), a_.vec(order()), a_.constant_bits(by));
  }

  enum class half : unsigned char { both, odd, even };

  void emit_step(bool lone) {
    if (kind_ != product::bf16_widened) {
      emit_products(half::both, lone);
      if (!lone) advance(words() ? 0x00020002U : 1U);
      return;
    }
    if (!lone) emit_products(half::odd, false);
    advance(~std::uint32_t{0});
    emit_products(half::even, false);
    advance(3);
  }

  void emit_products(half h, bool lone) {
    for (int first = 0; first < g_.taps; first += most_taps()) {
      int const taps = g_.taps - first < most_taps() ? g_.taps - first : most_taps();
      for (int j = 0; j < vectors_; ++j) {
        for (int t = 0; t < taps; ++t) load_weight(t, first + t, j, h);
        each_pixel(g_, rows_, taps, [&](int row, int tap, bool load) {
          if (load) load_pixel(row, first + tap, j, lone);
          multiply_add(loop_.sum(row, j, 0), weight(tap));
        });
      }
    }
  }
  void multiply_add(int sum, int weight) {
    if (kind_ == product::bf16_pairs)
      a_.vdpbf16ps(a_.vec(sum), a_.vec(weight), a_.vec(spread()));
    else
      a_.vfmadd231ps(a_.vec(sum), a_.vec(weight), a_.vec(spread()));
  }

  void load_weight(int to, int tap, int vector, half h) {
    xb::Xmm const w = a_.vec(weight(to));
    xb::Address const from =
        a_.ptr[b() + bytes(tap * steps() * step_bytes() + vector * vector_bytes())];
    if (kind_ == product::f16_weight) return a_.vcvtph2ps(w, from);
    a_.vmovups(w, from);
    if (h == half::even) a_.vpslld(w, w, 16);
    if (h != half::odd) return;
    if (a_.masks())
      a_.vpandd(w, w, a_.constant_bits(0xffff0000U));
    else
      a_.vandps(w, w, a_.constant_bits(0xffff0000U));
  }

  // The channel (or pair) that each group is at, of the input of output `row` and a tap, in all
  // lanes of its group.
  void load_pixel(int row, int tap, int vector, bool lone) {
    load_channels(pixel_of(g_, loop_, r_, row, tap, vector * source_bytes()),
                  vector == vectors_ - 1);
    xb::Ymm const x = full(spread()), by = full(order());
    if (words())
      a_.vpermw(lone ? x | assembler::mask(low_mask) | a_.T_z : x, by, x);
    else
      a_.vpermps(x, by, x);
  }
  xb::Ymm full(int i) const { return a_.masks() ? xb::Ymm(xb::Zmm(i)) : xb::Ymm(i); }

  // Nothing beside the vector's own groups is read.
  void load_channels(xb::RegExp const& at, bool last) {
    xb::Xmm const x = a_.vec(spread());
    int const read = channels(last) * size_of(row_of(kind_).a);
    if (read == vector_bytes_of(a_.level())) return a_.vmovups(x, a_.ptr[at]);
    if (2 * read == vector_bytes_of(a_.level())) return a_.vmovups(a_.half(spread()), a_.ptr[at]);
    if (!a_.masks()) {
      a_.vmovups(x, operand_code(a_).tail_mask(channels(last)));
      return a_.vmaskmovps(x, x, a_.ptr[at]);
    }
    xb::Xmm const some = x | assembler::mask(last ? last_mask : whole_mask) | a_.T_z;
    words() ? a_.vmovdqu16(some, a_.ptr[at]) : a_.vmovups(some, a_.ptr[at]);
  }

  assembler& a_;
  product kind_;
  int rows_, vectors_;
  conv_groups g_;
  tile_registers r_;
  tile_loop loop_;
};

}  // namespace sinter::inline SINTER_ABI::jit
