# Imported targets for an unpacked LibTorch tree (a wheel's `torch` folder or libtorch.zip).
#
#   CXTRAIN_LIBTORCH   folder that holds include/ and lib/   (default: .deps/libtorch)
#   CXTRAIN_CUDA       ON, OFF or AUTO: AUTO links the CUDA half when the CUDA headers, NCCL's header
#                      and libtorch_cuda.so are all present
#
# Defines LibTorch::torch and the variables LibTorch_CUDA, LibTorch_VERSION, LibTorch_LIBRARY_DIRS.
# Torch's own package file takes 14 s, needs nvcc and fails on some pairs of CMake and CUDA.

set(CXTRAIN_LIBTORCH "${PROJECT_SOURCE_DIR}/.deps/libtorch" CACHE PATH "LibTorch folder (include/ and lib/)")
set(CXTRAIN_CUDA AUTO CACHE STRING "Link the CUDA half of LibTorch and NCCL: ON, OFF or AUTO")
set_property(CACHE CXTRAIN_CUDA PROPERTY STRINGS AUTO ON OFF)

find_path(LibTorch_INCLUDE_DIR torch/csrc/api/include/torch/torch.h
          PATHS "${CXTRAIN_LIBTORCH}/include" NO_DEFAULT_PATH NO_CACHE)
find_library(LibTorch_CPU_LIBRARY torch_cpu PATHS "${CXTRAIN_LIBTORCH}/lib" NO_DEFAULT_PATH NO_CACHE)

if(LibTorch_INCLUDE_DIR AND EXISTS "${LibTorch_INCLUDE_DIR}/torch/headeronly/version.h")
  file(STRINGS "${LibTorch_INCLUDE_DIR}/torch/headeronly/version.h" _line REGEX "^#define TORCH_VERSION_(MAJOR|MINOR|PATCH) ")
  string(REGEX REPLACE "[^0-9;]" "" LibTorch_VERSION "${_line}")
  string(REPLACE ";" "." LibTorch_VERSION "${LibTorch_VERSION}")
endif()

# The libraries that LibTorch needs and the machine may lack (cuSPARSELt, NVSHMEM, cuFile, ...) lie here.
set(LibTorch_LIBRARY_DIRS "${CXTRAIN_LIBTORCH}/lib")
get_filename_component(_deps "${CXTRAIN_LIBTORCH}" DIRECTORY)
if(EXISTS "${_deps}/cuda/lib")
  list(APPEND LibTorch_LIBRARY_DIRS "${_deps}/cuda/lib")
endif()

set(LibTorch_CUDA OFF)
if(NOT CXTRAIN_CUDA STREQUAL "OFF")
  find_path(CUDA_INCLUDE_DIR cuda_runtime_api.h
            HINTS "$ENV{CUDA_HOME}/include" /usr/local/cuda/include /opt/cuda/include)
  find_path(NCCL_INCLUDE_DIR nccl.h HINTS "$ENV{NCCL_HOME}/include" "${CUDA_INCLUDE_DIR}")
  find_library(CUDART_LIBRARY cudart HINTS "${CUDA_INCLUDE_DIR}/../lib64" "${CUDA_INCLUDE_DIR}/../lib" ${LibTorch_LIBRARY_DIRS})
  find_library(NCCL_LIBRARY NAMES nccl libnccl.so.2
               HINTS "$ENV{NCCL_HOME}/lib" "${CUDA_INCLUDE_DIR}/../lib64" "${CUDA_INCLUDE_DIR}/../lib" ${LibTorch_LIBRARY_DIRS})
  if(CUDA_INCLUDE_DIR AND NCCL_INCLUDE_DIR AND CUDART_LIBRARY AND NCCL_LIBRARY
     AND EXISTS "${CXTRAIN_LIBTORCH}/lib/libtorch_cuda.so")
    set(LibTorch_CUDA ON)
  elseif(CXTRAIN_CUDA STREQUAL "ON")
    message(FATAL_ERROR "CXTRAIN_CUDA=ON needs cuda_runtime_api.h (${CUDA_INCLUDE_DIR}), nccl.h (${NCCL_INCLUDE_DIR}), "
                        "libcudart (${CUDART_LIBRARY}), libnccl (${NCCL_LIBRARY}) and libtorch_cuda.so in ${CXTRAIN_LIBTORCH}/lib")
  endif()
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(LibTorch
  REQUIRED_VARS LibTorch_CPU_LIBRARY LibTorch_INCLUDE_DIR VERSION_VAR LibTorch_VERSION
  REASON_FAILURE_MESSAGE "run scripts/setup.sh, or give -DCXTRAIN_LIBTORCH=<folder with include/ and lib/>")

if(LibTorch_FOUND AND NOT TARGET LibTorch::torch)
  add_library(LibTorch::torch INTERFACE IMPORTED)
  set_target_properties(LibTorch::torch PROPERTIES
    INTERFACE_INCLUDE_DIRECTORIES "${LibTorch_INCLUDE_DIR};${LibTorch_INCLUDE_DIR}/torch/csrc/api/include"
    INTERFACE_SYSTEM_INCLUDE_DIRECTORIES "${LibTorch_INCLUDE_DIR};${LibTorch_INCLUDE_DIR}/torch/csrc/api/include"
    INTERFACE_COMPILE_DEFINITIONS "FMT_HEADER_ONLY=1")
  # LibTorch exports a std::filesystem of its own, half of it null: the real one has to come first in every program.
  set(_link "-Wl,--no-as-needed,-lstdc++,--as-needed" "-L${CXTRAIN_LIBTORCH}/lib")
  foreach(_dir IN LISTS LibTorch_LIBRARY_DIRS)
    list(APPEND _link "-Wl,-rpath-link,${_dir}")
  endforeach()
  if(LibTorch_CUDA)
    list(APPEND _link "-Wl,-rpath-link,${CUDA_INCLUDE_DIR}/../lib64")
    # The CUDA half registers its kernels when it is loaded; without --no-as-needed the linker drops it.
    list(APPEND _link "-Wl,--no-as-needed,-ltorch,-ltorch_cpu,-ltorch_cuda,-lc10,-lc10_cuda,--as-needed"
                      "${NCCL_LIBRARY}" "${CUDART_LIBRARY}")
    target_include_directories(LibTorch::torch SYSTEM INTERFACE "${CUDA_INCLUDE_DIR}" "${NCCL_INCLUDE_DIR}")
    target_compile_definitions(LibTorch::torch INTERFACE CXTRAIN_WITH_CUDA=1)
  else()
    list(APPEND _link "-Wl,--no-as-needed,-ltorch_cpu,-lc10,--as-needed")
  endif()
  target_link_libraries(LibTorch::torch INTERFACE "${_link}")
endif()
