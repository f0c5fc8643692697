#pragma once

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "cxtrain/state/stateful.h"
#include "cxtrain/trainer/data_module.h"
#include "cxtrain/trainer/fit_data.h"
#include "cxtrain/trainer/optimization.h"
#include "cxtrain/trainer/train_context.h"

namespace cxtrain {

/// All that a fit remembers from one step to the next, so that another one, on new objects, goes on from
/// there to the same bits: the loop's place, the model, the optimizer with loss scale and schedule, what the
/// strategy knows of its steps, metrics of the running epoch, random generators, the position of a stream,
/// and what callbacks, loggers, the module and the data keep for themselves. Each has a section of its own.
class TrainingState {
 public:
  /// All outlive it; the run has its callbacks.
  TrainingState(TrainContext& context, FitData& loaders, Optimization& optimization);
  ~TrainingState();

  /// Between two steps, on every rank. Tensors are the training's own.
  StateDict save() const;

  /// The sections in which ranks remember different things.
  std::set<std::string> sections_of_each_rank() const;

  /// Takes over what a fit like this one has saved, on a rank of the same number; before the hooks of a
  /// beginning. `from`: the folder of the run that saved it. Throws StateError, on all ranks alike, naming
  /// what is missing or of another kind. Collective.
  void load(StateDict state, const RunFolder& from);
  /// After the hooks of a beginning: what they may have changed in what was loaded. Then the files of
  /// metrics go back to the rows that they had. Does nothing where nothing was loaded.
  void reapply_loaded_state();

 private:
  class Model;
  struct Loaded {
    StateDict state;
    RunFolder from;
  };

  TrainContext& context_;
  Optimization& optimization_;
  std::unique_ptr<Model> model_;
  std::vector<Stateful*> parts_;  ///< the model first
  std::optional<Loaded> loaded_;
};

/// The part of it that decides which data a fit reads, and so comes first: the loop's place, and what the
/// data module remembers. Throws StateError, on all ranks alike. Collective.
void load_place_and_data(const StateDict& state, TrainContext& context);

}  // namespace cxtrain
