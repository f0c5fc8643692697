#include <ATen/ops/allclose.h>

#include "cxtrain/base/error.h"
#include "cxtrain/cluster/world.h"
#include "support/catch.h"
#include "support/mpi_world.h"
#include "support/normalised_model.h"
#include "support/temp_dir.h"

namespace cxtrain {
namespace {

using test::Normalised;
using test::ToyData;

/// Parameters and running statistics after training.
at::Tensor train(World& world, ToyData& data, Uneven uneven, bool sync) {
  const test::TempDir dir;
  Options options = test::quiet(dir.path());
  options.trainer.max_epochs = 3;
  options.trainer.sync_batchnorm = sync;
  options.data.uneven = uneven;
  Trainer trainer(world, options);
  Normalised model;
  trainer.fit(model, data);
  return at::cat({test::flat_parameters(model), model.norm->running_mean.to(at::kDouble),
                  model.norm->running_var.to(at::kDouble)});
}

TEST_CASE("with sync_batchnorm N ranks train a model with batch norm as one process does") {
  const int ranks = test_world().size();
  const std::int64_t samples =
      24 * ranks + (ranks > 1 ? 3 * ranks - 1 : 0);  // one rank's last batch is smaller
  ToyData shards(samples, 8), whole(samples, 8 * ranks);
  SoloWorld solo;
  const at::Tensor alone = train(solo, whole, Uneven::exact, true);
  CHECK(at::allclose(train(test_world(), shards, Uneven::exact, true), alone, 1e-4, 1e-5));
  if (ranks > 1)
    CHECK_FALSE(at::allclose(train(test_world(), shards, Uneven::exact, false), alone, 1e-4, 1e-5));
}

TEST_CASE("a last batch that leaves a rank without samples is refused before the first step") {
  const int ranks = test_world().size();
  if (ranks == 1) return test::skip_for_ranks("no rank can be without samples");
  ToyData data(16 * ranks + 1, 8);
  REQUIRE_THROWS_WITH(train(test_world(), data, Uneven::exact, true),
                      test::contains("sync_batchnorm") && test::contains("--data.uneven drop"));
  CHECK(train(test_world(), data, Uneven::drop, true).defined());
}

}  // namespace
}  // namespace cxtrain
