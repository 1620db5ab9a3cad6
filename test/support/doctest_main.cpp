// The main function of every doctest program, compiled once. It adds one thing to doctest's own: a
// program in which every case that ran was skipped (support/skip.hpp) exits with 77, which ctest shows
// as skipped. A failure always wins over a skip.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <cstdio>
#include <string>

#include "support/skip.hpp"

namespace sinter_test {
namespace {

int ran = 0;
int skipped = 0;
std::string current_case;

struct counter : doctest::IReporter {
  explicit counter(const doctest::ContextOptions&) {}
  void report_query(const doctest::QueryData&) override {}
  void test_run_start() override {}
  void test_run_end(const doctest::TestRunStats&) override {}
  void test_case_start(const doctest::TestCaseData& data) override {
    ++ran;
    current_case = data.m_name;
  }
  void test_case_reenter(const doctest::TestCaseData&) override {}
  void test_case_end(const doctest::CurrentTestCaseStats&) override {}
  void test_case_exception(const doctest::TestCaseException&) override {}
  void subcase_start(const doctest::SubcaseSignature&) override {}
  void subcase_end() override {}
  void log_assert(const doctest::AssertData&) override {}
  void log_message(const doctest::MessageData&) override {}
  void test_case_skipped(const doctest::TestCaseData&) override {}
};
REGISTER_LISTENER("sinter_skip_counter", 1, counter);

}  // namespace

void note_skip(const std::string& reason) {
  ++skipped;
  std::printf("SKIPPED: %s: %s\n", current_case.c_str(), reason.c_str());
}

int run_doctest(int argc, char** argv) {
  const int result = doctest::Context(argc, argv).run();
  const bool nothing_else = ran > 0 && skipped == ran;
  return result == 0 && nothing_else ? 77 : result;
}

}  // namespace sinter_test

// Tests ask for more memory than there is, and expect to be told so. The sanitizers take that for an error unless they
// are told otherwise.
extern "C" char const* __asan_default_options();  // NOLINT: their name
extern "C" char const* __asan_default_options() { return "allocator_may_return_null=1"; }
extern "C" char const* __tsan_default_options();  // NOLINT
extern "C" char const* __tsan_default_options() { return "allocator_may_return_null=1"; }

#ifndef SINTER_TEST_OWN_MAIN
int main(int argc, char** argv) { return sinter_test::run_doctest(argc, argv); }
#endif
