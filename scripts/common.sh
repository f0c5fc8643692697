# shellcheck shell=bash
# Sourced by the other scripts: set-up, configuration and build, in a folder of the checkout.
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
preset=${CXTRAIN_PRESET:-release}
build="$root/build/$preset"
jobs=${CXTRAIN_JOBS:-$(nproc)}

say() { printf '\033[1m== %s\033[0m\n' "$*" >&2; }

# LibTorch's headers take 1.3 GB a compiler: no more at a time than fit into memory.
memory_jobs() {
  local available
  available=$(awk '/MemAvailable/ {print int($2 / 1500000)}' /proc/meminfo)
  local group limit  # of a Slurm job, a container or a slice of a login node
  group=$(sed -n 's/^0:://p' /proc/self/cgroup 2> /dev/null || true)
  while [ -n "$group" ] && [ "$group" != / ]; do
    limit=$(cat "/sys/fs/cgroup$group/memory.max" 2> /dev/null || echo max)
    if [ "$limit" != max ] && [ $((limit / 1536000000)) -lt "$available" ]; then available=$((limit / 1536000000)); fi
    group=${group%/*}
  done
  if [ "$available" -lt 1 ]; then available=1; fi
  if [ "$jobs" -lt "$available" ]; then echo "$jobs"; else echo "$available"; fi
}

# configure [arguments for cmake ...]
# shellcheck disable=SC2120
configure() {
  local arguments=()
  if [ -n "${CXTRAIN_LIBTORCH:-}" ]; then arguments+=("-DCXTRAIN_LIBTORCH=$(realpath "$CXTRAIN_LIBTORCH")"); fi
  if [ -n "${CXTRAIN_WARNINGS_ARE_ERRORS:-}" ]; then arguments+=("-DCXTRAIN_WARNINGS_ARE_ERRORS=$CXTRAIN_WARNINGS_ARE_ERRORS"); fi
  say "configuring build/$preset"
  (cd "$root" && cmake --preset "$preset" ${arguments[@]+"${arguments[@]}"} "$@" > "$root/build/configure.log" 2>&1) || {
    tail -30 "$root/build/configure.log" >&2
    exit 1
  }
  # A machine with a GPU that the build will not use: nobody should find that out by its speed.
  if [ -e /dev/nvidiactl ]; then
    sed -n '/cxtrain will not use GPUs/,/^$/p' "$root/build/configure.log" >&2
  fi
}

build_targets() {
  say "building: $*"
  flock "$build.lock" cmake --build "$build" -j "$(memory_jobs)" --target "$@"
}

# Ranks on one machine, also as root and with more ranks than cores: Open MPI 4 reads the names that begin with OMPI_MCA,
# Open MPI 5 those that begin with PRTE_MCA.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_rmaps_base_oversubscribe=1 PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe
# Open MPI 5 prints an error for each rank on machines with addresses of IPv4 and IPv6 (open-mpi/ompi#14079).
export OMPI_MCA_btl_tcp_disable_family=6
