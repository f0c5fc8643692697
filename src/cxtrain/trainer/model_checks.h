#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cxtrain/metrics/async_scalars.h"
#include "cxtrain/report/model_summary.h"
#include "cxtrain/strategy/trained_parameters.h"
#include "cxtrain/tensor/piece.h"
#include "cxtrain/trainer/module.h"

/// What a model shows of itself: whether it is finite, the norms of its gradients, its layers.
namespace cxtrain {

/// Throws ConfigError where a parameter that is trained is complex: neither optimizers nor the sums over
/// ranks know what such a number's gradient is.
void require_real_parameters(const Module& module);
/// `terminate_on_nan`: whether a step's loss, and the parameters after it, are finite. What is asked after
/// one step can be answered after the next, so that no device waits for the host.
class FiniteCheck {
 public:
  /// Asks about a step's loss; an undefined one is fine.
  void ask(const at::Tensor& loss);
  /// Asks about the parameters that the step has updated, of all optimizers. Called on every rank.
  void ask(const std::vector<TrainedParameters*>& trained);
  /// Answers what was asked. Throws TrainingError where the loss is NaN or infinite; and, on all ranks that
  /// share the work, where a parameter holds such a value, which the rank that has it names.
  void answer();

 private:
  std::optional<AsyncScalars> loss_,
      parameters_;                  ///< of each parameter the largest value; then what ranks found
  std::vector<std::string> names_;  ///< of `parameters_`
};

/// `track_grad_norm`: the norm of order `p` (infinity: the largest absolute value) of each parameter's
/// gradient, from `norms` in the order of the parameters, and of all of them together, under Lightning's
/// names: grad_2.0_norm_NAME and grad_2.0_norm_total. Parameters without a gradient are left out. Each norm
/// is one number, on the device.
std::vector<std::pair<std::string, at::Tensor>> named_norms(const std::vector<NamedTensor>& parameters,
                                                            const std::vector<at::Tensor>& norms, double p);

/// The direct children of the module for its summary (Lightning's max_depth = 1), and its own parameters as a
/// row.
std::vector<LayerRow> layer_rows(const Module& module);

}  // namespace cxtrain
