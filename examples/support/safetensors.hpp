// A small strict reader of safetensors files: 8 bytes that say the header's length (little endian), a JSON header, then
// the bytes of the tensors. Not part of the library: examples read their weights with it.
//
// Strict: every rule of the format is checked before anything is handed out, and a file that breaks one is refused with
// a sentence that begins with the file's name. Offsets must tile the data, in any order, without gap or overlap; extents
// times size must be the bytes; keys appear once. Tensors of F32, F16, BF16, I32, I8 and U8 can be read as such; those
// of other dtypes are checked, and refused when they are asked for.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sinter/base/status.hpp>
#include <sinter/core/buffer.hpp>
#include <sinter/core/dtype.hpp>
#include <sinter/core/shape.hpp>
#include <sinter/core/tensor_view.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace example {

namespace detail {

constexpr int dtype_code(sinter::dtype t) { return static_cast<int>(t); }

/// A dtype of the format.
struct stored_type {
  std::string_view name;
  std::uint64_t bytes;
  int code = -1;  ///< dtype_code() of what it can be read as; -1: nothing
};
inline constexpr stored_type stored_types[] = {
    {"F32", 4, dtype_code(sinter::dtype::f32)},
    {"F16", 2, dtype_code(sinter::dtype::f16)},
    {"BF16", 2, dtype_code(sinter::dtype::bf16)},
    {"I32", 4, dtype_code(sinter::dtype::s32)},
    {"I8", 1, dtype_code(sinter::dtype::s8)},
    {"U8", 1, dtype_code(sinter::dtype::u8)},
    {"F64", 8},
    {"I64", 8},
    {"U64", 8},
    {"U32", 4},
    {"I16", 2},
    {"U16", 2},
    {"BOOL", 1},
    {"F8_E4M3", 1},
    {"F8_E5M2", 1},
};

}  // namespace detail

class safetensors {
 public:
  /// More than any real header, and little enough to hold in memory.
  static constexpr std::uint64_t max_header = 100'000'000;

  static sinter::result<safetensors> read(std::string const& path) {
    std::ifstream file(path, std::ios::binary | std::ios::ate);
    if (!file) return sinter::failure{sinter::code::system, path + ": cannot be opened"};
    auto const size = static_cast<std::streamoff>(file.tellg());
    file.seekg(0);
    safetensors made(path);
    auto const fill = [&file](void* to, std::uint64_t bytes) {
      return static_cast<bool>(
          file.read(static_cast<char*>(to), static_cast<std::streamsize>(bytes)));
    };
    if (size < 0) return made.unreadable();
    if (sinter::status const st = made.take(static_cast<std::uint64_t>(size), fill); !st.ok())
      return st.error();
    return made;
  }

  /// `name` stands at the beginning of every sentence.
  static sinter::result<safetensors> parse(std::span<std::byte const> file, std::string name) {
    safetensors made(std::move(name));
    auto const fill = [rest = file](void* to, std::uint64_t bytes) mutable {
      if (bytes != 0) std::memcpy(to, rest.data(), static_cast<std::size_t>(bytes));
      rest = rest.subspan(static_cast<std::size_t>(bytes));
      return true;
    };
    if (sinter::status const st = made.take(file.size(), fill); !st.ok()) return st.error();
    return made;
  }

  /// The elements of a tensor, row-major, on a boundary for T. Its dtype and extents must be the wanted ones. They live
  /// as long as this object, also where it is moved.
  template <sinter::element T>
  sinter::result<std::span<T const>> get(std::string_view name, sinter::shape const& wanted) const {
    auto const found = entries_.find(name);
    if (found == entries_.end()) return refuse("there is no tensor '" + std::string(name) + "'");
    entry const& e = found->second;
    std::string const who = "tensor '" + std::string(name) + "' ";
    if (e.type->code != detail::dtype_code(sinter::dtype_of<T>))
      return refuse(who + "is " + std::string(e.type->name) + "; " +
                    std::string(sinter::name_of(sinter::dtype_of<T>)) + " is wanted");
    if (!(e.dims == wanted))
      return refuse(who + "is " + sinter::to_string(e.dims) + "; " + sinter::to_string(wanted) +
                    " is wanted");
    if (e.begin % sizeof(T) != 0)
      return refuse(who + "begins at byte " + std::to_string(e.begin) +
                    ", not a multiple of its element's size");
    return std::span(reinterpret_cast<T const*>(data_.data() + e.begin),
                     (e.end - e.begin) / sizeof(T));
  }

  /// A tensor as it lies in the file, of any dtype that can be read; null data where there is none of that name. It is on
  /// a boundary for its elements only where its offset is.
  sinter::tensor_view find(std::string_view name) const {
    auto const found = entries_.find(name);
    if (found == entries_.end() || found->second.type->code < 0) return {};
    entry const& e = found->second;
    return {data_.data() + e.begin, static_cast<sinter::dtype>(e.type->code), e.dims,
            sinter::dense_strides(e.dims), false};
  }

  std::size_t size() const { return entries_.size(); }

  /// An entry of the file's metadata; empty where there is none.
  std::string metadata(std::string const& key) const {
    auto const found = metadata_.find(key);
    return found == metadata_.end() ? std::string() : found->second;
  }

 private:
  using json = nlohmann::json;

  struct entry {
    detail::stored_type const* type = nullptr;
    sinter::shape dims;
    std::uint64_t begin = 0, end = 0;  ///< bytes of data_
  };

  explicit safetensors(std::string name) : name_(std::move(name)) {}
  sinter::failure refuse(std::string const& what) const {
    return {sinter::code::bad_argument, name_ + ": " + what};
  }

  sinter::failure unreadable() const { return {sinter::code::system, name_ + ": cannot be read"}; }

  /// A file of `size` bytes; fill(to, n) gives the next n of them, or says that it could not.
  template <class Fill>
  sinter::status take(std::uint64_t size, Fill fill) {
    if (size < 8)
      return refuse("has " + std::to_string(size) +
                    " bytes; the 8 of the header's length are wanted first");
    unsigned char first[8] = {};
    if (!fill(first, 8)) return unreadable();
    std::uint64_t length = 0;
    for (std::size_t i = 8; i-- > 0;) length = length << 8 | first[i];
    if (length > max_header)
      return refuse("says that its header has " + std::to_string(length) + " bytes; at most " +
                    std::to_string(max_header) + " are allowed");
    if (length > size - 8)
      return refuse("says that its header has " + std::to_string(length) + " bytes, and only " +
                    std::to_string(size - 8) + " follow");
    std::string header(static_cast<std::size_t>(length), '\0');
    if (!fill(header.data(), length)) return unreadable();
    std::uint64_t const rest = size - 8 - length;
    if (sinter::status const st = take_header(header, rest); !st.ok()) return st;
    data_ = sinter::buffer(static_cast<std::size_t>(rest));
    if (data_.failed())
      return sinter::failure{sinter::code::out_of_memory, name_ + ": no memory for its tensors"};
    if (!fill(data_.data(), rest)) return unreadable();
    return {};
  }

  sinter::status take_header(std::string_view text, std::uint64_t data_bytes) {
    if (text.empty() || text.front() != '{') return refuse("its header does not begin with '{'");
    // nlohmann::json keeps the last of several equal keys; they are found here, one set for each open object.
    std::vector<std::set<std::string>> keys;
    std::string twice;
    auto const watch = [&](int, json::parse_event_t event, json& value) {
      if (event == json::parse_event_t::object_start) keys.emplace_back();
      if (event == json::parse_event_t::object_end) keys.pop_back();
      if (event == json::parse_event_t::key && !keys.back().insert(value.get<std::string>()).second)
        twice = value.get<std::string>();
      return true;
    };
    json const parsed = json::parse(text, watch, false);
    if (parsed.is_discarded()) return refuse("its header is not valid JSON");
    if (!twice.empty()) return refuse("its header has the key '" + twice + "' twice in one object");
    for (auto const& [key, value] : parsed.items())
      if (sinter::status const st =
              key == "__metadata__" ? take_metadata(value) : take_entry(key, value, data_bytes);
          !st.ok())
        return st;
    return check_tiling(data_bytes);
  }

  sinter::status take_metadata(json const& value) {
    if (!value.is_object()) return refuse("its __metadata__ is not an object");
    for (auto const& [key, text] : value.items()) {
      if (!text.is_string())
        return refuse("its __metadata__ has '" + key + "', which is not a string");
      metadata_[key] = text.get<std::string>();
    }
    return {};
  }

  sinter::status take_entry(std::string const& name, json const& value, std::uint64_t data_bytes) {
    std::string const who = "tensor '" + name + "' ";
    bool const complete = value.is_object() && value.size() == 3 && value.contains("dtype") &&
                          value.contains("shape") && value.contains("data_offsets");
    if (!complete) return refuse(who + "has other keys than dtype, shape and data_offsets");
    entry e;
    json const& type = value["dtype"];
    for (detail::stored_type const& row : detail::stored_types)
      if (type.is_string() && type.get<std::string>() == row.name) e.type = &row;
    if (e.type == nullptr)
      return refuse(who + "has the dtype " + type.dump() + ", which is not known");
    std::uint64_t bytes = e.type->bytes;
    if (sinter::status const st = take_shape(who, value["shape"], e.dims, bytes); !st.ok())
      return st;
    json const& offsets = value["data_offsets"];
    if (!offsets.is_array() || offsets.size() != 2 || !offsets[0].is_number_unsigned() ||
        !offsets[1].is_number_unsigned())
      return refuse(who + "has the data_offsets " + offsets.dump() + "; [begin, end] is wanted");
    e.begin = offsets[0].get<std::uint64_t>();
    e.end = offsets[1].get<std::uint64_t>();
    if (e.begin > e.end || e.end > data_bytes)
      return refuse(who + "has the data_offsets " + offsets.dump() + "; there are " +
                    std::to_string(data_bytes) + " bytes of data");
    if (e.end - e.begin != bytes)
      return refuse(who + "of " + std::string(e.type->name) + " " + sinter::to_string(e.dims) +
                    " needs " + std::to_string(bytes) + " bytes; its data_offsets give " +
                    std::to_string(e.end - e.begin));
    entries_.emplace(name, e);
    return {};
  }

  /// `bytes` comes in as the size of an element and goes out as the size of the tensor.
  sinter::status take_shape(std::string const& who, json const& value, sinter::shape& dims,
                            std::uint64_t& bytes) const {
    if (!value.is_array() || value.size() > static_cast<std::size_t>(sinter::max_rank))
      return refuse(who + "has the shape " + value.dump() + "; a list of at most " +
                    std::to_string(sinter::max_rank) + " extents is wanted");
    auto product = static_cast<sinter::extent>(bytes);
    for (json const& each : value) {
      constexpr auto limit =
          static_cast<std::uint64_t>((std::numeric_limits<sinter::extent>::max)());
      if (!each.is_number_unsigned() || each.get<std::uint64_t>() > limit)
        return refuse(who + "has the extent " + each.dump() +
                      "; a number from 0 to 2^63 - 1 is wanted");
      dims.push_back(each.get<sinter::extent>());
      product = sinter::checked_mul(product, dims.back());
    }
    if (product < 0)
      return refuse(who + "of " + sinter::to_string(dims) + " has more than 2^63 - 1 bytes");
    bytes = static_cast<std::uint64_t>(product);
    return {};
  }

  /// Sorted by their offsets, the tensors follow one another and end where the file ends.
  sinter::status check_tiling(std::uint64_t data_bytes) const {
    std::vector<std::pair<entry, std::string_view>> sorted;
    for (auto const& [name, e] : entries_) sorted.emplace_back(e, name);
    std::sort(sorted.begin(), sorted.end(), [](auto const& a, auto const& b) {
      return a.first.begin != b.first.begin ? a.first.begin < b.first.begin
                                            : a.first.end < b.first.end;
    });
    std::uint64_t at = 0;
    std::string_view before;
    for (auto const& [e, name] : sorted) {
      if (e.begin < at)
        return refuse("tensors '" + std::string(before) + "' and '" + std::string(name) +
                      "' overlap");
      if (e.begin > at)
        return refuse("bytes " + std::to_string(at) + " to " + std::to_string(e.begin) +
                      " belong to no tensor");
      at = e.end;
      before = name;
    }
    if (at != data_bytes)
      return refuse("bytes " + std::to_string(at) + " to " + std::to_string(data_bytes) +
                    " belong to no tensor");
    return {};
  }

  std::string name_;
  sinter::buffer data_;
  std::map<std::string, entry, std::less<>> entries_;
  std::map<std::string, std::string> metadata_;
};

}  // namespace example
