#include <ATen/ops/allclose.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/linear.h>
#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>

#include <functional>
#include <set>

#include "cxtrain/base/error.h"
#include "cxtrain/cluster/world.h"
#include "cxtrain/trainer/chain_module.h"
#include "support/catch.h"
#include "support/error_text.h"
#include "support/mpi_world.h"
#include "support/temp_dir.h"
#include "support/toy_models.h"
#include "support/without_blocks.h"

/// `pipeline` gives the parameters of `single` with the same micro-batches, to the bit.
namespace cxtrain {
namespace {

using test::ToyData;

/// Six linear layers of different widths.
class Deep : public ChainModule {
 public:
  explicit Deep(OptimizerSetup setup = {.optimizer = AdamW{.lr = 0.01}}) : setup_(std::move(setup)) {
    at::manual_seed(1);
    std::int64_t width = 6;
    for (const std::int64_t next : {20, 30, 10, 40, 20, 2}) {
      add_block("layers." + std::to_string(size_++), torch::nn::Sequential(torch::nn::Linear(width, next)));
      width = next;
    }
  }
  virtual at::Tensor loss(const Batch& batch) {
    return torch::nn::functional::mse_loss(run_blocks(batch).tensor().tanh(), batch[1]);
  }
  StepOutput training_step(const Batch& batch, std::int64_t) override {
    const at::Tensor value = loss(batch);
    log("train_loss", value, {.on_step = true, .on_epoch = true});
    return value;
  }
  void validation_step(const Batch& batch, std::int64_t) override { log("val_loss", loss(batch)); }
  void test_step(const Batch& batch, std::int64_t) override { log("test_loss", loss(batch)); }
  at::Tensor predict_step(const Batch& batch, std::int64_t) override { return run_blocks(batch).tensor(); }
  Optimizers configure_optimizers() override { return setup_; }

 private:
  OptimizerSetup setup_;
  int size_ = 0;
};

Options some_epochs() {
  Options options = test::quiet("");
  options.trainer.max_epochs = 2;
  options.trainer.accumulate_grad_batches = 4;
  options.trainer.strategy = "pipeline";
  return options;
}

struct Trained {
  RunSummary summary;
  at::Tensor parameters = {};
};

/// `batch_size`: of a micro-batch, over all columns.
template <class Model>
Trained train(World& world, Options options, int columns = 1) {
  const test::TempDir dir;
  options.trainer.default_root_dir = dir.path();
  ToyData data(61, 4 / columns, 7);
  Model model;
  Trainer trainer(world, options);
  Trained result{.summary = trainer.fit(model, data)};
  result.parameters = test::flat_parameters(model);
  return result;
}

template <class Model>
Trained alone(Options options) {
  SoloWorld world;
  options.trainer.strategy = "single";
  options.strategy.args.clear();
  return train<Model>(world, options);
}

/// On all ranks as stages, of each schedule.
template <class Model>
void check_equals_single(const Options& options) {
  const Trained expected = alone<Model>(options);
  for (const char* schedule : {"gpipe", "1f1b", "interleaved", "zb1p"}) {
    const bool interleaved = std::string_view(schedule) == "interleaved";
    // The model has six blocks.
    if (interleaved && (test_world().size() == 1 || test_world().size() > 3)) continue;
    CAPTURE(schedule);
    Options together = options;
    together.strategy.args["schedule"] = schedule;
    const Trained found = train<Model>(test_world(), together);
    CHECK(found.summary.parameters_sha256 == expected.summary.parameters_sha256);
    CHECK(at::equal(found.parameters, expected.parameters));
    CHECK(found.summary.global_step == expected.summary.global_step);
    if (test_world().is_root()) CHECK(found.summary.metrics == expected.summary.metrics);
  }
}

TEST_CASE("a pipeline has the bits of one process, in every precision", "[pipeline]") {
  Options options = some_epochs();
  options.trainer.precision = GENERATE("32-true", "64-true", "bf16-mixed", "16-mixed");
  CAPTURE(options.trainer.precision);
  check_equals_single<Deep>(options);
}

TEST_CASE("a pipeline has the bits of one process, whatever is done to gradients", "[pipeline]") {
  Options options = some_epochs();
  SECTION("master weights") {
    options.trainer.precision = "16-mixed";
    options.trainer.amp_level = "O2";
  }
  SECTION("one micro-batch a step") { options.trainer.accumulate_grad_batches = 1; }
  SECTION("micro-batches that the stages do not divide") { options.trainer.accumulate_grad_batches = 7; }
  SECTION("clipped by norm") { options.trainer.gradient_clip_val = 0.05; }
  SECTION("clipped by value") {
    options.trainer.gradient_clip_val = 0.01;
    options.trainer.gradient_clip_algorithm = GradientClipAlgorithm::value;
  }
  SECTION("norms are logged") { options.trainer.track_grad_norm = 2; }
  SECTION("a small last batch") { options.data.uneven = Uneven::exact; }
  check_equals_single<Deep>(options);
}

/// Adds one noise to inputs, which the first stage reads, and to labels, which the last stage reads.
class Noisy : public Deep {
 public:
  void on_after_batch_transfer(Batch& batch, BatchContext& context) override {
    const at::Tensor noise = at::rand({1}, context.generator());
    for (at::Tensor& tensor : batch.tensors) tensor = tensor + noise;
  }
};

TEST_CASE("hooks of batches draw equal numbers on every stage", "[pipeline]") {
  check_equals_single<Noisy>(some_epochs());
}

TEST_CASE("a validation may come in the middle of a step", "[pipeline]") {
  Options options = some_epochs();
  options.trainer.val_check_interval = BatchLimit{std::int64_t{3}};
  const Trained expected = alone<Deep>(options);
  options.strategy.args["schedule"] = GENERATE("gpipe", "1f1b", "zb1p");
  const Trained found = train<Deep>(test_world(), options);
  CHECK(found.summary.parameters_sha256 == expected.summary.parameters_sha256);
  if (test_world().size() != 2) return;
  options.strategy.args["schedule"] = "interleaved";
  CHECK_THROWS_WITH((train<Deep>(test_world(), options)), test::contains("val_check_interval"));
}

TEST_CASE("the user's layout decides which blocks a stage has", "[pipeline]") {
  if (test_world().size() != 2) return test::skip_for_ranks("the layout is for two");
  Options options = some_epochs();
  const Trained expected = alone<Deep>(options);
  options.strategy.args["layout"] = "1,5";
  CHECK(train<Deep>(test_world(), options).summary.parameters_sha256 == expected.summary.parameters_sha256);
  options.strategy.args["layout"] = "1,4";
  CHECK_THROWS_WITH((train<Deep>(test_world(), options)), test::contains("2 parts of 6 blocks"));
}

TEST_CASE("columns of a pipeline average their gradients", "[pipeline]") {
  if (test_world().size() % 2 != 0) return test::skip_for_ranks("needs a grid");
  Options options = some_epochs();
  options.data.uneven = Uneven::exact;  // rank 0's column alone has the last sample
  options.trainer.gradient_clip_val = 0.05;
  const Trained expected = alone<Deep>(options);
  options.strategy.args["stages"] = std::to_string(test_world().size() / 2);
  std::string sha;
  for (const char* shard : {"false", "true"}) {
    CAPTURE(shard);
    options.strategy.args["shard_optimizer"] = shard;
    const Trained found = train<Deep>(test_world(), options, /*columns=*/2);
    CHECK(at::allclose(found.parameters, expected.parameters, 1e-5, 1e-6));
    if (sha.empty()) sha = found.summary.parameters_sha256;
    CHECK(found.summary.parameters_sha256 == sha);
  }
}

/// Blocks that hand on an integer tensor, too.
struct Tied {
  struct InImpl : torch::nn::Module {
    InImpl() { weight = register_parameter("weight", at::randn({24, 6}) * 0.3); }
    Carry forward(const Carry& carry) {
      return Carry({at::linear(carry.tensors[0], weight), carry.tensors[1]});
    }
    at::Tensor weight;
  };
  TORCH_MODULE(In);
  struct MiddleImpl : torch::nn::Module {
    MiddleImpl() { linear = register_module("linear", torch::nn::Linear(24, 24)); }
    Carry forward(const Carry& carry) {
      const at::Tensor hidden = linear(carry.tensors[0]).tanh() * (1 + carry.tensors[1].unsqueeze(1));
      return Carry({hidden, carry.tensors[1] + 1});
    }
    torch::nn::Linear linear{nullptr};
  };
  TORCH_MODULE(Middle);
  struct OutImpl : torch::nn::Module {
    explicit OutImpl(const at::Tensor& tied) { weight = register_parameter("weight", tied); }
    at::Tensor forward(const at::Tensor& hidden) { return at::linear(hidden, weight.t()).narrow(1, 0, 2); }
    at::Tensor weight;
  };
  TORCH_MODULE(Out);
};

/// The last block has the first one's weights.
class TiedModel : public ChainModule {
 public:
  TiedModel() {
    at::manual_seed(1);
    const Tied::In in = add_block("in", Tied::In());
    for (int i = 0; i < 3; ++i) add_block("middle." + std::to_string(i), Tied::Middle());
    add_block("pick", Pick());
    add_block("out", Tied::Out(in->weight));
  }
  struct PickImpl : torch::nn::Module {
    Carry forward(const Carry& carry) { return Carry(carry.tensors[0]); }
  };
  TORCH_MODULE(Pick);
  StepOutput training_step(const Batch& batch, std::int64_t) override {
    return torch::nn::functional::mse_loss(run_blocks(batch).tensor(), batch[1]);
  }
  Optimizers configure_optimizers() override { return Adam{.lr = 0.01}; }

 private:
  Carry inputs(const Batch& batch) override {
    return Carry({batch[0], (batch[0].select(1, 0) > 0).to(at::kLong)});
  }
};

TEST_CASE("blocks of several stages share a parameter, and hand on integers", "[pipeline]") {
  Options options = some_epochs();
  options.trainer.gradient_clip_val = 0.3;
  options.trainer.limit_val_batches = {BatchLimit{std::int64_t{0}}};
  const Trained expected = alone<TiedModel>(options);
  const Trained found = train<TiedModel>(test_world(), options);
  // The sums of the shared gradient have another order.
  CHECK(at::allclose(found.parameters, expected.parameters, 1e-5, 1e-6));
}

/// Its first layers are frozen, one of them up to the second epoch; every third batch is skipped.
class Partly : public Deep {
 public:
  Partly() {
    for (const NamedTensor& parameter : all_parameters())
      if (parameter.name < "layers.3") at::Tensor(parameter.tensor).set_requires_grad(false);
  }
  void on_train_epoch_start() override {
    if (current_epoch() != 1) return;
    for (const NamedTensor& parameter : all_parameters())
      if (parameter.name.starts_with("layers.1")) at::Tensor(parameter.tensor).set_requires_grad(true);
  }
  StepOutput training_step(const Batch& batch, std::int64_t idx) override {
    at::Tensor value = loss(batch);
    return idx % 3 == 2 ? StepOutput() : StepOutput(value);
  }
};

TEST_CASE("frozen blocks and skipped batches change no bit", "[pipeline]") {
  check_equals_single<Partly>(some_epochs());
}

/// Has a buffer whose memory has gaps.
struct GapsImpl : torch::nn::Module {
  GapsImpl() { register_buffer("gaps", at::ones({6, 2}).slice(0, 0, 6, 2)); }
  at::Tensor forward(const at::Tensor& input) { return input; }
};
TORCH_MODULE(Gaps);

/// Batch norms learn from every micro-batch.
class Norms : public Deep {
 public:
  Norms() {
    add_block("norm", torch::nn::BatchNorm1d(2));
    add_block("gaps", Gaps());
  }
};

TEST_CASE("buffers of blocks are those of one process on every rank", "[pipeline]") {
  Options options = some_epochs();
  options.trainer.limit_train_batches = {BatchLimit{std::int64_t{12}}};  // batch norm needs two samples
  options.trainer.stochastic_weight_avg = GENERATE(false, true);
  options.trainer.max_epochs = 5;
  check_equals_single<Norms>(options);
}

/// Notes the hooks that a rank runs.
class Hooked : public Deep {
 public:
  void on_train_batch_start(const Batch&, std::int64_t) override { note("start"); }
  void on_before_zero_grad() override { note("zero"); }
  void on_before_backward(const at::Tensor& loss) override {
    note("before");
    losses.push_back(loss.item<double>());
  }
  void on_after_backward() override { note("after"); }
  void on_before_optimizer_step(OptimizerRef&) override { note("step"); }
  void on_train_batch_end(const StepOutput& output, const Batch&, std::int64_t) override {
    note("end");
    CHECK(output.loss.defined());
  }
  void note(const char* hook) { hooks += std::string(hook) + ' '; }
  std::string hooks;
  std::vector<double> losses;
};

TEST_CASE("every stage runs the hooks in one order, with the loss", "[pipeline]") {
  Options options = some_epochs();
  options.trainer.max_steps = 2;
  options.trainer.accumulate_grad_batches = 2;
  const test::TempDir dir;
  options.trainer.default_root_dir = dir.path();
  ToyData data(32, 4);
  Hooked model;
  Trainer trainer(test_world(), options);
  trainer.fit(model, data);
  CHECK(model.hooks ==
        "start zero before after end start before after step end "
        "start zero before after end start before after step end ");
  for (const double loss : model.losses) CHECK(loss > 0);
  const std::string own = Catch::rangeToString(model.losses);
  for (const std::string& other : test_world().all_gather(own)) CHECK(other == own);
}

TEST_CASE("a pipeline evaluates and predicts every sample once", "[pipeline]") {
  const test::TempDir dir;
  Options options = some_epochs();
  options.trainer.default_root_dir = dir.path();
  ToyData data(61, 4, 7);
  Deep model;
  Trainer trainer(test_world(), options);
  trainer.fit(model, data);
  const double test_loss = trainer.test(model, data).metrics.at("test_loss");
  trainer.predict(model, data);
  std::vector<double> seen(7);
  for (const std::int64_t index : trainer.predictions().indices) seen[static_cast<std::size_t>(index)] += 1;
  test_world().sum(seen);
  CHECK(seen == std::vector<double>(7, 1));

  SoloWorld alone_world;
  options.trainer.strategy = "single";
  Deep other;
  Trainer single(alone_world, options);
  single.fit(other, data);
  CHECK(single.test(other, data).metrics.at("test_loss") == test_loss);
}

/// Has no validation_step.
class NotValidated : public ChainModule {
 public:
  NotValidated() {
    for (int i = 0; i < 4; ++i) add_block("layer" + std::to_string(i), torch::nn::Linear(6, 6));
  }
  StepOutput training_step(const Batch& batch, std::int64_t) override {
    return run_blocks(batch).tensor().mean();
  }
  Optimizers configure_optimizers() override { return Sgd{.lr = 0.01}; }
};

TEST_CASE("a pipeline trains a model that defines no validation", "[pipeline]") {
  CHECK(train<NotValidated>(test_world(), some_epochs()).summary.status == "done");
}

/// A parameter outside of blocks.
class Outside : public NotValidated {
 public:
  Outside() { register_parameter("scale", at::randn({1})); }
};
class Twice : public NotValidated {
 public:
  StepOutput training_step(const Batch& batch, std::int64_t) override {
    return (run_blocks(batch).tensor() + run_blocks(batch).tensor()).mean();
  }
};
class Manual : public NotValidated {
 public:
  Manual() { automatic_optimization = false; }
};

TEST_CASE("models that cannot be a pipeline are refused in words", "[pipeline]") {
  const Options options = some_epochs();
  CHECK_THROWS_WITH((train<test::WithoutBlocks>(test_world(), options)), test::contains("ChainModule"));
  CHECK_THROWS_WITH((train<Outside>(test_world(), options)), test::contains("`scale` belongs to no block"));
  CHECK_THROWS_WITH((train<Manual>(test_world(), options)), test::contains("automatic_optimization"));
  Options too_many = options;
  too_many.strategy.args = {{"schedule", "interleaved"}, {"chunks", "9"}};
  if (test_world().size() > 1)
    CHECK_THROWS_WITH((train<NotValidated>(test_world(), too_many)), test::contains("a model of 4 blocks"));
  if (test_world().size() == 1)
    CHECK_THROWS_WITH((train<Twice>(test_world(), options)), test::contains("run() twice"));
}

}  // namespace
}  // namespace cxtrain
