# What FindLibTorch makes of machines on which something is missing or does not fit: whether there will be GPU support, and
# the reason why not, which nobody should have to guess. Called with -DMODULES=<cmake/> -DCOMPILER= -DREADELF=
# -DGENERATOR= -DMAKE=<its program> -DWORK=.
cmake_minimum_required(VERSION 3.22)

file(REMOVE_RECURSE "${WORK}")
file(WRITE "${WORK}/project/CMakeLists.txt" "cmake_minimum_required(VERSION 3.22)
project(machine NONE)
list(APPEND CMAKE_MODULE_PATH \"${MODULES}\")
find_package(LibTorch 2.9 REQUIRED)
message(STATUS \"CUDA: \${LibTorch_CUDA}. \${LibTorch_NO_CUDA}\")
")

# library(<file> [library that it needs]): an empty one.
function(library file)
  get_filename_component(_folder "${file}" DIRECTORY)
  get_filename_component(_name "${file}" NAME)
  file(MAKE_DIRECTORY "${_folder}")
  execute_process(COMMAND "${COMPILER}" -shared -nostdlib -x c /dev/null -x none -o "${file}" "-Wl,-soname,${_name}"
                          -Wl,--no-as-needed ${ARGN} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

# machine(<name> [CUDA generation of LibTorch] [of the headers] [folder below the machine's for NCCL's header])
function(machine name torch_cuda header_cuda nccl)
  set(_root "${WORK}/${name}")
  file(WRITE "${_root}/torch/include/torch/csrc/api/include/torch/torch.h" "")
  file(WRITE "${_root}/torch/include/torch/headeronly/version.h"
       "#define TORCH_VERSION_MAJOR 2\n#define TORCH_VERSION_MINOR 11\n#define TORCH_VERSION_PATCH 0\n")
  library("${_root}/torch/lib/libtorch_cpu.so")
  if(torch_cuda)
    library("${_root}/cuda/lib/libcudart.so.${torch_cuda}")
    library("${_root}/cuda/lib/libnccl.so.2")
    library("${_root}/torch/lib/libtorch_cuda.so" "${_root}/cuda/lib/libcudart.so.${torch_cuda}")
  endif()
  if(header_cuda)
    file(WRITE "${_root}/cuda/include/cuda_runtime_api.h" "#define CUDART_VERSION  ${header_cuda}000\n")
  endif()
  if(nccl)
    file(WRITE "${_root}/${nccl}/nccl.h" "")
  endif()
endfunction()

# expect(<machine> <status: 0 or 1> <text> [further arguments of cmake ...])
function(expect name status text)
  file(REMOVE_RECURSE "${WORK}/build")
  execute_process(
    COMMAND "${CMAKE_COMMAND}" -E env --unset=CUDA_HOME --unset=CUDA_PATH --unset=CUDA_ROOT --unset=NCCL_HOME
            "${CMAKE_COMMAND}" -S "${WORK}/project" -B "${WORK}/build" -G "${GENERATOR}" "-DCMAKE_MAKE_PROGRAM=${MAKE}"
            "-DCXTRAIN_LIBTORCH=${WORK}/${name}/torch"
            -DCXTRAIN_TOOLKITS= "-DCMAKE_READELF=${READELF}" -DCMAKE_FIND_USE_CMAKE_SYSTEM_PATH=OFF
            -DCMAKE_FIND_USE_SYSTEM_ENVIRONMENT_PATH=OFF ${ARGN}
    RESULT_VARIABLE _status OUTPUT_VARIABLE _output ERROR_VARIABLE _errors)
  string(REGEX REPLACE "[ \n]+" " " _said "${_output} ${_errors}")
  if(NOT _status EQUAL status OR NOT _said MATCHES "${text}")
    message(SEND_ERROR "${name} ${ARGN}: expected status ${status} and '${text}', found ${_status} and\n${_output}${_errors}")
  endif()
endfunction()

machine(complete 13 13 cuda/include)
expect(complete 0 "CUDA: ON")
expect(complete 0 "CUDA: OFF" -DCXTRAIN_CUDA=OFF)

machine(wheels 13 13 nvidia/nccl/include)
expect(wheels 0 "CUDA: ON")

machine(without_nccl 13 13 "")
expect(without_nccl 0 "CUDA: OFF. not all is there: .*nccl.h .NCCL_INCLUDE_DIR-NOTFOUND.")
expect(without_nccl 1 "CXTRAIN_CUDA=ON: not all is there: .*scripts/setup.sh installs what is missing" -DCXTRAIN_CUDA=ON)

machine(older_headers 13 12 cuda/include)
expect(older_headers 0 "CUDA: OFF. .*is of CUDA 12, and this LibTorch was built for CUDA 13")

machine(cpu_only "" 13 cuda/include)
expect(cpu_only 0 "CUDA: OFF. .*is LibTorch without CUDA")

machine(old_libtorch 13 13 cuda/include)
file(REMOVE "${WORK}/old_libtorch/torch/include/torch/headeronly/version.h")
expect(old_libtorch 1 "is older than LibTorch 2.9, the oldest that cxtrain works with")
