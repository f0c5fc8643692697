#include "fake_run.h"
#include "fixture.h"
#include "support/fake_device/fake_nccl_accelerator.h"
#include "support/host_communicator.h"
#include "support/mpi_world.h"

/// When ranks that compute on devices agree on what to do next.
namespace cxtrain {
namespace {

using test::Regression;
using test::ToyData;

/// The last rank, or every rank, wishes something once its third batch is done.
class Wishing final : public Callback {
 public:
  Wishing(std::function<void(Run&)> wish, RequestedBy by) : wish_(std::move(wish)), by_(by) {}
  void on_train_batch_end(Run& run, const StepOutput&, const Batch&, std::int64_t idx) override {
    const bool wishes = by_ == RequestedBy::all_ranks || run.rank() == run.world().size() - 1;
    if (idx == 2 && wishes) wish_(run);
  }
  void on_checkpoint(Run& run, const StateDict&) override {
    saved_at.push_back(run.global_step());
    run.saved_checkpoints().add(0);
  }
  std::vector<std::int64_t> saved_at;

 private:
  std::function<void(Run&)> wish_;
  const RequestedBy by_;
};

struct Outcome {
  RunSummary summary;
  std::vector<std::int64_t> saved_at;
};

Outcome run_on(bool device, std::int64_t max_steps, const std::function<void(Run&)>& wish,
               RequestedBy by = RequestedBy::a_rank) {
  MpiWorld& world = test_world();
  Options options = test::short_run("ddp", std::to_string(world.size()));
  options.trainer.max_steps = max_steps;
  ToyData data(24 * world.size(), 2);
  Regression model;
  auto callback = std::make_unique<Wishing>(wish, by);
  Wishing& wishing = *callback;
  HostCommunicator ranks = test::host_communicator();
  test::FakeNcclAccelerator accelerator(test::kFakeDevices, ranks);
  const Plan plan = device ? test::on_fake_devices(world, options) : Trainer(world, options).plan();
  Trainer trainer(world, options, plan, {}, device ? &accelerator : nullptr);
  trainer.add_callback(std::move(callback));
  Outcome outcome;
  outcome.summary = trainer.fit(model, data);
  outcome.saved_at = wishing.saved_at;
  return outcome;
}

}  // namespace

TEST_CASE_METHOD(test::TwoFakeDevices,
                 "ranks on devices agree within a step, so that a wish counts from the next one on") {
  const bool on_device = GENERATE(false, true);
  CAPTURE(on_device);
  // A rank that is alone, or whose strategy waits for the others anyway, need not wait to be sure.
  const std::int64_t later = on_device && test_world().size() > 1 ? 1 : 0;
  const Outcome stopped = run_on(on_device, 10, [](Run& run) { run.request_stop("enough"); });
  CHECK(stopped.summary.global_step == 3 + later);
  const Outcome saved = run_on(on_device, 10, [](Run& run) { run.request_checkpoint(); });
  CHECK(saved.summary.global_step == 10);
  CHECK(saved.saved_at == std::vector<std::int64_t>{3 + later});
  const Outcome requeued = run_on(on_device, 10, [](Run& run) { run.request_requeue("away"); });
  CHECK(requeued.summary.exit_code == 75);
  CHECK(requeued.saved_at == std::vector<std::int64_t>{3 + later});
}

TEST_CASE_METHOD(test::TwoFakeDevices, "what all ranks request needs no vote, and takes effect at once") {
  const bool on_device = GENERATE(false, true);
  constexpr RequestedBy kAll = RequestedBy::all_ranks;
  const Outcome stopped = run_on(
      on_device, 10, [](Run& run) { run.request_stop("enough", kAll); }, kAll);
  CHECK(stopped.summary.global_step == 3);
  const Outcome saved = run_on(
      on_device, 10, [](Run& run) { run.request_checkpoint(kAll); }, kAll);
  CHECK(saved.summary.global_step == 10);
  CHECK(saved.saved_at == std::vector<std::int64_t>{3});
}

TEST_CASE_METHOD(test::TwoFakeDevices, "what the last step's hooks wish for is heard") {
  const bool on_device = GENERATE(false, true);
  const Outcome saved = run_on(on_device, 3, [](Run& run) { run.request_checkpoint(); });
  CHECK(saved.summary.global_step == 3);
  CHECK(saved.saved_at == std::vector<std::int64_t>{3});
}

}  // namespace cxtrain
