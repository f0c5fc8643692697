#include <ATen/ops/allclose.h>

#include "cxtrain/cluster/world.h"
#include "support/catch.h"
#include "support/mpi_world.h"
#include "support/split_model.h"
#include "support/temp_dir.h"

namespace cxtrain {
namespace {

template <class Model>
at::Tensor train(World& world, std::int64_t batch_size, int devices_per_rank) {
  const test::TempDir dir;
  Options options = test::quiet(dir.path());
  options.trainer.devices_per_rank = devices_per_rank;
  test::ToyData data(40 * test_world().size(), batch_size);
  Trainer trainer(world, options);
  Model model;
  trainer.fit(model, data);
  return test::flat_parameters(model);
}

TEST_CASE("ddp over ranks with a split model each equals one process with the whole model") {
  SoloWorld solo;
  CHECK(at::allclose(train<test::SplitRegression>(test_world(), 8, 2),
                     train<test::Regression>(solo, 8 * test_world().size(), 1), 1e-5, 1e-7));
}

}  // namespace
}  // namespace cxtrain
