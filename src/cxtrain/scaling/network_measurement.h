#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cxtrain/base/each_field.h"
#include "cxtrain/cluster/world.h"

namespace cxtrain {

/// A time for a number of bytes: the median over several messages.
struct MessageTime {
  std::int64_t bytes = 0;
  double seconds = 0;

  void fields(auto&& field) { CXTRAIN_EACH(field, bytes, seconds); }
};

/// Messages between two ranks.
struct LinkTimes {
  int from = 0, to = 1;
  std::string from_host = {}, to_host = {};
  std::vector<MessageTime> one_way = {};  ///< half of the round trip

  void fields(auto&& field) { CXTRAIN_EACH(field, from, to, from_host, to_host, one_way); }
};

/// The content of network.json.
struct NetworkTimes {
  std::string name = {}, source = {};  ///< of a file that somebody else has written; empty: none
  double bytes_per_second = 0;  ///< that a node sends, and receives, in sums over nodes; 0: see `all_reduce`
  int ranks = 1, nodes = 1;
  std::string date = {};
  std::string communicator = {};             ///< "MPI, summed in memory that the node's ranks share"
  std::vector<LinkTimes> links = {};         ///< rank 0 and a rank of each other node; on one node rank 1
  std::vector<MessageTime> all_reduce = {};  ///< of all ranks; bytes of each rank

  void fields(auto&& field) {
    CXTRAIN_EACH(field, name, source, bytes_per_second, ranks, nodes, date, communicator, links, all_reduce);
  }
};

/// Measures the messages that trainings on CPU ranks send: between nodes for 8 bytes to 16 MiB, and sums over
/// all ranks for 4 KiB to 16 MiB. Takes a few seconds. A world of at least two ranks. Collective; the result
/// is rank 0's.
NetworkTimes measure_network(World& world);

/// For a terminal.
std::string to_text(const NetworkTimes& times);

}  // namespace cxtrain
