#!/usr/bin/env bash
# Builds and runs every benchmark: cxtrain against the same work in a hand-written loop. Takes about half an hour on
# a machine that does nothing else; prints a table, and with --record writes it to benchmarks/RESULTS.md.
#
#   benchmarks/run.sh [--only overhead,throughput,startup,ddp,sharding,zero,zero_nodes,hooks,pipeline,bubble,allreduce,nodes,
#                     checkpoint] [--pairs N]
#                     [--data MNIST_FOLDER] [--against BUILD_FOLDER_OF_ANOTHER_COMMIT] [--record]
#
# `nodes`, `zero_nodes` and `hooks` emulate nodes, which needs root. CXTRAIN_TORCH_PYTHON, a python3 that has torch, adds PyTorch's DDP over Gloo to it.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=scripts/common.sh
source "$here/../scripts/common.sh"
if [ -z "${CXTRAIN_BUILD:-}" ]; then
  mkdir -p "$root/build"
  configure -DCXTRAIN_BENCHMARKS=ON
  build_targets benchmarks
fi
exec python3 "$here/measure.py" --build "${CXTRAIN_BUILD:-$build}" "$@"
