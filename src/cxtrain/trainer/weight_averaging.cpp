#include "cxtrain/trainer/weight_averaging.h"

#include <ATen/ops/_foreach_copy.h>
#include <ATen/ops/_foreach_lerp.h>
#include <ATen/ops/empty_like.h>
#include <c10/util/ScopeExit.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "cxtrain/base/error.h"
#include "cxtrain/base/log.h"
#include "cxtrain/trainer/batch_norms.h"

namespace cxtrain {
namespace {

/// Lightning's `swa_epoch_start`.
constexpr double kStart = 0.8;

std::int64_t first_averaged_epoch(std::int64_t max_epochs) {
  if (max_epochs > 0) return static_cast<std::int64_t>(kStart * static_cast<double>(max_epochs));
  throw ConfigError("trainer.stochastic_weight_avg",
                    "averages over the last fifth of the epochs, and their number is not known",
                    "give --max_epochs", MessageCode::missing_value);
}

}  // namespace

StochasticWeightAveraging::StochasticWeightAveraging(TrainContext& context, FitData& data,
                                                     Optimization& optimization)
    : context_(context),
      data_(data),
      optimization_(optimization),
      first_epoch_(first_averaged_epoch(data.limits().max_epochs)) {
  for (const Piece& piece : optimization.pieces()) parameters_.push_back(piece.values.detach());
}

void StochasticWeightAveraging::on_train_epoch_end(Run& view) {
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

void StochasticWeightAveraging::on_train_end(Run&) {
  if (epochs_averaged_ == 0) return;  // stopped early
  optimization_.begin_update();
  if (!parameters_.empty()) at::_foreach_copy_(parameters_, means_);
  optimization_.publish();
  log_info("the parameters are the mean of the parameters after the last " +
           std::to_string(epochs_averaged_) + " epochs");
  renew_batch_norm_statistics();
}

/// Of the pieces that this rank updates, under their names.
std::vector<Piece> StochasticWeightAveraging::means() const {
  std::vector<Piece> means = optimization_.pieces();
  for (std::size_t i = 0; i < means_.size(); ++i) means[i].values = means_[i];
  return means;
}

void StochasticWeightAveraging::on_save_checkpoint(StateDict& state) {
  state.set("epochs_averaged", epochs_averaged_);
  if (epochs_averaged_ > 0) state.make_section("means").add(means());
}

void StochasticWeightAveraging::on_load_checkpoint(const StateDict& state) {
  epochs_averaged_ = state.integer("epochs_averaged");
  means_.clear();
  if (epochs_averaged_ == 0) return;
  for (const at::Tensor& parameter : parameters_) means_.push_back(at::empty_like(parameter));
  fill_pieces(means(), state.section("means").pieces());
}

void StochasticWeightAveraging::renew_batch_norm_statistics() {
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

}  // namespace cxtrain
