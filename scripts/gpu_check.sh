#!/usr/bin/env bash
# Checks cxtrain on a machine with a GPU, where nothing has to be installed: run it from the unpacked bundle that
# scripts/bundle.sh makes, or give it a build.
#
#   scripts/gpu_check.sh [--libtorch DIR] [--data DIR] [--report FILE] [--build DIR]
#
#   --libtorch DIR   LibTorch's folder (default: the torch of python3); for the bundle
#   --data DIR       a folder that holds MNIST's IDX files, or has them in mnist/ (default: MNIST is left out)
#   --report FILE    where the JSON report goes (default: gpu_check.json)
#   --build DIR      a build folder to check instead of a bundle, with gpu_tests, gpu_bench and benchmarks built
#
# Takes about ten minutes, on one GPU or the first two. docs/gpu.md says what it checks, what each figure means and
# what to do where one is off. Exit status: 0 when everything passed that could be measured, 1 when something failed or
# there is no GPU, 2 for a wrong command line.
set -euo pipefail

# For those who work on it: --rehearse runs what is not about the device on the CPU, with tiny sizes; --only 1,9 some
# items; --bin DIR takes the programs from there.
here=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
data=
report=gpu_check.json
build=
more=()

die() {
  echo "gpu_check: $1" >&2
  exit "${2:-2}"
}

while (($# > 0)); do
  case $1 in
    --libtorch | --data | --report | --build | --only | --bin)
      (($# > 1)) || die "$1 needs a value"
      case $1 in
        --libtorch) export CXTRAIN_LIBTORCH=$2 ;;
        --data) data=$2 ;;
        --report) report=$2 ;;
        --build) build=$2 ;;
        --bin) more+=(--bin "$2") ;;
        --only)
          [[ $2 =~ ^[0-9]+(,[0-9]+)*$ ]] || die "--only $2: give numbers of items, with commas"
          more+=(--only "$2")
          ;;
      esac
      shift 2
      ;;
    --rehearse)
      more+=(--rehearse)
      shift
      ;;
    -h | --help)
      sed -n '2,15s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"
      exit 0
      ;;
    *) die "unknown option $1 (--libtorch DIR, --data DIR, --report FILE, --build DIR)" ;;
  esac
done

[[ -z ${OMPI_COMM_WORLD_RANK:-} ]] || die "it calls mpirun itself: start it without"
command -v python3 >/dev/null || die "needs python3, which runs the checks"
[[ -z $data || -d $data ]] || die "--data $data: no such folder"
if [[ -n $build ]]; then
  [[ -x $build/bin/cxtrain_mpi ]] || die "--build $build: no bin/cxtrain_mpi is there"
  build=$(cd "$build" && pwd)
  more+=(--root "$build" --data-folders "$here/.deps/data")
else
  [[ -f $here/env.sh ]] ||
    die "$here is no unpacked bundle; make one with scripts/bundle.sh, unpack it, and run its scripts/gpu_check.sh, or name a build with --build"
  # shellcheck source=scripts/bundle/env.sh
  source "$here/env.sh" || exit 1
  more+=(--root "$here" --mpirun "$here/openmpi/bin/mpirun" --libtorch "$CXTRAIN_LIBTORCH"
    --starter "$here/run.sh" --data-folders "$here/share/cxtrain/data")
fi
exec python3 -B "$here/scripts/gpu_check" --data "$data" --report "$report" "${more[@]}"
