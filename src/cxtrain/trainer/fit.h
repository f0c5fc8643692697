#pragma once

#include <memory>
#include <optional>
#include <string>

#include "cxtrain/trainer/checkpoint_manager.h"
#include "cxtrain/trainer/data_module.h"
#include "cxtrain/trainer/fit_data.h"
#include "cxtrain/trainer/fit_loop.h"
#include "cxtrain/trainer/module.h"
#include "cxtrain/trainer/optimization.h"
#include "cxtrain/trainer/resume.h"
#include "cxtrain/trainer/session.h"

namespace cxtrain {

/// A fit, in an open session. The members are made in the order of `run`. Collective.
class Fit {
 public:
  /// All references outlive it. `from`: the training to resume; absent: a new one.
  Fit(Session& session, Module& module, DataModule& data, std::optional<LoadedCheckpoint> from);
  void run();

 private:
  void open_data();
  void require_automatic_optimization();
  void make_optimizer();
  void open_checkpoints();
  void complete_state();
  void announce() const;
  void run_profiled();

  Session& session_;
  TrainContext& context_;
  Module& module_;
  DataModule& data_;
  std::optional<LoadedCheckpoint> from_;
  std::string fingerprint_;  ///< of the training data, on rank 0; empty: none was taken
  std::optional<FitData> loaders_;
  std::unique_ptr<Optimization> optimization_;
  std::optional<CheckpointManager> checkpoints_;
  std::optional<FitLoop> loop_;
};

}  // namespace cxtrain
