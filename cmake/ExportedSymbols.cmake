# Writes the linker's version script of the library: what the public headers declare is exported, nothing else is. Run as
# a script:
#
#   cmake -DROOT=<folder with cxtrain/> -DOUTPUT=<version script> -P ExportedSymbols.cmake
#
# Names are those of classes, structs, enumerations and functions that are declared in the namespace cxtrain at the
# beginning of a line, as the formatter has it. What a class has goes with it: members, tables of virtual functions and
# type information, which exceptions and std::any need on both sides. A name that is missing is found where plugins are
# linked (-z defs); one too many by tests/install/exported_symbols_test.cmake.

cmake_minimum_required(VERSION 3.22)
include(${CMAKE_CURRENT_LIST_DIR}/PublicHeaders.cmake)

cxtrain_include_closure(headers "${ROOT}" ${CXTRAIN_PLUGIN_HEADERS} ${CXTRAIN_PROGRAM_HEADERS})
set(types "")
set(functions "")
foreach(header IN LISTS headers)
  file(STRINGS "${ROOT}/${header}" lines REGEX "^(class|struct|enum class) [A-Za-z0-9_]+[^;]*[{]|^[A-Za-z][A-Za-z0-9_:<>,&* ]* [&*]?[a-z_]+\\(")
  foreach(line IN LISTS lines)
    if(line MATCHES "^(class|struct|enum class) ([A-Za-z0-9_]+)")
      list(APPEND types ${CMAKE_MATCH_2})
    elseif(line MATCHES "([A-Za-z_]+)\\(")
      list(APPEND functions ${CMAKE_MATCH_1})
    endif()
  endforeach()
endforeach()
list(REMOVE_DUPLICATES types)
list(REMOVE_DUPLICATES functions)
list(SORT types)
list(SORT functions)

# A name as the C++ ABI writes it, from the namespace on.
function(cxtrain_mangled variable name)
  string(LENGTH ${name} length)
  set(${variable} "7cxtrain${length}${name}" PARENT_SCOPE)
endfunction()

set(script "# Written by cmake/ExportedSymbols.cmake: what the public headers declare.\n{\n  global:\n")
foreach(type IN LISTS types)
  cxtrain_mangled(name ${type})
  # Members, const or not; tables and type information; what overriders of a second base class are called through.
  string(APPEND script "    _ZN${name}*; _ZNK${name}*; _ZT?N${name}*; _ZTh*_N${name}*; _ZTh*_NK${name}*;\n")
endforeach()
foreach(function IN LISTS functions)
  cxtrain_mangled(name ${function})
  string(APPEND script "    _ZN${name}*;\n")
endforeach()
string(APPEND script "  local: *;\n};\n")
file(CONFIGURE OUTPUT "${OUTPUT}" CONTENT "${script}" @ONLY)
