// The kernel that copies channels to where a value lies: a slice into another, or groups of channels interleaved.
//
// This is what a network runs where no producer could write a value where it belongs: a part of two concats, an input,
// a shuffle. One pass reads what it needs from wherever it lies. Pixels (all axes but the last) have one stride in each
// operand. Knows elements by their size only; how they are moved is run/interleave.hpp's business.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "../backend/backend.hpp"
#include "interleave.hpp"

namespace sinter::inline SINTER_ABI::detail {

/// The channels of an operand from `first` on.
struct copy_source {
  int operand = 0;
  extent first = 0;
};
/// The next `length` channels of all groups, one source for each group: the first goes to the target's channel `to`, its
/// neighbour of the next group to `to + 1`.
struct copy_run {
  extent length = 0, to = 0;
  std::vector<copy_source> sources;
};

struct copy_shape {
  int element = 4;                           ///< bytes
  int groups = 1;                            ///< more than one: they are interleaved
  extent channels = 0;                       ///< that are written of each pixel
  std::vector<extent> rows;                  ///< of each operand, elements from a pixel to the next
  extent to_row = 0;                         ///< of the target
  extent pixels = 0;                         ///< of a call whose extents are not dynamic
  extent height = dynamic, width = dynamic;  ///< of an image, where it is one
  std::vector<copy_run> runs;                ///< together they write all channels
};

/// The channels of parts that lie side by side, interleaved by groups: channel i * k + j goes to j * groups + i. A run
/// ends where a part ends in any of the groups. `parts` says of each how many channels it has.
inline std::vector<copy_run> interleaved_runs(array_view<extent const> parts, int groups) {
  extent total = 0;
  for (extent p : parts) total += p;
  extent const each = total / groups;
  std::vector<copy_run> runs;
  for (extent j = 0; j < each;) {
    copy_run run{each - j, j * groups, {}};
    for (extent i = 0; i < groups; ++i) {
      extent channel = i * each + j;
      std::size_t part = 0;
      for (; channel >= parts[part]; ++part) channel -= parts[part];
      run.sources.push_back({static_cast<int>(part), channel});
      run.length = (std::min)(run.length, parts[part] - channel);
    }
    j += run.length;
    runs.push_back(std::move(run));
  }
  return runs;
}

class copy_invocation final : public invocation {
 public:
  explicit copy_invocation(copy_shape const& c) : invocation(&run_all), copy_(c) {
    for (copy_run const& r : c.runs) rows_.resize(rows_.size() + r.sources.size());
  }

  void repoint(call_args const& args) noexcept override {
    point(args);
    pixels_ = copy_.pixels;
    shape const* const dims = args.shapes == nullptr ? nullptr : &args.shapes->operands[0].dims;
    if (dims != nullptr) pixels_ = element_count(*dims) / dims->back();
    parts_ = 1;
  }
  int cut(int wanted) noexcept override {
    parts_ = worthwhile_parts(static_cast<double>(pixels_ * copy_.channels), wanted);
    return parts_;
  }
  code run_part(int part) noexcept override {
    copy(pixels_ * part / parts_, pixels_ * (part + 1) / parts_);
    return code::ok;
  }
  code run_rows(call_args const& at, extent image, row_range rows) noexcept override {
    point(at);
    copy((image * copy_.height + rows.first) * copy_.width,
         (image * copy_.height + rows.last) * copy_.width);
    return code::ok;
  }

 private:
  void point(call_args const& args) noexcept {
    std::size_t next = 0;
    for (copy_run const& r : copy_.runs)
      for (copy_source const& s : r.sources) {
        auto const* const data = static_cast<std::byte const*>(args.operands[s.operand]);
        rows_[next++] = {data == nullptr ? nullptr : data + s.first * copy_.element,
                         copy_.rows[at(s.operand)] * copy_.element};
      }
    to_ = static_cast<std::byte*>(args.outputs[0]);
  }
  static code run_all(invocation& self) noexcept {
    auto const& me = static_cast<copy_invocation const&>(self);
    me.copy(0, me.pixels_);
    return code::ok;
  }

  void copy(extent first, extent end) const noexcept {
    if (is_one_block()) {
      extent const bytes = copy_.channels * copy_.element;
      std::memcpy(to_ + first * bytes, rows_[0].of(first),
                  static_cast<std::size_t>((end - first) * bytes));
    } else if (copy_.element == 1) {
      copy_pixels<std::uint8_t>(first, end);
    } else if (copy_.element == 2) {
      copy_pixels<std::uint16_t>(first, end);
    } else {
      copy_pixels<std::uint32_t>(first, end);
    }
  }
  bool is_one_block() const noexcept {
    return rows_.size() == 1 && copy_.to_row == copy_.channels &&
           copy_.rows[at(copy_.runs[0].sources[0].operand)] == copy_.channels;
  }
  template <class Element>
  void copy_pixels(extent first, extent end) const noexcept {
    for (extent p = first; p < end; ++p) {
      std::byte* const pixel = to_ + p * copy_.to_row * copy_.element;
      pixel_row const* rows = rows_.data();
      for (copy_run const& r : copy_.runs) {
        row_interleaver<Element>(rows, copy_.groups, p)
            .write(pixel + r.to * copy_.element, r.length);
        rows += copy_.groups;
      }
    }
  }

  copy_shape const& copy_;
  std::vector<pixel_row> rows_;  ///< of all runs
  std::byte* to_ = nullptr;
  extent pixels_ = 0;
  int parts_ = 1;
};

class copy_kernel final : public kernel {
 public:
  copy_kernel(copy_shape copy, std::string why) : copy_(std::move(copy)), why_(std::move(why)) {}

  std::string_view backend() const noexcept override { return "network"; }
  std::size_t scratch_bytes() const noexcept override { return 0; }
  std::vector<stage_note> stages() const override {
    return {{why_, copy_.groups > 1 ? "interleave" : "copy", ""}};
  }
  std::string layout_key(int) const override { return {}; }
  result<packed_weight> pack(int, tensor_view const&) const override {
    return failure{code::bad_argument, "sinter: a copy has no weights"};
  }
  /// Each pixel is copied by itself.
  result<std::shared_ptr<kernel const>> by_rows(array_view<row_range const>) const override {
    if (copy_.height < 0 || copy_.width < 0)
      return failure{code::unsupported, "sinter: a copy of no images of known extents"};
    return std::shared_ptr<kernel const>(new copy_kernel(copy_, why_));
  }
  result<std::unique_ptr<invocation>> make_invocation() const override {
    return std::unique_ptr<invocation>(new copy_invocation(copy_));
  }

 private:
  copy_shape copy_;
  std::string why_;
};

}  // namespace sinter::inline SINTER_ABI::detail
