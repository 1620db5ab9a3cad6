// Graph -> network_plan: places values, makes each problem, asks dispatch once for equal ones, packs, plans the arena.
//
// The result is a program_plan like that of compile(), with constants of its own and slices of arena items, so calls,
// threads and dynamic extents are those of any program (run/call_state.hpp). Time is the index of a group. Nothing
// here runs a kernel.
#pragma once

#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>
#include <vector>

#include "network_copy.hpp"
#include "network_layout.hpp"
#include "network_plan.hpp"
#include "network_weights.hpp"
#include "program_builder.hpp"
#include "stretch_builder.hpp"
#include "strip_builder.hpp"

namespace sinter::inline SINTER_ABI::detail {

class network_planner {
 public:
  network_planner(network_graph& graph, std::vector<named_index> outputs, backend_list backends)
      : graph_(graph), outputs_(std::move(outputs)), backends_(backends) {}

  result<std::shared_ptr<network_plan>> run() {
    auto const start = std::chrono::steady_clock::now();
    if (status st = take_options(*program_, graph_.options, backends_); !st.ok()) return st.error();
    network_layout const layout(graph_, outputs_);
    layout_ = &layout;
    items_of_.assign(graph_.values.size(), -1);
    describe_ends();
    for (graph_event const& e : graph_.events) {
      status st = e.is_group ? add_block(graph_.groups[at(e.index)]) : add_copies(e.index);
      if (!st.ok()) return st.error();
    }
    if (status st = add_outputs(); !st.ok()) return st.error();
    if (status st = plan_memory(); !st.ok()) return st.error();
    plan_->milliseconds = milliseconds_since(start);
    plan_->program = std::move(program_);
    return std::move(plan_);
  }

 private:
  static double milliseconds_since(std::chrono::steady_clock::time_point start) {
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
        .count();
  }

  /// Slots of inputs and outputs, and which outputs a group can write by itself.
  void describe_ends() {
    for (graph_value const& v : graph_.values)
      if (v.from == value_from::input) program_->inputs.push_back({name_text(v.name), -1, -1});
    for (named_index const& o : outputs_) {
      program_->outputs.push_back({o.name, -1, -1});
      location const l = layout_->find(o.value);
      bool const direct = graph_.value(o.value).from == value_from::group && l.root == o.value &&
                          layout_->readers(o.value) == 1;
      direct_.push_back(direct);
    }
  }
  int direct_output(int value) const {
    for (std::size_t i = 0; i < outputs_.size(); ++i)
      if (outputs_[i].value == value && direct_[i]) return static_cast<int>(i);
    return -1;
  }

  /// Strides of a value of these extents whose pixels are `row` elements apart; none where it is dense.
  static strides strides_of(shape const& dims, extent row) {
    return dims.empty() || row == dims.back() ? strides{} : pixel_strides(dims, row);
  }
  tensor_desc desc_of(int value, location const& l) const {
    graph_value const& v = graph_.value(value);
    return {v.type, v.dims, strides_of(v.dims, l.row)};
  }

  // ---- places

  int item_of(int root, int g, int output, shape const& made) {
    int& item = items_of_[at(root)];
    if (item < 0) {
      graph_value const& v = graph_.value(root);
      bool const moves = is_dynamic(v.dims);
      item = add_item(moves ? 0 : static_cast<std::size_t>(element_count(v.dims) * size_of(v.type)),
                      g);
      bool const part = moves && made.size() == v.dims.size() && v.channels() != dynamic;
      program_->makers[at(item)] = {g, output, part ? v.channels() : -1};
    }
    program_->items[at(item)].last = g;
    return item;
  }
  int add_item(std::size_t bytes, int g) {
    program_->items.push_back({bytes, g, g, 0});
    program_->makers.emplace_back();
    return static_cast<int>(program_->items.size()) - 1;
  }
  std::size_t bytes_to(int root, extent channel) const {
    return static_cast<std::size_t>(channel * size_of(graph_.value(root).type));
  }
  /// Where group g reads a value, its operand `index`.
  place read_place(location const& l, int g, int index) {
    if (graph_.value(l.root).from == value_from::input) {
      int slot = 0;
      for (int i = 0; i < l.root; ++i)
        if (graph_.value(i).from == value_from::input) ++slot;
      input_slot& s = program_->inputs[at(slot)];
      if (s.group < 0 && l.first == 0 && index >= 0) {
        s.group = g;
        s.operand = index;
      }
      return {source::input, slot, bytes_to(l.root, l.first)};
    }
    int const item = items_of_[at(l.root)];
    program_->items[at(item)].last = g;
    return {source::arena, item, bytes_to(l.root, l.first)};
  }
  place write_place(int value, location const& l, int g, int index, shape const& made) {
    if (int const slot = direct_output(value); slot >= 0) {
      program_->outputs[at(slot)].group = g;
      program_->outputs[at(slot)].output = index;
      return {source::output, slot, 0};
    }
    return {source::arena, item_of(l.root, g, index, made), bytes_to(l.root, l.first)};
  }

  // ---- groups

  /// The block without outputs that nothing reads, where another one stays: a value that is wanted in another dtype
  /// only is not stored twice.
  block_group without_unread(block_group const& b) const {
    block_group r = b;
    r.values.clear();
    r.chain.outputs.clear();
    for (std::size_t i = 0; i < b.values.size(); ++i) {
      bool const last = i + 1 == b.values.size() && r.values.empty();
      if (layout_->readers(b.values[i]) == 0 && !last) continue;
      r.values.push_back(b.values[i]);
      r.chain.outputs.push_back(b.chain.outputs[static_cast<int>(i)]);
    }
    return r;
  }

  status add_block(block_group const& recorded) {
    block_group const b = without_unread(recorded);
    int const g = static_cast<int>(program_->groups.size());
    operand_spec specs[max_operands];
    for (std::size_t i = 0; i < b.operands.size(); ++i) {
      block_operand const& o = b.operands[i];
      specs[i] =
          o.value >= 0
              ? desc_of(o.value, layout_->find(o.value))
              : tensor_desc{b.chain.operands[i].type, graph_.constants[at(o.constant)].dims(), {}};
    }
    strides output_strides[max_outputs];
    for (std::size_t i = 0; i < b.values.size(); ++i)
      output_strides[i] =
          strides_of(graph_.value(b.values[i]).dims, layout_->find(b.values[i]).row);
    auto made = make_problem(b.chain, array_view(specs, b.operands.size()),
                             array_view(output_strides, b.values.size()), program_->numerics);
    if (!made) return in_block(b.label, made.error());
    if (status st = choose(std::move(*made), b.label); !st.ok()) return st;
    for (std::size_t i = 0; i < b.operands.size(); ++i) {
      auto p = operand_place(b, static_cast<int>(i), g);
      if (!p) return in_block(b.label, p.error());
      program_->groups.back().operands.push_back(*p);
    }
    for (std::size_t i = 0; i < b.values.size(); ++i) {
      graph_value const& v = graph_.value(b.values[i]);
      program_->groups.back().outputs.push_back(
          write_place(b.values[i], layout_->find(b.values[i]), g, static_cast<int>(i), v.dims));
    }
    program_->groups.back().scratch =
        add_item(program_->groups.back().chosen.kernel->scratch_bytes(), g);
    return {};
  }
  static failure in_block(std::string_view label, failure const& why) {
    return {why.what,
            join({"sinter: block ", in_quotes(label), ": ", without_prefix(why.message)})};
  }

  /// A kernel for the problem: that of an equal one, or what dispatch chooses.
  status choose(problem p, std::string const& label) {
    p.max_isa = graph_.options.max_isa;
    if (graph_.options.threads > 1 && graph_.options.executor->is_openmp())
      p.openmp_threads = graph_.options.threads;
    program_->dynamic = program_->dynamic || is_dynamic(p);
    std::uint64_t const key = hash(p);
    for (known_problem const& known : known_)
      if (known.key == key && program_->group(known.group).problem == p) {
        selection same = program_->group(known.group).chosen;
        add_group(std::move(p), std::move(same), label);
        return {};
      }
    auto chosen = select(p, graph_.options, program_->said, backends_);
    if (!chosen) return in_block(label, chosen.error());
    known_.push_back({key, static_cast<int>(program_->groups.size())});
    ++plan_->kernels;
    add_group(std::move(p), std::move(*chosen), label);
    return {};
  }
  void add_group(problem p, selection s, std::string label) {
    program_->groups.push_back({std::move(p), std::move(s), {}, {}, -1});
    plan_->labels.push_back(std::move(label));
  }

  result<place> operand_place(block_group const& b, int i, int g) {
    block_operand const& o = b.operands[at(i)];
    if (o.value >= 0) return read_place(layout_->find(o.value), g, i);
    auto const start = std::chrono::steady_clock::now();
    group_plan const& group = program_->group(g);
    auto found =
        plan_->weights.constant(graph_.constants[at(o.constant)], group, i, graph_.file.get());
    plan_->packing_milliseconds += milliseconds_since(start);
    if (!found) return found.error();
    program_->constants.push_back(found->data);
    program_->kept.push_back(found->kept);
    return place{source::constant, static_cast<int>(program_->constants.size()) - 1, 0};
  }

  // ---- copies

  status add_copies(int value) {
    for (planned_copy const& c : layout_->copies(value)) {
      graph_value const& target = graph_.value(c.to);
      location to = layout_->find(c.to);
      if (target.from == value_from::flatten) to.row = graph_.value(c.parts[0].value).channels();
      to.first += c.first;
      int const said = c.groups > 1 ? target.parts[0] : c.parts[0].value;
      std::string const what = join({graph_.value(said).name, " into ", target.name, ": ", c.why});
      if (status st = add_copy(c, to, what, -1); !st.ok()) return st;
    }
    return {};
  }
  /// The outputs that no group writes by itself.
  status add_outputs() {
    for (std::size_t i = 0; i < outputs_.size(); ++i) {
      if (direct_[i]) continue;
      int const v = outputs_[i].value;
      graph_value const& value = graph_.value(v);
      std::string const what = join({value.name, " into output ", in_quotes(outputs_[i].name),
                                     ": other groups read it, or no group writes it by itself"});
      planned_copy const c{{{v, 0, value.channels()}}, v, 0, 1, {}};
      if (status st = add_copy(c, {v, 0, value.channels()}, what, static_cast<int>(i)); !st.ok())
        return st;
    }
    for (input_slot const& s : program_->inputs)
      if (s.group < 0) return bad({"input ", in_quotes(s.name), " is read by no block"});
    return {};
  }
  /// `output`: the slot that is written instead of the arena, or -1. The problem says how many pixels there are and what
  /// is read; what is written where is the kernel's.
  status add_copy(planned_copy const& c, location const& to, std::string const& what, int output) {
    int const g = static_cast<int>(program_->groups.size());
    dtype const type = graph_.value(c.to).type;
    copy_shape pass;
    pass.element = size_of(type);
    pass.groups = c.groups;
    pass.to_row = to.row;
    tensor_desc specs[max_operands];
    std::vector<extent> counts;
    for (std::size_t i = 0; i < c.parts.size(); ++i) {
      specs[i] = copied_desc(c.parts[i]);
      counts.push_back(c.parts[i].count);
      pass.rows.push_back(layout_->find(c.parts[i].value).row);
      pass.channels += c.parts[i].count;
    }
    if (specs[0].dims.size() == 4) {
      pass.height = specs[0].dims[1];
      pass.width = specs[0].dims[2];
    }
    pass.runs = interleaved_runs(counts, c.groups);
    for (copy_run& r : pass.runs)
      for (copy_source& s : r.sources) s.first += first_channel(c.parts[at(s.operand)]);
    auto made = copy_problem(type, array_view(specs, c.parts.size()));
    if (!made) return made.error();
    bool const moves = is_dynamic(specs[0].dims);
    if (!moves)
      pass.pixels = element_count(specs[0].dims) / (std::max)(specs[0].dims.back(), extent{1});
    program_->dynamic = program_->dynamic || moves;
    selection s;
    s.kernel = std::make_shared<copy_kernel>(std::move(pass), what);
    s.stages = s.kernel->stages();
    s.choice = "a network copies where no producer can write";
    add_group(std::move(*made), std::move(s), join({"copy ", what}));
    group_plan& group = program_->groups.back();
    for (std::size_t i = 0; i < c.parts.size(); ++i) {
      location const whole{layout_->find(c.parts[i].value).root, 0, 0};
      group.operands.push_back(read_place(whole, g, static_cast<int>(i)));
    }
    if (output >= 0) {
      program_->outputs[at(output)].group = g;
      program_->outputs[at(output)].output = 0;
      group.outputs.push_back({source::output, output, 0});
    } else {
      group.outputs.push_back(
          {source::arena, item_of(to.root, g, 0, specs[0].dims), bytes_to(to.root, to.first)});
    }
    group.scratch = add_item(0, g);
    ++plan_->copies;
    return {};
  }
  /// Pointwise in the first operand; the others are no step's, only the kernel reads them.
  result<problem> copy_problem(dtype type, array_view<tensor_desc const> read) const {
    operand_spec const first = read[0];
    auto made = make_problem(cast_chain(type, type), array_view(&first, 1), {}, program_->numerics);
    for (std::size_t i = 1; made.ok() && i < read.size(); ++i) {
      operand const& like = made->chain.operands[0];
      made->operands[i] = read[i];
      if (status st = complete_layout("operand", like.name, made->operands[i]); !st.ok())
        return st.error();
      made->chain.operands.push_back(like);
    }
    return made;
  }
  /// What is read of a part: an input as a whole, since the first operand that reads it describes it to the caller.
  tensor_desc copied_desc(copied_part const& part) const {
    location const from = layout_->find(part.value);
    graph_value const& root = graph_.value(from.root);
    shape dims = graph_.value(part.value).dims;
    dims.back() = root.from == value_from::input ? root.channels() : part.count;
    return {root.type, dims, strides_of(dims, from.row)};
  }
  extent first_channel(copied_part const& part) const {
    return layout_->find(part.value).first + part.skip;
  }

  // ---- memory

  status plan_memory() {
    for (std::size_t i = 0; i < program_->items.size(); ++i)
      if (program_->makers[i].group >= 0) plan_->memory.intermediates += program_->items[i].bytes;
    strip_builder(*program_, graph_.options).run();
    stretch_builder(*program_, graph_.options).run();
    std::vector<int> order(program_->items.size());
    program_->arena_bytes = plan_arena(program_->items, order);
    if (program_->arena_bytes == arena_overflow)
      return bad("the intermediates have more than 2^63 - 1 bytes");
    plan_->memory.arena = program_->arena_bytes;
    plan_->memory.least = least_arena(program_->items);
    return {};
  }

  struct known_problem {
    std::uint64_t key;
    int group;
  };

  network_graph& graph_;
  std::vector<named_index> outputs_;
  backend_list backends_;
  network_layout const* layout_ = nullptr;
  std::shared_ptr<program_plan> program_ = std::make_shared<program_plan>();
  std::shared_ptr<network_plan> plan_ = std::make_shared<network_plan>();
  std::vector<int> items_of_;  ///< by value: the item of a root
  std::vector<bool> direct_;
  std::vector<known_problem> known_;
};

}  // namespace sinter::inline SINTER_ABI::detail
