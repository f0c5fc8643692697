#include "cxtrain/trainer/batch_context.h"

#include "cxtrain/data/sample_random.h"
#include "cxtrain/trainer/data_module.h"
#include "cxtrain/trainer/generators.h"
#include "cxtrain/trainer/module.h"

namespace cxtrain {

at::Generator& BatchContext::generator() {
  if (!generator_.defined()) {
    const auto number = [](auto value) { return static_cast<std::uint64_t>(value); };
    const std::uint64_t seed =
        mixed_seed({place_.seed, number(place_.epoch), number(place_.batch_idx), number(place_.stage),
                    number(place_.dataloader_idx), number(shard_), number(device_.type())});
    generator_ = make_generator(device_, seed);
  }
  return generator_;
}

void DataModule::on_before_batch_transfer(Batch& batch, BatchContext& context) {
  context.module().on_before_batch_transfer(batch, context);
}

void DataModule::on_after_batch_transfer(Batch& batch, BatchContext& context) {
  context.module().on_after_batch_transfer(batch, context);
}

}  // namespace cxtrain
