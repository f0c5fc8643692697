#!/usr/bin/env bash
# clang-tidy (.clang-tidy) over the rooms, launchers and strategies; status 1 where it finds anything.
#   scripts/tidy.sh [REGEX of the translation units, say "unity_comm"]
#   scripts/tidy.sh --files < LIST    those whose names below the root LIST has (of a build without unity: CXTRAIN_PRESET=lint)
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=scripts/common.sh
source "$here/common.sh"
command -v clang-tidy > /dev/null || { say "clang-tidy is not installed"; exit 2; }
mkdir -p "$build"
[ -f "$build/compile_commands.json" ] || configure
# clang reads no precompiled header of g++'s.
tidy="$root/build/tidy"
mkdir -p "$tidy"
sed -E 's/-fpch-preprocess|-Winvalid-pch|-include [^ ]*cmake_pch\.hxx//g' "$build/compile_commands.json" > "$tidy/compile_commands.json"
units() {
  sed -nE 's/^ *"file": "(.*)",?$/\1/p' "$tidy/compile_commands.json" |
    grep -E '/(src|launchers|strategies)/' | grep -vE 'cmake_pch|generated|\.pb\.cc|/tests/' | sort -u
}
if [ "${1:-}" = --files ]; then
  wanted=$(sed "s|^|$root/|")
  chosen=$(units | grep -xF "$wanted" || true)
else
  chosen=$(units | grep -E "${1:-.}")
fi
printf '%s' "$chosen" | sed '/^$/d' |
  xargs -r -P "$(memory_jobs)" -n 1 clang-tidy -p "$tidy" --quiet --extra-arg=-Wno-unknown-warning-option
