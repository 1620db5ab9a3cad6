// What a run of networks is written as: Markdown for the screen, and a JSON file of the suite's kind.
//
// The file is Google Benchmark's, as the one of sinter_bench is, so that compare and report read it; group by group it
// stands in "sinter", "networks" (bench/report/results.py).
#pragma once

#include <vector>

#include "model_run.hpp"

namespace sinter_bench {

/// At most `most` groups, those where most is lost against raw.
void print_groups(model_row const& row, int most);
void print_summary(std::vector<model_row> const& rows);
/// Says whether the file was written.
bool write_json(std::string const& path, std::vector<model_row> const& rows,
                machine_record const& machine);

}  // namespace sinter_bench
