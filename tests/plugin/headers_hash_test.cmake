# cmake -DPROJECT=<root> -DWORK=<folder> -P headers_hash_test.cmake: which headers the plugins' fingerprint depends on.

cmake_minimum_required(VERSION 3.22)

file(REMOVE_RECURSE "${WORK}")
file(MAKE_DIRECTORY "${WORK}")
file(COPY "${PROJECT}/src/cxtrain" DESTINATION "${WORK}" FILES_MATCHING PATTERN "*.h")

function(hash result)
  execute_process(COMMAND ${CMAKE_COMMAND} -DROOT=${WORK} -DOUTPUT=${WORK}/hash.h -P ${PROJECT}/cmake/HeadersHash.cmake
                  COMMAND_ERROR_IS_FATAL ANY)
  file(READ "${WORK}/hash.h" text)
  if(NOT text MATCHES "CXTRAIN_HEADERS \"([0-9a-f]+)\"")
    message(FATAL_ERROR "no hash in: ${text}")
  endif()
  set(${result} ${CMAKE_MATCH_1} PARENT_SCOPE)
endfunction()

hash(before)
foreach(header cli/main.h cluster/watchdog.h)
  file(APPEND "${WORK}/cxtrain/${header}" "int changed;\n")
  hash(now)
  if(NOT now STREQUAL before)
    message(FATAL_ERROR "plugins would be refused for a change of ${header}, which they never see")
  endif()
endforeach()
foreach(header strategy/strategy.h trainer/module.h plugin/registry.h data/dataset.h config/options.h)
  file(APPEND "${WORK}/cxtrain/${header}" "int changed;\n")
  hash(now)
  if(now STREQUAL before)
    message(FATAL_ERROR "a plugin that was compiled with another ${header} would be loaded")
  endif()
  set(before ${now})
endforeach()
