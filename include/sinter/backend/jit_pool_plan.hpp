// The JIT backend's poolings: which problems it takes, and where everything lies in a call.
//
// A pooling here is the first step of its chain and reads an operand; what comes before it in a group is cut off by
// backend/pool_split.hpp and runs first. Any strides but along the channels, where elements lie side by side; batch and
// image may be dynamic. Read backend/jit_pool.hpp for the calls.
#pragma once

#include <string>

#include "../jit/pool.hpp"
#include "../plan/pool_shape.hpp"
#include "jit_conv_plan.hpp"

namespace sinter::inline SINTER_ABI::jit {

struct pool_plan {
  pool_shape shape;
  epilogue_accesses accesses;
  op code = op::max_pool;
  pool_attrs attrs;
  int src = 0;  ///< operand of the chain
  extent channels = 0;
};

/// Where everything lies in one call: bytes.
struct pool_geometry {
  extent images = 0;
  pool_axis y, x;
  extent rows = 0, columns = 0;  ///< windows
  conv_geometry::strides src;
  conv_geometry::strides accesses[max_operands + max_outputs];
  bool empty() const { return images == 0; }
};

/// `p` has no dynamic extent.
inline pool_geometry geometry_of(pool_plan const& plan, problem const& p) {
  using detail::at;
  pool_geometry g;
  tensor_desc const& src = p.operands[at(plan.src)];
  g.images = p.domain[0];
  g.y = pool_axis_of(plan.code, plan.attrs, 0, src.dims[1]);
  g.x = pool_axis_of(plan.code, plan.attrs, 1, src.dims[2]);
  g.rows = p.domain[1];
  g.columns = p.domain[2];
  g.src = detail::image_strides(src);
  for (int i = 0; i < plan.accesses.ssize(); ++i)
    g.accesses[i] = detail::image_strides(detail::desc_of(p, plan.accesses[i]));
  return g;
}

/// A pooling of an operand and steps behind it.
inline verdict supports_pool(problem const& p, isa level) {
  chain const& c = p.chain;
  step const& s = c.steps[0];
  if (verdict v = epilogue::supports(c, 0, level); !v) return v;
  tensor_desc const& src = p.operands[detail::at(s.args[0].index)];
  std::string const who = "operand " + detail::in_quotes(c.operands[int{s.args[0].index}].name);
  if (!is_floating(src.type))
    return detail::refuse(who + " of " + std::string(name_of(s.code)) + " is " +
                          std::string(name_of(src.type)) + "; f32, bf16 or f16 is wanted");
  if (verdict v = detail::check_columns(who, src, src.dims.back(), true); !v) return v;
  return detail::check_matmul_layout(p, epilogue(c, 0));
}

/// Only where supports_pool() says yes.
inline pool_plan plan_pool(problem const& p, epilogue const& e, isa level) {
  step const& s = p.chain.steps[0];
  pool_plan plan;
  plan.code = s.code;
  plan.attrs = p.chain.window(s);
  plan.src = s.args[0].index;
  plan.channels = p.domain.back();
  plan.shape.level = level;
  plan.shape.largest = s.code == op::max_pool;
  plan.shape.keeps_nan = p.numerics == numerics::strict;
  plan.shape.src = p.operands[detail::at(plan.src)].type;
  plan.shape.full_panels = plan.channels >= plan.shape.width();
  plan.shape.tail_columns = static_cast<int>(plan.channels % plan.shape.width());
  plan.accesses = detail::accesses_of(p, e);
  return plan;
}

}  // namespace sinter::inline SINTER_ABI::jit
