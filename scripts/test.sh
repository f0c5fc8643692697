#!/usr/bin/env bash
# Sets everything up, builds it and runs every test. Further arguments go to ctest: scripts/test.sh -R mpi
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
"$here/setup.sh" tests
mkdir -p "$here/../build"
# shellcheck source=scripts/common.sh
source "$here/common.sh"
configure
build_targets all

say "testing"
cd "$build"
# Many tests wait, so there is work for two cores in three of them; with a fourth, ranks wait for each other's turns.
ctest --output-on-failure --no-tests=error --parallel 3 "$@"
# What could not be checked here; where ctest itself has skipped a program, it says so above.
skipped=$(grep -h "^skipped: " Testing/Temporary/LastTest.log | sort -u || true)
if [ -n "$skipped" ]; then
  printf '%s\n' "$skipped"
  say "$(wc -l <<< "$skipped") cases, or parts of them, were skipped"
fi
# What the matrix of resumed trainings has covered in this run, and how long Slurm takes.
grep -hE "^(resume|slurm): " Testing/Temporary/LastTest.log | sort -u || true
