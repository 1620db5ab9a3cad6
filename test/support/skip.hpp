// Skipping a test case at run time, with the reason: for an ISA or a backend that this machine lacks.
//
//   TEST_CASE("matmul on amx") {
//     if (!has_amx()) SINTER_SKIP("this CPU has no AMX");
//
// The reason is printed, and a program in which every case that ran was skipped is shown as skipped by
// ctest, never as passed. Use CASES in sinter_add_test to see each case by itself.
#pragma once

#include <string>

namespace sinter_test {
void note_skip(const std::string& reason);  // defined in doctest_main.cpp
}

#define SINTER_SKIP(reason)           \
  do {                                \
    ::sinter_test::note_skip(reason); \
    return;                           \
  } while (false)
