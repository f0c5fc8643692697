#!/usr/bin/env bash
# Builds the tests with a sanitizer and runs them: `asan` (addresses and undefined behaviour; all unit tests, and those of
# two ranks) or `tsan` (data races; the tests of code with threads, at one, two and three ranks).
#   scripts/sanitize.sh asan|tsan [arguments for ctest ...]
set -euo pipefail
case ${1:-} in
  asan | tsan) export CXTRAIN_PRESET=$1 ;;
  *)
    sed -n '2,4s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2
    exit 2
    ;;
esac
shift
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
"$here/setup.sh"
mkdir -p "$here/../build"
# shellcheck source=scripts/common.sh
source "$here/common.sh"
configure
build_targets plain_tests unit_tests mpi_tests

say "testing"
# The thread sanitizer of g++ 12 has fixed places in memory, which more random bits than these leave no room for.
fixed=()
# Only root may read how many there are.
if [ "$(cat /proc/sys/vm/mmap_rnd_bits 2> /dev/null || echo 32)" -gt 28 ] && setarch -R true 2> /dev/null; then fixed=(setarch -R); fi
cd "$root"
${fixed[@]+"${fixed[@]}"} ctest --preset "$preset" "$@"
