# Imported targets for an unpacked LibTorch tree (a wheel's `torch` folder or libtorch.zip).
#
#   CXTRAIN_LIBTORCH   folder that holds include/ and lib/   (default: .deps/libtorch)
#   CXTRAIN_CUDA       ON, OFF or AUTO: whether there is a target for the CUDA half; AUTO: where libtorch_cuda.so and the
#                      headers and libraries of CUDA's run time and NCCL are all found, and fit each other
#
# Defines
#   LibTorch::torch    the half without CUDA, which is all that most code needs: tensors of any device work with it
#   LibTorch::cuda     libtorch_cuda, CUDA's run time and NCCL, with their headers; where LibTorch_CUDA is ON
# and the variables LibTorch_CUDA, LibTorch_NO_CUDA (why not), LibTorch_VERSION, LibTorch_LIBRARY_DIRS and LibTorch_CUDA_LIBRARY_DIRS, where the
# libraries lie that each needs at run time.
#
# Torch's own package file takes 14 s, needs nvcc and fails on some pairs of CMake and CUDA.

set(CXTRAIN_LIBTORCH "${PROJECT_SOURCE_DIR}/.deps/libtorch" CACHE PATH "LibTorch folder (include/ and lib/)")
set(CXTRAIN_TOOLKITS /usr/local/cuda /opt/cuda CACHE STRING "Folders of CUDA toolkits that neither PATH nor CUDA_HOME names")
mark_as_advanced(CXTRAIN_TOOLKITS)
set(CXTRAIN_CUDA AUTO CACHE STRING "Build with the CUDA half of LibTorch and NCCL: ON, OFF or AUTO")
set_property(CACHE CXTRAIN_CUDA PROPERTY STRINGS AUTO ON OFF)
string(TOUPPER "${CXTRAIN_CUDA}" CXTRAIN_CUDA)
if(NOT CXTRAIN_CUDA MATCHES "^(AUTO|ON|OFF)$")
  message(FATAL_ERROR "CXTRAIN_CUDA is ON, OFF or AUTO, and not ${CXTRAIN_CUDA}")
endif()

find_path(LibTorch_INCLUDE_DIR torch/csrc/api/include/torch/torch.h
          PATHS "${CXTRAIN_LIBTORCH}/include" NO_DEFAULT_PATH NO_CACHE)
find_library(LibTorch_CPU_LIBRARY torch_cpu PATHS "${CXTRAIN_LIBTORCH}/lib" NO_DEFAULT_PATH NO_CACHE)

if(LibTorch_INCLUDE_DIR AND EXISTS "${LibTorch_INCLUDE_DIR}/torch/headeronly/version.h")
  file(STRINGS "${LibTorch_INCLUDE_DIR}/torch/headeronly/version.h" _line REGEX "^#define TORCH_VERSION_(MAJOR|MINOR|PATCH) ")
  string(REGEX REPLACE "[^0-9;]" "" LibTorch_VERSION "${_line}")
  string(REPLACE ";" "." LibTorch_VERSION "${LibTorch_VERSION}")
endif()
# No semicolons in it: CMake would take what follows for further arguments.
set(_reason "Run scripts/setup.sh, or give -DCXTRAIN_LIBTORCH=<folder with include/ and lib/>")
if(LibTorch_INCLUDE_DIR AND NOT LibTorch_VERSION)
  # The header came with 2.9. Before 2.6 the wheels also had g++'s old ABI for strings, and nothing would link.
  set(_reason "${CXTRAIN_LIBTORCH} is older than LibTorch 2.9, the oldest that cxtrain works with. ${_reason}")
endif()

# Where what LibTorch needs may lie: beside a wheel, in a folder of scripts/setup.sh, in a toolkit; first come first served.
file(GLOB _nvidia LIST_DIRECTORIES true "${CXTRAIN_LIBTORCH}/../nvidia/*")
get_filename_component(_deps "${CXTRAIN_LIBTORCH}" DIRECTORY)
find_program(_nvcc nvcc NO_CACHE)
set(_of_nvcc "")
if(_nvcc)
  get_filename_component(_nvcc "${_nvcc}" REALPATH)
  get_filename_component(_of_nvcc "${_nvcc}/../.." ABSOLUTE)
endif()
set(_include_hints "")
set(_library_hints "")
foreach(_folder ${_nvidia} "${_deps}/cuda" "$ENV{CUDA_HOME}" "$ENV{CUDA_PATH}" "$ENV{CUDA_ROOT}" "${_of_nvcc}"
                ${CXTRAIN_TOOLKITS})
  if(NOT _folder)
    continue()
  endif()
  if(IS_DIRECTORY "${_folder}/include" OR IS_DIRECTORY "${_folder}/lib")
    get_filename_component(_folder "${_folder}" REALPATH)
    list(APPEND _include_hints "${_folder}/include")
    list(APPEND _library_hints "${_folder}/lib" "${_folder}/lib64" "${_folder}/extras/CUPTI/lib64")
  endif()
endforeach()

# libtorch_needs(<variable> <library>): the libraries that one was linked with, by name.
function(libtorch_needs variable library)
  execute_process(COMMAND "${CMAKE_READELF}" -d "${library}" OUTPUT_VARIABLE _dynamic ERROR_QUIET)
  string(REGEX MATCHALL "lib[A-Za-z0-9_+-]+[.]so[.0-9]*" _names "${_dynamic}")
  set(${variable} "${_names}" PARENT_SCOPE)
endfunction()
# libtorch_folders(<variable> <libraries by name ...>): where the hints have them.
function(libtorch_folders variable)
  set(_folders "")
  foreach(_name IN LISTS ARGN)
    foreach(_folder IN LISTS _library_hints)
      if(EXISTS "${_folder}/${_name}")
        list(APPEND _folders "${_folder}")
        break()
      endif()
    endforeach()
  endforeach()
  list(REMOVE_DUPLICATES _folders)
  set(${variable} "${_folders}" PARENT_SCOPE)
endfunction()

# What was found of CUDA is looked for again.
function(libtorch_forget_cuda)
  foreach(_variable CUDA_INCLUDE_DIR NCCL_INCLUDE_DIR CUDART_LIBRARY NCCL_LIBRARY)
    unset(${_variable} CACHE)
  endforeach()
endfunction()

set(LibTorch_LIBRARY_DIRS "${CXTRAIN_LIBTORCH}/lib")
if(LibTorch_CPU_LIBRARY)
  libtorch_needs(_needed "${LibTorch_CPU_LIBRARY}")
  libtorch_folders(_folders ${_needed})
  list(APPEND LibTorch_LIBRARY_DIRS ${_folders})
endif()

set(LibTorch_CUDA OFF)
set(LibTorch_CUDART_VERSION 0)
set(LibTorch_CUDA_LIBRARY_DIRS ${LibTorch_LIBRARY_DIRS})
set(_cuda "${CXTRAIN_LIBTORCH}/lib/libtorch_cuda.so")
set(LibTorch_NO_CUDA "")
if(NOT CXTRAIN_CUDA STREQUAL "OFF")
  if(CUDA_INCLUDE_DIR AND NOT EXISTS "${CUDA_INCLUDE_DIR}/cuda_runtime_api.h")
    libtorch_forget_cuda()
  endif()
  set(_torch_cuda 13)
  if(EXISTS "${_cuda}")
    libtorch_needs(_needed "${_cuda}")
    string(REGEX MATCH "libcudart[.]so[.]([0-9]+)" _ "${_needed}")
    set(_torch_cuda ${CMAKE_MATCH_1})
    list(APPEND _needed libnvJitLink.so.${_torch_cuda} libnvrtc.so.${_torch_cuda})  # opened by those
    libtorch_folders(_folders ${_needed})
    list(APPEND LibTorch_CUDA_LIBRARY_DIRS ${_folders})
    list(REMOVE_DUPLICATES LibTorch_CUDA_LIBRARY_DIRS)
  endif()
  find_path(CUDA_INCLUDE_DIR cuda_runtime_api.h HINTS ${_include_hints})
  find_path(NCCL_INCLUDE_DIR nccl.h HINTS "$ENV{NCCL_HOME}/include" ${_include_hints} "${CUDA_INCLUDE_DIR}")
  find_library(CUDART_LIBRARY NAMES libcudart.so.${_torch_cuda} HINTS ${_library_hints})
  find_library(NCCL_LIBRARY NAMES libnccl.so.2 nccl HINTS "$ENV{NCCL_HOME}/lib" ${_library_hints})
  set(_header_cuda "")
  if(CUDA_INCLUDE_DIR)
    file(STRINGS "${CUDA_INCLUDE_DIR}/cuda_runtime_api.h" _line REGEX "^#define CUDART_VERSION +[0-9]+")
    string(REGEX REPLACE "[^0-9]" "" LibTorch_CUDART_VERSION "${_line}")
    math(EXPR _header_cuda "${LibTorch_CUDART_VERSION} / 1000")
  endif()
  if(NOT EXISTS "${_cuda}")
    set(LibTorch_NO_CUDA "${CXTRAIN_LIBTORCH} is LibTorch without CUDA (no lib/libtorch_cuda.so)")
  elseif(NOT CUDA_INCLUDE_DIR OR NOT NCCL_INCLUDE_DIR OR NOT CUDART_LIBRARY OR NOT NCCL_LIBRARY)
    set(LibTorch_NO_CUDA "not all is there: cuda_runtime_api.h (${CUDA_INCLUDE_DIR}), nccl.h (${NCCL_INCLUDE_DIR}), libcudart (${CUDART_LIBRARY}), libnccl (${NCCL_LIBRARY})")
  elseif(NOT _header_cuda EQUAL _torch_cuda)
    set(LibTorch_NO_CUDA "${CUDA_INCLUDE_DIR} is of CUDA ${_header_cuda}, and this LibTorch was built for CUDA ${_torch_cuda}")
    libtorch_forget_cuda()
  else()
    set(LibTorch_CUDA ON)
  endif()
  if(CXTRAIN_CUDA STREQUAL "ON" AND NOT LibTorch_CUDA)
    message(FATAL_ERROR "CXTRAIN_CUDA=ON: ${LibTorch_NO_CUDA}; CUDA_HOME names a toolkit, scripts/setup.sh installs what is missing")
  endif()
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(LibTorch REQUIRED_VARS LibTorch_CPU_LIBRARY LibTorch_INCLUDE_DIR LibTorch_VERSION
                                  VERSION_VAR LibTorch_VERSION REASON_FAILURE_MESSAGE "${_reason}")

if(LibTorch_FOUND AND NOT TARGET LibTorch::torch)
  # LibTorch exports a std::filesystem of its own, half of it null: the real one has to come first in every program.
  add_library(LibTorch::torch INTERFACE IMPORTED)
  target_link_directories(LibTorch::torch INTERFACE "${CXTRAIN_LIBTORCH}/lib")
  foreach(_dir IN LISTS LibTorch_LIBRARY_DIRS)
    target_link_options(LibTorch::torch INTERFACE "LINKER:-rpath-link,${_dir}")
  endforeach()
  set_target_properties(LibTorch::torch PROPERTIES
    INTERFACE_INCLUDE_DIRECTORIES "${LibTorch_INCLUDE_DIR};${LibTorch_INCLUDE_DIR}/torch/csrc/api/include"
    INTERFACE_SYSTEM_INCLUDE_DIRECTORIES "${LibTorch_INCLUDE_DIR};${LibTorch_INCLUDE_DIR}/torch/csrc/api/include"
    INTERFACE_COMPILE_DEFINITIONS "FMT_HEADER_ONLY=1")
  target_link_libraries(LibTorch::torch INTERFACE "-Wl,--no-as-needed,-lstdc++,--as-needed"
    "-Wl,--no-as-needed,-ltorch_cpu,-lc10,--as-needed")
endif()
if(LibTorch_FOUND AND LibTorch_CUDA AND NOT TARGET LibTorch::cuda)
  # Its headers alone, for what tests of what is behind NCCL's table are compiled with.
  add_library(LibTorch::cuda_headers INTERFACE IMPORTED)
  target_include_directories(LibTorch::cuda_headers SYSTEM INTERFACE "${CUDA_INCLUDE_DIR}" "${NCCL_INCLUDE_DIR}")
  add_library(LibTorch::cuda INTERFACE IMPORTED)
  foreach(_dir IN LISTS LibTorch_CUDA_LIBRARY_DIRS)
    target_link_options(LibTorch::cuda INTERFACE "LINKER:-rpath-link,${_dir}")
  endforeach()
  # The CUDA half registers its kernels when it is loaded; without --no-as-needed the linker drops it.
  target_link_libraries(LibTorch::cuda INTERFACE LibTorch::torch LibTorch::cuda_headers
    "-Wl,--no-as-needed,-ltorch_cuda,-lc10_cuda,--as-needed" "${NCCL_LIBRARY}" "${CUDART_LIBRARY}")
endif()
