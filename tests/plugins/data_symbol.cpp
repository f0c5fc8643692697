/// The plugin's symbol, but no function.
extern "C" __attribute__((visibility("default"))) const long cxtrain_plugin_v1[4] = {1, 2, 3, 4};
