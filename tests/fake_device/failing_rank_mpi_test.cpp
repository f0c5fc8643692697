#include <chrono>
#include <thread>

#include "cxtrain/base/error.h"
#include "cxtrain/strategy/local_step.h"
#include "fake_run.h"
#include "fixture.h"
#include "support/fake_device/fake_nccl_accelerator.h"
#include "support/host_communicator.h"
#include "support/mpi_world.h"

/// Jobs in which the last rank's device fails, and what lies there cannot be given back any more. They are
/// for way_out_nccl_test.cpp, which sees how they end: no case of these tests goes on after them.
namespace cxtrain {
namespace {

/// As memory of a device that has failed, or its connections: who gives it back waits for ever.
struct NeverGivenBack {
  explicit NeverGivenBack(bool held) : held_(held) {}
  ~NeverGivenBack() {
    while (held_) std::this_thread::sleep_for(std::chrono::seconds(1));
  }
  NeverGivenBack(const NeverGivenBack&) = delete;
  NeverGivenBack& operator=(const NeverGivenBack&) = delete;

 private:
  bool held_;
};

enum class Held { by_model, by_strategy, by_parameters };

class FailingModel final : public test::Regression {
 public:
  explicit FailingModel(bool holds) : held_(holds) {}
  StepOutput training_step(const Batch& batch, std::int64_t idx) override {
    if (idx == 3 && test_world().rank() == test_world().size() - 1)
      throw Error(ExitCode::requeue, MessageCode::none, "the device has failed");
    return Regression::training_step(batch, idx);
  }

 private:
  NeverGivenBack held_;
};

class HoldingGradients final : public LocalGradients {
 public:
  HoldingGradients(std::vector<NamedTensor> parameters, bool holds)
      : LocalGradients(std::move(parameters)), held_(holds) {}

 private:
  NeverGivenBack held_;
};

/// All ranks by themselves; they meet where the loop agrees.
class HoldingStrategy final : public LocalStrategy {
 public:
  explicit HoldingStrategy(Held held)
      : held_(held == Held::by_strategy), parameters_hold_(held == Held::by_parameters) {}
  void connect() override {}
  DataShard data_shard() const override { return {context_->world.rank(), context_->world.size()}; }
  void visit_whole(const std::function<void(const NamedTensor&)>& visit) override {
    LocalStrategy::visit_whole(visit);
  }
  std::string describe() const override { return "a test's"; }
  void teardown() override { release_exchanges(); }

 private:
  std::unique_ptr<GradientExchange> make_exchange(std::span<const OptimizerTarget> targets) override {
    return std::make_unique<HoldingGradients>(parameters_of(targets), parameters_hold_);
  }

  NeverGivenBack held_;
  bool parameters_hold_;
};

template <Held kHeld>
std::unique_ptr<Strategy> make_holding(const NoArgs&) {
  return std::make_unique<HoldingStrategy>(kHeld);
}

template <Held kHeld>
void train_until_it_fails() {
  MpiWorld& world = test_world();
  HostCommunicator ranks = test::host_communicator();
  test::FakeNcclAccelerator accelerator(test::kFakeDevices, ranks);
  const Options options = test::short_run("ddp", std::to_string(world.size()));
  Plan plan = test::on_fake_devices(world, options);
  plan.strategy = "holding";
  plan.strategy_arguments = {};
  Registry registry;
  registry.add("holding", "", {}, &make_holding<kHeld>);
  test::ToyData data(96 * world.size(), 6);
  FailingModel model(kHeld == Held::by_model);
  Trainer(world, options, plan, std::move(registry), &accelerator).fit(model, data);
}

TEST_CASE("a rank fails whose model never ends", "[.holding_model]") {
  train_until_it_fails<Held::by_model>();
}

TEST_CASE("a rank fails whose strategy never ends", "[.holding_strategy]") {
  train_until_it_fails<Held::by_strategy>();
}

TEST_CASE("a rank fails whose trained parameters never end", "[.holding_parameters]") {
  train_until_it_fails<Held::by_parameters>();
}

}  // namespace
}  // namespace cxtrain
