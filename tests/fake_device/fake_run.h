#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cxtrain/trainer/trainer.h"
#include "support/fake_device/fake_accelerator.h"
#include "support/toy_models.h"

namespace cxtrain::test {

/// The plan of a run on CPUs, with fake devices in the CPUs' places: a rank's first is fake:0.
inline Plan on_fake_devices(World& world, const Options& options) {
  Plan plan = Trainer(world, options).plan();
  for (RankPlan& rank : plan.ranks) {
    rank.device = fake_device(0).str();
    for (std::size_t i = 0; i < rank.devices.size(); ++i)
      rank.devices[i] = fake_device(static_cast<int>(i)).str();
  }
  return plan;
}

/// Options of a short training without files.
inline Options short_run(const std::string& strategy, const std::string& devices = "1") {
  Options options = quiet("");
  options.trainer.strategy = strategy;
  options.trainer.accelerator = "cpu";
  options.trainer.devices = devices;
  options.trainer.max_steps = 20;
  options.trainer.max_epochs = -1;
  options.trainer.logger = false;
  return options;
}

}  // namespace cxtrain::test
