// What the tests of the run layer share: programs from text, buffers with canaries, fake backends, variables set for
// a while, warnings caught.
#pragma once

#include <doctest/doctest.h>
#include <sinter/backend/reference.hpp>
#include <sinter/plan/parse.hpp>
#include <sinter/run/dispatch.hpp>
#include <sinter/sinter.hpp>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "support/wrapped_kernel.hpp"

namespace run_test {

using program = std::shared_ptr<sinter::program_core const>;
using sinter::extent;
using sinter::shape;

inline sinter::chain parsed(std::string_view text) { return sinter::parse_chain(text).value(); }

/// Options that say nothing on stderr: the reference backend is no surprise here.
inline sinter::options quiet() {
  sinter::options o;
  o.on_fallback = sinter::policy::allow;
  o.on_split = sinter::policy::allow;
  return o;
}
inline sinter::options on_reference() {
  sinter::options o = quiet();
  o.backend = "reference";
  return o;
}
/// On one backend, or, where it is empty, the one that dispatch takes; by the numerics that all of them take.
inline sinter::options on(std::string_view backend) {
  sinter::options o = quiet();
  o.backend = backend;
  o.numerics = sinter::numerics::peer;
  return o;
}

inline sinter::options with_threads(int threads, sinter::executor& e) {
  sinter::options o = quiet();
  o.threads = threads;
  o.executor = &e;
  return o;
}

inline sinter::result<program> try_compile(std::vector<std::string> const& groups,
                                           std::vector<sinter::named_desc> const& given,
                                           sinter::options const& o = on_reference()) {
  std::vector<sinter::chain> chains;
  for (std::string const& g : groups) chains.push_back(parsed(g));
  return sinter::make_program(chains, given, o);
}
inline program compile(std::vector<std::string> const& groups,
                       std::vector<sinter::named_desc> const& given,
                       sinter::options const& o = on_reference()) {
  return try_compile(groups, given, o).value();
}

/// The program on each backend of this build that takes it. The reference takes everything.
template <class F>
void on_each_backend(std::vector<std::string> const& groups,
                     std::vector<sinter::named_desc> const& given, F&& f) {
  for (sinter::backend const* b : sinter::backends()) {
    CAPTURE(std::string(b->name()));
    auto made = try_compile(groups, given, on(b->name()));
    if (made)
      f(*made);
    else
      CHECK_MESSAGE(b->name() != "reference", made.error().message);
  }
}

inline sinter::named_desc dims(std::string_view name, std::initializer_list<extent> e) {
  return {name, shape(e), {}, {}};
}

/// The lists of one call.
struct call_lists {
  std::vector<sinter::named_view> operands;
  std::vector<sinter::packed const*> packs;
  std::vector<sinter::named_output> outputs;

  auto bind(program const& p) const { return p->bind(operands, packs, outputs); }
  auto run(program const& p) const { return p->run(operands, packs, outputs); }
};

inline sinter::packed pack(program const& p, std::string_view name, sinter::tensor_view const& v) {
  sinter::named_view const list[] = {{name, v}};
  return p->pack(list).value();
}

/// Floats between two walls of canaries; also its own content is a canary until something writes it.
class guarded {
 public:
  explicit guarded(std::size_t count, float fill = 12345.0F) : memory_(count + 2 * wall, fill) {}
  float* data() { return memory_.data() + wall; }
  std::size_t size() const { return memory_.size() - 2 * wall; }
  float& operator[](std::size_t i) { return memory_[wall + i]; }
  bool walls_intact() const {
    for (std::size_t i = 0; i < wall; ++i)
      if (memory_[i] != memory_[0] || memory_[memory_.size() - 1 - i] != memory_[0]) return false;
    return true;
  }
  /// Nothing has been written.
  bool untouched() const {
    for (float v : memory_)
      if (v != memory_[0]) return false;
    return true;
  }

 private:
  static constexpr std::size_t wall = 16;
  std::vector<float> memory_;
};

class environment {
 public:
  environment(char const* name, char const* value) : name_(name) {
    if (char const* before = std::getenv(name)) {
      before_ = before;
      had_ = true;
    }
    setenv(name, value, 1);
  }
  environment(environment const&) = delete;
  environment& operator=(environment const&) = delete;
  ~environment() {
    if (had_)
      setenv(name_, before_.c_str(), 1);
    else
      unsetenv(name_);
  }

 private:
  char const* name_;
  std::string before_;
  bool had_ = false;
};

/// Catches warnings of the process while it lives.
class caught_warnings {
 public:
  caught_warnings() : before_(sinter::set_warning_handler(&keep)) { list().clear(); }
  caught_warnings(caught_warnings const&) = delete;
  caught_warnings& operator=(caught_warnings const&) = delete;
  ~caught_warnings() { sinter::set_warning_handler(before_); }
  std::vector<std::string> const& all() const { return list(); }

 private:
  static std::vector<std::string>& list() {
    static std::vector<std::string> kept;
    return kept;
  }
  static void keep(std::string_view sentence) { list().emplace_back(sentence); }
  sinter::warning_handler before_;
};

/// One sentence of ours: the prefix, no newline, and the words that are wanted in it.
inline void check_sentence(std::string const& message,
                           std::initializer_list<std::string_view> words) {
  INFO(message);
  CHECK(message.starts_with("sinter: "));
  CHECK(message.find('\n') == std::string::npos);
  for (std::string_view w : words) {
    INFO("wanted: ", std::string(w));
    CHECK(message.find(w) != std::string::npos);
  }
}

/// A backend that wraps the reference one: refuses, fails late, says that it splits, or runs "reference code".
class fake_backend final : public sinter::backend {
 public:
  std::string_view title = "fake";
  bool refuses = false;
  std::string refusal = "sinter: the fake backend does not feel like it";
  bool fails = false;
  int stages = 1;
  std::string implementation = "fast";
  std::string key_suffix;
  bool numbered_keys = false;  ///< each kernel has a layout of its own
  mutable int built = 0;

  std::string_view name() const noexcept override { return title; }
  sinter::verdict supports(sinter::problem const&) const noexcept override {
    return refuses ? sinter::verdict::no(refusal) : sinter::verdict::yes();
  }
  sinter::result<std::shared_ptr<sinter::kernel const>> build(
      sinter::problem const& p) const override {
    if (fails)
      return sinter::failure{sinter::code::system,
                             "sinter: the fake backend fell over while building"};
    return std::shared_ptr<sinter::kernel const>(std::make_shared<fake_kernel>(*this, p));
  }

 private:
  class fake_kernel final : public sinter_test::wrapped_kernel {
   public:
    fake_kernel(fake_backend const& b, sinter::problem const& p)
        : wrapped_kernel(b.title, p),
          stages_(b.stages),
          implementation_(b.implementation),
          suffix_(b.key_suffix +
                  (b.numbered_keys ? " of kernel " + std::to_string(b.built++) : "")) {}
    std::vector<sinter::stage_note> stages() const override {
      std::vector<sinter::stage_note> notes(static_cast<std::size_t>(stages_));
      for (std::size_t i = 0; i < notes.size(); ++i)
        notes[i] = {"a part", implementation_, i == 0 ? "" : "the fake backend likes it so"};
      return notes;
    }
    std::string layout_key(int operand) const override {
      return wrapped_kernel::layout_key(operand) + suffix_;
    }

   private:
    int stages_;
    std::string implementation_, suffix_;
  };
};

inline sinter::result<program> try_compile_on(std::vector<sinter::backend const*> const& list,
                                              std::vector<std::string> const& groups,
                                              std::vector<sinter::named_desc> const& given,
                                              sinter::options const& o) {
  std::vector<sinter::chain> chains;
  for (std::string const& g : groups) chains.push_back(parsed(g));
  return sinter::make_program(chains, given, o, list);
}

}  // namespace run_test
