#!/usr/bin/env bash
# Packs cxtrain for machines where nothing can be installed: program, GPU tests and measurements, plugins, Open MPI and
# every shared library that they need, other than the C and C++ libraries, LibTorch and CUDA, which the machine has to have.
#
#   scripts/bundle.sh [--build DIR] [--jobs N] [--output DIR] [--no-build]    ->  dist/cxtrain-<version>.tar.gz
#
# Unpack it anywhere; ./run.sh starts what it holds, scripts/gpu_check.sh tests it on a GPU. Built on Debian 12 it runs
# there and on Ubuntu 24.04 (the C library must not be older than the one of the machine that built it). Open MPI comes
# without its components for InfiniBand and its like: within a node nothing is lost, between nodes it takes TCP.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=$root/build/release
jobs=$(nproc)
output=$root/dist
builds=true
limit_mib=60

die() {
  echo "bundle: $*" >&2
  exit 1
}

while (($# > 0)); do
  case $1 in
    --build | --jobs | --output)
      (($# > 1)) || die "$1 needs a value"
      case $1 in
        --build) build=$2 ;;
        --jobs) jobs=$2 ;;
        --output) output=$2 ;;
      esac
      shift 2
      ;;
    --no-build)  # what is there is up to date
      builds=false
      shift
      ;;
    -h | --help)
      sed -n '2,9s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"
      exit 0
      ;;
    *) die "unknown option $1 (--build DIR, --jobs N, --output DIR, --no-build)" ;;
  esac
done

for tool in cmake patchelf ldd ompi_info tar gzip; do
  command -v "$tool" >/dev/null || die "needs $tool (Debian: cmake patchelf libc-bin openmpi-bin tar gzip)"
done

[[ -f $build/CMakeCache.txt ]] || ! $builds || cmake --preset release -S "$root" -B "$build"
# The GPU tests depend on the program and on all plugins.
programs=(gpu_tests gpu_bench bench_floor_loop bench_trainer_loop)
! $builds || cmake --build "$build" --parallel "$jobs" --target "${programs[@]}" ||
  die "cannot build ${programs[*]}; they need CXTRAIN_TESTS=ON, CXTRAIN_BENCHMARKS=ON and the CUDA half of LibTorch (CXTRAIN_CUDA=ON)"

version=$(sed -n 's/^CMAKE_PROJECT_VERSION:STATIC=//p' "$build/CMakeCache.txt")
libtorch=$(sed -n 's/^CXTRAIN_LIBTORCH:PATH=//p' "$build/CMakeCache.txt")
name=cxtrain-$version
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
bundle=$stage/$name
mkdir -p "$bundle"/{bin,lib/cxtrain,lib/gpu_check,openmpi/bin,scripts/gpu_check,share/cxtrain/data}

# The build tree has its libraries where an installation would: lib, or lib64.
libraries=$(dirname "$build"/lib*/cxtrain)
for program in cxtrain_mpi "${programs[@]}"; do cp "$build/bin/$program" "$bundle/bin/"; done
cp "$libraries"/libcxtrain.so "$libraries"/libcxtrain_cuda.so "$bundle/lib/"
# The tests' copy of the library, which shows them what is inside, and looks for plugins beside itself.
mkdir "$bundle/lib/with_internals"
cp "$libraries"/with_internals/libcxtrain.so "$bundle/lib/with_internals/"
ln -s ../cxtrain "$bundle/lib/with_internals/cxtrain"
ln -s ../libcxtrain_cuda.so "$bundle/lib/with_internals/libcxtrain_cuda.so"
cp "$libraries"/cxtrain/*.so "$bundle/lib/cxtrain/"
cp "$libraries"/gpu_check/*.so "$bundle/lib/gpu_check/"
cp "$root/scripts/gpu_check.sh" "$bundle/scripts/"
cp "$root"/scripts/gpu_check/*.py "$bundle/scripts/gpu_check/"
cp "$root/scripts/bundle/env.sh" "$root/scripts/bundle/run.sh" "$bundle/"
for data in digits.csv.gz bible-kjv.txt; do
  [[ -f $root/.deps/data/$data ]] || die "$root/.deps/data/$data is missing; run scripts/setup.sh"
  cp "$root/.deps/data/$data" "$bundle/share/cxtrain/data/"
done
header=$libtorch/include/torch/headeronly/version.h
sed -n 's/^#define TORCH_VERSION_\(MAJOR\|MINOR\|PATCH\) //p' "$header" | paste -sd. >"$bundle/share/cxtrain/libtorch_version"

# The generation of CUDA that libcxtrain_cuda.so is linked to, as that of LibTorch has to be.
readelf -d "$libraries/libcxtrain_cuda.so" | sed -nE 's/.*libcudart\.so\.([0-9]+).*/\1/p' >"$bundle/share/cxtrain/cuda_version"

# Open MPI finds itself anew below $OPAL_PREFIX, provided that everything lies there as it lay below its old prefix.
mpi_path() { ompi_info --path "$1" --parsable | sed -n "s/^path:$1://p"; }
prefix=$(mpi_path prefix)
components=$(mpi_path pkglibdir)
relative=${components#"$prefix"/}
help=$(mpi_path pkgdatadir)
mkdir -p "$bundle/openmpi/$relative" "$bundle/openmpi/${help#"$prefix"/}"
cp -L "$(command -v orted)" "$bundle/openmpi/bin/orted"
cp -L "$(command -v mpirun)" "$bundle/openmpi/bin/mpirun"
for component in "$components"/mca_*.so; do
  case ${component##*/} in
    # Fabrics, OpenSHMEM, and resource managers that nobody has: they bring 30 MB of libraries along.
    *_ucx.so | *_ofi.so | *_psm*.so | *_openib.so | *_flux.so | mca_spml_* | mca_scoll_* | mca_sshmem_* | mca_memheap_* | \
      mca_atomic_*) ;;
    *) cp -L "$component" "$bundle/openmpi/$relative/" ;;
  esac
done
cp "$help"/help-*.txt "$bundle/openmpi/${help#"$prefix"/}/"

# PMIx would load the machine's components, which may be of another release; env.sh names these instead.
mkdir -p "$bundle/openmpi/lib/pmix"
pmix=$(ldd "$components"/mca_pmix_*.so | awk '$1 ~ /^libpmix\.so/ && !found { found = 1; print $3 }')
[[ -z $pmix ]] || find "$(dirname "$(readlink -f "$pmix")")" -path '*/pmix/pmix_mca_*.so' -exec cp -L -t "$bundle/openmpi/lib/pmix" {} +

# Everything that these need, and what that needs; by name, so that nothing comes twice.
foreign='^(linux-vdso|ld-linux|libc|libm|libdl|librt|libpthread|libutil|libresolv|libstdc\+\+|libgcc_s|libgomp)[.-]'
foreign+='|^lib(torch|c10|caffe2|cuda|cudart|cudnn|cublas|cublasLt|cufft|cufile|cupti|curand|cusolver|cusparse|cusparseLt'
foreign+='|nccl|nvJitLink|nvrtc|nvshmem|nvToolsExt|nvidia|shm|gfortran|mkl)[._-]'
licensed=("$(readlink -f "$(command -v mpirun)")" /usr/bin/bible)
mapfile -t elves < <(find "$bundle" -type f \( -name '*.so' -o -path '*/bin/*' \))
while read -r library path; do
  [[ $library =~ $foreign ]] && continue
  [[ $path == /* ]] || die "$library, which the bundle needs, is not on this machine"
  [[ -f $bundle/lib/$library ]] || cp -L "$path" "$bundle/lib/$library"
  licensed+=("$path")
done < <(ldd "${elves[@]}" | awk '$2 == "=>" { print $1, ($3 == "not" ? "missing" : $3) }' | sort -u)

# The licences of what comes from Debian's packages.
mkdir "$bundle/share/licences"
cp "$root/THIRD_PARTY.md" "$bundle/share/licences/"
for file in "${licensed[@]}"; do
  # A package may name its file below /lib, where the system has it below /usr/lib.
  package=$(dpkg-query --search "*/${file##*/}" 2> /dev/null | grep -v ^diversion | sed -n '1s/[:,].*//p') || true
  if [[ -f /usr/share/doc/$package/copyright ]]; then
    cp -L "/usr/share/doc/$package/copyright" "$bundle/share/licences/$package"
  elif [[ ${file##*/} != libcxtrain* ]]; then
    echo "bundle: no package has $file: add its licence to $name/share/licences yourself" >&2
  fi
done

# Paths of this machine out, paths within the bundle in. DT_RPATH, so that it also holds for libraries of libraries.
while IFS= read -r file; do
  patchelf --force-rpath --set-rpath "\$ORIGIN/$(realpath --relative-to "$(dirname "$file")" "$bundle/lib")" "$file"
done < <(find "$bundle" -type f \( -name '*.so*' -o -path '*/bin/*' \))
for program in gpu_tests gpu_bench bench_trainer_loop; do  # these look inside
  patchelf --force-rpath --set-rpath "\$ORIGIN/../lib/with_internals:\$ORIGIN/../lib" "$bundle/bin/$program"
done
strip --strip-unneeded "$bundle"/bin/* "$bundle"/lib/*.so* "$bundle"/lib/{with_internals,cxtrain,gpu_check}/*.so

mkdir -p "$output"
archive=$output/$name.tar.gz
tar -C "$stage" --owner=0 --group=0 --mode='u+rwX,go+rX,go-w' --sort=name -cf - "$name" | gzip -9 >"$archive.partial"
size_mib=$(($(stat -c %s "$archive.partial") / 1024 / 1024 + 1))
((size_mib <= limit_mib)) || die "the archive has $size_mib MiB, more than $limit_mib: look at lib/ in $archive.partial"
mv "$archive.partial" "$archive"
echo "${archive#"$root/"}, $size_mib MiB, for LibTorch $(cat "$bundle/share/cxtrain/libtorch_version")"
