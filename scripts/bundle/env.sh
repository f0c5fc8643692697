# Sourced by run.sh and scripts/gpu_check.sh: makes the bundle's programs find LibTorch, CUDA and their own Open MPI.
# $CXTRAIN_LIBTORCH names LibTorch's folder (the one with lib/); else it is the one of this machine's python3.
# shellcheck shell=bash

cxtrain_bundle=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

cxtrain_find_libtorch() {
  if [[ -z ${CXTRAIN_LIBTORCH:-} ]]; then
    # Looked up, not imported: an import takes seconds. Not in the current folder, which Python looks into first.
    CXTRAIN_LIBTORCH=$(python3 -c 'import sys; sys.path.pop(0); import importlib.util as u; s = u.find_spec("torch"); print(s.submodule_search_locations[0] if s else "")' 2>/dev/null || true)
  fi
  if [[ ! -f $CXTRAIN_LIBTORCH/lib/libtorch_cpu.so ]]; then
    echo "cxtrain: no LibTorch: ${CXTRAIN_LIBTORCH:+$CXTRAIN_LIBTORCH/lib has no libtorch_cpu.so; }set CXTRAIN_LIBTORCH to the folder whose lib/ holds libtorch_cpu.so, or put a python3 that has torch first in PATH" >&2
    return 1
  fi
  CXTRAIN_LIBTORCH=$(cd "$CXTRAIN_LIBTORCH" && pwd)
}

# LibTorch's C++ interface changes with every release: another one ends in undefined symbols, or worse.
cxtrain_check_libtorch() {
  local wanted found=
  wanted=$(cat "$cxtrain_bundle/share/cxtrain/libtorch_version")
  if [[ -f $CXTRAIN_LIBTORCH/version.py ]]; then
    found=$(sed -n "s/^__version__ = '\([0-9.]*\).*/\1/p" "$CXTRAIN_LIBTORCH/version.py")
  elif [[ -f $CXTRAIN_LIBTORCH/include/torch/headeronly/version.h ]]; then
    found=$(sed -n 's/^#define TORCH_VERSION_\(MAJOR\|MINOR\|PATCH\) //p' "$CXTRAIN_LIBTORCH/include/torch/headeronly/version.h" | paste -sd.)
  fi
  if [[ -n $found && $found != "$wanted" ]]; then
    echo "cxtrain: this bundle was built for LibTorch $wanted, but $CXTRAIN_LIBTORCH is $found; give it the former, or rebuild the bundle against the latter" >&2
    return 1
  fi
}

# A wheel says which CUDA it was built for (2.11.0+cu130); with another one's libraries nothing would load on a GPU.
cxtrain_check_cuda() {
  local wanted found=
  wanted=$(cat "$cxtrain_bundle/share/cxtrain/cuda_version")
  if [[ -f $CXTRAIN_LIBTORCH/version.py ]]; then
    found=$(sed -n "s/^cuda[^=]*= '\([0-9]*\).*/\1/p" "$CXTRAIN_LIBTORCH/version.py")
  fi
  if [[ -n $found && $found != "$wanted" ]]; then
    echo "cxtrain: this bundle was built for CUDA $wanted, but the LibTorch in $CXTRAIN_LIBTORCH is for CUDA $found; give it one for CUDA $wanted (one of pip's indexes cu${wanted}x), or rebuild the bundle against this one" >&2
    return 1
  fi
}

cxtrain_set_paths() {
  local folder folders=$CXTRAIN_LIBTORCH/lib
  # Where pip puts CUDA, where a plain unpacked LibTorch may have what it lacks, where the toolkit lies.
  for folder in "$CXTRAIN_LIBTORCH"/../nvidia/*/lib "$CXTRAIN_LIBTORCH"/../cuda/lib; do
    # Beside a LibTorch in /tmp anybody could have made them.
    [[ -d $folder && $(stat -Lc %u "$folder") =~ ^(0|$EUID|$(stat -Lc %u "$CXTRAIN_LIBTORCH/lib"))$ ]] &&
      folders+=:$(cd "$folder" && pwd)
  done
  folders+=${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
  for folder in /usr/local/cuda/lib64 /usr/local/nvidia/lib64; do
    [[ -d $folder ]] && folders+=:$folder
  done
  export CXTRAIN_LIBTORCH LD_LIBRARY_PATH=$folders
  export PATH=$cxtrain_bundle/bin:$cxtrain_bundle/openmpi/bin:$PATH
  # Without ssh Open MPI's remote starter refuses to start ranks on this machine, too.
  if [[ -z ${OMPI_MCA_plm:-} ]] && ! command -v ssh >/dev/null && ! command -v rsh >/dev/null; then
    export OMPI_MCA_plm=^rsh
  fi
  # Modules of clusters ask for fabrics that this Open MPI came without; it would not start.
  local name
  for name in OMPI_MCA_pml OMPI_MCA_btl OMPI_MCA_mtl OMPI_MCA_osc; do
    case ${!name:-} in
      ^*) ;;
      *ucx* | *ofi* | *psm* | *openib* | cm)
        echo "cxtrain: $name=${!name} is left out: the bundle's Open MPI has no such component, and takes TCP between nodes" >&2
        unset "$name"
        ;;
    esac
  done
  export OPAL_PREFIX=$cxtrain_bundle/openmpi PMIX_PREFIX=$cxtrain_bundle/openmpi
  export PMIX_PKGLIBDIR=$cxtrain_bundle/openmpi/lib/pmix
}

cxtrain_find_libtorch && cxtrain_check_libtorch && cxtrain_check_cuda && cxtrain_set_paths
