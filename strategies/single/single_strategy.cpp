#include "cxtrain/plugin/plugin_abi.h"
#include "cxtrain/strategy/local_step.h"
#include "traits.h"

/// `single`: one process, one device.
namespace cxtrain {
namespace {

class SingleStrategy final : public LocalStrategy {
 public:
  void connect() override {}
  DataShard data_shard() const override { return {}; }
  std::string describe() const override { return "one process on " + context_->device.str(); }
};

}  // namespace
}  // namespace cxtrain

CXTRAIN_PLUGIN("strategy single", [](cxtrain::Registry& registry) {
  registry.add<cxtrain::SingleStrategy>("single", "one process, one device", cxtrain::single_traits());
})
