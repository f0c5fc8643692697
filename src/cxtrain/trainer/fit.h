#pragma once

#include <memory>
#include <optional>
#include <string>

#include "cxtrain/state/state_dict.h"
#include "cxtrain/trainer/checkpoint_manager.h"
#include "cxtrain/trainer/data_module.h"
#include "cxtrain/trainer/fit_data.h"
#include "cxtrain/trainer/fit_loop.h"
#include "cxtrain/trainer/module.h"
#include "cxtrain/trainer/optimization.h"
#include "cxtrain/trainer/resume.h"
#include "cxtrain/trainer/session.h"

namespace cxtrain {

/// Position of a training, with its state.
struct ResumePoint {
  StateDict state;
  std::string log_dir;    ///< folder of the run that saved it; empty: it wrote nothing
  bool in_place = false;  ///< continue in that folder, instead of a new one
  std::string data;       ///< fingerprint of its data; empty: any data are accepted
  std::optional<ChosenCheckpoint> checkpoint = {};  ///< the state is from there
};

/// A fit, in an open session. The members are made in the order of `run`. Collective.
class Fit {
 public:
  /// All references outlive it. `from`: the training to resume; absent: a new one.
  Fit(Session& session, Module& module, DataModule& data, std::optional<ResumePoint> from);
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
  std::optional<ResumePoint> from_;
  std::string fingerprint_;  ///< of the training data, on rank 0; empty: none was taken
  std::optional<FitData> loaders_;
  std::unique_ptr<Optimization> optimization_;
  std::optional<CheckpointManager> checkpoints_;
  std::optional<FitLoop> loop_;
};

}  // namespace cxtrain
