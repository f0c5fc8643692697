#include <ATen/ops/allclose.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/matmul.h>

#include <numeric>

#include "cxtrain/base/error.h"
#include "support/catch.h"
#include "support/error_text.h"
#include "support/mpi_world.h"
#include "support/temp_dir.h"
#include "support/toy_models.h"

namespace cxtrain {
namespace {

using test::contains;
using test::error_of;
using test::Regression;
using test::ToyData;

/// Each sample's output has to match its target among the targets of all samples of all ranks.
class Contrastive : public Regression {
 public:
  explicit Contrastive(bool sync_grads = true)
      : Regression({.optimizer = Sgd{.lr = 0.05}}), sync_grads_(sync_grads) {}
  at::Tensor contrast(const Batch& batch) {
    const at::Tensor queries = second->forward(at::tanh(first->forward(batch[0])));
    const at::Tensor keys = all_gather(queries.cos(), sync_grads_);
    const at::Tensor rows = all_gather(at::full({}, static_cast<double>(batch.size)));
    const at::Tensor before = rows.narrow(0, 0, global_rank()).sum();
    const at::Tensor own = (at::arange(batch.size) + before).to(at::kLong);
    return at::cross_entropy_loss(at::matmul(queries, keys.t()), own);
  }
  StepOutput training_step(const Batch& batch, std::int64_t) override { return contrast(batch); }
  void validation_step(const Batch& batch, std::int64_t) override {
    log("val_loss", contrast(batch), {.sync_dist = true});
  }

 private:
  bool sync_grads_;
};

at::Tensor train(World& world, ToyData& data, bool sync_grads = true, Uneven uneven = Uneven::exact) {
  const test::TempDir dir;
  Options options = test::quiet(dir.path());
  options.trainer.precision = "64-true";
  options.trainer.max_epochs = 3;
  options.trainer.accumulate_grad_batches = 2;
  options.data.uneven = uneven;
  Trainer trainer(world, options);
  Contrastive model(sync_grads);
  trainer.fit(model, data);
  return test::flat_parameters(model);
}

TEST_CASE("a loss over the samples of all ranks trains N ranks as one process") {
  const int ranks = test_world().size();
  const std::int64_t samples = 24 * ranks + (ranks > 1 ? 3 * ranks - 1 : 0);  // the ranks' last rows differ
  ToyData shards(samples, 8, 8 * ranks), whole(samples, 8 * ranks, 8 * ranks);
  SoloWorld solo;
  const at::Tensor alone = train(solo, whole);
  CHECK(at::allclose(train(test_world(), shards), alone, 1e-9, 1e-9));
  if (ranks > 1) CHECK_FALSE(at::allclose(train(test_world(), shards, false), alone, 1e-4, 1e-5));
}

TEST_CASE("a gather is rejected where a rank has no sample") {
  const int ranks = test_world().size();
  if (ranks == 1) return test::skip_for_ranks("no rank can be without samples");
  ToyData data(16 * ranks + 1, 8);
  const std::string error = error_of([&] { train(test_world(), data); });
  CHECK_THAT(error, contains("all_gather") && contains("--data.uneven pad"));
  CHECK(train(test_world(), data, true, Uneven::drop).defined());
}

TEST_CASE("rows of different shapes are rejected on every rank, and values arrive in rank order") {
  struct Odd : Regression {
    StepOutput training_step(const Batch& batch, std::int64_t idx) override {
      const at::Tensor ranks = all_gather(at::full({1, 2}, global_rank()));
      for (int r = 0; r < world_size(); ++r) CHECK(ranks[r][1].item<std::int64_t>() == r);
      CHECK_FALSE(all_gather(first->weight).requires_grad());
      all_gather(at::zeros({1, global_rank() == world_size() - 1 ? 3 : 2}));
      return Regression::training_step(batch, idx);
    }
  };
  const test::TempDir dir;
  Options options = test::quiet(dir.path());
  options.trainer.max_steps = 1;
  ToyData data(16 * test_world().size(), 8);
  Odd model;
  Trainer trainer(test_world(), options);
  if (test_world().size() == 1) {
    CHECK(trainer.fit(model, data).global_step == 1);
    return;
  }
  const std::string last = std::to_string(test_world().size() - 1);
  CHECK_THAT(error_of([&] { trainer.fit(model, data); }),
             contains("rank 0 has rows of shape [2]") && contains("rank " + last + " has rows of shape [3]"));
}

}  // namespace
}  // namespace cxtrain
