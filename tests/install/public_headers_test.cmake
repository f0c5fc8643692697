# cmake -DPROJECT=<root> -DINCLUDE=<installed include folder> -DWORK=<folder> -P public_headers_test.cmake
#
# What is installed is what users' code includes, and whatever that includes, and nothing of what is inside.

cmake_minimum_required(VERSION 3.22)

# Those of a file's includes from cxtrain that are not in the folder are appended to `missing`.
function(append_missing missing file folder)
  file(STRINGS "${file}" lines REGEX "^#include [<\"]cxtrain/")
  foreach(line IN LISTS lines)
    string(REGEX REPLACE "^#include [<\"]([^>\"]+).*" "\\1" header "${line}")
    if(NOT EXISTS "${folder}/${header}")
      list(APPEND ${missing} "${file} includes ${header}")
    endif()
  endforeach()
  set(${missing} ${${missing}} PARENT_SCOPE)
endfunction()

# What is wrong with an installed include folder.
function(find_wrong wrong folder)
  set(found "")
  file(GLOB_RECURSE headers RELATIVE "${folder}" "${folder}/cxtrain/*")
  list(LENGTH headers count)
  if(count LESS 20)
    list(APPEND found "only ${count} headers in ${folder}")
  endif()
  foreach(inside session train_context metric_rows fit_loop yaml_config option_table mpi_world window_collectives
                 progress_bar hang_reporter nccl_handle)
    file(GLOB_RECURSE exists "${PROJECT}/src/cxtrain/*/${inside}.h")
    if(NOT exists)
      list(APPEND found "src/cxtrain has no ${inside}.h, which this test names as one that is not to be installed")
    endif()
    set(installed ${headers})
    list(FILTER installed INCLUDE REGEX "/${inside}\\.h$")
    if(installed)
      list(APPEND found "${installed} is no header for users")
    endif()
  endforeach()
  foreach(header IN LISTS headers)
    append_missing(found "${folder}/${header}" "${folder}")
  endforeach()
  # As users write: their code, and what the README shows.
  file(GLOB_RECURSE users ${PROJECT}/examples/*.h ${PROJECT}/examples/*.cpp ${PROJECT}/strategies/*.h
       ${PROJECT}/strategies/*.cpp ${PROJECT}/tests/consumer/*.h ${PROJECT}/tests/consumer/*.cpp ${PROJECT}/tests/zoo/*.h
       ${PROJECT}/tests/zoo/*.cpp ${PROJECT}/tests/plugins/*.h ${PROJECT}/tests/plugins/*.cpp ${PROJECT}/README.md ${PROJECT}/docs/*.md)
  foreach(file IN LISTS users)
    append_missing(found "${file}" "${folder}")
  endforeach()
  set(${wrong} ${found} PARENT_SCOPE)
endfunction()

find_wrong(wrong "${INCLUDE}")
if(wrong)
  list(JOIN wrong "\n  " wrong)
  message(FATAL_ERROR "${INCLUDE}:\n  ${wrong}")
endif()

# This test sees a header too many, one that a user includes too few, and one that a public header includes.
foreach(change add cxtrain/trainer/session.h remove cxtrain/data/tensor_dataset.h remove cxtrain/tensor/piece.h)
  if(change STREQUAL add OR change STREQUAL remove)
    set(action ${change})
    continue()
  endif()
  file(REMOVE_RECURSE "${WORK}")
  file(COPY "${INCLUDE}/cxtrain" DESTINATION "${WORK}")
  if(action STREQUAL add)
    configure_file("${PROJECT}/src/${change}" "${WORK}/${change}" COPYONLY)
  else()
    file(REMOVE "${WORK}/${change}")
  endif()
  find_wrong(wrong "${WORK}")
  if(NOT wrong MATCHES "${change}")
    message(FATAL_ERROR "nothing was found wrong with ${change}, after: ${action}")
  endif()
endforeach()
