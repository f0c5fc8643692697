# Writes a header with a hash of every header that a plugin and the program have to agree on: those that define what
# crosses between them, and whatever these include. Run as a script:
#
#   cmake -DROOT=<folder with cxtrain/> -DOUTPUT=<header> -P HeadersHash.cmake

cmake_minimum_required(VERSION 3.22)

set(queue cxtrain/plugin/plugin_abi.h cxtrain/strategy/strategy.h cxtrain/trainer/module.h)
set(headers "")
while(queue)
  list(POP_FRONT queue header)
  if(header IN_LIST headers OR NOT EXISTS "${ROOT}/${header}")
    continue()
  endif()
  list(APPEND headers ${header})
  file(STRINGS "${ROOT}/${header}" includes REGEX "^#include \"cxtrain/")
  foreach(line IN LISTS includes)
    string(REGEX REPLACE "^#include \"([^\"]+)\".*" "\\1" included "${line}")
    list(APPEND queue ${included})
  endforeach()
endwhile()

set(contents "")
list(SORT headers)
foreach(header IN LISTS headers)
  file(SHA256 "${ROOT}/${header}" hash)
  string(APPEND contents "${header} ${hash}\n")
endforeach()
string(SHA256 hash "${contents}")
string(SUBSTRING ${hash} 0 12 hash)

# Leaves a file as it is whose content stays the same: whoever includes it is not compiled again.
file(CONFIGURE OUTPUT "${OUTPUT}" CONTENT "#pragma once\n\n#define CXTRAIN_HEADERS \"${hash}\"\n" @ONLY)
