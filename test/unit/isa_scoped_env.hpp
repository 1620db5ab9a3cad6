// An environment variable that has another value, or none, as long as this lives.
#pragma once

#include <cstdlib>
#include <optional>
#include <string>

namespace sinter_test {

class scoped_env {
 public:
  scoped_env(char const* name, char const* value) : name_(name) {
    if (char const* old = std::getenv(name)) before_ = old;
    put(value);
  }
  scoped_env(scoped_env const&) = delete;
  scoped_env& operator=(scoped_env const&) = delete;
  ~scoped_env() { put(before_ ? before_->c_str() : nullptr); }

 private:
  void put(char const* value) {
    if (value != nullptr)
      ::setenv(name_, value, 1);
    else
      ::unsetenv(name_);
  }
  char const* name_;
  std::optional<std::string> before_;
};

}  // namespace sinter_test
