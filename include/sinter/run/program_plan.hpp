// What a program is once it is compiled: groups with their kernels, who reads what, and the plan of the arena.
//
// Slots are the user's names: inputs, weights, outputs. Each operand and output of a group is a place: a slot, an item
// of the arena (an intermediate) or a slice of one, or a constant that the plan owns (a network's). Immutable after
// program_builder; call_state.hpp holds what a call changes.
// run/program_builder.hpp makes it.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "../backend/strip.hpp"
#include "../plan/view_check.hpp"
#include "arena_plan.hpp"
#include "dispatch.hpp"

namespace sinter::inline SINTER_ABI::detail {

enum class source : unsigned char { input, weight, output, arena, constant, strip };

/// The index is of an input, of a weight_use, of an output, of an arena item or of a constant; `strip` is an item that
/// has no bytes, since its value is never whole.
struct place {
  source from = source::input;
  int index = -1;
  std::size_t offset = 0;  ///< bytes from the start of the item
};

struct group_plan {
  sinter::problem problem;
  selection chosen;
  inline_vector<place, max_operands> operands;
  inline_vector<place, max_outputs> outputs;
  int scratch = -1;  ///< arena item
  int strip = -1;    ///< that it runs in
  std::string
      apart{};  ///< why it is in no strip with the group before, where it reads that one's value
  std::string whole{};  ///< why it takes the whole batch at once
};

/// Groups first to last, which run together when the last one's turn comes: strip by strip, or image by image.
struct planned_strip {
  int first = 0, last = 0;
  std::shared_ptr<sinter::kernel const> kernel;
  inline_vector<place, max_operands> operands;  ///< of the kernel's call_args
  inline_vector<place, max_outputs> outputs;
  std::string how, why;   ///< "7 strips of 4 rows of each image", "rule ..."
  std::string_view held;  ///< "a strip" or "an image": what there is scratch for
  int within = -1;        ///< the stretch that the strip is in
};

/// An operand that is bound by a view. Its description is that of its first use.
struct input_slot {
  name_text name;
  int group = -1, operand = -1;
};
struct output_slot {
  name_text name;
  int group = -1, output = -1;
};
struct weight_slot {
  name_text name;
  tensor_desc desc;  ///< dense, in the chain's dtype
};
/// The output that an arena item holds; group -1 for scratch. `channels`: the item's last extent where that output is
/// one of the slices that lie in it, else -1.
struct item_maker {
  int group = -1, output = -1;
  extent channels = -1;

  /// The extents of the item, where those of the output are `made`.
  shape dims(shape made) const {
    if (channels >= 0) made.back() = channels;
    return made;
  }
};
/// One kernel that reads a weight.
struct weight_use {
  int slot = -1, group = -1, operand = -1;
  std::string layout_key;
};

struct program_plan {
  std::vector<group_plan> groups;
  std::vector<planned_strip> strips;
  std::vector<input_slot> inputs;
  std::vector<output_slot> outputs;
  std::vector<weight_slot> weights;
  std::vector<weight_use> weight_uses;
  std::vector<arena_item> items;   ///< of dynamic extents: bytes are 0, planned at the call
  std::vector<item_maker> makers;  ///< of the items
  std::vector<void const*> constants;
  std::vector<std::shared_ptr<void const>> kept;  ///< what the constants lie in
  std::size_t arena_bytes = 0;
  bool dynamic = false;
  int in_place_input = -1, in_place_output = -1;  ///< slots that share memory
  sinter::numerics numerics = sinter::numerics::strict;
  std::optional<isa> own_cap;
  settings said;
  int threads = 1;
  sinter::executor* executor = nullptr;  ///< where threads > 1

  group_plan const& group(int i) const { return groups[static_cast<std::size_t>(i)]; }
  /// What group g runs in: a stretch before a strip that is in it.
  planned_strip const* strip_of(int g) const {
    int s = group(g).strip;
    while (s >= 0 && strips[static_cast<std::size_t>(s)].within >= 0)
      s = strips[static_cast<std::size_t>(s)].within;
    return s < 0 ? nullptr : &strips[static_cast<std::size_t>(s)];
  }
  /// What runs when it is the turn of group g; null where a later group's strip has taken it.
  kernel const* runs(int g) const {
    planned_strip const* const s = strip_of(g);
    if (s == nullptr) return group(g).chosen.kernel.get();
    return s->last == g ? s->kernel.get() : nullptr;
  }
};

/// Index of the element with that name; -1 if there is none. `likely` is tried first.
template <class Slots>
int find_named(Slots const& slots, std::string_view name, std::size_t likely = 0) {
  if (likely < slots.size() && slots[likely].name == name) return static_cast<int>(likely);
  for (std::size_t i = 0; i < slots.size(); ++i)
    if (slots[i].name == name) return static_cast<int>(i);
  return -1;
}

template <class Slots>
std::string list_names(Slots const& slots) {
  std::string names;
  for (auto const& s : slots) names += join({names.empty() ? "" : ", ", in_quotes(s.name)});
  return names.empty() ? "none" : names;
}

}  // namespace sinter::inline SINTER_ABI::detail
