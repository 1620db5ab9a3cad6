// The rows of bench/shapes/*.csv. Cells are text or numbers by name; nothing is quoted in these files.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace sinter_bench {

class shape_row {
 public:
  explicit shape_row(std::map<std::string, std::string> cells) : cells_(std::move(cells)) {}
  std::string const& text(std::string const& column) const { return cells_.at(column); }
  int number(std::string const& column) const { return std::stoi(cells_.at(column)); }

 private:
  std::map<std::string, std::string> cells_;
};

/// All rows of a file of bench/shapes; empty, with a line on stderr, where it cannot be read.
std::vector<shape_row> read_shapes(std::string const& file);

}  // namespace sinter_bench
