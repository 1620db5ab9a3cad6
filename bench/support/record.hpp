// The machine that a run was made on, and its peaks, measured in that run: for the screen and for the JSON file.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace sinter_bench {

struct machine_record {
  /// Facts in words: cpu, features, caches, built, ...
  std::vector<std::pair<std::string, std::string>> facts;
  struct peak {
    std::string type, instruction;
    double flops = 0;  ///< per second, one thread
  };
  std::vector<peak> peaks;
  /// Bytes per second that one thread reads from so many bytes, again and again.
  struct bandwidth {
    double bytes = 0, per_second = 0;
  };
  std::vector<bandwidth> reads;
  double clock = 0;  ///< cycles per second under load; 0: not measured

  /// For the JSON file: {"peaks": ..., "reads": ..., "clock": ...}
  std::string json() const;
};

/// Takes about a second; prints what it finds.
machine_record record_machine();

/// Text as a JSON string, quotes included.
std::string quoted(std::string const& text);

}  // namespace sinter_bench
