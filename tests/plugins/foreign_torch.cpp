#include "cxtrain/plugin/plugin_abi.h"

extern "C" const cxtrain_plugin* cxtrain_plugin_v1() {
  static const cxtrain_plugin plugin{sizeof(cxtrain_plugin), CXTRAIN_PLUGIN_ABI, "foreign LibTorch",
                                     "cxtrain 0.1.0, LibTorch 1.0.0, g++ 4, C++ ABI 1002", nullptr};
  return &plugin;
}
