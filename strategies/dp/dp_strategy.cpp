#include "cxtrain/plugin/plugin_abi.h"
#include "data_parallel.h"
#include "traits.h"

namespace {

std::unique_ptr<cxtrain::Strategy> make(const cxtrain::NoArgs&) { return cxtrain::make_dp_strategy(); }

}  // namespace

CXTRAIN_PLUGIN("strategy dp", [](cxtrain::Registry& registry) {
  registry.add("dp", "one process, a replica and a thread for each device", cxtrain::dp_traits(), &make);
})
