# Writes a header with a hash of every header that a plugin and the program have to agree on: the public ones that
# plugins include, and whatever these include. The hash is over their tokens: comments, line breaks and the like may
# differ. Run as a script:
#
#   cmake -DROOT=<folder with cxtrain/> -DOUTPUT=<header> -P HeadersHash.cmake

cmake_minimum_required(VERSION 3.22)
include(${CMAKE_CURRENT_LIST_DIR}/PublicHeaders.cmake)

set(raw_string "R\"\\(([^)]|\\)+[^)\"])*\\)+\"")
set(text "\"([^\"\\]|\\\\.)*\"")
set(character "'([^'\\]|\\\\[^'][^']*|\\\\')'")
set(line_comment "//[^\n]*")
set(block_comment "/\\*([^*]|\\*+[^*/])*\\*+/")
set(token "${raw_string}|${text}|${character}|${line_comment}|${block_comment}|[A-Za-z0-9_]+|[^ \t\r\n]")

# The tokens of a header but for comments, separated by spaces.
function(cxtrain_tokens variable file)
  file(READ "${file}" code)
  string(REPLACE "\\\n" "\n" code "${code}")
  # These mean something in lists.
  string(ASCII 1 semicolon)
  string(ASCII 2 opening)
  string(ASCII 3 closing)
  string(REPLACE ";" "${semicolon}" code "${code}")
  string(REPLACE "[" "${opening}" code "${code}")
  string(REPLACE "]" "${closing}" code "${code}")
  string(REGEX MATCHALL "${token}" tokens "${code}")
  list(FILTER tokens EXCLUDE REGEX "^/[/*]")
  list(JOIN tokens " " tokens)
  set(${variable} "${tokens}" PARENT_SCOPE)
endfunction()

cxtrain_include_closure(headers "${ROOT}" ${CXTRAIN_PLUGIN_HEADERS})
set(contents "")
foreach(header IN LISTS headers)
  cxtrain_tokens(tokens "${ROOT}/${header}")
  string(APPEND contents "${header}\n${tokens}\n")
endforeach()
string(SHA256 hash "${contents}")
string(SUBSTRING ${hash} 0 12 hash)

# Leaves a file as it is whose content stays the same: whoever includes it is not compiled again.
file(CONFIGURE OUTPUT "${OUTPUT}" CONTENT "#pragma once\n\n#define CXTRAIN_HEADERS \"${hash}\"\n" @ONLY)
