#include <cstdlib>

#include "cxtrain/callbacks/callback.h"
#include "cxtrain/plugin/plugin_abi.h"

/// A callback that does nothing, in a library that crashes when its static objects are destroyed.
namespace {

struct BadEnd {
  ~BadEnd() { std::abort(); }
} bad_end;

class Idle : public cxtrain::Callback {};

}  // namespace

CXTRAIN_PLUGIN("callback bad_end", [](cxtrain::Registry& registry) {
  registry.add<cxtrain::Callback>("bad_end", "does nothing", {},
                                  [](const cxtrain::Arguments&) { return std::make_unique<Idle>(); });
})
