// What is checked when a view meets an operand, and when all views of a call meet each other: pointers at last.
//
// check_view() compares one view with its description; check_aliasing() keeps outputs apart from inputs and from each
// other. Both write nothing, and build a sentence only to refuse. Descriptions are those of a valid problem, its
// dynamic extents resolved (plan/problem.hpp); weights are checked where they are packed, with the same function.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "problem.hpp"

namespace sinter::inline SINTER_ABI {

/// Does the view fit? `kind` is "operand" or "output". A flat view (from a contiguous range) fits any dense
/// description of as many elements, a view of one element any single one. Strides of axes of extent 1 do not count.
inline status check_view(std::string_view kind, std::string_view name, tensor_desc const& wanted,
                         tensor_view const& given) {
  auto const who = [&] { return std::string(kind) + " " + detail::quoted(name); };
  extent const count = element_count(wanted.dims);
  if (given.type != wanted.type)
    return detail::bad(who() + " is " + std::string(name_of(given.type)) + "; " +
                       std::string(name_of(wanted.type)) + " is wanted");
  bool const single = wanted.dims.empty() && element_count(given.dims) == 1;
  if (given.flat) {
    if (element_count(given.dims) != count)
      return detail::bad(who() + " has " + std::to_string(element_count(given.dims)) + " elements; " +
                         std::to_string(count) + " are wanted for " + to_string(wanted.dims));
    if (!detail::same_layout(wanted.dims, wanted.strides, dense_strides(wanted.dims)))
      return detail::bad(who() + " is a contiguous range; a view with the strides " +
                         detail::list_of(wanted.strides) + " is wanted");
  } else if (!single) {
    if (given.dims.size() != wanted.dims.size())
      return detail::bad(who() + " has rank " + std::to_string(given.rank()) + " (" + to_string(given.dims) +
                         "); rank " + std::to_string(wanted.dims.ssize()) + " (" + to_string(wanted.dims) +
                         ") is wanted");
    if (!(given.dims == wanted.dims))
      return detail::bad(who() + " is " + to_string(given.dims) + "; " + to_string(wanted.dims) + " is wanted");
    if (given.strides.size() != given.dims.size() ||
        !detail::same_layout(wanted.dims, given.strides, wanted.strides))
      return detail::bad(who() + " has the strides " + detail::list_of(given.strides) + "; " +
                         detail::list_of(wanted.strides) + " are wanted (compile for these strides, or copy)");
  }
  if (count > 0 && given.data == nullptr)
    return detail::bad(who() + " is a null pointer; " + std::to_string(count) + " elements are wanted");
  if (count > 0 && reinterpret_cast<std::uintptr_t>(given.data) % static_cast<unsigned>(size_of(wanted.type)) != 0)
    return detail::bad(who() + " is not aligned for " + std::string(name_of(wanted.type)) +
                       ": its address is not a multiple of " + std::to_string(size_of(wanted.type)));
  return {};
}

/// The bytes of one tensor of a call.
struct memory_range {
  std::string_view kind;  ///< "operand", "output", "weight"
  std::string_view name;
  void const* data = nullptr;
  extent bytes = 0;
};

inline memory_range range_of(std::string_view kind, std::string_view name, tensor_desc const& d, void const* data) {
  return {kind, name, data, detail::byte_span(d)};
}

inline bool overlap(memory_range const& a, memory_range const& b) {
  auto const pa = reinterpret_cast<std::uintptr_t>(a.data), pb = reinterpret_cast<std::uintptr_t>(b.data);
  return a.bytes > 0 && b.bytes > 0 && pa < pb + static_cast<std::uintptr_t>(b.bytes) &&
         pb < pa + static_cast<std::uintptr_t>(a.bytes);
}

/// No output may share a byte with an operand or another output, but for the operand declared in place, which must
/// be exactly output 0. Pointers as in call_args: `operands[i]` and `outputs[i]`; those of weights are not compared
/// (packed memory is the library's own).
inline status check_aliasing(problem const& p, void const* const* operands, void* const* outputs) {
  for (int o = 0; o < p.chain.outputs.ssize(); ++o) {
    memory_range const out = range_of("output", p.chain.outputs[o].name, p.outputs[detail::at(o)], outputs[o]);
    for (int i = 0; i < p.chain.operands.ssize(); ++i) {
      operand const& what = p.chain.operands[i];
      if (what.role == role::weight) continue;
      memory_range const in = range_of("operand", what.name, p.operands[detail::at(i)], operands[i]);
      if (o == 0 && i == p.in_place) {
        if (in.data != out.data && in.bytes > 0)
          return detail::bad("operand " + detail::quoted(in.name) + " was declared to share the memory of output " +
                             detail::quoted(out.name) + "; the same pointer is wanted for both");
      } else if (overlap(in, out)) {
        return detail::bad("output " + detail::quoted(out.name) + " overlaps operand " + detail::quoted(in.name) +
                           "; separate memory is wanted, or a declaration that they are the same (in place)");
      }
    }
    for (int q = 0; q < o; ++q)
      if (overlap(range_of("output", p.chain.outputs[q].name, p.outputs[detail::at(q)], outputs[q]), out))
        return detail::bad("output " + detail::quoted(out.name) + " overlaps output " +
                           detail::quoted(p.chain.outputs[q].name) + "; separate memory is wanted");
  }
  return {};
}

}  // namespace sinter::inline SINTER_ABI
