#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "cxtrain/cluster/world.h"
#include "support/temp_dir.h"
#include "support/toy_models.h"

namespace cxtrain::test {

/// A training in this process, with options that a test may change and a folder of its own.
struct Setting {
  TempDir dir;
  SoloWorld world;
  Options options = quiet(dir.path());

  RunSummary fit(Module& model, DataModule& data, std::vector<std::unique_ptr<Callback>> callbacks = {}) {
    Trainer trainer(world, options);
    for (auto& callback : callbacks) trainer.add_callback(std::move(callback));
    return trainer.fit(model, data);
  }
};

}  // namespace cxtrain::test
