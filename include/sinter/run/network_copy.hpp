// The kernel that copies a slice of channels into another, each channel to a place of its own where wanted.
//
// This is what a network runs where no producer could write a value where it belongs: a part of two concats, an input,
// a shuffle. Pixels (all axes but the last) have one stride on each side. Knows elements by their size only.
#pragma once

#include <cstring>
#include <string>
#include <vector>

#include "../backend/backend.hpp"

namespace sinter::inline SINTER_ABI::detail {

struct copy_shape {
  int element = 4;      ///< bytes
  extent channels = 0;  ///< copied of each pixel
  extent from_row = 0;  ///< elements from a pixel to the next
  extent to_row = 0;
  extent pixels = 0;             ///< of a call whose extents are not dynamic
  std::vector<std::int32_t> to;  ///< of each channel read, its place; empty: as they are
};

template <class Element>
void scatter_pixels(copy_shape const& c, void const* from, void* to, extent pixels) noexcept {
  auto const* source = static_cast<Element const*>(from);
  auto* target = static_cast<Element*>(to);
  std::int32_t const* const place = c.to.data();
  for (extent p = 0; p < pixels; ++p, source += c.from_row, target += c.to_row)
    for (extent i = 0; i < c.channels; ++i) target[place[i]] = source[i];
}

inline void copy_pixels(copy_shape const& c, void const* from, void* to, extent pixels) noexcept {
  if (!c.to.empty()) {
    if (c.element == 2)
      scatter_pixels<std::uint16_t>(c, from, to, pixels);
    else
      scatter_pixels<std::uint32_t>(c, from, to, pixels);
    return;
  }
  auto const* source = static_cast<std::byte const*>(from);
  auto* target = static_cast<std::byte*>(to);
  auto const bytes = static_cast<std::size_t>(c.channels * c.element);
  if (c.from_row == c.channels && c.to_row == c.channels) {
    std::memcpy(target, source, bytes * static_cast<std::size_t>(pixels));
    return;
  }
  for (extent p = 0; p < pixels; ++p)
    std::memcpy(target + p * c.to_row * c.element, source + p * c.from_row * c.element, bytes);
}

class copy_invocation final : public invocation {
 public:
  explicit copy_invocation(copy_shape const& c) noexcept : invocation(&run_all), copy_(c) {}

  void repoint(call_args const& args) noexcept override {
    from_ = static_cast<std::byte const*>(args.operands[0]);
    to_ = static_cast<std::byte*>(args.outputs[0]);
    pixels_ = copy_.pixels;
    if (args.shapes != nullptr) {
      shape const& dims = args.shapes->operands[0].dims;
      pixels_ = element_count(dims) / dims.back();
    }
    parts_ = 1;
  }
  int cut(int wanted) noexcept override {
    parts_ = worthwhile_parts(static_cast<double>(pixels_ * copy_.channels), wanted);
    return parts_;
  }
  code run_part(int part) noexcept override {
    extent const first = pixels_ * part / parts_, last = pixels_ * (part + 1) / parts_;
    copy_pixels(copy_, from_ + first * copy_.from_row * copy_.element,
                to_ + first * copy_.to_row * copy_.element, last - first);
    return code::ok;
  }

 private:
  static code run_all(invocation& self) noexcept {
    auto& me = static_cast<copy_invocation&>(self);
    copy_pixels(me.copy_, me.from_, me.to_, me.pixels_);
    return code::ok;
  }

  copy_shape const& copy_;
  std::byte const* from_ = nullptr;
  std::byte* to_ = nullptr;
  extent pixels_ = 0;
  int parts_ = 1;
};

class copy_kernel final : public kernel {
 public:
  copy_kernel(copy_shape copy, std::string why) : copy_(std::move(copy)), why_(std::move(why)) {}

  std::string_view backend() const noexcept override { return "network"; }
  std::size_t scratch_bytes() const noexcept override { return 0; }
  std::vector<stage_note> stages() const override { return {{why_, "copy", ""}}; }
  std::string layout_key(int) const override { return {}; }
  result<packed_weight> pack(int, tensor_view const&) const override {
    return failure{code::bad_argument, "sinter: a copy has no weights"};
  }
  result<std::unique_ptr<invocation>> make_invocation() const override {
    return std::unique_ptr<invocation>(std::make_unique<copy_invocation>(copy_));
  }

 private:
  copy_shape copy_;
  std::string why_;
};

}  // namespace sinter::inline SINTER_ABI::detail
