# Prints the public headers and all of cxtrain's headers that they include, a line each. Run as a script:
#
#   cmake -DROOT=<folder with cxtrain/> -P ListPublicHeaders.cmake

cmake_minimum_required(VERSION 3.22)
include(${CMAKE_CURRENT_LIST_DIR}/PublicHeaders.cmake)
cxtrain_include_closure(headers "${ROOT}" ${CXTRAIN_PLUGIN_HEADERS} ${CXTRAIN_PROGRAM_HEADERS})
list(JOIN headers "\n" lines)
execute_process(COMMAND ${CMAKE_COMMAND} -E echo "${lines}")
