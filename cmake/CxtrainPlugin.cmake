# cxtrain_add_plugin(<kind> <name> [PRECOMPILED] <sources ...>)
#
# A plugin: a shared library that the program finds by its name, libcxtrain_<kind>_<name>.so, in the folders of
# $CXTRAIN_PLUGIN_PATH, beside the program, or in the installed lib/cxtrain; or anywhere, with --plugin FILE.
#
# PRECOMPILED has the compiler read LibTorch's and cxtrain's headers once for all plugins of the project that say so,
# which halves the time that each of their files takes (and takes 0.6 GB of disk).

function(cxtrain_add_plugin kind name)
  cmake_parse_arguments(PARSE_ARGV 2 plugin "PRECOMPILED" "" "")
  set(target cxtrain_${kind}_${name})
  add_library(${target} MODULE ${plugin_UNPARSED_ARGUMENTS})
  target_link_libraries(${target} PRIVATE cxtrain::cxtrain)
  # CMake's own macro with the target's name in it: no target could use headers that another one has precompiled.
  set_target_properties(${target} PROPERTIES DEFINE_SYMBOL "")
  # DT_RPATH, so that LibTorch's own libraries find theirs through the plugin's path; and what is not declared in public
  # headers is told here and not where the plugin is loaded.
  target_link_options(${target} PRIVATE -Wl,--disable-new-dtags -Wl,-z,defs)
  if(plugin_PRECOMPILED)
    get_property(owner GLOBAL PROPERTY CXTRAIN_PRECOMPILED_BY)
    if(owner)
      target_precompile_headers(${target} REUSE_FROM ${owner})
    else()
      target_precompile_headers(${target} PRIVATE <torch/nn/module.h> <cxtrain/trainer/module.h>)
      set_property(GLOBAL PROPERTY CXTRAIN_PRECOMPILED_BY ${target})
    endif()
  endif()
endfunction()
