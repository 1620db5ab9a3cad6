// One state per owner and thread: found again, freed with the owner or with the thread, whichever goes first.
#include <doctest/doctest.h>
#include <sinter/run/per_thread.hpp>

#include <atomic>
#include <memory>
#include <thread>

namespace {

std::atomic<int> alive{0};
struct counted_state {
  int value = 0;
  counted_state() { ++alive; }
  ~counted_state() { --alive; }
};
using states = sinter::per_thread<counted_state>;

}  // namespace

TEST_CASE("a thread finds its own state and no other") {
  states s;
  CHECK(s.find() == nullptr);
  s.add(std::make_unique<counted_state>()).value = 1;
  REQUIRE(s.find() != nullptr);
  CHECK(s.find()->value == 1);
  std::thread([&] {
    CHECK(s.find() == nullptr);
    s.add(std::make_unique<counted_state>()).value = 2;
    CHECK(s.find()->value == 2);
    CHECK(s.size() == 2);
  }).join();
  CHECK(s.find()->value == 1);
  CHECK(s.size() == 1);  // the thread's end freed its state
  CHECK(alive == 1);
}

TEST_CASE("the owner's end frees the states of threads that live on") {
  auto s = std::make_unique<states>();
  std::atomic<int> step{0};
  std::thread other([&] {
    s->add(std::make_unique<counted_state>());
    step = 1;
    while (step != 2) std::this_thread::yield();
  });
  while (step != 1) std::this_thread::yield();
  s->add(std::make_unique<counted_state>());
  CHECK(alive == 2);
  s.reset();
  CHECK(alive == 0);
  step = 2;
  other.join();
}

TEST_CASE("an owner at the address of a dead one is a stranger") {
  alignas(states) std::byte memory[sizeof(states)];
  for (int i = 0; i < 100; ++i) {
    auto* const s = new (memory) states;
    CHECK(s->find() == nullptr);
    s->add(std::make_unique<counted_state>()).value = i;
    CHECK(s->find()->value == i);
    s->~states();
  }
  CHECK(alive == 0);
}

TEST_CASE("many owners at once, each with its own state") {
  std::vector<std::unique_ptr<states>> owners(100);
  for (auto& o : owners) o = std::make_unique<states>();
  for (int i = 99; i >= 0; --i)
    owners[static_cast<std::size_t>(i)]->add(std::make_unique<counted_state>()).value = i;
  for (int i = 0; i < 100; ++i) CHECK(owners[static_cast<std::size_t>(i)]->find()->value == i);
  owners.clear();
  CHECK(alive == 0);
}
