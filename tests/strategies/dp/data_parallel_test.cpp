#include "strategies/dp/data_parallel.h"

#include <ATen/ops/equal.h>

#include "cxtrain/cluster/world.h"
#include "cxtrain/optim/optimizer.h"
#include "cxtrain/strategy/local_step.h"
#include "support/catch.h"
#include "support/toy_models.h"

/// `dp` where every replica has memory of its own, as on GPUs.
namespace cxtrain {
namespace {

using test::Regression;

/// Copies, where NCCL would send.
class CopyingExchange final : public ReplicaExchange {
 public:
  CopyingExchange(std::vector<Replica>& replicas, int& sent) : replicas_(replicas), sent_(sent) {}

  std::string description() const override { return "copies"; }
  void send_parameters() override {
    ++sent_;
    copy(&Replica::parameters, replicas_.size());
  }
  void send_buffers(std::size_t count) override { copy(&Replica::buffers, count); }
  void sum_gradients() override {
    for (std::size_t r = 1; r < replicas_.size(); ++r) {
      for (std::size_t i = 0; i < replicas_[r].parameters.size(); ++i) {
        at::Tensor& own = replicas_[r].parameters[i].tensor.mutable_grad();
        if (own.defined()) replicas_[0].parameters[i].tensor.mutable_grad().add_(own);
        own.reset();
      }
    }
  }

 private:
  void copy(std::vector<NamedTensor> Replica::*list, std::size_t count) {
    const at::NoGradGuard no_grad;
    for (std::size_t r = 1; r < count; ++r) {
      for (std::size_t i = 0; i < (replicas_[r].*list).size(); ++i)
        (replicas_[r].*list)[i].tensor.copy_((replicas_[0].*list)[i].tensor);
    }
  }

  std::vector<Replica>& replicas_;
  int& sent_;
};

struct Unobserved final : StepObserver {
  void before_zero_grad() override {}
  void before_backward(const at::Tensor&) override {}
  void after_backward() override {}
};

/// A model, two replicas of it, and the strategy that has them.
struct Three {
  explicit Three(const std::string& precision = "32-true", const std::string& level = "")
      : policy(precision_policy(precision, level)) {
    context.replicas = {&trainable(second), &trainable(third)};
    strategy->place(trainable(first), context);
    strategy->connect();
  }
  std::unique_ptr<TrainedParameters> prepare(const OptimizerConfig& config) {
    return std::move(
        strategy->prepare({{config, trainable_parameters(trainable(first))}}, Backward::together).front());
  }
  void step(TrainedParameters& trained, Optimizer& optimizer) {
    const MicroStep micro{.batch = batch, .observer = observer};
    OneMicroStep one(micro);
    strategy->step(one);
    trained.synchronize();
    optimizer.step({.gradients = trained.gradients()});
    trained.publish();
  }
  /// The next pass sees to it that the replicas are as the primary.
  void pass() { strategy->evaluation_step(EvaluationStage::validate, batch, 0); }

  Regression first, second, third;
  SoloWorld world;
  Plan plan;
  Options options;
  PrecisionPolicy policy;
  StrategyContext context{world, plan, options, policy};
  int sent = 0;
  std::unique_ptr<Strategy> strategy =
      make_dp_strategy([this](std::vector<Replica>& replicas, ReplicaThreads&, const StrategyContext&) {
        return std::make_unique<CopyingExchange>(replicas, sent);
      });
  Batch batch{{at::randn({6, 6}), at::randn({6, 2})}, 6};
  Unobserved observer;
};

TEST_CASE("every replica goes on with the parameters that the optimizer has made of the primary's") {
  const OptimizerConfig config = GENERATE(OptimizerConfig(Sgd{.lr = 0.1}), OptimizerConfig(Adam{.lr = 0.1}),
                                          OptimizerConfig(AdamW{.lr = 0.1}));
  Three models;
  const at::Tensor start = test::flat_parameters(models.first).clone();
  const auto trained = models.prepare(config);
  const auto optimizer = make_optimizer({.optimizer = config}, models.first.all_parameters());
  for (int step = 0; step < 3; ++step) models.step(*trained, *optimizer);
  models.pass();
  const at::Tensor primary = test::flat_parameters(models.first);
  CHECK_FALSE(at::equal(primary, start));
  CHECK(at::equal(test::flat_parameters(models.second), primary));
  CHECK(at::equal(test::flat_parameters(models.third), primary));
  CHECK(models.sent == 4);
  models.pass();
  CHECK(models.sent == 4);  // nothing has changed
}

TEST_CASE("what is published reaches the replicas, whoever wrote it and by whatever way") {
  Three models;
  const auto trained = models.prepare(AdamW{});
  models.pass();
  *models.first.first->weight.mutable_data_ptr<float>() = 7;  // no version counter knows of it
  trained->publish();
  models.pass();
  CHECK(at::equal(models.third.first->weight, models.first.first->weight));
  {
    const at::NoGradGuard no_grad;
    models.first.first->bias.add_(1);  // and here nobody publishes
  }
  models.pass();
  CHECK(at::equal(models.third.first->bias, models.first.first->bias));
}

}  // namespace
}  // namespace cxtrain
