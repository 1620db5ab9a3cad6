// Random chains and problems from a seed: any order of ops, operands of every role, broadcasts,
// strides, several outputs, lets. A case is written as text and read by parse_chain(), so what
// failed can be pasted into a test.
#pragma once

#include <algorithm>
#include <limits>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include <sinter/plan/parse.hpp>

namespace sinter_test {
using namespace sinter;

struct random_options {
  bool matmul = true, conv = true, pointwise = true;
  extent max_extent = 24;
  extent max_columns = 0;  ///< of the last axis, convolutions apart; 0: max_extent
  int max_steps = 6;
  bool branches = true;  ///< steps that read earlier steps, lets, a second output
  bool strides = true;   ///< gaps, permuted memory, meaningless strides on axes of extent 1
  std::vector<std::string_view> precisions = {"", " [bf16]"};
  std::vector<op> ops;      ///< empty: every pointwise op
  int spatial = 0;          ///< axes of convolutions; 0: one, two or three
  bool reductions = false;  ///< and every reduction
  bool in_place = false;    ///< where an operand may be the output, it is, every other time
  bool pools = false;       ///< images that a window slides over, behind a convolution or not
  std::vector<std::string_view>
      types;  ///< dtypes that operands of pointwise steps may have of their own
};

struct random_case {
  std::string chain_text;
  problem p;
};

class random_case_maker {
 public:
  random_case_maker(std::uint64_t seed, random_options o) : random_(seed), o_(std::move(o)) {}

  random_case make() {
    start();
    int const steps = static_cast<int>(below(o_.max_steps + 1));
    for (int i = 0; i < steps || steps_ == 0; ++i) {
      if (o_.pools && from_ == 0 && domain_.ssize() == 4 && (below(3) == 0 || i + 1 == steps))
        add_pooling();
      else
        add_step();
    }
    if (o_.branches && steps_ > 1 && below(4) == 0)
      text_ += " -> out, second=%" + std::to_string(any_step());
    if (text_.find(" -> out, ") != std::string::npos)
      text_.replace(text_.find("out,"), 4, "out=%" + std::to_string(steps_ - 1) + ",");
    text_ += o_.precisions[at(o_.precisions.size())];

    chain const c = parse_chain(text_).value();
    std::vector<operand_spec> specs(c.operands.size());
    for (int i = 0; i < c.operands.ssize(); ++i) {
      auto& spec = specs[static_cast<std::size_t>(i)];
      spec = dims_[static_cast<std::size_t>(i)];
      if (spec) spec->type = c.operands[i].type;
    }
    std::vector<strides> outputs;
    if (o_.strides)
      for (int i = 0; i < c.outputs.ssize(); ++i) outputs.push_back(random_strides(domain_));
    if (o_.in_place && below(2) == 0)
      for (int i = 0; i < c.operands.ssize(); ++i)
        if (auto made = make_in_place(c, specs, outputs, i)) return {text_, std::move(*made)};
    return {text_, make_problem(c, specs, outputs).value()};
  }

 private:
  /// The problem whose operand i is the output; nothing where it cannot be.
  std::optional<problem> make_in_place(chain const& c, std::vector<operand_spec> specs,
                                       std::vector<strides> const& outputs, int i) {
    auto& spec = specs[static_cast<std::size_t>(i)];
    if (spec && !(spec->dims == domain_)) return std::nullopt;
    spec = tensor_desc{c.operands[i].type, domain_, outputs.empty() ? strides{} : outputs[0]};
    auto made = make_problem(c, specs, outputs, numerics::strict, i);
    return made.ok() ? std::optional<problem>(std::move(made.value())) : std::nullopt;
  }

  extent below(extent n) { return static_cast<extent>(random_() % static_cast<std::uint64_t>(n)); }
  std::size_t at(std::size_t n) { return static_cast<std::size_t>(random_() % n); }
  extent any_extent() { return extent_up_to(o_.max_extent); }
  extent any_columns() { return extent_up_to(o_.max_columns > 0 ? o_.max_columns : o_.max_extent); }
  extent extent_up_to(extent most) { return below(4) == 0 ? 1 + below(3) : 1 + below(most); }
  static std::string joined(shape const& s) {
    std::string t;
    for (int i = 0; i < s.ssize(); ++i) t += detail::join({i > 0 ? "x" : "", s[i]});
    return t;
  }

  /// Dense, with gaps, or with permuted axes; nonsense where the extent is 1.
  strides random_strides(shape const& dims) {
    strides s = dense_strides(dims);
    if (!o_.strides || dims.empty() || below(3) == 0) return s;
    std::vector<int> order;
    for (int i = 0; i < dims.ssize(); ++i) order.push_back(i);
    if (below(3) == 0) std::shuffle(order.begin(), order.end(), random_);
    extent next = below(4) == 0 ? 2 : 1;
    for (std::size_t i = order.size(); i-- > 0;) {
      s[order[i]] = next;
      next = next * dims[order[i]] + below(4) * below(2);
    }
    constexpr extent nonsense[] = {0, 1, 7, -1, std::numeric_limits<extent>::max()};
    for (int i = 0; i < dims.ssize(); ++i)
      if (dims[i] == 1) s[i] = nonsense[at(5)];
    return s;
  }
  std::string operand(char const* prefix, std::string const& suffix,
                      std::optional<shape> const& dims) {
    operand_spec spec;
    if (dims) spec = tensor_desc{dtype::f32, *dims, random_strides(*dims)};
    dims_.push_back(spec);
    std::string own;
    if (!suffix.empty() && !o_.types.empty() && below(3) == 0)
      own = ":" + std::string(o_.types[at(o_.types.size())]);
    return prefix + std::to_string(dims_.size()) + suffix + own;
  }

  void add_pooling() {
    if (narrow_) {
      text_ += " | add " + operand("r", ":tensor", domain_);
      narrow_ = false;
      ++steps_;
    }
    bool const whole = below(4) == 0;
    text_ += whole ? " | global_avg_pool" : below(2) == 0 ? " | max_pool(" : " | avg_pool(";
    pool_attrs a;
    for (int i = 0; i < 2; ++i) {
      a.kernel[i] = static_cast<int>(1 + below((std::min)(extent{4}, domain_[i + 1])));
      a.stride[i] = static_cast<int>(1 + below(3));
      a.pad_begin[i] = static_cast<int>(below(a.kernel[i]));
      a.pad_end[i] = static_cast<int>(below(a.kernel[i]));
    }
    auto const pair = [](int const(&v)[2]) { return joined({v[0], v[1]}); };
    op const code = whole ? op::global_avg_pool : op::max_pool;
    if (!whole) {
      a.ceil = below(2) == 0;
      text_ += "kernel=" + pair(a.kernel) + ", stride=" + pair(a.stride) +
               ", pad_begin=" + pair(a.pad_begin) + ", pad_end=" + pair(a.pad_end) +
               (a.ceil ? ", ceil" : "") + (below(2) == 0 ? ", exclude_pad)" : ")");
    }
    domain_ = shape_of(code, a, domain_).dims;
    from_ = steps_++;
  }
  /// A step of the extents that values have now.
  extent any_step() { return from_ + below(steps_ - from_); }

  void start() {
    std::vector<int> kinds;
    if (o_.matmul) kinds.push_back(0);
    if (o_.conv) kinds.push_back(1);
    if (o_.pointwise) kinds.push_back(2);
    switch (kinds[at(kinds.size())]) {
      case 0:
        start_matmul();
        break;
      case 1:
        start_conv();
        break;
      default:
        start_pointwise();
        break;
    }
  }
  void start_pointwise() {
    extent const rank = 1 + below(4);
    for (extent i = 1; i < rank; ++i) domain_.push_back(any_extent());
    domain_.push_back(any_columns());
    text_ = "linear(" + operand("x", ":tensor", domain_) + ", 1, 0)";
    steps_ = 1;
  }
  void start_matmul() {
    extent const m = any_extent(), n = any_columns(), k = any_extent();
    bool const ts = below(4) == 0, tw = below(4) == 0, tensor_weight = below(4) == 0;
    shape src, weight;
    extent const batches = below(3) == 0 ? 1 + below(2) : 0;
    for (extent i = 0; i < batches; ++i) {
      extent const b = 1 + below(3);
      extent const which = below(4);  // both, both, source only, weight only
      domain_.push_back(b);
      src.push_back(which == 3 ? 1 : b);
      if (which != 2 || !weight.empty()) weight.push_back(which == 2 ? 1 : b);
    }
    src.push_back(ts ? k : m);
    src.push_back(ts ? m : k);
    weight.push_back(tw ? n : k);
    weight.push_back(tw ? k : n);
    domain_.push_back(m);
    domain_.push_back(n);
    text_ = "matmul(" + operand("x", "", src);
    text_ += ", " + operand("w", tensor_weight ? ":tensor" : "", weight);
    text_ += std::string(ts ? ", transposed_src" : "") + (tw ? ", transposed_weight" : "") + ")";
    steps_ = 1;
  }
  void start_conv() {
    int const rank = o_.spatial > 0 ? o_.spatial : 1 + static_cast<int>(below(3));
    extent const groups = below(3) == 0 ? 1 + below(4) : 1;
    extent const in = below(4) == 0 ? 1 : 1 + below(8), out = below(4) == 0 ? 1 : 1 + below(8);
    shape src{1 + below(2)}, weight{out * groups}, stride, pad, end, dilation;
    domain_.push_back(src[0]);
    for (int i = 0; i < rank; ++i) {
      extent const k = 1 + below(3), d = 1 + below(2), s = 1 + below(3), p0 = below(3),
                   p1 = below(3);
      extent const fits = (k - 1) * d + 1 - p0 - p1;
      extent const length = (fits > 1 ? fits : 1) + below(rank == 3 ? 3 : o_.max_extent / 2);
      src.push_back(length);
      weight.push_back(k);
      stride.push_back(s);
      pad.push_back(p0);
      end.push_back(p1);
      dilation.push_back(d);
      domain_.push_back(conv_extent(length, k, s, d, p0, p1));
    }
    src.push_back(in * groups);
    weight.push_back(in);
    domain_.push_back(out * groups);
    text_ = "conv" + std::to_string(rank) + "d(" + operand("x", "", src);
    text_ += ", " + operand("w", "", weight) + ", stride=" + joined(stride) +
             ", pad_begin=" + joined(pad) + ", pad_end=" + joined(end) +
             ", dilation=" + joined(dilation) + ", groups=" + std::to_string(groups) + ")";
    steps_ = 1;
  }

  std::string other_value() {
    switch (below(o_.branches ? 7 : 6)) {
      case 0:
        return operand("b", ":vector",
                       below(2) == 0 ? std::optional<shape>(shape{domain_.back()}) : std::nullopt);
      case 1:
        return operand("s", ":scalar", std::nullopt);
      case 2:
        return operand("r", ":tensor",
                       below(2) == 0 ? std::optional<shape>(domain_) : std::nullopt);
      case 3:
      case 4: {
        shape dims;
        int const first = static_cast<int>(below(domain_.ssize()));
        for (int i = first; i < domain_.ssize(); ++i)
          dims.push_back(below(3) == 0 ? 1 : domain_[i]);
        return operand("r", ":tensor", dims);
      }
      case 5: {
        constexpr char const* constants[] = {"0.5", "-2", "1.702", "0", "3", "-0.125"};
        return constants[at(6)];
      }
      default:
        return "%" + std::to_string(any_step());
    }
  }
  static std::string parameters(op code) {
    switch (code) {
      case op::leaky_relu:
        return "(0.125)";
      case op::elu:
        return "(0.5)";
      case op::clip:
        return "(-0.75, 1.5)";
      case op::swish:
        return "(1.5)";
      case op::softplus:
        return "(2)";
      case op::pow:
        return "(0.5, 2)";
      case op::linear:
        return "(0.75, -1)";
      default:
        return "";
    }
  }
  void add_step() {
    op code = op::cast;
    if (!o_.ops.empty()) {
      code = o_.ops[at(o_.ops.size())];
    } else {
      int const end =
          o_.reductions ? static_cast<int>(op::max_pool) : static_cast<int>(op::row_sum);
      while (is_contraction(code) || (code == op::cast && below(4) != 0))
        code = static_cast<op>(below(end));
    }
    text_ += " | ";
    if (o_.branches && below(8) == 0) text_ += "let ";
    text_ += name_of(code);
    narrow_ = narrow_ || is_reduction(code);
    if (code == op::cast) text_ += "<bf16>";
    bool const piped = !o_.branches || below(4) != 0 || row_of(code).params > 0;
    if (piped) {
      text_ += parameters(code);
      for (int a = 1; a < row_of(code).arity; ++a) text_ += (a == 1 ? " " : ", ") + other_value();
    } else {
      text_ += "(%" + std::to_string(any_step());
      for (int a = 1; a < row_of(code).arity; ++a) text_ += ", " + other_value();
      text_ += ")";
    }
    ++steps_;
  }

  std::mt19937_64 random_;
  random_options o_;
  std::string text_;
  shape domain_;
  extent steps_ = 0, from_ = 0;     // of all steps; of those before the pooling
  bool narrow_ = false;             // the last value may have one column where domain_ has more
  std::vector<operand_spec> dims_;  // in order of first use, which is the chain's
};

inline random_case make_random_case(std::uint64_t seed, random_options const& o = {}) {
  return random_case_maker(seed, o).make();
}

}  // namespace sinter_test
