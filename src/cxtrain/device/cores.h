#pragma once

namespace cxtrain {

/// Cores that this process may run on, at least 1: the mask that mpirun or Slurm bound it to.
int cores_of_this_process();

}  // namespace cxtrain
