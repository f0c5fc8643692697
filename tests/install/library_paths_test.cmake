# cmake -DFOLDERS=<folder;folder> -DREADELF=<readelf> -P library_paths_test.cmake: programs and libraries look for libraries in absolute
# folders, or in folders beside themselves. An empty or relative entry of RPATH would mean the current folder, and the program would run
# code that somebody has put there.

cmake_minimum_required(VERSION 3.22)

set(count 0)
foreach(folder IN LISTS FOLDERS)
  file(GLOB_RECURSE files ${folder}/*)
  foreach(file IN LISTS files)
    execute_process(COMMAND ${READELF} -d ${file} OUTPUT_VARIABLE dynamic ERROR_QUIET)
    if(NOT dynamic MATCHES "R(UN)?PATH\\)[^[]*\\[([^]]*)\\]")
      continue()
    endif()
    set(path ${CMAKE_MATCH_2})
    math(EXPR count "${count} + 1")
    # A list of CMake loses empty elements: each entry keeps the colon before it.
    string(REGEX MATCHALL ":[^:]*" entries ":${path}")
    foreach(entry IN LISTS entries)
      if(NOT entry MATCHES "^:(/|\\$ORIGIN)")
        message(SEND_ERROR "${file}: the library path '${path}' has the entry '${entry}', which depends on the current folder")
      endif()
    endforeach()
  endforeach()
endforeach()
if(count LESS 5)
  message(FATAL_ERROR "only ${count} files with a library path were found in ${FOLDERS}")
endif()
message("${count} files")
