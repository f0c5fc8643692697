#include <torch/nn/modules/linear.h>

#include <functional>
#include <memory>

#include "cxtrain/cli/commands.h"
#include "cxtrain/config/fields.h"
#include "cxtrain/tensor/shapes_only.h"
#include "cxtrain/trainer/chain_module.h"
#include "strategies/ddp/ddp_strategy.h"
#include "strategies/pipeline/pipeline_strategy.h"
#include "strategies/zero/zero_strategy.h"
#include "support/catch.h"
#include "support/error_text.h"
#include "support/own_strategies.h"

/// The figures that `plan` gives beforehand.
namespace cxtrain {
namespace {

/// Three blocks of a million parameters, the last one tied to the first.
class Wide : public ChainModule {
 public:
  struct TiedImpl : torch::nn::Module {
    explicit TiedImpl(const at::Tensor& tied) : weight(register_parameter("weight", tied)) {}
    at::Tensor forward(const at::Tensor& input) { return input.matmul(weight); }
    at::Tensor weight;
  };
  TORCH_MODULE(Tied);

  explicit Wide(OptimizerSetup setup = {.optimizer = Adam{.lr = 0.1}}) : setup_(std::move(setup)) {
    const auto first =
        add_block("first", torch::nn::Linear(torch::nn::LinearOptions(1000, 1000).bias(false)));
    add_block("second", torch::nn::Linear(torch::nn::LinearOptions(1000, 1000).bias(false)));
    add_block("last", Tied(first->weight));
  }
  StepOutput training_step(const Batch& batch, std::int64_t) override {
    return run_blocks(batch).tensor().mean();
  }
  Optimizers configure_optimizers() override { return setup_; }

 private:
  OptimizerSetup setup_;
};

KnownStrategies strategies_with_memory() {
  KnownStrategies known = testing::own_strategies();
  known["ddp"]->traits.memory = &ddp_memory;
  known["zero"]->traits.memory = &zero_memory;
  known["pipeline"]->traits.memory = &pipeline_memory;
  return known;
}

Options options_for(const std::string& strategy, const std::map<std::string, std::string>& args, int ranks) {
  Options options;
  options.trainer.accelerator = "cpu";
  options.trainer.strategy = strategy;
  options.strategy.args = args;
  options.plan_ranks = ranks;
  return options;
}

/// Only one parameter has an optimizer.
class Adapter : public Wide {
 public:
  explicit Adapter(std::string trained) : trained_(std::move(trained)) {}
  Optimizers configure_optimizers() override {
    return {{"adapter", Adam{.lr = 0.1}, {named_parameters()[trained_]}}};
  }

 private:
  std::string trained_;
};

ResolvedPlan plan_of(const Options& options, const std::function<std::unique_ptr<Module>()>& make) {
  ResolvedPlan resolved = make_plan(options, strategies_with_memory());
  REQUIRE(resolved.plan.errors.empty());
  const ShapesOnly shapes;
  fill_in_memory(resolved.plan, resolved.hardware, options, *make());
  return resolved;
}

ResolvedPlan plan_of(const Options& options, const OptimizerSetup& setup = {.optimizer = Adam{.lr = 0.1}}) {
  return plan_of(options, [&] { return std::make_unique<Wide>(setup); });
}

ResolvedPlan plan_of(const std::string& strategy, const std::map<std::string, std::string>& args, int ranks,
                     const std::string& precision = "32-true",
                     OptimizerSetup setup = {.optimizer = Adam{.lr = 0.1}}) {
  Options options = options_for(strategy, args, ranks);
  options.trainer.precision = precision;
  return plan_of(options, std::move(setup));
}

constexpr std::int64_t kWhole = 2 * 4'000'000;  // the parameters in float32
constexpr std::int64_t kPassing = kWhole;       // gradients of the two largest parameters

TEST_CASE("memory of data parallel ranks", "[plan_memory]") {
  const std::vector<RankMemory> ddp = plan_of("ddp", {}, 2).plan.memory;
  REQUIRE(ddp.size() == 2);
  CHECK(ddp[0] == RankMemory{kWhole / 2, kWhole, kWhole});
  CHECK(plan_of("ddp", {{"shard_optimizer", "false"}}, 2).plan.memory[1] ==
        RankMemory{kWhole, kWhole, 2 * kWhole});
  CHECK(plan_of("zero", {{"stage", "1"}}, 4).plan.memory[3] == RankMemory{kWhole / 4, kWhole, kWhole / 2});
  const auto zero = [](const std::string& bucket_bytes) {
    return plan_of("zero", {{"stage", "3"}, {"bucket_bytes", bucket_bytes}}, 4).plan.memory[3];
  };
  CHECK(zero("1000000") == RankMemory{kWhole / 4, kWhole / 4 + kWhole, kWhole / 2});
  // Each block is a row of its own, and is gathered while the block before it runs; the last block has the
  // first block's weight.
  const RankMemory gathered =
      plan_of("zero", {{"stage", "3"}, {"parameters", "all"}, {"bucket_bytes", "1000000"}}, 4).plan.memory[3];
  CHECK(gathered.parameters >= kWhole / 4 + kWhole);
  CHECK(gathered.parameters < kWhole / 4 + kWhole + 100'000);
  CHECK(gathered.optimizer == kWhole / 2);
  CHECK(zero("0") == RankMemory{kWhole / 4, kWhole / 4 + kWhole, kWhole / 2});
  // With accumulation whole gradients, or the shards of a micro-batch and of the sum.
  Options accumulates = options_for("zero", {{"stage", "2"}, {"bucket_bytes", "1000"}}, 4);
  accumulates.trainer.accumulate_grad_batches = 2;
  CHECK(plan_of(accumulates).plan.memory[0].gradients == kWhole + kWhole / 4 + kWhole);
  accumulates.strategy.args["accumulation"] = "shards";
  CHECK(plan_of(accumulates).plan.memory[0].gradients == 2 * kWhole / 4 + kWhole);
  // A micro-batch's gradients are added to those of the micro-batches before.
  Options ddp_accumulates = options_for("ddp", {}, 2);
  ddp_accumulates.trainer.accumulate_grad_batches = 2;
  CHECK(plan_of(ddp_accumulates).plan.memory[0].gradients == kWhole + kPassing);
}

TEST_CASE("an outer step keeps two numbers for each parameter, where there are several nodes",
          "[plan_memory]") {
  Options options = options_for("ddp", {{"model_averaging_period", "8"}, {"outer_lr", "0.7"}}, 4);
  CHECK(plan_of(options).plan.memory[0].optimizer == 2 * kWhole / 4);
  options.plan_ranks_per_node = 2;
  CHECK(plan_of(options).plan.memory[0].optimizer == 4 * kWhole / 2);
}

TEST_CASE("parameters without an optimizer are whole on every rank", "[plan_memory]") {
  const auto memory = [](const std::string& strategy, const std::map<std::string, std::string>& args) {
    return plan_of(options_for(strategy, args, 4), [] { return std::make_unique<Adapter>("second.weight"); })
        .plan.memory[0];
  };
  constexpr std::int64_t kHalf = kWhole / 2;  // bytes of a block
  // Nothing has frozen the other parameter, so backward makes its gradient.
  CHECK(memory("ddp", {}) == RankMemory{kHalf + kHalf / 4, kWhole, 2 * kHalf / 4});
  CHECK(memory("zero", {{"stage", "1"}}) == RankMemory{kHalf + kHalf / 4, kWhole, 2 * kHalf / 4});
  const std::map<std::string, std::string> gathered{{"stage", "3"}, {"parameters", "all"}};
  CHECK(memory("zero", gathered).parameters ==
        plan_of("zero", gathered, 4).plan.memory[0].parameters + kHalf);
  CHECK(memory("zero", gathered).optimizer == 2 * kHalf / 4);
  // The last stage has the first block's weight, too.
  const std::vector<RankMemory> stages = plan_of(options_for("pipeline", {{"layout", "2,1"}}, 2), [] {
                                           return std::make_unique<Adapter>("first.weight");
                                         }).plan.memory;
  CHECK(stages[0] == RankMemory{2 * kHalf, kHalf, 2 * kHalf});
  CHECK(stages[1] == RankMemory{2 * kHalf, 2 * kHalf, 2 * kHalf});  // the second block's gradient, too
}

/// The first block is frozen.
class Frozen : public Wide {
 public:
  Frozen() { named_parameters()["first.weight"].requires_grad_(false); }
};

TEST_CASE("frozen parameters have no gradients under zero", "[plan_memory]") {
  const auto gradients = [](const std::string& bucket_bytes) {
    return plan_of(options_for("zero", {{"stage", "2"}, {"bucket_bytes", bucket_bytes}}, 4),
                   [] { return std::make_unique<Frozen>(); })
        .plan.memory[0]
        .gradients;
  };
  constexpr std::int64_t kHalf = kWhole / 2;
  CHECK(gradients("1000000") == kHalf / 4 + kHalf);
  CHECK(gradients("0") == kHalf / 4 + kHalf);
}

/// Eight blocks of a million parameters.
class Long : public ChainModule {
 public:
  Long() {
    for (int i = 0; i < 8; ++i)
      add_block(std::to_string(i), torch::nn::Linear(torch::nn::LinearOptions(1000, 1000).bias(false)));
  }
  StepOutput training_step(const Batch& batch, std::int64_t) override {
    return run_blocks(batch).tensor().mean();
  }
  Optimizers configure_optimizers() override { return Adam{.lr = 0.1}; }
};

TEST_CASE("zero has some rows of gradients besides its shard, each at least a parameter", "[plan_memory]") {
  const auto gradients = [](const std::string& parameters, const std::string& bucket_bytes) {
    const std::map<std::string, std::string> args{
        {"stage", "3"}, {"parameters", parameters}, {"bucket_bytes", bucket_bytes}};
    return plan_of(options_for("zero", args, 4), [] { return std::make_unique<Long>(); })
        .plan.memory[0]
        .gradients;
  };
  constexpr std::int64_t kBlock = 4'000'000;
  CHECK(gradients("mapped", "1000") == 2 * kBlock + 3 * kBlock);
  CHECK(gradients("mapped", "5000000") == 2 * kBlock + 3 * 2 * kBlock);
  CHECK(gradients("all", "1000") == 2 * kBlock + 5 * kBlock);
}

TEST_CASE("memory follows precision and optimizer", "[plan_memory]") {
  const std::map<std::string, std::string> whole{{"shard_optimizer", "false"}};
  CHECK(plan_of("ddp", whole, 1, "64-true").plan.memory[0] == RankMemory{2 * kWhole, 2 * kWhole, 4 * kWhole});
  CHECK(plan_of("ddp", whole, 1, "bf16-true").plan.memory[0] ==
        RankMemory{kWhole / 2, kWhole / 2, 2 * kWhole});
  CHECK(plan_of("ddp", whole, 1, "32-true", {.optimizer = Sgd{.lr = 0.1}}).plan.memory[0] ==
        RankMemory{kWhole, kWhole, 0});
  Options o2 = options_for("ddp", whole, 1);
  o2.trainer.precision = "16-mixed";
  o2.trainer.amp_level = "O2";
  CHECK(plan_of(o2).plan.memory[0] == RankMemory{kWhole / 2, kWhole / 2, 4 * kWhole});
  CHECK(plan_of(o2, [] { return std::make_unique<Frozen>(); }).plan.memory[0] ==
        RankMemory{kWhole / 2, kWhole / 4, 4 * kWhole / 2 + kWhole / 2});
}

TEST_CASE("a stage of a pipeline has its own blocks, and those that share their parameters",
          "[plan_memory]") {
  const std::vector<RankMemory> two = plan_of("pipeline", {{"layout", "2,1"}}, 2).plan.memory;
  CHECK(two[1] == RankMemory{kWhole, kWhole, 2 * kWhole});      // the first stage
  CHECK(two[0] == RankMemory{kWhole / 2, kWhole / 2, kWhole});  // the last one
  const std::vector<RankMemory> grid =
      plan_of("pipeline", {{"layout", "2,1"}, {"stages", "2"}, {"shard_optimizer", "true"}}, 4).plan.memory;
  CHECK(grid[3] == RankMemory{kWhole, 2 * kWhole, kWhole});
  Options accumulates = options_for("pipeline", {{"layout", "2,1"}}, 2);
  accumulates.trainer.accumulate_grad_batches = 2;
  CHECK(plan_of(accumulates).plan.memory[0].gradients == kWhole / 2 + kPassing / 2);
  const ResolvedPlan wrong = plan_of("pipeline", {{"layout", "2,2"}}, 2);
  REQUIRE_FALSE(wrong.plan.ok());
  CHECK_THAT(wrong.plan.errors[0].message, test::contains("2 parts of 3 blocks are needed"));
}

TEST_CASE("a model that fits no device is refused with the cure", "[plan_memory]") {
  Options options;
  options.trainer.strategy = "ddp";
  options.trainer.gpus = "2";
  Hardware hardware;
  hardware.nodes.push_back({.hostname = "n1", .cores = 8, .gpus = {}});
  for (int index = 0; index < 2; ++index)
    hardware.nodes[0].gpus.push_back({.index = index,
                                      .uuid = "GPU-" + std::to_string(index),
                                      .name = "small",
                                      .memory_total_mib = index == 0 ? 64 : 16});
  Plan plan = resolve(options, hardware, {}, strategies_with_memory());
  REQUIRE(plan.errors.empty());
  const ShapesOnly shapes;
  Wide model;
  fill_in_memory(plan, hardware, options, model);
  REQUIRE(plan.errors.size() == 1);
  CHECK(plan.errors[0].code == MessageCode::out_of_memory);
  CHECK_THAT(plan.errors[0].message, test::contains("32.0 MB") || test::contains("on rank 1"));
  CHECK_THAT(plan.errors[0].hint, test::contains("--strategy zero"));
}

TEST_CASE("plan shows the memory of the rank that needs most", "[plan_memory]") {
  CHECK_THAT(
      to_text(plan_of("pipeline", {{"layout", "2,1"}}, 2).plan),
      test::contains(
          "memory      32.0 MB on rank 1: parameters 8.00 MB, gradients 8.00 MB, optimizer 16.0 MB") ||
          test::contains("memory      32 MB on rank 1: parameters 8 MB, gradients 8 MB, optimizer 16 MB"));
  CHECK_THAT(to_json(plan_of("ddp", {}, 2).plan),
             test::contains(R"("memory":[{"parameters":4000000,"gradients":8000000,"optimizer":8000000},)"));
}

}  // namespace
}  // namespace cxtrain
