#include "cxtrain/plugin/plugin_abi.h"
#include "cxtrain/strategy/local_step.h"
#include "cxtrain/strategy/model_outline.h"
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

std::vector<RankMemory> single_memory(const Plan& plan, const ModelOutline& model) {
  RankMemory memory = memory_of_whole(model);
  if (plan.accumulate_grad_batches > 1)
    memory.gradients += gradients_in_passing(model.module.all_parameters());
  return {memory};
}

}  // namespace
}  // namespace cxtrain

CXTRAIN_PLUGIN("strategy single", [](cxtrain::Registry& registry) {
  cxtrain::StrategyTraits traits = cxtrain::single_traits();
  traits.memory = &cxtrain::single_memory;
  registry.add<cxtrain::SingleStrategy>("single", "one process, one device", traits);
})
