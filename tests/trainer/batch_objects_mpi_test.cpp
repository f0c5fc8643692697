#include <ATen/ops/allclose.h>

#include "cxtrain/cluster/world.h"
#include "support/catch.h"
#include "support/mpi_world.h"
#include "support/sequences.h"
#include "support/temp_dir.h"
#include "support/toy_models.h"

/// Trainings on objects of classes of one's own.
namespace cxtrain {
namespace {

using test::quiet;
using test::SequenceData;
using test::Sequences;
using test::TempDir;

class ObjectData : public DataModule {
 public:
  explicit ObjectData(int ranks) : ranks_(ranks) {}
  Loaders train_dataloader() override { return {std::make_shared<SequenceData<>>(26), 12 / ranks_, true}; }
  Loaders val_dataloader() override { return {std::make_shared<SequenceData<>>(5), 4}; }

 private:
  int ranks_;
};

/// Reads sums of sequences in place of the inputs.
class OfSequences : public test::Regression {
 public:
  OfSequences() : Regression({.optimizer = Sgd{.lr = 0.05}}) {}
  StepOutput training_step(const Batch& batch, std::int64_t idx) override {
    CHECK(batch.object<Sequences>().size() == batch.size);
    samples += batch.size;
    return Regression::training_step(with_inputs(batch), idx);
  }
  void validation_step(const Batch& batch, std::int64_t idx) override {
    Regression::validation_step(with_inputs(batch), idx);
  }
  std::int64_t samples = 0;

 private:
  static Batch with_inputs(const Batch& batch) {
    Batch inputs{.tensors = {batch.object<Sequences>().sums(), batch[0]}, .size = batch.size};
    return inputs;
  }
};

struct TrainedModel {
  at::Tensor parameters;
  std::int64_t samples;
};

TrainedModel train_objects(World& world, const std::string& strategy, int workers,
                           const std::string& precision) {
  const TempDir dir;
  Options options = quiet(dir.path());
  options.trainer.logger = false;
  options.trainer.max_epochs = 3;
  options.trainer.strategy = strategy;
  options.trainer.precision = precision;
  options.data.num_workers = workers;
  options.data.uneven = Uneven::exact;
  ObjectData data(world.size());
  OfSequences model;
  Trainer trainer(world, options);
  CHECK(trainer.fit(model, data).status == "done");
  return {test::flat_parameters(model), model.samples};
}

TEST_CASE("objects train alike on any number of ranks and workers, each sample once") {
  const std::string precision = GENERATE("32-true", "64-true");
  const int workers = GENERATE(0, 2);
  const TrainedModel own =
      train_objects(test_world(), test_world().size() > 1 ? "ddp" : "single", workers, precision);
  // The last batch has 2 samples: of 3 and 4 ranks, some have none.
  double samples = static_cast<double>(own.samples);
  test_world().sum({&samples, 1});
  CHECK(samples == 3 * 26);
  SoloWorld alone;
  const TrainedModel whole = train_objects(alone, "single", 0, precision);
  CHECK(at::allclose(own.parameters, whole.parameters, 1e-4, 1e-5));
}

}  // namespace
}  // namespace cxtrain
