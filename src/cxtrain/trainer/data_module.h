#pragma once

#include <cstdint>
#include <string_view>

#include "cxtrain/config/options.h"
#include "cxtrain/data/dataset.h"
#include "cxtrain/state/state_dict.h"

namespace cxtrain {

/// The data of a run, as in Lightning: one object with every split. `setup` is called once on every rank
/// before any other method, and throws DataError for a file that is missing or damaged.
class DataModule {
 public:
  static constexpr std::string_view kKind = "data";
  using Interface = DataModule;
  virtual ~DataModule() = default;

  virtual void setup(const DataOptions& options) = 0;

  /// A spec without a dataset means that the stage has no data.
  virtual DataLoaderSpec train_dataloader() = 0;
  virtual DataLoaderSpec val_dataloader() { return {}; }
  virtual DataLoaderSpec test_dataloader() { return {}; }
  virtual DataLoaderSpec predict_dataloader() { return {}; }

  /// Saves and loads the state of the data in a training: Lightning's hooks of these names. Called between
  /// two steps, on every rank; a file keeps the state of rank 0. Loaded after `setup`, before any loader is
  /// made.
  virtual void on_save_checkpoint(StateDict& /*state*/) {}
  virtual void on_load_checkpoint(const StateDict& /*state*/) {}
};

}  // namespace cxtrain
