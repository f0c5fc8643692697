#include <ATen/ops/allclose.h>
#include <ATen/ops/equal.h>

#include <new>

#include "cxtrain/cluster/world.h"
#include "support/catch.h"
#include "support/mpi_world.h"
#include "support/temp_dir.h"
#include "support/toy_models.h"

namespace cxtrain {
namespace {

using test::Regression;
using test::ToyData;

/// Runs out of memory on the last rank alone.
class Limited : public Regression {
 public:
  StepOutput training_step(const Batch& batch, std::int64_t idx) override {
    if (batch.size > 5 && test_world().rank() == test_world().size() - 1) throw std::bad_alloc();
    return Regression::training_step(batch, idx);
  }
};

TEST_CASE("a batch size counts only if every rank succeeds") {
  const test::TempDir dir;
  ToyData data(64 * test_world().size(), 8);
  Limited model;
  Trainer trainer(test_world(), test::quiet(dir.path()));
  CHECK(trainer.scale_batch_size(model, data, {.mode = BatchSizeSearch::Mode::binsearch}) == 5);
}

TEST_CASE("all ranks see the same losses in a learning rate sweep") {
  const test::TempDir dir;
  ToyData data(64 * test_world().size(), 8);
  Regression model({.optimizer = Sgd{.lr = 0.5}});
  Trainer trainer(test_world(), test::quiet(dir.path()));
  const std::string mine = trainer.lr_find(model, data).to_csv();
  for (const std::string& other : test_world().all_gather(mine)) CHECK(other == mine);
}

/// Parameters after an epoch on this world.
at::Tensor train(World& world, DataModule& data, Options options) {
  const test::TempDir dir;
  options.trainer.default_root_dir = dir.path();
  Regression model;
  Trainer(world, options).fit(model, data);
  return test::flat_parameters(model);
}

TEST_CASE("without the distributed sampler every rank reads everything") {
  ToyData data(36, 8);
  Options options = test::quiet("");
  SoloWorld alone;
  const at::Tensor expected = train(alone, data, options);
  options.trainer.use_distributed_sampler = false;
  CHECK(at::allclose(train(test_world(), data, options), expected, 1e-5, 1e-7));
}

TEST_CASE("O2 on N ranks that read the same is O2 on one") {
  // The same samples: an overflow, which depends on each rank's own gradients, then skips the same steps.
  ToyData data(64, 8);
  Options options = test::quiet("");
  options.trainer.precision = "16-mixed";
  options.trainer.amp_level = "O2";
  SoloWorld alone;
  const at::Tensor expected = train(alone, data, options);
  options.trainer.use_distributed_sampler = false;
  CHECK(at::allclose(train(test_world(), data, options), expected, 1e-3, 1e-4));
}

TEST_CASE("stochastic weight averaging ends with the same model on all ranks") {
  ToyData data(32 * test_world().size(), 8);
  Options options = test::quiet("");
  options.trainer.stochastic_weight_avg = true;
  options.trainer.max_epochs = 10;  // the last two are averaged
  const at::Tensor averaged = train(test_world(), data, options);
  const std::string mine(static_cast<const char*>(averaged.const_data_ptr()), averaged.nbytes());
  for (const std::string& other : test_world().all_gather(mine)) CHECK(other == mine);
  options.trainer.stochastic_weight_avg = false;
  CHECK_FALSE(at::equal(train(test_world(), data, options), averaged));
}

}  // namespace
}  // namespace cxtrain
