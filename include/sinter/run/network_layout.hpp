// Where each value of a network lies: in memory of its own, in a slice of a concat's, or as a view of another's.
//
// Concats are looked at last first, since the last one of a dense block holds all that the earlier ones are prefixes
// of. A concat whose parts already lie side by side is a view. A part that one group writes, and that no other concat
// has taken, is written where it belongs; any other is copied, with a reason. Decides places by channel, never bytes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "network_graph.hpp"

namespace sinter::inline SINTER_ABI::detail {

/// An output of the network.
struct named_index {
  name_text name;
  int value = -1;
};

/// A value within the value whose memory it lies in: `row` elements from one pixel to the next, from `first` on.
struct location {
  int root = -1;
  extent first = 0;
  extent row = 0;
};

/// Channels of a value, as they are copied.
struct copied_part {
  int value = -1;
  extent skip = 0, count = 0;
};
/// Values that have to be copied to where another value lies.
struct planned_copy {
  std::vector<copied_part> parts;
  int to = -1;
  extent first = 0;  ///< from which of its channels on
  int groups = 1;    ///< of a shuffle: the parts, side by side, are interleaved
  std::string why;
};

class network_layout {
 public:
  network_layout(network_graph const& graph, array_view<named_index const> outputs)
      : graph_(graph), states_(graph.values.size()) {
    count_readers();
    for (named_index const& o : outputs) ++states_[at(o.value)].readers;
    for (std::size_t i = states_.size(); i-- > 0;)
      if (graph_.values[i].from == value_from::concat) place_parts(static_cast<int>(i));
    for (std::size_t i = 0; i < states_.size(); ++i) settle_view(static_cast<int>(i));
  }

  location find(int v) const {
    state const& s = states_[at(v)];
    graph_value const& value = graph_.value(v);
    if (s.kind == place_kind::own) return {v, 0, s.row};
    location from = find(s.base);
    if (value.from == value_from::flatten && from.row == graph_.value(s.base).channels())
      from.row = value.channels();
    from.first += s.first;
    return from;
  }
  /// What is to be copied where value v was said.
  std::vector<planned_copy> const& copies(int v) const { return states_[at(v)].copies; }
  /// How many groups, values and outputs read v.
  int readers(int v) const { return states_[at(v)].readers; }

 private:
  enum class place_kind : unsigned char { own, within };
  struct state {
    place_kind kind = place_kind::own;
    int base = -1;          ///< within which value
    extent first = 0;       ///< from which of its channels on
    extent row = 0;         ///< of memory of its own
    bool taken = false;     ///< by a concat
    bool absorbed = false;  ///< a concat that only a shuffle reads: its parts go there
    int readers = 0;
    int reader = -1;  ///< the last value that reads it
    std::vector<planned_copy> copies;
  };

  void count_readers() {
    for (block_group const& g : graph_.groups)
      for (block_operand const& o : g.operands)
        if (o.value >= 0) ++states_[at(o.value)].readers;
    for (std::size_t i = 0; i < graph_.values.size(); ++i) {
      states_[i].row = graph_.values[i].channels();
      for (int part : graph_.values[i].parts) {
        ++states_[at(part)].readers;
        states_[at(part)].reader = static_cast<int>(i);
      }
    }
  }

  /// One group (or a copy) writes it, into memory that is still to be chosen.
  bool placeable(int v) const {
    graph_value const& value = graph_.value(v);
    state const& s = states_[at(v)];
    bool const made = value.from == value_from::group || value.from == value_from::shuffle ||
                      value.from == value_from::concat;
    return made && s.kind == place_kind::own && !s.taken && !s.absorbed;
  }
  std::string why_not(int v) const {
    graph_value const& value = graph_.value(v);
    if (value.from == value_from::input) return "it is an input";
    if (states_[at(v)].taken) return "it lies in another concat";
    return "it is a view of another value";
  }

  void put_within(int v, int base, extent first) {
    state& s = states_[at(v)];
    s.kind = place_kind::within;
    s.base = base;
    s.first = first;
    s.taken = true;
  }

  bool side_by_side(std::vector<int> const& parts) const {
    location const start = find_early(parts[0]);
    extent next = start.first;
    for (int part : parts) {
      location const l = find_early(part);
      if (l.root != start.root || l.first != next || is_flattened(part)) return false;
      next += graph_.value(part).channels();
    }
    return graph_.value(start.root).from != value_from::input;
  }
  bool is_flattened(int v) const { return graph_.value(v).from == value_from::flatten; }
  /// find() before views are settled: channels are followed.
  location find_early(int v) const {
    extent first = 0;
    while (true) {
      state const& s = states_[at(v)];
      graph_value const& value = graph_.value(v);
      if (s.kind == place_kind::within) {
        first += s.first;
        v = s.base;
      } else if (value.from == value_from::channels) {
        first += value.first;
        v = value.parts[0];
      } else {
        return {v, first, s.row};
      }
    }
  }

  void place_parts(int v) {
    graph_value const& value = graph_.value(v);
    state& s = states_[at(v)];
    if (s.kind == place_kind::own && side_by_side(value.parts)) {
      location const start = find_early(value.parts[0]);
      put_within(v, start.root, start.first);
      return;
    }
    // A shuffle reads parts wherever they lie. Whether dynamic extents agree is checked where parts are written.
    if (s.readers == 1 && s.reader >= 0 && s.kind == place_kind::own &&
        graph_.value(s.reader).from == value_from::shuffle && !is_dynamic(value.dims) &&
        value.parts.size() <= std::size_t{max_operands}) {
      s.absorbed = true;
      return;
    }
    extent first = 0;
    for (int part : value.parts) {
      if (placeable(part)) {
        put_within(part, v, first);
      } else {
        s.copies.push_back({{whole(part)}, v, first, 1, why_not(part)});
      }
      first += graph_.value(part).channels();
    }
  }

  /// Views that are none where they are read, and shuffles.
  void settle_view(int v) {
    graph_value const& value = graph_.value(v);
    if (value.from == value_from::shuffle) return shuffle(v);
    if (value.from != value_from::channels && value.from != value_from::flatten) return;
    int const base = value.parts[0];
    location const from = find(base);
    bool const of_input = graph_.value(from.root).from == value_from::input;
    std::string why;
    if (of_input) why = "it is a view of an input";
    if (value.from == value_from::channels) {
      if (why.empty()) return put_within(v, base, value.first);
      states_[at(v)].copies.push_back({{{base, value.first, value.channels()}}, v, 0, 1, why});
      return;
    }
    bool const dense = from.row == graph_.value(base).channels();
    if (!dense && value.channels() != graph_.value(base).channels())
      why = "it is a slice, whose pixels do not lie side by side";
    if (why.empty()) return put_within(v, base, 0);
    states_[at(v)].copies.push_back({{whole(base)}, v, 0, 1, why});
  }

  void shuffle(int v) {
    graph_value const& value = graph_.value(v);
    int const base = value.parts[0];
    planned_copy c{{}, v, 0, value.shuffled, "it is shuffled"};
    if (states_[at(base)].absorbed)
      for (int part : graph_.value(base).parts) c.parts.push_back(whole(part));
    else
      c.parts.push_back(whole(base));
    states_[at(v)].copies.push_back(std::move(c));
  }
  copied_part whole(int v) const { return {v, 0, graph_.value(v).channels()}; }

  network_graph const& graph_;
  std::vector<state> states_;
};

}  // namespace sinter::inline SINTER_ABI::detail
