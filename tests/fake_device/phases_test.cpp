#include "cxtrain/base/phase_clock.h"

#include "fake_run.h"
#include "fixture.h"

namespace cxtrain {
namespace {

TEST_CASE_METHOD(test::TwoFakeDevices, "a device has a phase of transfers, on the host's clock") {
  SoloWorld world;
  const Options options = test::short_run("single");
  test::FakeAccelerator accelerator(test::kFakeDevices);
  test::ToyData data(96, 12);
  test::Regression model;
  Trainer trainer(world, options, test::on_fake_devices(world, options), {}, &accelerator);
  PhaseClock clock;
  trainer.fit(model, data);
  clock.stop();
  CHECK(clock.steps() == 20);
  for (const Phase phase : {Phase::data, Phase::transfer, Phase::forward, Phase::backward, Phase::reduce,
                            Phase::optimizer, Phase::publish, Phase::agree, Phase::hooks}) {
    CAPTURE(word_of(phase));
    CHECK(clock.seconds(phase) > 0);
  }
}

}  // namespace
}  // namespace cxtrain
