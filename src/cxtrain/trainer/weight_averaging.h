#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/_foreach_copy.h>
#include <ATen/ops/_foreach_lerp.h>
#include <ATen/ops/empty_like.h>
#include <c10/util/ScopeExit.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cxtrain/base/error.h"
#include "cxtrain/base/log.h"
#include "cxtrain/callbacks/callback.h"
#include "cxtrain/data/batch.h"
#include "cxtrain/data/data_loader.h"
#include "cxtrain/state/state_dict.h"
#include "cxtrain/tensor/piece.h"
#include "cxtrain/trainer/batch_norms.h"
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
  StochasticWeightAveraging(TrainContext& context, FitData& data, Optimization& optimization)
      : context_(context),
        data_(data),
        optimization_(optimization),
        first_epoch_(first_averaged_epoch(data.limits().max_epochs)),
        parameters_(values_of(optimization.pieces())) {}

  void on_train_epoch_end(Run& view) override {
    if (view.current_epoch() < first_epoch_ || !view.progress().epoch_is_complete) return;
    optimization_.hold_learning_rate();
    optimization_.begin_update();
    if (epochs_averaged_++ == 0) {
      for (const at::Tensor& parameter : parameters_) means_.push_back(parameter.clone());
      return;
    }
    if (parameters_.empty()) return;  // other ranks update all there is
    at::_foreach_lerp_(means_, parameters_, 1.0 / static_cast<double>(epochs_averaged_));
  }
  void on_train_end(Run&) override {
    if (epochs_averaged_ == 0) return;  // stopped early
    optimization_.begin_update();
    if (!parameters_.empty()) at::_foreach_copy_(parameters_, means_);
    optimization_.publish();
    log_info("the parameters are the mean of the parameters after the last " +
             std::to_string(epochs_averaged_) + " epochs");
    renew_batch_norm_statistics();
  }
  void on_save_checkpoint(StateDict& state) override {
    state.set("epochs_averaged", epochs_averaged_);
    if (epochs_averaged_ > 0) state.make_section("means").add(means());
  }
  void on_load_checkpoint(const StateDict& state) override {
    epochs_averaged_ = state.integer("epochs_averaged");
    means_.clear();
    if (epochs_averaged_ == 0) return;
    for (const at::Tensor& parameter : parameters_) means_.push_back(at::empty_like(parameter));
    fill_pieces(means(), state.section("means").pieces());
  }
  std::string state_key() const override { return "StochasticWeightAveraging"; }

 private:
  /// Lightning's `swa_epoch_start`.
  static constexpr double kStart = 0.8;

  static std::int64_t first_averaged_epoch(std::int64_t max_epochs) {
    if (max_epochs > 0) return static_cast<std::int64_t>(kStart * static_cast<double>(max_epochs));
    throw ConfigError("trainer.stochastic_weight_avg",
                      "averages over the last fifth of the epochs, and their number is not known",
                      "give --max_epochs", MessageCode::missing_value);
  }

  /// Of the pieces that this rank updates, under their names.
  std::vector<Piece> means() const {
    std::vector<Piece> means = optimization_.pieces();
    for (std::size_t i = 0; i < means_.size(); ++i) means[i].values = means_[i];
    return means;
  }

  void renew_batch_norm_statistics() {
    std::vector<BatchNormLayer> layers = batch_norms(context_.parts.module);
    if (layers.empty()) return;
    double samples = 0;
    {
      // Statistics that are plain means over all batches from now on, for batch norms that keep any; the
      // running mean's momentum comes back at the end.
      std::vector<std::optional<double>> momenta;
      for (const BatchNormLayer& layer : layers) {
        momenta.push_back(layer.options->momentum());
        layer.options->momentum(std::nullopt);
        layer.reset_statistics();
      }
      const auto statistics = c10::make_scope_exit([&] {
        for (std::size_t i = 0; i < layers.size(); ++i) layers[i].options->momentum(momenta[i]);
      });
      DataLoader& loader = data_.train();
      loader.start_epoch(context_.state.epoch, 0, data_.limits().train_batches);
      Batch batch;
      while (context_.batches.next(loader, batch)) {
        context_.parts.strategy.forward(batch, loader.batch_idx());
        samples += static_cast<double>(batch.size);
      }
    }
    context_.parts.strategy.complete_buffers();
    pool_statistics(layers, samples, context_.parts.world);
    optimization_.publish();
  }

  TrainContext& context_;
  FitData& data_;
  Optimization& optimization_;
  std::int64_t first_epoch_;
  std::int64_t epochs_averaged_ = 0;
  std::vector<at::Tensor> parameters_;  ///< that this rank updates
  std::vector<at::Tensor> means_;
};

}  // namespace cxtrain
