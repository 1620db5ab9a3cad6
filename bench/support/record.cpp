#include "record.hpp"

#include <algorithm>
#include <cstdio>

#include <sinter/isa/machine.hpp>

#include "peaks.hpp"
#include "peers/peer_calls.hpp"
#if SINTER_WITH_ONEDNN
#include <oneapi/dnnl/dnnl_version.h>
#endif

namespace sinter_bench {
namespace {

std::string number(double v) {
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", v);
  return text;
}

std::string built_with() {
#if defined(__clang__)
  std::string text = "clang " __clang_version__;
#else
  std::string text = "g++ " __VERSION__;
#endif
  while (text.ends_with(' ')) text.pop_back();
#if SINTER_WITH_ONEDNN
  text += ", oneDNN " + std::to_string(DNNL_VERSION_MAJOR) + "." +
          std::to_string(DNNL_VERSION_MINOR) + "." + std::to_string(DNNL_VERSION_PATCH);
#endif
  for (peer const& p : all_peers()) text += std::string(", ") + p.version();
  return text;
}

/// A size for each level of caches and one beyond all, smallest first.
std::vector<std::size_t> read_sizes(sinter::cache_sizes const& c) {
  std::vector<std::size_t> sizes;
  for (std::int64_t level : {c.l1d, c.l2, c.l3})
    if (level > 0) sizes.push_back(static_cast<std::size_t>(level / 2) / 4096 * 4096);
  sizes.push_back(std::max<std::size_t>(std::size_t{256} << 20,
                                        static_cast<std::size_t>(std::max(c.l2, c.l3)) * 4));
  return sizes;
}

}  // namespace

std::string quoted(std::string const& text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (static_cast<unsigned char>(c) >= 32)
      out += c;
    else
      out += ' ';
  }
  return out + "\"";
}

std::string machine_record::json() const {
  std::string text = "{\"clock\": " + number(clock) + ", \"peaks\": {";
  for (std::size_t i = 0; i < peaks.size(); ++i)
    text += std::string(i > 0 ? ", " : "") + quoted(peaks[i].type) +
            ": {\"flops\": " + number(peaks[i].flops) +
            ", \"instruction\": " + quoted(peaks[i].instruction) + "}";
  text += "}, \"reads\": [";
  for (std::size_t i = 0; i < reads.size(); ++i)
    text += std::string(i > 0 ? ", " : "") + "{\"bytes\": " + number(reads[i].bytes) +
            ", \"per_second\": " + number(reads[i].per_second) + "}";
  return text + "]}";
}

machine_record record_machine() {
  sinter::machine const& m = sinter::this_machine();
  machine_record r;
  std::printf("%s", sinter::machine_report(m).c_str());
  r.facts = {
      {"cpu", m.brand},
      {"features", names_of(m.features)},
      {"caches", "L1d " + sinter::bytes_text(m.caches.l1d) + ", L2 " +
                     sinter::bytes_text(m.caches.l2) + ", L3 " + sinter::bytes_text(m.caches.l3)},
      {"built", built_with()}};
  std::printf("built     %s\n", r.facts.back().second.c_str());
  if (r.clock = measure_clock(); r.clock > 0)
    std::printf("clock     %.2f GHz under load\n", r.clock * 1e-9);
  for (sinter::dtype t : {sinter::dtype::f32, sinter::dtype::bf16}) {
    arithmetic_peak const p = peak_of(t);
    if (p.run == nullptr) continue;
    r.peaks.push_back({std::string(sinter::name_of(t)), p.instruction, measure_flops(p)});
    std::printf("peak      %s %.1f GFLOP/s by %s, one thread\n", r.peaks.back().type.c_str(),
                r.peaks.back().flops * 1e-9, p.instruction);
  }
  std::string line;
  for (std::size_t bytes : read_sizes(m.caches)) {
    double const speed = measure_bandwidth(bytes);
    if (speed <= 0) continue;
    r.reads.push_back({static_cast<double>(bytes), speed});
    char text[64];
    std::snprintf(text, sizeof text, "%s%.1f GB/s of %s", line.empty() ? "" : ", ", speed * 1e-9,
                  sinter::bytes_text(static_cast<std::int64_t>(bytes)).c_str());
    line += text;
  }
  std::printf("memory    one thread reads %s\n\n", line.c_str());
  for (auto const& peak : r.peaks)
    r.facts.emplace_back("peak_" + peak.type,
                         number(peak.flops * 1e-9) + " GFLOP/s by " + peak.instruction);
  r.facts.emplace_back("read", line);
  if (r.clock > 0) r.facts.emplace_back("clock", number(r.clock * 1e-9) + " GHz under load");
  return r;
}

}  // namespace sinter_bench
