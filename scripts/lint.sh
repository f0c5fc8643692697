#!/usr/bin/env bash
# Checks the sources, and fails where any check finds something:
#   - clang-format and shellcheck
#   - a build by clang++ of all that machines without CUDA build, except for tests, with warnings as errors and file by file (no
#     unity); nothing of it runs. The build of the tests (.ci/run) has warnings as errors, too
#   - the reference of the public headers (scripts/api.sh), with Doxygen's warnings as errors
#   - clang-tidy on the files that changed since a commit
#
#   scripts/lint.sh [--since COMMIT]   (default: the commit before)
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
since=HEAD~1
case ${1:-} in
  '') ;;
  --since)
    since=${2:?--since needs a commit}
    ;;
  *)
    sed -n '2,9s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2
    exit 2
    ;;
esac
"$here/setup.sh" lint
mkdir -p "$here/../build"
export CXTRAIN_PRESET=lint
# shellcheck source=scripts/common.sh
source "$here/common.sh"
cd "$root"

# Each major version of clang-format formats a little differently; the tree is formatted by this one.
if clang-format --version | grep -q 'version 14\.'; then
  say "clang-format"
  git ls-files -z '*.h' '*.cpp' | xargs -0 clang-format --dry-run --Werror
else
  echo "skipped: clang-format is not version 14"
fi

say "shellcheck"
git grep -lzE '^#!.*\b(ba)?sh\b|^# shellcheck shell' | xargs -0 shellcheck -x

say "reference of the public headers"
scripts/api.sh > /dev/null

configure
build_targets all

say "clang-tidy on files changed since $since"
if git rev-parse --quiet --verify "$since^{commit}" > /dev/null; then
  git diff --name-only --diff-filter=d "$since" -- 'src/*.cpp' 'launchers/*.cpp' 'strategies/*.cpp' | "$here/tidy.sh" --files
else
  echo "skipped: $since is not a commit of this clone"
fi
