#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "cxtrain/callbacks/callback.h"
#include "cxtrain/trainer/fit_data.h"
#include "cxtrain/trainer/optimization.h"
#include "cxtrain/trainer/train_context.h"

namespace cxtrain {

/// Stochastic weight averaging (Izmailov et al. 2018): from 0.8 of the epochs on (Lightning's default) the
/// learning rate stays where it is, the parameters at the end of each epoch enter an equally weighted mean,
/// and the mean becomes the model when training ends. Batch norm's statistics are then taken anew, in one
/// pass over the training data without gradients, as they belong to other parameters: each rank's over its
/// share of the data, joined to those of all. The same on all ranks.
class StochasticWeightAveraging final : public Callback {
 public:
  /// All references outlive it. Throws ConfigError where the number of epochs is not known.
  StochasticWeightAveraging(TrainContext& context, FitData& data, Optimization& optimization);

  void on_train_epoch_end(Run& view) override;
  void on_train_end(Run& view) override;
  void on_save_checkpoint(StateDict& state) override;
  void on_load_checkpoint(const StateDict& state) override;
  std::string state_key() const override { return "StochasticWeightAveraging"; }

 private:
  std::vector<Piece> means() const;
  void renew_batch_norm_statistics();

  TrainContext& context_;
  FitData& data_;
  Optimization& optimization_;
  std::int64_t first_epoch_;
  std::int64_t epochs_averaged_ = 0;
  std::vector<at::Tensor> parameters_;  ///< that this rank updates
  std::vector<at::Tensor> means_;
};

}  // namespace cxtrain
