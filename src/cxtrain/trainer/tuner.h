#pragma once

#include <cstdint>

#include "cxtrain/trainer/data_module.h"
#include "cxtrain/trainer/module.h"
#include "cxtrain/trainer/session.h"
#include "cxtrain/trainer/train_context.h"
#include "cxtrain/trainer/tuning.h"

namespace cxtrain {

/// What Lightning's Tuner does: tries something out before training, and leaves the model as it was. Its
/// methods are collective.
class Tuner {
 public:
  /// All outlive it; the session is open.
  Tuner(Session& session, Module& module, DataModule& data);

  /// What the options ask for (`auto_scale_batch_size`, `auto_lr_find`), into the run's `tuned`.
  void tune();

  /// The curve is written to lr_find.csv in the run's folder.
  LrFinderResult lr_find(const LrSweep& sweep);
  /// Per rank.
  std::int64_t scale_batch_size(const BatchSizeSearch& search);

 private:
  Session& session_;
  TrainContext& context_;
  Module& module_;
  DataModule& data_;
};

}  // namespace cxtrain
