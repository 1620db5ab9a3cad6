// What a function that can refuse gives back: a verdict (yes, or no with a sentence), a failure, a result<T>.
//
// The sentence begins with "sinter:", names the operand, what was given and what is wanted. Nothing in the library
// swallows one: a verdict is kept and shown by explain(), an error reaches the caller as an exception of type
// sinter::exception, or inside a result<T> from the try_ functions (the only form under -fno-exceptions).
#pragma once

#include <cstdio>
#include <cstdlib>
#include <new>
#include <string>
#include <utility>

#include "../config.hpp"
#if SINTER_EXCEPTIONS
#include <stdexcept>
#endif

namespace sinter::inline SINTER_ABI {

enum class code : unsigned char {
  ok,
  unsupported,  ///< right in itself, but this backend, CPU or build cannot do it
  bad_argument,  ///< the caller gave something wrong: null, dtype, rank, extent, stride, overlap, name
  bad_environment,  ///< an environment variable holds a value that is not understood
  out_of_memory,
  system,  ///< the operating system or a library underneath failed
};

/// Yes, or no with a sentence.
struct verdict {
  code what = code::ok;
  std::string reason;

  static verdict yes() { return {}; }
  static verdict no(std::string why, code what = code::unsupported) {
    return {what, std::move(why)};
  }
  explicit operator bool() const noexcept { return what == code::ok; }
};

struct failure {
  code what = code::bad_argument;
  std::string message;
};

#if SINTER_EXCEPTIONS
class exception : public std::runtime_error {
 public:
  explicit exception(failure e) : std::runtime_error(e.message), what_(e.what) {}
  code kind() const noexcept { return what_; }

 private:
  code what_;
};
#endif

/// Throws sinter::exception; prints the sentence and aborts where exceptions are switched off.
[[noreturn]] inline void raise(failure e) {
#if SINTER_EXCEPTIONS
  throw exception(std::move(e));
#else
  std::fprintf(stderr, "%s\n", e.message.c_str());
  std::abort();
#endif
}

/// A value or the error that took its place. Moved, never copied.
template <class T>
class [[nodiscard]] result {
 public:
  result(T taken) : value_(std::move(taken)), ok_(true) {}     // NOLINT: implicit on purpose
  result(failure why) : error_(std::move(why)), ok_(false) {}  // NOLINT: implicit on purpose
  result(result&& other) : ok_(other.ok_) {
    if (ok_)
      ::new (static_cast<void*>(&value_)) T(std::move(other.value_));
    else
      ::new (static_cast<void*>(&error_)) failure(std::move(other.error_));
  }
  result& operator=(result&& other) {
    if (this != &other) {
      this->~result();
      ::new (static_cast<void*>(this)) result(std::move(other));
    }
    return *this;
  }
  ~result() {
    if (ok_)
      value_.~T();
    else
      error_.~failure();
  }

  bool ok() const noexcept { return ok_; }
  explicit operator bool() const noexcept { return ok(); }

  /// The value. Raises the error if there is none.
  T& value() & {
    if (!ok()) raise(error_);
    return value_;
  }
  T const& value() const& {
    if (!ok()) raise(error_);
    return value_;
  }
  T&& value() && {
    if (!ok()) raise(std::move(error_));
    return std::move(value_);
  }
  T& operator*() & { return value(); }
  T const& operator*() const& { return value(); }
  T* operator->() { return &value(); }
  T const* operator->() const { return &value(); }

  /// The error. Only where ok() is false.
  failure const& error() const { return error_; }

 private:
  union {  // by hand: std::optional, and std::variant more so, costs each includer a quarter of a second
    T value_;
    failure error_;
  };
  bool ok_;
};

/// Success or an error, for functions that give nothing back.
class [[nodiscard]] status {
 public:
  status() = default;
  status(failure why) : error_(std::move(why)) {}  // NOLINT: implicit on purpose
  bool ok() const noexcept { return error_.what == code::ok; }
  explicit operator bool() const noexcept { return ok(); }
  failure const& error() const noexcept { return error_; }
  /// Raises the error if there is one.
  void check() const {
    if (!ok()) raise(error_);
  }

 private:
  failure error_{code::ok, {}};
};

}  // namespace sinter::inline SINTER_ABI
