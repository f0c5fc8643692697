#!/usr/bin/env bash
# Sets everything up, builds the tests and runs them. Further arguments go to ctest: scripts/test.sh -R mpi
#
#   scripts/test.sh         the fast tier: every room, and the ways to start ranks on one machine (ctest label `fast`)
#   scripts/test.sh --all   everything: faults, restarts, odd input, emulated nodes, Slurm, users' projects, GPUs
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
targets=(fast_tests)
selection=(-L '^fast$')
case ${1:-} in
  --all)
    targets=(all)
    selection=()
    shift
    ;;
  -h | --help)
    sed -n '2,5s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"
    exit 0
    ;;
esac
"$here/setup.sh" tests
mkdir -p "$here/../build"
# shellcheck source=scripts/common.sh
source "$here/common.sh"
configure -DCXTRAIN_TESTS=ON
build_targets "${targets[@]}"

say "testing"
cd "$build"
# Many tests wait, so there is work for two cores in three of them; with a fourth, ranks wait for each other's turns.
ctest --output-on-failure --no-tests=error --parallel 3 ${selection[@]+"${selection[@]}"} "$@"
# What could not be checked here; where ctest itself has skipped a program, it says so above.
skipped=$(grep -h "^skipped: " Testing/Temporary/LastTest.log | sort -u || true)
if [ -n "$skipped" ]; then
  printf '%s\n' "$skipped"
  say "$(wc -l <<< "$skipped") cases, or parts of them, were skipped"
fi
# What the matrix of resumed trainings has covered in this run, and how long Slurm takes.
grep -hE "^(resume|slurm): " Testing/Temporary/LastTest.log | sort -u || true
say "the slowest tests"
awk '/ Test: / { name = $NF } /^Test time =/ { print $4, name }' Testing/Temporary/LastTest.log | sort -rn | sed 10q
