#!/usr/bin/env bash
# Installs the build, builds this folder against the installed package as a user would, and trains with both results.
#   run.sh <build folder> <work folder> [arguments for the consumer's configuration ...]
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
build=$1
work=$2
shift 2
export OMP_NUM_THREADS=1
unset CXTRAIN_PLUGIN_PATH LD_LIBRARY_PATH

fail() {
  echo "consumer: $*" >&2
  exit 1
}

# docs/first_model.md shows these very files.
page=$(< "$here/../../docs/first_model.md")
for file in sine.h main.cpp plugin.cpp CMakeLists.txt; do
  [[ $page == *"$(< "$here/$file")"* ]] || fail "docs/first_model.md does not show $file as it is"
done

rm -rf "$work"
mkdir -p "$work"
cmake --install "$build" --prefix "$work/prefix" > "$work/install.log"
# Everything that is needed is found by paths in the files themselves: not by the environment, nor by the loader's cache.
loader=$(readelf -l "$work/prefix/bin/cxtrain_mpi" | sed -nE 's/.*interpreter: (.*)\]/\1/p')
for file in "$work"/prefix/bin/cxtrain_mpi "$work"/prefix/lib*/*.so "$work"/prefix/lib*/cxtrain/*.so; do
  [ -e "$file" ] || continue
  missing=$(env -i "$loader" --inhibit-cache --list "$file" | grep 'not found' || true)
  [ -z "$missing" ] || fail "$file: $missing"
done
cmake -S "$here" -B "$work/build" -DCMAKE_PREFIX_PATH="$work/prefix" "$@"
cmake --build "$work/build"

# check_run <folder> <world size> <field>: the run in that folder did 5 steps and learned something.
check_run() {
  local json="$1/cxtrain_logs/version_0/run.json"
  [ -s "$json" ] || fail "no $json"
  grep -q '"status": "done"' "$json" || fail "$json does not say done"
  grep -q '"global_step": 5,' "$json" || fail "$json does not say 5 steps"
  grep -q "\"world_size\": $2" "$json" || fail "$json does not say $2 ranks"
  grep -q '"train_loss"' "$json" || fail "$json has no train_loss"
}
steps=(--max_steps 5 --limit_val_batches 2 --model.hidden 16)

"$work/build/sine" "${steps[@]}" --default_root_dir "$work/own"
check_run "$work/own" 1
mpirun -np 2 --bind-to none "$work/prefix/bin/cxtrain_mpi" --plugin "$work/build/libcxtrain_model_sine.so" --model sine \
  "${steps[@]}" --default_root_dir "$work/plugin"
check_run "$work/plugin" 2
CXTRAIN_PLUGIN_PATH="$work/build" "$work/prefix/bin/cxtrain_mpi" --model sine "${steps[@]}" --default_root_dir "$work/named"
check_run "$work/named" 1

# Both are the same model on the same data: the own program and the plugin end with the same bits.
hash_of() { grep parameters_sha256 "$1/cxtrain_logs/version_0/run.json" || echo "$1 has no hash"; }
[ "$(hash_of "$work/own")" = "$(hash_of "$work/named")" ] || fail "program and plugin trained to different parameters"

# The installed program finds its own plugins and data.
(cd "$work" && prefix/bin/cxtrain_mpi --max_steps 5 --default_root_dir "$work/digits")
check_run "$work/digits" 1
