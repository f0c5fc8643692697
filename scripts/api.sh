#!/usr/bin/env bash
# Makes the reference of the public headers as HTML, by Doxygen; a warning of Doxygen's is an error.
#
#   scripts/api.sh [FOLDER]   (default: build/api)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
output=${1:-build/api}
mkdir -p "$output"
headers=$(cmake -DROOT=src -P cmake/ListPublicHeaders.cmake | sed 's#^#src/#')
{
  cat docs/Doxyfile
  printf 'OUTPUT_DIRECTORY = "%s"\nINPUT = docs/api.md \\\n' "$output"
  while read -r header; do printf '  %s \\\n' "$header"; done <<< "$headers"
  printf '\n'
} | doxygen -
echo "$output/html/index.html"
