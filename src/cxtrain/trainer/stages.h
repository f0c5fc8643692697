#pragma once

#include <vector>

#include "cxtrain/strategy/strategy.h"
#include "cxtrain/trainer/data_module.h"
#include "cxtrain/trainer/module.h"
#include "cxtrain/trainer/predictions.h"
#include "cxtrain/trainer/session.h"
#include "cxtrain/trainer/tuning.h"

/// What a trainer does in an open session, besides a fit (trainer/fit.h). Each is made, and run once, on
/// every rank; all references outlive it. Collective.
namespace cxtrain {

/// A validation or a test. Logs the metrics.
class Evaluation {
 public:
  Evaluation(Session& session, Module& /*module*/, DataModule& data, EvaluationStage stage)
      : session_(session), data_(data), stage_(stage) {}
  void run();

 private:
  Session& session_;
  DataModule& data_;
  EvaluationStage stage_;
};

/// A prediction. Writes the outputs of this rank's shard to `predictions`, with an entry for each loader, and
/// to the run's folder.
class Prediction {
 public:
  Prediction(Session& session, Module& /*module*/, DataModule& data, std::vector<Predictions>& predictions)
      : session_(session), data_(data), predictions_(predictions) {}
  void run();

 private:
  Session& session_;
  DataModule& data_;
  std::vector<Predictions>& predictions_;
};

/// A sweep of the learning rate.
class LrFind {
 public:
  LrFind(Session& session, Module& module, DataModule& data, const LrSweep& sweep, LrFinderResult& result)
      : session_(session), module_(module), data_(data), sweep_(sweep), result_(result) {}
  void run();

 private:
  Session& session_;
  Module& module_;
  DataModule& data_;
  const LrSweep& sweep_;
  LrFinderResult& result_;
};

/// A search for the largest batch size.
class ScaleBatchSize {
 public:
  ScaleBatchSize(Session& session, Module& module, DataModule& data, const BatchSizeSearch& search,
                 std::int64_t& found)
      : session_(session), module_(module), data_(data), search_(search), found_(found) {}
  void run();

 private:
  Session& session_;
  Module& module_;
  DataModule& data_;
  const BatchSizeSearch& search_;
  std::int64_t& found_;
};

}  // namespace cxtrain
