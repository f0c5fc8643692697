#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>

#include <algorithm>
#include <memory>

#include "checkpoint/weights_support.h"
#include "cxtrain/callbacks/model_checkpoint.h"
#include "cxtrain/cluster/world.h"
#include "cxtrain/tensor/hollow.h"
#include "support/error_text.h"
#include "trainer/resume_support.h"

/// A model that `Trainer::init_module` has made is trained and evaluated as the same model that was built
/// whole.
namespace cxtrain {
namespace {

using namespace test::resume;

struct ScaleImpl : torch::nn::Module {
  at::Tensor forward(const at::Tensor& x) { return x * factor; }
  at::Tensor factor = register_parameter("factor", at::ones({1}));
};
TORCH_MODULE(Scale);

/// With a frozen layer, and a parameter of one element.
struct Net : ChainModule {
  explicit Net(std::int64_t width) {
    first = add_block("first", torch::nn::Linear(6, width));
    add_block("tanh", torch::nn::Tanh());
    const auto frozen = add_block("frozen", torch::nn::Linear(width, 40));
    for (at::Tensor& parameter : frozen->parameters()) parameter.set_requires_grad(false);
    add_block("scale", Scale());
    last = add_block("last", torch::nn::Linear(40, 2));
  }
  at::Tensor loss(const Batch& batch) {
    return torch::nn::functional::mse_loss(run_blocks(batch).tensor(), batch[1]);
  }
  StepOutput training_step(const Batch& batch, std::int64_t) override { return loss(batch); }
  void test_step(const Batch& batch, std::int64_t) override { log("test_loss", loss(batch)); }
  Optimizers configure_optimizers() override { return Adam{.lr = 0.01}; }

  torch::nn::Linear first{nullptr}, last{nullptr};

  bool is_divided() const {
    const std::vector<NamedTensor> all = all_parameters();
    return std::ranges::any_of(all, [](const NamedTensor& named) { return is_hollow(named.tensor); });
  }
};

constexpr std::int64_t kWidth = 300;

Options options_of(const StrategyCase& strategy, const std::string& folder) {
  Options options = test::quiet(folder);
  options.seed = 7;
  options.trainer.strategy = strategy.name;
  strategy.prepare(options);
  return options;
}

bool divides(const StrategyCase& strategy) {
  return test_world().size() > 1 && (strategy.name == "zero" || strategy.name == "pipeline");
}

/// The ends of two fits, a test of the first fit's checkpoint, and a fit from there.
std::vector<RunSummary> ends_of(const Options& options, const std::string& saved, bool divided) {
  World& world = test_world();
  at::manual_seed(4);
  Trainer trainer(world, options);
  trainer.set_replica_factory([] { return std::make_unique<Net>(kWidth); });
  trainer.add_callback<ModelCheckpoint>({.dirpath = saved, .filename = "{epoch}", .save_top_k = -1});
  std::unique_ptr<Net> model;
  if (divided)
    model = trainer.init_module<Net>(kWidth);
  else
    model = std::make_unique<Net>(kWidth);
  // The generator stands where one build of the model leaves it.
  const at::Tensor next = at::randn({3});
  at::manual_seed(4);
  const Net whole(kWidth);
  CHECK(next.equal(at::randn({3})));
  test::ToyData data(24 * world.size(), 4, /*val_samples=*/12);
  model->first->weight.set_requires_grad(false);  // lies in another row now
  std::vector<RunSummary> ends{trainer.fit(*model, data)};
  const std::string first = saved + "/epoch=0.ckpt";
  model->first->weight.set_requires_grad(true);
  model->last->bias.set_requires_grad(false);
  ends.push_back(trainer.fit(*model, data));
  ends.push_back(trainer.test(*model, data, {.ckpt_path = first}));
  ends.push_back(trainer.fit(*model, data));
  return ends;
}

TEST_CASE("a model of which ranks have parts is fitted, tested and fitted again as a whole one",
          "[strategies]") {
  World& world = test_world();
  const test::TempDir dir;
  const std::string shared = world.broadcast(dir.path());
  const std::string weights = shared + "/weights.safetensors";
  if (world.is_root())
    dir.write("weights.safetensors", test::safetensors_of({{"last.weight", at::full({2, 40}, 0.25)}}));
  world.barrier();
  int number = 0;
  for (const StrategyCase& strategy : strategies()) {
    CAPTURE(strategy.described);
    std::vector<std::vector<RunSummary>> ends;
    for (const bool divided : {false, true}) {
      const std::string folder = shared + "/" + std::to_string(++number);
      Options options = options_of(strategy, folder);
      options.model_weights.path = weights;
      options.model_weights.strict = false;
      ends.push_back(ends_of(options, folder + "/saved", divided));
    }
    for (std::size_t i = 0; i < ends[0].size(); ++i) {
      CAPTURE(i);
      CHECK(ends[1][i].parameters_sha256 == ends[0][i].parameters_sha256);
      CHECK(ends[1][i].metrics == ends[0][i].metrics);
      CHECK(ends[1][i].global_step == ends[0][i].global_step);
    }
    // The test has loaded what the first fit saved.
    CHECK(ends[1][2].parameters_sha256 == ends[1][0].parameters_sha256);
    CHECK(ends[1][1].parameters_sha256 != ends[1][0].parameters_sha256);
  }
}

TEST_CASE("a rank has its part of the model, before the first fit and after it", "[strategies]") {
  World& world = test_world();
  const test::TempDir dir;
  for (const StrategyCase& strategy : strategies()) {
    CAPTURE(strategy.described);
    Trainer trainer(world, options_of(strategy, world.broadcast(dir.path())));
    trainer.set_replica_factory([] { return std::make_unique<Net>(kWidth); });
    const std::unique_ptr<Net> model = trainer.init_module<Net>(kWidth);
    CHECK(model->is_divided() == divides(strategy));
    test::ToyData data(24 * world.size(), 4);
    trainer.fit(*model, data);
    CHECK(model->is_divided() == divides(strategy));
  }
}

TEST_CASE("parts of a model are rejected by another trainer", "[strategies]") {
  World& world = test_world();
  if (world.size() == 1) return;
  const test::TempDir dir;
  const std::string folder = world.broadcast(dir.path());
  for (const StrategyCase& strategy : strategies()) {
    if (!divides(strategy)) continue;
    CAPTURE(strategy.described);
    Trainer trainer(world, options_of(strategy, folder));
    const std::unique_ptr<Net> model = trainer.init_module<Net>(kWidth);
    Trainer other(world, options_of({.name = "ddp"}, folder));
    test::ToyData data(24, 4);
    CHECK_THAT(test::error_of<AgreedError>([&] { other.fit(*model, data); }),
               test::contains(test::code(MessageCode::bad_model)) && test::contains("first.weight"));
  }
}

}  // namespace
}  // namespace cxtrain
