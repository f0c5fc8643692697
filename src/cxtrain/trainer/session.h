#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cxtrain/data/data_loader.h"
#include "cxtrain/plugin/registry.h"
#include "cxtrain/report/run_json.h"
#include "cxtrain/trainer/fit_data.h"
#include "cxtrain/trainer/run.h"
#include "cxtrain/trainer/trainer.h"

namespace cxtrain {

/// One call of `Trainer::fit`, `validate`, `test` or `predict`, from placing the model to the run's files.
/// Lets go of everything collective when it ends without an error.
class Trainer::Session {
 public:
  Session(Trainer& trainer, Module& module);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  Run& run() { return *run_; }
  const PrecisionPolicy& precision() const { return precision_; }

  /// A loader of this rank's shard. Null when the stage has no data. `batch_size`: other than the options'.
  std::unique_ptr<DataLoader> loader(DataLoaderSpec spec, bool training,
                                     std::optional<std::int64_t> batch_size = {}) const;
  FitData::Loaders fit_loaders(DataModule& data) const;

  /// Gives the model to this session's run (again, after a trial run had it).
  void attach();

  /// Closes the books: summary, run.json, loggers, and the check that all ranks hold the same parameters.
  /// Collective.
  RunSummary finish();

 private:
  void make_replicas();
  void open_log_dir();
  /// A rank without samples runs no forward pass, which the other ranks' batch norms would wait for.
  void require_samples_everywhere(const ShardedSampler& sampler) const;
  void add_callbacks();
  void add_loggers();
  void announce(const Module& module) const;

  Trainer& trainer_;
  PrecisionPolicy precision_;
  std::vector<std::unique_ptr<Module>> replicas_;
  StrategyContext context_;
  std::unique_ptr<Strategy> strategy_;
  std::unique_ptr<Run> run_;
  std::size_t user_callbacks_ = 0, user_loggers_ = 0;  ///< the first ones of the run's
};

}  // namespace cxtrain
