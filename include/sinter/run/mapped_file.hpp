// A file seen as memory, read only; and a file written whole. The only place with POSIX calls for files.
//
// A mapping lives as long as the object; it is private, so nothing that others do to the pages is written back, but a
// file that is truncated while it is mapped cannot be helped (replace files by renaming, as write_file() does).
#pragma once

#include <cstddef>
#include <cstdio>
#include <memory>
#include <string>

#if defined(__unix__) || defined(__APPLE__)
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#define SINTER_DETAIL_HAS_MMAP 1
#else
#define SINTER_DETAIL_HAS_MMAP 0
#endif

#include "../base/array_view.hpp"
#include "../base/join.hpp"
#include "../base/status.hpp"

namespace sinter::inline SINTER_ABI::detail {

class mapped_file {
 public:
  static result<std::shared_ptr<mapped_file const>> open(std::string const& path);
  mapped_file(void* data, std::size_t bytes) noexcept : data_(data), bytes_(bytes) {}
  mapped_file(mapped_file const&) = delete;
  mapped_file& operator=(mapped_file const&) = delete;
  ~mapped_file();

  array_view<std::byte const> bytes() const noexcept {
    return {static_cast<std::byte const*>(data_), bytes_};
  }

 private:
  void* data_;
  std::size_t bytes_;
};

inline failure no_file(std::string const& path, std::string_view what) {
  return {code::system, join({"sinter: the file '", path, "' ", what})};
}

#if SINTER_DETAIL_HAS_MMAP
inline result<std::shared_ptr<mapped_file const>> mapped_file::open(std::string const& path) {
  int const file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return no_file(path, "cannot be opened");
  struct stat about {};
  void* data = MAP_FAILED;
  if (::fstat(file, &about) == 0 && about.st_size > 0)
    data =
        ::mmap(nullptr, static_cast<std::size_t>(about.st_size), PROT_READ, MAP_PRIVATE, file, 0);
  ::close(file);
  if (data == MAP_FAILED) return no_file(path, "cannot be mapped, or is empty");
  return std::make_shared<mapped_file const>(data, static_cast<std::size_t>(about.st_size));
}
inline mapped_file::~mapped_file() { ::munmap(data_, bytes_); }
#else
inline result<std::shared_ptr<mapped_file const>> mapped_file::open(std::string const& path) {
  return no_file(path, "cannot be mapped: this system has no mmap");
}
inline mapped_file::~mapped_file() = default;
#endif

/// Writes pieces one after the other to a file of its own, then puts that in the place of `path`.
inline status write_file(std::string const& path,
                         array_view<array_view<std::byte const> const> pieces) {
  std::string const unfinished = path + ".part";
  std::FILE* const file = std::fopen(unfinished.c_str(), "wb");
  if (file == nullptr) return no_file(unfinished, "cannot be written");
  bool good = true;
  for (array_view<std::byte const> piece : pieces)
    good =
        good && (piece.empty() || std::fwrite(piece.data(), 1, piece.size(), file) == piece.size());
  good = std::fclose(file) == 0 && good;
  good = good && std::rename(unfinished.c_str(), path.c_str()) == 0;
  if (good) return {};
  std::remove(unfinished.c_str());
  return no_file(path, "cannot be written whole");
}

}  // namespace sinter::inline SINTER_ABI::detail
