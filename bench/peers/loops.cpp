// Chains without a contraction as loops of plain C++, left to the compiler.
#include <string.h>

#include <algorithm>

#include "peer_steps.hpp"

namespace sinter_bench {
namespace {

class loops final : public peer_work {
 public:
  explicit loops(peer_part const& p) : p_(p), row_(static_cast<std::size_t>(p.columns)) {}

  void run() override {
    constexpr long piece = 1024;  // stays in L1 with what the steps read
    if (p_.reduction == sinter::op::relu) {
      for (long r = 0; r < p_.rows; ++r)
        for (long c = 0; c < p_.columns; c += piece) {
          long const n = std::min(piece, p_.columns - c);
          float* const v = p_.out + r * p_.columns + c;
          memcpy(v, p_.x + r * p_.columns + c, static_cast<std::size_t>(n) * sizeof(float));
          apply_row(p_, 0, v, r, c, n);
        }
      return;
    }
    for (long r = 0; r < p_.rows; ++r) {
      float const* from = p_.x + r * p_.columns;
      if (!p_.steps.empty()) {
        memcpy(row_.data(), from, row_.size() * sizeof(float));
        apply_row(p_, 0, row_.data(), r, 0, p_.columns);
        from = row_.data();
      }
      p_.out[r] = reduce(from);
    }
  }

 private:
  float reduce(float const* v) const {
    long const n = p_.columns;
    if (p_.reduction == sinter::op::row_max) {
      float most = v[0];
      for (long i = 1; i < n; ++i) most = v[i] > most ? v[i] : most;
      return most;
    }
    float sum = 0;
    for (long i = 0; i < n; ++i) sum += v[i];
    return p_.reduction == sinter::op::row_mean ? sum / static_cast<float>(n) : sum;
  }

  peer_part p_;
  std::vector<float> row_;
};

}  // namespace

std::string loops_version() { return "loops"; }

std::unique_ptr<peer_work> make_loops(peer_part const& p, std::string& why) {
  if (p.what != peer_part::kind::pointwise)
    why = "nobody multiplies matrices by plain loops";
  else
    why = steps_without_loop(p);
  return why.empty() ? std::make_unique<loops>(p) : nullptr;
}

}  // namespace sinter_bench
