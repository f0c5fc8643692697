#!/usr/bin/env bash
# Installs what is missing to build and run cxtrain: Debian or Ubuntu packages, LibTorch, the CUDA libraries that the
# machine lacks, and the example data. Run it again at any time: what is there stays.
#
#   scripts/setup.sh [tests|lint]   `tests`: as root, also what tests over several nodes need; without it they are skipped
#                                   `lint`: also what scripts/lint.sh needs
#   CXTRAIN_LIBTORCH=<dir>     use this LibTorch and install nothing (clusters)
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"  # python3 -m looks for modules in the current folder
deps="$root/.deps"
torch_version=2.11.0
sklearn_version=1.5.2

say() { printf '\033[1m== %s\033[0m\n' "$*" >&2; }
as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi; }

# install_packages [further package ...]
install_packages() {
  local wanted=(g++ cmake ninja-build ccache mold git python3 python3-pip unzip gzip openmpi-bin libopenmpi-dev libboost-log-dev
                catch2 libyaml-cpp-dev nlohmann-json3-dev libprotobuf-dev protobuf-compiler libssl-dev
                zlib1g-dev libxxhash-dev libjpeg-dev libpng-dev patchelf bible-kjv "$@")
  local missing=() package
  for package in "${wanted[@]}"; do
    dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
  done
  # A tool that came some other way is as good as its package.
  local kept=() tool
  for package in ${missing[@]+"${missing[@]}"}; do
    case $package in
      python3-pip) python3 -m pip --version > /dev/null 2>&1 && continue ;;
      ninja-build) tool=ninja ;;
      *) tool=$package ;;
    esac
    case $package in
      g++|cmake|ninja-build|ccache|mold|git|python3|unzip|gzip|patchelf|clang|clang-format|clang-tidy|doxygen|shellcheck)
        command -v "$tool" >/dev/null && continue ;;
    esac
    kept+=("$package")
  done
  if [ ${#kept[@]} -eq 0 ]; then return; fi
  if ! command -v apt-get >/dev/null; then
    echo "setup: no apt-get here; install these (or their like) yourself: ${kept[*]}" >&2
    exit 2
  fi
  if [ "$(id -u)" != 0 ] && ! command -v sudo >/dev/null; then
    echo "setup: packages are missing, and there is no sudo; as root: apt-get install ${kept[*]}" >&2
    exit 2
  fi
  say "installing packages: ${kept[*]}"
  apt_get update
  apt_get install -y --no-install-recommends "${kept[@]}"
}

# Slurm, and the tools for network namespaces. Never with sudo: emulated nodes need root anyway.
install_packages_of_tests() {
  local package missing=()
  for package in iproute2 slurm-wlm munge; do
    dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
  done
  if [ ${#missing[@]} -eq 0 ] || [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then return; fi
  say "installing packages for tests: ${missing[*]}"
  (apt_get update && apt_get install -y --no-install-recommends "${missing[@]}") ||
    say "tests over several nodes are skipped"
}

# apt_get <arguments>: waits for as long as another apt has the lock, as on a machine that has just been started.
apt_get() {
  local deadline=$((SECONDS + 600)) log told=
  log=$(mktemp)
  until as_root env DEBIAN_FRONTEND=noninteractive LC_ALL=C apt-get -qq "$@" >"$log" 2>&1; do
    if ! grep -q 'Could not get lock\|Unable to lock' "$log" || [ "$SECONDS" -ge "$deadline" ]; then
      cat "$log" >&2
      rm -f "$log"
      echo "setup: apt-get $1 failed (see above)" >&2
      exit 1
    fi
    if [ -z "$told" ]; then say "waiting for another apt to end (at most 10 minutes)"; told=1; fi
    sleep 2
  done
  rm -f "$log"
}

# fetch_wheel <dir> <requirement>: the wheel for Linux, whatever Python runs here; only its C++ files are used.
fetch_wheel() {
  local platforms=(--platform manylinux1_x86_64 --platform manylinux2014_x86_64) minor
  for minor in $(seq 5 28); do platforms+=(--platform "manylinux_2_${minor}_x86_64"); done
  local python=python3  # of an environment that may have no pip
  "$python" -m pip --version > /dev/null 2>&1 || python=/usr/bin/python3
  "$python" -m pip download --quiet --disable-pip-version-check --no-deps --only-binary=:all: --python-version 3.11 \
    --implementation cp --abi cp311 --abi none "${platforms[@]}" -d "$1" "$2"
}

install_libtorch() {
  [ "$(cat "$deps/libtorch/.version" 2>/dev/null)" = "$torch_version" ] && return
  say "downloading LibTorch $torch_version (530 MB)"
  local work="$deps/.libtorch-new"
  rm -rf "$work"
  mkdir -p "$work"
  fetch_wheel "$work" "torch==$torch_version"
  say "unpacking LibTorch"
  # With the times of now: builds notice the new headers.
  unzip -DD -q "$work"/torch-*.whl 'torch/lib/*' 'torch/include/*' 'torch/share/*' -d "$work"
  rm -rf "$work"/torch/lib/libtorch_python.so "$work"/torch/lib/libshm*
  echo "$torch_version" > "$work/torch/.version"
  rm -rf "$deps/libtorch" "$deps/cuda"  # CUDA's libraries are those of one LibTorch
  mv "$work/torch" "$deps/libtorch"
  rm -rf "$work"
}

# A user's PATH on Debian has no /sbin.
ldconfig() { PATH=$PATH:/usr/sbin:/sbin command ldconfig "$@"; }

# fits <file>: whether the library is there, and of the generation that this LibTorch was built with. CUDA 12 has several names of CUDA 13.
fits() {
  [ -e "$1" ] || return 1
  case ${1##*/} in
    libnccl.so.*) nm -D --defined-only "$1" | grep -w ncclDevCommCreate > /dev/null ;;  # since NCCL 2.28
    libcu* | libnv*) [ -e "${1%/*}/libcudart.so.13" ] ;;
  esac
}

# Whether the loader or the CUDA toolkit has this library.
have_library() {
  [ -e "$deps/cuda/lib/$1" ] && return 0
  local path
  path=$(ldconfig -p 2>/dev/null | awk -v name="$1" '$1 == name && !found { found = 1; print $NF }')
  fits "$path" && return 0  # the loader's cache may be older than the machine
  fits "/usr/local/cuda/lib64/$1" || fits "${CUDA_HOME:-/nonexistent}/lib64/$1"
}

# have_header <name>: whether the CUDA toolkit, the system or an earlier run of this script has it.
have_header() {
  local folder
  for folder in "$deps/cuda" /usr/local/cuda /opt/cuda /usr/local /usr "${CUDA_HOME:-/nonexistent}" "${NCCL_HOME:-/nonexistent}"; do
    [ -e "$folder/include/$1" ] && return 0
  done
  return 1
}

# A toolkit, a driver or its device: this machine, or those that the build is for, train on GPUs.
wants_cuda() {
  [ -e /usr/local/cuda/include/cuda_runtime_api.h ] || [ -e "${CUDA_HOME:-/nonexistent}/include/cuda_runtime_api.h" ] ||
    [ -e /dev/nvidiactl ] || ldconfig -p 2>/dev/null | grep 'libcuda\.so\.1' > /dev/null
}

# fetch_cuda <requirement>: a wheel's libraries and headers.
fetch_cuda() {
  local work="$deps/.cuda-new" include
  say "downloading $1"
  rm -rf "$work" && mkdir -p "$work/x" "$deps/cuda/lib" "$deps/cuda/include"
  fetch_wheel "$work" "$1"
  unzip -q "$work"/*.whl -d "$work/x"
  find "$work/x" -name '*.so*' -exec mv {} "$deps/cuda/lib/" \;
  for include in "$work"/x/nvidia/*/include; do
    if [ -d "$include" ]; then cp -R "$include/." "$deps/cuda/include/"; fi
  done
  rm -rf "$work"
}

# The wheel that holds a library, at the version that this LibTorch and its CUDA 13.0.2 were released with.
wheel_of() {
  case $1 in
    libcudart.so.*) echo nvidia-cuda-runtime==13.0.96 ;;
    libcupti.so.*) echo nvidia-cuda-cupti==13.0.85 ;;
    libcusparse.so.*) echo nvidia-cusparse==12.6.3.3 ;;
    libcufft.so.*) echo nvidia-cufft==12.0.0.61 ;;
    libcufile.so.*) echo nvidia-cufile==1.15.1.6 ;;
    libcurand.so.*) echo nvidia-curand==10.4.0.35 ;;
    libcublas.so.*|libcublasLt.so.*) echo nvidia-cublas==13.1.0.3 ;;
    libcusparseLt.so.*) echo nvidia-cusparselt-cu13==0.8.0 ;;
    libnvshmem_host.so.*) echo nvidia-nvshmem-cu13==3.4.5 ;;
    libnccl.so.*) echo nvidia-nccl-cu13==2.28.9 ;;
    libcudnn.so.*) echo nvidia-cudnn-cu13==9.19.0.56 ;;
    libcusolver.so.*) echo nvidia-cusolver==12.0.4.66 ;;
    libnvJitLink.so.*) echo nvidia-nvjitlink==13.0.88 ;;
    libnvrtc.so.*) echo nvidia-cuda-nvrtc==13.0.88 ;;
    *) return 1 ;;
  esac
}

# For GPUs everything that LibTorch's CUDA half needs and the headers of CUDA's run time and NCCL, else only what
# libtorch_cpu.so needs.
install_cuda() {
  local objects=("$deps/libtorch/lib/libtorch_cpu.so") further=()
  if wants_cuda; then
    objects+=("$deps"/libtorch/lib/libtorch_{cuda,nvshmem,cuda_linalg}.so "$deps/libtorch/lib/libcaffe2_nvrtc.so")
    further=(libnvJitLink.so.13)  # libcusparse needs it
  fi
  local library wheel fetched=" "
  for library in $(for o in "${objects[@]}"; do readelf -d "$o"; done | sed -nE 's/.*NEEDED.*\[(.*)\]/\1/p' | sort -u) \
    ${further[@]+"${further[@]}"}; do
    [ -e "$deps/libtorch/lib/$library" ] && continue
    have_library "$library" && continue
    wheel=$(wheel_of "$library") || continue
    [[ $fetched == *" $wheel "* ]] && continue
    fetched+="$wheel "
    fetch_cuda "$wheel"
  done
  wants_cuda || return 0
  have_header cuda_runtime_api.h || fetch_cuda "$(wheel_of libcudart.so.13)"
  # Beside the run time's header: one that was fetched is found before the toolkit's.
  if ! have_header crt/host_config.h || { [ -e "$deps/cuda/include/cuda_runtime_api.h" ] && [ ! -e "$deps/cuda/include/crt" ]; }; then
    fetch_cuda nvidia-cuda-crt==13.0.88
  fi
  have_header nccl.h || fetch_cuda "$(wheel_of libnccl.so.2)"
}

install_data() {
  mkdir -p "$deps/data"
  if [ ! -s "$deps/data/digits.csv.gz" ]; then
    say "downloading the digits data"
    local work="$deps/.digits-new"
    rm -rf "$work" && mkdir -p "$work"
    fetch_wheel "$work" "scikit-learn==$sklearn_version"
    unzip -p "$work"/scikit_learn-*.whl sklearn/datasets/data/digits.csv.gz > "$work/digits.csv.gz"
    mv "$work/digits.csv.gz" "$deps/data/"
    rm -rf "$work"
  fi
  if [ ! -s "$deps/data/bible-kjv.txt" ]; then
    say "writing the text data"
    bible -f gen1:1-rev22:21 > "$deps/data/.bible-kjv.txt"
    mv "$deps/data/.bible-kjv.txt" "$deps/data/bible-kjv.txt"
  fi
}

if [ -n "${CXTRAIN_LIBTORCH:-}" ]; then
  say "using LibTorch in $CXTRAIN_LIBTORCH; installing nothing"
else
  case ${1:-} in
    lint) install_packages clang clang-format clang-tidy doxygen shellcheck ;;
    tests)
      install_packages
      install_packages_of_tests
      ;;
    *) install_packages ;;
  esac
  mkdir -p "$deps"
  # One script at a time downloads. Who may not write here has nothing to download.
  if { exec 9> "$deps/.lock"; } 2> /dev/null; then flock 9; fi
  install_libtorch
  install_cuda
  install_data
fi
