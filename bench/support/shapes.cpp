#include "shapes.hpp"

#include <cstdio>
#include <fstream>
#include <sstream>

namespace sinter_bench {
namespace {

std::vector<std::string> cells_of(std::string const& line) {
  std::vector<std::string> cells;
  std::stringstream rest(line);
  for (std::string cell; std::getline(rest, cell, ',');) cells.push_back(cell);
  return cells;
}

}  // namespace

std::vector<shape_row> read_shapes(std::string const& file) {
  std::string const path = std::string(SINTER_BENCH_SHAPES) + "/" + file;
  std::ifstream in(path);
  std::vector<shape_row> rows;
  std::string line;
  if (!std::getline(in, line)) {
    std::fprintf(stderr, "sinter: %s cannot be read\n", path.c_str());
    return rows;
  }
  std::vector<std::string> const names = cells_of(line);
  while (std::getline(in, line)) {
    std::vector<std::string> values = cells_of(line);
    values.resize(names.size());
    std::map<std::string, std::string> cells;
    for (std::size_t i = 0; i < names.size(); ++i) cells[names[i]] = values[i];
    rows.emplace_back(std::move(cells));
  }
  return rows;
}

}  // namespace sinter_bench
