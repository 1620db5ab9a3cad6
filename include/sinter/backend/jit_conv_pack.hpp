// The JIT backend's conv2d: weights into panels, once.
//
// Weights come as O, H, W, I with any strides. Each group's are gathered to rows of whole runs, one
// row for each output channel, and those packed as the second operand of a matrix product is
// (jit/pack.hpp). Runs are padded with zeros to whole steps; both kinds of runs are packed where
// that makes a difference. Read backend/jit_conv_plan.hpp for what a run is.
#pragma once

#include <cstring>
#include <type_traits>

#include "../core/buffer.hpp"
#include "../core/tensor_view.hpp"
#include "../jit/pack.hpp"
#include "jit_conv_plan.hpp"

namespace sinter::inline SINTER_ABI::jit {

namespace detail {

/// The weights of `out` output channels (O, H, W, I, any strides) as rows of `padded` elements for
/// each run; the rest stays zero.
template <class To, class From>
void gather_runs(conv_plan const& plan, conv_run r, extent out, To* to, From const* from,
                 sinter::strides const& s) {
  bool const pixel = r == conv_run::pixel;
  extent const padded = plan.padded_run(r);
  for (extent o = 0; o < out; ++o)
    for (extent y = 0; y < plan.kernel_rows; ++y)
      for (extent x = 0; x < plan.kernel_columns; ++x) {
        extent const run = pixel ? y * plan.kernel_columns + x : y;
        To* const row = to + (o * plan.runs(r) + run) * padded + (pixel ? 0 : x * plan.in);
        From const* const in = from + o * s[0] + y * s[1] + x * s[2];
        for (extent i = 0; i < plan.in; ++i) row[i] = convert<To>(in[i * s[3]]);
      }
}

/// Puts one panel's weights in the order of its sums.
inline void order_lanes(conv_plan const& plan, std::byte* panel) {
  int const vectors = row_of(plan.kind).k_step;
  lane_order const order{static_cast<int>(plan.in) / vectors, vectors};
  std::uint32_t from[256], to[256];
  std::size_t const tap_bytes = static_cast<std::size_t>(order.slots()) * 64;
  for (extent tap = 0; tap < plan.runs(conv_run::pixel); ++tap, panel += tap_bytes) {
    std::memcpy(from, panel, tap_bytes);
    for (int i = 0; i < 16 * order.slots(); ++i) {
      int const lane = i % 16, sum = i / 16 % lane_order::sums, version = i / 16 / lane_order::sums;
      int const out = order.out(sum, lane);
      to[i] = from[(order.unit(version, lane) * vectors + out / 16) * 16 + out % 16];
    }
    std::memcpy(panel, to, tap_bytes);
  }
}

}  // namespace detail

/// Writes plan.packed_bytes() bytes; false where there is no memory. `type` is the weight's dtype,
/// to which f32 is rounded first.
inline bool pack_conv(conv_plan const& plan, void* to, tensor_view const& source, dtype type) {
  sinter::strides const s = sinter::detail::meaningful_strides(source.dims, source.strides);
  for (conv_run r : {conv_run::pixel, conv_run::kernel_row}) {
    if (r == conv_run::kernel_row && !plan.both_packed()) continue;
    panel_layout panels = plan.panels(r);
    std::size_t const bytes = static_cast<std::size_t>(plan.out * panels.k * size_of(type));
    buffer gathered(bytes);
    if (gathered.failed()) return false;
    for (extent group = 0; group < plan.groups; ++group) {
      panels.n = plan.out_of(group);
      if (bytes > 0) std::memset(gathered.data(), 0, bytes);
      detail::with_type(type, [&](auto const* to_type) {
        using To = std::remove_cvref_t<decltype(*to_type)>;
        detail::with_type(source.type, [&](auto const* from_type) {
          auto const* const from = static_cast<decltype(from_type)>(source.data);
          detail::gather_runs(plan, r, panels.n, reinterpret_cast<To*>(gathered.data()),
                              from + group * plan.out * s[0], s);
        });
      });
      auto* const panel = static_cast<std::byte*>(to) + plan.panels_at(r, group);
      pack_panels(panels, panel, {gathered.data(), type, 1, panels.k});
      if (plan.spread == group_spread::in_place) detail::order_lanes(plan, panel);
    }
  }
  return true;
}

}  // namespace sinter::inline SINTER_ABI::jit
