// The file of packed weights: what network::save() writes and network_builder::packed_from() maps.
//
// Layout, little endian: a header of 64 bytes (magic, format, sizes, checksum of the table), the table, payloads on
// 64-byte boundaries. The table says the library's version, the instructions that the layouts are for, what the weight
// source was asked (name, dtype, extents, or that it had none), and for each constant its key, layout, place and
// checksum. All of it is checked before anything is used: a file of another version or CPU, a truncated one, a damaged
// one is refused with a sentence. A constant that the file does not have belongs to another network.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "../core/buffer.hpp"
#include "../core/tensor_view.hpp"
#include "../plan/layout.hpp"
#include "mapped_file.hpp"

namespace sinter::inline SINTER_ABI::detail {

/// One constant in one layout.
struct packed_entry {
  std::string key, layout;
  void const* data = nullptr;
  std::size_t bytes = 0;
  std::shared_ptr<void const> kept;
};
/// One answer of the weight source.
struct source_entry {
  std::string name;
  bool found = false;
  dtype type = dtype::f32;
  shape dims;
};

struct file_header {
  char magic[8] = {'S', 'I', 'N', 'T', 'E', 'R', 'P', 'K'};
  std::uint32_t format = 1;
  std::uint32_t entries = 0;
  std::uint64_t file_bytes = 0, table_bytes = 0, table_sum = 0;
  std::uint64_t unused[3] = {};
};
static_assert(sizeof(file_header) == 64);

/// Four lanes of multiply and rotate over words of 8 bytes: finds damage, does not resist an attacker.
inline std::uint64_t checksum(array_view<std::byte const> bytes) {
  constexpr std::uint64_t prime = 0x9e3779b97f4a7c15ULL;
  std::uint64_t lanes[4] = {1, 2, 3, 4};
  auto const mix = [](std::uint64_t lane, std::uint64_t word) {
    lane = (lane ^ word) * prime;
    return (lane << 29) | (lane >> 35);
  };
  std::size_t i = 0;
  for (; i + 32 <= bytes.size(); i += 32) {
    std::uint64_t words[4];
    std::memcpy(words, bytes.data() + i, 32);
    for (int l = 0; l < 4; ++l) lanes[l] = mix(lanes[l], words[l]);
  }
  for (; i < bytes.size(); ++i) lanes[0] = mix(lanes[0], std::to_integer<std::uint64_t>(bytes[i]));
  std::uint64_t sum = bytes.size();
  for (std::uint64_t lane : lanes) sum = mix(sum, lane);
  return sum;
}

/// Appends numbers and texts to a table.
class table_writer {
 public:
  std::vector<std::byte> bytes;

  void number(std::uint64_t v) {
    for (int i = 0; i < 8; ++i) bytes.push_back(static_cast<std::byte>(v >> (8 * i)));
  }
  void text(std::string_view t) {
    number(t.size());
    for (char c : t) bytes.push_back(static_cast<std::byte>(c));
  }
};
/// Reads them again. Past the end everything is 0 and empty, and good() is false.
class table_reader {
 public:
  explicit table_reader(array_view<std::byte const> bytes) : bytes_(bytes) {}

  std::uint64_t number() {
    std::uint64_t v = 0;
    if (!has(8)) return 0;
    for (int i = 0; i < 8; ++i)
      v |= std::to_integer<std::uint64_t>(bytes_[next_ + static_cast<std::size_t>(i)]) << (8 * i);
    next_ += 8;
    return v;
  }
  std::string text() {
    std::uint64_t const size = number();
    if (!has(size)) return {};
    std::string t(reinterpret_cast<char const*>(bytes_.data()) + next_,
                  static_cast<std::size_t>(size));
    next_ += static_cast<std::size_t>(size);
    return t;
  }
  bool good() const { return good_; }

 private:
  bool has(std::uint64_t n) {
    good_ = good_ && n <= bytes_.size() - next_;
    return good_;
  }
  array_view<std::byte const> bytes_;
  std::size_t next_ = 0;
  bool good_ = true;
};

/// "0.1.0": layouts are a version's own.
inline std::string version_text() {
  return join({library_version.major, ".", library_version.minor, ".", library_version.patch});
}

class packed_file {
 public:
  /// `cpu` names the instructions that this process compiles for.
  static result<std::shared_ptr<packed_file const>> open(std::string const& path,
                                                         std::string_view cpu);
  static status write(std::string const& path, std::string_view cpu,
                      std::vector<source_entry> const& sources,
                      std::vector<packed_entry> const& entries);

  /// Fills in where the entry of that key and layout lies.
  status find(packed_entry& wanted) const {
    bool other_layout = false;
    for (packed_entry const& e : entries_) {
      if (e.key != wanted.key) continue;
      if (e.layout == wanted.layout) {
        wanted = e;
        wanted.kept = file_;
        return {};
      }
      other_layout = true;
    }
    if (other_layout)
      return bad({"the packed file '", path_, "' has ", detail::in_quotes(wanted.key),
                  " in another layout than '", wanted.layout,
                  "'; pack again with the extents and options of this network"});
    return bad({"the packed file '", path_, "' has no ", detail::in_quotes(wanted.key),
                "; it belongs to another network"});
  }
  /// What the source answered when the file was made; null if it was not asked.
  source_entry const* source(std::string_view name) const {
    for (source_entry const& s : sources_)
      if (s.name == name) return &s;
    return nullptr;
  }
  std::string const& path() const { return path_; }

 private:
  status read(std::string_view cpu);

  std::string path_;
  std::shared_ptr<mapped_file const> file_;
  std::vector<source_entry> sources_;
  std::vector<packed_entry> entries_;
};

inline status packed_file::write(std::string const& path, std::string_view cpu,
                                 std::vector<source_entry> const& sources,
                                 std::vector<packed_entry> const& entries) {
  table_writer table;
  auto const payload = [](packed_entry const& e) {
    return array_view<std::byte const>(static_cast<std::byte const*>(e.data), e.bytes);
  };
  auto const fill = [&](std::size_t first) {
    table.bytes.clear();
    table.text(version_text());
    table.text(cpu);
    table.number(sources.size());
    for (source_entry const& s : sources) {
      table.text(s.name);
      table.number(s.found ? 1 : 0);
      table.number(static_cast<std::uint64_t>(s.type));
      table.number(s.dims.size());
      for (extent e : s.dims) table.number(static_cast<std::uint64_t>(e));
    }
    for (packed_entry const& e : entries) {
      table.text(e.key);
      table.text(e.layout);
      table.number(first);
      table.number(e.bytes);
      table.number(checksum(payload(e)));
      first = round_up(first + e.bytes, buffer_alignment);
    }
    return first;
  };
  fill(0);  // the table has one size whatever the places are
  std::size_t const first = round_up(sizeof(file_header) + table.bytes.size(), buffer_alignment);
  file_header header;
  header.entries = static_cast<std::uint32_t>(entries.size());
  header.file_bytes = fill(first);
  header.table_bytes = table.bytes.size();
  header.table_sum = checksum(table.bytes);
  static constexpr std::byte zeros[buffer_alignment] = {};
  std::vector<array_view<std::byte const>> pieces;
  auto const add = [&pieces](array_view<std::byte const> piece) {
    pieces.push_back(piece);
    pieces.emplace_back(zeros, round_up(piece.size(), buffer_alignment) - piece.size());
  };
  add({reinterpret_cast<std::byte const*>(&header), sizeof header});
  add(table.bytes);
  for (packed_entry const& e : entries) add(payload(e));
  return write_file(path, pieces);
}

inline result<std::shared_ptr<packed_file const>> packed_file::open(std::string const& path,
                                                                    std::string_view cpu) {
  auto mapped = mapped_file::open(path);
  if (!mapped) return mapped.error();
  auto file = std::make_shared<packed_file>();
  file->path_ = path;
  file->file_ = std::move(*mapped);
  if (status st = file->read(cpu); !st.ok()) return st.error();
  return std::shared_ptr<packed_file const>(std::move(file));
}

inline status packed_file::read(std::string_view cpu) {
  auto const refuse = [this](std::initializer_list<piece> why) {
    return bad({"the packed file '", path_, "' ", join(why)});
  };
  array_view<std::byte const> const bytes = file_->bytes();
  file_header header;
  file_header const wanted;
  if (bytes.size() >= sizeof header) std::memcpy(&header, bytes.data(), sizeof header);
  if (bytes.size() < sizeof header || std::memcmp(header.magic, wanted.magic, 8) != 0)
    return refuse({"is no file of packed weights"});
  if (header.format != wanted.format)
    return refuse({"has format ", header.format, "; ", wanted.format, " is wanted"});
  if (header.file_bytes != bytes.size() || header.table_bytes > bytes.size() - sizeof header)
    return refuse({"has ", bytes.size(), " bytes and says ", header.file_bytes,
                   "; it is truncated, or was changed"});
  array_view<std::byte const> const table_bytes(bytes.data() + sizeof header,
                                                static_cast<std::size_t>(header.table_bytes));
  if (checksum(table_bytes) != header.table_sum) return refuse({"is damaged: its table"});
  table_reader table(table_bytes);
  if (std::string const version = table.text(); version != version_text())
    return refuse({"is of version ", version, "; ", version_text(), " is wanted: pack again"});
  if (std::string const made_for = table.text(); made_for != cpu)
    return refuse({"is packed for ", made_for, "; ", cpu, " is wanted: pack again"});
  std::uint64_t const sources = table.number();
  for (std::uint64_t i = 0; i < sources && table.good(); ++i) {
    source_entry s;
    s.name = table.text();
    s.found = table.number() != 0;
    std::uint64_t const type = table.number(), rank = table.number();
    if (type > static_cast<std::uint64_t>(dtype::u8) || rank > max_rank)
      return refuse({"is damaged: what it says of ", detail::in_quotes(s.name)});
    s.type = static_cast<dtype>(type);
    for (std::uint64_t j = 0; j < rank; ++j) s.dims.push_back(static_cast<extent>(table.number()));
    sources_.push_back(std::move(s));
  }
  for (std::uint32_t i = 0; i < header.entries && table.good(); ++i) {
    packed_entry e;
    e.key = table.text();
    e.layout = table.text();
    std::uint64_t const first = table.number(), size = table.number(), sum = table.number();
    if (first % buffer_alignment != 0 || first > bytes.size() || size > bytes.size() - first)
      return refuse({"is damaged: the place of ", detail::in_quotes(e.key)});
    array_view<std::byte const> const payload(bytes.data() + first, static_cast<std::size_t>(size));
    if (checksum(payload) != sum) return refuse({"is damaged: ", detail::in_quotes(e.key)});
    e.data = payload.data();
    e.bytes = payload.size();
    entries_.push_back(std::move(e));
  }
  if (!table.good()) return refuse({"is damaged: its table ends early"});
  return {};
}

}  // namespace sinter::inline SINTER_ABI::detail
