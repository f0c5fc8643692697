# cxtrain_add_plugin(<kind> <name> <sources ...>)
#
# A plugin: a shared library that the program finds by its name, libcxtrain_<kind>_<name>.so, in the folders of
# $CXTRAIN_PLUGIN_PATH, beside the program, or in the installed lib/cxtrain; or anywhere, with --plugin FILE.

function(cxtrain_add_plugin kind name)
  set(target cxtrain_${kind}_${name})
  add_library(${target} MODULE ${ARGN})
  target_link_libraries(${target} PRIVATE cxtrain::cxtrain)
  # DT_RPATH, so that LibTorch's own libraries find theirs through the plugin's path.
  target_link_options(${target} PRIVATE -Wl,--disable-new-dtags)
endfunction()
