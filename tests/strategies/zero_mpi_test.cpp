#include <ATen/ops/equal.h>
#include <c10/core/InferenceMode.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>

#include <functional>
#include <thread>

#include "cxtrain/base/error.h"
#include "cxtrain/cluster/world.h"
#include "support/catch.h"
#include "support/error_text.h"
#include "support/mpi_world.h"
#include "support/normalised_model.h"
#include "support/temp_dir.h"
#include "support/toy_models.h"
#include "support/without_blocks.h"

/// `zero` gives the parameters of `ddp`, to the bit, whatever its ranks divide.
namespace cxtrain {
namespace {

using test::Regression;
using test::ToyData;

/// Whether the ranks of this test can have one copy of the parameters.
bool stage_3_is_possible() { return test_world().size() == 1 || test_world().facts().max_local_size > 1; }

Options with_stage(Options options, int stage) {
  options.trainer.strategy = "zero";
  options.strategy.args["stage"] = std::to_string(stage);
  options.strategy.args["bucket_bytes"] = "3000";  // several rows
  return options;
}

Options some_epochs() {
  Options options = test::quiet("");
  options.trainer.max_epochs = 3;
  return options;
}

template <class Model>
std::string sha_of(Options options) {
  const test::TempDir dir;
  options.trainer.default_root_dir = dir.path();
  ToyData data(20 * test_world().size() + 1, 8);
  Trainer trainer(test_world(), options);
  Model model;
  return trainer.fit(model, data).parameters_sha256;
}

/// Stage 3 with blocks that are gathered, also where ranks share memory.
Options gathered(Options options) {
  options = with_stage(std::move(options), 3);
  options.strategy.args["parameters"] = "all";
  return options;
}

/// Large enough to be cut between ranks.
template <class Optimizer>
struct CutModel : Regression {
  CutModel() : Regression({.optimizer = Optimizer{.lr = 0.02}}, 700) {}
};

enum class Gathering { possible, impossible };

template <class Model>
void check_equals_ddp(const Options& options, Gathering gathering = Gathering::possible) {
  Options ddp = options;
  ddp.trainer.strategy = "ddp";
  const std::string expected = sha_of<Model>(ddp);
  if (gathering == Gathering::possible) {
    CHECK(sha_of<Model>(gathered(options)) == expected);
    Options again = gathered(options);
    again.trainer.recompute_blocks = !options.trainer.sync_batchnorm;
    CHECK(sha_of<Model>(again) == expected);
  }
  for (int stage = 1; stage <= (stage_3_is_possible() ? 3 : 2); ++stage) {
    CAPTURE(stage);
    CHECK(sha_of<Model>(with_stage(options, stage)) == expected);
  }
}

TEST_CASE("the parameters of zero are ddp's to the bit, in every precision", "[zero]") {
  Options options = some_epochs();
  options.trainer.precision = GENERATE("32-true", "64-true", "bf16-mixed", "bf16-true", "16-mixed");
  CAPTURE(options.trainer.precision);
  check_equals_ddp<CutModel<AdamW>>(options);
}

TEST_CASE("the parameters of zero are ddp's to the bit, whatever is done to gradients", "[zero]") {
  Options options = some_epochs();
  SECTION("master weights") {
    options.trainer.precision = "16-mixed";
    options.trainer.amp_level = "O2";
  }
  SECTION("accumulated") { options.trainer.accumulate_grad_batches = 3; }
  SECTION("clipped by norm") { options.trainer.gradient_clip_val = 0.05; }
  SECTION("clipped by value") {
    options.trainer.gradient_clip_val = 0.01;
    options.trainer.gradient_clip_algorithm = GradientClipAlgorithm::value;
  }
  SECTION("clipped by norm, accumulated, with a loss scale") {
    options.trainer.precision = "16-mixed";
    options.trainer.accumulate_grad_batches = 2;
    options.trainer.gradient_clip_val = 0.05;
  }
  SECTION("a last batch with a sample for one rank only") { options.data.uneven = Uneven::exact; }
  check_equals_ddp<CutModel<Adam>>(options);
}

TEST_CASE("zero that accumulates shards ends with the same bits in every stage that divides gradients",
          "[zero]") {
  Options options = some_epochs();
  options.trainer.accumulate_grad_batches = 3;
  options.trainer.precision = GENERATE("32-true", "16-mixed");
  options.strategy.args["accumulation"] = "shards";
  const std::string expected = sha_of<CutModel<Adam>>(with_stage(options, 2));
  if (stage_3_is_possible()) CHECK(sha_of<CutModel<Adam>>(with_stage(options, 3)) == expected);
  CHECK(sha_of<CutModel<Adam>>(gathered(options)) == expected);
  options.strategy.args["accumulation"] = "whole";
  const bool alone = test_world().size() == 1;
  CHECK((sha_of<CutModel<Adam>>(with_stage(options, 2)) == expected) == alone);
}

TEST_CASE("zero trains batch norms over all ranks as ddp does", "[zero]") {
  Options options = some_epochs();
  options.data.uneven = Uneven::drop;
  options.trainer.sync_batchnorm = true;
  check_equals_ddp<test::Normalised>(options, Gathering::impossible);
  struct NormalisedChain : ChainModule {
    NormalisedChain() {
      at::manual_seed(6);
      add_block("first", torch::nn::Linear(6, 40));
      add_block("norm", torch::nn::BatchNorm1d(40));
      add_block("tanh", torch::nn::Tanh());
      add_block("last", torch::nn::Linear(40, 2));
    }
    StepOutput training_step(const Batch& batch, std::int64_t) override {
      return torch::nn::functional::mse_loss(run_blocks(batch).tensor(), batch[1]);
    }
    Optimizers configure_optimizers() override { return Sgd{.lr = 0.05}; }
  };
  check_equals_ddp<NormalisedChain>(options);
  options.trainer.sync_batchnorm = false;
  check_equals_ddp<NormalisedChain>(options);
}

TEST_CASE("parameters that cannot be divided have whole gradients under zero", "[zero]") {
  /// Its convolution's weight is not in row-major order.
  struct Mixed : CutModel<AdamW> {
    Mixed() {
      conv = register_module("conv", torch::nn::Conv2d(2, 3, 2));
      conv->weight.set_data(conv->weight.detach().contiguous(at::MemoryFormat::ChannelsLast));
    }
    StepOutput training_step(const Batch& batch, std::int64_t) override {
      const at::Tensor images = batch[0].narrow(1, 0, 2).reshape({-1, 2, 1, 1}).expand({-1, 2, 2, 2});
      return loss(batch).add(conv->forward(images).square().mean());
    }
    torch::nn::Conv2d conv{nullptr};
  };
  Options options = some_epochs();
  options.trainer.gradient_clip_val = 0.05;
  check_equals_ddp<Mixed>(options, Gathering::impossible);
}

/// One of its layers has a gradient on rank 0 only, in every second step.
struct SometimesUnused : CutModel<AdamW> {
  SometimesUnused() { extra = register_module("extra", torch::nn::Linear(6, 300)); }
  StepOutput training_step(const Batch& batch, std::int64_t idx) override {
    at::Tensor value = loss(batch);
    if (idx % 2 == 1 && global_rank() == 0) value = value.add(extra->forward(batch[0]).square().mean());
    return value;
  }
  torch::nn::Linear extra{nullptr};
};

TEST_CASE("parameters that no rank used have no gradient under zero either, if asked to", "[zero]") {
  Options options = some_epochs();
  options.strategy.args["find_unused_parameters"] = GENERATE("true", "false");
  check_equals_ddp<SometimesUnused>(options, Gathering::impossible);
}

/// Its first layer is frozen, and one of its tensors is trained from the second epoch on.
struct PartlyFrozen : CutModel<Adam> {
  PartlyFrozen() {
    for (at::Tensor& parameter : first->parameters()) parameter.set_requires_grad(false);
  }
  void on_train_epoch_start() override {
    if (current_epoch() == 1) first->weight.set_requires_grad(true);
  }
};

/// Has parameters without elements, one of them the only frozen one.
struct WithEmpty : CutModel<Adam> {
  WithEmpty() {
    empty = register_parameter("empty", at::zeros({0, 3}));
    register_parameter("frozen", at::zeros({0}), /*requires_grad=*/false);
  }
  StepOutput training_step(const Batch& batch, std::int64_t idx) override {
    return CutModel<Adam>::training_step(batch, idx).loss + empty.sum();
  }
  at::Tensor empty;
};

TEST_CASE("parameters without elements are left whole", "[zero]") {
  check_equals_ddp<WithEmpty>(some_epochs(), Gathering::impossible);
}

TEST_CASE("frozen parameters are divided, and are trained as under ddp once they are not frozen", "[zero]") {
  check_equals_ddp<PartlyFrozen>(some_epochs());
}

TEST_CASE("a rank's whole gradients are gone after backward from stage 2 on", "[zero]") {
  struct Looks : CutModel<AdamW> {
    void on_after_backward() override { has_gradient = first->weight.grad().defined(); }
    bool has_gradient = false;
  };
  for (int stage = 1; stage <= (stage_3_is_possible() ? 3 : 2); ++stage) {
    const test::TempDir dir;
    Options options = with_stage(some_epochs(), stage);
    options.trainer.default_root_dir = dir.path();
    ToyData data(16 * test_world().size(), 8);
    Trainer trainer(test_world(), options);
    Looks model;
    trainer.fit(model, data);
    // Backward has completed the parameter's row, and the rank has dropped the gradient, before the hook.
    CHECK_FALSE((stage > 1 && test_world().size() > 1 && model.first->weight.grad().defined()));
    CHECK((stage == 1 || test_world().size() == 1) == model.has_gradient);
  }
}

/// A chain of a model that reads its blocks in unusual ways.
struct Chained : ChainModule {
  explicit Chained(int blocks = 4) {
    at::manual_seed(5);
    add_block("0", torch::nn::Linear(6, 300));
    for (int i = 1; i + 1 < blocks; ++i)
      layers.push_back(add_block(std::to_string(i), torch::nn::Linear(300, 300)));
    add_block(std::to_string(blocks - 1), torch::nn::Linear(300, 2));
  }
  at::Tensor loss(const Batch& batch) {
    return torch::nn::functional::mse_loss(run_blocks(batch).tensor(), batch[1]);
  }
  StepOutput training_step(const Batch& batch, std::int64_t) override { return loss(batch); }
  Optimizers configure_optimizers() override { return AdamW{.lr = 0.01}; }
  std::vector<torch::nn::Linear> layers;
};

TEST_CASE("ranks gather the same blocks, whatever a rank's model does with them", "[zero]") {
  struct Skips : Chained {
    StepOutput training_step(const Batch& batch, std::int64_t idx) override {
      if (global_rank() != idx % 2) return loss(batch);
      if (idx % 3 == 0) return StepOutput{};                 // does not run the chain
      if (idx % 3 == 1) return (loss(batch), StepOutput{});  // runs it forward only
      return loss(batch);
    }
  };
  struct FrozenFirst : Chained {
    FrozenFirst() : Chained(6) {
      for (const int i : {0, 2}) {
        for (at::Tensor& parameter : layers[static_cast<std::size_t>(i)]->parameters())
          parameter.set_requires_grad(false);
      }
      for (NamedTensor& parameter : all_parameters()) {
        if (parameter.name.starts_with("0.")) parameter.tensor.set_requires_grad(false);
      }
    }
    void on_train_epoch_start() override {
      if (current_epoch() == 1) layers[2]->weight.set_requires_grad(true);
    }
  };
  /// Its optimizer has one of its layers alone.
  struct TrainsOne : Chained {
    explicit TrainsOne(int blocks = 4, std::size_t layer = 1) : Chained(blocks), trained(layer) {}
    Optimizers configure_optimizers() override {
      return OptimizerSetup{
          .optimizer = Adam{.lr = 0.01},
          .groups = {{.parameters = layers[trained]->parameters(), .lr = {}, .weight_decay = {}}}};
    }
    const std::size_t trained;
  };
  /// Its optimizer has a layer before all others. Backward completes the gradients of this layer last.
  struct TrainsFirst : TrainsOne {
    TrainsFirst() : TrainsOne(/*blocks=*/6, /*layer=*/0) {}
  };
  Options options = some_epochs();
  options.data.uneven = Uneven::exact;
  SECTION("it trains its first blocks") { check_equals_ddp<TrainsFirst>(options); }
  SECTION("it skips batches") { check_equals_ddp<Skips>(options); }
  SECTION("blocks are frozen") { check_equals_ddp<FrozenFirst>(options); }
  SECTION("some parameters have no optimizer") { check_equals_ddp<TrainsOne>(options); }
}

/// A model in blocks of which two take the outputs of the first one, and the last one those of all. Leaves a
/// block out in some steps, on some ranks.
struct Forked : BlockModule {
  struct JoinImpl : torch::nn::Module {
    JoinImpl() { layer = register_module("layer", torch::nn::Linear(300, 2)); }
    at::Tensor forward(const Carry& parts) {
      at::Tensor sum = parts.tensors.front();
      for (std::size_t i = 1; i < parts.tensors.size(); ++i) sum = sum + parts.tensors[i];
      return layer(sum);
    }
    torch::nn::Linear layer{nullptr};
  };
  TORCH_MODULE(Join);

  Forked() {
    at::manual_seed(7);
    root = add_block("root", torch::nn::Linear(6, 300));
    left = add_block("left", torch::nn::Linear(300, 300));
    right = add_block("right", torch::nn::Linear(300, 300));
    join = add_block("join", Join());
  }
  at::Tensor loss(const Batch& batch, bool with_left) {
    const at::Tensor from = run_block(root, batch[0]).tanh();
    Carry parts(from);
    if (with_left) parts.tensors.push_back(run_block(left, from));
    parts.tensors.push_back(run_block(right, from));
    return torch::nn::functional::mse_loss(run_block(join, parts).tensor(), batch[1]);
  }
  StepOutput training_step(const Batch& batch, std::int64_t idx) override {
    if (idx % 5 == 4 && global_rank() == 0) return StepOutput{};
    return loss(batch, (idx + global_rank()) % 3 != 0);
  }
  void validation_step(const Batch& batch, std::int64_t idx) override {
    log("val_loss", loss(batch, idx % 2 == 0));
  }
  Optimizers configure_optimizers() override { return AdamW{.lr = 0.01}; }

  torch::nn::Linear root{nullptr}, left{nullptr}, right{nullptr};
  Join join{nullptr};
};

TEST_CASE("the parameters of zero are ddp's to the bit, however the blocks of a model are wired", "[zero]") {
  Options options = some_epochs();
  options.data.uneven = Uneven::exact;
  options.trainer.accumulate_grad_batches = GENERATE(1, 2);
  options.strategy.args["find_unused_parameters"] = GENERATE("true", "false");
  check_equals_ddp<Forked>(options);
}

TEST_CASE("a rank has the parameters of two blocks at a time, where blocks are gathered", "[zero]") {
  if (test_world().size() == 1) return test::skip_for_ranks("one rank divides nothing");
  struct Looks : Chained {
    Looks() : Chained(8) {}
    StepOutput training_step(const Batch& batch, std::int64_t) override {
      look();
      const at::Tensor value = loss(batch);
      look();
      return value;
    }
    void on_after_backward() override { look(); }
    void on_train_batch_end(const StepOutput&, const Batch&, std::int64_t) override { look(); }
    void look() {
      whole_at_once = 0;
      for (const torch::nn::Linear& layer : layers) whole_at_once += layer->weight.is_contiguous() ? 1 : 0;
      most = std::max(most, whole_at_once);
    }
    int whole_at_once = 0, most = 0;
  };
  const test::TempDir dir;
  Options options = gathered(some_epochs());
  options.trainer.default_root_dir = dir.path();
  ToyData data(16 * test_world().size(), 8);
  Trainer trainer(test_world(), options);
  Looks model;
  trainer.fit(model, data);
  CHECK(model.most <= 1);  // the last block is kept between forward and backward
  for (const torch::nn::Linear& layer : model.layers) CHECK(layer->weight.is_contiguous());
  CHECK_NOTHROW(model.loss({.tensors = {at::zeros({1, 6}), at::zeros({1, 2})}, .size = 1}));
}

TEST_CASE("a parameter reads as NaN outside of its block where blocks are gathered, and is there where not",
          "[zero]") {
  if (test_world().size() == 1) return test::skip_for_ranks("one rank divides nothing");
  struct Looks : Chained {
    void on_train_batch_start(const Batch&, std::int64_t) override {
      const at::InferenceMode inference;
      is_nan = layers[0]->weight.isnan().all().item<bool>();
      std::jthread([this] { is_nan_elsewhere = layers[0]->weight.isnan().all().item<bool>(); }).join();
    }
    void on_fit_end() override {
      if (global_rank() == 0) is_nan_at_end = layers[0]->weight.isnan().any().item<bool>();
    }
    bool is_nan = false, is_nan_elsewhere = false, is_nan_at_end = false;
  };
  for (const bool gathers : {true, false}) {
    if (!gathers && !stage_3_is_possible()) continue;
    const test::TempDir dir;
    Options options = gathers ? gathered(some_epochs()) : with_stage(some_epochs(), 3);
    options.trainer.default_root_dir = dir.path();
    ToyData data(16 * test_world().size(), 8);
    Trainer trainer(test_world(), options);
    Looks model;
    trainer.fit(model, data);
    CHECK(model.is_nan == gathers);
    CHECK(model.is_nan_elsewhere == gathers);
    CHECK((gathers && test_world().is_root()) == model.is_nan_at_end);
    CHECK_FALSE(model.layers[0]->weight.isnan().any().item<bool>());
  }
}

TEST_CASE("zero refuses an unsupported training on all ranks, with a cure", "[zero]") {
  if (test_world().size() == 1) return test::skip_for_ranks("one rank divides nothing");
  SECTION("an optimizer that updates whole parameters") {
    struct Whole : Regression {
      Whole() : Regression({.optimizer = Rmsprop{}}) {}
    };
    CHECK_THAT(test::error_of([] { sha_of<Whole>(with_stage(some_epochs(), 2)); }),
               test::contains("whole parameters") && test::contains("--strategy ddp"));
  }
  SECTION("a model that is no chain, where blocks are gathered") {
    struct NoChain : Regression {
      NoChain() { extra = register_module("extra", torch::nn::Linear(1, 1)); }
      torch::nn::Linear extra{nullptr};
    };
    CHECK_THAT(test::error_of([] { sha_of<NoChain>(gathered(some_epochs())); }),
               test::contains("`extra.weight` belongs to no block"));
  }
  SECTION("two runs of the chain in a step, where blocks are gathered") {
    struct Twice : Chained {
      StepOutput training_step(const Batch& batch, std::int64_t) override {
        return loss(batch) + loss(batch);
      }
    };
    CHECK_THAT(test::error_of([] { sha_of<Twice>(gathered(some_epochs())); }),
               test::contains("runs the block `0` twice"));
  }
  SECTION("blocks in another order than that of add_block, where blocks are gathered") {
    struct Swapped : Forked {
      StepOutput training_step(const Batch& batch, std::int64_t) override {
        const at::Tensor right_first = run_block(right, batch[0].mean().expand({1, 300}));
        return right_first.sum() + loss(batch, true);
      }
    };
    CHECK_THAT(test::error_of([] { sha_of<Swapped>(gathered(some_epochs())); }),
               test::contains("`root`") && test::contains("order of add_block"));
  }
  SECTION("an input that requires a gradient, where blocks are gathered") {
    struct AsksForGradient : Forked {
      AsksForGradient() {
        for (at::Tensor& parameter : root->parameters()) parameter.set_requires_grad(false);
      }
      StepOutput training_step(const Batch& batch, std::int64_t) override {
        Batch asks = batch;
        asks.tensors[0] = batch[0].detach().requires_grad_();
        return loss(asks, true);
      }
    };
    CHECK_THAT(test::error_of([] { sha_of<AsksForGradient>(gathered(some_epochs())); }),
               test::contains("`root`") && test::contains("requires a gradient"));
  }
  SECTION("a model without blocks, where blocks are gathered") {
    CHECK_THAT(test::error_of([] { sha_of<test::WithoutBlocks>(gathered(some_epochs())); }),
               test::contains("has no blocks") && test::contains("cxtrain::BlockModule"));
  }
  SECTION("a stage that does not exist") {
    CHECK_THAT(test::error_of([] { Trainer(test_world(), with_stage(some_epochs(), 4)); }),
               test::contains("strategy.stage"));
  }
}

}  // namespace
}  // namespace cxtrain
