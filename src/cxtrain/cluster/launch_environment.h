#pragma once

#include <string>

namespace cxtrain {

/// What a launcher says about this process in its environment, for the time before MPI says it better.
struct LaunchEnvironment {
  int rank = 0;
  int size = 0;         ///< ranks of the job; 0: not said
  int local_rank = -1;  ///< among the ranks of this node; -1: not said
  int local_size = 0;   ///< ranks on this node; 0: not said
  std::string job;      ///< the same for the ranks of one job on one node, another for every other job
};

LaunchEnvironment read_launch_environment();

}  // namespace cxtrain
