#pragma once

#include <string_view>

#include "cxtrain/base/stage.h"
#include "cxtrain/config/hyperparameters.h"
#include "cxtrain/config/options.h"
#include "cxtrain/data/dataset.h"
#include "cxtrain/state/state_dict.h"
#include "cxtrain/trainer/batch_context.h"

namespace cxtrain {

/// The data of a run, as in Lightning: one object with every split. Each call of the trainer (`fit`, `test`
/// ...) first calls `prepare_data` and `setup`. Errors of the data are a DataError: a file that is missing or
/// damaged.
class DataModule : public HyperparametersMixin {
 public:
  static constexpr std::string_view kKind = "data";
  using Interface = DataModule;
  virtual ~DataModule() = default;

  /// Downloads or converts files: called on one rank of each node, while the other ranks wait for it
  /// (`--timeout_seconds`). Must not communicate, or set members that `setup` reads on other ranks.
  virtual void prepare_data(const DataOptions& /*options*/) {}
  /// Opens the data of the stage; `Stage::fit` for tuning, too. Called on every rank, which builds equal
  /// datasets.
  virtual void setup(Stage /*stage*/, const DataOptions& /*options*/) {}

  /// A spec without a dataset means that the stage has no data. Evaluations and predictions read several
  /// loaders one after the other (`Module::dataloader_idx`).
  virtual Loaders train_dataloader() = 0;
  virtual Loaders val_dataloader() { return {}; }
  virtual Loaders test_dataloader() { return {}; }
  virtual Loaders predict_dataloader() { return {}; }

  /// Change a batch before and after its transfer to the rank's device, in the thread of the loop:
  /// Lightning's hooks of these names. By default call the module's hooks: the data module's hook takes the
  /// place of the module's.
  virtual void on_before_batch_transfer(Batch& batch, BatchContext& context);
  virtual void on_after_batch_transfer(Batch& batch, BatchContext& context);

  /// Saves and loads the state of the data in a training: Lightning's hooks of these names. Called between
  /// two steps, on every rank. A resume on an equal number of ranks gives each rank its own state, on another
  /// number the state of rank 0. Loaded after `setup`, before any loader is made.
  virtual void on_save_checkpoint(StateDict& /*state*/) {}
  virtual void on_load_checkpoint(const StateDict& /*state*/) {}
};

}  // namespace cxtrain
