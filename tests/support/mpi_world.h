#pragma once

#include "cxtrain/cluster/mpi_world.h"

/// The world that the MPI tests run in; every rank runs every case.
cxtrain::MpiWorld& test_world();
