#pragma once

#include <string>

#include "cxtrain/cluster/mpi_world.h"
#include "support/skip.h"

/// The world that the MPI tests run in; every rank runs every case.
cxtrain::MpiWorld& test_world();

namespace cxtrain::test {

/// `skip`, because of the number of ranks. All of them call it, and the first one says it.
inline void skip_for_ranks(const std::string& why) {
  const int ranks = test_world().size();
  if (test_world().is_root())
    skip("with " + std::to_string(ranks) + (ranks == 1 ? " rank: " : " ranks: ") + why);
}

}  // namespace cxtrain::test
