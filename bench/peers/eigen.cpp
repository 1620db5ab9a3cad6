// Eigen: the product by its operator, the steps by its array expressions row by row.
#include <Eigen/Core>

#include "peer_steps.hpp"

namespace sinter_bench {
namespace {

using matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using map = Eigen::Map<matrix>;
using map_const = Eigen::Map<matrix const>;
using row_map = Eigen::Map<Eigen::Array<float, 1, Eigen::Dynamic>>;
using row_const = Eigen::Map<Eigen::Array<float, 1, Eigen::Dynamic> const>;

bool has_expression(sinter::op code) {
  using sinter::op;
  for (op known : {op::relu, op::clip, op::exp, op::tanh, op::sigmoid, op::gelu_tanh, op::swish,
                   op::square, op::sqrt, op::abs, op::add, op::sub, op::mul})
    if (known == code) return true;
  return false;
}

void apply(peer_step const& s, row_map v) {
  using sinter::op;
  switch (s.code) {
    case op::relu:
      v = v.max(0.0F);
      break;
    case op::clip:
      v = v.max(s.alpha).min(s.beta);
      break;
    case op::exp:
      v = v.exp();
      break;
    case op::tanh:
      v = v.tanh();
      break;
    case op::sigmoid:
      v = v.logistic();
      break;
    case op::gelu_tanh:
      v = 0.5F * v * (1.0F + (0.7978845608F * v * (1.0F + 0.044715F * v * v)).tanh());
      break;
    case op::swish:
      v = v * (s.alpha * v).logistic();
      break;
    case op::square:
      v = v * v;
      break;
    case op::sqrt:
      v = v.sqrt();
      break;
    case op::abs:
      v = v.abs();
      break;
    default:
      break;
  }
}

template <class Other>
void apply(sinter::op code, row_map v, Other const& other) {
  if (code == sinter::op::add) v = v + other;
  if (code == sinter::op::sub) v = v - other;
  if (code == sinter::op::mul) v = v * other;
}

void apply_all(peer_part const& p, float* data, long row, long column, long n) {
  row_map v(data, n);
  for (peer_step const& s : p.steps) {
    if (s.reads == peer_step::other::nothing)
      apply(s, v);
    else if (s.reads == peer_step::other::number)
      apply(s.code, v, row_const::PlainObject::Constant(n, s.number));
    else
      apply(s.code, v,
            row_const(s.operand + column + (s.reads == peer_step::other::all ? row * p.columns : 0),
                      n));
  }
}

class eigen final : public peer_work {
 public:
  explicit eigen(peer_part const& p) : p_(p) {}
  void run() override {
    if (p_.reduction != sinter::op::relu) return reduce();
    for (long i = 0; i < p_.batch && p_.what == peer_part::kind::product; ++i) {
      map_const const x(p_.x + i * p_.m * p_.k, p_.m, p_.k);
      map out(p_.out + i * p_.m * p_.n, p_.m, p_.n);
      if (p_.transposed_weight)
        out.noalias() = x * map_const(p_.w + i * p_.n * p_.k, p_.n, p_.k).transpose();
      else
        out.noalias() = x * map_const(p_.w + i * p_.n * p_.k, p_.k, p_.n);
    }
    constexpr long piece = 1024;  // stays in L1 with what the steps read
    for (long r = 0; r < p_.rows; ++r)
      for (long c = 0; c < p_.columns; c += piece) {
        long const n = std::min(piece, p_.columns - c);
        float* const v = p_.out + r * p_.columns + c;
        if (p_.what == peer_part::kind::pointwise)
          row_map(v, n) = row_const(p_.x + r * p_.columns + c, n);
        apply_all(p_, v, r, c, n);
      }
  }

 private:
  void reduce() {
    map_const const x(p_.x, p_.rows, p_.columns);
    Eigen::Map<Eigen::VectorXf> out(p_.out, p_.rows);
    if (p_.reduction == sinter::op::row_max) out = x.rowwise().maxCoeff();
    if (p_.reduction == sinter::op::row_sum) out = x.rowwise().sum();
    if (p_.reduction == sinter::op::row_mean) out = x.rowwise().mean();
  }
  peer_part p_;
};

}  // namespace

std::string eigen_version() {
  return "Eigen " + std::to_string(EIGEN_WORLD_VERSION) + "." +
         std::to_string(EIGEN_MAJOR_VERSION) + "." + std::to_string(EIGEN_MINOR_VERSION);
}

std::unique_ptr<peer_work> make_eigen(peer_part const& p, std::string& why) {
  if (p.what == peer_part::kind::convolution) why = "it has no convolution";
  if (p.reduction != sinter::op::relu && !p.steps.empty()) why = "its reduction is asked for alone";
  for (peer_step const& s : p.steps)
    if (!has_expression(s.code))
      why = "its expressions here have no " + std::string(sinter::row_of(s.code).name);
  return why.empty() ? std::make_unique<eigen>(p) : nullptr;
}

}  // namespace sinter_bench
