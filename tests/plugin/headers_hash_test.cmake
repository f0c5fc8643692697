# cmake -DPROJECT=<root> -DWORK=<folder> -P headers_hash_test.cmake: which headers, and what of them, the plugins'
# fingerprint depends on.

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

# keeps_hash(<why> <header> <text>), changes_hash(...): what a header with this text instead of its own does to the hash.
function(keeps_hash why header text)
  file(WRITE "${WORK}/cxtrain/${header}" "${text}")
  hash(now)
  if(NOT now STREQUAL before)
    message(FATAL_ERROR "plugins would be refused for ${why} in ${header}")
  endif()
endfunction()
function(changes_hash why header text)
  file(WRITE "${WORK}/cxtrain/${header}" "${text}")
  hash(now)
  if(now STREQUAL before)
    message(FATAL_ERROR "a plugin would be loaded that was compiled with ${why} in ${header}")
  endif()
  set(before ${now} PARENT_SCOPE)
endfunction()

hash(before)

# Headers that plugins do not see, and those that they do.
foreach(header cli/main.h cluster/hang_reporter.h trainer/session.h)
  file(READ "${WORK}/cxtrain/${header}" text)
  keeps_hash("a change" ${header} "${text}int changed;\n")
endforeach()
foreach(header strategy/strategy.h trainer/module.h plugin/registry.h data/dataset.h config/options.h
               report/metric_logger.h comm/communicator.h strategy/parameter_store.h)
  file(READ "${WORK}/cxtrain/${header}" text)
  changes_hash("another member" ${header} "${text}int changed;\n")
endforeach()

# Layout of the text is nobody's business.
set(dataset data/dataset.h)
file(READ "${WORK}/cxtrain/${dataset}" text)
keeps_hash("a line comment" ${dataset} "${text}// it's \"new\" [, see https://example.org; \\\n")
keeps_hash("a block comment" ${dataset} "/* new, * and\n ** \"newer */${text}/**/")
string(REGEX REPLACE "//[^\n]*" "" bare "${text}")
keeps_hash("missing comments" ${dataset} "${bare}")
string(REPLACE ";" " /* ends */\n\n  ;\t" spread "${bare}")
keeps_hash("line breaks" ${dataset} "${spread}")
string(REPLACE "&" " &" spread "${bare}")
keeps_hash("spaces" ${dataset} "${spread}")
string(REPLACE "#include" "#define MACRO(x) \\\n  f(x)\n#include" one_line "${text}")
changes_hash("a macro" ${dataset} "${one_line}")
string(REPLACE "\\\n  f(x)" "\\\n  // comment \\\n  f( x )" lines "${one_line}")
keeps_hash("a macro's lines" ${dataset} "${lines}")

# What the compiler sees is.
changes_hash("the header as it was" ${dataset} "${text}")
string(REPLACE "virtual ~Dataset() = default;" "virtual ~Dataset() = default;\n  virtual void added() {}" more "${text}")
changes_hash("another virtual function" ${dataset} "${more}")
changes_hash("the header as it was" ${dataset} "${text}")
string(REPLACE "std::int64_t" "std::int32_t" narrow "${text}")
changes_hash("another type" ${dataset} "${narrow}")
# A literal is no comment, whatever it looks like, and nothing in it is layout.
changes_hash("a URL" ${dataset} "${text}const char* kUrl = \"https://a\"; int a;\n")
changes_hash("another URL" ${dataset} "${text}const char* kUrl = \"https://b\"; int a;\n")
changes_hash("another member after a URL" ${dataset} "${text}const char* kUrl = \"https://b\"; int b;\n")
changes_hash("an escaped quote" ${dataset} "${text}const char* kUrl = \"\\\"//b\"; int b;\n")
changes_hash("another text after an escaped quote" ${dataset} "${text}const char* kUrl = \"\\\"//c\"; int b;\n")
changes_hash("spaces in a text" ${dataset} "${text}const char* kUrl = \"\\\"//c \"; int b;\n")
changes_hash("a raw text" ${dataset} "${text}const char* kRaw = R\"(\" /* 1 */ // 2)\";\n")
changes_hash("another raw text" ${dataset} "${text}const char* kRaw = R\"(\" /* 3 */ // 2)\";\n")
changes_hash("another end of a raw text" ${dataset} "${text}const char* kRaw = R\"(\" /* 3 */ // 4)\";\n")
changes_hash("a character" ${dataset} "${text}char quote = '\"'; int large = 1'000; // it's '\n")
keeps_hash("a comment after a character" ${dataset} "${text}char quote = '\"'; int large = 1'000; // \" is\n")
