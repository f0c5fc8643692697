#!/usr/bin/env bash
# Starts a program of this bundle, wherever it lies:
#
#   ./run.sh cxtrain_mpi fit --model digits
#   ./run.sh mpirun -np 2 cxtrain_mpi fit --model digits --strategy ddp
#   CXTRAIN_LIBTORCH=/opt/libtorch ./run.sh gpu_tests
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
if (($# == 0)); then
  sed -n '2,6s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"
  exit 2
fi
# shellcheck source=scripts/bundle/env.sh
source "$here/env.sh" || exit 2
exec "$@"
