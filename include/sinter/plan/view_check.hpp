// What is checked when a view meets an operand: pointers at last.
//
// check_view() compares one view with its description, and builds a sentence only to refuse;
// overlap() compares two byte ranges (run/aliasing.hpp decides what follows). Descriptions are
// those of a valid problem, its dynamic extents resolved (plan/problem.hpp); weights are checked
// where they are packed, with the same function.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "problem.hpp"

namespace sinter::inline SINTER_ABI {

/// Does the view fit? `kind` is "operand" or "output". A flat view (from a contiguous range) fits
/// any dense description of as many elements, a view of one element any single one. Strides of axes
/// of extent 1 do not count.
inline status check_view(std::string_view kind, std::string_view name, tensor_desc const& wanted,
                         tensor_view const& given) {
  auto const who = [&] { return detail::join({kind, " ", detail::in_quotes(name)}); };
  extent const count = element_count(wanted.dims);
  if (given.type != wanted.type)
    return detail::bad(
        {who(), " is ", name_of(given.type), "; ", name_of(wanted.type), " is wanted"});
  bool const single = wanted.dims.empty() && element_count(given.dims) == 1;
  if (given.flat) {
    if (element_count(given.dims) != count)
      return detail::bad({who(), " has ", element_count(given.dims), " elements; ", count,
                          " are wanted for ", to_string(wanted.dims)});
    if (!detail::same_layout(wanted.dims, wanted.strides, dense_strides(wanted.dims)))
      return detail::bad({who(), " is a contiguous range; a view with the strides ",
                          detail::list_of(wanted.strides), " is wanted"});
  } else if (!single) {
    if (given.dims.size() != wanted.dims.size())
      return detail::bad({who(), " has rank ", given.rank(), " (", to_string(given.dims),
                          "); rank ", wanted.dims.ssize(), " (", to_string(wanted.dims),
                          ") is wanted"});
    if (!(given.dims == wanted.dims))
      return detail::bad(
          {who(), " is ", to_string(given.dims), "; ", to_string(wanted.dims), " is wanted"});
    if (given.strides.size() != given.dims.size() ||
        !detail::same_layout(wanted.dims, given.strides, wanted.strides))
      return detail::bad({who(), " has the strides ", detail::list_of(given.strides), "; ",
                          detail::list_of(wanted.strides),
                          " are wanted (compile for these strides, or copy)"});
  }
  if (count > 0 && given.data == nullptr)
    return detail::bad({who(), " is a null pointer; ", count, " elements are wanted"});
  if (count > 0 &&
      reinterpret_cast<std::uintptr_t>(given.data) % static_cast<unsigned>(size_of(wanted.type)) !=
          0)
    return detail::bad({who(), " is not aligned for ", name_of(wanted.type),
                        ": its address is not a multiple of ", size_of(wanted.type)});
  return {};
}

/// The bytes of one tensor of a call.
struct memory_range {
  std::string_view kind;  ///< "operand", "output", "weight"
  std::string_view name;
  void const* data = nullptr;
  extent bytes = 0;
};

inline memory_range range_of(std::string_view kind, std::string_view name, tensor_desc const& d,
                             void const* data) {
  return {kind, name, data, detail::byte_span(d)};
}

inline bool overlap(memory_range const& a, memory_range const& b) {
  auto const pa = reinterpret_cast<std::uintptr_t>(a.data),
             pb = reinterpret_cast<std::uintptr_t>(b.data);
  return a.bytes > 0 && b.bytes > 0 && pa < pb + static_cast<std::uintptr_t>(b.bytes) &&
         pb < pa + static_cast<std::uintptr_t>(a.bytes);
}

}  // namespace sinter::inline SINTER_ABI
