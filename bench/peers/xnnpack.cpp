// XNNPACK: fully connected layers, convolutions and softmax as its operators, weights packed when they are made. A bias and one
// relu or clip are part of the operator; loops do what is left.
#include <xnnpack.h>

#include <bit>
#include <cstdint>

#include "peer_steps.hpp"

namespace sinter_bench {
namespace {

// No std::numeric_limits: this file promises the compiler that nothing is infinite.
constexpr float infinity = std::bit_cast<float>(std::uint32_t{0x7f800000});

bool ready() {
  static bool const ok = xnn_initialize(nullptr) == xnn_status_success;
  return ok;
}

class xnnpack final : public peer_work {
 public:
  explicit xnnpack(peer_part const& p) : p_(p) { made_ = take_steps() && make() && set_up(); }
  ~xnnpack() override {
    if (op_ != nullptr) xnn_delete_operator(op_);
  }
  bool made() const { return made_; }
  void run() override {
    xnn_run_operator(op_, nullptr);
    if (taken_ < p_.steps.size()) apply_rows(p_, taken_, 0, p_.rows);
  }

 private:
  /// A bias, then relu or clip.
  bool take_steps() {
    using sinter::op;
    auto const next = [this] { return taken_ < p_.steps.size() ? &p_.steps[taken_] : nullptr; };
    if (auto const* s = next();
        s != nullptr && s->code == op::add && s->reads == peer_step::other::columns) {
      bias_ = s->operand;
      ++taken_;
    }
    if (auto const* s = next(); s != nullptr && (s->code == op::relu || s->code == op::clip)) {
      least_ = s->code == op::relu ? 0 : s->alpha;
      if (s->code == op::clip) most_ = s->beta;
      ++taken_;
    }
    return true;
  }
  bool make() {
    auto const size = [](long v) { return static_cast<std::size_t>(v); };
    auto const u32 = [](long v) { return static_cast<std::uint32_t>(v); };
    if (p_.what == peer_part::kind::product)
      return xnn_create_fully_connected_nc_f32(
                 size(p_.k), size(p_.n), size(p_.k), size(p_.n), p_.w, bias_, least_, most_,
                 p_.transposed_weight ? 0 : XNN_FLAG_TRANSPOSE_WEIGHTS, &op_) == xnn_status_success;
    auto const& g = p_.image;
    return xnn_create_convolution2d_nhwc_f32(
               u32(g.begin[0]), u32(g.end[1]), u32(g.end[0]), u32(g.begin[1]), u32(g.kernel_h),
               u32(g.kernel_w), u32(g.stride[0]), u32(g.stride[1]), u32(g.dilation[0]),
               u32(g.dilation[1]), u32(g.groups), size(g.channels / g.groups),
               size(g.out_channels / g.groups), size(g.channels), size(g.out_channels), p_.w, bias_,
               least_, most_, 0, &op_) == xnn_status_success;
  }
  bool set_up() {
    auto const& g = p_.image;
    auto const size = [](long v) { return static_cast<std::size_t>(v); };
    if (p_.what == peer_part::kind::product)
      return xnn_setup_fully_connected_nc_f32(op_, size(p_.rows), p_.x, p_.out, nullptr) ==
             xnn_status_success;
    return xnn_setup_convolution2d_nhwc_f32(op_, size(g.images), size(g.height), size(g.width),
                                            p_.x, p_.out, nullptr) == xnn_status_success;
  }

  peer_part p_;
  xnn_operator_t op_ = nullptr;
  float const* bias_ = nullptr;
  float least_ = -infinity;
  float most_ = infinity;
  std::size_t taken_ = 0;
  bool made_ = false;
};

}  // namespace

std::string xnnpack_version() { return "XNNPACK " SINTER_BENCH_XNNPACK_VERSION; }

std::unique_ptr<peer_work> make_xnnpack(peer_part const& p, std::string& why) {
  if (p.what == peer_part::kind::pointwise) why = "it is asked for products and convolutions only";
  if (p.batch > 1 || !p.constant_weight) why = "it is asked for packed weights only";
  if (why.empty()) why = steps_without_loop(p);
  if (why.empty() && !ready()) why = "it cannot be initialised here";
  if (!why.empty()) return nullptr;
  auto made = std::make_unique<xnnpack>(p);
  if (!made->made()) {
    why = "it makes no operator of this";
    return nullptr;
  }
  return made;
}

}  // namespace sinter_bench
