#include "cxtrain/plugin/plugin_abi.h"

extern "C" const cxtrain_plugin* cxtrain_plugin_v1() {
  static const cxtrain_plugin plugin{sizeof(cxtrain_plugin), 999, "wrong ABI", CXTRAIN_FINGERPRINT, nullptr};
  return &plugin;
}
