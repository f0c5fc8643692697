# cmake -DLIBRARY=<libcxtrain.so> -DNM=<nm> -P exported_symbols_test.cmake: what the library exports is for users.

cmake_minimum_required(VERSION 3.22)

execute_process(COMMAND ${NM} -DC --defined-only ${LIBRARY} OUTPUT_VARIABLE symbols COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${NM} -D --defined-only ${LIBRARY} OUTPUT_VARIABLE mangled COMMAND_ERROR_IS_FATAL ANY)

# Users' code catches, derives from and calls these.
foreach(name "typeinfo for cxtrain::Error" "typeinfo for cxtrain::ConfigError" "typeinfo name for cxtrain::ConfigError"
             "vtable for cxtrain::Module" "typeinfo for cxtrain::Module" "cxtrain::Module::log(" "cxtrain::Registry::insert("
             "cxtrain::Trainer::fit(" "cxtrain::run_main(" "cxtrain::run(" "cxtrain::make_communicator(" "cxtrain::open_accelerator(" "cxtrain::Reducer::Reducer("
             "vtable for cxtrain::F1Score"
             "cxtrain::R2Score::compute(" "cxtrain::ParameterStore::publish(" "vtable for cxtrain::ParameterStore")
  string(FIND "${symbols}" " ${name}" found)
  if(found EQUAL -1)
    message(SEND_ERROR "${LIBRARY} does not export ${name}")
  endif()
endforeach()

# What is inside, by the classes' names and by those of libraries that the user's program may have another version of.
foreach(name Session TrainContext WindowCollectives MpiWorld FitLoop CheckpointManager PluginLoader CsvLogger NcclHandle
             HostCommunicator MpirunLauncher)
  if(symbols MATCHES "cxtrain::${name}(::|\n)")
    message(SEND_ERROR "${LIBRARY} exports cxtrain::${name}")
  endif()
endforeach()
string(REGEX MATCHALL "[^\n]+" lines "${mangled}")
set(foreign ${lines})
list(FILTER foreign EXCLUDE REGEX " _Z(T[VITS]|Th[n0-9_]+)?NK?7cxtrain")
if(foreign)
  list(JOIN foreign "\n" foreign)
  message(SEND_ERROR "${LIBRARY} exports what is not cxtrain's:\n${foreign}")
endif()
list(LENGTH lines count)
message("${count} symbols")
