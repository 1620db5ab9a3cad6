// Environment variables: understood or refused, read each time, and documented.
#include <doctest/doctest.h>
#include <sinter/base/env.hpp>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "isa_scoped_env.hpp"

using sinter::env;
using sinter::env_row;
using sinter_test::scoped_env;

namespace {

std::string content_of(std::filesystem::path const& path) {
  std::ifstream file(path);
  REQUIRE_MESSAGE(file, path.string());
  return {std::istreambuf_iterator<char>(file), {}};
}

/// The row of docs/environment.md, a whole line.
std::string page_row(env_row const& row) {
  std::string values(row.value);
  for (std::string_view word : row.words)
    values.append(values.empty() ? "`" : ", `").append(word).append("`");
  std::string text = "\n| `";
  text.append(row.name).append("` | ").append(values).append(" | ").append(row.meaning);
  return text.append(" |\n");
}

}  // namespace

TEST_CASE("each word of each variable is its own index") {
  for (env_row const& row : sinter::env_table) {
    CAPTURE(row.name);
    for (int i = 0; i < row.words.ssize(); ++i) {
      scoped_env const set(row.name, std::string(row.words[i]).c_str());
      auto const chosen = env_choice(row.code);
      REQUIRE(chosen.ok());
      REQUIRE(chosen.value().has_value());
      CHECK(*chosen.value() == i);
      CHECK(sinter::check_environment().ok());
    }
  }
}

TEST_CASE("unset and empty are the same: nothing") {
  for (env_row const& row : sinter::env_table)
    for (char const* value : {static_cast<char const*>(nullptr), ""}) {
      scoped_env const set(row.name, value);
      auto const chosen = env_choice(row.code);
      REQUIRE(chosen.ok());
      CHECK_FALSE(chosen.value().has_value());
      CHECK_FALSE(env_text(row.code).has_value());
    }
}

TEST_CASE("what is not understood is an error that lists the right words") {
  {
    scoped_env const set("SINTER_MAX_ISA", "avx3");
    auto const chosen = env_choice(env::max_isa);
    REQUIRE_FALSE(chosen.ok());
    CHECK(chosen.error().what == sinter::code::bad_environment);
    CHECK(chosen.error().message ==
          "sinter: SINTER_MAX_ISA is 'avx3'; wanted one of reference, avx2, avx512, avx512_bf16, "
          "amx");
    CHECK(sinter::check_environment().error().message == chosen.error().message);
  }
  CHECK(sinter::check_environment().ok());
  {
    scoped_env const set("SINTER_JIT_PROFILE", "vtune");
    CHECK(env_choice(env::jit_profile).error().message ==
          "sinter: SINTER_JIT_PROFILE is 'vtune'; wanted perf");
  }
  for (env_row const& row : sinter::env_table) {
    if (row.words.empty()) continue;
    std::string const word(row.words[0]);
    for (std::string const& wrong :
         {word + " ", " " + word, word + "x", std::string("-1"), word + "\n"}) {
      scoped_env const set(row.name, wrong.c_str());
      auto const chosen = env_choice(row.code);
      CAPTURE(wrong);
      REQUIRE_FALSE(chosen.ok());
      CHECK(chosen.error().message.find("sinter: " + std::string(row.name) + " is '" + wrong +
                                        "'") == 0);
      for (std::string_view right : row.words)
        CHECK(chosen.error().message.find(right) != std::string::npos);
      CHECK(sinter::check_environment().error().what == sinter::code::bad_environment);
    }
  }
}

TEST_CASE("any text is taken where the table has no words") {
  scoped_env const set("SINTER_JIT_DUMP", "some/prefix ");
  CHECK(env_text(env::jit_dump) == "some/prefix ");
  CHECK(sinter::check_environment().ok());
}

TEST_CASE("docs/environment.md holds the table and nothing more") {
  std::string const page =
      content_of(std::filesystem::path(SINTER_SOURCE_DIR) / "docs" / "environment.md");
  for (env_row const& row : sinter::env_table) {
    CAPTURE(page_row(row));
    CHECK(page.find(page_row(row)) != std::string::npos);
  }
  int rows = 0;
  for (std::size_t at = page.find("\n| `SINTER_"); at != std::string::npos;
       at = page.find("\n| `SINTER_", at + 1))
    ++rows;
  CHECK(rows == sinter::env_count);
}

TEST_CASE("no header but base/env.hpp reads the environment") {
  std::filesystem::path const root =
      std::filesystem::path(SINTER_SOURCE_DIR) / "include" / "sinter";
  int headers = 0;
  for (auto const& entry : std::filesystem::recursive_directory_iterator(root)) {
    if (entry.path().extension() != ".hpp") continue;
    ++headers;
    bool const is_env = entry.path() == root / "base" / "env.hpp";
    CAPTURE(entry.path().string());
    CHECK((content_of(entry.path()).find("getenv(") != std::string::npos) == is_env);
  }
  CHECK(headers > 10);
}
