#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <exception>
#include <vector>

#include "cxtrain/callbacks/callback.h"
#include "cxtrain/config/field.h"
#include "cxtrain/tensor/piece.h"

namespace cxtrain {

/// Exponential moving averages of the parameters: Lightning's EMAWeightAveraging, with the formula of
/// `torch.optim.swa_utils`, average = decay * average + (1 - decay) * parameter. The first update copies the
/// parameters. A validation sees the averages in place of the parameters; buffers stay the model's. When the
/// training ends, the averages become the model, which a test after the fit evaluates.
///
/// Each rank averages the parts of the parameters that it updates, and so works under every strategy of one
/// replica a rank. If a rank keeps master weights (AMP's O2), the averages begin with them. A checkpoint has
/// the model's own parameters as the model, and the averages as state of this callback.
class Ema final : public Callback {
 public:
  struct Args {
    double decay = 0.999;
    std::int64_t every_n_steps = 1;
    std::int64_t start_step = 0;

    void fields(auto&& field) {
      field("decay", decay, "weight of the old average in each update", Range::between(0, 1));
      field("every_n_steps", every_n_steps, "optimizer steps between two updates", Range::at_least(1));
      field("start_step", start_step, "optimizer step of the first update", Range::at_least(0));
    }
  };
  /// Throws ConfigError for arguments outside of their ranges.
  explicit Ema(const Args& args);

  /// Throws ConfigError if a rank keeps several replicas.
  void setup(Run& run, Stage stage) override;
  void on_train_batch_start(Run&, const Batch&, std::int64_t) override {
    swap_out();  // a validation that ended early, without its last hook
  }
  void on_train_batch_end(Run& run, const StepOutput& output, const Batch& batch,
                          std::int64_t batch_idx) override;
  void on_validation_start(Run&) override { swap_in(); }
  void on_validation_end(Run&) override { swap_out(); }
  void on_train_end(Run& run) override;
  void on_exception(Run& run, const std::exception& error) override;
  void on_save_checkpoint(StateDict& state) override;
  void on_load_checkpoint(const StateDict& state) override;
  std::string state_key() const override { return "Ema"; }

 private:
  const std::vector<Piece>& pieces() const { return run_->progress().optimizers->pieces(); }
  /// The values of the pieces, with what hooks have written to the parameters since the last update.
  std::vector<at::Tensor> values() const;
  void update();
  void make_averages();
  std::vector<Piece> named_averages() const;
  /// Copies values into the pieces of this rank.
  void write(const std::vector<at::Tensor>& values);
  /// Writes values, and brings the new parameters to all ranks. Collective.
  void replace_by(const std::vector<at::Tensor>& values);
  /// Puts the averages in the place of the parameters, which `swap_out` brings back. Collective.
  void swap_in();
  void swap_out();

  Args args_;
  Run* run_ = nullptr;                ///< the fit's
  std::vector<at::Tensor> values_;    ///< of the pieces, from the first update on
  std::vector<at::Tensor> averages_;  ///< of the pieces; none before the first update
  std::vector<at::Tensor> own_;       ///< the pieces' values, while the averages are in their place
  bool swapped_ = false;
  std::int64_t updates_ = 0;
};

}  // namespace cxtrain
