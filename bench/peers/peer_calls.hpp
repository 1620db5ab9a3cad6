// Other libraries as contenders: those whose packages were found when this was built.
#pragma once

#include "../support/work.hpp"
#include "peer.hpp"

namespace sinter_bench {

struct peer {
  char const* name;
  std::string (*version)();
  make_peer make;
  bool contracts;  ///< it is asked for products and convolutions
  bool points;     ///< it is asked for chains without one
};

/// All of this build.
std::vector<peer> const& all_peers();
/// Those that are selected, for the work of this kind. All compute in f32 only.
std::vector<peer> peers_of(selection const& s, workload const& load);

sinter::result<std::unique_ptr<contender>> peer_call(peer const& p,
                                                     std::shared_ptr<workload> const& load);

}  // namespace sinter_bench
