// A loop over arrays around one epilogue without an anchor: what puts an emitter, or a chain of
// pointwise steps, on trial. Operand i is an array (unit) or one element (broadcast); rows of
// `vectors` column vectors each.
#pragma once

#include <doctest/doctest.h>

#include <memory>
#include <sinter/isa/detect.hpp>
#include <sinter/jit/code_memory.hpp>
#include <sinter/jit/epilogue.hpp>
#include <vector>

namespace sinter_test {

namespace jit = sinter::jit;

/// Levels that code can be run for on this machine.
inline std::vector<sinter::isa> levels_here() {
  std::vector<sinter::isa> levels;
  auto const found = sinter::current_isa();
  for (sinter::isa level : {sinter::isa::avx2, sinter::isa::avx512, sinter::isa::avx512_bf16})
    if (found && sinter::runs(*found, level)) levels.push_back(level);
  return levels;
}

/// A chain of one step on operands of the given dtypes.
inline sinter::chain one_step(sinter::op code, float alpha, float beta,
                              std::vector<sinter::dtype> const& in, sinter::dtype out) {
  sinter::chain c;
  sinter::step s;
  s.code = code;
  s.alpha = alpha;
  s.beta = beta;
  for (int i = 0; i < static_cast<int>(in.size()); ++i) {
    sinter::operand o;
    o.name = std::string_view(&"abc"[i], 1);
    o.type = in[static_cast<std::size_t>(i)];
    c.operands.push_back(o);
    s.args[i] = sinter::operand_ref(i);
  }
  c.steps.push_back(s);
  c.outputs.push_back({"out", sinter::step_ref(0), out, false});
  return c;
}

class pointwise_loop {
 public:
  /// One call does one block of `vectors` column vectors (the last with `tail` lanes), or, without
  /// a tail, any number of blocks. `broadcast` is a set of operand indices.
  pointwise_loop(sinter::chain const& c, sinter::isa level, int vectors = 1, int tail = 0,
                 unsigned broadcast = 0) {
    using namespace sinter;
    REQUIRE(c.operands.size() + c.outputs.size() <= 6);
    verdict const willing = jit::epilogue::supports(c, -1, level);
    REQUIRE_MESSAGE(willing, willing.reason);
    jit::epilogue const e(c, -1);
    jit::assembler a(level);
    // rdi: the pointers, then the number of blocks. r8 to r11, rdx, rcx: pointers. rax: the
    // epilogue's.
    constexpr int pointer_registers[] = {8, 9, 10, 11, 2, 1};
    constexpr int frame = 7, rsp = 4, rax = 0, rsi = 6;
    jit::accumulator_block block;
    block.level = level;
    block.rows = 1;
    block.vectors = vectors;
    block.tail_lanes = tail;
    block.frame = frame;
    block.free_general = jit::set_of(rax);
    block.free_masks = 0xfe;
    block.free_vectors = jit::set_of_range(vectors, vector_count(level) - vectors);
    int next = 0;
    for (int i = 0; i < c.operands.ssize(); ++i)
      block.operands.push_back(
          {c.operands[i].type,
           (broadcast >> i) % 2 != 0 ? jit::columns::broadcast : jit::columns::unit, 0, -1,
           pointer_registers[next++], -1});
    for (output const& o : c.outputs)
      block.outputs.push_back({o.type, jit::columns::unit, 0, -1, pointer_registers[next++], -1});
    auto const stack = static_cast<std::uint32_t>((e.stack_bytes(level) + 63) / 64 * 64);
    block.stack_register = rsp;
    for (int i = 0; i < next; ++i)
      a.mov(jit::assembler::general(pointer_registers[i]),
            a.qword[jit::assembler::at(frame, 8 * i)]);
    a.mov(jit::assembler::general(rsi), a.qword[jit::assembler::at(frame, 8 * 6)]);
    if (stack > 0) a.sub(a.rsp, stack);
    jit::xb::Label loop;
    a.L(loop);
    e.emit(a, block);
    for (int i = 0; i < next; ++i) {
      bool const operand = i < c.operands.ssize();
      if (operand && (broadcast >> i) % 2 != 0) continue;
      dtype const t = operand ? c.operands[i].type : c.outputs[i - c.operands.ssize()].type;
      a.add(jit::assembler::general(pointer_registers[i]),
            static_cast<std::uint32_t>(vectors * jit::lanes_of(level) * size_of(t)));
    }
    a.dec(jit::assembler::general(rsi));
    a.jnz(loop, jit::assembler::T_NEAR);
    if (stack > 0) a.add(a.rsp, stack);
    a.vzeroupper();
    a.ret();
    auto code = a.finish();
    REQUIRE_MESSAGE(code, code.error().message);
    auto published = jit::code_memory::process().publish(*code);
    REQUIRE_MESSAGE(published, published.error().message);
    code_ = *published;
  }

  void run(std::vector<void const*> const& operands, std::vector<void*> const& outputs,
           std::size_t blocks) const {
    struct {
      void const* pointers[6];
      std::size_t blocks;
    } frame{{}, blocks};
    std::size_t n = 0;
    for (void const* p : operands) frame.pointers[n++] = p;
    for (void* p : outputs) frame.pointers[n++] = p;
    if (blocks > 0) code_->entry<void (*)(void const*)>()(&frame);
  }

  std::size_t code_bytes() const { return code_->bytes().size(); }

 private:
  static int vector_count(sinter::isa level) { return jit::vector_count_of(level); }
  std::shared_ptr<jit::machine_code const> code_;
};

}  // namespace sinter_test
