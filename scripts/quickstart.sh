#!/usr/bin/env bash
# From a fresh clone to a trained model: installs what is missing, builds, and trains the built-in example on four ranks.
# Further arguments go to cxtrain_mpi: scripts/quickstart.sh --max_epochs 5
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
"$here/setup.sh"
mkdir -p "$here/../build"
# shellcheck source=scripts/common.sh
source "$here/common.sh"
configure
build_targets cxtrain_program

say "mpirun -np 4 --bind-to none cxtrain_mpi $*"
cd "$root"
mpirun -np 4 --bind-to none "$build/bin/cxtrain_mpi" "$@"
